"""DESCRIBE: each form, and that what it prints makes the same again."""
import pytest
from cassandra import InvalidRequest, Unauthorized
from cassandra.protocol import SyntaxException
from cassandra.query import SimpleStatement

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture(name="ks", scope="module")
def fixture_ks(db):
    """A keyspace with one of each."""
    ks = "described"
    db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE} AND durable_writes = false")
    db.run(f"CREATE TYPE {ks}.inner (a int, b text)")
    db.run(f"CREATE TYPE {ks}.outer (i frozen<inner>, l frozen<list<int>>)")
    db.run(f"CREATE TABLE {ks}.plain (a int PRIMARY KEY)")
    db.run(f"""CREATE TABLE {ks}."Mixed_Case" ("A" int, "select" text, s int static, c timeuuid,
               v vector<float, 3>, t tuple<int, text>, u frozen<outer>, m map<text, frozen<set<int>>>,
               PRIMARY KEY (("A", "select"), c)) WITH CLUSTERING ORDER BY (c DESC)
               AND comment = 'it''s' AND gc_grace_seconds = 5
               AND compression = {{'enabled': false}}""")
    db.run(f"CREATE TABLE {ks}.counts (a int PRIMARY KEY, n counter)")
    yield ks
    db.run(f"DROP KEYSPACE {ks}")


def described(db, what):
    """(keyspace, type, name, statement) of each row."""
    return [tuple(row) for row in db.run(f"DESCRIBE {what}")]


def test_columns(db, ks):
    assert db.run(f"DESCRIBE TABLE {ks}.plain").column_names \
        == ["keyspace_name", "type", "name", "create_statement"]
    assert db.run(f"DESC TABLE {ks}.plain").column_names \
        == ["keyspace_name", "type", "name", "create_statement"]
    for listing in ("KEYSPACES", "TABLES", "TYPES", "FUNCTIONS", "AGGREGATES"):
        assert db.run(f"DESCRIBE {listing}").column_names == ["keyspace_name", "type", "name"]
    assert db.run("DESCRIBE CLUSTER").column_names[:2] == ["cluster", "partitioner"]


@pytest.mark.parametrize("listing, row", [
    ("KEYSPACES", ("described", "keyspace", "described")),
    ("TABLES", ("described", "table", "plain")),
    ("TABLES", ("described", "table", '"Mixed_Case"')),
    ("TYPES", ("described", "type", "outer")),
])
def test_listings(db, ks, listing, row):
    assert row in described(db, listing)


def test_listings_of_the_keyspace_in_use(node, db, ks):
    session = node.connect()
    session.execute(f"USE {ks}")
    assert {row.name for row in session.execute("DESCRIBE TABLES")} \
        == {"plain", '"Mixed_Case"', "counts"}
    assert [row.name for row in session.execute("DESCRIBE TYPES")] == ["inner", "outer"]
    assert session.execute("DESCRIBE TABLE plain").one().keyspace_name == ks
    assert session.execute("DESCRIBE plain").one().type == "table"
    assert session.execute("DESCRIBE KEYSPACE").one().name == ks


def test_an_element_by_its_kind_and_by_its_name(db, ks):
    for what, row in [
        ("TABLE {}.plain", (ks, "table", "plain")), ("{}.plain", (ks, "table", "plain")),
        ("COLUMNFAMILY {}.plain", (ks, "table", "plain")),
        ('TABLE {}."Mixed_Case"', (ks, "table", '"Mixed_Case"')),
        ("TYPE {}.inner", (ks, "type", "inner")), ("ONLY KEYSPACE {}", (ks, "keyspace", ks)),
    ]:
        rows = described(db, what.format(ks))
        assert [found[:3] for found in rows] == [row], what
        assert rows[0][3].startswith("CREATE ")


def test_a_keyspace_is_made_again(db, ks):
    rows = described(db, f"KEYSPACE {ks}")
    assert rows[0][:3] == (ks, "keyspace", ks)
    kinds = [row[1] for row in rows]
    # What is used comes before what uses it.
    assert kinds == ["keyspace", "type", "type", "table", "table", "table"]
    assert [row[2] for row in rows if row[1] == "type"] == ["inner", "outer"]
    assert described(db, ks) == rows
    db.run(f"DROP KEYSPACE {ks}")
    for row in rows:
        db.run(row[3])
    assert described(db, f"KEYSPACE {ks}") == rows


def again(db, what, statements):
    """Makes a table, and makes it again of what it is described by; both descriptions."""
    for statement in statements:
        db.run(statement)
    described_at_first = described(db, f"TABLE {what} WITH INTERNALS")[0][3]
    db.run(f"DROP TABLE {what}")
    for statement in described_at_first.split(";\n"):
        db.run(statement)
    made = described(db, f"TABLE {what} WITH INTERNALS")[0][3]
    db.run(f"DROP TABLE {what}")
    return described_at_first, made


def test_internals(db, ks):
    db.run(f"CREATE TABLE {ks}.changed (a int PRIMARY KEY, gone text, v int)")
    identity = db.one("SELECT id FROM system_schema.tables WHERE keyspace_name = %s "
                      "AND table_name = 'changed'", ks)
    db.run(f"ALTER TABLE {ks}.changed DROP gone USING TIMESTAMP 1000")
    outside = described(db, f"TABLE {ks}.changed")[0][3]
    inside = described(db, f"TABLE {ks}.changed WITH INTERNALS")[0][3]
    assert str(identity) in inside and "gone text" in inside and "USING TIMESTAMP 1000" in inside
    assert str(identity) not in outside and "gone" not in outside
    assert again(db, f"{ks}.changed", []) == (inside, inside)


@pytest.mark.parametrize("columns, changes", [
    ("a int PRIMARY KEY, v int", []),
    ("a int PRIMARY KEY, v int, w text", ["DROP v", "DROP w"]),
    ("a int PRIMARY KEY, w text, v int", ["DROP w USING TIMESTAMP 7", "DROP v USING TIMESTAMP 5"]),
    ("a int PRIMARY KEY, v int", ["DROP v", "ADD v int"]),
    ("a int PRIMARY KEY, v int", ["DROP v", "ADD v int", "DROP v", "ADD v int"]),
    ("a int, c int, s int static, m map<int, int>, v int, PRIMARY KEY (a, c)", ["DROP m", "DROP v"]),
    ("a int PRIMARY KEY, m map<int, int>, l list<text>, s set<int>", ["DROP (m, l)", "DROP s"]),
    ('a int PRIMARY KEY, "Two Words" int, v int',
     ['DROP "Two Words"', 'RENAME a TO "A"', 'ADD "Two Words" int']),
    ("a int, c int, s int static, v int, PRIMARY KEY (a, c)", ["DROP s", "ADD s int static"]),
    ("a int PRIMARY KEY, n counter, o counter", ["DROP o"]),
    ("a int PRIMARY KEY, f frozen<tuple<int, text>>, v vector<float, 2>", ["DROP f", "DROP v"]),
])
def test_dropped_columns_are_made_again(db, ks, columns, changes):
    what = f"{ks}.{db.name().split('.')[1]}"
    statements = [f"CREATE TABLE {what} ({columns})",
                  *(f"ALTER TABLE {what} {change}" for change in changes)]
    first, second = again(db, what, statements)
    assert second == first


@pytest.mark.parametrize("columns, changes", [
    ("a int PRIMARY KEY, v int", ["DROP v", "ADD v blob"]),
    ("a int PRIMARY KEY, v int", ["ALTER v TYPE blob"]),
])
def test_columns_that_came_back_are_made_again(db, ks, columns, changes):
    test_dropped_columns_are_made_again(db, ks, columns, changes)


def test_a_dropped_column_outlives_its_type(db, ks):
    db.run(f"CREATE TYPE {ks}.brief (a int, b frozen<list<text>>)")
    first, second = again(db, f"{ks}.typed", [
        f"CREATE TABLE {ks}.typed (a int PRIMARY KEY, u frozen<brief>, l list<frozen<brief>>)",
        f"INSERT INTO {ks}.typed (a, u, l) VALUES (1, {{a: 1}}, [{{a: 2}}])",
        f"ALTER TABLE {ks}.typed DROP u", f"ALTER TABLE {ks}.typed DROP l", f"DROP TYPE {ks}.brief",
    ])
    assert second == first and "brief" not in first


def test_a_dropped_column_of_fields_outlives_its_type(db, ks):
    db.run(f"CREATE TYPE {ks}.fields (a int, b text)")
    first, second = again(db, f"{ks}.typed", [
        f"CREATE TABLE {ks}.typed (a int PRIMARY KEY, n fields, v int)",
        f"INSERT INTO {ks}.typed (a, n, v) VALUES (1, {{a: 2}}, 3)",
        f"ALTER TABLE {ks}.typed DROP n", f"DROP TYPE {ks}.fields",
    ])
    assert second == first and "fields" not in first


def test_a_column_for_expiry_is_made_again(db, ks):
    first, second = again(db, f"{ks}.expiring", [
        f"CREATE TABLE {ks}.expiring (a int PRIMARY KEY, e timestamp TTL)",
        f"ALTER TABLE {ks}.expiring DROP e", f"ALTER TABLE {ks}.expiring ADD e timestamp",
        f"ALTER TABLE {ks}.expiring TTL e",
    ])
    assert second == first and first.endswith(".expiring TTL e;")


def test_all_of_the_schema_is_made_again(db, ks):
    """As a backup does it: what DESCRIBE SCHEMA WITH INTERNALS says, statement by statement."""
    rows = [row for row in described(db, "SCHEMA WITH INTERNALS") if row[0] == ks]
    db.run(f"DROP KEYSPACE {ks}")
    for row in rows:
        for statement in row[3].split(";\n"):
            db.run(statement)
    assert [row for row in described(db, "SCHEMA WITH INTERNALS") if row[0] == ks] == rows


def test_schema(db, ks):
    schema, full = described(db, "SCHEMA"), described(db, "FULL SCHEMA")
    assert (ks, "table", "plain") in [row[:3] for row in schema]
    assert "system" not in {row[0] for row in schema}
    assert {"system", "system_schema"} <= {row[0] for row in full}
    assert len(described(db, "SCHEMA WITH INTERNALS")) >= len(schema)


def test_cluster(db):
    row = db.run("DESCRIBE CLUSTER").one()
    assert row.partitioner.endswith("Murmur3Partitioner")
    assert row.cluster == db.one("SELECT cluster_name FROM system.local")


def test_small_pages_hold_everything(db, ks):
    pages = db.pages("DESCRIBE FULL SCHEMA", 7)
    assert [row for page in pages for row in page] == described(db, "FULL SCHEMA")
    assert {len(page) for page in pages[:-1]} == {7}


def test_pages_are_of_one_schema(node, db, ks):
    first = db.session.execute(SimpleStatement("DESCRIBE FULL SCHEMA", fetch_size=3))
    state = first.paging_state
    rest = db.session.execute(SimpleStatement("DESCRIBE FULL SCHEMA", fetch_size=500),
                              paging_state=state)
    assert [tuple(row) for row in [*first.current_rows, *rest]] == described(db, "FULL SCHEMA")
    db.run(f"CREATE TABLE {ks}.meanwhile (a int PRIMARY KEY)")
    db.run(f"DROP TABLE {ks}.meanwhile")
    with pytest.raises(InvalidRequest, match="schema has changed since the previous page"):
        db.session.execute(SimpleStatement("DESCRIBE FULL SCHEMA", fetch_size=3),
                           paging_state=state)
    # The driver leaves a connection on which it sees a protocol error, so each has its own.
    for what in ("DESCRIBE FULL SCHEMA", "DESCRIBE TABLES"):
        with pytest.raises(Exception, match="(?i)paging state"):
            node.connect().execute(SimpleStatement(what), paging_state=state[:-1])


@pytest.mark.parametrize("what, words, kind", [
    ("SCHEMA", "can only be issued by a superuser", Unauthorized),
    ("FULL SCHEMA", "can only be issued by a superuser", Unauthorized),
    ("CLUSTER", "only allowed with DESC SCHEMA", InvalidRequest),
    ("KEYSPACE {}", "only allowed with DESC SCHEMA", InvalidRequest),
    ("TABLES", "only allowed with DESC SCHEMA", InvalidRequest),
    ("TABLE {}.plain", "only allowed with DESC SCHEMA", InvalidRequest),
    ("{}.plain", "only allowed with DESC SCHEMA", InvalidRequest),
])
def test_passwords(db, ks, what, words, kind):
    """Who is not logged in is no superuser, and is told no passwords."""
    db.refuse(f"DESCRIBE {what.format(ks)} WITH INTERNALS AND PASSWORDS", words, kind=kind)


@pytest.mark.parametrize("what, words, kind", [
    ("TABLE {}.nothing", "'nothing' not found", InvalidRequest),
    ("TYPE {}.nothing", "'nothing' not found", InvalidRequest),
    ("FUNCTION {}.nothing", "'nothing' not found", InvalidRequest),
    ("AGGREGATE {}.nothing", "'nothing' not found", InvalidRequest),
    ("INDEX {}.nothing", "not found", InvalidRequest),
    ("MATERIALIZED VIEW {}.nothing", "not found", InvalidRequest),
    ("KEYSPACE nothing", "'nothing' not found", InvalidRequest),
    ("nothing", "'nothing' not found", InvalidRequest),
    ("TABLE nothing.plain", "'nothing' not found", InvalidRequest),
    ("TABLE", "line", SyntaxException),
    ("FULL TABLE {}.plain", "line 1", SyntaxException),
    ("TABLE {}.plain WITH NOTHING", "line 1", SyntaxException),
    ("TABLE {}.inner", "'inner' not found", InvalidRequest),
])
def test_refused(db, ks, what, words, kind):
    db.refuse("DESCRIBE " + what.format(ks), words, kind=kind)
