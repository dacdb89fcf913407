"""Several nodes that are one cluster, and what works on them."""
import collections
import contextlib
import json
import subprocess
import threading
import time
import urllib.request

from node import NEREID, Node, addresses_in_racks, free_address


class Nodes:
    """Nodes that are told of the same seeds: the first of them, or all; in a `Network`, if there is
    one; each in a rack of its own, if they are to be."""

    def __init__(self, count, *options, all_seeds=True, network=None, in_racks=False):
        self.center = "datacenter1"
        if network:
            addresses = network.addresses
        elif not in_racks:
            addresses = [free_address() for _ in range(count)]
        else:
            addresses = addresses_in_racks(count)
            self.center = addresses[0].split(".")[1]
            options = "--endpoint-snitch", "RackInferringSnitch", *options
        seeds = ",".join(addresses if all_seeds else addresses[:1])
        self._given = "--seeds", seeds, "--smp", "1", "--memory", "512M", *options
        self.nodes = [Node(*self._given, address=address,
                           prefix=network.prefix(at) if network else ())
                      for at, address in enumerate(addresses)]
        self._clusters = []

    def add(self, *options, address=None):
        """One more of them, which is to be started."""
        self.nodes.append(Node(*self._given, *options, address=address or free_address()))
        return self.nodes[-1]

    def __getitem__(self, number):
        return self.nodes[number]

    def __iter__(self):
        return iter(self.nodes)

    def start(self):
        """All at once."""
        threads = [threading.Thread(target=node.start) for node in self.nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(node.is_running() for node in self.nodes)
        return self

    def __enter__(self):
        self.start()
        self.wait_for_peers()
        return self

    def __exit__(self, *_):
        for cluster in self._clusters:
            cluster.shutdown()
        for node in self.nodes:
            node.__exit__()

    def wait_for_peers(self, seconds=30):
        """Until each node knows, and thinks alive, all others."""
        for node in self.nodes:
            session = node.connect()
            until(lambda: sum(row.up for row in session.execute(
                "SELECT up FROM system.cluster_status")) == len(self.nodes), seconds)
            node.disconnect()

    def connect(self, consistency=None, patience=30, retries=True, **facts):
        """A session that knows all nodes, routes by token, and asks for QUORUM; each request has so
        many seconds. Without `retries` the driver asks once."""
        from cassandra import ConsistencyLevel
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import (DCAwareRoundRobinPolicy, FallthroughRetryPolicy, RetryPolicy,
                                        TokenAwarePolicy)
        profile = ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(self.center)),
            retry_policy=RetryPolicy() if retries else FallthroughRetryPolicy(),
            consistency_level=consistency or ConsistencyLevel.QUORUM, request_timeout=patience)
        cluster = Cluster([node.address for node in self.nodes],
                          execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **facts)
        self._clusters.append(cluster)
        return cluster.connect()


def wait_for_driver(session):
    """Until the driver has connections to all nodes again."""
    hosts = session.cluster.metadata.all_hosts()
    until(lambda: all(host.is_up for host in hosts) and len(session.get_pools()) == len(hosts), 60)


def nodetool(node, *words):
    return subprocess.run([NEREID, "nodetool", "-h", node.address, *words], capture_output=True,
                          text=True, timeout=300, check=False)


def status(node):
    """What an operator sees."""
    return nodetool(node, "status").stdout


def rest(node, path, method="GET"):
    request = urllib.request.Request(f"http://{node.address}:10000{path}", method=method)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read() or b"null")


def host_id(node):
    return rest(node, "/storage_service/hostid/local")


def agree(sessions, seconds=30):
    """Until all nodes show one schema."""
    text = "SELECT schema_version FROM system.local"
    until(lambda: len({session.execute(text).one().schema_version for session in sessions}) == 1,
          seconds)


def until(condition, seconds=30):
    """Waits for a condition; an assertion fails where it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)


def keyspace(session, name, tablets, copies=3, count=None):
    """A keyspace, and a table `t` of a counter for each key in it; of so many tablets."""
    initial = f", 'initial': {count}" if count else ""
    session.execute(
        f"CREATE KEYSPACE {name} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}} "
        f"AND tablets = {{'enabled': {str(tablets).lower()}{initial}}}")
    session.execute(f"CREATE TABLE {name}.t (k int PRIMARY KEY, v int)")


class Load:
    """Clients that count up registers of their own, and read them back; what they saw is checked: no
    request fails but as is tolerated, no acknowledged value is lost. What failed may be there, or
    not."""

    def __init__(self, session, table, tolerated):
        self.session, self.tolerated = session, tolerated
        self.write = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        self.read = session.prepare(f"SELECT v FROM {table} WHERE k = ?")
        self.acknowledged, self.maybe, self.wrong = {}, {}, []
        self.rounds = collections.Counter()
        self.stops = threading.Event()

    def may_be(self, key, row):
        return row is not None and row.v in {
            self.acknowledged.get(key), *self.maybe.get(key, ())}

    def work(self, number):
        value = 0
        while not self.stops.is_set():
            value += 1
            key = number * 1000 + value % 20
            try:
                self.maybe.setdefault(key, set()).add(value)
                self.session.execute(self.write, (key, value))
                self.acknowledged[key], self.maybe[key] = value, set()
                row = self.session.execute(self.read, (key,)).one()
                if not self.may_be(key, row):
                    self.wrong.append(f"{key} is {row}, and was {value}")
                self.rounds[number] += 1
            except self.tolerated:
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.wrong.append(f"{type(error).__name__}: {error}")

    def goes_on(self, rounds=30, seconds=60):
        """Until each client has written and read so many times from now on."""
        before = dict(self.rounds)
        until(lambda: self.wrong or all(self.rounds[client] >= before.get(client, 0) + rounds
                                        for client in self.clients), seconds)
        assert not self.wrong, self.wrong[:5]

    @contextlib.contextmanager
    def running(self, threads):
        self.clients = range(threads)
        clients = [threading.Thread(target=self.work, args=(number,)) for number in self.clients]
        for client in clients:
            client.start()
        try:
            yield self
        finally:
            self.stops.set()
            for client in clients:
                client.join()
        assert not self.wrong, self.wrong[:5]
        assert len(self.acknowledged) == 20 * threads
        for key in self.acknowledged:
            assert self.may_be(key, self.session.execute(self.read, (key,)).one())


def registers(session, table, threads=4, tolerated=()):
    """See `Load`."""
    return Load(session, table, tolerated).running(threads)
