"""The functions of Cassandra 5, by both of their names, and those of ScyllaDB."""
from decimal import Decimal

import pytest

COLUMNS = ("k int PRIMARY KEY, i int, d double, e decimal, t text, l list<int>, s set<int>, "
           "m map<text, int>, fl frozen<list<double>>, v vector<float, 2>, ts timestamp")

CASES = [
    ("to_json(i)", "-7"), ("to_unix_timestamp(ts)", 5), ("int_as_blob(i)", b"\xff\xff\xff\xf9"),
    ("blob_as_int(0x00000001)", 1), ("abs(i)", 7), ("abs(e)", Decimal("2.50")), ("exp(0)", 1),
    ("log(1.0)", 0.0), ("log10(1000)", 3), ("round(d)", 3.0), ("round(e)", Decimal("-3")),
    ("map_keys(m)", {"a", "b"}), ("map_values(m)", [1, 2]), ("collection_count(m)", 2),
    ("collection_count(l)", 3), ("collection_min(s)", 4), ("collection_max(l)", 3),
    ("collection_sum(l)", 6), ("collection_avg(fl)", 1.5),
    ("mask_null(i)", None), ("mask_default(t)", "****"), ("mask_default(i)", 0),
    ("mask_replace(i, 5)", 5), ("mask_inner(t, 1, 1)", "a**d"), ("mask_outer(t, 1, 1)", "*bc*"),
]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table(COLUMNS)
    db.run(f"INSERT INTO {t} (k, i, d, e, t, l, s, m, fl, v, ts) VALUES (1, -7, 2.5, -2.50, 'abcd', "
           "[3, 1, 2], {4, 5}, {'b': 2, 'a': 1}, [1, 2], [1, 2], 5)")
    return t


@pytest.mark.parametrize("call, expected", CASES, ids=[case[0] for case in CASES])
def test_results(db, t, call, expected):
    assert db.one(f"SELECT {call} FROM {t}") == expected


SCYLLA = [
    ("set_intersection(s, {5, 6})", {5}), ("set_intersection(s, null)", None),
    ("similarity_euclidean(v, [1, 2])", 1.0), ("similarity_dot_product(v, [1, 2])", 3.0),
    ("similarity_cosine([1, 2], [1, 2])", 1.0), ("similarity_cosine(v, null)", None),
    ("m['a'..'a']", {"a": 1}), ("m['b'..]", {"b": 2}), ("s[..4]", {4}), ("m['x'..'y']", None),
]


@pytest.mark.parametrize("call, expected", SCYLLA, ids=[case[0] for case in SCYLLA])
def test_sets_and_vectors(db, t, call, expected):
    assert db.one(f"SELECT {call} FROM {t}") == expected


@pytest.mark.parametrize("call, words", [
    ("map_keys(l)", "requires a map argument"),
    ("collection_sum(m)", "function system.collection_sum requires a numeric set/list argument, "
                          "but found argument m of type map<text, int>"),
    ("collection_max(m)", "requires a set or list argument, but found argument m of type"),
    ("collection_count(i)", "requires a collection argument, but found argument i of type int"),
    ("similarity_cosine(v, 5)", "requires a float vector argument"),
    ("similarity_cosine(v, [1, 2, 3])", "All arguments must have the same vector dimensions"),
    ("similarity_cosine(v)", "Invalid number of arguments"),
    ("similarity_cosine(null, null)", "Cannot infer type of argument"),
    ("set_intersection(s, l)", "both arguments are of set type"),
    ("set_intersection(s)", "2 arguments"), ("sum(t)", "none of its type signatures match"),
    ("min()", "Invalid number of arguments"), ("nothing(k)", "Unknown function"),
    ("int_as_blob('a')", "cannot be passed as argument 0 of function system.int_as_blob"),
])
def test_refusals(db, t, call, words):
    db.refuse(f"SELECT {call} FROM {t}", words)


def test_aggregates_of_everything(db):
    t = db.table("k int PRIMARY KEY, l frozen<list<int>>, tu tuple<int, text>, d date, v varint, "
                 "u uuid, bo boolean, s set<int>")
    for row in ["(1, [1, 2], (1, 'b'), '2020-01-01', 5, true, {1})",
                "(2, [1, 3], (1, 'a'), '2021-01-01', -5, false, {2})"]:
        db.run(f"INSERT INTO {t} (k, l, tu, d, v, bo, s) VALUES {row}")
    assert db.rows(f"SELECT max(l), min(tu), max(v), min(bo), max(s) FROM {t}") \
        == [([1, 3], (1, "a"), 5, False, {2})]
    assert db.rows(f"SELECT count(u), count(s), sum(v), avg(k) FROM {t}") == [(0, 2, 0, 1)]
    assert db.rows(f"SELECT sum(k * 2 + 1) FROM {t}") == [(8,)]
