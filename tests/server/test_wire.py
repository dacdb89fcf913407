"""Bytes that no driver sends: the client that sends them gets an error or is left, and nobody else
notices."""
import os
import random
import struct

import pytest
from node import Node
from wire import (BATCH, ERROR, EXECUTE, OPTIONS, PREPARE, QUERY, READY, REGISTER, RESULT, STARTUP,
                  SUPPORTED, Client, frame, query, startup, string)


@pytest.fixture(name="others", autouse=True)
def fixture_others(node):
    """Another client, before and after; and the log without a panic."""
    with Client(node).started() as other:
        yield
        other.send(query("SELECT key FROM system.local"))
        opcode, body = other.answer()
        assert opcode == RESULT and b"local" in body
    assert node.is_running() and b"panicked" not in node.log.read_bytes()


@pytest.mark.parametrize("version", [0, 1, 2, 6, 0x42, 0x7f])
def test_versions_that_nobody_speaks(node, version):
    with Client(node) as client:
        client.send(frame(OPTIONS, version=version))
        assert f"Invalid or unsupported protocol version: {version}" in client.error()
        assert client.is_closed()


@pytest.mark.parametrize("data, words", [
    (frame(OPTIONS, version=0x84), None),
    (frame(QUERY, length=0x7fffffff), "request size too large"),
    (frame(STARTUP, length=0xffffffff), "request size too large"),
    (query("SELECT * FROM system.local"), "STARTUP"),
    (frame(0x77), None),
    (frame(STARTUP, b""), None),
    (frame(STARTUP, b"\xff\xff"), None),
    (frame(STARTUP, struct.pack(">H", 0)), "CQL_VERSION"),
    (startup(COMPRESSION="zip"), "zip"),
    (frame(STARTUP, b"\0\x01" + string("CQL_VERSION") + b"\0\x02\xff\xfe"), None),
    (frame(OPTIONS, b"\1\2\3", flags=0x01), None),
])
def test_before_startup(node, data, words):
    with Client(node) as client:
        client.send(data)
        error = client.error()
        assert error is not None and (words is None or words in error), error


BROKEN_BODIES = [
    (QUERY, b""), (QUERY, struct.pack(">i", -1)), (QUERY, struct.pack(">I", 0x7fffffff)),
    (QUERY, struct.pack(">I", 3) + b"\xff\xfe\xfd" + b"\0\1\0"),
    (QUERY, struct.pack(">I", 1) + b"x"),
    (QUERY, struct.pack(">I", 1) + b"x" + b"\0\1\xff"),
    (QUERY, struct.pack(">I", 1) + b"x" + b"\0\1\1\xff\xff"),
    (QUERY, struct.pack(">I", 1) + b"x" + b"\0\1\1\0\1" + struct.pack(">i", -77)),
    (PREPARE, b"\0\0"), (EXECUTE, b""), (EXECUTE, b"\xff\xff"), (BATCH, b"\x09"),
    (BATCH, b"\0\xff\xff"), (BATCH, b"\0\0\1\x07"), (REGISTER, b"\0\5"),
    (0x77, b""), (0x00, b""), (RESULT, b"\0\0\0\1"),
]


@pytest.mark.parametrize("opcode, body", BROKEN_BODIES)
@pytest.mark.parametrize("version", [3, 4])
def test_broken_bodies(node, opcode, body, version):
    with Client(node).started(version) as client:
        client.send(frame(opcode, body, version))
        assert client.error()


def test_other_consistency_levels_and_ids(node):
    with Client(node).started() as client:
        text = b"SELECT key FROM system.local"
        body = struct.pack(">I", len(text)) + text + struct.pack(">HB", 0x7777, 0)
        client.send(frame(QUERY, body))
        assert client.error()
    with Client(node).started() as client:
        client.send(frame(EXECUTE, struct.pack(">H", 16) + bytes(16) + struct.pack(">HB", 1, 0)))
        opcode, body = client.answer()
        assert opcode == ERROR and struct.unpack(">I", body[:4])[0] == 0x2500


def prepare(client, text):
    """The id of a prepared statement."""
    data = text.encode()
    client.send(frame(PREPARE, struct.pack(">I", len(data)) + data))
    opcode, body = client.answer()
    assert (opcode, body[:4]) == (RESULT, b"\0\0\0\4")
    return body[6:6 + struct.unpack(">H", body[4:6])[0]]


def execute(client, identity):
    """What executing it is answered with: RESULT, or the code of an error and what goes with it."""
    client.send(frame(EXECUTE, struct.pack(">H", len(identity)) + identity
                      + struct.pack(">HB", 1, 0)))
    opcode, body = client.answer()
    if opcode == RESULT:
        return RESULT
    (length,) = struct.unpack(">H", body[4:6])
    return struct.unpack(">I", body[:4])[0], body[6 + length:]


def drive_out(client):
    """Prepares more than a shard keeps of a node of 1 GiB, which is 2 MiB."""
    for number in range(100):
        prepare(client, f"SELECT key FROM system.local /* {number} {'x' * 60_000} */")


def test_a_statement_that_was_driven_out_is_prepared_again():
    text = "SELECT cluster_name FROM system.local"
    with Node("--memory", "1G") as node, Client(node).started() as client:
        identity = prepare(client, text)
        assert execute(client, identity) == RESULT
        drive_out(client)
        code, rest = execute(client, identity)
        assert (code, rest) == (0x2500, struct.pack(">H", 16) + identity)
        assert prepare(client, text) == identity
        assert execute(client, identity) == RESULT
        # Drivers do that by themselves.
        session = node.connect()
        statement = session.prepare(text)
        assert statement.query_id == identity
        drive_out(client)
        assert len(list(session.execute(statement))) == 1
        node.disconnect()


@pytest.mark.parametrize("algorithm", ["lz4", "snappy"])
def test_compressed_garbage(node, algorithm):
    for body in [b"", b"\x00", b"\xff" * 40, struct.pack(">I", 0x7fffffff) + b"abc",
                 struct.pack(">I", 10) + os.urandom(30), struct.pack(">I", 1 << 20) + bytes(9000),
                 struct.pack(">I", 1 << 20) + os.urandom(300_000)]:
        with Client(node).started(COMPRESSION=algorithm) as client:
            client.send(frame(QUERY, body, flags=0x01))
            assert client.error()


@pytest.mark.parametrize("algorithm", ["lz4", "snappy", False])
def test_bodies_of_all_sizes(node, algorithm):
    session = node.connect(compression=algorithm)
    session.execute("CREATE KEYSPACE IF NOT EXISTS sizes WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE IF NOT EXISTS sizes.t (p int PRIMARY KEY, b blob)")
    write = session.prepare("INSERT INTO sizes.t (p, b) VALUES (?, ?)")
    for size in [0, 1000, 255 << 10, 257 << 10, 3 << 20]:
        for value in [os.urandom(size), bytes(size)]:
            session.execute(write, (size, value))
            found = session.execute(f"SELECT b FROM sizes.t WHERE p = {size}").one().b
            assert found == value, size
    node.disconnect()


def test_segments_with_wrong_checksums(node):
    for data in [os.urandom(64), bytes(64), b"\xff" * 64]:
        with Client(node) as client:
            client.send(startup(version=5))
            assert client.answer() == (READY, b"")
            client.send(data)
            assert client.is_closed()


def test_random_bytes(node):
    dice = random.Random(42)
    for _ in range(200):
        with Client(node, seconds=3) as client:
            if dice.randrange(2):
                client.send(startup())
            client.send(dice.randbytes(dice.randrange(1, 2000)))


def test_random_bodies_behind_right_headers(node):
    dice = random.Random(43)
    good = [query("SELECT * FROM system.local WHERE key = 'local'"),
            frame(PREPARE, struct.pack(">I", 28) + b"SELECT key FROM system.local"),
            frame(BATCH, b"\0\0\1\0" + struct.pack(">I", 5) + b"hello" + b"\0\0\0\1\0")]
    with Client(node).started() as client:
        for _ in range(2000):
            data = bytearray(dice.choice(good))
            for _ in range(dice.randrange(1, 4)):
                data[dice.randrange(9, len(data))] = dice.randrange(256)
            client.send(bytes(data))
            answer = client.answer()
            if answer is None:
                client.socket.close()
                client = Client(node).started()


def test_half_a_frame_and_silence(node):
    clients = [Client(node).started() for _ in range(50)]
    for client in clients:
        client.send(query("SELECT key FROM system.local")[:11])
    for client in clients:
        client.socket.close()


def test_many_requests_without_reading_answers(node):
    with Client(node).started() as client:
        client.socket.settimeout(2)
        data = b"".join(query("SELECT * FROM system_schema.columns") for _ in range(400))
        try:
            client.socket.sendall(data)
        except TimeoutError:
            pass


def test_one_byte_at_a_time(node):
    with Client(node) as client:
        for byte in startup() + query("SELECT key FROM system.local"):
            client.send(bytes([byte]))
        assert client.answer() == (READY, b"")
        assert client.answer()[0] == RESULT


def test_options_need_no_startup(node):
    with Client(node) as client:
        client.send(frame(OPTIONS))
        opcode, body = client.answer()
        assert opcode == SUPPORTED and b"SCYLLA_NR_SHARDS" in body


@pytest.mark.parametrize("count", [200])
def test_many_connections(node, count):
    clients = [Client(node) for _ in range(count)]
    for client in clients:
        client.send(startup())
    for client in clients:
        assert client.answer() == (READY, b"")
        client.socket.close()
