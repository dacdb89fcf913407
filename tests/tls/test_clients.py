"""Drivers and bare connections over TLS."""
import os
import signal
import socket
import ssl
import subprocess
import time

import pytest
from authority import Authority
from cassandra.cluster import NoHostAvailable
from node import NEREID, Node, free_address


def options(certificate, key, **more):
    """`client_encryption_options` as the command line has it."""
    entries = {"enabled": "true", "certificate": certificate, "keyfile": key, **more}
    return [word for name, value in entries.items()
            for word in ("--client-encryption-options", f"{name}={value}")]


def context(authority, identity=None, version=None):
    """What a client trusts and shows."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(authority.file)
    if identity:
        made.load_cert_chain(*identity)
    if version:
        made.minimum_version = made.maximum_version = version
    return made


def connect(node, authority, identity=None, version=None):
    return node.connect(ssl_context=context(authority, identity, version),
                        ssl_options={"server_hostname": node.address})


def clients(session):
    return list(session.execute(
        "SELECT ssl_enabled, ssl_protocol, ssl_cipher_suite, port FROM system.clients"))


def shake(node, made, port=9042):
    """A bare connection whose handshake is done."""
    plain = socket.create_connection((node.address, port), timeout=10)
    return made.wrap_socket(plain, server_hostname=node.address)


def ask_options(sock):
    """The SUPPORTED that is answered to OPTIONS."""
    sock.sendall(bytes([4, 0, 0, 1, 5, 0, 0, 0, 0]))
    answer = sock.recv(1 << 16)
    assert answer[0] == 0x84 and answer[4] == 6, answer
    return answer


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(authority):
    """A node whose usual ports are encrypted; its key is a long one of RSA."""
    address = free_address()
    with Node(*options(*authority.make("node", address, bits=3072)), address=address) as node:
        yield node


def test_the_usual_ports_are_encrypted(encrypted, authority):
    log = encrypted.log.read_text()
    for port, kind in ((9042, "non-shard-aware"), (19042, "shard-aware")):
        marker = f"CQL clients on {encrypted.address}:{port} (encrypted, {kind})"
        assert marker in log, log
    assert "(unencrypted," not in log
    session = connect(encrypted, authority)
    rows = clients(session)
    assert rows and all(row.ssl_enabled and row.ssl_protocol == "TLS1.3" for row in rows), rows
    assert all(row.ssl_cipher_suite.startswith("TLS_") for row in rows), rows
    with shake(encrypted, context(authority)) as sock:
        answer = ask_options(sock)
    assert b"SCYLLA_SHARD_AWARE_PORT_SSL\x00\x01\x00\x0519042" in answer
    assert b"SCYLLA_SHARD_AWARE_PORT\x00" not in answer


def test_tls_1_2_is_spoken_and_shown(encrypted, authority):
    session = connect(encrypted, authority, version=ssl.TLSVersion.TLSv1_2)
    mine = [row for row in clients(session) if row.ssl_protocol == "TLS1.2"]
    assert mine and mine[0].ssl_cipher_suite.startswith("TLS_ECDHE_RSA_WITH_"), mine
    encrypted.disconnect()


def test_large_answers_and_requests_pass(encrypted, authority):
    session = connect(encrypted, authority)
    session.execute("CREATE KEYSPACE large WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE large.t (k int PRIMARY KEY, v blob)")
    insert = session.prepare("INSERT INTO large.t (k, v) VALUES (?, ?)")
    values = {k: os.urandom(1 << 20) for k in range(8)}
    for future in [session.execute_async(insert, item) for item in values.items()]:
        future.result()
    assert dict(session.execute("SELECT k, v FROM large.t")) == values
    session.execute("DROP KEYSPACE large")
    encrypted.disconnect()


def test_a_plain_client_is_told_that_it_is_wrong(encrypted):
    with pytest.raises(NoHostAvailable, match="ProtocolError"):
        encrypted.connect()
    encrypted.disconnect()
    with socket.create_connection((encrypted.address, 9042), timeout=10) as sock:
        sock.sendall(bytes([4, 0, 0, 1, 5, 0, 0, 0, 0]))
        answer = b"".join(iter(lambda: sock.recv(100), b""))
    # A fatal alert, and the end.
    assert answer[0] == 21 and answer[5] == 2, answer


def test_a_client_that_does_not_trust_the_node_ends(encrypted, tmp_path):
    other = Authority(tmp_path, "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(encrypted, context(other))


def test_a_session_is_resumed(encrypted, authority):
    made = context(authority)
    with shake(encrypted, made) as first:
        ask_options(first)
        assert not first.session_reused
        ticket = first.session
    plain = socket.create_connection((encrypted.address, 9042), timeout=10)
    with made.wrap_socket(plain, server_hostname=encrypted.address, session=ticket) as second:
        ask_options(second)
        assert second.session_reused


def test_a_torn_handshake_is_a_handshake(encrypted, authority):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(authority).wrap_bio(incoming, outgoing, server_hostname=encrypted.address)
    with socket.create_connection((encrypted.address, 9042), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    sock.sendall(bytes([byte]))
                incoming.write(sock.recv(1))
        client.write(bytes([4, 0, 0, 1, 5, 0, 0, 0, 0]))
        for byte in outgoing.read():
            sock.sendall(bytes([byte]))
        while True:
            try:
                answer = client.read(9)
                break
            except ssl.SSLWantReadError:
                incoming.write(sock.recv(7))
    assert answer[4] == 6, answer


def test_a_node_with_both_kinds_of_ports(authority):
    address = free_address()
    node = Node(*options(*authority.make("both", address)), "--native-transport-port-ssl", 9142,
                "--native-shard-aware-transport-port-ssl", 19142, address=address)
    with node:
        log = node.log.read_text()
        for marker in ("9042 (unencrypted, non-shard-aware)", "19042 (unencrypted, shard-aware)",
                       "9142 (encrypted, non-shard-aware)", "19142 (encrypted, shard-aware)"):
            assert f"CQL clients on {address}:{marker}" in log, log
        plain = node.connect()
        node.port = 9142
        session = connect(node, authority)
        kinds = {row.ssl_enabled for row in clients(session)}
        assert kinds == {False, True}
        assert all(row.ssl_protocol is None for row in clients(plain) if not row.ssl_enabled)
        with shake(node, context(authority), 19142) as sock:
            answer = ask_options(sock)
        assert b"SCYLLA_SHARD_AWARE_PORT\x00\x01\x00\x0519042" in answer
        assert b"SCYLLA_SHARD_AWARE_PORT_SSL\x00\x01\x00\x0519142" in answer


def test_clients_have_to_show_a_certificate(authority, tmp_path):
    address = free_address()
    node = Node(*options(*authority.make("mutual", address), truststore=authority.file,
                         require_client_auth="true"), address=address)
    with node:
        alice = authority.make("alice")
        assert clients(connect(node, authority, alice))
        mallory = Authority(tmp_path, "other").make("mallory")
        for identity in (None, mallory):
            made = context(authority, identity)
            with pytest.raises(OSError):
                with shake(node, made) as sock:
                    # The refusal comes after the client's own part of the handshake.
                    ask_options(sock)


def test_the_oldest_version_is_an_option(authority):
    address = free_address()
    node = Node(*options(*authority.make("new", address), priority_string="NORMAL:-VERS-TLS1.2"),
                address=address)
    with node:
        with shake(node, context(authority)) as sock:
            assert sock.version() == "TLSv1.3"
        with pytest.raises(ssl.SSLError, match="(?i)protocol.version"):
            shake(node, context(authority, version=ssl.TLSVersion.TLSv1_2))


def serial_of(node, authority):
    with shake(node, context(authority)) as sock:
        return sock.getpeercert()["serialNumber"]


def test_changed_files_are_used_without_a_restart(tmp_path):
    address = free_address()
    authority = Authority(tmp_path)
    identity = authority.make("node", address)
    with Node(*options(*identity), address=address) as node:
        before = serial_of(node, authority)
        session = connect(node, authority)
        # A key without its certificate is not used.
        kept = identity[0].read_bytes()
        authority.make("node", address, days=3)
        new = identity[0].read_bytes()
        identity[0].write_bytes(kept)
        offset = node.log.stat().st_size
        node.process.send_signal(signal.SIGHUP)
        told = node.wait_for_log("the old files are used", offset)
        assert "node.key: not the key of the certificate in" in told
        assert serial_of(node, authority) == before
        # Nobody says that they have changed.
        identity[0].write_bytes(new)
        told = node.wait_for_log("changed files are used", offset)
        assert serial_of(node, authority) != before
        assert "it expires in 2 days" in node.wait_for_log("expires", offset)
        # Who was connected stays.
        assert clients(session)


def refusal(*words):
    ran = subprocess.run([NEREID, "--ephemeral", *map(str, words)], capture_output=True, text=True,
                         timeout=60, check=False)
    assert ran.returncode != 0
    return ran.stdout + ran.stderr


def test_what_is_wrong_is_named(authority, tmp_path):
    certificate, key = authority.make("wrong")
    said = refusal(*options(tmp_path / "none.pem", key))
    assert "option client_encryption_options" in said and "none.pem" in said, said
    broken = tmp_path / "broken.pem"
    broken.write_bytes(certificate.read_bytes() + b"-----BEGIN CERTIFICATE-----\nAAAA\n")
    lines = len(certificate.read_text().splitlines())
    assert f"broken.pem: line {lines + 1}: a section without its END" in refusal(
        *options(broken, key))
    assert "not the key of the certificate" in refusal(
        *options(certificate, authority.make("another")[1]))
    assert "require_client_auth: needs a truststore" in refusal(
        *options(certificate, key, require_client_auth="true"))
    assert "unknown key certifcate; did you mean certificate" in refusal(
        "--client-encryption-options", "certifcate=x")


def test_options_in_the_file(authority, tmp_path):
    address = free_address()
    certificate, key = authority.make("file", address)
    path = tmp_path / "nereid.yaml"
    path.write_text("client_encryption_options:\n  enabled: true\n"
                    f"  certificate: {certificate}\n  keyfile: {key}\n"
                    "native_transport_port_ssl: 9142\n")
    with Node("--options-file", path, address=address) as node:
        with shake(node, context(authority), 9142) as sock:
            assert ask_options(sock)


def test_handshakes_that_do_not_go_on_harm_nobody(encrypted, authority):
    made = context(authority)
    idle = [socket.create_connection((encrypted.address, 9042), timeout=10) for _ in range(200)]
    for number, sock in enumerate(idle):
        sock.sendall(bytes([22, 3, 1, 2, 0])[:number % 6])
    began = time.monotonic()
    with shake(encrypted, made) as sock:
        assert ask_options(sock)
    assert time.monotonic() - began < 5
    for sock in idle:
        sock.close()
