"""Random statements against a node, and that this test can fail.

NEREID_RANDOM_SECONDS changes how long, NEREID_RANDOM_SEED repeats a run; run.py does more.
"""
import collections
import os
import struct

import pytest

import known
import model as semantics
import run
from generator import Generator
from model import CLOCK, Cell, Column, Model, Refused, Relation, Rows, Table, later
from shrink import shrink, simplify
from values import SCALARS, Collection, Fields, Vector

INT = SCALARS["int"]


def test_a_minute_of_random_statements():
    arguments = run.parse(["--seconds", os.environ.get("NEREID_RANDOM_SECONDS", "60")])
    told = []
    with run.start_node() as node:
        failures, counts = run.session(arguments, [run.Target(node, "nereid")], told.append)
    assert failures == 0, "\n".join(told)
    assert 100 < sum(counts.values())


# That it can fail: faults are planted into the answers of a node, and into the model.


def planted(change, count=12, short=True):
    """What is left of the first history that fails when answers are changed."""
    with run.start_node() as node:
        target = run.Target(node, "nereid")
        for seed in range(1, count):
            history = run.History(seed, 100, mutate=change)
            found = history.run([target], history.statements)
            if found and not short:
                return None
            if found:
                statements, again = history.shorten([target], found, 30)
                assert again
                return statements, history.script(statements)
    raise AssertionError("no history saw it")


def rows_only(change):
    def mutate(s, answer):
        kind, told = answer
        return (kind, change(s, told)) if s["kind"] == "select" and isinstance(kind, list) \
            else answer
    return mutate


@pytest.mark.parametrize("change", [
    pytest.param(rows_only(lambda s, rows: rows[:-1]), id="the last row is missing"),
    pytest.param(rows_only(lambda s, rows: rows[::-1]), id="rows are the other way round"),
    pytest.param(rows_only(lambda s, rows: rows + rows[-1:] if s.get("page") else rows),
                 id="a row twice in pages"),
    pytest.param(rows_only(lambda s, rows: [r[:-1] + (None,) for r in rows]), id="a lost value"),
    pytest.param(lambda s, answer: ([], []) if answer[0] == "Invalid" else answer,
                 id="everything is taken"),
    pytest.param(lambda s, answer: ("Invalid", "no") if s["kind"] == "delete" else answer,
                 id="no delete is taken"),
])
def test_a_planted_fault_is_found_and_shortened(change):
    statements, script = planted(change)
    assert len(statements) <= 5, script


def without_row_deletions(monkeypatch):
    monkeypatch.setattr(semantics.Model, "plan_delete", lambda *_: [])


def first_wins(monkeypatch):
    monkeypatch.setattr(semantics, "later", lambda a, b: a or b)


def values_before_deletions(monkeypatch):
    monkeypatch.setattr(semantics, "later", lambda a, b: a or b if a is None or b is None else max(
        a, b, key=lambda c: (c.ts, -c.rank)))


def collections_are_merged(monkeypatch):
    monkeypatch.setattr(semantics.Model, "assign", lambda self, row, column, value, ts, ttl: (
        self.elements(row, column, value or (), ts, ttl) if column.multi
        and value is not semantics.UNSET else ASSIGN(self, row, column, value, ts, ttl)))


ASSIGN = semantics.Model.assign


@pytest.mark.parametrize("plant", [without_row_deletions, first_wins, values_before_deletions,
                                   collections_are_merged])
def test_a_wrong_rule_of_merging_is_found(plant, monkeypatch):
    plant(monkeypatch)
    planted(lambda s, answer: answer, 40, short=False)


# The generator.


def label(s):
    """What a statement is, for counting."""
    yield s["kind"]
    for name in ("json", "ttl", "ts", "if", "group", "order", "limit", "per_partition", "distinct",
                 "page", "type", "form", "action", "filtering"):
        if s.get(name):
            extra = s[name] if isinstance(s[name], str) else ""
            yield f"{s['kind']} {name} {extra}".strip()
    yield f"{s['kind']} {'bound' if s['bound'] else 'text'}"
    for relation in s.get("where", ()):
        yield f"{s['kind']} where {relation.op}"
    for op in s.get("sets", ()):
        yield f"set {op[0]}"
    for item in s.get("select", ()):
        yield f"select {item[0]}"
    for condition in s.get("if") or ():
        yield f"if {condition[0]}" + (f" {condition[3]}" if condition[0] == "column" else "")
    if s["kind"] == "delete":
        yield "delete " + "+".join(sorted({t[0] for t in s["targets"]}) or ["rows"])
    for part in s.get("statements", ()):
        yield from (f"batched {text}" for text in label(part))


WANTED = """create add_column drop_column rename drop truncate options
insert update delete batch select wrong wait node
insert json NULL|insert json UNSET|insert ttl|insert ts|insert if|insert bound|insert text
update ttl|update ts|update if|update where in|delete where in|delete ts|delete if
delete rows|delete column|delete element
delete where (>|delete where (<=|delete where <|delete where >=
set set|set add|set prepend|set remove|set element|set counter
batch type logged|batch type unlogged|batch type counter|batch form text|batch form request|batch ts
batched insert if|batched update if|batched delete if|batched delete rows|batched update ts
if exists|if not exists|if column =|if column !=|if column in|if column <|if column >=
select *|select column|select writetime|select ttl|select count|select aggregate|select part
select cast|select token|select group|select order|select limit|select per_partition
select distinct|select page|select filtering|select where =|select where in|select where token
select where tuples|select where (>|select where contains|select where contains key
select where entry|node action flush|node action compact|node action kill|node action restart"""


def test_every_kind_of_statement_is_drawn():
    found = collections.Counter()
    for seed in range(150):
        for s in Generator(seed).history(run.STATEMENTS):
            found.update(label(s))
    first, *rest = WANTED.split("\n")
    wanted = first.split() + rest[0].split() + [w for line in rest[1:] for w in line.split("|")]
    assert [w for w in wanted if not found[w]] == []


def test_every_type_is_drawn():
    names = set(SCALARS) | {"list", "set", "map", "tuple", "vector", "udt"}

    def parts(kind):
        yield kind.name if not kind.parts else kind.kind
        for part in kind.parts:
            yield from parts(part)
    found = set()
    for seed in range(60):
        for s in Generator(seed).history(5):
            for column in s.get("columns", ()) if s["kind"] == "create" else ():
                found.update(parts(column[1]))
    assert names - found == set()


def test_the_same_seed_draws_the_same_statements():
    texts = [run.History(seed, 120).script(run.History(seed, 120).statements) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


# Shortening.


def test_what_is_not_needed_goes():
    assert shrink(list(range(100)), lambda items: {3, 50, 97} <= set(items)) == [3, 50, 97]
    assert shrink(list(range(7)), lambda items: True) in ([0], [6])


def test_a_statement_becomes_smaller():
    s = {"kind": "select", "bound": True, "limit": 3, "page": 2, "select": [("*",)],
         "where": [Relation(("v",), "=", 1), Relation(("w",), "=", 2)]}
    small = simplify([s], lambda items: any(r.columns == ("w",) for r in items[0]["where"]))
    assert small == [{"kind": "select", "bound": False, "limit": None, "page": None,
                      "select": [("*",)], "where": [Relation(("w",), "=", 2)]}]


# The model's rules.


def a_table():
    model = Model()
    model.tables["t"] = Table("t", [Column("p", INT)], [Column("c", INT)], [False], [
        Column("v", INT), Column("m", Collection("map", (INT, INT), True)),
        Column("l", Collection("list", (INT,), True)), Column("s", INT, True)])
    return model


def insert(ts, *values, **facts):
    names = ("p", "c", "v", "m", "l", "s")
    return {"kind": "insert", "table": "t", "ts": ts, "values": [
        (n, v) for n, v in zip(names, values) if v != "-"], **facts}


def update(ts, *sets, c=1):
    return {"kind": "update", "table": "t", "ts": ts, "sets": list(sets), "where": [
        Relation(("p",), "=", 1), Relation(("c",), "=", c)]}


def delete(ts, *where, targets=()):
    return {"kind": "delete", "table": "t", "ts": ts, "targets": list(targets),
            "where": [Relation((n,), op, v) for n, op, v in where]}


def read(model, *names, **facts):
    s = {"kind": "select", "table": "t", "select": [("column", n) for n in names], "where": []}
    return [tuple(None if c is None else int.from_bytes(c, "big", signed=True)
                  if len(c) == 4 else c for c in row) for row in model.apply(dict(s, **facts)).rows]


@pytest.mark.parametrize("statements, expected", [
    ([insert(5, 1, 1, 7), insert(4, 1, 1, 8)], [(1, 7)]),
    ([insert(5, 1, 1, 7), insert(5, 1, 1, 8)], [(1, 8)]),
    ([insert(5, 1, 1, 8), insert(5, 1, 1, 7)], [(1, 8)]),
    ([insert(5, 1, 1, 8), insert(5, 1, 1, None)], [(1, None)]),
    ([insert(5, 1, 1, None), insert(5, 1, 1, 8)], [(1, None)]),
    ([insert(5, 1, 1, 1, ttl=10**5), insert(5, 1, 1, 8)], [(1, 1)]),
    ([insert(5, 1, 1, 8), delete(5, ("p", "=", 1))], []),
    ([insert(6, 1, 1, 8), delete(5, ("p", "=", 1))], [(1, 8)]),
    ([insert(5, 1, 1, 8), insert(5, 1, 2, 9), delete(6, ("p", "=", 1), ("c", ">", 1))], [(1, 8)]),
    ([insert(5, 1, 1, 8), delete(6, ("p", "=", 1), ("c", "=", 1))], []),
    ([update(5, ("set", "v", 3))], [(1, 3)]),
    ([update(5, ("set", "v", 3)), update(6, ("set", "v", None))], []),
    ([insert(5, 1, 1, 3), update(6, ("set", "v", None))], [(1, None)]),
    ([insert(5, 1, "-", "-", "-", "-", 4)], [(None, None)]),
    ([insert(None, 1, 1, 3), insert(9, 1, 1, 4)], [(1, 3)]),
    ([insert(5, 1, 1, 3, ttl=1), {"kind": "wait"}], []),
])
def test_rules_of_merging(statements, expected):
    model = a_table()
    for s in statements:
        model.apply(s)
    assert read(model, "c", "v") == expected


@pytest.mark.parametrize("statements, column, expected", [
    ([update(5, ("set", "m", ((1, 1), (2, 2)))), update(5, ("add", "m", ((2, 3),)))], "m",
     ((1, 1), (2, 3))),
    ([update(5, ("set", "m", ((1, 1),))), update(6, ("set", "m", ((2, 2),)))], "m", ((2, 2),)),
    ([update(5, ("set", "m", ((1, 1),))), update(5, ("set", "m", ((2, 2),)))], "m",
     ((1, 1), (2, 2))),
    ([update(5, ("add", "m", ((1, 1), (2, 2)))), update(6, ("remove", "m", (1,)))], "m", ((2, 2),)),
    ([update(5, ("set", "l", (1, 2))), update(6, ("prepend", "l", (3, 4))),
      update(7, ("add", "l", (5,)))], "l", (3, 4, 1, 2, 5)),
    ([update(5, ("set", "l", (1, 2))), update(6, ("element", "l", 1, 9))], "l", (1, 9)),
    ([update(5, ("set", "l", (1, 2, 1))), update(6, ("remove", "l", (1,)))], "l", (2,)),
])
def test_rules_of_collections(statements, column, expected):
    model = a_table()
    for s in statements:
        model.apply(s)
    kind = model.tables["t"].columns[column].type
    assert read(model, column) == [(kind.encode(expected),)]


def test_an_index_out_of_bounds_is_refused():
    with pytest.raises(Refused):
        a_table().apply(update(5, ("element", "l", 0, 9)))


def test_a_column_that_comes_back_is_empty():
    model = a_table()
    model.apply(insert(5, 1, 1, 3))
    model.apply({"kind": "drop_column", "table": "t", "name": "v"})
    model.apply({"kind": "add_column", "table": "t", "name": "v", "type": INT, "static": False})
    assert read(model, "v") == [(None,)]
    model.apply(insert(6, 1, 1, 4))
    assert read(model, "v") == [(None,)], "written with a time before it was dropped"
    model.apply(insert(None, 1, 1, 5))
    assert read(model, "v") == [(5,)]


@pytest.mark.parametrize("json, shown", [(None, []), ("UNSET", [9])])
def test_json_names_static_columns_that_it_leaves_as_they_are(json, shown):
    """As Cassandra, a batch that is not applied shows the static row where it would be written."""
    model = a_table()
    model.apply(insert(5, 1, 1, "-", "-", "-", 9))
    conditional = [insert(None, 1, 2, 3, json=json), delete(None, ("p", "=", 1), ("c", "=", 3))]
    conditional[0]["if"], conditional[1]["if"] = [("not exists",)], [("exists",)]
    answer = model.apply({"kind": "batch", "type": "logged", "statements": conditional})
    assert not answer.applied
    names, rows = answer.existing
    assert [row[names.index("s")] for row in rows] == [INT.encode(v) for v in shown]


def test_merging_does_not_depend_on_the_order():
    cells = [Cell(ts, rank, expiry, value, 0) for ts in (1, CLOCK) for rank in (0, 1, 2)
             for expiry in (0, 5) for value in (b"a", b"b")]
    for a in cells:
        for b in cells:
            assert later(a, b) == later(b, a) and later(a, a) == a
            for c in cells[::3]:
                assert later(later(a, b), c) == later(a, later(b, c))


# Values.


@pytest.mark.parametrize("kind, value, expected", [
    (SCALARS["varint"], 128, "0080"), (SCALARS["varint"], -128, "80"), (SCALARS["varint"], 0, "00"),
    (SCALARS["duration"], (1, 2, 3), "020406"), (SCALARS["duration"], (0, 0, 64), "00008080"),
    (SCALARS["date"], 2**31, "80000000"),
    (Collection("list", (INT,)), (1,), "000000010000000400000001"),
    (Fields((INT, INT)), (1, None), "0000000400000001ffffffff"),
    (Vector(INT, 2), (1, 2), "0000000100000002"), (Vector(SCALARS["text"], 1), ("a",), "0161"),
])
def test_bytes_of_values(kind, value, expected):
    assert kind.encode(value).hex() == expected


@pytest.mark.parametrize("name, ordered", [
    ("double", [float("-inf"), -2.25, -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    ("varint", [-10**20, -1, 0, 10**20]), ("text", ["", "a", "b", "\u00e9"]),
])
def test_the_order_of_values(name, ordered):
    order = SCALARS[name].order
    assert [struct.pack(">d", v) if name == "double" else v for v in sorted(
        reversed(ordered), key=order)] == [struct.pack(">d", v) if name == "double" else v
                                           for v in ordered]


def test_known_differences_have_reasons():
    assert all(k.reason and k.server in ("nereid", "cassandra")
               for k in known.REFUSALS + known.ANSWERS)
    assert isinstance(Rows(None, []), tuple)
