"""Lists, sets and maps: whole, and by their elements."""
import pytest
from cassandra import InvalidRequest

COLUMNS = ("k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, "
           "fl frozen<list<int>>, fm frozen<map<int, frozen<set<int>>>>")

CASES = [
    # (column, statements, what the column is then)
    ("l", ["SET l = [3, 1, 3]"], [3, 1, 3]),
    ("l", ["SET l = [1]", "SET l = l + [2, 3]"], [1, 2, 3]),
    ("l", ["SET l = [1]", "SET l = [8, 9] + l"], [8, 9, 1]),
    ("l", ["SET l += [1]", "SET l += [2]"], [1, 2]),
    ("l", ["SET l = [1, 2, 1, 3]", "SET l = l - [1]"], [2, 3]),
    ("l", ["SET l = [1, 2, 3]", "SET l[1] = 9"], [1, 9, 3]),
    ("l", ["SET l = [1, 2, 3]", "SET l[1] = null"], [1, 3]),
    ("l", ["SET l = [1, 2, 3]", "DELETE l[0]"], [2, 3]),
    ("l", ["SET l = [1, 2]", "SET l = []"], None),
    ("l", ["SET l = [1, 2]", "SET l = null"], None),
    ("l", ["SET l = [1, 2]", "DELETE l"], None),
    ("l", ["SET l = [1, 2]", "SET l = [7]"], [7]),
    ("s", ["SET s = {'b', 'a', 'b'}"], {"a", "b"}),
    ("s", ["SET s = {'a'}", "SET s = s + {'c', 'b'}"], {"a", "b", "c"}),
    ("s", ["SET s += {'a'}", "SET s -= {'a'}"], None),
    ("s", ["SET s = {'a', 'b'}", "SET s = s - {'a', 'x'}"], {"b"}),
    ("s", ["SET s = {'a', 'b'}", "DELETE s['a']"], {"b"}),
    ("s", ["SET s = {'a'}", "SET s = {'z'}"], {"z"}),
    ("s", ["SET s = {}"], None),
    ("m", ["SET m = {'a': 1, 'b': 2}"], {"a": 1, "b": 2}),
    ("m", ["SET m['x'] = 1", "SET m['y'] = 2", "SET m['x'] = 3"], {"x": 3, "y": 2}),
    ("m", ["SET m = {'a': 1}", "SET m = m + {'b': 2, 'a': 9}"], {"a": 9, "b": 2}),
    ("m", ["SET m = {'a': 1, 'b': 2}", "SET m = m - {'a', 'q'}"], {"b": 2}),
    ("m", ["SET m = {'a': 1, 'b': 2}", "DELETE m['a']"], {"b": 2}),
    ("m", ["SET m = {'a': 1, 'b': 2}", "SET m['a'] = null"], {"b": 2}),
    ("m", ["SET m = {'a': 1}", "SET m = {'b': 1}"], {"b": 1}),
    ("m", ["SET m = {'a': 1}", "DELETE m"], None),
    ("fl", ["SET fl = [2, 1]"], [2, 1]),
    ("fl", ["SET fl = []"], []),
    ("fm", ["SET fm = {1: {2, 3}, 0: {}}"], {1: {2, 3}, 0: set()}),
]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    return db.table(COLUMNS)


@pytest.mark.parametrize("number, column, statements, expected",
                         [(number, *case) for number, case in enumerate(CASES)])
def test_changes(db, t, number, column, statements, expected):
    db.run(f"INSERT INTO {t} (k) VALUES ({number})")
    for statement in statements:
        verb, rest = statement.split(" ", 1)
        text = f"UPDATE {t} SET {rest}" if verb == "SET" else f"DELETE {rest} FROM {t}"
        db.run(f"{text} WHERE k = {number}")
    assert db.one(f"SELECT {column} FROM {t} WHERE k = {number}") == expected


@pytest.mark.parametrize("change", [
    "l[5] = 1", "l[-1] = 1", "l = 5", "l = ['text']", "l = {1}", "l = l + {1}", "l = l + 1",
    "s = [1]", "s['a'] = 1", "s = s + ['a']", "s = {'a': 1}", "m = {'a'}", "m['a'] = 'text'",
    "m[1] = 1", "m = m - ['a']", "m = m + {'a'}", "fl[0] = 1", "fl = fl + [1]",
    "l = [1, null]", "s = {null}", "m = {'a': null}", "m = {null: 1}", "k[0] = 1",
])
def test_refused_changes(db, t, change):
    db.run(f"INSERT INTO {t} (k, l) VALUES (1000, [1])")
    with pytest.raises(InvalidRequest):
        db.run(f"UPDATE {t} SET {change} WHERE k = 1000")


def test_bound_elements(db, t):
    db.run(f"DELETE FROM {t} WHERE k = 2000")
    db.prepared(f"UPDATE {t} SET m[?] = ?, l = ? + l, s = s + ? WHERE k = ?",
                "key", 5, [1, 2], {"x"}, 2000)
    db.prepared(f"UPDATE {t} SET l[?] = ? WHERE k = ?", 0, 7, 2000)
    db.prepared(f"UPDATE {t} SET m = m - ? WHERE k = ?", {"nothing"}, 2000)
    assert db.rows(f"SELECT l, s, m FROM {t} WHERE k = 2000") == [([7, 2], {"x"}, {"key": 5})]


def test_an_insert_replaces_the_whole_collection(db, t):
    db.run(f"INSERT INTO {t} (k, s, m) VALUES (3000, {{'a', 'b'}}, {{'x': 1}})")
    db.run(f"INSERT INTO {t} (k, s, m) VALUES (3000, {{'c'}}, {{'y': 1}})")
    assert db.rows(f"SELECT s, m FROM {t} WHERE k = 3000") == [({"c"}, {"y": 1})]


def test_large_collections(db, t):
    everything = {f"key {n:05}": n for n in range(5000)}
    db.prepared(f"INSERT INTO {t} (k, m, l) VALUES (4000, ?, ?)", everything, list(range(5000)))
    db.prepared(f"UPDATE {t} SET m = m - ? WHERE k = 4000", set(list(everything)[::2]))
    rest = dict(list(everything.items())[1::2])
    assert db.rows(f"SELECT m, l FROM {t} WHERE k = 4000") == [(rest, list(range(5000)))]


def test_elements_have_an_order(db):
    t = db.table("k int PRIMARY KEY, s set<int>, m map<decimal, int>, v set<varint>")
    db.run(f"INSERT INTO {t} (k, s, m, v) VALUES "
           "(1, {5, -3, 2}, {10: 1, 9.5: 2, -1e3: 3}, {300, -300, 7})")
    row = db.run(f"SELECT s, m, v FROM {t}").one()
    assert list(row.s) == [-3, 2, 5]
    assert [int(key) for key in row.m.keys()] == [-1000, 9, 10]
    assert list(row.v) == [-300, 7, 300]


def test_collections_as_keys(db):
    t = db.table("k frozen<set<int>>, c frozen<list<text>>, v int, PRIMARY KEY (k, c)")
    db.run(f"INSERT INTO {t} (k, c, v) VALUES ({{2, 1}}, ['b'], 1)")
    db.run(f"INSERT INTO {t} (k, c, v) VALUES ({{1, 2}}, ['a', 'z'], 2)")
    assert db.rows(f"SELECT c, v FROM {t} WHERE k = {{1, 2}}") == [(["a", "z"], 2), (["b"], 1)]
    assert db.rows(f"SELECT v FROM {t} WHERE k = {{1, 2}} AND c = ['b']") == [(1,)]


def test_vectors(db):
    t = db.table("k int PRIMARY KEY, v vector<float, 3>, w vector<text, 2>")
    db.run(f"INSERT INTO {t} (k, v, w) VALUES (1, [1.5, 2, -3], ['a', 'bc'])")
    row = db.run(f"SELECT v, w FROM {t}").one()
    assert (list(row.v), list(row.w)) == ([1.5, 2.0, -3.0], ["a", "bc"])
    for value in ["[1, 2]", "[1, 2, 3, 4]", "[1, 2, null]", "['a', 'b', 'c']", "5"]:
        with pytest.raises(InvalidRequest):
            db.run(f"INSERT INTO {t} (k, v) VALUES (2, {value})")
