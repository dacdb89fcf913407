"""Nodes join, leave and are removed where there are data: by what operators do, with what they see,
and while clients write and read."""
import collections
import contextlib
import itertools
import re
import signal
import threading
import time
import urllib.error

import pytest
from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.protocol import ConfigurationException
from cassandra.query import SimpleStatement
from trio import (Nodes, host_id, keyspace, nodetool, registers, rest, status, until,
                  wait_for_driver)

TABLES = "tk.t", "vk.t"
# The keys below are those of the clients.
FIRST, COUNT = 100_000, 400
JOINS = 120


def at(level, text):
    return SimpleStatement(text, consistency_level=getattr(ConsistencyLevel, level))


def fill(session):
    """A keyspace with tablets and one without, each with three replicas, and rows in them."""
    keyspace(session, "tk", True, count=16)
    keyspace(session, "vk", False)
    for table in TABLES:
        insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        insert.consistency_level = ConsistencyLevel.ALL
        rows = [(FIRST + number, number) for number in range(COUNT)]
        # On a machine with much else to do one of three replicas may be late.
        for _ in range(5):
            done = execute_concurrent_with_args(session, insert, rows, concurrency=20,
                                                raise_on_first_error=False)
            rows = [row for row, (is_written, _) in zip(rows, done) if not is_written]
            if not rows:
                break
        assert not rows


@pytest.fixture(name="nodes")
def three_nodes_with_data():
    with Nodes(3) as nodes:
        fill(nodes.connect())
        yield nodes


def check_rows(nodes, level="ONE", seconds=30):
    """Each node finds all rows at a level, now or soon."""
    for node in nodes:
        session = node.connect()
        for table in TABLES:
            def found(session=session, table=table):
                rows = session.execute(at(level, f"SELECT k, v FROM {table}"))
                return sorted((row.k, row.v) for row in rows if FIRST <= row.k)
            until(lambda found=found: len(found()) == COUNT, seconds)
            assert found() == [(FIRST + number, number) for number in range(COUNT)]
        node.disconnect()


def states(node):
    """The two letters of each node, by address."""
    return {line.split()[1]: line[:2] for line in status(node).splitlines()
            if re.match("[UDX?][NLJM] ", line)}


def tablets_of(node, host):
    """How many tablets a host has."""
    rows = list(node.connect().execute("SELECT * FROM system.tablets"))
    node.disconnect()
    return sum(host in str(row.replicas) for row in rows)


def sizes(node, table):
    """What each replica of each tablet of a table holds, by host; and who did not tell."""
    name, session = table.split("."), node.connect()
    [known] = session.execute("SELECT id FROM system_schema.tables WHERE keyspace_name = %s "
                              "AND table_name = %s", name)
    rows = list(session.execute("SELECT * FROM system.tablet_sizes WHERE table_id = %s",
                                (known.id,)))
    node.disconnect()
    return ([{str(host): size for host, size in row.replicas.items()} for row in rows],
            {str(host) for row in rows for host in row.missing_replicas or ()})


def loads(node):
    """How many tablets each node has, by host."""
    rows = list(node.connect().execute("SELECT node, tablets_allocated FROM system.load_per_node"))
    node.disconnect()
    return {str(row.node): row.tablets_allocated for row in rows}


def settle(node):
    rest(node, "/storage_service/quiesce_topology", "POST")


def refused(node, *words):
    """What an operator is told."""
    done = nodetool(node, *words)
    assert done.returncode == 4, done
    return done.stdout + done.stderr


def metric(node, name):
    import urllib.request
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines
               if line.partition("{")[0] == f"scylla_{name}")


@contextlib.contextmanager
def clients(session):
    """Clients of both tables, of whose requests none fails."""
    with registers(session, "tk.t", threads=2) as first:
        with registers(session, "vk.t", threads=2) as second:
            def go_on():
                first.goes_on()
                second.goes_on()
            go_on()
            yield go_on
            go_on()


def check_ended(node):
    """It has left: it ends by itself, and is not let in again."""
    assert node.process.wait(60) == 0
    with pytest.raises(RuntimeError, match="decommissioned and will not rejoin the ring"):
        node.start()


def test_one_joins_and_one_leaves_while_clients_work(nodes):
    session = nodes.connect()
    with clients(session) as go_on:
        new = nodes.add()
        new.start(JOINS)
        until(lambda: all(list(states(node).values()) == ["UN"] * 4 for node in nodes))
        host = host_id(new)
        go_on()
        settle(new)
        # It has its part, and what is told to drivers names it.
        assert tablets_of(nodes[0], host)
        assert tablets_of(nodes[0], host) == metric(new, "tablets_count") == loads(new)[host]
        held, missing = sizes(nodes[1], "tk.t")
        assert len(held) == 16 and not missing
        assert sum(host in of_tablet for of_tablet in held)
        assert all(len(of_tablet) == 3 for of_tablet in held)
        assert 0 < metric(new, "streaming_total_incoming_bytes")
        # Its tablets came as files.
        assert 0 < metric(new, "streaming_total_incoming_sstables")
        assert sum(metric(node, "streaming_total_outgoing_bytes") for node in nodes)
        until(lambda: len(session.cluster.metadata.all_hosts()) == 4)
        wait_for_driver(session)
        read = session.prepare("SELECT v FROM tk.t WHERE k = ?")

        def is_named():
            for number in range(COUNT):
                session.execute(read, (FIRST + number,))
            known = str([tablet.replicas for of_table in
                         session.cluster.metadata._tablets._tablets.values()
                         for tablet in of_table])
            return host in known
        until(is_named)
        stats = nodetool(new, "tablestats", "vk.t").stdout
        assert "Table: t" in stats, stats
        check_rows(nodes)
        go_on()
        gone = nodes[0]
        host = host_id(gone)
        done = nodetool(gone, "decommission")
        assert done.returncode == 0, done
        nodes.nodes.remove(gone)
        go_on()
        until(lambda: all(list(states(node).values()) == ["UN"] * 3 for node in nodes))
        until(lambda: len(session.cluster.metadata.all_hosts()) == 3)
        assert not tablets_of(nodes[0], host)
        check_ended(gone)
        gone.__exit__()
        for node in nodes:
            said = f"Notify node {host} at .* has left the cluster"
            assert len(re.findall(said, node.log.read_text(errors="replace"))) == 1
    check_rows(nodes)
    # What all replicas say together is the same.
    check_rows(nodes, "ALL")


def test_one_that_is_dead_is_removed_and_others_have_what_it_had(nodes):
    session = nodes.connect()
    nodes.add().start(JOINS)
    settle(nodes[0])
    with clients(session) as go_on:
        dead = nodes[2]
        host = host_id(dead)
        dead.kill()
        nodes.nodes.remove(dead)
        # Who knows it better need not wait until they believe it.
        for node in nodes:
            rest(node, f"/failure_detector/convict/{host}", "POST")
            assert states(node)[dead.address] == "DN"
        go_on()
        done = nodetool(nodes[0], "removenode", host)
        assert done.returncode == 0, done
        assert all(list(states(node).values()) == ["UN"] * 3 for node in nodes)
        go_on()
        until(lambda: len(session.cluster.metadata.all_hosts()) == 3)
    status_text = nodetool(nodes[0], "removenode", "status").stdout
    assert "No token removals" in status_text
    check_rows(nodes, "QUORUM")
    check_rows(nodes, "ALL")
    assert not tablets_of(nodes[0], host)
    assert "left already" in refused(nodes[1], "removenode", host)
    tasks = rest(nodes[0], "/task_manager/list_module_tasks/node_ops")
    assert [(task["type"], task["state"], task["entity"]) for task in tasks] == [
        ("remove node", "done", host)]
    with pytest.raises(RuntimeError, match="no longer one of its cluster"):
        dead.start()
    dead.__exit__()


def joining(nodes):
    return rest(nodes[0], "/storage_service/nodes/joining")


def begin_to_join(nodes):
    """One more node, as soon as the others know that it joins; where its log begins."""
    new = nodes.add()
    offset = new.begin()
    until(lambda: new.address in joining(nodes))
    return new, offset


def test_two_join_at_once(nodes):
    session = nodes.connect()
    with clients(session):
        both = [nodes.add(), nodes.add()]
        offsets = [node.begin() for node in both]
        for node, offset in zip(both, offsets):
            node.wait_for_service(offset, JOINS)
        until(lambda: all(list(states(node).values()) == ["UN"] * 5 for node in nodes))
    settle(nodes[0])
    assert all(tablets_of(nodes[0], host_id(node)) for node in both)
    check_rows(nodes)


def test_a_join_goes_on_when_the_leader_is_killed(nodes):
    new, offset = begin_to_join(nodes)
    leader = rest(nodes[0], "/raft/leader_host")
    [leader] = [node for node in nodes.nodes[:3] if host_id(node) == leader]
    leader.kill()
    # Nothing moves while one is down that may come back.
    leader.start()
    new.wait_for_service(offset, JOINS)
    until(lambda: all(list(states(node).values()) == ["UN"] * 4 for node in nodes))
    settle(nodes[0])
    check_rows(nodes)


def test_one_that_joins_may_be_killed_and_goes_on_or_is_removed(nodes):
    new, _ = begin_to_join(nodes)
    modes = {rest(node, "/storage_service/operation_mode") for node in nodes.nodes[:3]}
    assert modes == {"NORMAL"}
    new.kill()
    new.start(JOINS)
    until(lambda: all(list(states(node).values()) == ["UN"] * 4 for node in nodes))
    settle(nodes[0])
    check_rows(nodes)
    session = nodes.connect()
    second, _ = begin_to_join(nodes)
    second.process.send_signal(signal.SIGSTOP)
    state = states(nodes[0])[second.address]
    assert state in ("UJ", "DJ"), state
    [host] = [line.split()[-2] for line in status(nodes[0]).splitlines() if second.address in line]
    # Clients do not hear of it.
    assert second.address not in {
        str(row.peer) for row in session.execute("SELECT peer FROM system.peers")}
    second.kill()
    done = nodetool(nodes[0], "removenode", host)
    assert done.returncode == 0, done
    nodes.nodes.remove(second)
    until(lambda: all(list(states(node).values()) == ["UN"] * 4 for node in nodes))
    with pytest.raises(RuntimeError, match="no longer one of its cluster|not let into the cluster"):
        second.start(60)
    second.__exit__()
    check_rows(nodes)


def test_what_cannot_be_is_refused_with_the_reason(nodes):
    hosts = [host_id(node) for node in nodes]
    # Three replicas on two nodes.
    text = refused(nodes[1], "decommission")
    assert "no other node can take tablet" in text and "tk.t" in text, text
    # Where there are tablets, a node that lives keeps them also by force.
    text = refused(nodes[1], "decommission", "--force")
    assert "stays" in text, text
    assert list(states(nodes[0]).values()) == ["UN"] * 3
    text = refused(nodes[0], "removenode", hosts[1])
    assert "the node being removed is alive" in text and "decommission" in text, text
    assert "Cannot mark host" in refused(nodes[0], "excludenode", hosts[1])
    assert "does not remove itself" in refused(nodes[0], "removenode", hosts[0])
    assert "not a host id" in refused(nodes[0], "removenode", "127.0.0.1")
    stranger = "12345678-1234-1234-1234-123456789012"
    assert "not known" in refused(nodes[0], "removenode", stranger)
    assert "is not found in the cluster" in refused(nodes[0], "excludenode", stranger)
    nodes[0].connect().execute("DROP KEYSPACE tk")
    nodes[0].disconnect()
    text = refused(nodes[1], "decommission")
    assert "vk" in text and "force" in text, text
    nodes[2].kill()
    # Each looks for itself, and whoever leads decides.
    for node in nodes[0], nodes[1]:
        until(lambda n=node: states(n)[nodes[2].address] == "DN")
    text = refused(nodes[1], "decommission", "-f")
    assert hosts[2] in text and "is down" in text, text
    text = refused(nodes[0], "removenode", hosts[2])
    assert "vk" in text and "force" in text, text
    # One that is excluded is waited for no more, and has its place until it is removed.
    done = nodetool(nodes[0], "excludenode", hosts[2])
    assert done.returncode == 0, done
    until(lambda: states(nodes[1])[nodes[2].address] == "XN")
    with pytest.raises(RuntimeError, match="no longer one of its cluster"):
        nodes[2].start()
    done = nodetool(nodes[0], "removenode", hosts[2], "--force")
    assert done.returncode == 0, done
    assert list(states(nodes[0]).values()) == ["UN"] * 2
    modes = {rest(node, "/storage_service/operation_mode") for node in nodes.nodes[:2]}
    assert modes == {"NORMAL"}


@pytest.mark.parametrize("same_address", [True, False])
def test_a_dead_one_is_replaced(nodes, same_address):
    session = nodes.connect()
    with clients(session) as go_on:
        dead = nodes[2]
        host = host_id(dead)
        dead.kill()
        nodes.nodes.remove(dead)
        until(lambda: all(states(node)[dead.address] == "DN" for node in nodes))
        new = nodes.add("--replace-node-first-boot", host, address=same_address and dead.address)
        new.start(JOINS)
        # It serves when what the dead one had is back.
        assert not tablets_of(new, host)
        until(lambda: all(list(states(node).values()) == ["UN"] * 3 for node in nodes))
        go_on()
        settle(nodes[0])
        assert not tablets_of(nodes[0], host) and tablets_of(nodes[0], host_id(new))
        until(lambda: len(session.cluster.metadata.all_hosts()) == 3)
        wait_for_driver(session)
    check_rows(nodes, "QUORUM")
    check_rows(nodes, "ALL")
    dead.__exit__()


def test_one_is_replaced_while_another_one_is_dead():
    with Nodes(5) as nodes:
        fill(nodes.connect())
        dead = [nodes.nodes.pop(), nodes.nodes.pop()]
        hosts = [host_id(node) for node in dead]
        for node in dead:
            node.kill()
        for node, host in itertools.product(nodes, hosts):
            rest(node, f"/failure_detector/convict/{host}", "POST")
        new = nodes.add("--replace-node-first-boot", hosts[0])
        with pytest.raises(RuntimeError, match=f"{hosts[1]} is down and not ignored"):
            new.start(JOINS)
        # By host id or address.
        new.options += ["--ignore-dead-nodes-for-replace", dead[1].address]
        new.start(JOINS)
        until(lambda: states(nodes[0])[dead[1].address] == "XN")
        assert dead[0].address not in states(nodes[0])
        done = nodetool(nodes[0], "removenode", hosts[1])
        assert done.returncode == 0, done
        # The new one has its tablets.
        settle(nodes[0])
        check_rows(nodes, "QUORUM")
        check_rows(nodes, "ALL")
        for node in dead:
            node.__exit__()


def test_a_call_that_is_given_up_does_not_stop_it(nodes):
    nodes.add().start(JOINS)
    settle(nodes[0])
    gone = nodes[1]
    with pytest.raises(TimeoutError):
        import urllib.request
        request = urllib.request.Request(
            f"http://{gone.address}:10000/storage_service/decommission", method="POST")
        urllib.request.urlopen(request, timeout=0.2)
    assert gone.process.wait(JOINS) == 0
    nodes.nodes.remove(gone)
    until(lambda: all(list(states(node).values()) == ["UN"] * 3 for node in nodes))
    check_rows(nodes)


def counts(nodes, *tables):
    """How many tablets tables have, as each node has it."""
    out = set()
    for node in nodes:
        session = node.connect()
        rows = session.execute("SELECT keyspace_name, last_token FROM system.tablets")
        kept = [row.keyspace_name for row in rows]
        node.disconnect()
        out.add(tuple(kept.count(table.split(".")[0]) for table in tables))
    return out


def set_option(nodes, name, value):
    for node in nodes:
        node.connect().execute("UPDATE system.config SET value = %s WHERE name = %s",
                               (str(value), name))
        node.disconnect()


def test_tablets_split_when_they_are_large_and_merge_when_they_are_not():
    live = "--tablet-load-stats-refresh-interval-in-seconds", "1"
    with Nodes(3, *live, "--live-updatable-config-params-changeable-via-cql", "true") as nodes:
        session = nodes.connect()
        # With one replica, two tablets that are to be one have to come together first.
        keyspace(session, "ok", True, copies=1, count=2)
        fill(session)
        insert = session.prepare("INSERT INTO ok.t (k, v) VALUES (?, ?)")
        rows = [(number, number) for number in range(10 * COUNT)]
        execute_concurrent_with_args(session, insert, rows, concurrency=20)
        tables = "tk.t", "ok.t"
        assert counts(nodes, *tables) == {(16, 2)}
        with clients(session) as go_on:
            set_option(nodes, "target_tablet_size_in_bytes", 16384)
            until(lambda: all(2 < count for _, count in counts(nodes, *tables)), 60)
            go_on()
            assert session.execute("SELECT count(*) FROM ok.t").one()[0] == len(rows)
            # A node that is down opens its tables with the tablets that they have by then.
            nodes[1].kill()
            set_option([nodes[0], nodes[2]], "target_tablet_size_in_bytes", 5 << 30)
            nodes[1].start()
            set_option([nodes[1]], "target_tablet_size_in_bytes", 5 << 30)
            until(lambda: counts(nodes, *tables) == {(16, 2)}, 120)
            settle(nodes[0])
            wait_for_driver(session)
            go_on()
            session.execute("ALTER TABLE ok.t WITH tablets = {'min_tablet_count': '8'}")
            until(lambda: counts(nodes, *tables) == {(16, 8)}, 60)
            go_on()
        found = {(row.k, row.v) for row in session.execute("SELECT k, v FROM ok.t")}
        assert found == set(rows)
        check_rows(nodes, "ALL")


def changes_of_copies(node):
    return rest(node, "/task_manager/list_module_tasks/global_topology_requests")


def alter_copies(session, copies):
    session.execute("ALTER KEYSPACE tk WITH replication = {'class': 'NetworkTopologyStrategy', "
                    f"'datacenter1': {copies}}}")


def test_a_keyspace_gets_other_numbers_of_copies_while_clients_work():
    with Nodes(4) as nodes:
        session = nodes.connect()
        keyspace(session, "tk", True, copies=1, count=16)
        insert = session.prepare("INSERT INTO tk.t (k, v) VALUES (?, ?)")
        insert.consistency_level = ConsistencyLevel.QUORUM
        for number in range(COUNT):
            session.execute(insert, (FIRST + number, number))
        with registers(session, "tk.t") as load:
            for number, copies in enumerate((4, 2, 3, 1, 3)):
                alter_copies(session, copies)
                node = nodes[number % 4]
                until(lambda node=node, number=number: number < len(changes_of_copies(node)))
                for task in changes_of_copies(node):
                    told = rest(node, f"/task_manager/wait_task/{task['task_id']}")
                    assert (told["type"], told["keyspace"], told["state"]) == (
                        "keyspace_rf_change", "tk", "done"), told
                    assert told["progress_completed"] == told["progress_total"] == 16
                tablets = session.execute("SELECT * FROM system.tablets")
                sizes = {len(row.replicas) for row in tablets if row.keyspace_name == "tk"}
                assert sizes == {copies}
                load.goes_on()
        for number in range(COUNT):
            rows = session.execute(at("ALL", f"SELECT v FROM tk.t WHERE k = {FIRST + number}"))
            assert [row.v for row in rows] == [number]
        with pytest.raises(ConfigurationException, match="doesn't have enough token-owning nodes"):
            alter_copies(session, 5)


def test_an_operator_moves_a_tablet():
    with Nodes(2) as nodes:
        session = nodes[0].connect()
        keyspace(session, "tk", True, copies=1, count=2)
        rows = [(number, number) for number in range(50)]
        insert = session.prepare("INSERT INTO tk.t (k, v) VALUES (?, ?)")
        execute_concurrent_with_args(session, insert, rows)
        rest(nodes[0], "/storage_service/quiesce_topology", "POST")
        rest(nodes[0], "/storage_service/tablets/balancing?enabled=false", "POST")

        def first():
            found = session.execute("SELECT * FROM system.tablets")
            return min((row for row in found if row.keyspace_name == "tk"),
                       key=lambda row: row.last_token)

        hosts = [host_id(node) for node in nodes]
        for asked in nodes:
            [(source, shard)] = [(str(host), shard) for host, shard in first().replicas]
            target = next(host for host in hosts if host != source)
            path = (f"/storage_service/tablets/move?ks=tk&table=t&token={first().last_token}"
                    f"&src_host={source}&src_shard={shard}&dst_host={target}&dst_shard=")
            with pytest.raises(urllib.error.HTTPError) as refusal:
                rest(asked, path + "7", "POST")
            assert "there is no shard 7" in refusal.value.read().decode()
            rest(asked, path + "0", "POST")
            assert [(str(host), shard) for host, shard in first().replicas] == [(target, 0)]
            found = session.execute("SELECT k, v FROM tk.t")
            assert sorted((row.k, row.v) for row in found) == rows
        nodes[0].disconnect()


def shard_of(session, node, token):
    """The shard of a node that has the tablet of a token."""
    rows = [row for row in session.execute("SELECT * FROM system.tablets")
            if row.keyspace_name == "tk" and row.table_name == "t" and token <= row.last_token]
    replicas = min(rows, key=lambda row: row.last_token).replicas
    [shard] = [shard for host, shard in replicas if str(host) == host_id(node)]
    return shard


def test_tablets_go_from_shard_to_shard_while_clients_work():
    """Also counters, and writes that depend on what is there; a node is killed in between."""
    options = ("--smp", "2")
    with Nodes(1, *options) as nodes:
        [node] = nodes
        session = node.connect()
        keyspace(session, "tk", True, copies=1, count=2)
        session.execute("CREATE TABLE tk.c (k int PRIMARY KEY, c counter)")
        session.execute("CREATE TABLE tk.l (k int PRIMARY KEY, v int)")
        rest(node, "/storage_service/tablets/balancing?enabled=false", "POST")
        rows = [(FIRST + number, number) for number in range(COUNT)]
        insert = session.prepare("INSERT INTO tk.t (k, v) VALUES (?, ?)")
        execute_concurrent_with_args(session, insert, rows)
        session.execute("INSERT INTO tk.l (k, v) VALUES (1, 0)")
        done, stops, wrong = collections.Counter(), threading.Event(), []

        def count():
            while not stops.is_set():
                session.execute("UPDATE tk.c SET c = c + 1 WHERE k = 1")
                done["counted"] += 1

        def decide():
            value = 0
            while not stops.is_set():
                found = session.execute(f"UPDATE tk.l SET v = {value + 1} WHERE k = 1 "
                                        f"IF v = {value}").one()
                if found[0]:
                    done["decided"] += 1
                    value += 1
                else:
                    value = found.v

        def kept(work):
            try:
                work()
            except Exception as error:  # pylint: disable=broad-exception-caught
                wrong.append(error)

        def move_all():
            host, before = host_id(node), {}
            found = list(session.execute("SELECT * FROM system.tablets"))
            for row in [row for row in found if row.keyspace_name == "tk"]:
                [(_, shard)] = row.replicas
                path = (f"/storage_service/tablets/move?ks=tk&table={row.table_name}"
                        f"&token={row.last_token}&src_host={host}&src_shard={shard}"
                        f"&dst_host={host}&dst_shard={1 - shard}")
                rest(node, path, "POST")
                before[(row.table_name, row.last_token)] = 1 - shard
            found = {(row.table_name, row.last_token): row.replicas[0][1]
                     for row in session.execute("SELECT * FROM system.tablets")
                     if row.keyspace_name == "tk"}
            assert found == before

        with registers(session, "tk.t") as load:
            both = [count, count, decide, decide]
            threads = [threading.Thread(target=kept, args=(work,)) for work in both]
            for thread in threads:
                thread.start()
            for _ in range(3):
                move_all()
                load.goes_on()
            stops.set()
            for thread in threads:
                thread.join()
        assert not wrong
        assert min(done.values()) > 10
        shard = shard_of(session, node, 0)
        assert shard in (0, 1)

        def check(session):
            found = sorted((row.k, row.v) for row in session.execute("SELECT k, v FROM tk.t")
                           if FIRST <= row.k)
            assert found == rows
            [counted] = session.execute("SELECT c FROM tk.c WHERE k = 1")
            [decided] = session.execute("SELECT v FROM tk.l WHERE k = 1")
            assert (counted.c, decided.v) == (done["counted"], done["decided"])

        check(session)
        nodetool(node, "flush")
        node.disconnect()
        node.kill()
        node.start()
        session = node.connect()
        assert shard_of(session, node, 0) == shard
        check(session)
        node.disconnect()
