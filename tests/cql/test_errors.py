"""Errors: their kind on the wire, their words, and that the connection goes on."""
import pytest
from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, Unavailable
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, ServerError, SyntaxException
from cassandra.query import SimpleStatement


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    return db.table("p int, c int, v int, PRIMARY KEY (p, c)")


@pytest.mark.parametrize("text, words", [
    ("SELEC * FROM {t}", "line 1"),
    ("SELECT * FROM", "line"),
    ("SELECT * FROM {t} WHERE", "line"),
    ("", "line"),
    ("   ", "line"),
    ("SELECT\n* FORM {t}", "line 2"),
    ("SELECT * FROM {t} WHERE p = 'unclosed", "line 1"),
    ("INSERT INTO {t} (p, c VALUES (1, 2)", "line 1"),
    ("SELECT * FROM {t} WHERE p = 0xabc", ""),
    ("SELECT * FROM {t} LIMIT 99999999999999999999999", ""),
    ("CREATE TABLE x (a int PRIMARY KEY", "line"),
    ("SELECT * FROM {t} /* open", "line 1"),
    ("\u0000", ""),
])
def test_syntax(db, t, text, words):
    with pytest.raises((SyntaxException, InvalidRequest)) as caught:
        db.run(text.format(t=t))
    assert words in str(caught.value), caught.value
    assert db.one("SELECT key FROM system.local") == "local"


@pytest.mark.parametrize("text, words", [
    ("SELECT * FROM {ks}.nothing", "unconfigured table nothing"),
    ("SELECT * FROM nowhere.t", "keyspace 'nowhere' does not exist"),
    ("SELECT nope FROM {t}", "unrecognized name nope"),
    ("SELECT p.x FROM {t}", ""),
    ("SELECT f(p) FROM {t}", "unknown function"),
    ("INSERT INTO {t} (p, c) VALUES (99999999999, 1)", ""),
    ("INSERT INTO {t} (p, c) VALUES (1.5, 1)", "p"),
    ("INSERT INTO {t} (p, c) VALUES (?, 1)", "bind"),
    ("INSERT INTO system.local (key) VALUES ('x')", ""),
    ("DROP TABLE system.local", ""),
    ("ALTER TABLE system_schema.tables ADD x int", ""),
])
def test_invalid(db, t, text, words):
    with pytest.raises(Exception) as caught:
        db.run(text.format(t=t, ks=db.keyspace))
    assert isinstance(caught.value, (InvalidRequest, ConfigurationException)) \
        or "Unauthorized" in type(caught.value).__name__, caught.value
    assert words.lower() in str(caught.value).lower(), caught.value


def test_already_exists_names_the_table(db, t):
    with pytest.raises(AlreadyExists) as caught:
        db.run(f"CREATE TABLE {t} (a int PRIMARY KEY)")
    assert (caught.value.keyspace, caught.value.table) == tuple(t.split("."))


@pytest.mark.parametrize("level, served", [
    ("ANY", True), ("ONE", True), ("QUORUM", True), ("ALL", True), ("LOCAL_ONE", True),
    ("LOCAL_QUORUM", True), ("EACH_QUORUM", True), ("TWO", False), ("THREE", False),
])
def test_consistency_levels_of_one_node(db, t, level, served):
    level = ConsistencyLevel.name_to_value[level]
    write = SimpleStatement(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1)", consistency_level=level)
    if served:
        db.session.execute(write)
        return
    # The driver tries other hosts before it says what the first one said.
    with pytest.raises(NoHostAvailable) as caught:
        db.session.execute(write)
    (error,) = caught.value.errors.values()
    assert isinstance(error, Unavailable) and error.alive_replicas == 1
    assert error.required_replicas == {"TWO": 2, "THREE": 3}[ConsistencyLevel.value_to_name[level]]


def test_any_is_not_for_reads(db, t):
    read = SimpleStatement(f"SELECT * FROM {t}", consistency_level=ConsistencyLevel.ANY)
    with pytest.raises(InvalidRequest):
        db.session.execute(read)


@pytest.mark.parametrize("text", [
    "SELECT * FROM {t} WHERE p = " + "(" * 5000 + "1" + ")" * 5000,
    "INSERT INTO {t} (p, c) VALUES (1, " + "[" * 20_000,
    "SELECT " + "f(" * 5000 + "p" + ")" * 5000 + " FROM {t}",
    "CREATE TABLE x (a " + "frozen<list<" * 3000 + "int" + ">>" * 3000 + " PRIMARY KEY)",
])
def test_deep_nesting_is_refused(db, t, text):
    with pytest.raises((SyntaxException, InvalidRequest)):
        db.run(text.format(t=t))
    assert db.one("SELECT key FROM system.local") == "local"


def test_a_wrong_length_of_a_bound_value(db):
    t = db.table("p int PRIMARY KEY, v bigint, u uuid, t text, b boolean")
    insert = db.session.prepare(f"INSERT INTO {t} (p, v, u, t, b) VALUES (?, ?, ?, ?, ?)")
    good = (1).to_bytes(4, "big")
    for values, words in [
        ((b"\x00", None, None, None, None), "4 bytes"),
        ((good, b"\x00" * 7, None, None, None), "8 bytes"),
        ((good, None, b"\x00" * 3, None, None), "uuid"),
        ((good, None, None, b"\xff\xfe", None), ""),
        ((good, None, None, None, b"\x00\x00"), "boolean"),
    ]:
        bound = insert.bind((1, None, None, None, None))
        bound.values = list(values)
        with pytest.raises((InvalidRequest, ServerError)) as caught:
            db.session.execute(bound)
        assert isinstance(caught.value, InvalidRequest), caught.value
        assert words in str(caught.value).lower(), caught.value


def test_what_is_wrong_with_fields_and_elements_is_told(db):
    kind = db.type("a int")
    t = db.table(f"k int PRIMARY KEY, f frozen<{kind}>, n int")
    for text, words in [
        (f"DELETE f.a FROM {t} WHERE k = 0", "Frozen UDT column f does not support field deletion"),
        (f"DELETE n.a FROM {t} WHERE k = 0", "Invalid deletion operation for non-UDT column n"),
        (f"UPDATE {t} SET f.a = 0 WHERE k = 0",
         "Invalid operation (f.a = 0) for frozen UDT column f"),
        (f"UPDATE {t} SET n.a = 0 WHERE k = 0", "Invalid operation (n.a = 0) for non-UDT column n"),
        (f"DELETE FROM {t} WHERE k CONTAINS 1", "Cannot use CONTAINS on non-collection column k"),
    ]:
        db.refuse(text, words)
