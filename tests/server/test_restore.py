"""Restoring: upload/ is there with its table, refresh and import say what they took, and a
snapshot's schema.cql makes its table on a node that has nothing of it."""
import re
import shutil
import subprocess

import pytest

from node import NEREID, Node
from rest import ask

KEYSPACE = ("CREATE KEYSPACE {} WITH replication = "
            "{{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}")


@pytest.fixture(scope="module", name="node")
def _node():
    with Node() as node:
        node.session = node.connect()
        node.session.execute(KEYSPACE.format("ks"))
        yield node


def nodetool(node, *words):
    done = subprocess.run([NEREID, "nodetool", "-h", node.address, *map(str, words)], text=True,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def folder(node, table, keyspace="ks"):
    found, = (node.workdir / "data" / "data" / keyspace).glob(f"{table}-*")
    return found


def filled(node, name, rows=10):
    node.session.execute(f"CREATE TABLE ks.{name} (k int PRIMARY KEY, v text)")
    for row in range(rows):
        node.session.execute(f"INSERT INTO ks.{name} (k, v) VALUES ({row}, 'value {row}')")
    assert nodetool(node, "snapshot", "-t", "kept", "-cf", name, "ks")[0] == 0
    return folder(node, name) / "snapshots" / "kept"


def data_files(place):
    return sorted(path.name for path in place.glob("*-Data.db"))


def count(node, name):
    return len(list(node.session.execute(f"SELECT k FROM ks.{name}")))


def put(snapshot, place):
    for path in snapshot.iterdir():
        if path.suffix in (".db", ".txt", ".crc32"):
            shutil.copy(path, place)


def test_upload_is_made_with_the_table_and_at_the_start():
    with Node() as node:
        session = node.connect()
        session.execute(KEYSPACE.format("ks"))
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
        upload = folder(node, "t") / "upload"
        assert upload.is_dir()
        node.disconnect()
        node.stop()
        upload.rmdir()
        node.start()
        assert upload.is_dir()
        session = node.connect()
        place = folder(node, "t")
        session.execute("DROP TABLE ks.t")
        assert not place.exists() or not (place / "upload").exists()


def test_refresh_says_what_it_took(node):
    snapshot = filled(node, "taken")
    node.session.execute("TRUNCATE ks.taken")
    upload = folder(node, "taken") / "upload"
    code, out, _ = nodetool(node, "refresh", "ks", "taken")
    assert code == 0 and "nothing was loaded" in out and str(upload) in out, out
    status, answer = ask(node, "POST", "/storage_service/sstables/ks", cf="taken")
    assert status == 200 and answer["sstables"] == 0 and answer["directory"] == str(upload)

    put(snapshot, upload)
    files = data_files(upload)
    size = sum((upload / name).stat().st_size for name in files)
    code, out, _ = nodetool(node, "refresh", "ks", "taken")
    found = re.search(r"loaded (\d+) SSTables? into ks\.taken: (.*), about (\d+) partitions", out)
    assert code == 0 and found, out
    assert (int(found[1]), int(found[3])) == (len(files), 10)
    assert size > 0 and count(node, "taken") == 10 and not data_files(upload)


def test_refresh_names_what_it_refused(node):
    snapshot = filled(node, "refused")
    upload = folder(node, "refused") / "upload"
    put(snapshot, upload)
    first = data_files(upload)[0]
    (upload / first.replace("-Data.db", "-Statistics.db")).write_bytes(b"nonsense")
    code, _, err = nodetool(node, "refresh", "ks", "refused")
    assert code == 4 and first in err, err


def test_views_get_what_was_loaded_when_they_are_verified(node):
    snapshot = filled(node, "viewed")
    session = node.session
    session.execute("CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.viewed WHERE v IS NOT "
                    "NULL AND k IS NOT NULL PRIMARY KEY (v, k)")
    session.execute("CREATE INDEX found ON ks.viewed (v)")
    session.execute("TRUNCATE ks.viewed")
    session.execute("INSERT INTO ks.viewed (k, v) VALUES (100, 'value 100')")
    code, out, _ = nodetool(node, "verifyviews", "ks", "viewed")
    line = r"ks\.{}: {} rows of the table here, {} missing .* {} rows of the view here, 0 without " \
           r"a row of the table; {} mended, 0 not"
    assert code == 0 and len(out.splitlines()) == 2, out
    assert re.match(line.format("by_v", 1, 0, 1, 0), out.splitlines()[0]), out
    assert nodetool(node, "import", "--copy-data", "ks", "viewed", snapshot)[0] == 0
    assert (count(node, "viewed"), count(node, "by_v")) == (11, 1)
    for mends, then in ((False, 1), (True, 11)):
        code, out, _ = nodetool(node, "verifyviews", "ks", *(["--mend"] if mends else []))
        assert code == int(not mends), out
        for name, told in zip(("by_v", "found_index"), out.splitlines(), strict=True):
            expected = line.format(name, 11, 10, then, 10 if mends else 0)
            assert re.match(expected, told), (told, expected)
        assert count(node, "by_v") == then
    assert nodetool(node, "verifyviews", "ks", "by_v", "found")[0] == 0
    found = session.execute("SELECT k FROM ks.viewed WHERE v = 'value 7'")
    assert [row.k for row in found] == [7]
    code, _, err = nodetool(node, "verifyviews", "ks", "nothing")
    assert code != 0 and "no view, no index" in err, err
    assert nodetool(node, "verifyviews", "nowhere")[0] != 0


def test_import_copies_or_moves(node, tmp_path):
    snapshot = filled(node, "imported")
    node.session.execute("TRUNCATE ks.imported")
    files = data_files(snapshot)
    code, out, err = nodetool(node, "import", "--copy-data", "ks", "imported", snapshot)
    assert (code, err) == (0, "") and f"loaded {len(files)} SSTable" in out, (out, err)
    assert data_files(snapshot) == files and count(node, "imported") == 10
    # A copy shares nothing with what it was made of.
    for path in folder(node, "imported").glob("*-Data.db"):
        assert all(not path.samefile(snapshot / name) for name in files)
    assert not list((folder(node, "imported") / "upload").iterdir())

    node.session.execute("TRUNCATE ks.imported")
    other = tmp_path / "moved"
    other.mkdir()
    put(snapshot, other)
    empty = tmp_path / "empty"
    empty.mkdir()
    code, out, err = nodetool(node, "import", "-e", "ks", "imported", other, empty)
    assert (code, err) == (0, ""), err
    assert "nothing was loaded" in out and str(empty) in out
    assert not data_files(other) and count(node, "imported") == 10


def test_what_cannot_be_imported(node, tmp_path):
    snapshot = filled(node, "strict")
    broken = tmp_path / "broken"
    broken.mkdir()
    put(snapshot, broken)
    first = data_files(broken)[0]
    data = bytearray((broken / first).read_bytes())
    data[len(data) // 2] ^= 0x55
    (broken / first).write_bytes(data)
    code, _, err = nodetool(node, "import", "--extended-verify", "ks", "strict", broken)
    assert code == 4 and first in err and str(broken / first) in err, err
    # The others are in the table, and this one is where it was.
    assert data_files(broken) == [first]
    for words, said in [
        (("ks", "strict"), "directory"),
        (("ks", "strict", "relative/folder"), "absolute"),
        (("ks", "strict", tmp_path / "nowhere"), "nowhere"),
        (("ks", "strict", folder(node, "strict")), "of this node"),
        # Without --copy-data it would take a snapshot apart.
        (("ks", "strict", snapshot), "--copy-data"),
        (("ks", "none", broken), "none"),
        (("--keep-level", "ks", "strict", broken), "--keep-level"),
        (("--keep-repaired", "ks", "strict", broken), "--keep-repaired"),
    ]:
        code, _, err = nodetool(node, "import", *words)
        assert code != 0 and said in err, (words, err)
    assert data_files(snapshot) and count(node, "strict") == 10


def statements(text):
    return [one for one in re.split(r";\s*$", text, flags=re.MULTILINE) if one.strip()]


def test_schema_cql_stands_alone(node):
    session = node.session
    for statement in [
        KEYSPACE.format('"Mixed"'),
        'CREATE TYPE "Mixed".z_inner (a int, "B" text)',
        'CREATE TYPE "Mixed".middle (i frozen<z_inner>, l list<frozen<z_inner>>)',
        'CREATE TYPE "Mixed".a_outer (m frozen<map<text, frozen<middle>>>)',
        'CREATE TYPE "Mixed".unused (x int)',
        'CREATE TABLE "Mixed".t (k int, c frozen<z_inner>, s text static, o frozen<a_outer>, '
        "gone int, PRIMARY KEY (k, c)) WITH comment = 'it''s; kept'",
        'INSERT INTO "Mixed".t (k, c, s, o, gone) VALUES (1, {a: 1, "B": \'x\'}, \'st\', '
        "{m: {'key': {i: {a: 2, \"B\": 'y'}, l: [{a: 3, \"B\": 'z'}]}}}, 7)",
        'ALTER TABLE "Mixed".t DROP gone',
    ]:
        session.execute(statement)
    assert nodetool(node, "snapshot", "-t", "alone", "Mixed")[0] == 0
    snapshot = folder(node, "t", "Mixed") / "snapshots" / "alone"
    text = (snapshot / "schema.cql").read_text()
    assert "unused" not in text
    select = 'SELECT k, c, s, o FROM "Mixed".t'
    expected = [str(row) for row in session.execute(select)]
    with Node() as other:
        restored = other.connect()
        for again in (False, True):
            # A second table of the keyspace finds its keyspace and types there already.
            for statement in statements(text):
                if not (again and re.search("^(CREATE|ALTER) TABLE", statement, re.MULTILINE)):
                    restored.execute(statement)
        code, out, err = nodetool(other, "import", "--copy-data", "Mixed", "t", snapshot)
        assert (code, err) == (0, "") and "about 1 partition" in out, (out, err)
        assert [str(row) for row in restored.execute(select)] == expected
    # The tool for SSTables reads the same file.
    data, = snapshot.glob("*-Data.db")
    dump = subprocess.run([NEREID, "sstable", "dump-data", "--schema-file",
                           str(snapshot / "schema.cql"), str(data)], text=True, timeout=60,
                          capture_output=True, check=False)
    assert dump.returncode == 0 and '"st"' in dump.stdout, dump.stderr
