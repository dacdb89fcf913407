"""Statements as data, and as CQL text with or without bound values.

A statement is a dict with a `kind`:

  create add_column drop_column rename drop truncate options      of the schema
  insert   values [(column, value)], json, ts, ttl, if
  update   sets [operation], where [Relation], ts, ttl, if
  delete   targets [("column"|"element", column, path)], where, ts, if
  batch    type, statements, ts, form (text or request)
  select   select, where, group, reversed, per_partition, limit, distinct, filtering, page
  wrong    text, expected: Invalid or Syntax
  wait     until a TTL of a second is over
  node     action: flush, compact, restart, kill

`bound`: values are sent beside the text. An operation of an UPDATE is ("set", column, value),
("add" or "prepend" or "remove", column, elements), ("element", column, path, value) or
("counter", column, delta). A condition is ("exists",), ("not exists",) or ("column", name, path, op,
value).
"""
import json

from model import UNSET, Column, Table
from values import SCALARS, Collection, quoted

INT = SCALARS["int"]
BIGINT = SCALARS["bigint"]


def table_of(s):
    """The table that a `create` makes."""
    keys = [Column(name, kind) for name, kind in s["keys"]]
    clustering = [Column(name, kind) for name, kind, _ in s["clustering"]]
    columns = [Column(*facts) for facts in s["columns"]]
    return Table(s["table"], keys, clustering, [d for _, _, d in s["clustering"]], columns)


class Writer:
    """Text with the values that go beside it; `bound` says whether any do."""

    def __init__(self, tables, keyspace, bound):
        self.tables, self.keyspace, self.bound, self.values = tables, keyspace, bound, []

    def term(self, kind, value):
        if self.bound:
            keep = value is None or value is UNSET
            self.values.append(value if keep else kind.encode(value))
            return "?"
        return "null" if value is None else kind.literal(value)

    def terms(self, kinds, values):
        return "(" + ", ".join(self.term(k, v) for k, v in zip(kinds, values)) + ")"

    def kind(self, s, name):
        """The type of a column; of one that is not there, what the statement was made with."""
        table = self.tables.get(s["table"])
        found = [c for c in table.all_columns() if c.name == name] if table else []
        return found[0].type if found else s["types"][name]

    def name(self, s):
        return f"{self.keyspace}.{s['table']}"

    def write(self, s):
        return getattr(self, "write_" + s["kind"])(s)

    def write_wrong(self, s):
        return s["text"].format(ks=self.keyspace)

    def write_create(self, s):
        keys = [(n, k.cql()) for n, k in s["keys"]]
        keys += [(n, k.cql()) for n, k, _ in s["clustering"]]
        rest = [(n, ("counter" if counter else k.cql()) + (" static" if static else ""))
                for n, k, static, counter in s["columns"]]
        inner = ", ".join(f"{n} {t}" for n, t in keys + rest)
        partition = ", ".join(n for n, _ in s["keys"])
        order = ", ".join(f"{n} {'DESC' if d else 'ASC'}" for n, _, d in s["clustering"])
        clustering = "".join(f", {n}" for n, _, _ in s["clustering"])
        tail = f" WITH CLUSTERING ORDER BY ({order})" if order else ""
        key = f"PRIMARY KEY (({partition}){clustering})"
        return f"CREATE TABLE {self.name(s)} ({inner}, {key}){tail}"

    def write_add_column(self, s):
        static = " static" if s["static"] else ""
        return f"ALTER TABLE {self.name(s)} ADD {s['name']} {s['type'].cql()}{static}"

    def write_drop_column(self, s):
        return f"ALTER TABLE {self.name(s)} DROP {s['name']}"

    def write_rename(self, s):
        return f"ALTER TABLE {self.name(s)} RENAME {s['name']} TO {s['to']}"

    def write_drop(self, s):
        return f"DROP TABLE {self.name(s)}"

    def write_truncate(self, s):
        return f"TRUNCATE {self.name(s)}"

    def write_options(self, s):
        return f"ALTER TABLE {self.name(s)} WITH {s['options']}"

    def using(self, s):
        parts = []
        if s.get("ts") is not None:
            parts.append("TIMESTAMP " + self.term(BIGINT, s["ts"]))
        if s.get("ttl"):
            parts.append("TTL " + self.term(INT, s["ttl"]))
        return " USING " + " AND ".join(parts) if parts else ""

    def write_insert(self, s):
        if s.get("json"):
            document = {n: None if v is None else self.kind(s, n).json(v)
                        for n, v in s["values"] if v is not None or s["json"] == "UNSET"}
            text = json.dumps(document, ensure_ascii=False)
            if self.bound:
                self.values.append(text.encode())
            body = " JSON " + ("?" if self.bound else quoted(text))
            body += " DEFAULT UNSET" if s["json"] == "UNSET" else ""
        else:
            names = ", ".join(n for n, _ in s["values"])
            body = f" ({names}) VALUES " + self.terms(
                [self.kind(s, n) for n, _ in s["values"]], [v for _, v in s["values"]])
        condition = " IF NOT EXISTS" if s.get("if") else ""
        return f"INSERT INTO {self.name(s)}{body}{condition}{self.using(s)}"

    def operation(self, s, op):
        what, name = op[0], op[1]
        kind = self.kind(s, name) if what != "counter" else BIGINT
        if what in ("counter", "add", "remove"):
            sign = "-" if what == "remove" else "+"
            value = op[2]
            if what == "remove" and kind.kind == "map":
                return f"{name} = {name} - {self.term(type_of_keys(kind), value)}"
            return f"{name} = {name} {sign} {self.term(kind, value)}"
        if what == "prepend":
            return f"{name} = {self.term(kind, op[2])} + {name}"
        if what == "set":
            return f"{name} = {self.term(kind, op[2])}"
        if kind.kind == "udt":
            return f"{name}.{kind.fields[op[2]]} = {self.term(kind.parts[op[2]], op[3])}"
        return f"{name}{self.path(kind, op[2])} = {self.term(kind.parts[-1], op[3])}"

    def path(self, kind, path):
        if kind.kind == "udt":
            return f".{kind.fields[path]}"
        return f"[{self.term(INT if kind.kind == 'list' else kind.parts[0], path)}]"

    def write_update(self, s):
        using = self.using(s)
        sets = ", ".join(self.operation(s, op) for op in s["sets"])
        return f"UPDATE {self.name(s)}{using} SET {sets}{self.where(s)}{self.conditions(s)}"

    def write_delete(self, s):
        targets = ", ".join(t[1] if t[0] == "column" else t[1] + self.path(self.kind(s, t[1]), t[2])
                            for t in s["targets"])
        middle = f" {targets}" if targets else ""
        using = self.using(s)
        return (f"DELETE{middle} FROM {self.name(s)}{using}"
                f"{self.where(s)}{self.conditions(s)}")

    def conditions(self, s):
        if not s.get("if"):
            return ""
        return " IF " + " AND ".join(self.condition(s, c) for c in s["if"])

    def condition(self, s, c):
        if c[0] != "column":
            return c[0].upper()
        _, name, path, op, value = c
        kind = self.kind(s, name)
        left = name + (self.path(kind, path) if path is not None else "")
        if path is not None:
            kind = kind.parts[path] if kind.kind == "udt" else kind.parts[-1]
        if op == "in":
            return f"{left} IN {self.terms([kind] * len(value), value)}"
        return f"{left} {op} {self.term(kind, value)}"

    def where(self, s):
        if not s["where"]:
            return ""
        return " WHERE " + " AND ".join(self.relation(s, r) for r in s["where"])

    def relation(self, s, r):
        kinds = [self.kind(s, n) for n in r.columns]
        names = ", ".join(r.columns)
        if r.op == "token":
            op, values = r.value
            return f"token({names}) {op} token{self.terms(kinds, values)}"
        if r.op == "in":
            return f"{names} IN {self.terms(kinds * len(r.value), r.value)}"
        if r.op == "tuples":
            return f"({names}) IN (" + ", ".join(self.terms(kinds, t) for t in r.value) + ")"
        if r.op.startswith("("):
            return f"({names}) {r.op[1:]} {self.terms(kinds, r.value)}"
        if r.op == "contains":
            return f"{names} CONTAINS {self.term(kinds[0].parts[-1], r.value)}"
        if r.op == "contains key":
            return f"{names} CONTAINS KEY {self.term(kinds[0].parts[0], r.value)}"
        if r.op == "entry":
            key, value = r.value
            left = self.term(kinds[0].parts[0], key)
            return f"{names}[{left}] = {self.term(kinds[0].parts[1], value)}"
        return f"{names} {r.op} {self.term(kinds[0], r.value)}"

    def write_batch(self, s):
        kind = {"logged": "", "unlogged": "UNLOGGED ", "counter": "COUNTER "}[s["type"]]
        using = self.using({"ts": s.get("ts")})
        inner = " ".join(self.write(part) + ";" for part in s["statements"])
        return f"BEGIN {kind}BATCH{using} {inner} APPLY BATCH"

    def item(self, s, item):
        what = item[0]
        if what in ("*", "column"):
            return item[-1]
        if what in ("writetime", "ttl"):
            return f"{what}({item[1]})"
        if what == "count":
            return "count(*)"
        if what == "aggregate":
            return f"{item[2]}({item[1]})"
        if what == "part":
            return item[1] + self.path(self.kind(s, item[1]), item[2])
        if what == "cast":
            return f"CAST({item[1]} AS {item[2]})"
        names = ", ".join(c.name for c in self.tables[s["table"]].keys) \
            if s["table"] in self.tables else "gone"
        return f"token({names})"

    def write_select(self, s):
        items = ", ".join(self.item(s, i) for i in s["select"])
        text = f"SELECT {'DISTINCT ' if s.get('distinct') else ''}{items} FROM {self.name(s)}"
        text += self.where(s)
        if s.get("group"):
            text += " GROUP BY " + ", ".join(s["group"])
        if s.get("order"):
            text += " ORDER BY " + ", ".join(f"{n} {d}" for n, d in s["order"])
        if s.get("per_partition") is not None:
            text += " PER PARTITION LIMIT " + self.term(INT, s["per_partition"])
        if s.get("limit") is not None:
            text += " LIMIT " + self.term(INT, s["limit"])
        return text + (" ALLOW FILTERING" if s.get("filtering") else "")


def type_of_keys(kind):
    return Collection("set", (kind.parts[0],))


def flat(statement):
    """What statements a statement is made of."""
    return statement["statements"] if statement["kind"] == "batch" else [statement]


def show_values(values):
    """Bound values as they stand in a script."""
    return ", ".join(repr(v) if v is None or v is UNSET else "0x" + v.hex() for v in values)
