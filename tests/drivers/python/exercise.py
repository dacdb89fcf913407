"""What a driver must be able to do, as a program: exercise.py ADDRESS PORT.

It runs with whichever of scylla-driver and cassandra-driver the interpreter has (both are the
module `cassandra`), and prints "N passed, N failed".
"""
import datetime
import decimal
import importlib.util
import ipaddress
import sys
import traceback
import uuid

from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, Time

OF_SCYLLA = importlib.util.find_spec("cassandra.protocol_features") is not None
UUID = uuid.UUID("c4e2f8a0-1d3b-11f0-8de9-0242ac120002")
TYPES = [
    ("ascii", "plain"), ("bigint", -2**63), ("blob", b"\x00\xff"), ("boolean", True),
    ("date", Date(datetime.date(2026, 11, 21))), ("decimal", decimal.Decimal("-12.3400")),
    ("double", 1.5e300), ("duration", Duration(1, 2, 3_000_000_000)), ("float", 0.25),
    ("inet", "2001:db8::1"), ("int", -7), ("smallint", -300), ("text", "gr\u00fc\u00df"),
    ("time", Time(86_399_999_999_999)), ("timestamp", datetime.datetime(2026, 11, 21, 1, 2, 3)),
    ("timeuuid", UUID), ("tinyint", -128), ("uuid", uuid.UUID(int=5)), ("varint", -2**100),
    ("list<int>", [3, 1, 3]), ("set<text>", {"a", "b"}), ("map<int, text>", {1: "x", 2: "y"}),
    ("frozen<list<frozen<set<int>>>>", [{1, 2}, {3}]), ("tuple<int, text>", (1, "z")),
    ("frozen<map<text, frozen<list<int>>>>", {"k": [1]}),
    ("vector<float, 3>", [0.5, 1.5, -2.0]),
]


class Exercise:
    def __init__(self, address, port, version):
        self.version = version
        profile = ExecutionProfile(request_timeout=60,
                                   load_balancing_policy=WhiteListRoundRobinPolicy([address]))
        self.cluster = Cluster([address], port=port, protocol_version=version,
                               execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = self.cluster.connect()
        self.keyspace = f"drivers_v{version}"
        self.session.execute(f"CREATE KEYSPACE IF NOT EXISTS {self.keyspace} WITH replication = "
                             "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
        self.session.set_keyspace(self.keyspace)

    def test_every_type_round_trips(self):
        for number, (name, value) in enumerate(TYPES):
            if name.startswith("vector") and not hasattr(sys.modules["cassandra.cqltypes"],
                                                         "VectorType"):
                continue
            table = f"type_{number}"
            self.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v {name})")
            insert = self.session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
            self.session.execute(insert, (1, value))
            self.session.execute(insert, (2, None))
            rows = {row.k: row.v for row in self.session.execute(f"SELECT k, v FROM {table}")}
            got = rows[1]
            if name.startswith(("list", "vector")):
                got = list(got)
            elif name == "inet":
                got = str(ipaddress.ip_address(got))
            assert str(got) == str(value) or got == value, f"{name}: {got!r} != {value!r}"
            assert not rows[2], f"{name}: {rows[2]!r} is not null"

    def test_user_types(self):
        run = self.session.execute
        run("CREATE TYPE address (street text, number int, tags frozen<set<text>>)")
        run("CREATE TABLE people (k int PRIMARY KEY, home frozen<address>, work address)")
        run("INSERT INTO people (k, home, work) VALUES (1, {street: 'a', number: 3, "
            "tags: {'x'}}, {street: 'b'})")
        run("UPDATE people SET work.number = 9 WHERE k = 1")
        row = run("SELECT home, work FROM people").one()
        assert (row.home.street, row.home.number, set(row.home.tags)) == ("a", 3, {"x"})
        assert (row.work.street, row.work.number, row.work.tags) == ("b", 9, None)

    def test_counters(self):
        self.session.execute("CREATE TABLE counted (k int PRIMARY KEY, n counter)")
        update = self.session.prepare("UPDATE counted SET n = n + ? WHERE k = ?")
        for delta in (5, -2, 2**40):
            self.session.execute(update, (delta, 1))
        assert self.session.execute("SELECT n FROM counted").one().n == 3 + 2**40

    def test_ten_thousand_rows_are_paged(self):
        self.session.execute("CREATE TABLE wide (p int, c int, v text, PRIMARY KEY (p, c))")
        insert = self.session.prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)")
        for start in range(0, 10_000, 500):
            futures = [self.session.execute_async(insert, (c % 7, c, f"v{c}"))
                       for c in range(start, start + 500)]
            for future in futures:
                future.result()
        for page in (100, 777, 5000):
            statement = SimpleStatement("SELECT p, c, v FROM wide", fetch_size=page)
            rows = list(self.session.execute(statement))
            assert len(rows) == 10_000, f"{len(rows)} rows by pages of {page}"
            assert {row.c for row in rows} == set(range(10_000))
        select = self.session.prepare("SELECT c FROM wide WHERE p = ? AND c >= ? AND c < ?")
        select.fetch_size = 10
        rows = [row.c for row in self.session.execute(select, (3, 700, 1400))]
        assert rows == [c for c in range(700, 1400) if c % 7 == 3]

    def test_batches(self):
        self.session.execute("CREATE TABLE batched (k int PRIMARY KEY, v int)")
        insert = self.session.prepare("INSERT INTO batched (k, v) VALUES (?, ?)")
        for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
            batch = BatchStatement(kind, consistency_level=ConsistencyLevel.ONE)
            for k in range(20):
                batch.add(insert, (k, kind.value * 100 + k))
            batch.add("DELETE FROM batched WHERE k = 3")
            self.session.execute(batch)
            rows = {row.k: row.v for row in self.session.execute("SELECT * FROM batched")}
            expected = {k: kind.value * 100 + k for k in range(20)}
            assert rows.items() <= expected.items() and 19 <= len(rows) <= 20, rows

    def test_conditional_batches(self):
        """ScyllaDB's driver gets a row for each statement, Apache's `[applied]` alone, or false with
        the rows that are there."""
        run = self.session.execute
        run("CREATE TABLE compared (p int, c int, v int, PRIMARY KEY (p, c))")
        insert = "INSERT INTO compared (p, c, v) VALUES (1, {0}, {0}) IF NOT EXISTS"
        request = BatchStatement()
        request.add(insert.format(3))
        request.add(insert.format(4))
        prepared = self.session.prepare(
            f"BEGIN BATCH {insert.format('?')}; "
            "UPDATE compared SET v = ? WHERE p = 1 AND c = ? IF v = ?; APPLY BATCH")
        columns = ["[applied]", "p", "c", "v"]
        for statement in (f"BEGIN BATCH {insert.format(1)}; {insert.format(2)}; APPLY BATCH", request):
            for applied in (True, False):
                found = run(statement)
                # Apache's driver takes a text for one statement, which has one row.
                if OF_SCYLLA or applied or statement is request:
                    assert found.was_applied == applied
                names, rows = found.column_names, [tuple(row) for row in found.current_rows]
                if OF_SCYLLA:
                    assert (names, len(rows)) == (columns, 2), (names, rows)
                elif applied:
                    assert (names, rows) == (["[applied]"], [(True,)]), (names, rows)
                else:
                    assert names == columns and [row[0] for row in rows] == [False] * 2, rows
        # The driver asks for no columns where it has them from PREPARED; Apache's differ each time.
        for values, alone, rest in [((5, 5, 9, 1, 1), [(True,)], []),
                                    ((5, 5, 0, 1, 1), None, [(1, 1, 9), (1, 5, 5)]),
                                    ((6, 6, 0, 7, 1), [(False,)], []),
                                    ((6, 6, 8, 1, 9), [(True,)], [])]:
            found = run(prepared, values)
            rows = [tuple(row) for row in found.current_rows]
            if OF_SCYLLA:
                assert found.column_names == columns and len(rows) == 2, rows
            else:
                wanted = alone or [(False, *row) for row in rest]
                assert rows == wanted and found.column_names == columns[:len(wanted[0])], rows
                assert not alone or found.was_applied == alone[0][0]

    def test_a_statement_is_prepared_again_when_its_table_changes(self):
        self.session.execute("CREATE TABLE changing (k int PRIMARY KEY, a int)")
        self.session.execute("INSERT INTO changing (k, a) VALUES (1, 2)")
        select = self.session.prepare("SELECT * FROM changing WHERE k = ?")
        assert self.session.execute(select, (1,)).one() == (1, 2)
        self.session.execute("ALTER TABLE changing ADD b int")
        self.session.execute("INSERT INTO changing (k, b) VALUES (1, 3)")
        fresh = self.session.prepare("SELECT k, a, b FROM changing WHERE k = ?")
        assert self.session.execute(fresh, (1,)).one() == (1, 2, 3)

    def test_errors_are_the_ones_that_programs_catch(self):
        try:
            self.session.execute("SELECT * FROM no_such_table")
        except InvalidRequest as error:
            assert "unconfigured table no_such_table" in str(error), error
        else:
            raise AssertionError("a table that is not there was read")

    def test_metadata(self):
        self.cluster.refresh_schema_metadata()
        table = self.cluster.metadata.keyspaces[self.keyspace].tables["wide"]
        assert [column.name for column in table.partition_key] == ["p"]
        assert [column.name for column in table.clustering_key] == ["c"]
        assert "PRIMARY KEY (p, c)" in table.as_cql_query()

    def run(self):
        passed = failed = 0
        tests = [name for name in dir(self) if name.startswith("test_") and name != "test_metadata"]
        for name in tests + ["test_metadata"]:
            try:
                getattr(self, name)()
                passed += 1
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print(f"FAILED v{self.version} {name}")
                traceback.print_exc(file=sys.stdout)
        self.session.execute(f"DROP KEYSPACE {self.keyspace}")
        self.cluster.shutdown()
        return passed, failed


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    versions = [int(version) for version in sys.argv[3:]] or [4]
    results = [Exercise(address, port, version).run() for version in versions]
    passed, failed = (sum(column) for column in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return int(0 < failed)


if __name__ == "__main__":
    sys.exit(main())
