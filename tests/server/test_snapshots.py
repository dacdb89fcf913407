"""Snapshots: taken by the REST API and by the system, listed, expired, cleared, put back.
Incremental backups: made from when they are wanted on, kept when their table goes."""
import json
import shutil
import time

import pytest

from node import Node
from rest import ask
from test_rest import data_files

SNAPSHOTS = "/storage_service/snapshots"


@pytest.fixture(scope="module")
def node():
    with Node("--auto-snapshot", "0") as node:
        yield node


@pytest.fixture(scope="module")
def cql(node):
    session = node.connect()
    session.execute("CREATE KEYSPACE ks WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    return session


def make(cql, name, rows=10):
    cql.execute(f"CREATE TABLE ks.{name} (a int PRIMARY KEY)")
    for row in range(rows):
        cql.execute(f"INSERT INTO ks.{name} (a) VALUES ({row})")


def folder(node, table, tag):
    found, = (node.workdir / "data" / "data" / "ks").glob(f"{table}-*")
    return found / "snapshots" / tag


def listed(cql):
    rows = cql.execute("SELECT * FROM system.snapshots")
    return {(row.snapshot_name, row.keyspace_name, row.table_name): (row.total, row.live)
            for row in rows}


def wait_until(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.1)


def test_a_snapshot_is_taken_listed_put_back_and_cleared(node, cql):
    make(cql, "a")
    assert ask(node, "POST", SNAPSHOTS, tag="one", kn="ks", cf="a") == (200, None)
    place = folder(node, "a", "one")
    files = sorted(path.name for path in place.glob("*-Data.db"))
    assert files == [path.name for path in data_files(node, "a")] != []
    manifest = json.loads((place / "manifest.json").read_text())
    assert sorted(manifest["files"]) == files and manifest["snapshot"]["name"] == "one"
    assert "CREATE TABLE ks.a (" in (place / "schema.cql").read_text()
    total, live = listed(cql)["one", "ks", "a"]
    assert total > 0 and live == 0
    shown = {"ks": "ks", "cf": "a", "total": total, "live": 0}
    assert ask(node, "GET", SNAPSHOTS) == (200, [{"key": "one", "value": [shown]}])
    assert ask(node, "GET", "/column_family/metrics/snapshots_size/ks:a") == (200, total)
    status, again = ask(node, "POST", SNAPSHOTS, tag="one", kn="ks", cf="a")
    assert status == 400 and "already exists" in again["message"]

    cql.execute("TRUNCATE ks.a")
    assert list(cql.execute("SELECT * FROM ks.a")) == []
    assert listed(cql)["one", "ks", "a"] == (total, total)
    assert ask(node, "GET", f"{SNAPSHOTS}/size/true") == (200, total)
    upload = place.parent.parent / "upload"
    upload.mkdir(exist_ok=True)
    for path in place.iterdir():
        if path.name not in ("manifest.json", "schema.cql"):
            shutil.copy(path, upload)
    status, took = ask(node, "POST", "/storage_service/sstables/ks", cf="a")
    assert status == 200 and (took["sstables"], took["partitions"]) == (len(files), 10)
    assert len(list(cql.execute("SELECT * FROM ks.a"))) == 10
    assert ask(node, "DELETE", SNAPSHOTS, tag="one") == (200, None)
    assert not place.exists() and listed(cql) == {}


def test_what_a_snapshot_is_of(node, cql):
    make(cql, "b1"), make(cql, "b2")
    assert ask(node, "POST", SNAPSHOTS, tag="both", kn="ks", cf="b1,b2")[0] == 200
    assert ask(node, "POST", SNAPSHOTS, tag="ks", kn="ks")[0] == 200
    make(cql, "b3")
    assert ask(node, "POST", SNAPSHOTS, tag="dry", kn="ks", cf="b3", sf="true")[0] == 200
    tags = {(tag, table) for tag, _, table in listed(cql)}
    assert {("both", "b1"), ("both", "b2"), ("ks", "b1"), ("ks", "b2"), ("dry", "b3")} <= tags
    assert not list(folder(node, "b3", "dry").glob("*-Data.db"))
    assert ask(node, "DELETE", SNAPSHOTS, tag="both", kn="ks", cf="b1")[0] == 200
    tags = {(tag, table) for tag, _, table in listed(cql)}
    assert ("both", "b1") not in tags and ("both", "b2") in tags and ("ks", "b1") in tags
    for parameters, word in [
        ({"kn": "ks"}, "empty"), ({"tag": "a/b", "kn": "ks"}, "slash"),
        ({"tag": "x", "cf": "b1"}, "kn"), ({"tag": "x", "kn": "none"}, "keyspace none"),
        ({"tag": "x", "kn": "ks", "cf": "none"}, "family none"),
        ({"tag": "x", "kn": "ks", "ttl": "soon"}, "ttl"),
    ]:
        status, answer = ask(node, "POST", SNAPSHOTS, **parameters)
        assert status == 400 and word in answer["message"], (parameters, answer)
    assert ask(node, "DELETE", SNAPSHOTS) == (200, None)
    assert listed(cql) == {}


def test_the_view_of_an_index_goes_by_the_name_of_the_index(node, cql):
    cql.execute("CREATE TABLE ks.indexed (a int PRIMARY KEY, v int, w int)")
    cql.execute("CREATE INDEX by_v ON ks.indexed (v)")
    cql.execute("CREATE INDEX b1_too ON ks.indexed (w)")
    assert ask(node, "POST", SNAPSHOTS, tag="i", kn="ks", cf="by_v,indexed") == (200, None)
    assert ask(node, "POST", SNAPSHOTS, tag="j", kn="ks", cf="b1_too") == (200, None)
    assert set(listed(cql)) == {("i", "ks", "by_v_index"), ("i", "ks", "indexed"),
                                ("j", "ks", "b1_too_index")}
    _, found = ask(node, "GET", SNAPSHOTS)
    shown = {one["key"]: sorted(of["cf"] for of in one["value"]) for one in found}
    assert shown == {"i": ["by_v", "indexed"], "j": ["b1_too"]}
    assert ask(node, "DELETE", SNAPSHOTS, tag="i", kn="ks", cf="by_v") == (200, None)
    assert set(listed(cql)) == {("i", "ks", "indexed"), ("j", "ks", "b1_too_index")}
    # In any keyspace, under any name.
    assert ask(node, "DELETE", SNAPSHOTS, cf="b1_too") == (200, None)
    assert set(listed(cql)) == {("i", "ks", "indexed")}
    assert ask(node, "DELETE", SNAPSHOTS) == (200, None)


def test_a_snapshot_expires(node, cql):
    make(cql, "c")
    assert ask(node, "POST", SNAPSHOTS, tag="short", kn="ks", cf="c", ttl="2")[0] == 200
    assert ask(node, "POST", SNAPSHOTS, tag="long", kn="ks", cf="c", ttl="1h")[0] == 200
    (shown,), = [one["value"] for one in ask(node, "GET", SNAPSHOTS)[1] if one["key"] == "long"]
    assert shown["expires_at"] - shown["created_at"] == 3600
    wait_until(lambda: not folder(node, "c", "short").exists())
    assert folder(node, "c", "long").exists()
    ask(node, "DELETE", SNAPSHOTS)


def test_snapshots_outlive_their_table(node, cql):
    make(cql, "d")
    assert ask(node, "POST", SNAPSHOTS, tag="kept", kn="ks", cf="d")[0] == 200
    place = folder(node, "d", "kept")
    cql.execute("DROP TABLE ks.d")
    assert list(place.glob("*-Data.db")) and not data_files(node, "d")
    total, live = listed(cql)["kept", "ks", "d"]
    assert total == live > 0
    assert ask(node, "DELETE", SNAPSHOTS, tag="kept")[0] == 200 and not place.exists()


def test_the_system_takes_snapshots_of_what_goes(node, cql):
    options = ["auto_snapshot", "auto_snapshot_ttl"]
    change = cql.prepare("UPDATE system.config SET value = ? WHERE name = ?")
    for name, value in zip(options, ["true", "3600"]):
        cql.execute(change, (value, name))
    try:
        make(cql, "e")
        cql.execute("TRUNCATE ks.e")
        cql.execute("INSERT INTO ks.e (a) VALUES (1)")
        cql.execute("DROP TABLE ks.e")
    finally:
        for name, value in zip(options, ["false", "0"]):
            cql.execute(change, (value, name))
    tags = sorted(tag for tag, _, table in listed(cql) if table == "e")
    assert len(tags) == 2 and tags[0].startswith("pre-drop-") and tags[1].startswith("truncated-")
    shown = [one for one in ask(node, "GET", SNAPSHOTS)[1] if one["key"] in tags]
    assert all(one["value"][0]["expires_at"] for one in shown)
    ask(node, "DELETE", SNAPSHOTS)


def backed_up(node, table):
    found, = (node.workdir / "data" / "data" / "ks").glob(f"{table}-*")
    return sorted(path.name for path in (found / "backups").glob("*"))


def test_incremental_backups_are_made_while_they_are_wanted(node, cql):
    path = "/storage_service/incremental_backups"
    enabled = ("SELECT value FROM system.runtime_info WHERE group = 'generic' "
               "AND item = 'incremental_backup_enabled'")
    assert ask(node, "GET", path) == (200, False)
    for wrong in [{}, {"value": ""}, {"value": "x"}]:
        status, answer = ask(node, "POST", path, **wrong)
        assert status == 400 and "value" in answer["message"], wrong
    flush = "/storage_service/keyspace_flush/ks"
    make(cql, "f")
    assert ask(node, "POST", flush, cf="f") == (200, None)
    before = {one.name for one in data_files(node, "f")}
    assert before and backed_up(node, "f") == []

    assert ask(node, "POST", path, value="true") == (200, None)
    assert ask(node, "GET", path) == (200, True)
    assert cql.execute(enabled).one().value == "true"
    try:
        cql.execute("INSERT INTO ks.f (a) VALUES (100)")
        assert ask(node, "POST", flush, cf="f") == (200, None)
        new = {one.name for one in data_files(node, "f")} - before
    finally:
        assert ask(node, "POST", path, value="false") == (200, None)
    assert ask(node, "GET", path) == (200, False)
    assert cql.execute(enabled).one().value == "false"
    linked = backed_up(node, "f")
    assert len(new) == 1 and {name for name in linked if name.endswith("-Data.db")} == new
    place = data_files(node, "f")[0].parent
    for name in linked:
        assert (place / "backups" / name).samefile(place / name)
    assert any(name.endswith("-TOC.txt") for name in linked)

    cql.execute("INSERT INTO ks.f (a) VALUES (101)")
    compact = "/storage_service/keyspace_compaction/ks"
    assert ask(node, "POST", compact, cf="f") == (200, None)
    assert not new & {one.name for one in data_files(node, "f")}
    assert backed_up(node, "f") == linked
    cql.execute("DROP TABLE ks.f")
    assert backed_up(node, "f") == linked and [one.name for one in place.iterdir()] == ["backups"]


def test_options_without_effect_are_named_at_the_start():
    with Node("--ssl-storage-port", "7777", "--auto-snapshot", "0",
              "--incremental-backups", "1") as node:
        said, = [line for line in node.log.read_text().splitlines() if "without effect" in line]
        assert "ssl_storage_port" in said and "auto_snapshot" not in said and "workdir" not in said
        assert "incremental_backups" not in said
        assert ask(node, "GET", "/storage_service/incremental_backups") == (200, True)
