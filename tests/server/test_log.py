"""The log: its forms, its levels, and that a node never waits for who reads it."""
import fcntl
import json
import os
import re
import subprocess

import pytest
from node import Node
from rest import ask, until

TEXT = re.compile(r"(TRACE|DEBUG|INFO |WARN |ERROR) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} "
                  r"\[shard +\d+\] [\w:]+ - .+")
JOURNAL = re.compile(r"<[3467]>\[shard +\d+\] [\w:]+ - .+")


def lines(*words, **options):
    with Node(*words, **options) as node:
        assert node.stop() == 0
        return node.log.read_text().splitlines()


@pytest.mark.parametrize("words, form", [([], TEXT), (["--log-format", "text"], TEXT),
                                         (["--log-format", "journald"], JOURNAL)])
def test_lines_for_people(words, form):
    said = lines(*words)
    assert 10 < len(said) and not [line for line in said if not form.fullmatch(line)]


def test_lines_for_programs():
    # The line that a node is waited for by is of text.
    class JsonNode(Node):
        def wait_for_log(self, text, offset=0, seconds=30):
            return super().wait_for_log(text.replace("init - ", '"message":"'), offset, seconds)

    with JsonNode("--log-format", "json") as node:
        assert node.stop() == 0
        said = [json.loads(line) for line in node.log.read_text().splitlines()]
    assert {line["target"] for line in said} >= {"init"}
    for line in said:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["timestamp"]), line
        assert line["level"] in ("INFO", "WARN") and line["message"], line
    assert any(line["threadName"] == "shard-0" for line in said)


def test_the_journal_gets_its_form_where_systemd_says_so():
    """By the device and the inode of the stream, so that no child is mistaken."""
    with Node() as node:
        env = dict(os.environ)
        status = os.stat(node.log)
        env["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
        assert node.stop() == 0
        text = len(node.log.read_text().splitlines())
        node.env = env
        node.start()
        assert node.stop() == 0
        said = node.log.read_text().splitlines()
    assert all(TEXT.fullmatch(line) for line in said[:text])
    assert len(said) > text and all(JOURNAL.fullmatch(line) for line in said[text:])


def write(node, text, level="info"):
    assert ask(node, "POST", "/system/log", message=text, level=level)[0] == 200


def test_levels_change_while_a_node_runs():
    with Node("--logger-log-level", "query=error") as node:
        assert ask(node, "GET", "/system/logger/query")[1] == "error"
        assert ask(node, "GET", "/system/logger/api")[1] == "info"
        write(node, "before", "trace")
        assert ask(node, "POST", "/system/logger/api", level="trace")[0] == 200
        write(node, "between", "trace")
        assert ask(node, "POST", "/system/logger/api", level="info")[0] == 200
        write(node, "after", "trace")
        assert node.stop() == 0
        log = node.log.read_text()
    assert "between" in log and "before" not in log and "after" not in log


class PipedNode(Node):
    """A node whose log goes into a pipe that is read only when the test says so."""

    def start(self, seconds=30):
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 16)
        self.process = subprocess.Popen(self.command(), stdout=writer, stderr=subprocess.DEVNULL,
                                        stdin=subprocess.DEVNULL)
        os.close(writer)
        return self


def test_a_node_never_waits_for_who_reads_its_log():
    with PipedNode() as node:
        until(lambda: is_up(node), "its REST API")
        for number in range(200):
            write(node, f"line {number} " + "x" * 2000)
        said = os.read(node.reader, 1 << 20).decode()
        write(node, "what comes next")
        said += os.read(node.reader, 1 << 20).decode()
        lost = re.search(r"log - (\d+) log lines lost: the reader of the log does not keep up", said)
        assert lost and int(lost[1]) > 150, said
        assert "what comes next" in said
        assert node.stop() == 0


def is_up(node):
    try:
        return ask(node, "GET", "/system/logger/api")[0] == 200
    except OSError:
        return False


def test_a_start_says_what_it_replayed():
    with Node("--commitlog-sync", "batch") as node:
        assert "Log replay complete" not in node.log.read_text(), "there was nothing to replay"
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
        for key in range(30):
            session.execute(f"INSERT INTO ks.t (k) VALUES ({key})")
        node.disconnect()
        node.kill()
        node.start()
        form = re.compile(r"commitlog - Log replay complete, (\d+) replayed mutations "
                          r"\(0 invalid, \d+ skipped\) segments=\d+ bytes=\d+")
        [count] = form.findall(node.log.read_text())
        assert int(count) >= 30
