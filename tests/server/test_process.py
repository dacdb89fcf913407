"""Start, stop, kill: what is kept, what is said, what is left behind."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cassandra import DriverException
from node import NEREID, Node, ephemeral
from small_disk import Unavailable, node_on, small_disk, write_until_refused

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


def fill(node, rows=500):
    session = node.connect()
    session.execute(f"CREATE KEYSPACE kept WITH replication = {SIMPLE}")
    session.execute("CREATE TABLE kept.t (k int PRIMARY KEY, v text)")
    insert = session.prepare("INSERT INTO kept.t (k, v) VALUES (?, ?)")
    for future in [session.execute_async(insert, (k, f"v{k}")) for k in range(rows)]:
        future.result()
    session.execute("DELETE FROM kept.t WHERE k = 7")
    node.disconnect()


def check(node, rows=500):
    session = node.connect()
    got = dict(session.execute("SELECT k, v FROM kept.t"))
    assert got == {k: f"v{k}" for k in range(rows) if k != 7}
    node.disconnect()


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return status.rsplit(")", 1)[1].split()[0] == "Z"


def test_a_clean_stop_keeps_everything():
    with Node() as node:
        fill(node)
        for _ in range(2):
            assert node.stop() == 0
            assert "shutdown complete" in node.log.read_text()
            node.start()
            check(node)


def test_a_throw_away_node_leaves_the_options_of_others_alone(tmp_path):
    """It would serve, and write, the data of a node that is configured where it is started."""
    (tmp_path / "nereid.yaml").write_text(f"workdir: {tmp_path / 'precious'}\n")
    process = subprocess.Popen([NEREID, "--ephemeral"], cwd=tmp_path, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    told = json.loads(process.stdout.readline())
    process.terminate()
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "precious" not in told["workdir"] and not (tmp_path / "precious").exists()
    # Nobody asked for what it sets for itself.
    assert "WARN" not in re.sub(r"WARN.*this process may open.*", "", log), log


def test_an_interrupt_is_a_clean_stop():
    with Node() as node:
        node.process.send_signal(signal.SIGINT)
        assert node.process.wait(30) == 0


def test_a_kill_in_batch_mode_keeps_everything():
    with Node("--commitlog-sync", "batch") as node:
        fill(node)
        for _ in range(3):
            node.kill()
            node.start()
            check(node)


def test_other_shard_counts_find_the_data():
    with Node("--commitlog-sync", "batch") as node:
        fill(node)
        for shards in ["1", "3", "2"]:
            node.kill()
            node.options = [*node.options[:2], "--smp", shards]
            node.start()
            check(node)
        assert node.stop() == 0
        node.options = [*node.options[:2], "--smp", "1"]
        node.start()
        check(node)


def sstables(node):
    return {path.name for path in (node.workdir / "data").glob("**/kept/t-*/*-Data.db")}


def test_sstables_become_those_of_other_shards():
    with Node() as node:
        fill(node)
        assert node.stop() == 0
        for shards in ["3", "1", "8"]:
            before = sstables(node)
            assert before
            node.options = ["--smp", shards]
            node.start()
            check(node)
            deadline = time.monotonic() + 30
            # One shard has all of what three had: nothing is to be done.
            while shards != "1" and before & sstables(node):
                assert time.monotonic() < deadline, (shards, before, sstables(node))
                time.sleep(0.01)
            check(node)
            assert node.stop() == 0


def test_a_directory_in_use_is_refused_and_left_alone():
    with Node() as node:
        fill(node)
        command = [word if word != node.address else "127.255.0.9" for word in node.command()]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        said = second.stdout + second.stderr
        assert 0 < second.returncode < 100
        assert str(node.workdir / "data") in said and "in use" in said, said
        check(node)


@pytest.mark.parametrize("options, port", [([], 7000), (["--storage-port", "7007"], 9042)])
def test_an_address_in_use_is_named(options, port):
    with Node() as node:
        other = Node("--api-port", "", "--prometheus-port", "", *options, address=node.address)
        done = subprocess.run(other.command(), capture_output=True, text=True, timeout=60,
                              check=False)
        assert 0 < done.returncode < 100 and f"{node.address}:{port}" in done.stdout + done.stderr


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    done = subprocess.run([NEREID, "--workdir", str(blocked), "--rpc-address", "127.255.0.8"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert 0 < done.returncode < 100 and str(blocked) in done.stdout + done.stderr, done


def test_an_ephemeral_node_says_where_it_is_and_leaves_nothing():
    process, facts = ephemeral("--rpc-address", "127.254.0.1")
    try:
        assert {"host", "port", "shard_aware_port", "pid", "workdir"} <= set(facts)
        assert facts["pid"] == process.pid and Path(facts["workdir"]).is_dir()
        node = Node(address=facts["host"])
        node.port = facts["port"]
        session = node.connect()
        session.execute(f"CREATE KEYSPACE k WITH replication = {SIMPLE}")
        node.disconnect()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not Path(facts["workdir"]).exists()


def test_an_ephemeral_node_goes_with_its_parent():
    program = ("import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, "
               "stderr=subprocess.DEVNULL); print(p.stdout.readline().decode(), flush=True)")
    done = subprocess.run([sys.executable, "-c", program, NEREID, "--ephemeral", "--rpc-address",
                           "127.254.0.2"], capture_output=True, text=True, timeout=60, check=True)
    import json
    facts = json.loads(done.stdout)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if gone(facts["pid"]) and not Path(facts["workdir"]).exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"process {facts['pid']} or {facts['workdir']} outlived its parent")


def test_two_ephemeral_nodes_side_by_side():
    nodes = [ephemeral("--rpc-address", "127.254.0.3") for _ in range(2)]
    ports = {facts["port"] for _, facts in nodes}
    for process, _ in nodes:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert len(ports) == 2


@pytest.fixture(name="inside")
def _inside(tmp_path):
    """What runs a program that sees a file system of 96 MiB at `tmp_path`."""
    with contextlib.ExitStack() as stack:
        try:
            prefix = stack.enter_context(small_disk(tmp_path, 96))
        except Unavailable as why:
            pytest.skip(str(why))
        yield prefix


def test_a_node_that_died_on_a_full_disk_serves_again(tmp_path, inside):
    with node_on(inside, tmp_path) as node:
        session = node.connect()
        session.execute(f"CREATE KEYSPACE small WITH replication = {SIMPLE}")
        for name in ("t", "u"):
            session.execute(f"CREATE TABLE small.{name} (k int PRIMARY KEY, v blob)")
        session.execute("INSERT INTO small.u (k) VALUES (1)")
        taken, refusals = write_until_refused(session, "small.t", 0, 3000)
        assert 100 < len(taken) and all("disk" in one for one in refusals), refusals
        for life in range(2):
            node.disconnect()
            node.kill()
            node.start()
            session = node.connect()
            # What was taken is there; writes are refused, with the reason; deletions are not.
            found = {row.k for row in session.execute("SELECT k FROM small.t")}
            assert set(taken) <= found
            more, refusals = write_until_refused(session, "small.t", 10_000 * (life + 1), 3000)
            taken += more
            assert all("disk" in one for one in refusals), refusals
            session.execute("DELETE FROM small.u WHERE k = 1")
        assert "writes of clients are refused" in node.log.read_text()
        # Room comes back without a restart.
        session.execute("DROP TABLE small.t")
        insert = session.prepare("INSERT INTO small.u (k, v) VALUES (?, ?)")
        ends = time.monotonic() + 30
        for k in range(100):
            while True:
                try:
                    session.execute(insert, (k, os.urandom(50_000)))
                    break
                except DriverException:
                    assert time.monotonic() < ends, node.log.read_text()[-3000:]
                    time.sleep(0.1)
        log = node.log.read_text()
        assert "no pre-drop snapshot is taken: the disk is full" in log
        assert "the disk has room again: writes are accepted" in log
        assert "panicked" not in log


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_full_disk_refuses_writes_and_keeps_what_it_took(tmp_path):
    """A file system of 64 MB, seen by the node alone."""
    trial = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
             f"mount -t tmpfs -o size=64m tmpfs {tmp_path}"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("no file system of its own can be mounted here")
    node = Node("--commitlog-segment-size-in-mb", "4", "--commitlog-sync", "batch")
    mount = (f"mount -t tmpfs -o size=64m tmpfs {tmp_path} && "
             f"exec \"$@\" --workdir {tmp_path}/data")
    command = node.command()
    node.command = lambda: ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount,
                            "sh", command[0], *command[3:]]
    with node:
        session = node.connect()
        session.execute(f"CREATE KEYSPACE small WITH replication = {SIMPLE}")
        session.execute("CREATE TABLE small.t (k int PRIMARY KEY, v blob)")
        insert = session.prepare("INSERT INTO small.t (k, v) VALUES (?, ?) USING TIMEOUT 2s")
        taken, refusal = 0, None
        for k in range(2000):
            try:
                session.execute(insert, (k, os.urandom(100_000)))
            except Exception as error:  # pylint: disable=broad-except
                refusal = error
                break
            taken += 1
        assert refusal is not None and 50 < taken, (taken, refusal)
        # Reads go on, and what was taken is there.
        for k in (0, taken // 2, taken - 1):
            assert session.execute("SELECT k FROM small.t WHERE k = %s", (k,)).one() == (k,)
        assert node.is_running()
        log = node.log.read_text()
        assert "space" in log.lower() and "panicked" not in log, log[-3000:]
