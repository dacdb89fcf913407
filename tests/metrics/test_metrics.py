"""Every sample can be read, and counts what it says."""
import collections
import json
import socket
import struct
import urllib.error
import urllib.request

import pytest
import scraped
from cassandra import ConsistencyLevel
from cassandra.query import BatchStatement, SimpleStatement
from node import ROOT, Node
from scraped import families, samples, text, total


@pytest.fixture(scope="module")
def used(cql, keyspace):
    """A table that was read and written in every way."""
    name = f"{keyspace}.used"
    cql.execute(f"CREATE TABLE {name} (p int, c int, v int, PRIMARY KEY (p, c))")
    for c in range(10):
        cql.execute(f"INSERT INTO {name} (p, c, v) VALUES (1, {c}, {c})")
    cql.execute(f"SELECT * FROM {name} WHERE p = 1")
    cql.execute(f"SELECT * FROM {name}")
    cql.execute(f"INSERT INTO {name} (p, c) VALUES (2, 1) IF NOT EXISTS")
    serial = SimpleStatement(f"SELECT * FROM {name} WHERE p = 2",
                             consistency_level=ConsistencyLevel.SERIAL)
    cql.execute(serial)
    return name


@pytest.fixture(scope="module")
def indexed(cql, keyspace):
    """A table whose index was asked."""
    name = f"{keyspace}.indexed"
    cql.execute(f"CREATE TABLE {name} (p int PRIMARY KEY, v int)")
    cql.execute(f"CREATE INDEX by_v ON {name} (v)")
    cql.execute(f"SELECT * FROM {name} WHERE v = 1")
    return name


def test_all_of_it_can_be_read(node, used, indexed):
    seen, kinds = collections.Counter(), collections.Counter()
    for family in families(node):
        assert family.name.startswith("scylla_")
        assert family.documentation.endswith("."), family.name
        kinds[family.type] += 1
        for sample in family.samples:
            seen[(sample.name, *sorted(sample.labels.items()))] += 1
            assert sample.value >= 0, sample
            of_table = family.name.startswith(("scylla_column_family_", "scylla_index_"))
            assert ("shard" in sample.labels) == (not of_table), sample
            if of_table:
                assert sample.labels["ks"] == used.split(".")[0]
    assert seen and max(seen.values()) == 1, "a sample is there twice"
    assert {"counter", "gauge", "histogram", "summary"} == set(kinds)


def test_pages_by_an_index_are_counted_under_its_name(node, cql, indexed):
    name, labels = "scylla_index_query_latencies_count", {"idx": "by_v",
                                                          "ks": indexed.split(".")[0]}
    before = total(node, name, **labels)
    cql.execute(f"SELECT * FROM {indexed} WHERE v = 2")
    # Not by the index.
    cql.execute(f"SELECT * FROM {indexed} WHERE p = 1")
    assert total(node, name, **labels) == before + 1 >= 2


def test_buckets_of_histograms_add_up(node, used):
    histograms = [family for family in families(node) if family.type == "histogram"]
    assert len(histograms) >= 6
    for family in histograms:
        series = collections.defaultdict(list)
        counts = {}
        for sample in family.samples:
            labels = tuple(sorted(pair for pair in sample.labels.items() if pair[0] != "le"))
            if sample.name.endswith("_bucket"):
                series[labels].append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_count"):
                counts[labels] = sample.value
        assert series
        for labels, buckets in series.items():
            assert buckets == sorted(buckets), "bounds ascend, and so do counts"
            assert [count for _, count in buckets] == sorted(count for _, count in buckets)
            assert buckets[-1] == (float("inf"), counts[labels])


COUNTED = [
    ("cql_inserts", {"conditional": "no"}, "INSERT INTO {} (p, c) VALUES (5, 5)"),
    ("cql_inserts", {"conditional": "yes"}, "INSERT INTO {} (p, c) VALUES (5, 5) IF NOT EXISTS"),
    ("cql_updates", {"conditional": "no"}, "UPDATE {} SET v = 1 WHERE p = 5 AND c = 5"),
    ("cql_updates", {"conditional": "yes"}, "UPDATE {} SET v = 1 WHERE p = 5 AND c = 5 IF v = 1"),
    ("cql_deletes", {"conditional": "no"}, "DELETE FROM {} WHERE p = 5 AND c = 5"),
    ("cql_deletes_per_ks", {"ks": "user", "conditional": "no"}, "DELETE FROM {} WHERE p = 5"),
    ("cql_reads", {}, "SELECT * FROM {} WHERE p = 1"),
    ("cql_reads_per_ks", {"ks": "user", "who": "user"}, "SELECT * FROM {} WHERE p = 1"),
    ("cql_reads_per_ks", {"ks": "system"}, "SELECT * FROM system.local"),
    ("cql_select_allow_filtering", {}, "SELECT * FROM {} WHERE v = 1 ALLOW FILTERING"),
    ("cql_filtered_read_requests", {}, "SELECT * FROM {} WHERE v = 1 ALLOW FILTERING"),
    ("cql_filtered_rows_matched_total", {}, "SELECT * FROM {} WHERE v = 1 ALLOW FILTERING"),
    ("cql_select_bypass_caches", {}, "SELECT * FROM {} WHERE p = 1 BYPASS CACHE"),
    ("cql_select_partition_range_scan", {}, "SELECT * FROM {}"),
    ("cql_reverse_queries", {}, "SELECT * FROM {} WHERE p = 1 ORDER BY c DESC"),
    ("cql_batches", {"conditional": "no"}, "BEGIN BATCH INSERT INTO {} (p, c) VALUES (6, 6) APPLY "
                                           "BATCH"),
    ("cql_batches_pure_unlogged", {}, "BEGIN UNLOGGED BATCH INSERT INTO {} (p, c) VALUES (6, 6) "
                                      "APPLY BATCH"),
    ("storage_proxy_coordinator_read_latency_count", {}, "SELECT * FROM {} WHERE p = 1"),
    ("storage_proxy_coordinator_write_latency_count", {}, "DELETE FROM {} WHERE p = 7"),
    ("storage_proxy_coordinator_range_latency_count", {}, "SELECT * FROM {}"),
    ("storage_proxy_coordinator_cas_write_latency_count", {}, "DELETE FROM {} WHERE p = 7 AND "
                                                              "c = 7 IF EXISTS"),
    ("storage_proxy_coordinator_cas_write_condition_not_met", {}, "DELETE FROM {} WHERE p = 7 AND "
                                                                  "c = 7 IF EXISTS"),
    ("column_family_read_latency_count", {"cf": "used"}, "SELECT * FROM {} WHERE p = 1"),
    ("column_family_write_latency_count", {"cf": "used"}, "DELETE FROM {} WHERE p = 7"),
    ("transport_cql_requests_count", {"kind": "QUERY"}, "SELECT * FROM {} WHERE p = 1"),
    ("transport_requests_served", {}, "SELECT * FROM {} WHERE p = 1"),
]


@pytest.mark.parametrize("name, labels, statement", COUNTED)
def test_statements_are_counted(node, cql, used, name, labels, statement):
    before = total(node, f"scylla_{name}", **labels)
    cql.execute(statement.format(used))
    after = total(node, f"scylla_{name}", **labels)
    # Drivers ask for themselves: of the system's tables, and on other connections.
    exact = "user" in labels.values() or "cf" in labels or not name.startswith("transport_")
    assert after == before + 1 if exact and "system" not in labels.values() else after > before


def test_rows_that_filters_see_are_counted(node, cql, used):
    names = [f"scylla_cql_filtered_rows_{what}_total" for what in ("read", "matched", "dropped")]
    before = [total(node, name) for name in names]
    cql.execute(f"SELECT * FROM {used} WHERE p = 1 AND v > 6 ALLOW FILTERING")
    after = [total(node, name) for name in names]
    assert [late - early for late, early in zip(after, before)] == [10, 3, 7]
    rows = total(node, "scylla_cql_rows_read")
    cql.execute(f"SELECT * FROM {used} WHERE p = 1")
    assert total(node, "scylla_cql_rows_read") == rows + 10


def test_statements_of_batches_are_counted(node, cql, used):
    before = total(node, "scylla_cql_statements_in_batches", conditional="no")
    batch = BatchStatement()
    for c in range(7):
        batch.add(SimpleStatement(f"INSERT INTO {used} (p, c) VALUES (8, {c})"))
    cql.execute(batch)
    assert total(node, "scylla_cql_statements_in_batches", conditional="no") == before + 7


def test_bytes_of_requests_and_answers(node, cql, keyspace):
    cql.execute(f"CREATE TABLE {keyspace}.bytes (p int PRIMARY KEY, v blob)")
    insert = cql.prepare(f"INSERT INTO {keyspace}.bytes (p, v) VALUES (?, ?)")
    select = cql.prepare(f"SELECT v FROM {keyspace}.bytes WHERE p = ?")

    def count(name):
        return total(node, f"scylla_transport_cql_{name}", kind="EXECUTE")

    requests, asked = count("requests_count"), count("request_bytes")
    cql.execute(insert, (1, bytes(30_000)))
    assert count("request_bytes") >= asked + 30_000
    answered = count("response_bytes")
    cql.execute(select, (1,))
    assert count("response_bytes") >= answered + 30_000
    assert count("requests_count") == requests + 2


def test_tables_are_told_as_sums_or_by_shard(node, used):
    name = ("__name__", "scylla_column_family_tablet_count")
    [summed] = [it for it in samples(node, [name]) if it.labels["cf"] == "used"]
    assert set(summed.labels) == {"ks", "cf"}
    shards = samples(node, [name, ("__aggregate__", "false"), ("cf", "used")])
    assert {it.labels["shard"] for it in shards} == {"0", "1"}
    assert sum(it.value for it in shards) == summed.value > 0


def test_filters(node, used):
    def names(*query):
        return {sample.name for sample in samples(node, query)}

    everything = names()
    assert len(everything) > 150
    caches = names(("__name__", "scylla_cache_*"))
    assert caches == {name for name in everything if name.startswith("scylla_cache_")}
    assert caches < names(("__name__", "scylla_cache_*"), ("__name__", "scylla_sstables_*"))
    assert {it.labels["shard"] for it in samples(node, [("shard", "1")])} == {"1"}
    users = samples(node, [("class", "us.*"), ("shard", "0")])
    assert users and {it.labels["class"] for it in users} == {"user"}
    assert names(("__name__", "scylla_none")) == set()
    assert "# HELP" not in text(node, [("__help__", "false")])
    assert "# TYPE" in text(node, [("__help__", "false")])


@pytest.mark.parametrize("query, told", [
    (("__nmae__", "scylla_cache_*"), "__nmae__: neither __name__, __help__, __aggregate__"),
    (("colour", "red"), "colour: neither"),
    (("shard", "("), "shard: not a regular expression: ("),
    (("__help__", "perhaps"), "__help__: not true or false: perhaps"),
    (("ks", "a" * 5000), "ks: a pattern of more than 1024 characters"),
])
def test_what_is_no_filter_is_refused(node, query, told):
    with pytest.raises(urllib.error.HTTPError) as refused:
        text(node, [query])
    assert refused.value.code == 400
    assert told in json.load(refused.value)["message"]


def test_other_paths_are_not_found(node):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{node.address}:9180/metric", timeout=10)
    assert refused.value.code == 404


def test_options_say_what_is_told_of_tables():
    def labels(*options):
        with Node(*options) as node:
            cql = node.connect()
            cql.execute("CREATE KEYSPACE k WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
            cql.execute("CREATE TABLE k.t (a int PRIMARY KEY)")
            found = samples(node, [("__name__", "scylla_column_family_live_sstable")])
            return {(it.labels["ks"], it.labels.get("shard")) for it in found}

    by_shard = labels("--enable-keyspace-column-family-metrics", "1")
    assert {("k", "0"), ("k", "1"), ("system", "0")} <= by_shard
    assert labels("--enable-node-aggregated-table-metrics", "0") == set()


def test_the_prefix_is_an_option():
    with Node("--prometheus-prefix", "own") as node:
        assert {sample.name.partition("_")[0] for sample in samples(node)} == {"own"}


def test_every_family_is_documented(node, used, indexed):
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = [line.split()[2].removeprefix("scylla_") for line in text(node).splitlines()
             if line.startswith("# TYPE")]
    assert scraped and names
    assert [name for name in names if f"`{name}`" not in page] == []


def test_what_drivers_try_when_they_connect_is_no_error():
    """Apache's driver for Python begins with two versions of DSE, and tries older ones."""
    with Node() as node:
        for version in (66, 65, 6):
            refused_version(node, version)
        node.connect().execute("SELECT key FROM system.local")
        assert total(node, "scylla_transport_protocol_version_refusals") == 3
        assert total(node, "scylla_transport_cql_errors_total") == 0, [
            sample for sample in samples(node) if "cql_errors" in sample.name]
        # No driver has this one.
        refused_version(node, 42)
        assert total(node, "scylla_transport_protocol_version_refusals") == 3
        assert total(node, "scylla_transport_cql_errors_total") == 1


def refused_version(node, version):
    with socket.create_connection((node.address, 9042), timeout=10) as client:
        client.sendall(struct.pack(">BBhBI", version, 0, 1, 5, 0))
        answer = client.recv(4096)
    assert answer[4] == 0 and b"unsupported protocol version" in answer


MESSAGES = ("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
            "encoding=delimited")


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The fields of a message: pairs of number and value."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if key & 7 == 1 else varint(data, at)
            assert key & 7 in (1, 2) and at + size <= len(data)
            value, at = data[at:at + size], at + size
        found.append((key >> 3, value))
    return found


def asked_for_messages(node):
    request = urllib.request.Request(f"http://{node.address}:9180/metrics",
                                     headers={"Accept": f"{MESSAGES};q=0.6, text/plain;q=0.5"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read()


def test_messages_have_the_samples_of_the_text(node, used):
    kind, data = asked_for_messages(node)
    assert kind == MESSAGES and used
    at, found = 0, set()
    while at < len(data):
        size, at = varint(data, at)
        family, at = fields(data[at:at + size]), at + size
        name = dict(family)[1].decode()
        for field, metric in family:
            if field == 4:
                labels = [dict(fields(pair)) for number, pair in fields(metric) if number == 1]
                found.add((name, tuple(sorted((pair[1].decode(), pair[2].decode())
                                              for pair in labels))))
    parts = ("le", "quantile")
    tails = ("_bucket", "_sum", "_count", "_total", "")
    for family in families(node):
        for sample in family.samples:
            labels = tuple(sorted(pair for pair in sample.labels.items() if pair[0] not in parts))
            names = [sample.name.removesuffix(tail) for tail in tails]
            assert any((name, labels) in found for name in [sample.name, *names]), sample
    with Node("--prometheus-allow-protobuf", "0") as other:
        assert asked_for_messages(other)[0].startswith("text/plain")
