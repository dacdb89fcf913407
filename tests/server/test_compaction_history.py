"""`system.compaction_history`: what a merge read, wrote and forgot, by CQL, REST and nodetool."""
import json
import subprocess

from node import NEREID, Node
from rest import told, until

ATTEMPTS = "total_tombstone_purge_attempt"


def records(node):
    history = told(node, "GET", "/compaction_manager/compaction_history")
    return [one for one in history if (one["ks"], one["cf"]) == ("ks", "t")]


def merged(node):
    """The merge of ks.t, once it is written down."""
    [one] = until(lambda: records(node), "a record of the merge")
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
            told(node, "POST", "/storage_service/keyspace_flush/ks")
        told(node, "POST", "/storage_service/keyspace_compaction/ks", cf="t")
        record = merged(node)
        # Two partitions of which both have the start and the end, and one of them a row; of each
        # side five more rows, and of one alone a partition and a deletion with two ends.
        assert record["rows_merged"] == [{"key": 1, "value": 14}, {"key": 2, "value": 5}]
        assert [one["origin"] for one in record["sstables_in"]] == ["memtable"] * 2
        assert [one["origin"] for one in record["sstables_out"]] == ["compaction"]
        assert sum(one["size"] for one in record["sstables_in"]) == record["bytes_in"]
        assert record["sstables_out"][0]["size"] == record["bytes_out"]
        assert record[ATTEMPTS] >= 0
        node.stop()
        node.start()
        assert merged(node) == record
        row = node.connect().execute(
            f"SELECT rows_merged, sstables_in, sstables_out, {ATTEMPTS} AS attempts, "
            "ttl(bytes_in) AS ttl FROM system.compaction_history "
            "WHERE keyspace_name = 'ks' ALLOW FILTERING").one()
        assert dict(row.rows_merged) == {1: 14, 2: 5} and row.attempts == record[ATTEMPTS]
        sizes = [one["size"] for one in record["sstables_in"]]
        assert [one.size for one in row.sstables_in] == sizes
        assert 0 < row.ttl <= 7 * 24 * 3600
        printed = subprocess.run(
            [NEREID, "nodetool", "-h", node.address, "compactionhistory", "-F", "json"],
            capture_output=True, text=True, timeout=60, check=True)
        listed = json.loads(printed.stdout)["CompactionHistory"]
        [shown] = [one for one in listed if one["columnfamily_name"] == "t"]
        assert shown["rows_merged"] == record["rows_merged"]
        assert shown["sstables_out"][0]["generation"] == str(row.sstables_out[0].generation)
