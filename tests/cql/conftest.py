"""What the tests of statements share: `db` runs CQL in a keyspace of its own."""
import itertools
from collections.abc import Mapping

import pytest
from cassandra import InvalidRequest
from cassandra.query import SimpleStatement
from cassandra.util import OrderedMap, SortedSet

_names = itertools.count(1)


def plain(value):
    """A value of the driver as Python's own types, so that it compares by content."""
    if isinstance(value, (SortedSet, set, frozenset)):
        return {plain(item) for item in value}
    if isinstance(value, (OrderedMap, Mapping)):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


class Database:
    """A session in a keyspace of the tests, with short words for what tests do."""

    def __init__(self, session, keyspace):
        self.session = session
        self.keyspace = keyspace

    def run(self, text, *values):
        return self.session.execute(text, values or None)

    def rows(self, text, *values):
        """All rows, as tuples of plain values."""
        return [plain(tuple(row)) for row in self.run(text, *values)]

    def column(self, text, *values):
        """The first column of all rows."""
        return [row[0] for row in self.rows(text, *values)]

    def one(self, text, *values):
        """The only value of the only row."""
        rows = self.rows(text, *values)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return rows[0][0]

    def pages(self, text, size):
        """The rows of each page."""
        result = self.session.execute(SimpleStatement(text, fetch_size=size))
        pages = []
        while True:
            pages.append([plain(tuple(row)) for row in result.current_rows])
            if not result.has_more_pages:
                return pages
            result.fetch_next_page()

    def prepared(self, text, *values):
        """Rows of a statement that is prepared first."""
        statement = self.session.prepare(text)
        return [plain(tuple(row)) for row in self.session.execute(statement, values)]

    def refuse(self, text, words, *values, kind=InvalidRequest):
        """The statement must fail with an error of this kind that holds these words."""
        with pytest.raises(kind) as caught:
            self.run(text, *values)
        assert words.lower() in str(caught.value).lower(), f"{text}: {caught.value}"

    def name(self):
        return f"{self.keyspace}.t{next(_names)}"

    def table(self, columns, options=""):
        """A new table; it goes with its keyspace."""
        name = self.name()
        self.run(f"CREATE TABLE {name} ({columns}) {options}")
        return name

    def type(self, fields):
        name = self.name()
        self.run(f"CREATE TYPE {name} ({fields})")
        return name


@pytest.fixture(scope="session")
def db(cql, keyspace):
    return Database(cql, keyspace)
