"""What a change can reach, on a small tree."""
import json
import subprocess
from pathlib import Path

import pytest

import reach
from reach import Crate, Facts

ROOT = Path(__file__).resolve().parents[2]


def crate(name, needs="", tests_need=""):
    return Crate(name, f"crates/{name}", frozenset(needs.split()), frozenset(tests_need.split()))


# nereid -> query -> storage -> sstable -> stdx; testkit stands beside nereid.
CRATES = [
    crate("stdx"),
    crate("sstable", "stdx", "stdx"),
    crate("storage", "sstable"),
    crate("query", "storage", "testkit"),
    crate("nereid", "query"),
    crate("testkit", "query"),
    crate("xtask"),
]
SUITES = [
    Facts("format", "tests/format", "command", files=("*.rs",)),
    Facts("tidy", "tests/tidy", "cargo", files=("*",), args=("-q", "-p", "xtask")),
    Facts("unit", "tests/unit", "cargo", args=("--workspace", "--exclude", "xtask", "--all-targets")),
    Facts("cql", "tests/cql", "pytest", server=True),
    Facts("oracle", "tests/oracle", "pytest", cases="tests/cql"),
    Facts("metrics", "tests/metrics", "pytest", server=True, files=("dist/grafana/*",)),
    Facts("gocql", "tests/drivers/go", "command", server=True),
    Facts("rust_helper", "tests/clients/rust_helper", "cargo", server=True, files=("clients/rust/*",),
          args=("--workspace", "--manifest-path", "clients/rust/Cargo.toml")),
]
SERVED = "cql metrics gocql rust_helper"
UNIT = "unit[{}]".format


@pytest.mark.parametrize("paths, expected", [
    ("", ""),
    ("docs/cql.md", "tidy"),
    ("crates/stdx/src/lib.rs", f"format tidy unit {SERVED}"),
    ("crates/sstable/src/lib.rs",
     f"format tidy {UNIT('sstable storage query nereid testkit')} {SERVED}"),
    ("crates/sstable/Cargo.toml", f"tidy {UNIT('sstable storage query nereid testkit')} {SERVED}"),
    # Nothing but its own tests is built from these.
    ("crates/sstable/tests/it/foreign.golden", f"tidy {UNIT('sstable')}"),
    ("crates/nereid/src/main.rs", f"format tidy {UNIT('nereid')} {SERVED}"),
    # The server is not built from it, but tests are.
    ("crates/testkit/src/lib.rs", f"format tidy {UNIT('query testkit')}"),
    ("crates/xtask/src/main.rs", "format tidy"),
    ("Cargo.lock", f"tidy unit {SERVED}"),
    (".cargo/config.toml", f"tidy unit {SERVED}"),
    ("tests/cql/test_batch.py", "tidy cql oracle"),
    ("tests/drivers/go/main.go", "tidy gocql"),
    ("tests/drivers/external.py", "tidy gocql"),
    ("tests/node.py", f"tidy cql oracle {SERVED[4:]}"),
    ("dist/grafana/nereid.json", "tidy metrics"),
    ("dist/docker/Dockerfile", "tidy"),
    ("clients/rust/src/lib.rs", "format tidy rust_helper"),
    ("test.py", f"format tidy unit cql oracle {SERVED[4:]}"),
    ("docs/cql.md tests/drivers/go/main.go crates/xtask/src/main.rs", "format tidy gocql"),
])
def test_what_is_reached(paths, expected):
    found = [UNIT(" ".join(it.crates)) if it.crates else it.name
             for it in reach.reach(paths.split(), CRATES, SUITES)]
    assert " ".join(found) == expected


@pytest.mark.parametrize("path, suite, why", [
    ("docs/cql.md", "tidy", "it reads docs/cql.md"),
    ("tests/cql/test_x.py", "cql", "tests/cql/test_x.py is its own"),
    ("tests/node.py", "cql", "it uses tests/node.py"),
    ("crates/storage/src/a.rs", "cql", "the server is built from crates/storage/src/a.rs"),
    ("crates/storage/src/a.rs", "unit", "storage is tested with crates/storage/src/a.rs"),
    ("test.py", "unit", "test.py runs it"),
])
def test_why(path, suite, why):
    assert {it.name: it.why for it in reach.reach([path], CRATES, SUITES)}[suite] == why


def test_arguments_for_some_crates():
    args = ["--workspace", "--exclude", "xtask", "--all-targets"]
    assert reach.narrowed(args, ["a", "b"]) == ["-p", "a", "-p", "b", "--all-targets"]


def test_the_graph_of_this_tree():
    printed = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"],
                                      cwd=ROOT, text=True)
    crates = reach.crates_of(json.loads(printed))
    by_name = {it.name: it for it in crates}
    assert by_name["sstable"].folder == "crates/sstable"
    assert "storage" in reach.built_from(crates, ["nereid"])
    assert not {"testkit", "xtask"} & reach.built_from(crates, ["nereid"])
    assert "model" in by_name["query"].needs and "testkit" in by_name["query"].tests_need
