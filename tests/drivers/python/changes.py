"""Who reads logs of changes without a library, as ScyllaDB's documents tell it:
changes.py ADDRESS PORT.

A generation is in force from its time to that of the next one. Its streams are asked for, window
of time by window. It runs with whichever of scylla-driver and cassandra-driver the interpreter
has, and prints "N passed, N failed".
"""
import datetime
import sys
import time
import traceback
from pathlib import Path

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import dict_factory
from cassandra.util import max_uuid_from_time

PARTITIONS = 20
# Whether over tablets or over the ring, with images or without, and whether there are more tablets
# later.
CASES = [(False, False, False), (False, True, False), (True, False, False), (True, True, False),
         (True, True, True)]
WINDOW_SECONDS = 5
SCRIPT = Path(__file__).resolve().parent.parent / "changes.txt"


def script(images):
    """What changes.txt has: statements, and what a log with images, or without, tells of them."""
    lines = SCRIPT.read_text(encoding="utf-8").replace(" \\\n", " ").splitlines()
    statements = [line for line in lines if not line.startswith(("  ", "#"))]
    rows = [line.strip() for line in lines if line.startswith("  ")]
    return statements, [row for row in rows if images or row[0] not in "09"]


def value(name, of):
    """A value of a column as changes.txt has it; nothing if there is none."""
    if of is None or of in ({}, set()):
        return ""
    if name == "l":
        return "[" + ",".join(str(of[at]) for at in sorted(of, key=lambda at: at.time)) + "]"
    if name == "m":
        return "[" + ",".join(f"{key}:{of[key]}" for key in sorted(of)) + "]"
    if name == "s":
        return "[" + ",".join(sorted(of)) + "]"
    if name == "t":
        return "(" + ",".join("null" if one is None else str(one) for one in of) + ")"
    if name == "u":
        fields = ((field, getattr(of, field)) for field in ("a", "b"))
        return "[" + ",".join(f"{field}:{one}" for field, one in fields if one is not None) + "]"
    return str(of)


def render(row):
    """A row of a log as changes.txt has it."""
    words = [str(row["cdc$operation"])]
    if row["cdc$ttl"]:
        words.append(f"ttl={row['cdc$ttl']}")
    for name in "cflmstuv":
        if row.get(f"cdc$deleted_{name}"):
            words.append(f"{name}-")
        elements = row.get(f"cdc$deleted_elements_{name}")
        if elements:
            told = ",".join(map(str, sorted(elements)))
            words.append(f"{name}-{len(elements)}" if name == "l" else f"{name}-[{told}]")
        if told := value(name, row[name]):
            words.append(f"{name}={told}")
    return " ".join(words)


class Reader:
    """Of a table's log. Over tablets it has streams of its own, over the ring the cluster's."""

    def __init__(self, session, keyspace, table, tablets):
        self.session = session
        self.table = (keyspace, table)
        self.tablets = tablets
        self.window = session.prepare(
            f'SELECT * FROM {keyspace}.{table}_scylla_cdc_log WHERE "cdc$stream_id" = ? '
            'AND "cdc$time" > ? AND "cdc$time" <= ?')
        self.window.fetch_size = 11

    def generations(self):
        if self.tablets:
            rows = self.session.execute("SELECT timestamp FROM system.cdc_timestamps WHERE "
                                        "keyspace_name = %s AND table_name = %s", self.table)
            return sorted(row["timestamp"] for row in rows)
        rows = self.session.execute("SELECT time FROM system_distributed."
                                    "cdc_generation_timestamps WHERE key = 'timestamps'")
        return sorted(row["time"] for row in rows)

    def streams(self, generation):
        if self.tablets:
            rows = self.session.execute("SELECT stream_id FROM system.cdc_streams WHERE "
                                        "keyspace_name = %s AND table_name = %s AND "
                                        "timestamp = %s AND stream_state = 0",
                                        (*self.table, generation))
            return [row["stream_id"] for row in rows]
        rows = self.session.execute("SELECT streams FROM system_distributed."
                                    "cdc_streams_descriptions_v2 WHERE time = %s", (generation,))
        return [stream for row in rows for stream in row["streams"]]

    def read(self, until):
        """Rows of all streams, each stream in its order."""
        generations = self.generations()
        assert generations, "no generation of streams"
        for start, end in zip(generations, [*generations[1:], until]):
            streams = self.streams(start)
            assert streams, f"generation {start} has no streams"
            while start < end:
                ahead = min(end, start + datetime.timedelta(seconds=WINDOW_SECONDS))
                window = (max_uuid_from_time(utc(start)), max_uuid_from_time(utc(ahead)))
                found = execute_concurrent_with_args(
                    self.session, self.window, [(stream, *window) for stream in streams])
                for stream, (done, rows) in zip(streams, found):
                    assert done, rows
                    for row in rows:
                        assert row["cdc$stream_id"] == stream
                        yield row
                start = ahead


def utc(moment):
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


def check_sets(rows):
    """Sets of a stream come in order of their times, rows numbered, and the last one says so."""
    last = {}
    for row in rows:
        stream, number = row["cdc$stream_id"], row["cdc$batch_seq_no"]
        at, follows = last.get(stream, (None, True))
        if follows:
            assert number == 0 and (at is None or at < row["cdc$time"].time), row
        else:
            assert number == last[stream, "number"] + 1 and at == row["cdc$time"].time, row
        last[stream] = (row["cdc$time"].time, bool(row["cdc$end_of_batch"]))
        last[stream, "number"] = number


def divide(session, keyspace, log):
    """Ends the log of a table, and makes a new one when the table has more tablets: with other
    streams."""
    session.execute("UPDATE system.config SET value = '1' WHERE name = "
                    "'tablet_load_stats_refresh_interval_in_seconds'")
    session.execute(f"ALTER TABLE {keyspace}.t WITH cdc = {{'enabled': false}}")
    session.execute(f"ALTER TABLE {keyspace}.t WITH tablets = {{'min_tablet_count': 8}}")
    deadline, count = time.monotonic() + 120, 0
    while count < 8:
        assert time.monotonic() < deadline, f"still {count} tablets"
        # Nothing tells a client that tablets were split, but the table of tablets.
        time.sleep(0.02)
        rows = session.execute("SELECT tablet_count FROM system.tablets WHERE keyspace_name = %s "
                               "AND table_name = 't' LIMIT 1 ALLOW FILTERING", (keyspace,))
        count = rows.one()["tablet_count"]
    session.execute(f"ALTER TABLE {keyspace}.t WITH cdc = {log}")


def exercise(session, tablets, images, divided):
    """Makes a table with a log, writes, and reads what was written."""
    keyspace = f"python_changes_{int(tablets)}_{int(images)}_{int(divided)}"
    log = f"{{'enabled': true, 'preimage': {images}, 'postimage': {images}}}"
    session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': "
                    "'NetworkTopologyStrategy', 'replication_factor': 1} AND tablets = "
                    f"{{'enabled': {tablets}}}")
    session.execute(f"CREATE TYPE {keyspace}.pair (a int, b text)")
    session.execute(
        f"CREATE TABLE {keyspace}.t (p int, c int, f text static, l list<int>, m map<text, int>, "
        f"s set<text>, t tuple<int, text>, u pair, v int, PRIMARY KEY (p, c)) WITH cdc = {log}")
    statements, expected = script(images)
    for number, statement in enumerate(statements):
        if divided and number == len(statements) // 2:
            divide(session, keyspace, log)
        for p in range(PARTITIONS):
            session.execute(statement.replace("$t", f"{keyspace}.t").replace("$p", str(p)))
    now = datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)
    rows = list(Reader(session, keyspace, "t", tablets).read(now + datetime.timedelta(seconds=1)))
    check_sets(rows)
    found = {p: [] for p in range(PARTITIONS)}
    for row in rows:
        found[row["p"]].append(render(row))
    for p, told in found.items():
        assert told == expected, f"of partition {p} the log tells\n  " + "\n  ".join(told)


def main():
    address, port = sys.argv[1:3]
    profile = ExecutionProfile(request_timeout=60, row_factory=dict_factory,
                               load_balancing_policy=WhiteListRoundRobinPolicy([address]))
    cluster = Cluster([address], port=int(port), protocol_version=4,
                      execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    session = cluster.connect()
    passed = failed = 0
    for case in CASES:
        try:
            exercise(session, *case)
            passed += 1
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {case}: {traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed")
    sys.stdout.flush()
    cluster.shutdown()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
