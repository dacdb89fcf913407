"""Words on the command line: what is answered, what is refused and how."""
import re
import subprocess

import pytest
from node import NEREID, ROOT, Node


def run(*words, **options):
    return subprocess.run([NEREID, *words], capture_output=True, text=True, timeout=60,
                          check=False, **options)


@pytest.mark.parametrize("words, parts", [
    (["--version"], ["0."]),
    (["--build-id"], ["nereid"]),
    (["--build-mode"], ["debug" if "/debug/" in NEREID else "release"]),
    (["--list-tools"], ["server", "perf-simple-query"]),
    (["--help"], ["--smp", "--workdir", "--ephemeral", "--commitlog-sync"]),
    (["--help-loggers"], ["init"]),
    (["perf-simple-query", "--help"], ["--operations-per-shard", "--collection"]),
    (["compactions", "--help"], ["--host", "--once", "--interval"]),
    (["version"], ["Nereid 0."]),
    (["help"], ["Tools:", "nodetool", "sstable", "--workdir"]),
    (["help", "compactions"], ["--host", "--once", "--interval"]),
    (["help", "sstable", "dump-data"], ["--schema-file"]),
    (["help", "nodetool", "status"], ["Usage: "]),
    (["--help-all"], ["--smp", "--storage-port"]),
])
def test_what_is_printed(words, parts):
    done = run(*words)
    text = done.stdout + done.stderr
    assert all(part in text for part in parts), text
    assert done.returncode == 0


def test_help_lists_tools_and_the_options_that_have_an_effect():
    """What has no effect is in --help-all and in the reference."""
    rows = re.findall(r"^\| `(\w+)` \|.*$", (ROOT / "docs" / "options.md").read_text(), re.M)
    lines = (ROOT / "docs" / "options.md").read_text().splitlines()
    idle = {line.split("`")[1] for line in lines if line.startswith("| `") and
            "**no effect yet**" in line}
    assert len(rows) > 350 and len(idle) > 100

    def listed(word):
        names = re.findall(r"^ +(?:-\w, )?--([\w-]+)", run(word).stdout, re.M)
        return {name.replace("-", "_") for name in names}

    assert set(rows) - idle <= listed("--help")
    assert not idle & listed("--help")
    assert set(rows) <= listed("--help-all")
    tools = [line.split()[0] for line in run("--list-tools").stdout.splitlines()]
    assert all(f"\n  {tool} " in run("--help").stdout for tool in tools)


def test_whoever_reads_the_output_may_stop():
    """As `nereid --help | head -1` does."""
    for words in [["--help-all"], ["help"], ["config", "reference"], ["sstable", "--help"]]:
        process = subprocess.Popen([NEREID, *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        process.stdout.close()
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, ""), words


@pytest.mark.parametrize("words, text", [
    (["--listen-adress", "127.0.0.1"], "did you mean --listen-address?"),
    (["--no-such-thing-at-all"], "unknown option"),
    (["--smp", "many"], "smp"),
    (["--native-transport-port", "x"], "native_transport_port"),
    (["--commitlog-sync", "sometimes"], "commitlog_sync"),
    (["--options-file", "/nonexistent.yaml"], "/nonexistent.yaml"),
    (["--smp"], "smp"),
    (["no-such-tool"], "perf-simple-query"),
    (["perf-simple-query", "--writ"], "did you mean --write?"),
    (["help", "no-such-tool"], "perf-simple-query"),
    (["sstabel"], "did you mean sstable?"),
    (["help", "sstabel"], "did you mean sstable?"),
    (["help", "sstable", "dumpdata"], "did you mean dump-data?"),
    (["sstable", "dumpdata"], "dump-data"),
    (["nodetool", "statsu"], "did you mean status?"),
    (["config", "chek"], "check"),
    (["config", "check", "--listen-adress", "x"], "did you mean --listen-address?"),
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


LINES = ["version", "API server listening", "initialization completed", "shutdown complete"]


@pytest.mark.parametrize("called, words, name", [
    ("nereid", [], "Nereid"),
    ("scylla", [], "Scylla"),
    ("nereid", ["--persona", "scylla"], "Scylla"),
    ("scylla", ["--persona", "nereid"], "Nereid"),
])
def test_a_log_begins_with_its_first_words_whatever_is_warned_of(tmp_path, called, words, name):
    """Harnesses look for these lines, by the name of the program that they start."""
    path = tmp_path / "options.yaml"
    path.write_text("key_cache_save_period: 1\n")
    program = tmp_path / called
    program.symlink_to(NEREID)
    with Node("--options-file", str(path), *words, program=program) as node:
        first, *rest = node.log.read_text().splitlines()
        assert f"{name} version " in first, first
        assert name == "Nereid" or first.startswith("Scylla version "), first
        assert any("key_cache_save_period has no effect" in line for line in rest)
        assert node.stop() == 0
        log = node.log.read_text()
    other = {"Nereid": "Scylla", "Scylla": "Nereid"}[name]
    for part in LINES:
        assert re.search(rf"\b{name}\b.*{part}", log), (part, log)
        assert not re.search(rf"\b{other}\b.*{part}", log), (part, log)


@pytest.mark.parametrize("folder, variable", [
    ("conf", None), (".", None), ("set", "NEREID_CONF"), ("set", "SCYLLA_CONF"),
    ("home/conf", "SCYLLA_HOME"),
])
def test_the_options_file_is_looked_for(tmp_path, folder, variable):
    place = tmp_path / folder
    place.mkdir(parents=True, exist_ok=True)
    env = {} if variable is None else {variable: str(tmp_path / folder.split("/")[0])}

    def name():
        return run("config", "show", "--changed", cwd=tmp_path, env=env).stdout.split()[-1:]

    assert name() == []
    if folder != ".":
        (place / "scylla.yaml").write_text("cluster_name: scylla\n")
        assert name() == ['"scylla"']
    (place / "nereid.yaml").write_text("cluster_name: nereid\n")
    assert name() == ['"nereid"']


def test_a_wrong_file_is_named(tmp_path):
    path = tmp_path / "options.yaml"
    for text, part in [("clusternam: x\n", "clusternam"), ("a: [1\n", "options.yaml")]:
        path.write_text(text)
        done = run("--options-file", str(path), "--workdir", str(tmp_path / "data"))
        assert 0 < done.returncode < 100 and part in done.stdout + done.stderr, done
