"""Clients that do not say who they are hold little, and not for long."""
import selectors
import socket
import time

import pytest
from authority import Authority
from node import Node, free_address

OPTIONS = bytes([4, 0, 0, 1, 5, 0, 0, 0, 0])
STARTUP = bytes([4, 0, 0, 1, 1, 0, 0, 0, 22, 0, 1]) + b"\x00\x0bCQL_VERSION\x00\x053.0.0"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A node with plain and encrypted ports."""
    address = free_address()
    certificate, key = Authority(tmp_path_factory.mktemp("certificates")).make("node", address)
    entries = {"enabled": 1, "certificate": certificate, "keyfile": key}
    options = [word for name, value in entries.items()
               for word in ("--client-encryption-options", f"{name}={value}")]
    with Node(*options, "--native-transport-port-ssl", 9142, address=address) as node:
        yield node


def connect(node, port=9042):
    return socket.create_connection((node.address, port), timeout=60)


def ended(sock):
    """Waits until the other side has ended; True."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def test_who_does_not_start_is_ended_in_time(both):
    silent = [(connect(both, port), sent) for port, sent in
              ((9042, b""), (9042, OPTIONS[:5]), (9042, OPTIONS), (9142, b""),
               (9142, bytes([22, 3, 1, 2, 0])))]
    started = connect(both)
    started.sendall(STARTUP)
    began = time.monotonic()
    for sock, sent in silent:
        sock.sendall(sent)
    for sock, _ in silent:
        assert ended(sock)
        assert 20 < time.monotonic() - began < 40
    # Who was let in may be silent.
    started.sendall(OPTIONS)
    assert started.recv(9)[4] == 2
    assert started.recv(1 << 16)[4] == 6
    started.close()


def test_a_slow_sender_is_ended_in_time(both):
    began = time.monotonic()
    with connect(both) as sock, selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        byte = iter(STARTUP)
        # A byte of the request each second; never all of it in time.
        while not selector.select(1):
            sock.sendall(bytes([next(byte)]))
        assert ended(sock)
    assert 20 < time.monotonic() - began < 40


def test_a_large_body_before_startup_is_refused(both):
    with connect(both) as sock:
        sock.sendall(bytes([4, 0, 0, 1, 1]) + (20_000).to_bytes(4, "big"))
        answer = sock.recv(1 << 16)
        assert answer[4] == 0 and b"limit 16384" in answer, answer
        assert ended(sock)


def test_answers_that_are_not_taken_stay_few(both):
    """Many questions of one who is not let in: the node reads no further than it answers."""
    with connect(both) as sock:
        sock.settimeout(2)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 << 20:
                sent += sock.send(OPTIONS * 1000)
        # What the kernel keeps on both sides, and little more.
        assert sent < 32 << 20
        sock.settimeout(60)
        assert sock.recv(9)[4] == 6
    both.connect()
    both.disconnect()


def test_many_idle_clients_are_served(both):
    idle = []
    for _ in range(300):
        sock = connect(both)
        sock.sendall(STARTUP)
        idle.append(sock)
    for sock in idle:
        assert sock.recv(100)[4] == 2
    rows = both.connect().execute("SELECT port FROM system.clients")
    assert 300 <= len(list(rows))
    both.disconnect()
    for sock in idle:
        sock.close()
