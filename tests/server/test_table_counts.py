"""What is counted by table: memtables that were written, lookups in the row cache."""
import subprocess

from node import NEREID, Node
from rest import told

METRICS = "/column_family/metrics"


def test_memtables_and_lookups_are_counted_by_table():
    with Node("--smp", "2") as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        for table in ("t", "other"):
            session.execute(f"CREATE TABLE ks.{table} (a int PRIMARY KEY, b int)")

        def counts(table):
            names = ("memtable_switch_count", "row_cache_hit", "row_cache_miss")
            return [told(node, "GET", f"{METRICS}/{name}/ks:{table}") for name in names]

        assert counts("t") == [0, 0, 0]
        for part in range(3):
            session.execute(f"INSERT INTO ks.t (a, b) VALUES (1, {part})")
            told(node, "POST", "/storage_service/keyspace_flush/ks", cf="t")
        switched, hits, misses = counts("t")
        assert switched == 3
        # A flush goes into the cache; without it the first read looks below, the others do not.
        told(node, "POST", "/system/drop_sstable_caches")
        for _ in range(5):
            assert session.execute("SELECT b FROM ks.t WHERE a = 1").one().b == 2
        assert counts("t") == [3, hits + 4, misses + 1]
        assert counts("other") == [0, 0, 0]
        assert told(node, "GET", f"{METRICS}/memtable_switch_count") >= 3
        assert told(node, "GET", f"{METRICS}/row_cache_hit") >= hits + 4
        printed = subprocess.run([NEREID, "nodetool", "-h", node.address, "tablestats", "ks.t"],
                                 capture_output=True, text=True, timeout=60, check=True)
        assert "Memtable switch count: 3\n" in printed.stdout
