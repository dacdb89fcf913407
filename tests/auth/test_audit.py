"""The audit log of a node: rows of audit.audit_log, and datagrams to a logger."""
import datetime
import json
import re
import socket
import time

import pytest
from cassandra import InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable)
from cassandra.connection import UnixSocketEndPoint
from cassandra.policies import WhiteListRoundRobinPolicy

from node import Node

LOGINS = ["--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer"]
KEYSPACE = ("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = "
            "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
LINE = re.compile(r'^<13>[A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d scylla-audit\[\d+\]: '
                  r'node="(?P<node>.*)", category="(?P<category>.*)", cl="(?P<cl>.*)", '
                  r'error="(?P<error>.*)", keyspace="(?P<keyspace>.*)", query="(?P<query>.*)", '
                  r'client_ip="(?P<client>.*)", table="(?P<table>.*)", username="(?P<user>.*)"$')


def connect(node, name="cassandra", password="cassandra"):
    return node.connect(auth_provider=PlainTextAuthProvider(username=name, password=password))


def eventually(seen, seconds=20):
    """What `seen` says, when it says something: each look asks the node."""
    deadline = time.monotonic() + seconds
    while True:
        found = seen()
        if found or deadline < time.monotonic():
            return found


def rows(session):
    return list(session.execute("SELECT * FROM audit.audit_log"))


def refused_login(node, name):
    with pytest.raises(NoHostAvailable):
        connect(node, name, "wrong")


@pytest.fixture
def logger(tmp_path):
    """A socket as syslog has it, and its path."""
    path = str(tmp_path / "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(20)
        yield receiver, path


def test_the_table_has_what_was_asked_for():
    options = ["--audit", "table", "--audit-categories", "DCL,DDL,AUTH,DML,QUERY,ADMIN",
               "--audit-keyspaces", "ks"]
    with Node(*LOGINS, *options) as node:
        root = connect(node)
        root.execute(KEYSPACE)
        root.execute("CREATE TABLE ks.t (p int PRIMARY KEY)")
        insert = root.prepare("INSERT INTO ks.t (p) VALUES (?)")
        root.execute(insert, [1])
        root.execute("SELECT * FROM ks.t")
        root.execute("SELECT * FROM system.roles")
        root.execute("CREATE ROLE r WITH PASSWORD = 'it''s secret' AND LOGIN = true")
        root.execute("CREATE SERVICE LEVEL gold")
        with pytest.raises(InvalidRequest):
            root.execute("GRANT SELECT ON ks.t TO nobody")
        refused_login(node, "stranger")
        reader = connect(node, "r", "it's secret")
        with pytest.raises(Unauthorized):
            reader.execute("TRUNCATE ks.t")
        expected = [
            ("AUTH", "", "", "cassandra", False, "LOGIN", ""),
            ("DDL", "ks", "", "cassandra", False, KEYSPACE, "LOCAL_ONE"),
            ("DDL", "ks", "t", "cassandra", False, "CREATE TABLE ks.t (p int PRIMARY KEY)",
             "LOCAL_ONE"),
            ("DML", "ks", "t", "cassandra", False, "INSERT INTO ks.t (p) VALUES (?)", "LOCAL_ONE"),
            ("QUERY", "ks", "t", "cassandra", False, "SELECT * FROM ks.t", "LOCAL_ONE"),
            ("DCL", "", "", "cassandra", False,
             "CREATE ROLE r WITH PASSWORD = '***' AND LOGIN = true", "LOCAL_ONE"),
            ("ADMIN", "", "", "cassandra", False, "CREATE SERVICE LEVEL gold", "LOCAL_ONE"),
            ("DCL", "", "", "cassandra", True, "GRANT SELECT ON ks.t TO nobody", "LOCAL_ONE"),
            ("AUTH", "", "", "stranger", True, "LOGIN", ""),
            ("AUTH", "", "", "r", False, "LOGIN", ""),
            ("DML", "ks", "t", "r", True, "TRUNCATE ks.t", "LOCAL_ONE"),
        ]

        def seen():
            found = {(row.category, row.keyspace_name, row.table_name, row.username, row.error,
                      row.operation, row.consistency) for row in rows(root)}
            return found if found.issuperset(expected) else None

        found = eventually(seen)
        # Nothing of other keyspaces, and each driver asks for roles and tables of the system.
        assert {row[1] for row in found} == {"", "ks"}
        one = rows(root)[0]
        assert (one.node, one.source) == (node.address, "127.0.0.1")
        today = datetime.datetime.now(datetime.timezone.utc).date()
        assert today - one.date.date() <= datetime.timedelta(days=1)
        assert "it''s secret" not in node.log.read_text()


def test_rows_are_there_after_a_stop():
    with Node("--audit", "table", "--audit-categories", "DCL", *LOGINS) as node:
        root = connect(node)
        for number in range(50):
            root.execute(f"CREATE ROLE r{number}")
        node.disconnect()
        assert node.stop() == 0
        node.start()
        found = [row.operation for row in rows(connect(node))]
        assert sorted(found) == sorted(f"CREATE ROLE r{number}" for number in range(50))


def test_what_is_written_down_changes_while_the_node_runs():
    with Node("--audit", "table", "--audit-categories", "DML", "--audit-tables", "ks.t") as node:
        session = node.connect()
        session.execute(KEYSPACE)
        for table in ["t", "u"]:
            session.execute(f"CREATE TABLE ks.{table} (p int PRIMARY KEY)")
            session.execute(f"INSERT INTO ks.{table} (p) VALUES (1)")

        def tables():
            return sorted(row.table_name for row in rows(session))

        assert eventually(lambda: tables() == ["t"])
        change = "UPDATE system.config SET value = '{}' WHERE name = '{}'"
        session.execute(change.format("ks", "audit_keyspaces"))
        session.execute("INSERT INTO ks.u (p) VALUES (2)")
        assert eventually(lambda: tables() == ["t", "u"])
        for name, value in [("audit_categories", "NONSENSE"), ("audit_tables", "t")]:
            with pytest.raises(Exception, match=value):
                session.execute(change.format(value, name))


def rule(sinks, categories, tables, roles):
    return {"sinks": sinks, "categories": categories, "qualified_table_names": tables, "roles": roles}


def test_rules_say_what_is_written_down_of_whom():
    rules = [rule(["table"], ["DML", "QUERY"], ["ks.@(t|u)", "logs.*"], ["admin_*"]),
             rule(["table"], ["AUTH"], [], ["!(cassandra)"])]
    options = ["--audit", "table", "--audit-categories", "", "--audit-rules", json.dumps(rules)]
    with Node(*LOGINS, *options) as node:
        root = connect(node)
        root.execute(KEYSPACE)
        for table in ["t", "u", "v"]:
            root.execute(f"CREATE TABLE ks.{table} (p int PRIMARY KEY)")
        for name in ["admin_a", "reader"]:
            root.execute(f"CREATE ROLE {name} WITH PASSWORD = 'x' AND LOGIN = true")
            root.execute(f"GRANT ALL ON ALL KEYSPACES TO {name}")
        by = {name: connect(node, name, "x") for name in ["admin_a", "reader"]}
        by["cassandra"] = root
        for name, session in by.items():
            for table in ["t", "u", "v"]:
                session.execute(f"INSERT INTO ks.{table} (p) VALUES (1) -- {name}")
        by["admin_a"].execute("SELECT * FROM ks.u")
        expected = {("DML", "t", "admin_a"), ("DML", "u", "admin_a"), ("QUERY", "u", "admin_a"),
                    ("AUTH", "", "admin_a"), ("AUTH", "", "reader")}

        def seen():
            return {(row.category, row.table_name, row.username) for row in rows(root)}

        assert eventually(lambda: seen() == expected), seen()
        # What changes holds at once, and what is wrong changes nothing.
        change = "UPDATE system.config SET value = %s WHERE name = 'audit_rules'"
        root.execute(change, [json.dumps([rule(["table"], ["DML"], ["ks.v"], ["reader"])])])
        for name, session in by.items():
            for table in ["t", "v"]:
                session.execute(f"INSERT INTO ks.{table} (p) VALUES (2)")
        assert eventually(lambda: seen() == expected | {("DML", "v", "reader")}), seen()
        bad = [rule(["table"], ["DML"], ["ks.v"], ["reader"]), rule(["table"], ["NONSENSE"], [], [])]
        with pytest.raises(Exception, match="rule 2: categories: NONSENSE is none of"):
            root.execute(change, [json.dumps(bad)])
        shown, = root.execute("SELECT value FROM system.config WHERE name = 'audit_rules'")
        assert json.loads(shown.value) == bad[:1]


def test_rules_have_their_own_sinks(logger):
    receiver, path = logger
    rules = [rule(["syslog"], ["DDL"], ["ks.*"], ["*"]), rule(["table"], ["DML"], ["ks.t"], ["*"])]
    options = ["--audit", "syslog,table", "--audit-categories", "", "--audit-unix-socket-path", path,
               "--audit-rules", json.dumps(rules)]
    with Node(*options) as node:
        session = node.connect()
        session.execute(KEYSPACE)
        session.execute("CREATE TABLE ks.t (p int PRIMARY KEY)")
        session.execute("INSERT INTO ks.t (p) VALUES (1)")
        lines = [LINE.match(receiver.recv(65536).decode()) for _ in range(2)]
        assert [line.group("category", "keyspace", "table") for line in lines] == [
            ("DDL", "ks", ""), ("DDL", "ks", "t")]
        assert eventually(lambda: [row.category for row in rows(session)] == ["DML"])


def test_a_rule_that_asks_for_a_sink_in_vain_is_told():
    rules = [rule(["table"], ["DML"], ["ks.*"], ["*"]), rule(["table", "syslog"], ["DDL"], [], ["*"])]
    with Node("--audit", "table", "--audit-rules", json.dumps(rules)) as node:
        assert "rule 2 of audit_rules names the sink syslog" in node.wait_for_log("nothing is written there")


def test_what_comes_through_the_maintenance_socket_is_written_down():
    options = ["--audit", "table", "--audit-categories", "DCL", "--maintenance-socket", "workdir"]
    with Node(*LOGINS, *options) as node:
        point = UnixSocketEndPoint(str(node.workdir / "data" / "cql.m"))
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([point]))
        with Cluster([point], execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                     protocol_version=4) as cluster:
            session = cluster.connect()
            session.execute("CREATE ROLE first WITH PASSWORD = 'secret'")
            row, = eventually(lambda: rows(session))
        assert (row.operation, row.username, row.source, row.error) == (
            "CREATE ROLE first WITH PASSWORD = '***'", "anonymous", None, False)


def test_syslog_is_told(logger):
    receiver, path = logger
    options = ["--audit", "syslog", "--audit-categories", "AUTH,DDL", "--audit-keyspaces", "ks",
               "--audit-unix-socket-path", path]
    with Node(*LOGINS, *options) as node:
        refused_login(node, 'a"b')
        line = LINE.match(receiver.recv(65536).decode())
        assert line and line.group("category", "error", "user", "query", "client", "node") == (
            "AUTH", "true", 'a\\"b', "LOGIN", "127.0.0.1", node.address)
        root = connect(node)
        root.execute(KEYSPACE)
        found = None
        while not found or found.group("category") != "DDL":
            found = LINE.match(receiver.recv(65536).decode())
            assert found
        assert found.group("error", "user", "keyspace", "table") == (
            "false", "cassandra", "ks", "")
        # There is no table.
        with pytest.raises(InvalidRequest):
            root.execute("SELECT * FROM audit.audit_log")


def test_a_logger_that_is_not_there_is_told_in_the_log(tmp_path):
    options = ["--audit", "syslog", "--audit-categories", "DDL", "--audit-keyspaces", "ks",
               "--audit-unix-socket-path", str(tmp_path / "none")]
    with Node(*options) as node:
        node.connect().execute(KEYSPACE)
        assert 'keyspace="ks"' in node.wait_for_log("cannot write to syslog")


def test_a_logger_that_does_not_read_holds_nobody_up(logger):
    _, path = logger
    options = ["--audit", "syslog", "--audit-categories", "DML", "--audit-keyspaces", "ks",
               "--audit-unix-socket-path", path, "--audit-syslog-write-buffer-size", "20000"]
    with Node(*options) as node:
        session = node.connect()
        session.execute(KEYSPACE)
        session.execute("CREATE TABLE ks.t (p int PRIMARY KEY)")
        insert = session.prepare("INSERT INTO ks.t (p) VALUES (?)")
        pending = [session.execute_async(insert, [number]) for number in range(2000)]
        for answer in pending:
            answer.result()
        node.wait_for_log("events for syslog are dropped")


@pytest.mark.parametrize("option, value, text", [
    ("--audit-categories", "DDL,NONSENSE", "NONSENSE is none of"),
    ("--audit-tables", "t", "t is not the name of a table"),
    ("--audit-rules", '[{"sinks": ["file"]}]', "rule 1: sinks: file is none of table, syslog"),
    ("--audit", "file", "file")])
def test_nonsense_is_refused_at_the_start(option, value, text):
    node = Node(option, value)
    with pytest.raises(Exception):
        node.start()
    assert text in node.log.read_text()
    node.kill()
