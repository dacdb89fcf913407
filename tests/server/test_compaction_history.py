"""`system.compaction_history`: what a merge read, wrote and forgot, by CQL, REST and nodetool."""
import json
import subprocess
import time
import urllib.parse
import urllib.request

from node import NEREID, Node

ATTEMPTS = "total_tombstone_purge_attempt"


def ask(node, method, path, **parameters):
    url = f"http://{node.address}:10000{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
        body = answer.read()
    return json.loads(body) if body else None


def records(node):
    told = ask(node, "GET", "/compaction_manager/compaction_history")
    return [one for one in told if (one["ks"], one["cf"]) == ("ks", "t")]


def merged(node):
    """The merge of ks.t, once it is written down."""
    deadline = time.monotonic() + 60
    while not records(node):
        assert time.monotonic() < deadline
    [one] = records(node)
    return one


def test_a_merge_is_told_and_outlives_the_node():
    with Node("--smp", "1") as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (a int, b int, c int, PRIMARY KEY (a, b)) WITH "
                        "compaction = {'class': 'NullCompactionStrategy'} "
                        "AND tombstone_gc = {'mode': 'immediate'}")
        for part in range(2):
            for b in range(5):
                session.execute(f"INSERT INTO ks.t (a, b, c) VALUES ({part}, {b}, 1)")
            session.execute("INSERT INTO ks.t (a, b, c) VALUES (7, 1, 1)")
            if part:
                session.execute("DELETE FROM ks.t WHERE a = 0 AND b > 2")
            ask(node, "POST", "/storage_service/keyspace_flush/ks")
        ask(node, "POST", "/storage_service/keyspace_compaction/ks", cf="t")
        told = merged(node)
        # Two partitions of which both have the start and the end, and one of them a row; of each
        # side five more rows, and of one alone a partition and a deletion with two ends.
        assert told["rows_merged"] == [{"key": 1, "value": 14}, {"key": 2, "value": 5}]
        assert [one["origin"] for one in told["sstables_in"]] == ["memtable"] * 2
        assert [one["origin"] for one in told["sstables_out"]] == ["compaction"]
        assert sum(one["size"] for one in told["sstables_in"]) == told["bytes_in"]
        assert told["sstables_out"][0]["size"] == told["bytes_out"]
        assert told[ATTEMPTS] >= 0
        node.stop()
        node.start()
        assert merged(node) == told
        row = node.connect().execute(
            f"SELECT rows_merged, sstables_in, sstables_out, {ATTEMPTS} AS attempts, "
            "ttl(bytes_in) AS ttl FROM system.compaction_history "
            "WHERE keyspace_name = 'ks' ALLOW FILTERING").one()
        assert dict(row.rows_merged) == {1: 14, 2: 5} and row.attempts == told[ATTEMPTS]
        assert [one.size for one in row.sstables_in] == [one["size"] for one in told["sstables_in"]]
        assert 0 < row.ttl <= 7 * 24 * 3600
        printed = subprocess.run(
            [NEREID, "nodetool", "-h", node.address, "compactionhistory", "-F", "json"],
            capture_output=True, text=True, timeout=60, check=True)
        listed = json.loads(printed.stdout)["CompactionHistory"]
        [shown] = [one for one in listed if one["columnfamily_name"] == "t"]
        assert shown["rows_merged"] == told["rows_merged"]
        assert shown["sstables_out"][0]["generation"] == str(row.sstables_out[0].generation)
