"""Service levels of a node that asks for passwords: where requests run, and who sees it."""
import json
import re
import urllib.request

import pytest
from cassandra import InvalidRequest
from cassandra.auth import PlainTextAuthProvider

from node import Node

OPTIONS = ["--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer"]
NAMES = ["web", "spark"]


def connect(node, name):
    provider = PlainTextAuthProvider(username=name, password=name)
    return node.connect(auth_provider=provider)


@pytest.fixture(scope="module")
def node():
    with Node(*OPTIONS) as node:
        yield node


@pytest.fixture(scope="module")
def root(node):
    root = connect(node, "cassandra")
    root.execute("CREATE KEYSPACE ks WITH replication = "
                 "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
    root.execute("CREATE TABLE ks.t (p int PRIMARY KEY)")
    for name in NAMES:
        root.execute(f"CREATE ROLE {name} WITH PASSWORD = '{name}' AND LOGIN = true")
        root.execute(f"GRANT SELECT ON ks.t TO {name}")
    return root


def ask(node, path, method="GET"):
    request = urllib.request.Request(f"http://{node.address}:10000{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or "null")


def metrics(node, name):
    """Values of a family by scheduling group, of all shards."""
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics",
                                timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for labels, value in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.M):
        group = re.search(r'group(?:_name)?="([^"]*)"', labels).group(1)
        found[group] = found.get(group, 0) + float(value)
    return found


def groups_of(root, user):
    rows = root.execute("SELECT username, scheduling_group FROM system.clients")
    return {row.scheduling_group for row in rows if row.username == user}


def load(session, count=20):
    for p in range(count):
        session.execute("SELECT * FROM ks.t WHERE p = %s", [p])


def test_requests_run_in_the_group_of_their_level(node, root):
    web = connect(node, "web")
    load(web)
    assert "sl:default" in groups_of(root, "web")
    root.execute("CREATE SERVICE LEVEL oltp WITH shares = 800")
    root.execute("ATTACH SERVICE LEVEL oltp TO web")
    # Open connections move; that by which the driver looks after itself stays the driver's.
    assert groups_of(root, "web") <= {"sl:oltp", "sl:driver"}
    before = metrics(node, "scylla_transport_cql_requests_count")
    # A connection that has loaded nothing yet is the driver's for one request more.
    load(web, 40)
    after = metrics(node, "scylla_transport_cql_requests_count")
    assert before.get("sl:oltp", 0) + 20 <= after["sl:oltp"]
    assert 0 < metrics(node, "scylla_scheduler_tasks_processed")["sl:oltp"]
    assert metrics(node, "scylla_scheduler_shares")["sl:oltp"] == 2 * 800
    root.execute("ALTER SERVICE LEVEL oltp WITH shares = 30")
    assert metrics(node, "scylla_scheduler_shares")["sl:oltp"] == 2 * 30
    assert ask(node, "/service_levels/switch_tenants", "POST") is None
    assert ask(node, "/authorization_cache/reset", "POST") is None
    counted = ask(node, "/service_levels/count_connections")
    assert 0 < counted["sl:oltp"]["web"]
    listed = {}
    for row in root.execute("SELECT username, scheduling_group FROM system.clients"):
        users = listed.setdefault(row.scheduling_group, {})
        users[row.username] = users.get(row.username, 0) + 1
    assert ask(node, "/service_levels/count_connections") == listed
    root.execute("DROP SERVICE LEVEL oltp")
    assert groups_of(root, "web") <= {"sl:default", "sl:driver"}
    assert "sl:oltp" not in metrics(node, "scylla_scheduler_shares")
    load(web)


def test_the_level_of_drivers(node, root):
    names = {row.service_level: row.shares for row in root.execute("LIST ALL SERVICE LEVELS")}
    assert names == {"driver": 200}
    assert metrics(node, "scylla_scheduler_shares")["sl:driver"] == 2 * 200
    spark = connect(node, "spark")
    spark.execute("SELECT key FROM system.local")
    assert groups_of(root, "spark") == {"sl:driver"}
    load(spark)
    assert "sl:default" in groups_of(root, "spark")


def test_there_are_only_so_many(node, root):
    try:
        for index in range(8):
            root.execute(f"CREATE SERVICE LEVEL many{index}")
        with pytest.raises(InvalidRequest, match="no more scheduling groups exist"):
            root.execute("CREATE SERVICE LEVEL more")
        shares = metrics(node, "scylla_scheduler_shares")
        assert {name for name in shares if name.startswith("sl:many")} == {
            f"sl:many{index}" for index in range(8)}
    finally:
        for index in range(8):
            root.execute(f"DROP SERVICE LEVEL IF EXISTS many{index}")


def test_levels_are_there_after_a_restart(node, root):
    root.execute("CREATE SERVICE LEVEL olap WITH shares = 77 AND workload_type = 'batch'")
    root.execute("ATTACH SERVICE LEVEL olap TO spark")
    node.disconnect()
    node.kill()
    node.start()
    assert metrics(node, "scylla_scheduler_shares")["sl:olap"] == 2 * 77
    spark = connect(node, "spark")
    load(spark)
    assert "sl:olap" in groups_of(connect(node, "cassandra"), "spark")
