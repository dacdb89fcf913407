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
