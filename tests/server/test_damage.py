"""Files that came to harm: the error names the file, other tables are served, nothing else is lost."""
import pytest
from node import Node

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
ROWS = 2000


def fill(node, tables=("hurt", "whole")):
    session = node.connect()
    session.execute(f"CREATE KEYSPACE d WITH replication = {SIMPLE}")
    for table in tables:
        session.execute(f"CREATE TABLE d.{table} (k int PRIMARY KEY, v text)")
        insert = session.prepare(f"INSERT INTO d.{table} (k, v) VALUES (?, ?)")
        for future in [session.execute_async(insert, (k, f"{table} {k}")) for k in range(ROWS)]:
            future.result()
    node.disconnect()


def components(node, table, suffix):
    folders = [path for path in (node.workdir / "data").rglob(f"{table}-*") if path.is_dir()]
    return sorted(path for folder in folders for path in folder.glob(f"*{suffix}"))


def flip(path, at):
    data = bytearray(path.read_bytes())
    for offset in range(8):
        data[(at + offset) % len(data)] ^= 0x5a
    path.write_bytes(data)


def truncate(path):
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2])


def names_one_of(files, text):
    """Whether the text names an SSTable of these files."""
    return any(path.name.rsplit("-big", 1)[0] in text for path in files)


def read_all(session, table):
    return dict(session.execute(f"SELECT k, v FROM d.{table}"))


HARM = {
    "data flipped": ("-Data.db", lambda path: flip(path, 100)),
    "data truncated": ("-Data.db", truncate),
    "index flipped": ("-Index.db", lambda path: flip(path, 10)),
    "index truncated": ("-Index.db", truncate),
    "summary truncated": ("-Summary.db", truncate),
    "trie flipped": ("-Partitions.db", lambda path: flip(path, 10)),
    "trie truncated": ("-Partitions.db", truncate),
    "statistics flipped": ("-Statistics.db", lambda path: flip(path, 4)),
    "statistics truncated": ("-Statistics.db", truncate),
    "compression truncated": ("-CompressionInfo.db", truncate),
    "filter truncated": ("-Filter.db", truncate),
    "toc missing": ("-TOC.txt", lambda path: path.unlink()),
    "data missing": ("-Data.db", lambda path: path.unlink()),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_sstable(harm):
    suffix, hurt = HARM[harm]
    version = "me" if suffix in ("-Index.db", "-Summary.db") else "ms"
    with Node("--sstable-format", version) as node:
        fill(node)
        assert node.stop() == 0
        files = components(node, "hurt", suffix)
        assert files, "a clean stop writes SSTables"
        for path in files:
            hurt(path)
        offset = node.log.stat().st_size
        try:
            node.start()
        except RuntimeError as error:
            # A start that is refused says which file it is about, and touches nothing.
            assert names_one_of(files, str(error)), error
            assert "panicked" not in str(error), error
            assert components(node, "whole", "-Data.db")
            return
        session = node.connect()
        assert read_all(session, "whole") == {k: f"whole {k}" for k in range(ROWS)}
        try:
            got = read_all(session, "hurt")
        except Exception as error:  # pylint: disable=broad-except
            log = node.log.read_bytes()[offset:].decode(errors="replace")
            assert names_one_of(files, log + str(error)), f"{error}\n{log[-3000:]}"
        else:
            # What is not read wrongly was not needed, or an incomplete SSTable was put aside.
            expected = {k: f"hurt {k}" for k in range(ROWS)}
            assert got == expected or harm == "toc missing", f"{len(got)} rows after {harm}"
        session.execute("INSERT INTO d.whole (k, v) VALUES (-1, 'new')")
        assert read_all(session, "whole")[-1] == "new"
        log = node.log.read_bytes()[offset:].decode(errors="replace")
        assert "panicked" not in log, log[-3000:]


def segments(node):
    return sorted(path for path in (node.workdir / "data").rglob("CommitLog-*")
                  if "schema" not in str(path.parent.name))


@pytest.mark.parametrize("harm", ["tail cut", "middle flipped", "header flipped", "foreign file"])
def test_a_damaged_commitlog(harm):
    with Node("--commitlog-sync", "batch") as node:
        fill(node, ("whole",))
        node.kill()
        files = [path for path in segments(node) if path.stat().st_size]
        assert files
        path = max(files, key=lambda path: sum(1 for byte in path.read_bytes()[:1 << 20] if byte))
        data = path.read_bytes()
        used = len(data.rstrip(b"\0"))
        if harm == "tail cut":
            path.write_bytes(data[:used - 300])
        elif harm == "middle flipped":
            flip(path, used // 2)
        elif harm == "header flipped":
            flip(path, 2)
        else:
            path.with_name("notes.txt").write_text("not a segment")
        offset = node.log.stat().st_size
        try:
            node.start()
        except RuntimeError as error:
            assert path.name in str(error) and "panicked" not in str(error), error
            return
        log = node.log.read_bytes()[offset:].decode(errors="replace")
        got = read_all(node.connect(), "whole")
        assert all(got[k] == f"whole {k}" for k in got), "a row that nobody wrote"
        if harm == "foreign file":
            assert len(got) == ROWS
        else:
            assert path.name in log, log[-3000:]
        assert "panicked" not in log


def test_a_damaged_identity_is_named():
    with Node() as node:
        assert node.stop() == 0
        path = node.workdir / "data" / "data" / "host_id"
        assert path.exists()
        path.write_bytes(b"garbage")
        with pytest.raises(RuntimeError) as caught:
            node.start()
        assert "host_id" in str(caught.value) and "panicked" not in str(caught.value)
