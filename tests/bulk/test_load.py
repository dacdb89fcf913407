"""`nereid load` and `nereid unload` as operators run them, against a node."""
import datetime
import decimal
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from cassandra.auth import PlainTextAuthProvider

from node import NEREID, ROOT, Node

sys.path.insert(0, str(ROOT / "tests" / "tls"))
from authority import Authority  # noqa: E402  pylint: disable=wrong-import-position

CQLSH = str(Path(sys.executable).parent / "cqlsh")
MIB = 1 << 20


def tool(name, node, *words, code=0, cwd=None, env=None, check=True):
    """Runs a tool to its end: what it printed, both streams."""
    command = [NEREID, name, "--host", node.address, "--port", str(node.port), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd, check=False,
                          env={**os.environ, **(env or {})})
    if check:
        assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def begin(node, *words, cwd):
    """Begins a load that somebody ends."""
    command = [NEREID, "load", "--host", node.address, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            cwd=cwd)


def cqlsh(node, script):
    done = subprocess.run([CQLSH, node.address, str(node.port)], input=script, text=True,
                          capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(cql, table):
    """All rows, as text that can be compared, NaN too."""
    return sorted(repr(row) for row in cql.execute(f"SELECT * FROM {table}"))


def count(cql, table):
    return cql.execute(f"SELECT count(*) FROM {table}").one()[0]


def until_there_are(cql, table, wanted):
    """Waits for the first rows of a load that goes on."""
    deadline = time.monotonic() + 60
    while len(list(cql.execute(f"SELECT * FROM {table} LIMIT {wanted}"))) < wanted:
        assert time.monotonic() < deadline, "the load does not begin"


# Values as CQL literals, by type.
RANDOM = random.Random(20)
TEXTS = ["", "a", "it's", 'a "quote"', "comma, semicolon; tab\t", "two\nlines\r\n", "back\\slash",
         "null", "{[(", "ünïcödé 😀", " spaces ", "NULL"]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def scalar(kind):
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "varint": 200}
    if kind in bits:
        return str(RANDOM.choice([0, 1, -1, RANDOM.randrange(-1 << bits[kind] - 1,
                                                             1 << bits[kind] - 1)]))
    pick = RANDOM.choice
    return {
        "ascii": lambda: quoted(pick([text for text in TEXTS if text.isascii()])),
        "text": lambda: quoted(pick(TEXTS)),
        "blob": lambda: "0x" + RANDOM.randbytes(RANDOM.randrange(6)).hex(),
        "boolean": lambda: pick(["true", "false"]),
        "date": lambda: quoted(pick(["1970-01-01", "2026-11-24", "0001-02-03", "9999-12-31"])),
        "time": lambda: quoted(pick(["00:00:00", "23:59:59.999999999", "01:02:03.5"])),
        "timestamp": lambda: pick(["0", "-1", "1296705900123", "253402300799999"]),
        "decimal": lambda: pick(["0", "-1.50", "123456789012345678901234567890.5", "1E-7"]),
        "double": lambda: pick(["0.0", "-1.5", "1e300", "3.141592653589793", "NaN", "Infinity"]),
        "float": lambda: pick(["0.0", "-1.5", "1e30", "3.1415927"]),
        "duration": lambda: pick(["1h30m", "-1y2mo3d", "5ns", "1mo"]),
        "inet": lambda: quoted(pick(["127.0.0.1", "::1", "2001:db8::ff00:42:8329"])),
        "uuid": lambda: pick(["123e4567-e89b-12d3-a456-426614174000",
                              "d2177dd0-eaa2-41de-a572-001b779c76e3"]),
        "timeuuid": lambda: pick(["d2177dd0-eaa2-11de-a572-001b779c76e3"]),
    }[kind]()


SCALARS = ["ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float",
           "inet", "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid",
           "varint"]


def several(kind):
    return [scalar(kind) for _ in range(RANDOM.randrange(1, 4))]


# Columns of more than one value: their types, and what makes a literal.
NESTED = {
    "list<text>": lambda: f"[{', '.join(several('text'))}]",
    "list<frozen<list<int>>>": lambda: f"[[{', '.join(several('int'))}], []]",
    "set<timestamp>": lambda: "{" + ", ".join(several("timestamp")) + "}",
    "set<text>": lambda: "{" + ", ".join(several("text")) + "}",
    "set<blob>": lambda: "{" + ", ".join(several("blob")) + "}",
    "map<text, text>": lambda: f"{{{scalar('text')}: {scalar('text')}}}",
    "map<inet, time>": lambda: f"{{{scalar('inet')}: {scalar('time')}}}",
    "map<int, frozen<set<uuid>>>": lambda: f"{{{scalar('int')}: {{{scalar('uuid')}}}}}",
    "tuple<int, text, double>": lambda: f"({scalar('int')}, {scalar('text')}, 0.5)",
    "frozen<place>": lambda: f"{{x: {scalar('int')}, name: {scalar('text')}}}",
    "place": lambda: f"{{x: {scalar('int')}, name: {scalar('text')}}}",
    "list<frozen<place>>": lambda: f"[{{x: 1, name: {scalar('text')}}}, {{x: 2}}]",
    "vector<float, 3>": lambda: f"[{scalar('float')}, {scalar('float')}, 1.0]",
}


@pytest.fixture(name="wide", scope="module")
def fixture_wide(cql, keyspace):
    """A table with a column of every type, full of rows, and what makes one like it."""
    cql.execute(f"CREATE TYPE {keyspace}.place (x int, name text)")
    kinds = [*SCALARS, *NESTED]
    columns = [f"c{number}" for number in range(len(kinds))]

    def make(name):
        typed = ", ".join(f"{column} {kind}" for column, kind in zip(columns, kinds))
        cql.execute(f"CREATE TABLE {keyspace}.{name} (p int, k text, c timestamp, s text static, "
                    f"{typed}, PRIMARY KEY ((p, k), c))")
        return f"{keyspace}.{name}"

    table = make("wide")
    for number in range(120):
        some = [(column, kind) for column, kind in zip(columns, kinds) if RANDOM.random() < 0.7]
        values = [(NESTED.get(kind) or (lambda kind=kind: scalar(kind)))() for _, kind in some]
        names = ", ".join(["p", "k", "c", *(column for column, _ in some)])
        values = ", ".join([str(number % 40), quoted(RANDOM.choice(TEXTS) + "k"),
                            scalar("timestamp"), *values])
        cql.execute(f"INSERT INTO {table} ({names}) VALUES ({values})")
    return table, make


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "csv.gz", "jsonl.zst"])
def test_every_type_round_trips(node, cql, wide, tmp_path, ending):
    table, make = wide
    copy = make("copy_" + ending.replace(".", "_"))
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    tool("unload", node, table, first)
    tool("load", node, copy, first, cwd=tmp_path)
    assert rows(cql, copy) == rows(cql, table)
    tool("unload", node, copy, second)
    if ending == "csv":
        # Texts have line ends in them: the bytes are compared, whatever the order of rows.
        assert sorted(first.read_bytes()) == sorted(second.read_bytes())
    if ending == "json":
        assert sorted(first.read_text().splitlines()) == sorted(second.read_text().splitlines())


def test_parquet_of_others(node, cql, table, keyspace, tmp_path):
    """Lists, maps and groups, moments in nanoseconds, decimals, compressed by zstd; and what is
    unloaded is read by others, with the types that its columns have."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    cql.execute(f"CREATE TYPE IF NOT EXISTS {keyspace}.spot (x int, name text)")
    name = table("id bigint PRIMARY KEY, t text, f float, w timestamp, day date, at time, d decimal, "
                 "b blob, u uuid, l list<int>, m map<text, int>, g frozen<spot>, "
                 "p tuple<int, text>, n varint")
    moment = datetime.datetime(2026, 11, 24, 1, 2, 3, 456000)
    rows_of = [{"id": number, "t": "it's", "f": 0.1, "w": moment, "day": moment.date(),
                "at": datetime.time(1, 2, 3), "d": decimal.Decimal("-12.50"), "b": b"\x00\xff",
                "u": uuid.UUID(int=number).bytes, "l": [1, 2], "m": [("a", 1)],
                "g": {"x": 1, "name": "y"}, "p": {"a": 5, "b": "z"}, "n": 7}
               for number in range(2999)] + [{"id": 2999}]
    schema = arrow.schema([
        ("id", arrow.int64()), ("t", arrow.string()), ("f", arrow.float32()),
        ("w", arrow.timestamp("ns")), ("day", arrow.date32()), ("at", arrow.time64("us")),
        ("d", arrow.decimal128(10, 2)), ("b", arrow.binary()), ("u", arrow.binary(16)),
        ("l", arrow.list_(arrow.int32())), ("m", arrow.map_(arrow.string(), arrow.int32())),
        ("g", arrow.struct([("x", arrow.int32()), ("name", arrow.string())])),
        ("p", arrow.struct([("a", arrow.int32()), ("b", arrow.string())])), ("n", arrow.int16())])
    file = tmp_path / "t.parquet"
    parquet.write_table(arrow.Table.from_pylist(rows_of, schema), file, compression="zstd",
                        row_group_size=1000)
    tool("load", node, name, file, cwd=tmp_path)
    row = cql.execute(f"SELECT * FROM {name} WHERE id = 5").one()
    assert (row.t, row.f, row.w, row.d, row.b) == ("it's", pytest.approx(0.1), moment,
                                                    decimal.Decimal("-12.50"), b"\x00\xff")
    assert (str(row.day), str(row.at), row.u, row.l, dict(row.m), tuple(row.g), row.p, row.n) == (
        "2026-11-24", "01:02:03.000000000", uuid.UUID(int=5), [1, 2], {"a": 1}, (1, "y"), (5, "z"), 7)
    assert count(cql, name) == 3000
    out = tmp_path / "out.parquet"
    tool("unload", node, name, out)
    read = parquet.read_table(out)
    kinds = {field.name: str(field.type) for field in read.schema}
    assert [kinds[column] for column in ("id", "f", "w", "day", "at", "b", "t")] == [
        "int64", "float", "timestamp[ms, tz=UTC]", "date32[day]", "time64[ns]", "binary", "string"]
    found = {row["id"]: row for row in read.to_pylist()}
    assert len(found) == 3000 and found[2999]["t"] is None
    assert (found[5]["t"], found[5]["d"], json.loads(found[5]["l"])) == ("it's", "-12.50", [1, 2])


@pytest.mark.parametrize("options", [
    ["--delimiter", "tab", "--quote", "none"],
    ["--delimiter", ";", "--escape", '"', "--null", "NULL"],
    ["--null", "\\N"],
    ["--decimal-separator", ",", "--delimiter", "|", "--boolean-words", "ja,nein",
     "--date-format", "%d/%m/%Y", "--header", "no"],
])
def test_dialects_round_trip(node, cql, table, tmp_path, options):
    names = [table("p int PRIMARY KEY, t text, b boolean, d double, w date, n int")
             for _ in range(2)]
    # Without quotes an empty text is not told from null.
    texts = [text for text in TEXTS if text or "none" not in options]
    for number, text in enumerate(texts):
        cql.execute(f"INSERT INTO {names[0]} (p, t, b, d, w) VALUES ({number}, {quoted(text)}, "
                    f"{scalar('boolean')}, 1234.5, '2026-11-24')")
    cql.execute(f"INSERT INTO {names[0]} (p) VALUES (99)")
    file = tmp_path / "t.csv"
    tool("unload", node, names[0], file, *options)
    tool("load", node, names[1], file, *options, cwd=tmp_path)
    assert rows(cql, names[1]) == rows(cql, names[0])


def test_files_of_cqlsh(node, cql, wide, tmp_path):
    """What COPY TO writes is loaded as COPY FROM would load it, and what unload writes is read by
    COPY FROM."""
    ours, theirs, source = (wide[1](name) for name in ("ours", "theirs", "source"))
    # COPY FROM knows no durations, tells no empty text from null, and hangs at line ends in quotes.
    columns = [f"c{SCALARS.index(kind)}" for kind in SCALARS if kind not in ("duration", "double")]
    names = ", ".join(["p", "k", "c", *columns])
    for number in range(30):
        values = [scalar(kind) for kind in SCALARS if kind not in ("duration", "double")]
        plain = [quoted("x") if value == "''" or "\n" in value else value for value in values]
        cql.execute(f"INSERT INTO {source} ({names}) VALUES ({number}, {quoted('a,b')}, {number}, "
                    f"{', '.join(plain)})")
    for header in ("true", "false"):
        file = tmp_path / f"{header}.csv"
        cqlsh(node, f"COPY {source} ({names}) TO '{file}' WITH HEADER = {header} AND "
                    f"FLOATPRECISION = 9;")
        cqlsh(node, f"COPY {theirs} ({names}) FROM '{file}' WITH HEADER = {header};")
        columns_of = [] if header == "true" else ["--columns", names.replace(" ", "")]
        tool("load", node, ours, file, *columns_of, cwd=tmp_path)
        assert len(rows(cql, theirs)) == 30
        assert rows(cql, ours) == rows(cql, theirs)
        cql.execute(f"TRUNCATE {ours}")
        cql.execute(f"TRUNCATE {theirs}")
    file = tmp_path / "unloaded.csv"
    tool("unload", node, source, file, "--columns", names.replace(" ", ""))
    cqlsh(node, f"COPY {theirs} ({names}) FROM '{file}' WITH HEADER = true;")
    assert rows(cql, theirs) == rows(cql, source)


def many(path, number, columns=("id", "a", "b", "name")):
    """A file of so many rows."""
    with open(path, "w", encoding="utf-8") as file:
        print(",".join(columns), file=file)
        for row in range(number):
            print(f"{row},{row * 7},{row * row},name of {row}", file=file)
    return path


COLUMNS = "id bigint PRIMARY KEY, a int, b bigint, name text"


def whole(cql, table, number):
    """Whether exactly the rows of `many` are there."""
    found = {row.id: row for row in cql.execute(f"SELECT * FROM {table}")}
    assert len(found) == number
    for row in found.values():
        assert (row.a, row.b, row.name) == (row.id * 7, row.id ** 2, f"name of {row.id}")


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_load_that_was_ended_goes_on(node, cql, table, tmp_path, kill):
    """Exactly the rows of the file, each with the timestamp of the first start, and bad rows once."""
    name, number = table(COLUMNS), 40_000
    file = many(tmp_path / "t.csv", number)
    with open(file, "a", encoding="utf-8") as out:
        print("x,1,1,bad", file=out)
    load = begin(node, name, file, "--rate", "8000", cwd=tmp_path)
    until_there_are(cql, name, 8000)
    load.send_signal(kill)
    load.wait(30)
    assert load.returncode != 0
    checkpoint = tmp_path / f"{name}.checkpoint"
    before = json.loads(checkpoint.read_text())
    assert before["position"]["records"] < number
    told = tool("load", node, name, file, cwd=tmp_path, code=1)
    assert "--resume continues it, --restart forgets it" in told
    tool("load", node, name, file, "--resume", cwd=tmp_path, code=3)
    whole(cql, name, number)
    times = {row[0] for row in cql.execute(f"SELECT writetime(name) FROM {name}")}
    assert times == {before["timestamp"]}
    assert (tmp_path / f"{name}.bad").read_text() == "id,a,b,name\nx,1,1,bad\n"
    assert not checkpoint.exists()


def test_a_file_that_changed_is_not_continued(node, cql, table, tmp_path):
    name = table(COLUMNS)
    file = many(tmp_path / "t.csv", 30_000)
    load = begin(node, name, file, "--rate", "10000", cwd=tmp_path)
    until_there_are(cql, name, 1)
    load.kill()
    load.wait()
    many(file, 100)
    told = tool("load", node, name, file, "--resume", cwd=tmp_path, code=1)
    assert "the file has changed since" in told
    tool("load", node, name, file, "--restart", cwd=tmp_path)
    assert tool("load", node, name, file, "--resume", cwd=tmp_path, code=1).count("no load to resume")


def test_bad_rows_are_named(node, cql, table, tmp_path):
    name = table("id int PRIMARY KEY, n text, v list<int>")
    file = tmp_path / "t.csv"
    file.write_text('id,n,v\n1,"two\nlines",[1]\nx,a,\n3,b\n,c,\n4,"d\ne",[x]\n5,ok,"[1, 2]"\n')
    told = tool("load", node, name, file, cwd=tmp_path, code=3)
    for line in [f"{file}:4:1: id: Unable to make int from 'x'",
                 f"{file}:5: 2 fields where 3 are expected",
                 f"{file}:6:1: id: a null in the primary key",
                 f"{file}:8:4: v: Unable to make int from 'x'"]:
        assert line in told, told
    assert "2 rows loaded" in told and "4 errors" in told
    assert count(cql, name) == 2
    bad = tmp_path / f"{name}.bad"
    assert bad.read_text() == 'id,n,v\nx,a,\n3,b\n,c,\n4,"d\ne",[x]\n'
    assert len((tmp_path / f"{name}.bad.log").read_text().splitlines()) == 4
    bad.write_text(bad.read_text().replace("x", "7").replace("3,b", "3,b,").replace(",c,", "8,c,", 1))
    # What was mended is loaded; the first comma of ",c," is that of another line's field.
    tool("load", node, name, file, "--max-errors", "3", "--restart", cwd=tmp_path, code=1)


def test_what_the_server_refuses_is_a_bad_row(node, cql, table, tmp_path):
    """The other rows of its batch are loaded."""
    name = table("k text PRIMARY KEY, v int")
    file = tmp_path / "t.csv"
    file.write_text("k,v\n" + "".join(f"k{n},{n}\n" for n in range(100)) + f"{'x' * 70_000},1\n"
                    + "".join(f"l{n},{n}\n" for n in range(100)))
    told = tool("load", node, name, file, cwd=tmp_path, code=3)
    assert f"{file}:102" in told
    assert count(cql, name) == 200


def test_a_dry_run_writes_nothing(node, cql, table, tmp_path):
    name = table("id int PRIMARY KEY")
    file = tmp_path / "t.csv"
    file.write_text("id\n1\nx\n")
    told = tool("load", node, name, file, "--dry-run", cwd=tmp_path, code=3)
    assert f"{file}:3:1" in told and "1 rows checked" in told
    assert count(cql, name) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_parts_of_files(node, cql, table, tmp_path):
    name = table("id int PRIMARY KEY, a text, b text")
    (tmp_path / "a.csv").write_text("1,x,drop,y\n2,x,drop,y\n3,x,drop,y\n")
    (tmp_path / "b.csv").write_text("4,x,drop,y\n5,x,drop,y\n")
    tool("load", node, name, tmp_path / "a.csv", tmp_path / "b.csv", "--columns", "id,b,-,a",
         "--skip", "1", "--max-records", "3", cwd=tmp_path)
    found = sorted(tuple(row) for row in cql.execute(f"SELECT id, a, b FROM {name}"))
    assert found == [(2, "y", "x"), (3, "y", "x"), (4, "y", "x")]


def test_nulls_and_ttl_and_timestamp(node, cql, table, tmp_path):
    name = table("id int PRIMARY KEY, a int, b int")
    file = tmp_path / "t.csv"
    file.write_text("id,a,b\n1,,5\n")
    cql.execute(f"INSERT INTO {name} (id, a) VALUES (1, 7)")
    tool("load", node, name, file, cwd=tmp_path)
    assert tuple(cql.execute(f"SELECT a, b FROM {name}").one()) == (7, 5)
    tool("load", node, name, file, "--nulls", "delete", "--ttl", "5000", cwd=tmp_path)
    row = cql.execute(f"SELECT a, ttl(b) FROM {name}").one()
    assert row[0] is None and 0 < row[1] <= 5000
    cql.execute(f"TRUNCATE {name}")
    tool("load", node, name, file, "--timestamp", "1234", cwd=tmp_path)
    assert cql.execute(f"SELECT writetime(b) FROM {name}").one()[0] == 1234


def test_counters(node, cql, table, tmp_path):
    first, second = (table("p int, c text, n counter, m counter, PRIMARY KEY (p, c)")
                     for _ in range(2))
    for number in range(20):
        cql.execute(f"UPDATE {first} SET n = n + {number}, m = m - 5 WHERE p = {number} AND c = 'x'")
    tool("unload", node, first, tmp_path / "t.csv")
    tool("load", node, second, tmp_path / "t.csv", cwd=tmp_path)
    assert rows(cql, second) == rows(cql, first)


def test_pipes(node, cql, table, tmp_path):
    name = table("id int PRIMARY KEY, a text")
    command = [NEREID, "load", "--host", node.address, name, "-"]
    lines = "".join(f"{number},x\n" for number in range(5000))
    subprocess.run(command, input=lines, text=True, check=True, cwd=tmp_path, timeout=60,
                   stderr=subprocess.DEVNULL)
    printed = tool("unload", node, name, "--quiet", "--header", "no")
    # The last line says how it ended.
    assert sorted(printed.splitlines()[:-1]) == sorted(lines.splitlines())


def test_queries_are_unloaded(node, cql, table, tmp_path):
    name = table("p int, c int, v text, PRIMARY KEY (p, c)")
    for number in range(50):
        cql.execute(f"INSERT INTO {name} (p, c, v) VALUES ({number % 5}, {number}, 'v')")
    file = tmp_path / "t.csv"
    query = f"SELECT c AS number, writetime(v) AS w FROM {name} WHERE p = 3"
    tool("unload", node, "--query", query, file, "--page-size", "3")
    lines = file.read_text().splitlines()
    assert lines[0] == "number,w" and len(lines) == 11
    tool("unload", node, name, file, "--where", "c < 10", "--columns", "c")
    assert sorted(map(int, file.read_text().splitlines()[1:])) == list(range(10))
    tool("unload", node, name, file, "--max-records", "7", "--page-size", "2")
    assert len(file.read_text().splitlines()) == 8


def test_a_thousand_tokens_of_a_table_with_tablets(node, cql, tmp_path):
    """Rows go to the shard of their tablet, and come back whole; splits are more than shards."""
    cql.execute("CREATE KEYSPACE tablets WITH replication = {'class': 'NetworkTopologyStrategy', "
                "'replication_factor': 1} AND tablets = {'enabled': true, 'initial': 16}")
    cql.execute(f"CREATE TABLE tablets.t ({COLUMNS})")
    file = many(tmp_path / "t.csv", 3000)
    tool("load", node, "tablets.t", file, "--threads", "2", cwd=tmp_path)
    whole(cql, "tablets.t", 3000)
    out = tmp_path / "out.csv"
    tool("unload", node, "tablets.t", out, "--splits", "1000", "--columns", "id,a,b,name")
    assert sorted(out.read_text().splitlines()) == sorted(file.read_text().splitlines())


def test_a_node_that_restarts(table, tmp_path):
    """The load waits for it, and loses nothing."""
    del table
    with Node() as node:
        cql = node.connect()
        cql.execute("CREATE KEYSPACE ks WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        cql.execute(f"CREATE TABLE ks.t ({COLUMNS})")
        file = many(tmp_path / "t.csv", 40_000)
        load = begin(node, "ks.t", file, "--rate", "20000", cwd=tmp_path)
        until_there_are(cql, "ks.t", 4000)
        node.stop()
        node.start()
        assert load.wait(120) == 0, load.stderr.read()
        whole(node.connect(), "ks.t", 40_000)


def test_login_and_tls(tmp_path):
    (tmp_path / "tls").mkdir()
    authority = Authority(tmp_path / "tls")
    with Node() as first:
        address = first.address
    certificate, key = authority.make("server", address)
    shown, shown_key = authority.make("client")
    node = Node("--authenticator", "PasswordAuthenticator", "--client-encryption-options",
                "enabled=true", "--client-encryption-options", f"certificate={certificate}",
                "--client-encryption-options", f"keyfile={key}", "--client-encryption-options",
                f"truststore={authority.file}", "--client-encryption-options",
                "require_client_auth=true", "--native-transport-port-ssl", "9142", address=address)
    file = many(tmp_path / "t.csv", 100)
    with node:
        cql = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        cql.execute("CREATE KEYSPACE ks WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        cql.execute(f"CREATE TABLE ks.t ({COLUMNS})")
        node.port = 9142
        tls = ["--tls-trust", authority.file, "--tls-certificate", shown, "--tls-key", shown_key]
        user = ["--user", "cassandra"]
        tool("load", node, "ks.t", file, *tls, *user, cwd=tmp_path,
             env={"NEREID_PASSWORD": "cassandra"})
        whole(cql, "ks.t", 100)
        tool("unload", node, "ks.t", tmp_path / "out.csv", *tls, *user, "--password", "cassandra")
        assert len((tmp_path / "out.csv").read_text().splitlines()) == 101
        refused = [tool("load", node, "ks.t", file, *words, cwd=tmp_path, code=1) for words in (
            [*tls, *user, "--password", "wrong"], tls, [*tls[:2], *user, "--password", "cassandra"])]
        assert "incorrect" in refused[0] and "asks for a user" in refused[1], refused
        # TLS to a plain port, and plain text to one of TLS, say so.
        node.port = 9042
        assert "TLS" in tool("load", node, "ks.t", file, *tls, cwd=tmp_path, code=1)


def test_memory_is_bounded(node, cql, table, tmp_path):
    """300 MiB of rows of 100 KiB, and 60 MiB of small ones, in 64 MiB."""
    name = table("id int PRIMARY KEY, v text")
    wide, small = tmp_path / "wide.csv", tmp_path / "small.csv"
    with open(wide, "w", encoding="utf-8") as file:
        for number in range(3000):
            print(f"{number % 200},{'x' * 100_000}", file=file)
    with open(small, "w", encoding="utf-8") as file:
        for number in range(60 * MIB // 22):
            print(f"{number % 1_000_000},{number:012}", file=file)

    def peak(*words):
        process = subprocess.Popen([NEREID, "load", "--host", node.address, name, *map(str, words)],
                                   cwd=tmp_path, stderr=subprocess.DEVNULL)
        # Of the program itself: what wait4 tells counts the process that it was forked from, too.
        status, most = Path(f"/proc/{process.pid}/status"), 0
        while process.poll() is None:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
            most = max(most, int(found[1]) / 1024 if found else 0)
            time.sleep(0.02)
        assert process.returncode == 0 and most != 0
        return most

    assert peak(wide) < 64
    assert peak(small, "--dry-run") < 64
    assert count(cql, name) == 200
    with gzip.open(tmp_path / "wide.csv.gz", "wb", compresslevel=1) as file:
        file.write(wide.read_bytes()[:100_008 * 50].rsplit(b"\n", 1)[0])
    assert peak(tmp_path / "wide.csv.gz") < 64


def test_batches_are_below_what_servers_warn_of(node, cql, table, tmp_path):
    """Of many columns, of few, and of one long text."""
    many_columns = table("id int PRIMARY KEY, " + ", ".join(f"c{n} int" for n in range(60)))
    short, long = table("id int PRIMARY KEY"), table("id int PRIMARY KEY, v text")
    for name, line in ((many_columns, ",".join("7" for _ in range(60))), (short, None),
                       (long, "x" * 3000)):
        file = tmp_path / f"{name}.csv"
        file.write_text("".join(f"{n},{line}\n" if line else f"{n}\n" for n in range(1500)))
        assert "warns" not in tool("load", node, name, file, cwd=tmp_path)
        assert count(cql, name) == 1500
    assert "exceeding specified" not in node.log.read_text()


def test_rows_of_a_snapshot(node, cql, table, tmp_path):
    """The way that the docs show."""
    names = [table(COLUMNS) for _ in range(2)]
    tool("load", node, names[0], many(tmp_path / "t.csv", 500), cwd=tmp_path)
    keyspace, name = names[0].split(".")
    subprocess.run([NEREID, "nodetool", "-h", node.address, "snapshot", "-t", "one", keyspace],
                   check=True, capture_output=True)
    folder, = (node.workdir / "data" / "data" / keyspace).glob(f"{name}-*/snapshots/one")
    query = [NEREID, "sstable", "query", "--output-format", "json", "-q",
             f"SELECT * FROM scylla_sstable.{name}", folder]
    with subprocess.Popen(query, stdout=subprocess.PIPE) as rows_of:
        load = [NEREID, "load", "--host", node.address, names[1], "-", "--format", "json"]
        subprocess.run(load, stdin=rows_of.stdout, check=True, cwd=tmp_path, timeout=100)
    whole(cql, names[1], 500)
    assert "docs/load.md" in tool("load", node, names[1], folder, cwd=tmp_path, code=1)


def test_what_is_wrong_is_said(node, table, tmp_path):
    name = table("id int PRIMARY KEY, a int")
    file = tmp_path / "t.csv"
    file.write_text("id,a\n1,2\n")
    for words, code, expected in [
            (["nowhere.t", file], 1, "nowhere.t: no such table"),
            ([name, tmp_path / "none.csv"], 1, "none.csv"),
            ([name, file, "--columns", "id,zz"], 1, "has no column zz"),
            ([name, file, "--columns", "a"], 1, "no field has the key column id"),
            ([name, file, "--columns", "id,id"], 1, "the column id is there twice"),
            (["t", file], 2, "not KEYSPACE.TABLE: t"),
            ([name, file, "--timestamp", "x"], 2, "invalid value")]:
        assert expected in tool("load", node, *words, cwd=tmp_path, code=code)
    node = Node()
    assert "cannot connect to" in tool("load", node, name, file, cwd=tmp_path, code=1)


def test_help_names_every_option():
    text = "".join(subprocess.run([NEREID, name, "--help"], capture_output=True, text=True,
                                  check=True).stdout for name in ("load", "unload"))
    documented = (ROOT / "docs" / "load.md").read_text(encoding="utf-8")
    for option in re.findall(r"`(--[a-z-]+)", documented):
        assert option in text, option
