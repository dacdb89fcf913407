"""Statements that nobody means: huge, deep, full of markers, or no text at all. Each is answered with
a clear error or served, and the node goes on."""
import struct
import sys
from pathlib import Path

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "server"))
from wire import BATCH, ERROR, EXECUTE, PREPARE, QUERY, RESULT, Client, frame  # noqa: E402

SYNTAX, INVALID, PROTOCOL = 0x2000, 0x2200, 0x000A
LOCAL = "SELECT key FROM system.local"


def ask(node, opcode, body):
    """The answer to one request on a connection of its own: RESULT, or an error's code and text."""
    with Client(node, seconds=60).started() as client:
        client.send(frame(opcode, body))
        answer = client.answer()
        assert answer is not None, "the connection ended without an answer"
        opcode, body = answer
        if opcode != ERROR:
            return opcode, ""
        (code, length) = struct.unpack(">IH", body[:6])
        return code, body[6:6 + length].decode()


def text_of(data):
    return struct.pack(">I", len(data)) + data


def query(data):
    return text_of(data) + struct.pack(">HB", 1, 0)


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    return db.table("k int PRIMARY KEY, v text, l list<int>")


@pytest.fixture(autouse=True)
def fixture_goes_on(db, node):
    yield
    assert db.one(LOCAL) == "local"
    assert node.process.poll() is None


def test_a_mebibyte_of_text(db, t):
    value = "x" * (1 << 20)
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, '{value}')")
    assert db.one(f"SELECT v FROM {t} WHERE k = 1") == value
    comment = "/* " + "y" * (1 << 20) + " */"
    assert db.rows(f"SELECT k {comment} FROM {t} WHERE k = 1") == [(1,)]
    assert db.rows(f"SELECT k FROM {t} WHERE k = 1 -- {'z' * (1 << 20)}") == [(1,)]
    db.refuse("z" * (1 << 20), "line 1", kind=SyntaxException)
    db.refuse("SELECT " + "w" * (1 << 20) + f" FROM {t}", "", kind=InvalidRequest)
    db.run(f"SELECT k{' ' * (1 << 20)}FROM {t}")


@pytest.mark.parametrize("text", [
    "SELECT * FROM {t} WHERE k = " + "(" * 100_000,
    "SELECT * FROM {t} WHERE k = " + "(" * 100_000 + "1" + ")" * 100_000,
    "SELECT * FROM {t} WHERE " + "(" * 100_000 + "k = 1" + ")" * 100_000,
    "INSERT INTO {t} (k, l) VALUES (1, " + "[" * 100_000 + "]" * 100_000 + ")",
    "INSERT INTO {t} (k, l) VALUES (1, " + "{{" * 100_000 + "}}" * 100_000 + ")",
    "SELECT " + "f(" * 100_000 + "k" + ")" * 100_000 + " FROM {t}",
    "SELECT " + "cast(" * 50_000 + "k" + " AS int)" * 50_000 + " FROM {t}",
    "SELECT " + "(int)" * 100_000 + " k FROM {t}",
    "SELECT l" + "[0" * 100_000 + "]" * 100_000 + " FROM {t}",
    "SELECT " + "-" * 100_001 + "1 FROM {t}",
    "CREATE TABLE x.x (a " + "frozen<list<" * 50_000 + "int" + ">>" * 50_000 + " PRIMARY KEY)",
    "BEGIN BATCH " * 20_000,
], ids=lambda text: text[:30])
def test_100_000_brackets(db, t, text):
    with pytest.raises((SyntaxException, InvalidRequest)) as caught:
        db.run(text.format(t=t))
    assert len(str(caught.value)) < 100_000


def test_65_536_markers(db, t):
    for text in (f"SELECT k FROM {t} WHERE k IN (%s)", f"INSERT INTO {t} (k, l) VALUES (1, [%s])"):
        with pytest.raises((InvalidRequest, SyntaxException)) as caught:
            db.session.prepare(text % ", ".join("?" * 65_536))
        assert "marker" in str(caught.value) or "65535" in str(caught.value), caught.value
    statement = db.session.prepare(f"INSERT INTO {t} (k, l) VALUES (?, [{', '.join('?' * 65_534)}])")
    assert len(statement.column_metadata) == 65_535
    db.session.execute(statement, list(range(65_535)))
    assert len(db.one(f"SELECT l FROM {t} WHERE k = 0")) == 65_534


@pytest.mark.parametrize("data", [
    b"\xff", b"SELECT \xc3( FROM t", b"SELECT * FROM t WHERE v = '\xed\xa0\x80'",
    b"SELECT * FROM t WHERE v = '\xf8\x88\x80\x80\x80'", b"\xef\xbb\xbf\xfe", b"INSERT \xc0\xaf",
])
@pytest.mark.parametrize("opcode", [QUERY, PREPARE])
def test_text_that_is_no_utf_8(node, data, opcode):
    body = query(data) if opcode == QUERY else text_of(data)
    code, text = ask(node, opcode, body)
    assert code in (PROTOCOL, SYNTAX, INVALID) and text


@pytest.mark.parametrize("data", [b"", b" \n\t", b";", b"\0", b"\0" * 1000, b"--", b"/*", b"'",
                                  b'"', b"$$", b"0x", b"?", b":", b"%", b"SELECT\0* FROM t"])
def test_text_that_says_nothing(node, data):
    code, text = ask(node, QUERY, query(data))
    assert code == SYNTAX and text


def test_a_null_of_a_query_is_refused(node):
    code, _ = ask(node, QUERY, struct.pack(">i", -1) + struct.pack(">HB", 1, 0))
    assert code in (PROTOCOL, SYNTAX)


def test_values_that_are_too_many_or_too_few(db, node, t):
    select = f"SELECT k FROM {t} WHERE k = ?".encode()
    one = struct.pack(">ii", 4, 1)
    for count, values, wanted in [
        (0, b"", INVALID), (1, one, RESULT), (2, one + one, INVALID), (65_535, b"", PROTOCOL),
        (1, struct.pack(">i", 1 << 30), PROTOCOL), (1, struct.pack(">i", -3), PROTOCOL),
    ]:
        body = text_of(select) + struct.pack(">HBH", 1, 1, count) + values
        code, text = ask(node, QUERY, body)
        assert code == wanted, (count, values, hex(code), text)


def test_a_batch_of_65_535_statements(db, node, t):
    text = text_of(f"INSERT INTO {t} (k) VALUES (7)".encode())
    one = b"\0" + text + struct.pack(">H", 0)
    body = struct.pack(">BH", 1, 65_535) + one * 65_535 + struct.pack(">HB", 1, 0)
    code, text = ask(node, BATCH, body)
    assert code in (RESULT, INVALID), (hex(code), text)
    code, text = ask(node, BATCH, struct.pack(">BH", 1, 65_535) + one)
    assert code == PROTOCOL, (hex(code), text)


def test_ids_of_nothing(node):
    for identity in (b"", b"x", bytes(16), bytes(60_000)):
        body = struct.pack(">H", len(identity)) + identity + struct.pack(">HB", 1, 0)
        code, _ = ask(node, EXECUTE, body)
        assert code == 0x2500


@pytest.mark.parametrize("state", [b"\0", b"x" * 100, b"\xff" * 1000, bytes(60_000)],
                         ids=["short", "text", "ones", "zeros"])
def test_paging_states_of_nobody(node, t, state):
    select = f"SELECT * FROM {t}".encode()
    code, text = ask(node, QUERY, text_of(select) + struct.pack(">HB", 1, 0x08) + text_of(state))
    assert code in (PROTOCOL, INVALID) and text
