"""The REST API: what nodetool and harnesses ask a node for."""
import shutil
import time
import urllib.request
from pathlib import Path

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import NoHostAvailable
from cassandra.query import SimpleStatement

from node import Node
from rest import ask


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def cql(node):
    session = node.connect()
    session.execute("CREATE KEYSPACE ks WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    return session


def data_files(node, table):
    folder, = (node.workdir / "data" / "data" / "ks").glob(f"{table}-*")
    return sorted(folder.glob("*-Data.db"))


def test_the_node_says_who_it_is(node, cql):
    local = cql.execute("SELECT * FROM system.local").one()
    assert ask(node, "GET", "/storage_service/hostid/local") == (200, str(local.host_id))
    assert ask(node, "GET", "/storage_service/cluster_name") == (200, local.cluster_name)
    assert ask(node, "GET", "/storage_service/schema_version") == (200, str(local.schema_version))
    assert ask(node, "GET", "/storage_service/operation_mode") == (200, "NORMAL")


def test_keyspaces_and_tables_are_listed(node, cql):
    cql.execute("CREATE TABLE ks.listed (a int PRIMARY KEY)")
    status, keyspaces = ask(node, "GET", "/column_family/name/keyspace")
    assert status == 200 and {"ks", "system", "system_schema"} <= set(keyspaces)
    assert ask(node, "GET", "/storage_service/keyspaces", type="user") == (200, ["ks"])
    assert "ks:listed" in ask(node, "GET", "/column_family/name")[1]
    listed = {"ks": "ks", "cf": "listed", "type": "ColumnFamilies"}
    assert listed in ask(node, "GET", "/column_family/")[1]


def test_flush_writes_the_tables_named(node, cql):
    for name in ["f1", "f2"]:
        cql.execute(f"CREATE TABLE ks.{name} (a int PRIMARY KEY)")
        cql.execute(f"INSERT INTO ks.{name} (a) VALUES (1)")
    assert ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="f1") == (200, None)
    assert data_files(node, "f1") and not data_files(node, "f2")
    assert ask(node, "POST", "/storage_service/flush") == (200, None)
    assert data_files(node, "f2")


def test_compaction_makes_one_of_many(node, cql):
    cql.execute("CREATE TABLE ks.c (a int PRIMARY KEY, b int)")
    path = "/column_family/autocompaction/ks:c"
    assert ask(node, "GET", path) == (200, True)
    assert ask(node, "DELETE", "/storage_service/auto_compaction/ks", cf="c") == (200, None)
    assert ask(node, "GET", path) == (200, False)
    for value in range(6):
        cql.execute(f"INSERT INTO ks.c (a, b) VALUES (1, {value})")
        ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="c")
    assert len(data_files(node, "c")) == 6, "nothing is compacted without being asked for"
    assert ask(node, "POST", "/storage_service/keyspace_compaction/ks", cf="c") == (200, None)
    assert len(data_files(node, "c")) == 1
    assert [tuple(row) for row in cql.execute("SELECT * FROM ks.c")] == [(1, 5)]
    assert ask(node, "POST", "/storage_service/auto_compaction/ks", cf="c") == (200, None)
    assert ask(node, "GET", path) == (200, True)
    assert ask(node, "DELETE", path) == (200, None)
    assert ask(node, "GET", path) == (200, False)
    status, answer = ask(node, "GET", "/column_family/autocompaction/ks:none")
    assert status == 400 and "none" in answer["message"]


def test_compaction_can_leave_memtables_alone(node, cql):
    cql.execute("CREATE TABLE ks.m (a int PRIMARY KEY)")
    cql.execute("INSERT INTO ks.m (a) VALUES (1)")
    path = "/storage_service/keyspace_compaction/ks"
    assert ask(node, "POST", path, cf="m", flush_memtables="false") == (200, None)
    assert not data_files(node, "m")
    status, answer = ask(node, "POST", path, cf="m", flush_memtables="perhaps")
    assert status == 400 and "flush_memtables" in answer["message"]


def test_sstables_are_written_again_one_by_one(node, cql):
    cql.execute("CREATE TABLE ks.s (a int PRIMARY KEY) WITH compaction = "
                "{'class': 'NullCompactionStrategy'}")
    for value in range(20):
        cql.execute(f"INSERT INTO ks.s (a) VALUES ({value})")
    ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="s")
    scrub = "/storage_service/keyspace_scrub/ks"
    before = data_files(node, "s")
    assert ask(node, "GET", scrub, cf="s") == (200, 0)
    assert ask(node, "GET", scrub, cf="s", quarantine_mode="ONLY") == (200, 0)
    upgrade = "/storage_service/keyspace_upgrade_sstables/ks"
    assert ask(node, "GET", upgrade, cf="s", exclude_current_version="true") == (200, 0)
    assert data_files(node, "s") == before, "nothing was wrong, and all is of the present format"
    for path, parameters in [(scrub, {"scrub_mode": "ABORT"}), (upgrade, {})]:
        assert ask(node, "GET", path, cf="s", **parameters) == (200, 0)
        after = data_files(node, "s")
        assert len(after) == len(before) and not set(after) & set(before)
        # What was written is of the shard that wrote it: nobody has to write it once more.
        time.sleep(0.5)
        assert data_files(node, "s") == after
        before = after
    snapshots = ask(node, "GET", "/storage_service/snapshots")[1]
    assert any(one["key"].startswith("pre-scrub-") for one in snapshots)
    assert ask(node, "POST", "/storage_service/keyspace_cleanup/ks", cf="s") == (200, 0)
    stop = "/compaction_manager/stop_keyspace_compaction/ks"
    assert ask(node, "POST", stop, type="COMPACTION", tables="s") == (200, None)
    assert data_files(node, "s") == before
    assert len(list(cql.execute("SELECT a FROM ks.s"))) == 20


def test_what_is_damaged_is_put_aside():
    with Node() as node:
        cql = node.connect()
        cql.execute("CREATE KEYSPACE ks WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        cql.execute("CREATE TABLE ks.s (a int PRIMARY KEY, b text) WITH compaction = "
                    "{'class': 'NullCompactionStrategy'}")
        cql.execute(f"INSERT INTO ks.s (a, b) VALUES (1, '{'x' * 1000}')")
        ask(node, "POST", "/storage_service/keyspace_flush/ks")
        good, = data_files(node, "s")
        cql.execute(f"INSERT INTO ks.s (a, b) VALUES (1, '{'y' * 1000}')")
        ask(node, "POST", "/storage_service/keyspace_flush/ks")
        bad, = set(data_files(node, "s")) - {good}
        data = bytearray(bad.read_bytes())
        data[len(data) // 2] ^= 0x5a
        bad.write_bytes(data)
        scrub = "/storage_service/keyspace_scrub/ks"
        assert ask(node, "GET", scrub, cf="s", scrub_mode="ABORT") == (200, 1)
        kept = {"cf": "s", "quarantine_invalid_sstables": "false"}
        assert ask(node, "GET", scrub, **kept) == (200, 3)
        assert bad.exists() and len(data_files(node, "s")) == 2
        assert ask(node, "GET", scrub, cf="s") == (200, 3)
        assert not bad.exists() and (bad.parent / "quarantine" / bad.name).exists()
        found = cql.execute("SELECT b FROM ks.s BYPASS CACHE").one().b
        assert found == "x" * 1000


def test_what_lies_in_upload_is_loaded(node, cql):
    for name in ["u1", "u2"]:
        cql.execute(f"CREATE TABLE ks.{name} (a int PRIMARY KEY, b text)")
    cql.execute("INSERT INTO ks.u1 (a, b) VALUES (1, 'x')")
    ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="u1")
    data, = data_files(node, "u1")
    folder, = (node.workdir / "data" / "data" / "ks").glob("u2-*")
    upload = folder / "upload"
    upload.mkdir(exist_ok=True)
    for part in Path(data).parent.glob(data.name.replace("Data.db", "*")):
        shutil.copy(part, upload)
    status, took = ask(node, "POST", "/storage_service/sstables/ks", cf="u2")
    assert status == 200 and (took["sstables"], took["directory"]) == (1, str(upload))
    assert [tuple(row) for row in cql.execute("SELECT * FROM ks.u2")] == [(1, "x")]


def test_lines_are_written_into_the_log(node, cql):
    assert ask(node, "POST", "/system/log", message="a test begins", level="info") == (200, None)
    assert "a test begins" in node.log.read_text()
    status, answer = ask(node, "POST", "/system/log", message="x", level="loud")
    assert status == 400 and "loud" in answer["message"]


@pytest.mark.parametrize("method, path, parameters, status, text", [
    ("GET", "/", {}, 404, "Not found"),
    ("GET", "/storage_service/nothing", {}, 404, "/storage_service/nothing"),
    ("GET", "/storage_service/flush", {}, 404, "Not found"),
    ("POST", "/storage_service/keyspace_flush/none", {}, 400, "Can't find a keyspace none"),
    ("POST", "/storage_service/keyspace_flush/ks", {"cf": "none"}, 400,
     "Can't find a column family none in keyspace ks"),
    ("POST", "/storage_service/sstables/ks", {}, 400, "one table"),
    ("POST", "/storage_service/keyspace_scrub/ks", {}, 404, "Not found"),
    ("GET", "/storage_service/keyspace_scrub/none", {}, 400, "Can't find a keyspace none"),
    ("GET", "/storage_service/keyspace_scrub/ks", {"scrub_mode": "XXX"}, 400, "scrub_mode"),
    ("GET", "/storage_service/keyspace_scrub/ks", {"quarantine_mode": "YYY"}, 400,
     "quarantine_mode"),
    ("POST", "/storage_service/keyspace_cleanup/ks", {"cf": "none"}, 400, "none"),
    ("POST", "/compaction_manager/stop_compaction", {"type": "XXX"}, 400, "XXX"),
    ("POST", "/compaction_manager/stop_keyspace_compaction/ks",
     {"type": "COMPACTION", "tables": "none"}, 400, "none"),
])
def test_what_cannot_be_done_is_refused(node, cql, method, path, parameters, status, text):
    found, answer = ask(node, method, path, **parameters)
    assert found == status and text in answer["message"] and answer["code"] == status


def test_a_port_that_is_taken_is_named(node):
    other = Node("--api-address", node.address)
    with pytest.raises(RuntimeError, match=f"{node.address}:10000"):
        other.start()


def metrics(node, query=""):
    """Values by name and labels."""
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics{query}") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_metrics_follow_what_is_done(node, cql):
    cql.execute("CREATE TABLE ks.counted (a int PRIMARY KEY)")

    def total(name):
        return sum(value for key, value in metrics(node, f"?__name__={name}").items())

    written = total("scylla_commitlog_bytes_written")
    admitted = total("scylla_transport_requests_admitted")
    for value in range(100):
        cql.execute(f"INSERT INTO ks.counted (a) VALUES ({value})")
    ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="counted")
    assert total("scylla_transport_requests_admitted") >= admitted + 100
    assert total("scylla_commitlog_bytes_written") > written
    assert total("scylla_io_queue_total_write_bytes") > 0
    assert total("scylla_transport_current_connections") > 0


def test_metrics_tell_of_rules_that_were_met(node, cql):
    def total(name, label=""):
        values = metrics(node, f"?__name__={name}").items()
        return sum(value for key, value in values if label in key)

    refused = "scylla_cql_minimum_replication_factor_fail_violations"
    errors, level = "scylla_transport_cql_errors_total", "scylla_cql_writes_per_consistency_level"
    before = total(refused), total(errors, "config"), total(level, '"ONE"')
    cql.execute("UPDATE system.config SET value = '2' "
                "WHERE name = 'minimum_replication_factor_fail_threshold'")
    try:
        with pytest.raises(Exception, match="minimum_replication_factor_fail_threshold=2"):
            cql.execute("CREATE KEYSPACE no WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    finally:
        cql.execute("UPDATE system.config SET value = '-1' "
                    "WHERE name = 'minimum_replication_factor_fail_threshold'")
    cql.execute("CREATE TABLE ks.levels (a int PRIMARY KEY)")
    cql.execute(SimpleStatement("INSERT INTO ks.levels (a) VALUES (1)",
                                consistency_level=ConsistencyLevel.ONE))
    after = total(refused), total(errors, "config"), total(level, '"ONE"')
    assert after[0] == before[0] + 1 and after[1] == before[1] + 1 and after[2] > before[2]


def test_metrics_tell_their_shard(node, cql):
    names = metrics(node, "?__name__=scylla_reactor_*")
    assert names and all(name.startswith("scylla_reactor_") for name in names)
    assert {name.split('shard="')[1][0] for name in names} == {"0", "1"}
    assert len(metrics(node)) > len(names)


def test_the_pace_of_compaction(node, cql):
    path = "/storage_service/compaction_throughput"
    assert ask(node, "GET", path) == (200, 0)
    assert ask(node, "POST", path, value="x")[0] == 400
    assert ask(node, "POST", path, value=-1)[0] == 400
    assert ask(node, "POST", path)[0] == 400
    assert ask(node, "POST", path, value=16) == (200, None)
    assert ask(node, "GET", path) == (200, 16)
    row = cql.execute("SELECT value, source FROM system.config WHERE name = "
                      "'compaction_throughput_mb_per_sec'").one()
    assert (row.value, row.source) == ("16", "api")
    cql.execute("UPDATE system.config SET value = '0' WHERE name = "
                "'compaction_throughput_mb_per_sec'")
    assert ask(node, "GET", path) == (200, 0)
    done = "/compaction_manager/metrics/completed_tasks"
    before = ask(node, "GET", done)[1]
    cql.execute("CREATE TABLE ks.merged (a int PRIMARY KEY)")
    for a in range(20):
        cql.execute(f"INSERT INTO ks.merged (a) VALUES ({a})")
    assert ask(node, "POST", "/storage_service/keyspace_compaction/ks", cf="merged")[0] == 200
    assert before < ask(node, "GET", done)[1]
    assert ask(node, "GET", "/compaction_manager/metrics/bytes_compacted")[1] > 0
    assert ask(node, "GET", "/compaction_manager/metrics/held_for_space") == (200, 0)
    names = {name.split("{")[0] for name in metrics(node, "?__name__=scylla_compaction_manager_*")}
    wanted = ["compactions", "pending_compactions", "held_for_space", "completed_compactions",
              "failed_compactions", "bytes_compacted", "bytes_written", "backlog",
              "normalized_backlog", "quarantined_sstables"]
    assert names == {f"scylla_compaction_manager_{name}" for name in wanted}


def test_slow_requests_and_a_share_of_all_are_traced(node, cql):
    path = "/storage_service/slow_query"
    off = {"enable": False, "ttl": 86400, "threshold": 500000, "fast": False}
    assert ask(node, "GET", path) == (200, off)
    assert ask(node, "GET", "/storage_service/trace_probability") == (200, 0.0)
    assert ask(node, "POST", path, threshold="x")[0] == 400
    assert ask(node, "POST", "/storage_service/trace_probability", probability="2")[0] == 400
    assert ask(node, "POST", "/storage_service/trace_probability")[0] == 400
    cql.execute("CREATE TABLE ks.slow (a int PRIMARY KEY)")

    def wait(text, count=1):
        for _ in range(100):
            rows = [row for row in cql.execute(text) if "very slow" in row.parameters["query"]]
            if count <= len(rows):
                return rows
            time.sleep(0.1)
        raise AssertionError(f"nothing came of {text}")

    # Everything is slow.
    assert ask(node, "POST", path, enable="true", threshold=0, ttl=600) == (200, None)
    assert ask(node, "GET", path)[1] == {**off, "enable": True, "ttl": 600, "threshold": 0}
    cql.execute("SELECT a AS \"very slow\" FROM ks.slow WHERE a = 1")
    assert ask(node, "POST", path, enable="false") == (200, None)
    row = wait("SELECT * FROM system_traces.node_slow_log")[0]
    assert row.table_names == {"ks.slow"} and row.command.startswith("SELECT a AS")
    assert row.duration > 0 and row.username == "anonymous" and row.node_ip == node.address
    times = list(cql.execute("SELECT * FROM system_traces.node_slow_log_time_idx"))
    assert (row.start_time, row.shard) in {(at.start_time, at.shard) for at in times}
    events = f"SELECT activity, ttl(activity) FROM system_traces.events WHERE session_id = {row.session_id}"
    ttls = [row[1] for row in cql.execute(events)]
    assert ttls and max(ttls) <= 600
    # All of them.
    assert ask(node, "POST", "/storage_service/trace_probability", probability=1) == (200, None)
    cql.execute("SELECT a AS \"very slow\" FROM ks.slow WHERE a = 2")
    assert ask(node, "POST", "/storage_service/trace_probability", probability=0) == (200, None)
    # Sessions are written a while after their answers.
    before = len(wait("SELECT * FROM system_traces.sessions", 2))
    cql.execute("SELECT a AS \"very slow\" FROM ks.slow WHERE a = 3")
    assert len(wait("SELECT * FROM system_traces.sessions")) == before


def test_what_is_to_be_compacted_is_told(node, cql):
    cql.execute("CREATE TABLE ks.pending (a int PRIMARY KEY)")
    assert ask(node, "DELETE", "/column_family/autocompaction/ks:pending") == (200, None)

    def pending():
        status, tasks = ask(node, "GET", "/compaction_manager/metrics/pending_tasks_by_table")
        assert status == 200
        return sum(task["task"] for task in tasks if (task["ks"], task["cf"]) == ("ks", "pending"))

    assert pending() == 0
    for key in range(20):
        cql.execute(f"INSERT INTO ks.pending (a) VALUES ({key})")
        ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="pending")
    assert 0 < pending() <= ask(node, "GET", "/compaction_manager/metrics/pending_tasks")[1]
    path = "/column_family/metrics/pending_compactions/ks:pending"
    assert ask(node, "GET", path) == (200, pending())
    ask(node, "POST", "/storage_service/keyspace_compaction/ks", cf="pending")
    assert pending() == 0


def test_filters_of_a_table_are_counted(node, cql):
    cql.execute("CREATE TABLE ks.filtered (a int PRIMARY KEY) WITH bloom_filter_fp_chance = 0.5")
    for key in range(100):
        cql.execute(f"INSERT INTO ks.filtered (a) VALUES ({key})")
    ask(node, "POST", "/storage_service/keyspace_flush/ks", cf="filtered")
    for key in range(1000, 1200):
        cql.execute(f"SELECT * FROM ks.filtered WHERE a = {key} BYPASS CACHE")
    path = "/column_family/metrics/"
    status, in_vain = ask(node, "GET", path + "bloom_filter_false_positives/ks:filtered")
    assert status == 200 and 20 < in_vain < 180
    assert ask(node, "GET", path + "bloom_filter_false_ratio/ks:filtered") == (200, 1.0)
    assert ask(node, "GET", path + "live_ss_table_count/ks:filtered")[1] >= 1
    assert ask(node, "GET", path + "bloom_filter_false_positives/ks:nothing")[0] == 400
    assert ask(node, "GET", path + "nothing_of_the_kind/ks:filtered")[0] == 404


def test_clients_can_be_shut_out():
    with Node() as node:
        path = "/storage_service/native_transport"
        assert ask(node, "GET", path) == (200, True)
        session = node.connect()
        assert ask(node, "DELETE", path) == (200, None)
        assert ask(node, "GET", path) == (200, False)
        with pytest.raises(NoHostAvailable):
            session.execute("SELECT * FROM system.local")
        assert ask(node, "DELETE", path) == (200, None)
        for _ in range(2):
            assert ask(node, "POST", path) == (200, None)
        assert ask(node, "GET", path) == (200, True)
        assert node.connect().execute("SELECT key FROM system.local").one().key == "local"
