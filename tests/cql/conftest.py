"""What the tests of statements share: `db` runs CQL in a keyspace of its own.

With --oracle the node is one of Apache Cassandra. What differences.toml names must then fail, for
the reason that stands there: Cassandra answers otherwise, and we mean to differ. Everything else
must pass there too, but for groups with `run = false`, which say nothing about Cassandra.
"""
import itertools
import tomllib
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
from cassandra import InvalidRequest
from cassandra.query import SimpleStatement
from cassandra.util import OrderedMap, SortedSet

from cassandra_node import CassandraNode, Unavailable, class_path
from node import Node

_names = itertools.count(1)
HERE = Path(__file__).resolve().parent
DIFFERS = pytest.StashKey[str]()

# Features that Cassandra has off, and limits that are as ours. Buffers of memtables that are not
# slabs spare a MiB for each of the many tables.
ORACLE_SETTINGS = """\
user_defined_functions_enabled: true
materialized_views_enabled: true
drop_compact_storage_enabled: true
dynamic_data_masking_enabled: true
batch_size_warn_threshold: 128KiB
batch_size_fail_threshold: 1024KiB
memtable_allocation_type: unslabbed_heap_buffers
"""
ORACLE_MACHINE = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def pytest_addoption(parser):
    parser.addoption("--oracle", action="store_true", help="run the cases on Apache Cassandra")


def differences():
    """(reason, whether it is run) of each case, or of all cases whose names begin so."""
    with open(HERE / "differences.toml", "rb") as file:
        groups = tomllib.load(file)["difference"]
    return {case: (group["reason"], group.get("run", True))
            for group in groups for case in group["cases"]}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--oracle"):
        return
    try:
        class_path()
    except (Unavailable, OSError) as why:
        del items[1:]
        items[0].add_marker(pytest.mark.skip(reason=f"oracle: {why}"))
        return
    reasons, used, left_out = differences(), set(), []
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for case, (reason, runs) in reasons.items():
            if name == case or case.endswith("*") and name.startswith(case[:-1]):
                item.stash[DIFFERS] = reason
                used.add(case)
                if not runs:
                    left_out.append(item)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    stale = sorted(set(reasons) - used)
    if stale and config.args == [str(HERE)]:
        raise pytest.UsageError(f"differences.toml names cases that are not there: {stale}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report, reason = outcome.get_result(), item.stash.get(DIFFERS, None)
    if reason is None or call.when == "teardown":
        return
    if report.failed:
        # A test that could not be set up goes on, and fails for want of its fixtures.
        report.outcome, report.longrepr = "passed", None
    elif report.passed and call.when == "call":
        report.outcome = "failed"
        report.longrepr = f"Cassandra does not differ, though differences.toml says: {reason}"


@pytest.fixture(scope="session")
def node(request):
    """A node that the tests share: ours, or the oracle."""
    if request.config.getoption("--oracle"):
        with CassandraNode(ORACLE_SETTINGS, ORACLE_MACHINE) as node:
            yield node
    else:
        with Node() as node:
            yield node


@pytest.fixture
def api(node):
    def post(path):
        url = f"http://{node.address}:10000{path}"
        urllib.request.urlopen(urllib.request.Request(url, method="POST")).read()
    return post


@pytest.fixture
def flush(api):
    def flush(table):
        keyspace, name = table.split(".")
        api(f"/storage_service/keyspace_flush/{keyspace}?cf={name}")
    return flush


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
