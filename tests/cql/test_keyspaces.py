"""Keyspaces: every option, where replicas go when nothing is said, and names."""
import pytest
from cassandra import AlreadyExists, InvalidRequest
from cassandra.protocol import ConfigurationException, SyntaxException

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
STRATEGY = "org.apache.cassandra.locator."


@pytest.fixture(name="ks")
def fixture_ks(db):
    name = f"ks{db.name().split('.')[1]}"
    yield name
    db.run(f"DROP KEYSPACE IF EXISTS {name}")


def stored(db, ks):
    return db.rows("SELECT durable_writes, replication FROM system_schema.keyspaces "
                   "WHERE keyspace_name = %s", ks)[0]


def datacenter(db):
    return db.one("SELECT data_center FROM system.local")


@pytest.mark.parametrize("replication, expected", [
    (SIMPLE, {"class": STRATEGY + "SimpleStrategy", "replication_factor": "1"}),
    ("{'class': 'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': '1'}",
     {"class": STRATEGY + "SimpleStrategy", "replication_factor": "1"}),
    # One number for all datacenters becomes one for each.
    ("{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
     {"class": STRATEGY + "NetworkTopologyStrategy", "DC": "1"}),
    ("{'class': 'NetworkTopologyStrategy', 'DC': 1}",
     {"class": STRATEGY + "NetworkTopologyStrategy", "DC": "1"}),
    ("{'class': 'NetworkTopologyStrategy', 'DC': 0}", {"class": STRATEGY + "NetworkTopologyStrategy"}),
])
def test_replication(db, ks, replication, expected):
    dc = datacenter(db)
    statement = f"CREATE KEYSPACE {ks} WITH replication = {replication.replace('DC', dc)}"
    db.run(statement)
    found = {key: value for key, value in stored(db, ks)[1].items() if value != "0"}
    assert found == {key.replace("DC", dc): value for key, value in expected.items()}


@pytest.mark.parametrize("options", [
    "", "WITH durable_writes = true", "WITH replication = {}",
    "WITH replication = {'replication_factor': 1}",
])
def test_what_is_not_said_is_the_default(db, ks, options):
    db.run(f"CREATE KEYSPACE {ks} {options}")
    durable, replication = stored(db, ks)
    assert durable is True and replication["class"] == STRATEGY + "NetworkTopologyStrategy"
    assert str(replication[datacenter(db)]) in ("1", "['rack1']")


def test_alter(db, ks):
    db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE} AND durable_writes = false")
    assert stored(db, ks)[0] is False
    db.run(f"ALTER KEYSPACE {ks} WITH durable_writes = true")
    assert stored(db, ks) == (True, {"class": STRATEGY + "SimpleStrategy",
                                     "replication_factor": "1"})
    db.run(f"ALTER KEYSPACE {ks} WITH replication = {SIMPLE} AND durable_writes = false")
    assert stored(db, ks)[0] is False
    db.run(f"ALTER KEYSPACE IF EXISTS {ks} WITH durable_writes = true")
    db.run("ALTER KEYSPACE IF EXISTS is_not_there WITH durable_writes = true")


@pytest.mark.parametrize("options, words", [
    ("WITH replication = {'class': 'SimpleStrategy'}", "replication_factor"),
    ("WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 'x'}", "numeric"),
    ("WITH replication = {'class': 'SimpleStrategy', 'replication_factor': -1}", ""),
    ("WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1.5}", "numeric"),
    ("WITH replication = {'class': 'NetworkTopologyStrategy', 'nowhere': 1}", "nowhere"),
    ("WITH replication = {'class': 'NoSuchStrategy'}", "NoSuchStrategy"),
    ("WITH replication = 'SimpleStrategy'", "replication"),
    (f"WITH replication = {SIMPLE} AND durable_writes = 'perhaps'", ""),
    (f"WITH replication = {SIMPLE} AND nothing = 1", "nothing"),
    (f"WITH replication = {SIMPLE} AND replication = {SIMPLE}", "replication"),
    ("WITH replication = {'class': 'SimpleStrategy', 'class': 'SimpleStrategy'}", ""),
])
def test_refused_options(db, ks, options, words):
    with pytest.raises((InvalidRequest, ConfigurationException, SyntaxException)) as caught:
        db.run(f"CREATE KEYSPACE {ks} {options}")
    assert words in str(caught.value), caught.value
    assert ks not in db.column("SELECT keyspace_name FROM system_schema.keyspaces")


@pytest.mark.parametrize("options, words", [
    (f"WITH replication = {SIMPLE} AND tablets = {{'enabled': 'perhaps'}}", "true or false"),
    (f"WITH replication = {SIMPLE} AND storage = {{'type': 'S3', 'bucket': 'b'}}", "storage"),
    (f"WITH replication = {SIMPLE} AND consistency = 'global'", "consistency"),
])
def test_refused_options_of_scylladb(db, ks, options, words):
    with pytest.raises((InvalidRequest, ConfigurationException)) as caught:
        db.run(f"CREATE KEYSPACE {ks} {options}")
    assert words in str(caught.value), caught.value


def test_options_of_scylladb(db, ks):
    db.run(f"CREATE KEYSPACE {ks} WITH tablets = {{'enabled': false}} "
           "AND storage = {'type': 'LOCAL'} AND consistency = 'eventual'")
    with pytest.raises(InvalidRequest, match="flavor"):
        db.run(f"ALTER KEYSPACE {ks} WITH tablets = {{'enabled': true}}")


@pytest.mark.parametrize("name, taken", [
    ("k" * 48, True), ("k" * 192, True), ("k" * 193, False), ('"Upper_1"', True), ('"a b"', False),
    ('"a-b"', False), ('"\u00e9"', False), ('""', False), ("system_x", False),
])
def test_names(db, name, taken):
    statement = f"CREATE KEYSPACE {name} WITH replication = {SIMPLE}"
    if not taken:
        with pytest.raises((InvalidRequest, ConfigurationException, SyntaxException)):
            db.run(statement)
        return
    db.run(statement)
    found = db.column("SELECT keyspace_name FROM system_schema.keyspaces")
    db.run(f"DROP KEYSPACE {name}")
    assert name.strip('"') in found


@pytest.mark.parametrize("statement", [
    "ALTER KEYSPACE is_not_there WITH durable_writes = true", "DROP KEYSPACE is_not_there",
    "USE is_not_there", "CREATE TABLE is_not_there.t (a int PRIMARY KEY)",
    "CREATE TYPE is_not_there.t (a int)",
    "ALTER KEYSPACE system WITH durable_writes = false", "DROP KEYSPACE system_schema",
])
def test_what_is_not_there_or_not_ours(db, statement):
    with pytest.raises(Exception) as caught:
        db.run(statement)
    assert isinstance(caught.value, (InvalidRequest, ConfigurationException)) \
        or "Unauthorized" in type(caught.value).__name__, caught.value


def test_a_keyspace_goes_with_all_that_is_in_it(db, ks):
    db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE}")
    with pytest.raises(AlreadyExists):
        db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE}")
    db.run(f"CREATE TYPE {ks}.u (a int)")
    db.run(f"CREATE TABLE {ks}.t (a int PRIMARY KEY, u {ks}.u)")
    db.run(f"INSERT INTO {ks}.t (a) VALUES (1)")
    db.run(f"DROP KEYSPACE {ks}")
    for table in ("tables", "types", "columns"):
        assert ks not in db.column(f"SELECT keyspace_name FROM system_schema.{table}")
    db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE}")
    db.run(f"CREATE TABLE {ks}.t (a int PRIMARY KEY)")
    assert db.rows(f"SELECT * FROM {ks}.t") == []


def test_use_is_of_one_connection(node, db, ks):
    db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE}")
    db.run(f"CREATE TABLE {ks}.t (a int PRIMARY KEY)")
    one, other = node.connect(), node.connect()
    one.execute(f"USE {ks}")
    assert list(one.execute("SELECT * FROM t")) == []
    with pytest.raises(InvalidRequest, match="(?i)no keyspace has been specified"):
        other.execute("SELECT * FROM t")
    one.execute("USE system")
    assert one.execute("SELECT key FROM local").one() == ("local",)
