"""`nereid compactions`: a running node's merges, watched from outside."""
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest
from node import NEREID, Node, free_address
from rest import ask, told, until

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        yield node


def compactions(*words):
    return subprocess.run([NEREID, "compactions", *words], capture_output=True, text=True,
                          timeout=60, check=False)


@pytest.fixture
def merge(node):
    """A merge of ks.slow that takes its time; the job as the REST API tells it."""
    cql = node.connect()
    cql.execute("CREATE TABLE IF NOT EXISTS ks.slow (a int PRIMARY KEY, b blob) "
                "WITH compression = {'sstable_compression': ''} "
                "AND compaction = {'class': 'NullCompactionStrategy'}")
    insert = cql.prepare("INSERT INTO ks.slow (a, b) VALUES (?, ?)")
    for part in range(2):
        for key in range(400):
            cql.execute(insert, (part * 400 + key, os.urandom(10_000)))
        told(node, "POST", "/storage_service/keyspace_flush/ks", cf="slow")
    limit = "/storage_service/compaction_throughput"
    told(node, "POST", limit, value=1)
    asked = threading.Thread(
        target=ask, args=(node, "POST", "/storage_service/keyspace_compaction/ks"),
        kwargs={"cf": "slow"})
    asked.start()

    def running():
        jobs = told(node, "GET", "/compaction_manager/compactions")
        return [job for job in jobs if job["cf"] == "slow" and job["bytes_written"]]

    yield until(running, "a merge that has written something")[0]
    told(node, "POST", limit, value=0)
    asked.join()


def test_jobs_tell_how_long_they_take_yet(merge):
    assert 0 < merge["progress"] < 1 and merge["elapsed_ms"] > 0
    whole = merge["elapsed_ms"] / merge["progress"]
    rounded = 2 + 1 / merge["progress"]
    assert merge["remaining_ms"] == pytest.approx(whole - merge["elapsed_ms"], abs=rounded)


def test_what_runs_is_printed_once(node, merge):
    done = compactions("--host", node.address, "--once")
    assert done.returncode == 0 and done.stderr == "", done
    lines = done.stdout.splitlines()
    assert lines[0] == f"compactions of {node.address}:10000"
    assert lines[2].split() == ["KIND", "TABLE", "DONE", "ROWS", "WRITTEN", "RATE", "TIME", "LEFT"]
    jobs = [line for line in lines[3:] if "ks.slow" in line and "ago" not in line]
    shape = (r"major +ks\.slow +\[#*\.*\] +\d+\.\d% +\d+ +[\d.]+ [KM]iB +\d+\.\d MiB/s"
             r" +\d+:\d\d +\d+:\d\d")
    # The other shard may not have begun.
    assert any(re.fullmatch(shape, job) for job in jobs), done.stdout
    assert re.search(r"pending \d+, to write .*, limit 1 MiB/s", done.stdout)
    assert "\x1b" not in done.stdout


def test_what_has_ended_is_told(node):
    cql = node.connect()
    cql.execute("CREATE TABLE ks.ended (a int PRIMARY KEY)")
    cql.execute("INSERT INTO ks.ended (a) VALUES (1)")
    told(node, "POST", "/storage_service/keyspace_compaction/ks", cf="ended")
    history = "/compaction_manager/compaction_history"
    until(lambda: any(one["cf"] == "ended" for one in told(node, "GET", history)), "a record")
    assert len(told(node, "GET", history, limit=1)) == 1
    done = compactions("--host", node.address)
    assert done.returncode == 0, done
    ended = [line for line in done.stdout.splitlines() if "ks.ended" in line]
    assert ended and re.match(r" *\d+:\d\d ago  major +ks\.ended ", ended[0]), done.stdout
    shares = told(node, "GET", "/compaction_manager/metrics/shares")
    assert len(shares) == 2 and all(0 < share <= 1000 for share in shares)
    assert told(node, "GET", "/compaction_manager/metrics/backlog") >= 0


def test_a_node_that_is_not_there_is_named():
    address = free_address()
    done = compactions("--host", address, "--port", "9")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{address}:9" in done.stderr and "refused" in done.stderr, done.stderr


def test_what_is_no_node_is_named():
    with socket.create_server((free_address(), 0)) as server:
        address, port = server.getsockname()
        process = subprocess.Popen([NEREID, "compactions", "--host", address, "--port", str(port)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        peer, _ = server.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert f"{address}:{port}" in err


@pytest.mark.parametrize("words", [["--port", "0"], ["--interval", "0"], ["--hots", "x"]])
def test_words_that_make_no_sense(words):
    done = compactions(*words)
    assert done.returncode == 2 and words[0] in done.stderr, done


def test_a_terminal_is_drawn_on_and_left_as_it_was(node):
    ours, theirs = pty.openpty()
    command = [NEREID, "compactions", "--host", node.address, "--interval", "0.1"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs,
                               start_new_session=True, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    seen = ""

    def read(text, count):
        nonlocal seen
        deadline = time.monotonic() + 60
        while seen.count(text) < count:
            assert time.monotonic() < deadline, seen
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # The other side is closed, and everything was read.
                break
            seen += chunk.decode()
        assert count <= seen.count(text), seen

    title = f"compactions of {node.address}:10000, every 100ms; Ctrl-C ends"
    read(title, 3)
    process.send_signal(signal.SIGINT)
    read(LEAVE, 1)
    assert process.wait(60) == 0
    os.close(ours)
    assert seen.startswith(ENTER) and seen.endswith(LEAVE) and seen.count(ENTER) == 1
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h") == 1
