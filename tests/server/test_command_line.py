"""Words on the command line: what is answered, what is refused and how."""
import subprocess

import pytest
from node import NEREID, Node


def run(*words):
    return subprocess.run([NEREID, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("words, parts", [
    (["--version"], ["0."]),
    (["--build-id"], ["nereid"]),
    (["--build-mode"], ["release"]),
    (["--list-tools"], ["server", "perf-simple-query"]),
    (["--help"], ["--smp", "--workdir", "--ephemeral", "--commitlog-sync"]),
    (["--help-loggers"], ["init"]),
    (["perf-simple-query", "--help"], ["--operations-per-shard", "--collection"]),
    (["compactions", "--help"], ["--host", "--once", "--interval"]),
])
def test_what_is_printed(words, parts):
    done = run(*words)
    text = done.stdout + done.stderr
    assert all(part in text for part in parts), text
    assert "--help" in words or done.returncode == 0


@pytest.mark.parametrize("words, text", [
    (["--listen-adress", "127.0.0.1"], "did you mean listen_address"),
    (["--no-such-thing-at-all"], "unknown option"),
    (["--smp", "many"], "smp"),
    (["--native-transport-port", "x"], "native_transport_port"),
    (["--commitlog-sync", "sometimes"], "commitlog_sync"),
    (["--options-file", "/nonexistent.yaml"], "/nonexistent.yaml"),
    (["--smp"], "smp"),
    (["no-such-tool"], "perf-simple-query"),
    (["perf-simple-query", "--writ"], "writ"),
])
def test_what_is_refused(words, text, tmp_path):
    is_tool = not words[0].startswith("-")
    done = run(*([] if is_tool else ["--workdir", str(tmp_path / "data")]), *words)
    assert done.returncode not in (0, 101) and done.returncode > 0, done
    said = done.stdout + done.stderr
    assert text.replace("_", "-") in said.replace("_", "-"), said
    assert "panicked" not in said


def test_options_come_from_a_file(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("cluster_name: 'From a file'\nauto_snapshot: false\n")
    with Node("--options-file", str(path)) as node:
        session = node.connect()
        assert session.execute("SELECT cluster_name FROM system.local").one()[0] == "From a file"
        got = session.execute("SELECT value, source FROM system.config WHERE name = 'auto_snapshot'")
        assert got.one()[0] == "false"


def test_a_log_begins_with_its_first_words_whatever_is_warned_of(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("key_cache_save_period: 1\n")
    with Node("--options-file", str(path)) as node:
        first, *rest = node.log.read_text().splitlines()
        assert first.startswith("Scylla version "), first
        assert any("key_cache_save_period has no effect" in line for line in rest)


def test_a_wrong_file_is_named(tmp_path):
    path = tmp_path / "options.yaml"
    for text, part in [("clusternam: x\n", "clusternam"), ("a: [1\n", "options.yaml")]:
        path.write_text(text)
        done = run("--options-file", str(path), "--workdir", str(tmp_path / "data"))
        assert 0 < done.returncode < 100 and part in done.stdout + done.stderr, done
