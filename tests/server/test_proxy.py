"""Ports for proxies that say where clients are, by the PROXY protocol."""
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import wire
from node import NEREID, Node, free_address

sys.path.append(str(Path(__file__).resolve().parent.parent / "tls"))
from authority import Authority  # noqa: E402 pylint: disable=wrong-import-position

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PLAIN, AWARE, SECURE, SECURE_AWARE = 29042, 39042, 29142, 39142


def header(address, port, command=0x21, family=0x11, more=b""):
    family_of = socket.AF_INET if family >> 4 == 1 else socket.AF_INET6
    block = 2 * socket.inet_pton(family_of, address) + struct.pack(">HH", port, 9042) + more
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", len(block)) + block


class Proxied(wire.Client):
    """A connection that a proxy passes on."""

    def __init__(self, node, port, said, context=None):
        plain = socket.create_connection((node.address, port), timeout=10)
        plain.sendall(said)
        self.socket = context.wrap_socket(plain) if context else plain


def clients(node):
    """(address, port, shard, encrypted) of each that `system.clients` shows."""
    rows = node.connect().execute("SELECT address, port, shard_id, ssl_enabled FROM system.clients")
    return {(str(row.address), row.port, row.shard_id, row.ssl_enabled) for row in rows}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    address = free_address()
    certificate, key = Authority(tmp_path_factory.mktemp("keys")).make("node", address)
    words = ["--native-transport-port-proxy-protocol", PLAIN,
             "--native-shard-aware-transport-port-proxy-protocol", AWARE,
             "--native-transport-port-ssl-proxy-protocol", SECURE,
             "--native-shard-aware-transport-port-ssl-proxy-protocol", SECURE_AWARE,
             "--native-transport-port-ssl", 9142, "--native-shard-aware-transport-port-ssl", 19142]
    for entry in ("enabled=true", f"certificate={certificate}", f"keyfile={key}"):
        words += ["--client-encryption-options", entry]
    with Node(*words, address=address) as started:
        yield started


def test_ports_are_told_in_the_log(node):
    log = node.log.read_text()
    for port, kind in ((PLAIN, "unencrypted, non-shard-aware, proxy protocol"),
                       (SECURE_AWARE, "encrypted, shard-aware, proxy protocol"),
                       (9042, "unencrypted, non-shard-aware")):
        assert f"CQL clients on {node.address}:{port} ({kind})" in log, log


def test_a_client_is_where_the_proxy_says(node):
    with Proxied(node, PLAIN, header("203.0.113.1", 1001)) as four, \
            Proxied(node, PLAIN, header("2001:db8::2", 1002, family=0x21)) as six, \
            Proxied(node, PLAIN, header("::ffff:203.0.113.3", 1003, family=0x21)) as mapped, \
            Proxied(node, PLAIN, header("203.0.113.4", 1004, more=b"\x04\0\x02ab")) as longer:
        for client in (four, six, mapped, longer):
            client.started()
        shown = {(address, port) for address, port, _, _ in clients(node)}
        assert shown >= {("203.0.113.1", 1001), ("2001:db8::2", 1002), ("203.0.113.3", 1003),
                         ("203.0.113.4", 1004)}


def test_its_port_chooses_the_shard(node):
    opened = [Proxied(node, AWARE, header("203.0.113.9", port)).started()
              for port in range(2000, 2006)]
    found = {(port, shard) for address, port, shard, _ in clients(node)
             if address == "203.0.113.9"}
    assert found == {(port, port % 2) for port in range(2000, 2006)}
    for client in opened:
        client.socket.close()


def test_the_header_comes_before_the_handshake(node):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for port in (SECURE, SECURE_AWARE):
        said = header("203.0.113.20", 3001)
        with Proxied(node, port, said, context) as client:
            client.started()
            shown = [row for row in clients(node) if row[0] == "203.0.113.20"]
            assert len(shown) == 1 and shown[0][1] == 3001 and shown[0][3], shown
            assert port == SECURE or shown[0][2] == 1


def test_a_proxy_may_look_whether_the_node_is_there(node):
    offset = node.log.stat().st_size
    local = SIGNATURE + b"\x20\0\0\0"
    with Proxied(node, PLAIN, local) as client:
        client.started()
        mine = client.socket.getsockname()
        assert (mine[0], mine[1]) in {(row[0], row[1]) for row in clients(node)}
    with Proxied(node, PLAIN, b""):
        pass
    assert "proxy" not in node.log.read_text()[offset:]


@pytest.mark.parametrize("said", [
    wire.startup(), b"PROXY TCP4 203.0.113.1 10.0.0.1 1 9042\r\n",
    header("203.0.113.1", 1, command=0x31), header("203.0.113.1", 1, command=0x22),
    header("203.0.113.1", 1, family=0x12), SIGNATURE + b"\x21\0\0\0",
    SIGNATURE + b"\x21\x11\0\x04abcd", SIGNATURE + b"\x21\x11\xff\xff"])
def test_what_is_no_header_is_ended(node, said):
    with Proxied(node, PLAIN, said) as client:
        assert client.answer() is None


def test_the_log_says_once_what_is_wrong(node):
    # The cases before were wrong too, and one of them was the first.
    for _ in range(20):
        with Proxied(node, PLAIN, b"PROXY TCP4 ") as client:
            assert client.answer() is None
    told = [line for line in node.log.read_text().splitlines() if "proxy 127." in line]
    assert 1 <= len(told) <= 3, told
    assert "connection closed" in told[0]


def test_a_port_is_no_port_twice():
    ran = subprocess.run([NEREID, "config", "check", "--native-transport-port-proxy-protocol",
                          "9042"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1 and "9042 is also the port of native_transport_port" in ran.stdout
