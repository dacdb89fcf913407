"""Commands of `nereid nodetool` against a node: what they do, what they print, how they end."""
import json
import re
import shutil
import subprocess
import time
import tomllib
import urllib.request

import pytest
from cassandra import WriteFailure

from node import NEREID, ROOT, Node


@pytest.fixture(scope="module", name="node")
def _node():
    with Node() as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
        for key in range(10):
            session.execute("INSERT INTO ks.t (k, v) VALUES (%s, 1)", (key,))
        yield node


def ended(node, *words):
    return subprocess.run([NEREID, "nodetool", "-h", node.address, *words], capture_output=True,
                          text=True, timeout=60, check=False)


def run(node, *words):
    """What a command prints, which does its work."""
    result = ended(node, *words)
    assert (result.returncode, result.stderr) == (0, ""), words
    return result.stdout


def history(node):
    return json.loads(run(node, "compactionhistory", "-F", "json"))["CompactionHistory"]


def test_the_node_is_up(node):
    text = run(node, "status")
    assert re.search(rf"^UN {re.escape(node.address)} +\S+", text, re.MULTILINE), text
    release, own = run(node, "version").splitlines()
    assert re.fullmatch(r"ReleaseVersion: \d+\.\d+\.\d+", release)
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert own == f"NereidVersion: {manifest['workspace']['package']['version']}"
    url = f"http://{node.address}:10000/storage_service/nereid_version"
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert json.loads(answer.read()) in own
    assert re.search(r"^Native Transport active: true$", run(node, "info"), re.MULTILINE)


def test_a_full_disk_is_told(node):
    """Where the reserve is half as large again as what is free, the disk is as good as full."""
    session = node.connect()
    level = "UPDATE system.config SET value = '%s' WHERE name = 'critical_disk_utilization_level'"
    disk = shutil.disk_usage(node.workdir)
    session.execute(level % max(0, 1 - 1.5 * disk.free / disk.total))
    ends = time.monotonic() + 30
    while "Warning" not in run(node, "status") and time.monotonic() < ends:
        time.sleep(0.1)
    told = r"^Warning: the disk is full, writes of clients are refused: \d+ of \d+ MiB are free"
    assert re.search(told, run(node, "status"), re.MULTILINE)
    assert re.search(told, run(node, "info"), re.MULTILINE)
    with pytest.raises(WriteFailure, match="the disk is full"):
        session.execute("INSERT INTO ks.t (k, v) VALUES (100, 1)")
    session.execute("DELETE FROM ks.t WHERE k = 3")
    session.execute(level % "0.98")
    while "Warning" in run(node, "status") and time.monotonic() < ends:
        time.sleep(0.1)
    session.execute("INSERT INTO ks.t (k, v) VALUES (3, 1)")
    assert "Warning" not in run(node, "status")


def test_transport_is_stopped_and_started(node):
    assert run(node, "statusbinary") == "running\n"
    run(node, "disablebinary")
    assert run(node, "statusbinary") == "not running\n"
    run(node, "enablebinary")
    assert run(node, "statusbinary") == "running\n"


def test_tables_are_flushed_and_merged(node):
    session = node.connect()
    for value in (2, 3):
        session.execute("INSERT INTO ks.t (k, v) VALUES (1, %s)", (value,))
        run(node, "flush", "ks", "t")
    run(node, "compact", "ks", "t")
    told = json.loads(run(node, "tablestats", "-F", "json", "ks.t"))
    assert int(told["ks"]["tables"]["t"]["space_used_live"]) > 0
    # What has ended is listed within seconds.
    deadline = time.monotonic() + 20
    while not any(one["columnfamily_name"] == "t" for one in history(node)):
        assert time.monotonic() < deadline
    assert run(node, "compactionstats").startswith("pending tasks: ")


def test_snapshots_are_taken_listed_and_removed(node):
    assert "Snapshot directory: tag1" in run(node, "snapshot", "-t", "tag1", "ks")
    assert re.search(r"^tag1 +ks +t ", run(node, "listsnapshots"), re.MULTILINE)
    run(node, "clearsnapshot", "-t", "tag1")
    assert "tag1" not in run(node, "listsnapshots")


def test_what_the_node_refuses_is_told(node):
    result = ended(node, "flush", "nowhere")
    assert result.returncode == 1
    assert result.stderr == "error processing arguments: keyspace nowhere does not exist\n"
    result = ended(node, "describering", "nowhere")
    assert result.returncode == 4
    assert "remote replied with status code 400 Bad Request:\n" in result.stderr
    result = ended(node, "-p", "1", "version")
    assert result.returncode == 4 and "connect" in result.stderr


def test_how_far_a_view_is_built_is_told(node):
    session = node.connect()
    session.execute("CREATE TABLE ks.viewed (k int PRIMARY KEY, v int)")
    for key in range(20):
        session.execute("INSERT INTO ks.viewed (k, v) VALUES (%s, %s)", (key, key % 3))
    session.execute("CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.viewed WHERE v IS NOT "
                    "NULL AND k IS NOT NULL PRIMARY KEY (v, k)")
    session.execute("CREATE INDEX of_v ON ks.viewed (v)")
    built = ("SELECT view_name FROM system.built_views WHERE keyspace_name = 'ks'",
             "SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = 'ks'")
    end = time.monotonic() + 60
    while [len(list(session.execute(query))) for query in built] != [2, 1]:
        assert time.monotonic() < end, "not built within a minute"
        time.sleep(0.05)
    status = session.execute("SELECT status FROM system_distributed.view_build_status "
                             "WHERE keyspace_name = 'ks' AND view_name = 'by_v'")
    assert [row.status for row in status] == ["SUCCESS"]
    assert run(node, "viewbuildstatus", "ks", "by_v") == "ks.by_v has finished building\n"
    assert sorted(row.k for row in session.execute("SELECT k FROM ks.by_v")) == list(range(20))
    found = session.execute("SELECT k FROM ks.viewed WHERE v = 1")
    assert sorted(row.k for row in found) == list(range(1, 20, 3))
    url = f"http://{node.address}:10000/"
    told = {
        "storage_service/view_build_statuses/ks/by_v":
            [{"key": node.address, "value": "SUCCESS"}],
        "column_family/built_indexes/ks:viewed": ["of_v"],
    }
    for path, expected in told.items():
        with urllib.request.urlopen(url + path, timeout=60) as answer:
            assert json.loads(answer.read()) == expected, path
    session.execute("DROP MATERIALIZED VIEW ks.by_v")
    result = ended(node, "viewbuildstatus", "ks", "by_v")
    assert result.returncode != 0 and "Can't find a view by_v" in result.stderr + result.stdout
