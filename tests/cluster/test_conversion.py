"""A keyspace of the token ring is given tablets, by what operators do, with what they see, and
while clients write and read."""
import re

import pytest
from cassandra import ConsistencyLevel
from trio import Nodes, keyspace, nodetool, registers, rest, until, wait_for_driver

COUNT = 400
PATH = "/storage_service/vnode_tablet_migrations/keyspaces/vk"


@pytest.fixture(name="nodes")
def three_nodes_with_a_ring():
    with Nodes(3, "--num-tokens", "4") as nodes:
        yield nodes


def migrate(node, *words):
    """What an operator is told of what works."""
    done = nodetool(node, "migrate-to-tablets", *words)
    assert done.returncode == 0, done
    return done.stdout


def modes(node):
    """How each node stores the keyspace, and is to store it."""
    told = rest(node, PATH)
    return told["status"], sorted((it["current_mode"], it["intended_mode"])
                                  for it in told["nodes"])


def restart(nodes, node, session):
    assert node.stop() == 0
    node.start(60)
    nodes.wait_for_peers()
    wait_for_driver(session)


def fill(session):
    keyspace(session, "vk", False)
    insert = session.prepare("INSERT INTO vk.t (k, v) VALUES (?, ?)")
    insert.consistency_level = ConsistencyLevel.QUORUM
    for key in range(COUNT):
        session.execute(insert, (100_000 + key, key))


def check_rows(nodes):
    for node in nodes:
        rows = node.connect().execute("SELECT k, v FROM vk.t")
        node.disconnect()
        held = sorted((row.k, row.v) for row in rows if 100_000 <= row.k)
        assert held == [(100_000 + key, key) for key in range(COUNT)]


def refused(node, *words):
    done = nodetool(node, *words)
    assert done.returncode == 4, done
    return done.stdout + done.stderr


def test_a_keyspace_is_given_tablets_while_clients_work(nodes):
    session = nodes.connect(ConsistencyLevel.QUORUM)
    fill(session)
    assert "Status: vnodes" in migrate(nodes[0], "status", "vk")
    with registers(session, "vk.t", threads=2) as load:
        migrate(nodes[0], "start", "vk")
        assert modes(nodes[1]) == ("migrating_to_tablets", [("vnodes", "vnodes")] * 3)
        # Nobody comes or goes, and no table is made, meanwhile.
        assert "is being migrated to tablets" in refused(nodes[2], "decommission", "--force")
        with pytest.raises(Exception, match="is being migrated to tablets"):
            session.execute("CREATE TABLE vk.other (k int PRIMARY KEY)")
        for node in nodes:
            migrate(node, "upgrade")
            assert "migrating to tablets" in migrate(nodes[0], "status", "vk")
            said = refused(nodes[0], "migrate-to-tablets", "finalize", "vk")
            assert re.search("Node .* has not yet migrated table vk.t to tablets", said), said
            load.goes_on()
            restart(nodes, node, session)
            load.goes_on()
            check_rows(nodes)
        assert modes(nodes[0]) == ("migrating_to_tablets", [("tablets", "tablets")] * 3)
        migrate(nodes[0], "finalize", "vk")
        load.goes_on()
        assert modes(nodes[0]) == ("tablets", [])
        until(lambda: "convergence: complete" in migrate(nodes[1], "status", "vk",
                                                         "--with-tablet-status"), 60)
        load.goes_on()
    check_rows(nodes)
    rows = session.execute("SELECT last_token FROM system.tablets WHERE table_id = "
                           f"{next(iter(ids(session)))}")
    count = len(list(rows))
    assert count & (count - 1) == 0


def ids(session):
    rows = session.execute("SELECT id FROM system_schema.tables WHERE keyspace_name = 'vk'")
    return [row.id for row in rows]


def test_it_is_taken_back(nodes):
    session = nodes.connect(ConsistencyLevel.QUORUM)
    fill(session)
    with registers(session, "vk.t", threads=2) as load:
        migrate(nodes[0], "start", "vk")
        migrate(nodes[1], "upgrade")
        restart(nodes, nodes[1], session)
        load.goes_on()
        migrate(nodes[1], "downgrade")
        said = refused(nodes[0], "migrate-to-tablets", "finalize", "vk")
        assert "to vnodes" in said
        restart(nodes, nodes[1], session)
        load.goes_on()
        migrate(nodes[2], "finalize", "vk")
        assert modes(nodes[0]) == ("vnodes", [])
        load.goes_on()
    check_rows(nodes)
