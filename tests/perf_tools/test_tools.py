"""What each tool prints, writes and refuses, on next to no data."""
import json
import re
import subprocess

import pytest
from node import NEREID, Node

LINE = re.compile(r"^[\d.]+ tps \( *[\d.]+ allocs/op, +[\d.]+ logallocs/op, +[\d.]+ tasks/op, +"
                  r"(\d+|n/a) insns/op, +(\d+|n/a) cycles/op, +0 errors(.*)\)$", re.MULTILINE)
QUIET = ["--overprovisioned", "--blocked-reactor-notify-ms", "-1", "--default-log-level", "error"]


def run(tool, *words):
    command = [NEREID, tool, *[str(word) for word in words]]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def ok(tool, *words):
    done = run(tool, *words, *QUIET)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.parametrize("words, kind", [
    ([], "read"),
    (["--write"], "write"),
    (["--delete"], "delete"),
    (["--counters", "--write", "--timeout", "10s"], "write_counters"),
    (["--collection", 3, "--flush"], "read"),
    (["--bypass-cache", "--memtable-partitions", 20, "--enable-cache", 0], "read"),
    (["--tablets", "--initial-tablets", 4, "--query-single-key", "--sstable-format", "me"],
     "read"),
    (["--enable-index-cache", "false", "--shard-aware", 0, "-c2", "-m256M", "--flush"], "read"),
])
def test_simple_query(words, kind, tmp_path):
    out = ok("perf-simple-query", "--partitions", 50, "--operations-per-shard", 200, "--duration",
             2, "--concurrency", 7, "--json-result", tmp_path / "result", *words)
    # Two samples and the one in the middle.
    assert len(LINE.findall(out)) == 2 and out.count("tps (") == 3, out
    assert f"mode={kind}" in out and "throughput:\n\tmean=" in out and "latency (us): p50=" in out
    result = json.loads((tmp_path / "result").read_text())
    assert set(result) == {"parameters", "stats", "test_properties", "versions"}
    shards = 2 if "-c2" in words else 1
    compared = result["parameters"]["concurrency,partitions,cpus,duration"]
    assert compared == f"7,50,{shards},2"
    assert set(result["stats"]) == {
        "median tps", "allocs_per_op", "logallocs_per_op", "tasks_per_op", "instructions_per_op",
        "cpu_cycles_per_op", "mad tps", "max tps", "min tps"}
    assert result["test_properties"] == {"type": kind}
    assert ("collection" in result["parameters"]) == ("--collection" in words)
    assert ("initial_tablets" in result["parameters"]) == ("--tablets" in words)


@pytest.mark.parametrize("workload, words, more", [
    ("read", [], {}),
    ("batch_read", ["--batch-size", 20], {"batch_size": 20}),
    ("scan", ["--scan-total-segments", 3], {"scan_total_segments": 3}),
    ("write", ["--alternator-write-isolation", "unsafe", "--flush", 0], {}),
    ("write_gsi", ["-c2", "-m256M"], {}),
    ("write_rmw", ["--prepopulate-partitions", 0], {}),
    ("put", [], {}),
    ("transact", [], {}),
])
def test_alternator(workload, words, more, tmp_path):
    out = ok("perf-alternator", "--workload", workload, "--partitions", 60,
             "--operations-per-shard", 200, "--duration", 2, "--concurrency", 7, "--json-result",
             tmp_path / "result", *words)
    assert len(LINE.findall(out)) == 2 and out.count("tps (") == 3, out
    assert f"workload={workload}" in out and "latency (us): p50=" in out
    result = json.loads((tmp_path / "result").read_text())
    shards = 2 if "-c2" in words else 1
    assert result["parameters"] == {
        "concurrency": 7, "partitions": 60, "cpus": shards, "duration": 2,
        "concurrency,partitions,cpus,duration": f"7,60,{shards},2", **more}
    assert set(result["stats"]) == {
        "median tps", "allocs_per_op", "logallocs_per_op", "tasks_per_op", "instructions_per_op",
        "cpu_cycles_per_op", "mad tps", "max tps", "min tps"}
    assert result["test_properties"] == {"type": workload}


def test_alternator_of_another_server():
    with Node("--smp", "1") as node:
        words = ["--remote-host", node.address, "--partitions", 60, "--operations-per-shard", 300,
                 "--duration", 1]
        assert len(LINE.findall(ok("perf-alternator", "--workload", "write", *words))) == 1
        # The table is dropped and made anew: nothing of the run before is in it.
        out = ok("perf-alternator", "--prepopulate-partitions", 0, *words)
        assert len(LINE.findall(out)) == 1
        done = run("perf-alternator", *words, "--remote-port", 1, *QUIET)
        assert done.returncode == 1 and "cannot connect" in done.stderr


def test_alternator_errors():
    words = ["--workload", "write_rmw", "--alternator-write-isolation", "forbid_rmw", "--partitions",
             10, "--operations-per-shard", 20, "--duration", 1, *QUIET]
    done = run("perf-alternator", *words)
    assert done.returncode == 1 and "UpdateItem: status 400" in done.stderr, done
    done = run("perf-alternator", *words, "--continue-after-error", 1)
    assert done.returncode == 0 and "20 errors" in done.stdout, done


@pytest.mark.parametrize("mode", ["periodic", "batch"])
def test_commitlog(mode, tmp_path):
    out = ok("perf-commitlog", "--operations-per-shard", 2000, "--duration", 1, "--max-data-size",
             2000, "--commitlog-segment-size-in-mb", 1, "--commitlog-total-space-in-mb", 4,
             "--max-flush-delay-in-ms", 20, "--commitlog-sync", mode, "--json-result",
             tmp_path / "result")
    (_, _, own), = LINE.findall(out)
    assert "bytes/op" in own and "writes/op" in own
    stats = json.loads((tmp_path / "result").read_text())["stats"]
    # What a periodic log has not yet written when the sample ends is in none.
    least = {"batch": 900, "periodic": 0}[mode]
    assert least < stats["bytes_per_op"] and 0 < stats["writes_per_op"]


def test_row_cache_update(tmp_path):
    out = ok("perf-row-cache-update", "--rows", 2000, "--memtable-rows", 200, "--cache-size", "2M",
             "--iterations", 1, "--json-result", tmp_path / "result")
    cases = ok("perf-row-cache-update", "--list-cases").split()
    assert out.count("update: ") == 2 * len(cases) == 2 * out.count("invalidation: ")
    results = json.loads((tmp_path / "result").read_text())["results"]
    assert [result["case"] for result in results] == cases
    assert all(0 < result["microseconds_per_row"] for result in results)


def test_cache_eviction():
    words = ["--seconds", 1, "--cache-size", "2M", "--memtable-rows", 1000]
    out = ok("perf-cache-eviction", *words)
    line = next(line for line in out.splitlines() if line.startswith("rd/s: "))
    counts = {name: int(count) for name, count in re.findall(r"(\w+/s): (\d+)", line)}
    assert all(0 < counts[name] for name in ("rd/s", "wr/s", "in/s", "ev/s", "hit/s")), line
    out = ok("perf-cache-eviction", "--no-reads", *words)
    assert "rd/s: 0," in out and "reads : none" in out


def test_memory_footprint(tmp_path):
    out = ok("memory-footprint", "--partition-count", 30, "--row-count", 20, "--json-result",
             tmp_path / "result")
    document = json.loads((tmp_path / "result").read_text())
    content = 30 * (10 + 20 * (10 + 5 * 32))
    assert document["content_bytes"] == content
    results = document["results"]
    for what in ("frozen", "memtable", "cache", "cache, objects", "sstable me plain, Data.db",
                 "sstable ms LZ4, all"):
        assert what in out
        assert content < results[what]["bytes"], what
        beside = (results[what]["bytes"] - content) / 600
        assert abs(beside - results[what]["fixed_bytes_per_row"]) < 1e-6


def test_sstable_and_fast_forward(tmp_path):
    out = ok("perf-sstable", "--partitions", 500, "--iterations", 2, "--mode", "full_scan_streaming")
    assert re.fullmatch(r"[\d.]+ \+- [\d.]+ partitions / sec \(2 runs, 1 concurrent ops\)\n", out)
    data = ["--data-directory", tmp_path / "data", "-c", 1]
    ok("perf-fast-forward", "--populate", "--rows", 200, *data)
    out = ok("perf-fast-forward", "--run-tests", "small-partition-skips", "--test-case-duration",
             0, *data)
    assert "ERROR" not in out and out.count("\n-> ") > 3


@pytest.mark.parametrize("words", [
    ["--compaction-options", "min_sstable_size=1000,space_amplification_goal=1.25"],
    ["--compaction-strategy", "Leveled", "--compaction-options", "sstable_size_in_mb=1",
     "--distribution", "zipfian"],
    ["--compaction-strategy", "SizeTiered", "--distribution", "uniform"],
    ["--compaction-strategy", "TimeWindow", "--default-time-to-live", 1000],
    ["--compaction-strategy", "Null"],
])
def test_compaction_efficiency(words):
    words = ["--partitions", 300, "--warmup-operations", 500, "--operations", 3000,
             "--min-flush-interval", 100, "--max-flush-interval", 200, *words]
    results = json.loads(ok("perf-compaction-efficiency", *words, "--output-format",
                            "json"))["results"]
    assert results["operations"] == 3000 and 15 <= results["flushes"] <= 30
    space, read = results["space_amplification"], results["read_amplification"]
    if "Null" in words:
        assert results["compactions"] == 0 and results["write_amplification"] == 1
        assert results["flushes"] <= results["sstables"] and 5 < space["maximum"]
    else:
        assert 0 < results["compactions"] and 1 < results["write_amplification"]
        assert results["sstables"] < 10
    assert 0.95 < space["mean"] <= space["maximum"] and 1 <= read["mean"] <= read["maximum"]
    text = ok("perf-compaction-efficiency", *words, "--verbose")
    assert re.search(r"^write amplification: \d", text, re.MULTILINE), text


@pytest.mark.parametrize("tool, words, text", [
    ("perf-compaction-efficiency", ["--delete-ratio", "2"], "not between 0 and 1"),
    ("perf-simple-query", ["--audit", "table"], "give a --role"),
    ("perf-simple-query", ["--strongly-consistent-tables"], "no such tables"),
    ("perf-simple-query", ["--sstable-summary-ratio", "0.1"], "ratio is fixed"),
    ("perf-commitlog", ["--commitlog-use-o-dsync", "1"], "O_DSYNC"),
    ("perf-row-cache-update", ["--run-cases", "none"], "there is no none"),
    ("memory-footprint", ["-c", "2"], "-c 1"),
    ("perf-cache-eviction", ["--nonsense"], "unknown option --nonsense"),
    ("perf-alternator", ["--workload", "delete"], "invalid value 'delete'"),
    ("perf-alternator", ["--batch-size", "101"], "not in 1..=100"),
])
def test_refusals(tool, words, text):
    done = run(tool, *words)
    assert done.returncode == 2 and text in done.stderr, done


@pytest.mark.parametrize("tool", ["perf-simple-query", "perf-commitlog", "perf-row-cache-update",
                                  "perf-cache-eviction", "memory-footprint", "perf-sstable",
                                  "perf-fast-forward", "perf-compaction-efficiency",
                                  "perf-alternator"])
def test_help(tool):
    done = run(tool, "--help")
    assert done.returncode == 0 and f"Usage: nereid {tool} " in done.stdout
    assert tool in run("--list-tools").stdout
