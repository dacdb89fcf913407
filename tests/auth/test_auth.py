"""Logins, roles, permissions and service levels of a node that asks for passwords."""
import socket
import struct
import time

import pytest
from cassandra import InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable

from node import Node

OPTIONS = ["--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer"]


def provider(name, password):
    return PlainTextAuthProvider(username=name, password=password)


def connect(node, name, password, **facts):
    return node.connect(auth_provider=provider(name, password), **facts)


@pytest.fixture
def node():
    with Node(*OPTIONS) as node:
        yield node


@pytest.fixture(scope="module")
def open_node():
    """A node that asks for no password."""
    with Node() as node:
        yield node


def refused(node, name, password):
    with pytest.raises(NoHostAvailable) as caught:
        connect(node, name, password)
    return str(caught.value)


def test_the_first_start_makes_a_superuser_and_warns(node):
    session = connect(node, "cassandra", "cassandra")
    row = session.execute("SELECT * FROM system.roles").one()
    assert (row.role, row.can_login, row.is_superuser) == ("cassandra", True, True)
    assert row.salted_hash.startswith("$6$")
    assert "the well-known default password" in node.log.read_text()


def test_who_names_no_superuser_gets_none():
    with Node(*OPTIONS, "--auth-superuser-name", "") as node:
        wrong = "Username and/or password are incorrect"
        assert wrong in refused(node, "cassandra", "cassandra")
        assert "the well-known default password" not in node.log.read_text()
        assert "no superuser can log in" in node.log.read_text()


def test_the_keyspace_of_roles_is_not_dropped(node):
    session = connect(node, "cassandra", "cassandra")
    with pytest.raises(Unauthorized, match="Cannot DROP <keyspace system_auth>"):
        session.execute("DROP KEYSPACE system_auth")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_logins_of_all_versions(node, version):
    session = connect(node, "cassandra", "cassandra", protocol_version=version)
    # Connections of the driver that are still on their way have nobody.
    users = {row.username for row in session.execute("SELECT username FROM system.clients")}
    assert "cassandra" in users and users <= {"cassandra", "anonymous"}


def test_wrong_passwords_are_refused_and_slow(node):
    wrong = "Username and/or password are incorrect"
    assert wrong in refused(node, "cassandra", "x")
    assert wrong in refused(node, "nobody", "x")
    began = time.monotonic()
    for _ in range(5):
        assert wrong in refused(node, "cassandra", "x")
    assert 0.3 < time.monotonic() - began
    connect(node, "cassandra", "cassandra")
    with pytest.raises(NoHostAvailable):
        node.connect()


def frame(opcode, body):
    return struct.pack(">BBhBi", 4, 0, 1, opcode, len(body)) + body


STARTUP = frame(1, struct.pack(">H", 1) + b"\0\x0bCQL_VERSION\0\x053.0.0")


def receive(stream):
    """Opcode and body of an answer; none where the node has ended the connection."""
    header = stream.recv(9, socket.MSG_WAITALL)
    if len(header) < 9:
        return None, b""
    _, _, _, opcode, length = struct.unpack(">BBhBi", header)
    return opcode, stream.recv(length, socket.MSG_WAITALL) if length else b""


@pytest.mark.parametrize("opcode, body", [
    (1, STARTUP[9:]), (5, b""), (7, b"\0\0\0\x08SELECT 1\0\x01\0"), (9, b"\0\0\0\x08SELECT 1"),
    (10, b""), (11, b"\0\0"), (13, b""), (99, b"")])
def test_only_a_login_may_follow_authenticate(node, opcode, body):
    with socket.create_connection((node.address, node.port)) as stream:
        stream.sendall(STARTUP)
        assert receive(stream)[0] == 3
        stream.sendall(frame(opcode, body))
        answered, text = receive(stream)
        assert (answered, text[:4]) == (0, struct.pack(">i", 10))
        assert f"Unexpected message {opcode}, expecting SASL_RESPONSE".encode() in text


def test_a_token_may_lack_its_length(node):
    for body, expected in [(b"\0cassandra\0cassandra", 16), (b"\0cassandra\0wrong", 0)]:
        with socket.create_connection((node.address, node.port)) as stream:
            stream.sendall(STARTUP)
            receive(stream)
            stream.sendall(frame(15, body))
            assert receive(stream)[0] == expected


def test_nothing_is_answered_before_the_login(node):
    startup, query = STARTUP, b"SELECT * FROM system.local"
    query = frame(7, struct.pack(">i", len(query)) + query + b"\0\x01\0")
    token = b"\0cassandra\0wrong"
    login = frame(15, struct.pack(">i", len(token)) + token)
    with socket.create_connection((node.address, node.port)) as stream:
        stream.sendall(startup)
        opcode, body = receive(stream)
        assert (opcode, body[2:]) == (3, b"org.apache.cassandra.auth.PasswordAuthenticator")
        stream.sendall(query)
        assert receive(stream)[0] == 0
    with socket.create_connection((node.address, node.port)) as stream:
        stream.sendall(startup)
        receive(stream)
        # A login under way lets nothing pass, nor does one that failed.
        stream.sendall(login + query)
        opcode, _ = receive(stream)
        assert opcode == 0
        stream.sendall(login)
    for malformed in [b"", b"\xff" * 20, struct.pack(">i", 3) + b"a\0b", struct.pack(">i", 99)]:
        with socket.create_connection((node.address, node.port)) as stream:
            stream.sendall(startup)
            receive(stream)
            stream.sendall(frame(15, malformed))
            assert receive(stream)[0] == 0
    connect(node, "cassandra", "cassandra")


def test_roles_and_grants_survive_kills(node):
    root = connect(node, "cassandra", "cassandra")
    root.execute("CREATE KEYSPACE ks WITH replication = "
                 "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
    root.execute("CREATE TABLE ks.t (p int PRIMARY KEY)")
    root.execute("CREATE ROLE reader WITH PASSWORD = 'r' AND LOGIN = true "
                 "AND OPTIONS = {'a': 'b'}")
    root.execute("CREATE ROLE readers")
    root.execute("GRANT SELECT ON ks.t TO readers")
    root.execute("GRANT readers TO reader")
    root.execute("CREATE SERVICE LEVEL gold WITH shares = 10 AND timeout = 30s")
    root.execute("ATTACH SERVICE LEVEL gold TO reader")
    node.disconnect()
    node.kill()
    node.start()
    reader = connect(node, "reader", "r")
    insert = reader.prepare("INSERT INTO ks.t (p) VALUES (?)")
    select = reader.prepare("SELECT * FROM ks.t")
    assert list(reader.execute(select)) == []
    with pytest.raises(Unauthorized):
        reader.execute(insert, [1])
    root = connect(node, "cassandra", "cassandra")
    granted = [tuple(row) for row in root.execute("LIST ALL PERMISSIONS OF reader")]
    assert granted == [("readers", "readers", "<table ks.t>", "SELECT")]
    level = root.execute("LIST ATTACHED SERVICE LEVEL OF reader").one()
    assert tuple(level) == ("reader", "gold")
    # Changes hold at once, for sessions that are open too.
    root.execute("GRANT MODIFY ON KEYSPACE ks TO reader")
    reader.execute(insert, [1])
    root.execute("REVOKE readers FROM reader")
    with pytest.raises(Unauthorized):
        reader.execute(select)
    root.execute("DROP ROLE reader")
    with pytest.raises(Unauthorized):
        reader.execute(insert, [2])


def test_circles_and_unknown_names(node):
    root = connect(node, "cassandra", "cassandra")
    root.execute("CREATE ROLE a")
    root.execute("CREATE ROLE b")
    root.execute("GRANT a TO b")
    for text, expected in [("GRANT b TO a", "b already includes role a"),
                           ("GRANT a TO x", "Role x doesn't exist"),
                           ("CREATE ROLE a", "Role a already exists"),
                           ("GRANT SELECT ON KEYSPACE x TO a", "<keyspace x> doesn't exist")]:
        with pytest.raises(InvalidRequest, match=expected):
            root.execute(text)


def test_what_is_no_hash_is_kept_and_lets_nobody_in(node):
    root = connect(node, "cassandra", "cassandra")
    answer = root.execute_async("CREATE ROLE c WITH HASHED PASSWORD = 'x' AND LOGIN = true")
    answer.result()
    assert "nobody can log in with it" in answer.warnings[0]
    assert "Username and/or password are incorrect" in refused(node, "c", "x")
    assert root.execute("SELECT salted_hash FROM system.roles WHERE role = 'c'").one()[0] == "x"


def test_a_description_makes_roles_and_grants_again(node):
    root = connect(node, "cassandra", "cassandra")
    for text in ["CREATE KEYSPACE ks WITH replication = "
                 "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
                 "CREATE TABLE ks.t (p int PRIMARY KEY)",
                 "CREATE ROLE reader WITH PASSWORD = 'it''s' AND LOGIN = true",
                 "CREATE ROLE \"All Readers\" WITH OPTIONS = {'a': 'b'}",
                 "GRANT SELECT ON ks.t TO \"All Readers\"", "GRANT \"All Readers\" TO reader",
                 "CREATE SERVICE LEVEL gold WITH timeout = 90s AND workload_type = 'batch'",
                 "ATTACH SERVICE LEVEL gold TO reader",
                 "ALTER SERVICE LEVEL driver WITH shares = 100"]:
        root.execute(text)
    describe = "DESC SCHEMA WITH INTERNALS AND PASSWORDS"
    told = [tuple(row) for row in root.execute(describe)]
    with Node(*OPTIONS) as other:
        again = connect(other, "cassandra", "cassandra")
        for *_, statement in told:
            again.execute(statement)
        own = lambda rows: [row for row in rows if row[2] != "cassandra"]
        assert own(tuple(row) for row in again.execute(describe)) == own(told)
        assert list(connect(other, "reader", "it's").execute("SELECT * FROM ks.t")) == []
    reader = connect(node, "reader", "it's")
    with pytest.raises(Unauthorized):
        reader.execute(describe)
    hashes = [row for row in reader.execute("DESC SCHEMA WITH INTERNALS")
              if "PASSWORD" in row.create_statement]
    assert hashes == []


def test_the_level_of_drivers_is_made_once(node):
    root = connect(node, "cassandra", "cassandra")
    level = root.execute("LIST SERVICE LEVEL driver").one()
    assert (level.workload_type, level.shares) == ("batch", 200)
    root.execute("DROP SERVICE LEVEL driver")
    node.disconnect()
    node.kill()
    node.start()
    root = connect(node, "cassandra", "cassandra")
    assert list(root.execute("LIST ALL SERVICE LEVELS")) == []


def test_passwords_are_not_written_down(node):
    root = connect(node, "cassandra", "cassandra")
    text = "CREATE ROLE hidden WITH PASSWORD = 'do not tell' AND LOGIN = true"
    trace = root.execute(text, trace=True).get_query_trace(max_wait_sec=10)
    assert "do not tell" not in str(trace.parameters)
    assert "hidden" in str(trace.parameters)
    assert "do not tell" not in node.log.read_text()


@pytest.mark.parametrize("statement", [
    "CREATE ROLE r", "ALTER ROLE r WITH LOGIN = true", "DROP ROLE r", "LIST ROLES",
    "CREATE USER u WITH PASSWORD 'p'", "LIST USERS", "GRANT r TO s", "REVOKE r FROM s",
    "GRANT SELECT ON KEYSPACE system TO r", "REVOKE SELECT ON KEYSPACE system FROM r",
    "LIST ALL PERMISSIONS",
])
def test_roles_are_for_those_who_are_logged_in(open_node, statement):
    with pytest.raises(Unauthorized, match="You have to be logged in"):
        open_node.connect().execute(statement)
