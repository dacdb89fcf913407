"""How bodies between nodes are compressed, and what says so."""
import random
import urllib.request

from cassandra import ConsistencyLevel
from trio import Nodes, agree, keyspace


def metric(node, name, algorithm):
    """The sum over all shards."""
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics", timeout=60) as page:
        text = page.read().decode()
    found = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
             if line.startswith(f"scylla_rpc_compression_{name}{{")
             and f'algorithm="{algorithm}"' in line]
    assert found, (name, algorithm)
    return sum(found)


def sent(nodes, algorithm):
    """Bytes before and after, of all nodes."""
    return [sum(metric(node, name, algorithm) for node in nodes)
            for name in ("bytes_sent", "compressed_bytes_sent")]


def test_zstandard_takes_its_part_of_the_processor():
    options = ["--internode-compression", "all", "--internode-compression-enable-advanced", "1"]
    with Nodes(2, *options) as nodes:
        sessions = [node.connect() for node in nodes]
        keyspace(sessions[0], "ks", True, copies=2)
        sessions[0].execute("CREATE TABLE ks.large (k int PRIMARY KEY, v blob)")
        agree(sessions)
        write = sessions[0].prepare("INSERT INTO ks.large (k, v) VALUES (?, ?)")
        write.consistency_level = ConsistencyLevel.ALL
        # Sixteen values of a byte: half the bits, which LZ4 does not find.
        value = bytes(random.Random(7).choices(range(16), k=20_000))

        def written():
            before = [sent(nodes, name) for name in ("lz4", "zstd")]
            for key in range(20):
                sessions[0].execute(write, [key, value])
            after = [sent(nodes, name) for name in ("lz4", "zstd")]
            return [[new - old for new, old in zip(*pair)] for pair in zip(after, before)]

        lz4, zstd = written()
        assert lz4[0] > 20 * len(value) and zstd[0] == 0, (lz4, zstd)
        for session in sessions:
            session.execute("UPDATE system.config SET value = '1.0' "
                            "WHERE name = 'internode_compression_zstd_max_cpu_fraction'")
        lz4, zstd = written()
        assert zstd[0] > 20 * len(value) and lz4[0] < len(value), (lz4, zstd)
        assert zstd[1] < 0.6 * zstd[0], zstd
        assert metric(nodes[1], "decompression_cpu_nanos", "zstd") > 0
        for session in sessions:
            rows = session.execute("SELECT v FROM ks.large")
            assert all(row.v == value for row in rows)
