"""The maintenance socket, and the mode in which a node serves it alone."""
import os
import socket
import stat
import subprocess
import urllib.error
import urllib.request

import pytest
import wire
from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable)
from cassandra.connection import UnixSocketEndPoint
from cassandra.policies import WhiteListRoundRobinPolicy
from node import NEREID, Node

LOGIN = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer")


class Maintained(Node):
    """A node with its maintenance socket."""

    def __init__(self, *options, **facts):
        super().__init__("--maintenance-socket", "workdir", *options, **facts)
        self.socket = self.workdir / "data" / "cql.m"

    def maintain(self):
        """A session of the Python driver through the socket."""
        point = UnixSocketEndPoint(str(self.socket))
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([point]),
                                   request_timeout=60)
        cluster = Cluster([point], execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                          protocol_version=4)
        self._clusters.append(cluster)
        return cluster.connect()

    def knock(self):
        """A bare connection through the socket."""
        return wire.Client(self, path=self.socket)

    def request(self, method, path):
        url = f"http://{self.address}:10000{path}"
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()


def supported(client):
    """The body of SUPPORTED."""
    client.send(wire.frame(wire.OPTIONS))
    opcode, body = client.answer()
    assert opcode == wire.SUPPORTED
    return body


def test_who_may_open_the_file_may_do_everything():
    node = Maintained(*LOGIN, "--auth-superuser-name", "root")
    with node:
        mode = node.socket.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
        with pytest.raises(NoHostAvailable):
            node.connect()
        session = node.maintain()
        # Nobody could log in until now.
        session.execute("ALTER ROLE root WITH PASSWORD = 'x'")
        session.execute("CREATE ROLE john WITH PASSWORD = 'y' AND LOGIN = true")
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
        session.execute("INSERT INTO ks.t (k) VALUES (1)")
        assert [row.k for row in session.execute("SELECT k FROM ks.t")] == [1]
        john = node.connect(auth_provider=PlainTextAuthProvider("john", "y"))
        with pytest.raises(Unauthorized):
            john.execute("SELECT k FROM ks.t")
        root = node.connect(auth_provider=PlainTextAuthProvider("root", "x"))
        assert [row.k for row in root.execute("SELECT k FROM ks.t")] == [1]
        log = node.log.read_text()
        assert f"process {os.getpid()} of user {os.getuid()} has connected" in log, log
        node.disconnect()
        assert node.stop() == 0
        assert not node.socket.exists()


def test_drivers_are_not_told_of_shards_that_they_cannot_choose():
    with Maintained() as node:
        assert b"SCYLLA_SHARD" not in supported(node.knock())
        assert b"SCYLLA_SHARD" in supported(wire.Client(node))


def test_a_group_may_use_it():
    with Maintained("--maintenance-socket-group", os.getgid()) as node:
        found = node.socket.stat()
        assert stat.S_IMODE(found.st_mode) == 0o660 and found.st_gid == os.getgid()


def test_what_a_dead_node_left_makes_room_and_a_live_one_stays(tmp_path):
    path = tmp_path / "m"
    first = Node("--maintenance-socket", path)
    with first:
        second = Node("--maintenance-socket", path)
        with pytest.raises(RuntimeError, match="another process is listening on it"):
            second.start()
        first.kill()
        assert path.exists()
        with Node("--maintenance-socket", path) as third:
            assert path.exists()
            assert third.stop() == 0
        assert not path.exists()
        path.write_text("a file")
        with pytest.raises(RuntimeError, match="the file exists and is not a socket"):
            Node("--maintenance-socket", path).start()
        assert path.read_text() == "a file"


def test_what_shuts_clients_out_leaves_it_open():
    with Maintained() as node:
        session = node.maintain()
        node.request("DELETE", "/storage_service/native_transport")
        with pytest.raises(OSError):
            socket.create_connection((node.address, 9042), timeout=10)
        assert session.execute("SELECT key FROM system.local").one().key == "local"
        assert supported(node.knock())


def test_a_wrong_place_is_told_at_the_start():
    def refusal(*words):
        ran = subprocess.run([NEREID, "--ephemeral", *words], capture_output=True, text=True,
                             timeout=60, check=False)
        assert ran.returncode != 0
        return ran.stdout + ran.stderr
    long = "/" + "x" * 107
    assert f"{long}: 108 bytes; the path of a socket may have 107" in refusal(
        "--maintenance-socket", long)
    assert "there is no group of-nobody" in refusal(
        "--maintenance-socket", "workdir", "--maintenance-socket-group", "of-nobody")
    assert "option maintenance_mode: requires maintenance_socket" in refusal(
        "--maintenance-mode", "1")


def test_in_maintenance_mode_nothing_else_is_open():
    node = Maintained()
    with node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
        session.execute("INSERT INTO ks.t (k) VALUES (1)")
        node.disconnect()
        assert node.stop() == 0
        node.options += ["--maintenance-mode", "1"]
        node.start()
        log = node.log.read_text()
        assert "initialization completed (maintenance mode)" in log
        for port in (9042, 19042):
            with pytest.raises(OSError):
                socket.create_connection((node.address, port), timeout=10)
        assert node.request("GET", "/storage_service/operation_mode") == '"MAINTENANCE"'
        assert node.request("GET", "/storage_service/native_transport") == "false"
        with pytest.raises(urllib.error.HTTPError) as refused:
            node.request("POST", "/storage_service/native_transport")
        assert b"maintenance mode" in refused.value.read()
        session = node.maintain()
        session.execute("INSERT INTO ks.t (k) VALUES (2)")
        assert sorted(row.k for row in session.execute("SELECT k FROM ks.t")) == [1, 2]
        node.disconnect()
        assert node.stop() == 0
        node.options = node.options[:-2]
        node.start()
        rows = node.connect().execute("SELECT k FROM ks.t")
        assert sorted(row.k for row in rows) == [1, 2]
