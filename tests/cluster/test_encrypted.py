"""Links between nodes, encrypted and compressed; who is not trusted is refused, and both say so."""
import re
import signal
import sys
import urllib.request
from pathlib import Path

import pytest
from node import Node, free_address
from trio import Nodes, agree, keyspace, registers, until, wait_for_driver

sys.path.append(str(Path(__file__).resolve().parent.parent / "tls"))
from authority import Authority  # noqa: E402  pylint: disable=wrong-import-position

LINKS = "--server-encryption-options"


@pytest.fixture(name="authority")
def of_the_cluster(tmp_path):
    return Authority(tmp_path)


def encrypts(authority, address, links="all", trusts=None, **more):
    """The words by which a node encrypts links."""
    certificate, key = authority.make(address, address)
    entries = {"internode_encryption": links, "certificate": certificate, "keyfile": key,
               "truststore": (trusts or authority).file, "require_client_auth": "true", **more}
    return [str(word) for name, value in entries.items() for word in (LINKS, f"{name}={value}")]


def secured(authority, links="all", *options, **more):
    """Three nodes that are not started."""
    nodes = Nodes(3, *options)
    for node in nodes:
        node.options += encrypts(authority, node.address, links, **more)
    return nodes


def metric(node, name, labels=""):
    """The sum over all shards."""
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics", timeout=60) as page:
        text = page.read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith(f"scylla_{name}{{") and labels in line)


def connections(node):
    """How many are plain, and how many encrypted."""
    return tuple(metric(node, "messaging_connections", f'encrypted="{word}"')
                 for word in ("false", "true"))


def log_of(node):
    return node.log.read_text(errors="replace")


def waits(node, text):
    """Starts a node that is not let in; it says so, and goes on looking."""
    with pytest.raises(TimeoutError):
        node.start(seconds=0)
    until(lambda: text in log_of(node))
    assert node.is_running() and "init - serving" not in log_of(node)


def test_all_links_are_encrypted_and_compressed(authority):
    with secured(authority, "all", "--internode-compression", "all") as nodes:
        session = nodes.connect()
        keyspace(session, "ks", True)
        with registers(session, "ks.t") as load:
            for node in nodes:
                load.goes_on()
                node.kill()
                load.goes_on()
                node.start()
                wait_for_driver(session)
            load.goes_on()
        session.execute("CREATE TABLE ks.large (k int PRIMARY KEY, v text)")
        agree([node.connect() for node in nodes])
        for key in range(50):
            session.execute("INSERT INTO ks.large (k, v) VALUES (%s, %s)", (key, "wide " * 4000))
        assert {len(row.v) for row in session.execute("SELECT v FROM ks.large")} == {20_000}
        for node in nodes:
            plain, encrypted = connections(node)
            assert plain == 0 < encrypted
            for way in "sent", "received":
                raw = metric(node, f"rpc_compression_bytes_{way}")
                packed = metric(node, f"rpc_compression_compressed_bytes_{way}")
                assert raw > 50_000 and packed < raw / 5, (way, raw, packed)
                # What travels is what was packed, not what it was.
                assert metric(node, f"messaging_{way}_bytes") > packed
        assert not re.search("messaging - .*TLS", "".join(log_of(node) for node in nodes))


def test_certificates_change_without_a_restart(authority):
    with secured(authority) as nodes:
        session = nodes.connect()
        keyspace(session, "ks", True)
        with registers(session, "ks.t") as load:
            for node in nodes:
                load.goes_on()
                authority.make(node.address, node.address, days=60)
                node.process.send_signal(signal.SIGHUP)
                node.wait_for_log("server_encryption_options: changed files are used")
            # New links, by the new certificates.
            nodes[1].kill()
            load.goes_on()
            nodes[1].start()
            wait_for_driver(session)
            load.goes_on()


@pytest.mark.parametrize("links", ["dc", "rack"])
def test_links_between_places_are_encrypted_others_are_plain(authority, links):
    nodes = secured(authority, links, "--internode-compression", links,
                    "--endpoint-snitch", "GossipingPropertyFileSnitch")
    for number, node in enumerate(nodes):
        place = {"dc": (("dc1", "r1"), ("dc1", "r2"), ("dc2", "r1")),
                 "rack": (("dc1", "r1"), ("dc1", "r1"), ("dc1", "r2"))}[links][number]
        (node.workdir / "cassandra-rackdc.properties").write_text(
            "dc={}\nrack={}\n".format(*place))
        file = node.workdir / "scylla.yaml"
        file.write_text("")
        node.options += ["--options-file", str(file)]
    with nodes:
        session = nodes[0].connect()
        copies = "'dc1': 2, 'dc2': 1" if links == "dc" else "'dc1': 3"
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        f"{{'class': 'NetworkTopologyStrategy', {copies}}}")
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        agree([node.connect() for node in nodes])
        # Who joined was a stranger, to whom links were encrypted.
        for node in nodes:
            node.disconnect()
            assert node.stop() == 0
            node.start()
        nodes.wait_for_peers()
        for node in nodes:
            node.connect().execute("INSERT INTO ks.t (k, v) VALUES (1, %s)", ["x" * 9999])
            assert node.connect().execute("SELECT v FROM ks.t WHERE k = 1").one()
        for node in nodes.nodes[:2]:
            until(lambda n=node: min(connections(n)) > 0)
        until(lambda: connections(nodes[2])[0] == 0 < connections(nodes[2])[1])
        for node in nodes:
            # The same rule says which are compressed.
            for encrypted, packed in ("false", "none"), ("true", "lz4"):
                both = f'compression="{packed}",encrypted="{encrypted}"'
                assert metric(node, "messaging_connections", both) == metric(
                    node, "messaging_connections", f'encrypted="{encrypted}"')
        assert not re.search("messaging - .*TLS", "".join(log_of(node) for node in nodes))


def test_tls_is_introduced_while_clients_go_on(authority):
    with Nodes(3) as nodes:
        session = nodes.connect()
        keyspace(session, "ks", True)
        before = {node: list(node.options) for node in nodes}
        with registers(session, "ks.t") as load:
            for links in "transitional", "all":
                for node in nodes:
                    load.goes_on()
                    assert node.stop() == 0
                    load.goes_on()
                    node.options = before[node] + encrypts(authority, node.address, links)
                    node.start()
                    nodes.wait_for_peers()
                    wait_for_driver(session)
                load.goes_on()
        for node in nodes:
            plain, encrypted = connections(node)
            assert plain == 0 < encrypted


def test_who_has_no_tls_is_refused_and_told(authority):
    address, plain_address = free_address(), free_address()
    with Node("--seeds", address, *encrypts(authority, address), address=address) as seed:
        stranger = Node("--seeds", address)
        with pytest.raises(RuntimeError, match=f"the node at {address}:7000 is of no use as a seed"
                           ".*connects without TLS, which is required of it"):
            stranger.start()
        assert re.search("node [0-9a-f-]+ at 127.* is refused: node [0-9a-f-]+ connects without "
                         "TLS, which is required of it", log_of(seed))
        assert seed.connect().execute("SELECT count(*) FROM system.topology").one()[0] == 1
    with Node("--seeds", plain_address, address=plain_address) as seed:
        other = free_address()
        late = Node("--seeds", plain_address, *encrypts(authority, other), address=other)
        waits(late, f"the node at {plain_address}:7000 refuses this node: TLS is wanted, which is "
                    "not enabled at the node that was dialed")
        late.kill()
        assert re.search("a node at 127.* is refused: TLS is wanted", log_of(seed))


def test_who_is_vouched_for_by_another_authority_is_refused_and_told(authority, tmp_path):
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    address = free_address()
    with Node("--seeds", address, *encrypts(authority, address), address=address) as seed:
        for trusts, at_stranger, at_seed in (
                (other, "is refused: TLS: invalid peer certificate: UnknownIssuer",
                 "refuses this node: TLS: received fatal alert"),
                (authority, "refuses this node: TLS: received fatal alert",
                 "is refused: TLS: invalid peer certificate: UnknownIssuer")):
            own = free_address()
            stranger = Node("--seeds", address, *encrypts(other, own, trusts=trusts), address=own)
            waits(stranger, f"the node at {address}:7000 {at_stranger}")
            until(lambda text=at_seed: re.search(f"a node at 127.* {text}", log_of(seed)))
            stranger.kill()
        # Who waits uses the files that are put in place of the wrong ones.
        stranger = Node("--seeds", address, *encrypts(other, own, trusts=authority), address=own)
        waits(stranger, f"the node at {address}:7000 refuses this node")
        assert seed.connect().execute("SELECT count(*) FROM system.topology").one()[0] == 1
        for file in authority.make(own, own):
            (tmp_path / "other" / file.name).write_bytes(file.read_bytes())
        stranger.wait_for_log("init - serving")
        assert stranger.connect().execute("SELECT count(*) FROM system.topology").one()[0] == 2
        stranger.kill()
