"""User types and tuples, frozen and not."""
import pytest
from cassandra import InvalidRequest


@pytest.fixture(name="point", scope="module")
def fixture_point(db):
    return db.type("x int, y text, z frozen<list<int>>").split(".")[1]


def test_a_frozen_type_is_one_value(db, point):
    t = db.table(f"k int PRIMARY KEY, v frozen<{point}>")
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, {{x: 1, y: 'a', z: [1, 2]}})")
    db.run(f"INSERT INTO {t} (k, v) VALUES (2, {{y: 'b'}})")
    assert sorted(db.rows(f"SELECT k, v FROM {t}")) \
        == [(1, (1, "a", [1, 2])), (2, (None, "b", None))]
    assert db.rows(f"SELECT v.x, v.z FROM {t} WHERE k = 1") == [(1, [1, 2])]
    with pytest.raises(InvalidRequest):
        db.run(f"UPDATE {t} SET v.x = 5 WHERE k = 1")


def test_fields_of_a_type_that_is_not_frozen(db, point):
    t = db.table(f"k int PRIMARY KEY, v {point}")
    db.run(f"UPDATE {t} SET v.x = 5 WHERE k = 1")
    db.run(f"UPDATE {t} SET v.y = 'a' WHERE k = 1")
    assert db.one(f"SELECT v FROM {t}") == (5, "a", None)
    db.run(f"UPDATE {t} SET v.x = null WHERE k = 1")
    assert db.one(f"SELECT v FROM {t}") == (None, "a", None)
    db.run(f"DELETE v.y FROM {t} WHERE k = 1")
    assert db.rows(f"SELECT v FROM {t}") == []
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, {{x: 9}})")
    assert db.one(f"SELECT v.x FROM {t}") == 9


def test_a_field_more(db):
    name = db.type("x int")
    short = name.split(".")[1]
    t = db.table(f"k int PRIMARY KEY, v frozen<{short}>, l list<frozen<{short}>>")
    db.run(f"INSERT INTO {t} (k, v, l) VALUES (1, {{x: 1}}, [{{x: 2}}, {{x: 3}}])")
    db.run(f"ALTER TYPE {name} ADD y text")
    assert db.rows(f"SELECT v.x, v.y FROM {t}") == [(1, None)]
    db.run(f"INSERT INTO {t} (k, v) VALUES (2, {{x: 1, y: 'new'}})")
    assert db.one(f"SELECT v.y FROM {t} WHERE k = 2") == "new"


def test_types_inside_types(db, point):
    outer = db.type(f"p frozen<{point}>, m frozen<map<text, frozen<{point}>>>").split(".")[1]
    t = db.table(f"k frozen<{outer}> PRIMARY KEY, v set<frozen<{outer}>>")
    value = "{p: {x: 1}, m: {'a': {y: 'q'}}}"
    db.run(f"INSERT INTO {t} (k, v) VALUES ({value}, {{{value}}})")
    expected = ((1, None, None), {"a": (None, "q", None)})
    assert db.one(f"SELECT k FROM {t} WHERE k = {value}") == expected


@pytest.mark.parametrize("value", ["{x: 'text'}", "{nope: 1}", "5", "(1, 'a')",
                                   "[1]"])
def test_refused_values(db, point, value):
    t = db.table(f"k int PRIMARY KEY, v frozen<{point}>")
    try:
        db.run(f"INSERT INTO {t} (k, v) VALUES (1, {value})")
    except InvalidRequest:
        return
    # A tuple of the fields is also a form of the value.
    assert value == "(1, 'a')" and db.one(f"SELECT v FROM {t}") == (1, "a", None)


def test_tuples(db):
    t = db.table("k int PRIMARY KEY, v tuple<int, text, float>, f frozen<tuple<int, tuple<text>>>")
    db.run(f"INSERT INTO {t} (k, v, f) VALUES (1, (1, 'a', 2.5), (3, ('x',)))"
           .replace("('x',)", "('x')"))
    db.run(f"INSERT INTO {t} (k, v) VALUES (2, (1, null, 0.5))")
    assert sorted(db.rows(f"SELECT k, v FROM {t}")) == [(1, (1, "a", 2.5)), (2, (1, None, 0.5))]
    assert db.prepared(f"SELECT k FROM {t} WHERE v = ? ALLOW FILTERING", (1, "a", 2.5)) == [(1,)]
    db.prepared(f"UPDATE {t} SET v = ? WHERE k = 1", (9, "b", None))
    assert db.one(f"SELECT v FROM {t} WHERE k = 1") == (9, "b", None)
    for value in ["(1, 'a', 1.0, 4)", "('a', 'a', 1.0)", "5"]:
        with pytest.raises(InvalidRequest):
            db.run(f"INSERT INTO {t} (k, v) VALUES (3, {value})")


def test_tuples_as_keys_are_ordered(db):
    t = db.table("p int, c tuple<int, text>, PRIMARY KEY (p, c)")
    values = ["(2, 'a')", "(1, 'z')", "(1, 'b')", "(-5, 'q')"]
    for value in values:
        db.run(f"INSERT INTO {t} (p, c) VALUES (1, {value})")
    expected = [(-5, "q"), (1, "b"), (1, "z"), (2, "a")]
    assert db.column(f"SELECT c FROM {t} WHERE p = 1") == expected
    assert db.column(f"SELECT c FROM {t} WHERE p = 1 AND c >= (1, 'c')") == expected[2:]


@pytest.mark.parametrize("of, text, value", [
    ("tuple<tuple<int>, list<int>>", "((-3),[])", ((-3,), [])),
    ("list<frozen<tuple<int>>>", "[(1),(2)]", [(1,), (2,)]),
    ("set<frozen<tuple<text>>>", "{('a')}", {("a",)}),
    ("map<frozen<tuple<int>>, frozen<tuple<tuple<text>>>>", "{(1): (('x'))}", {(1,): (("x",),)}),
    ("tuple<tuple<tuple<int>>>", "(((7)))", (((7,),),)),
    ("tuple<int>", "(1 + 2)", None), ("int", "(1 + 2) * (3)", 9), ("int", "((7))", 7),
    ("tuple<int, text>", "((1), ('x'))", (1, "x")), ("list<int>", "[(1), 2 * (3)]", [1, 6]),
    ("frozen<list<frozen<tuple<smallint>>>>", "[(32767)]", [(32767,)]),
])
def test_brackets_are_tuples_of_one_element_or_group(db, of, text, value):
    t = db.table(f"k int PRIMARY KEY, v frozen<{of}>" if of != "int" else "k int PRIMARY KEY, v int")
    if value is None:
        with pytest.raises(InvalidRequest):
            db.run(f"INSERT INTO {t} (k, v) VALUES (1, {text})")
        return
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, {text})")
    assert db.one(f"SELECT v FROM {t}") == value
    assert db.one(f"SELECT k FROM {t} WHERE v = {text} ALLOW FILTERING") == 1


def test_user_types_in_the_order_of_their_fields(db, point):
    one = db.type("x int").split(".")[1]
    outer = db.type(f"a frozen<tuple<smallint>>, b frozen<{one}>").split(".")[1]
    t = db.table(f"k int PRIMARY KEY, v frozen<{one}>, w {point}, o frozen<{outer}>, "
                 f"l list<frozen<{one}>>")
    db.run(f"INSERT INTO {t} (k, v, w, o, l) VALUES (1, ((7)), (1, 'a'), {{a: (32767), b: (5)}}, "
           "[(1), {x: 2}, ({x: 3})])")
    assert db.rows(f"SELECT v, w, o, l FROM {t}")[0] == (
        (7,), (1, "a", None), ((32767,), (5,)), [(1,), (2,), (3,)])
    db.refuse(f"UPDATE {t} SET v = (1, 2) WHERE k = 1", "too many")
    db.refuse(f"UPDATE {t} SET w = ('a', 1) WHERE k = 1", "component 0 is not of type int")
