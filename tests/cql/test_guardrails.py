"""Guardrails: what the node's options warn of or refuse, that each is told to the client and counted.
What writes meet is in test_write_guardrails.py, what SELECT meets in test_select_limits.py."""
import re
import urllib.request

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import ConfigurationException
from test_write_guardrails import option

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': %d}"
NETWORK = "{'class': 'NetworkTopologyStrategy', '%s': %d}"


@pytest.fixture(name="ks")
def fixture_ks(db):
    yield "guarded"
    db.run("DROP KEYSPACE IF EXISTS guarded")


def warnings(db, text):
    future = db.session.execute_async(text)
    future.result()
    return future.warnings or []


def counted(node, name):
    """The sum over shards of a counter, by its name."""
    text = urllib.request.urlopen(f"http://{node.address}:9180/metrics").read().decode()
    found = re.findall(rf"^scylla_cql_{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    assert found, name
    return sum(map(float, found))


@pytest.mark.parametrize("name, limit, factor, told", [
    ("minimum_replication_factor_warn_threshold", 3, 1, True),
    ("minimum_replication_factor_warn_threshold", 1, 1, False),
    ("maximum_replication_factor_warn_threshold", 1, 2, True),
    ("maximum_replication_factor_warn_threshold", 2, 2, False),
])
def test_warned_replication_factors(db, node, ks, name, limit, factor, told):
    metric = name.replace("_threshold", "_violations")
    others = {other: "-1" for other in (
        "minimum_replication_factor_warn_threshold", "maximum_replication_factor_warn_threshold",
        "minimum_replication_factor_fail_threshold", "maximum_replication_factor_fail_threshold")}
    with option(db, **{**others, name: str(limit)}, replication_strategy_warn_list=""):
        before = counted(node, metric)
        found = warnings(db, f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE % factor}")
        assert any(name in text for text in found) == told, found
        assert counted(node, metric) - before == told


def test_more_copies_than_nodes_are_warned_of(db, node, ks):
    # What a node by itself has to be is none of a warning.
    create = "CREATE KEYSPACE guarded WITH replication = {'class': '%s', 'replication_factor': %d}"
    assert warnings(db, create % ("NetworkTopologyStrategy", 1)) == []
    db.run(f"DROP KEYSPACE {ks}")
    before = counted(node, "maximum_replication_factor_warn_violations")
    [text] = warnings(db, create % ("NetworkTopologyStrategy", 3))
    assert "=3 is more than the number of nodes (1)" in text and "QUORUM" in text
    assert counted(node, "maximum_replication_factor_warn_violations") - before == 1
    db.run(f"DROP KEYSPACE {ks}")
    [text] = warnings(db, create % ("SimpleStrategy", 3))
    assert "replication_strategy_warn_list" in text and "QUORUM" in text
    with option(db, maximum_replication_factor_warn_threshold="-1"):
        alter = create.replace("CREATE", "ALTER") % ("NetworkTopologyStrategy", 3)
        assert warnings(db, alter) == []


@pytest.mark.parametrize("name, limit, factor", [
    ("minimum_replication_factor_fail_threshold", 2, 1),
    ("maximum_replication_factor_fail_threshold", 1, 2),
])
def test_refused_replication_factors(db, node, ks, name, limit, factor):
    metric = name.replace("_threshold", "_violations")
    with option(db, **{name: str(limit)}):
        before = counted(node, metric)
        with pytest.raises((InvalidRequest, ConfigurationException), match=name):
            db.run(f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE % factor}")
        assert counted(node, metric) - before == 1
        # No replicas in a datacenter is no replication factor that is too low.
        dc = db.one("SELECT data_center FROM system.local")
        db.run(f"CREATE KEYSPACE {ks} WITH replication = {NETWORK % (dc, limit)}")
        with pytest.raises((InvalidRequest, ConfigurationException), match=name):
            db.run(f"ALTER KEYSPACE {ks} WITH replication = {NETWORK % (dc, factor)}")


def test_strategies(db, node, ks):
    create = f"CREATE KEYSPACE {ks} WITH replication = {SIMPLE % 1}"
    with option(db, replication_strategy_fail_list="SimpleStrategy"):
        before = counted(node, "replication_strategy_fail_list_violations")
        with pytest.raises((InvalidRequest, ConfigurationException),
                           match="replication_strategy_fail_list"):
            db.run(create)
        assert counted(node, "replication_strategy_fail_list_violations") - before == 1
    before = counted(node, "replication_strategy_warn_list_violations")
    assert any("replication_strategy_warn_list" in text for text in warnings(db, create))
    assert counted(node, "replication_strategy_warn_list_violations") - before == 1
    db.run(f"DROP KEYSPACE {ks}")
    with option(db, replication_strategy_warn_list=""):
        assert not any("strategy" in text for text in warnings(db, create))


WINDOWS = ("compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', "
           "'compaction_window_size': 1}")


def test_windows_without_a_time_to_live(db):
    def create(tail=""):
        return f"CREATE TABLE {db.name()} (a int PRIMARY KEY) WITH {WINDOWS}{tail}"
    assert any("default_time_to_live" in text or "TTL" in text for text in warnings(db, create()))
    assert warnings(db, create(" AND default_time_to_live = 86400")) == []
    with option(db, restrict_twcs_without_default_ttl="true"):
        with pytest.raises((InvalidRequest, ConfigurationException), match="default_time_to_live"):
            db.run(create())
    with option(db, restrict_twcs_without_default_ttl="false"):
        assert warnings(db, create()) == []


def test_too_many_windows(db):
    def create(days):
        return (f"CREATE TABLE {db.name()} (a int PRIMARY KEY) WITH {WINDOWS} "
                f"AND default_time_to_live = {days * 86400}")
    db.run(create(50))
    with pytest.raises((InvalidRequest, ConfigurationException), match="twcs_max_window_count"):
        db.run(create(51))
    with option(db, twcs_max_window_count="51"):
        db.run(create(51))
    with option(db, twcs_max_window_count="0"):
        db.run(create(5000))


def test_compact_storage(db):
    create = "CREATE TABLE %s (a int PRIMARY KEY, v int) WITH COMPACT STORAGE"
    db.refuse(create % db.name(), "COMPACT STORAGE")
    with option(db, enable_create_table_with_compact_storage="true"):
        name = db.name()
        db.run(create % name)
        db.run(f"INSERT INTO {name} (a, v) VALUES (1, 2)")
        assert db.rows(f"SELECT * FROM {name}") == [(1, 2)]


def test_tombstones_make_short_pages(db):
    t = db.table("p int, c int, v int, PRIMARY KEY (p, c)")
    delete = db.session.prepare(f"DELETE FROM {t} WHERE p = 1 AND c = ?")
    for c in range(60):
        db.session.execute(delete, (c,))
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 100, 7)")
    select = f"SELECT v FROM {t} WHERE p = 1"
    assert db.pages(select, 100) == [[(7,)]]
    with option(db, query_tombstone_page_limit="10"):
        pages = db.pages(select, 100)
        assert 4 <= len(pages) and [row for page in pages for row in page] == [(7,)]
