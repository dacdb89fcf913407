"""ALTER TABLE and ALTER TYPE: what becomes of the data, which types may become which, refusals."""
import pytest
from cassandra import InvalidRequest
from cassandra.protocol import ConfigurationException

REFUSALS = (InvalidRequest, ConfigurationException)


def changed(db, table, *changes):
    for change in changes:
        db.run(f"ALTER TABLE {table} {change}")


@pytest.mark.parametrize("old, literal, new, expected", [
    ("ascii", "'x'", "text", "x"), ("ascii", "'x'", "blob", b"x"), ("text", "'x'", "blob", b"x"),
    ("int", "5", "blob", b"\0\0\0\5"), ("int", "5", "varint", 5), ("bigint", "-7", "varint", -7),
    ("tinyint", "5", "varint", 5), ("smallint", "-5", "varint", -5),
    ("bigint", "86400000", "timestamp", "1970-01-02 00:00:00"),
    ("timestamp", "86400000", "bigint", 86400000), ("boolean", "true", "blob", b"\1"),
    ("timeuuid", "0f5f4bd0-5f0f-11ee-8f0f-012345678901", "uuid",
     "0f5f4bd0-5f0f-11ee-8f0f-012345678901"),
    ("list<ascii>", "['a']", "list<text>", ["a"]),
    ("map<ascii, int>", "{'a': 5}", "map<text, varint>", {"a": 5}),
    ("frozen<set<ascii>>", "{'a'}", "frozen<set<text>>", {"a"}),
    ("tuple<int>", "(5)", "tuple<int, text>", (5, None)),
])
def test_types_that_may_change(db, old, literal, new, expected):
    t = db.table(f"p int PRIMARY KEY, v {old}")
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, {literal})")
    changed(db, t, f"ALTER v TYPE {new}")
    found = db.one(f"SELECT v FROM {t}")
    assert (str(found) if isinstance(expected, str) else found) == expected
    assert new in db.rows(f"DESCRIBE TABLE {t}")[0][3]


@pytest.mark.parametrize("old, new", [
    ("int", "text"), ("int", "bigint"), ("bigint", "int"), ("text", "ascii"), ("text", "int"),
    ("blob", "text"), ("varint", "int"), ("float", "double"), ("double", "float"),
    ("uuid", "timeuuid"), ("int", "counter"), ("timestamp", "date"), ("date", "timestamp"),
    ("list<int>", "list<text>"), ("list<int>", "set<int>"), ("list<int>", "frozen<list<int>>"),
    ("frozen<list<int>>", "list<int>"), ("map<int, int>", "map<text, int>"),
    ("set<int>", "blob"), ("tuple<int, text>", "tuple<int>"), ("int", "no_such_type"),
    ("vector<float, 2>", "vector<float, 3>"), ("decimal", "varint"), ("inet", "text"),
])
def test_types_that_may_not_change(db, old, new):
    t = db.table(f"p int PRIMARY KEY, v {old}")
    before = db.rows(f"DESCRIBE TABLE {t}")
    with pytest.raises(REFUSALS):
        changed(db, t, f"ALTER v TYPE {new}")
    assert db.rows(f"DESCRIBE TABLE {t}") == before


def test_keys_keep_their_order(db):
    t = db.table("p ascii, c ascii, d int, PRIMARY KEY (p, c, d)")
    for word in ("b", "a", "ab"):
        db.run(f"INSERT INTO {t} (p, c, d) VALUES ('k', '{word}', 1)")
    changed(db, t, "ALTER c TYPE text")
    assert db.column(f"SELECT c FROM {t} WHERE p = 'k'") == ["a", "ab", "b"]
    for change in ["ALTER c TYPE int", "ALTER d TYPE varint", "ALTER d TYPE blob",
                   "ALTER p TYPE int", "ALTER nope TYPE int"]:
        with pytest.raises(REFUSALS):
            changed(db, t, change)


@pytest.mark.parametrize("change", [
    "ADD v int", "ADD p int", "ADD (x int, x int)", "ADD x counter", "ADD x no_type",
    "ADD x list<list<int>>", "ADD x vector<float, 0>", "ADD gone text", "ADD gone int static",
    "DROP p", "DROP c", "DROP nope", "DROP (v, nope)", "RENAME v TO w",
    "RENAME nope TO w", "RENAME p TO c", "RENAME p TO v", "RENAME p TO x AND c TO x",
    "WITH nope = 1", "WITH gc_grace_seconds = -1", "WITH default_time_to_live = -1",
    "WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18", "WITH CLUSTERING ORDER BY (c DESC)",
    "DROP COMPACT STORAGE", "WITH compaction = {'class': 'Nope'}",
])
def test_refused(db, change):
    t = db.table("p int, c int, v int, gone int, PRIMARY KEY (p, c)")
    changed(db, t, "DROP gone")
    before = db.rows(f"DESCRIBE TABLE {t}")
    with pytest.raises(Exception) as caught:
        changed(db, t, change)
    assert str(caught.value)
    assert db.rows(f"DESCRIBE TABLE {t}") == before


def test_no_column_is_dropped_twice(db):
    t = db.table("p int PRIMARY KEY, v int")
    db.refuse(f"ALTER TABLE {t} DROP (v, v)", "more than once")


def test_what_is_not_there(db):
    name = db.name()
    with pytest.raises(REFUSALS):
        db.run(f"ALTER TABLE {name} ADD x int")
    with pytest.raises(REFUSALS):
        db.run("ALTER TABLE nowhere.t ADD x int")
    db.run(f"ALTER TABLE IF EXISTS {name} ADD x int")
    t = db.table("p int PRIMARY KEY, v int")
    changed(db, t, "ADD IF NOT EXISTS v int", "ADD IF NOT EXISTS w int", "DROP IF EXISTS nope",
            "DROP IF EXISTS v")
    assert db.run(f"SELECT * FROM {t}").column_names == ["p", "w"]


def test_a_column_that_is_not_there_is_renamed(db):
    t = db.table("p int PRIMARY KEY, v int")
    changed(db, t, "RENAME IF EXISTS nope TO q")
    assert db.run(f"SELECT * FROM {t}").column_names == ["p", "v"]


def test_counters_and_statics(db):
    counts = db.table("p int PRIMARY KEY, n counter, o counter")
    changed(db, counts, "ADD m counter", "DROP o")
    db.run(f"UPDATE {counts} SET m = m + 1, n = n + 2 WHERE p = 1")
    assert db.rows(f"SELECT * FROM {counts}") == [(1, 1, 2)]
    for change in ["ADD v int", "ADD o counter", "WITH default_time_to_live = 5", "ADD s int static"]:
        with pytest.raises(REFUSALS):
            changed(db, counts, change)
    t = db.table("p int, c int, PRIMARY KEY (p, c)")
    changed(db, t, "ADD s int static", "ADD (v int, w set<int>, z list<int> static)")
    db.run(f"INSERT INTO {t} (p, c, s, v, w, z) VALUES (1, 2, 3, 4, {{5}}, [6])")
    assert db.rows(f"SELECT p, c, s, v, w, z FROM {t}") == [(1, 2, 3, 4, {5}, [6])]
    changed(db, t, "DROP (s, z)", "ADD s int static")
    assert db.rows(f"SELECT p, c, s, v, w FROM {t}") == [(1, 2, None, 4, {5})]


def test_a_drop_hides_what_is_older_than_it(db):
    t = db.table("p int PRIMARY KEY, v int, m map<int, int>")
    for p, at in [(1, 100), (2, 200), (3, 300)]:
        db.run(f"INSERT INTO {t} (p, v, m) VALUES ({p}, {p}, {{{p}: {p}}}) USING TIMESTAMP {at}")
    changed(db, t, "DROP v USING TIMESTAMP 200", "DROP m USING TIMESTAMP 200", "ADD v int",
            "ADD m map<int, int>")
    assert sorted(db.rows(f"SELECT p, v, m FROM {t}"), key=str) \
        == [(1, None, None), (2, None, None), (3, 3, {3: 3})]
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, 9) USING TIMESTAMP 201")
    assert db.one(f"SELECT v FROM {t} WHERE p = 1") == 9


def test_a_late_write_is_older_than_the_drop(db, flush):
    t = db.table("p int, c int, v int, m map<int, int>, s int static, PRIMARY KEY (p, c)")
    changed(db, t, *(f"DROP {name} USING TIMESTAMP 200" for name in "vms"), "ADD v int",
            "ADD m map<int, int>", "ADD s int static")
    late = f"INSERT INTO {t} (p, c, v, m, s) VALUES (%d, 1, 1, {{1: 1}}, 1) USING TIMESTAMP %d"
    batch = "; ".join(late % (p, at) for p, at in [(3, 199), (4, 201)])
    for write in [late % (1, 200), late % (2, 201), f"BEGIN BATCH {batch}; APPLY BATCH",
                  f"UPDATE {t} USING TIMESTAMP 150 SET v = 5 WHERE p = 5 AND c = 1",
                  f"UPDATE {t} USING TIMESTAMP 201 SET m = {{1: 1}} WHERE p = 6 AND c = 1",
                  f"UPDATE {t} USING TIMESTAMP 200 SET m[2] = 2 WHERE p = 6 AND c = 1"]:
        db.run(write)
    seen = sorted(db.rows(f"SELECT p, v, m, s FROM {t}"))
    assert seen == [(1, None, None, None), (2, 1, {1: 1}, 1), (3, None, None, None),
                    (4, 1, {1: 1}, 1), (6, None, {1: 1}, None)]
    flush(t)
    assert sorted(db.rows(f"SELECT p, v, m, s FROM {t}")) == seen


def test_names_of_keys(db):
    t = db.table("p int, q int, c int, d int, PRIMARY KEY ((p, q), c, d)")
    db.run(f"INSERT INTO {t} (p, q, c, d) VALUES (1, 2, 3, 4)")
    changed(db, t, 'RENAME p TO one AND d TO "Four"')
    assert db.rows(f'SELECT one, q, c, "Four" FROM {t} WHERE one = 1 AND q = 2 AND c = 3') \
        == [(1, 2, 3, 4)]
    db.refuse(f"SELECT p FROM {t}", "p")
    changed(db, t, 'RENAME "Four" TO d')
    assert db.run(f"SELECT * FROM {t}").column_names == ["one", "q", "c", "d"]


@pytest.mark.parametrize("change", [
    "ADD a int", "ADD x counter", "ADD x no_type", "ADD x frozen<{ty}>", "RENAME nope TO z",
    "RENAME a TO b", "ALTER a TYPE text", "ALTER nope TYPE text",
])
def test_refused_changes_of_types(db, change):
    ty = db.type("a int, b text")
    before = db.rows(f"DESCRIBE TYPE {ty}")
    with pytest.raises(REFUSALS):
        db.run(f"ALTER TYPE {ty} {change.format(ty=ty)}")
    assert db.rows(f"DESCRIBE TYPE {ty}") == before


def test_types_in_use(db):
    inner = db.type("a int")
    short = inner.split(".")[1]
    outer = db.type(f"i frozen<{short}>")
    t = db.table(f"p int PRIMARY KEY, u frozen<{outer.split('.')[1]}>, m map<int, frozen<{short}>>")
    db.run(f"INSERT INTO {t} (p, u, m) VALUES (1, {{i: {{a: 1}}}}, {{1: {{a: 2}}}})")
    db.run(f"ALTER TYPE {inner} ADD b text")
    db.run(f"ALTER TYPE {inner} RENAME a TO aa")
    assert db.rows(f"SELECT u, m, u.i FROM {t}") == [(((1, None),), {1: (2, None)}, (1, None))]
    db.run(f"INSERT INTO {t} (p, u) VALUES (2, {{i: {{aa: 3, b: 'x'}}}})")
    assert db.one(f"SELECT u FROM {t} WHERE p = 2") == ((3, "x"),)
    for name in (inner, outer):
        db.refuse(f"DROP TYPE {name}", "used")
    db.run(f"DROP TABLE {t}")
    db.refuse(f"DROP TYPE {inner}", "used")
    db.run(f"DROP TYPE {outer}")
    db.run(f"DROP TYPE {inner}")


def test_a_type_of_a_key_gets_no_fields(db):
    ty = db.type("a int")
    short = ty.split(".")[1]
    db.table(f"p frozen<{short}> PRIMARY KEY")
    db.refuse(f"ALTER TYPE {ty} ADD b int", "add")
