"""Nodes that are killed, frozen, stopped and cut off, one fault after another, under clients that check what
they are told. `bench/nemesis` does the same for as long as one likes."""
import contextlib

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement
from nemesis import DURABLE, GrowingSet, Nemesis, Registers
from network import Network
from trio import Nodes, keyspace, until, wait_for_driver

SECONDS = 25


@pytest.fixture(name="network")
def three_links():
    if not Network.is_possible():
        pytest.skip("network namespaces need root and ip(8)")
    with Network(3) as network:
        yield network


def is_up(session, count):
    """Whether the node sees as many alive."""
    return sum(row.up for row in session.execute("SELECT up FROM system.cluster_status")) == count


def test_a_node_that_is_cut_off_misses_nothing(network):
    with Nodes(3, network=network) as nodes:
        sessions = [node.connect() for node in nodes]
        keyspace(sessions[0], "ks", True)
        quorum = ConsistencyLevel.QUORUM
        network.cut(0, 2)
        # One way is enough: neither hears the other one's answers. The third one hears both.
        until(lambda: is_up(sessions[0], 2) and is_up(sessions[2], 2) and is_up(sessions[1], 3))
        for key, session in enumerate(sessions):
            session.execute(SimpleStatement(f"INSERT INTO ks.t (k, v) VALUES ({key}, 1)",
                                            consistency_level=quorum))
        network.heal()
        until(lambda: all(is_up(session, 3) for session in sessions))
        # Hints bring it what it missed, before any read of two nodes could.
        here = sessions[2].prepare("SELECT v FROM ks.t WHERE k = ?")
        here.consistency_level = ConsistencyLevel.ONE
        until(lambda: all(sessions[2].execute(here, (key,)).one() for key in range(3)))
        for session in sessions:
            for key in range(3):
                read = SimpleStatement(f"SELECT v FROM ks.t WHERE k = {key}", consistency_level=quorum)
                assert session.execute(read).one().v == 1


@pytest.mark.parametrize("cuts", [True, False])
def test_histories_are_linearizable_whatever_fails(cuts):
    if cuts and not Network.is_possible():
        pytest.skip("network namespaces need root and ip(8)")
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(3)) if cuts else None
        nodes = stack.enter_context(Nodes(3, *DURABLE, network=network))
        session = nodes.connect(patience=10, retries=False)
        keyspace(session, "ks", True)
        session.execute("CREATE TABLE ks.s (k int, e int, PRIMARY KEY (k, e))")
        clients = [Registers(session, "ks.t"), GrowingSet(session, "ks.s")]
        nemesis = Nemesis(nodes, f"{cuts}", network, fault=(0.5, 4), pause=(0.5, 3))
        try:
            for client in clients:
                client.start(4, seed=cuts)
            nemesis.start()
            nemesis.join(SECONDS)
        finally:
            nemesis.end()
            for client in clients:
                client.end()
        nodes.wait_for_peers()
        wait_for_driver(session)
        for client in clients:
            assert not client.check(), client.wrong[:3]
            assert client.answers > 100, (client.answers, client.unanswered, nemesis.faults)
