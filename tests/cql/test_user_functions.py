"""Functions and aggregates of users, and traces of requests."""
import pytest


def lua(name, arguments, returns, body, null="RETURNS NULL"):
    return (f"CREATE FUNCTION {name}({arguments}) {null} ON NULL INPUT RETURNS {returns} "
            f"LANGUAGE lua AS $${body}$$")


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("p int PRIMARY KEY, v int, s set<int>")
    for p in range(1, 5):
        db.run(f"INSERT INTO {t} (p, v, s) VALUES ({p}, {p * 10}, {{{p}, {p + 1}}})")
    return t


def test_a_function_of_a_row(db, t):
    name = db.name()
    db.run(lua(name, "a int, s set<int>", "text",
               "local n = 0 for k in pairs(s) do n = n + k end return a .. ':' .. n"))
    assert db.one(f"SELECT {name}(v, s) FROM {t} WHERE p = 2") == "20:5"
    assert db.one(f"SELECT {name}(null, s) FROM {t} WHERE p = 2") is None
    db.refuse(f"SELECT {name}(v) FROM {t}", "number of arguments")
    db.run(f"DROP FUNCTION {name}")
    db.refuse(f"SELECT {name}(v, s) FROM {t}", "unknown function")


def test_a_function_has_its_time_and_its_memory(db, t):
    for body, words in [("while true do end", "lua execution timeout"),
                        ("local a = 'x' while true do a = a .. a end", "not enough memory"),
                        ("return os.exit()", "attempt to index a nil value")]:
        name = db.name()
        db.run(lua(name, "a int", "int", body))
        db.refuse(f"SELECT {name}(v) FROM {t}", words)
        db.run(f"DROP FUNCTION {name}")
    assert db.one(f"SELECT count(*) FROM {t}") == 4


def test_a_function_of_each_name_and_arguments(db, t):
    name = db.name()
    db.run(lua(name, "a int", "text", "return 'int'"))
    db.run(lua(name, "a text", "text", "return 'text'"))
    db.run(lua(name, "a int, b int", "text", "return 'two'"))
    assert db.rows(f"SELECT {name}(v), {name}(CAST(v AS text)), {name}(v, p) FROM {t} WHERE p = 1") \
        == [("int", "text", "two")]
    db.refuse(lua(name, "a int", "text", "return 'again'"), "already exists")
    db.run(lua(name, "a int", "text", "return 'again'").replace("FUNCTION", "FUNCTION IF NOT EXISTS"))
    assert db.one(f"SELECT {name}(v) FROM {t} WHERE p = 1") == "int"
    db.run(lua(name, "a int", "text", "return 'new'").replace("CREATE", "CREATE OR REPLACE"))
    assert db.one(f"SELECT {name}(v) FROM {t} WHERE p = 1") == "new"
    db.refuse(f"DROP FUNCTION {name}", "multiple functions")
    db.run(f"DROP FUNCTION {name}(text)")
    db.refuse(f"DROP FUNCTION {name}(text)", "")
    db.run(f"DROP FUNCTION IF EXISTS {name}(text)")
    for arguments in ("int", "int, int"):
        db.run(f"DROP FUNCTION {name}({arguments})")
    db.run(f"DROP FUNCTION IF EXISTS {name}")


def test_a_function_and_null(db, t):
    for null, expected in [("RETURNS NULL", None), ("CALLED", "nil")]:
        name = db.name()
        db.run(lua(name, "a text", "text", "return type(a)", null))
        assert db.one(f"SELECT {name}(null) FROM {t} WHERE p = 1") == expected
        db.run(f"DROP FUNCTION {name}")


@pytest.mark.parametrize("arguments, returns, body, call, expected", [
    ("a list<int>", "list<int>", "local r = {} for i = #a, 1, -1 do r[#r + 1] = a[i] end return r",
     "[1, 2, 3]", [3, 2, 1]),
    ("a map<text, int>", "int", "local n = 0 for k, v in pairs(a) do n = n + v end return n",
     "{'a': 1, 'b': 5}", 6),
    ("a tuple<int, text>", "text", "return a[2] .. a[1]", "(1, 'x')", "x1"),
    ("a boolean", "boolean", "return not a", "true", False),
    ("a double", "double", "return a / 2", "3.0", 1.5),
    ("a bigint", "bigint", "return a + 1", "9223372036854775806", 9223372036854775807),
    ("a text", "blob", "return a", "'ab'", b"ab"),
    ("a varint", "varint", "return a * a", "100000000000", 10 ** 22),
    ("a date", "bigint", "return a", "'1970-01-02'", 2 ** 31 + 1),
])
def test_a_function_of_each_kind_of_value(db, t, arguments, returns, body, call, expected):
    name = db.name()
    db.run(lua(name, arguments, returns, body))
    kind = arguments.split(" ", 1)[1]
    assert db.one(f"SELECT {name}(({kind}) {call}) FROM {t} WHERE p = 1") == expected
    db.run(f"DROP FUNCTION {name}")


def test_a_function_is_made_again(db, t):
    name = db.name()
    db.run(lua(name, "a int, b frozen<list<text>>", "text", "return b[a] -- it's", "CALLED"))
    described = db.rows(f"DESCRIBE FUNCTION {name}")
    assert [row[:3] for row in described] == [(*name.split(".")[:1], "function", name.split(".")[1])]
    db.run(f"DROP FUNCTION {name}")
    db.run(described[0][3])
    assert db.rows(f"DESCRIBE FUNCTION {name}") == described
    assert db.one(f"SELECT {name}(2, ['x', 'y']) FROM {t} WHERE p = 1") == "y"
    db.run(f"DROP FUNCTION {name}")


LUA = "RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return a'"


@pytest.mark.parametrize("statement, words", [
    ("CREATE FUNCTION {n}(a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE cobol AS 'x'",
     "language"),
    ("CREATE FUNCTION {n}(a no_such) " + LUA, "no_such"),
    ("CREATE FUNCTION nowhere.f(a int) " + LUA, "nowhere"),
])
def test_a_function_that_is_refused(db, statement, words):
    with pytest.raises(Exception) as caught:
        db.run(statement.format(n=db.name()))
    assert words.lower() in str(caught.value).lower(), caught.value


@pytest.mark.parametrize("statement", [
    "CREATE FUNCTION {n}(a int) " + LUA.replace("return a", "return ("),
    "CREATE FUNCTION {n}(a int, a int) " + LUA, "CREATE FUNCTION system.f(a int) " + LUA,
    "DROP FUNCTION {n}", "DROP AGGREGATE {n}",
    "CREATE AGGREGATE {n}(int) SFUNC nothing STYPE int",
])
def test_what_is_refused_of_functions(db, statement):
    with pytest.raises(Exception) as caught:
        db.run(statement.format(n=db.name()))
    assert str(caught.value)


def test_an_aggregate_of_groups_with_a_reduction(db):
    t = db.table("p int, c int, v int, PRIMARY KEY (p, c)")
    for p in range(3):
        for c in range(4):
            db.run(f"INSERT INTO {t} (p, c, v) VALUES ({p}, {c}, {10 * p + c})")
    step, both, aggregate = (db.name() for _ in range(3))
    short = [name.split(".")[1] for name in (step, both)]
    db.run(lua(step, "s int, v int", "int", "return s + v * v"))
    db.run(lua(both, "a int, b int", "int", "return a + b"))
    db.run(f"CREATE AGGREGATE {aggregate}(int) SFUNC {short[0]} STYPE int REDUCEFUNC {short[1]} "
           "INITCOND 0")
    total = {p: sum((10 * p + c) ** 2 for c in range(4)) for p in range(3)}
    assert db.one(f"SELECT {aggregate}(v) FROM {t}") == sum(total.values())
    assert dict(db.rows(f"SELECT p, {aggregate}(v) FROM {t} GROUP BY p")) == total
    assert db.one(f"SELECT {aggregate}(v) FROM {t} WHERE p = 77") == 0
    assert db.pages(f"SELECT {aggregate}(v), count(*) FROM {t}", 2) == [[(sum(total.values()), 12)]]
    assert "REDUCEFUNC" in db.rows(f"DESCRIBE AGGREGATE {aggregate}")[0][3]
    db.run(f"CREATE AGGREGATE IF NOT EXISTS {aggregate}(int) SFUNC {short[0]} STYPE int")
    db.refuse(f"DROP FUNCTION {step}", "used")
    db.run(f"DROP AGGREGATE {aggregate}(int)")
    db.run(f"DROP FUNCTION {step}")
    db.run(f"DROP FUNCTION {both}")


def test_an_aggregate(db, t):
    total, mean, aggregate = (db.name() for _ in range(3))
    bare = [name.split(".")[1] for name in (total, mean)]
    db.run(lua(total, "s tuple<bigint, bigint>, v int", "tuple<bigint, bigint>",
               "return {s[1] + v, s[2] + 1}", "CALLED"))
    db.run(lua(mean, "s tuple<bigint, bigint>", "double", "return s[1] / s[2]", "CALLED"))
    db.run(f"CREATE AGGREGATE {aggregate}(int) SFUNC {bare[0]} STYPE tuple<bigint, bigint> "
           f"FINALFUNC {bare[1]} INITCOND (0, 0)")
    assert db.one(f"SELECT {aggregate}(v) FROM {t}") == 25.0
    db.refuse(f"DROP FUNCTION {total}", "it is used")
    described = db.rows(f"DESCRIBE AGGREGATE {aggregate}")[0][3]
    db.run(f"DROP AGGREGATE {aggregate}")
    db.run(described)
    assert db.one(f"SELECT {aggregate}(v) FROM {t} WHERE p = 1") == 10.0


def test_a_trace(db):
    t = db.table("p int PRIMARY KEY")
    result = db.session.execute(f"SELECT p FROM {t}", trace=True)
    trace = result.get_query_trace(max_wait_sec=10)
    assert trace.parameters["query"] == f"SELECT p FROM {t}"
    assert any("reading of" in event.description for event in trace.events)
