"""Which nodes have data: those with tokens, and in which racks; what a page is of."""
import re
import subprocess
from unittest.mock import patch

import pytest
from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.cluster import ControlConnection
from cassandra.protocol import ConfigurationException
from cassandra.query import SimpleStatement
from node import NEREID, Node, free_address
from trio import Nodes, keyspace, until

ALL = ConsistencyLevel.ALL


def status(node):
    done = subprocess.run([NEREID, "nodetool", "-h", node.address, "status"],
                          capture_output=True, text=True, check=True)
    return {line.split()[1]: line.split() for line in done.stdout.splitlines()
            if line[:2] in ("UN", "DN")}


def wait_for(nodes):
    """Until each of them thinks all alive."""
    for node in nodes:
        until(lambda n=node: sum(line[0] == "UN" for line in status(n).values()) == len(nodes))


@pytest.fixture(name="all_peers")
def driver_that_takes_all_nodes():
    """The driver takes no node without tokens for a coordinator by itself."""
    with patch.object(ControlConnection, "_is_valid_peer", staticmethod(lambda row: True)):
        yield


@pytest.mark.usefixtures("all_peers")
def test_a_node_without_tokens_coordinates_and_keeps_nothing():
    none = "--join-ring", "false"
    with pytest.raises(RuntimeError, match="first node in the cluster as zero-token"):
        Node("--smp", "1", *none).start()
    with Node("--smp", "1") as first:
        seeds = "--seeds", first.address, "--smp", "1"
        with Node(*seeds, *none) as bare, Node(*seeds) as third:
            nodes = [first, bare, third]
            wait_for(nodes)
            for node in nodes:
                tokens = {address: line[4] for address, line in status(node).items()}
                assert tokens == {first.address: "1", bare.address: "0", third.address: "1"}
            session = bare.connect()
            names = {"tablets": (True, 2), "ring": (False, 2)}
            for name, (tablets, copies) in names.items():
                keyspace(session, name, tablets, copies)
            session.execute("CREATE KEYSPACE wide WITH replication = {'class': "
                            "'EverywhereStrategy'} AND tablets = {'enabled': false}")
            session.execute("CREATE TABLE wide.t (k int PRIMARY KEY, v int)")
            session.execute("CREATE KEYSPACE three WITH replication = {'class': "
                            "'NetworkTopologyStrategy', 'replication_factor': 3} "
                            "AND tablets = {'enabled': true}")
            with pytest.raises(ConfigurationException, match="enough token-owning nodes"):
                session.execute("CREATE TABLE three.t (k int PRIMARY KEY)")
            names["wide"] = None
            coordinators = session, third.connect()
            for name in names:
                for number in range(40):
                    text = f"INSERT INTO {name}.t (k, v) VALUES ({number}, {number})"
                    coordinators[number % 2].execute(SimpleStatement(text, consistency_level=ALL))
            # A node that needs no data comes at any time.
            with Node(*seeds, *none) as late:
                wait_for([*nodes, late])
                text = SimpleStatement("SELECT k FROM tablets.t", consistency_level=ALL)
                assert {row.k for row in late.connect().execute(text)} == set(range(40))
                session.execute("CREATE TABLE ring.late (k int PRIMARY KEY)")
                late.connect().execute("INSERT INTO ring.late (k) VALUES (1)")
                late.stop()
                # Nor is it needed to empty a table.
                session.execute("TRUNCATE ring.late")
                assert not session.execute("SELECT k FROM ring.late").one()
            # What it does not have, nobody misses.
            assert bare.stop() == 0
            other = first.connect()
            for name in names:
                text = SimpleStatement(f"SELECT k FROM {name}.t", consistency_level=ALL)
                assert {row.k for row in other.execute(text)} == set(range(40))
            bare.options = [*seeds]
            with pytest.raises(RuntimeError, match="join_ring=true"):
                bare.start()
            bare.options = [*seeds, *none]
            bare.start()
            until(lambda: status(bare)[bare.address][0] == "UN" and sum(
                line[0] == "UN" for line in status(bare).values()) == 3)
            for name in names:
                text = SimpleStatement(f"SELECT k FROM {name}.t", consistency_level=ALL)
                assert {row.k for row in bare.connect().execute(text)} == set(range(40))


def test_a_rack_for_each_replica_where_the_node_wants_it():
    middle = free_address().split(".")
    addresses = [".".join([*middle[:2], rack, middle[3]]) for rack in ("251", "252")]
    center = middle[1]
    common = "--endpoint-snitch", "RackInferringSnitch", "--smp", "1", "--seeds", addresses[0]
    wants = "--rf-rack-valid-keyspaces", "true"
    nodes = [Node(*common, address=address) for address in addresses]
    make = ("CREATE KEYSPACE {} WITH replication = {{'class': 'NetworkTopologyStrategy', '%s': {}}} "
            "AND tablets = {{'enabled': {}}}" % center).format
    with nodes[0], nodes[1]:
        wait_for(nodes)
        session = nodes[0].connect()
        session.execute(make("ill", 3, "true"))
        session.execute(make("ring", 3, "false"))
        nodes[0].stop()
        nodes[0].disconnect()
        nodes[0].options += wants
        ill = f"keyspace 'ill' is required to be RF-rack-valid.*'{center}': RF=3 vs. rack count=2"
        with pytest.raises(RuntimeError, match=ill):
            nodes[0].start()
        nodes[0].options = [*common]
        nodes[0].start()
        assert "ill" in nodes[0].log.read_text()
        wait_for(nodes)
        session = nodes[1].connect()
        session.execute("DROP KEYSPACE ill")
        nodes[0].stop()
        nodes[0].options += wants
        nodes[0].start()
        wait_for(nodes)
        session = nodes[0].connect()
        with pytest.raises(ConfigurationException, match=r"3 exceeds the number of racks \(2\)"):
            session.execute(make("ks", 3, "true"))
        session.execute(make("ks", 2, "true"))
        session.execute(make("one", 1, "true"))
        session.execute(make("none", 0, "true"))

        def racks(name):
            text = session.execute(f"DESCRIBE KEYSPACE {name}").one().create_statement
            return re.findall("25[12]", text.partition("AND")[0])
        assert racks("ks") == ["251", "252"] and len(racks("one")) == 1 and not racks("none")
        again = session.execute("DESCRIBE KEYSPACE ks").one().create_statement
        session.execute("DROP KEYSPACE ks")
        session.execute(again)
        assert session.execute("DESCRIBE KEYSPACE ks").one().create_statement == again
        with pytest.raises((ConfigurationException, InvalidRequest), match="list the racks"):
            session.execute(f"ALTER KEYSPACE ks WITH replication = {{'{center}': 1}}")


def test_pages_of_fragments_are_of_one_node():
    with Nodes(2) as nodes:
        session = nodes[0].connect()
        keyspace(session, "ks", True, 2)
        session.execute("CREATE TABLE ks.r (p int, c int, PRIMARY KEY (p, c))")
        for number in range(30):
            session.execute(SimpleStatement(f"INSERT INTO ks.r (p, c) VALUES (0, {number})",
                                            consistency_level=ALL))
        text = SimpleStatement("SELECT * FROM MUTATION_FRAGMENTS(ks.r) WHERE p = 0", fetch_size=10)
        assert len(list(session.execute(text))) == 32
        state = session.execute(text).paging_state
        other = nodes[1].connect()
        with pytest.raises(InvalidRequest, match="Moving between coordinators"):
            other.execute(text, paging_state=state)
        assert session.execute(text, paging_state=state).current_rows


@pytest.mark.parametrize("tablets", [True, False])
def test_each_partition_is_estimated_by_one_node(tablets):
    """What programs add up that ask all nodes, to divide the scan of a table."""
    with Nodes(3) as nodes:
        session = nodes.connect(ALL)
        keyspace(session, "ks", tablets)
        insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, 0)")
        for k in range(300):
            session.execute(insert, (k,))
        rows = [row for node in nodes for row in node.connect().execute(
            "SELECT * FROM system.size_estimates WHERE keyspace_name = 'ks' AND table_name = 't'")]
        assert abs(sum(row.partitions_count for row in rows) - 300) <= 3
        stretches = sorted((int(row.range_start), int(row.range_end)) for row in rows)
        assert stretches[0][0] == -2**63 and stretches[-1][1] == 2**63 - 1
        assert all(one[1] == next_[0] for one, next_ in zip(stretches, stretches[1:]))
