"""Logins by certificate."""
import json
import socket
import ssl
import subprocess

import pytest
from authority import Authority
from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable
from node import NEREID, Node, free_address

CERTIFICATE = "com.scylladb.auth.CertificateAuthenticator"
EITHER = "com.scylladb.auth.CertificateOrPasswordAuthenticator"
SUBJECT = {"source": "SUBJECT", "query": "CN=([^,]+)"}


def options(identity, authority, authenticator=CERTIFICATE, client_auth="true", queries=None):
    """The command line of a node that lets certificates in, with the superuser root."""
    certificate, key = identity
    entries = {"enabled": "true", "certificate": certificate, "keyfile": key,
               "truststore": authority.file, "require_client_auth": client_auth}
    words = [word for name, value in entries.items()
             for word in ("--client-encryption-options", f"{name}={value}")]
    if queries:
        words += ["--auth-certificate-role-queries", json.dumps(queries)]
    return [*words, "--authenticator", authenticator, "--authorizer", "CassandraAuthorizer",
            "--auth-superuser-name", "root"]


class Certified(Node):
    """A node whose clients log in by certificates of one authority."""

    def __init__(self, authority, *more, **facts):
        address = free_address()
        self.authority = authority
        identity = authority.make("node", address)
        super().__init__(*options(identity, authority, **facts), *more, address=address)

    def enter(self, name=None, **facts):
        """A session of who shows a certificate of that name, or none."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.load_verify_locations(self.authority.file)
        if name:
            made.load_cert_chain(*self.authority.make(name, **facts.pop("certificate", {})))
        return self.connect(ssl_context=made, ssl_options={"server_hostname": self.address},
                            **facts)

    def refusal(self, *names, **facts):
        with pytest.raises(NoHostAvailable) as refused:
            self.enter(*names, **facts)
        return str(refused.value)


def users(session):
    rows = session.execute("SELECT username FROM system.clients")
    return {row.username for row in rows}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certified(authority):
    with Certified(authority) as node:
        root = node.enter("root")
        root.execute("CREATE ROLE alice WITH LOGIN = true")
        root.execute("CREATE ROLE idle WITH LOGIN = false")
        root.execute("CREATE KEYSPACE ks WITH replication = "
                     "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        root.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
        yield node


def test_a_certificate_is_its_role(certified):
    alice = certified.enter("alice")
    assert users(certified.enter("root")) >= {"alice", "root"}
    with pytest.raises(Unauthorized, match="alice has no SELECT permission"):
        alice.execute("SELECT k FROM ks.t")
    certified.enter("root").execute("GRANT SELECT ON ks.t TO alice")
    assert not list(alice.execute("SELECT k FROM ks.t"))


def test_who_has_no_role_or_may_not_log_in_is_told_so(certified):
    said = certified.refusal("bob")
    assert "Role bob, which the certificate names, does not exist" in said, said
    said = certified.refusal("idle")
    assert "idle is not permitted to log in" in said, said
    log = certified.log.read_text()
    assert "login failed: Role bob, which the certificate names, does not exist" in log


def test_one_attribute_does_not_pass_for_another(certified):
    said = certified.refusal("bob", certificate={"organization": "x, CN=root"})
    assert "Role bob, which the certificate names, does not exist" in said, said


def test_a_resumed_session_is_the_same_role(certified, authority):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(authority.file)
    made.load_cert_chain(*authority.make("alice"))
    startup = bytes([4, 0, 0, 1, 1, 0, 0, 0, 22]) + b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"
    session = None
    for _ in range(2):
        plain = socket.create_connection((certified.address, 9042), timeout=10)
        with made.wrap_socket(plain, server_hostname=certified.address, session=session) as sock:
            sock.sendall(startup)
            answer = sock.recv(100)
            assert answer[4] == 2, answer
            assert sock.session_reused == (session is not None)
            session = sock.session


def test_without_a_certificate_nobody_is_let_in(authority):
    node = Certified(authority, "--native-transport-port-ssl", 9142, client_auth="optional")
    with node:
        with pytest.raises(NoHostAvailable) as refused:
            node.connect(auth_provider=PlainTextAuthProvider("root", "x"))
        assert "the client presented none" in str(refused.value)
        node.port = 9142
        said = node.refusal()
        assert "authenticates by certificate, and the client presented none" in said, said
        assert "root" in users(node.enter("root"))


def test_alternative_names_name_roles_too(authority):
    queries = [{"source": "ALTNAME", "query": "^DNS=([^.]+)[.]ops[.]example[.]com$"}]
    with Certified(authority, queries=queries) as node:
        session = node.enter("x", certificate={"hosts": ["y.example.com", "root.ops.example.com"]})
        assert "root" in users(session)
        said = node.refusal("root", certificate={"hosts": ["root.example.com"]})
        assert "No query of auth_certificate_role_queries finds a role in subject" in said, said
        assert "CN=root,O=Tests" in said and "DNS=root.example.com" in said, said


def test_who_shows_none_may_have_a_password(authority):
    node = Certified(authority, authenticator=EITHER, client_auth="optional", queries=[SUBJECT])
    with node:
        root = node.enter("root")
        root.execute("ALTER ROLE root WITH PASSWORD = 'x'")
        session = node.enter(auth_provider=PlainTextAuthProvider("root", "x"))
        assert "root" in users(session)
        said = node.refusal(auth_provider=PlainTextAuthProvider("root", "y"))
        assert "Username and/or password are incorrect" in said, said
        # A certificate that names nobody is not made good by a password.
        said = node.refusal("bob", auth_provider=PlainTextAuthProvider("root", "x"))
        assert "Role bob" in said, said


def test_what_cannot_be_is_told_before_the_start(authority):
    def check(words):
        ran = subprocess.run([NEREID, "config", "check", *map(str, words)], capture_output=True,
                             text=True, timeout=60, check=False)
        assert ran.returncode == 1, ran
        return ran.stdout
    identity = authority.make("checked")
    good = options(identity, authority)
    assert "needs client_encryption_options with enabled" in check(
        ["--authenticator", CERTIFICATE])
    assert "needs require_client_auth in client_encryption_options" in check(
        options(identity, authority, client_auth="false"))
    for query, expected in (("CN=.*", "0 groups in parentheses"), ("CN=(", "CN=(: ")):
        queries = [{"source": "SUBJECT", "query": query}]
        assert expected in check(options(identity, authority, queries=queries))
    ran = subprocess.run([NEREID, "config", "check", *map(str, good)], capture_output=True,
                         text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout
