"""The REST API and metrics over TLS, and how long their silent connections stay."""
import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request

import pytest
from authority import Authority
from node import Node, free_address


def options(name, certificate, key, **more):
    entries = {"enabled": 1, "certificate": certificate, "keyfile": key, **more}
    return [word for entry, value in entries.items() for word in (f"--{name}", f"{entry}={value}")]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(authority):
    address = free_address()
    identity = authority.make("node", address)
    node = Node(*options("api-encryption-options", *identity),
                *options("prometheus-encryption-options", *identity, truststore=authority.file,
                         require_client_auth="true"), address=address)
    with node:
        yield node


def get(node, port, path, authority, identity=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.file)
    if identity:
        context.load_cert_chain(*identity)
    url = f"https://{node.address}:{port}{path}"
    with urllib.request.urlopen(url, context=context, timeout=30) as answer:
        return answer.read().decode()


def test_the_rest_api_is_encrypted(encrypted, authority):
    assert get(encrypted, 10000, "/storage_service/hostid/local", authority).startswith('"')
    # An alert is no status line.
    with pytest.raises((http.client.HTTPException, OSError)):
        urllib.request.urlopen(f"http://{encrypted.address}:10000/", timeout=30)


def test_metrics_ask_for_a_certificate(encrypted, authority):
    scraper = authority.make("scraper")
    assert "# TYPE" in get(encrypted, 9180, "/metrics", authority, scraper)
    with pytest.raises((urllib.error.URLError, OSError)):
        get(encrypted, 9180, "/metrics", authority)


def test_cql_is_plain_meanwhile(encrypted):
    assert encrypted.connect().execute("SELECT key FROM system.local").one()
    encrypted.disconnect()


def test_silent_connections_end_and_make_room(authority):
    with Node() as node:
        silent = [socket.create_connection((node.address, 10000), timeout=60) for _ in range(200)]
        for sock in silent[::2]:
            sock.sendall(b"GET /storage_service/hostid/local HT")
        began = time.monotonic()
        with urllib.request.urlopen(f"http://{node.address}:10000/storage_service/hostid/local",
                                    timeout=60) as answer:
            assert answer.status == 200
        assert time.monotonic() - began < 5
        for sock in silent:
            try:
                assert sock.recv(1000) == b""
            except ConnectionResetError:
                pass
        assert time.monotonic() - began < 45
