"""Draws a schema and statements over it; the same seed gives the same ones.

The generator knows the schema as its own statements change it, and nothing of the data: a statement
says what it says whatever was before it, so any part of a list of them can be run again. What it
draws is meant to be good unless it is of the kind `wrong`; whether a good one is refused for what
the table holds (an index out of bounds) is for the model to say.
"""
import random

from model import UNSET, Model, Relation
from values import SCALARS, Fields, draw_column_type, draw_type

COMPARABLE = [name for name in SCALARS if name != "duration"]
INTEGERS = ("tinyint", "smallint", "int", "bigint")
OPTIONS = ["comment = 'c'", "gc_grace_seconds = 0", "gc_grace_seconds = 864000",
           "compression = {'sstable_compression': 'LZ4Compressor'}", "compression = {}",
           "compaction = {'class': 'LeveledCompactionStrategy'}",
           "compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 2}",
           "caching = {'keys': 'NONE', 'rows_per_partition': 'NONE'}"]
WRONG = [
    ("SELECT nope FROM {ks}.{t}", "Invalid"), ("SELECT * FROM {ks}.nope", "Invalid"),
    ("SELECT * FROM {ks}.{t} WHERE", "Syntax"), ("SELEKT * FROM {ks}.{t}", "Syntax"),
    ("INSERT INTO {ks}.{t} (nope) VALUES (1)", "Invalid"),
    ("INSERT INTO {ks}.{t} ({k}) VALUES (null)", "Invalid"),
    ("INSERT INTO {ks}.{t} ({k}) VALUES ({v}, {v})", "Invalid"),
    ("INSERT INTO {ks}.{t} ({k}, {k}) VALUES ({v}, {v})", "Invalid"),
    ("INSERT INTO {ks}.{t} () VALUES ()", "Syntax"),
    ("UPDATE {ks}.{t} SET nope = 1 WHERE {k} = {v}", "Invalid"),
    ("UPDATE {ks}.{t} SET {k} = {v} WHERE {k} = {v}", "Invalid"),
    ("DELETE FROM {ks}.{t}", "Syntax"), ("DELETE {k} FROM {ks}.{t} WHERE {k} = {v}", "Invalid"),
    ("DELETE FROM {ks}.{t} WHERE {k} > {v}", "Invalid"),
    ("SELECT * FROM {ks}.{t} LIMIT 0", "Invalid"), ("SELECT * FROM {ks}.{t} LIMIT 'a'", "Syntax"),
    ("SELECT * FROM {ks}.{t} ORDER BY {k}", "Invalid"),
    ("SELECT {k}, {k}, FROM {ks}.{t}", "Syntax"),
    ("SELECT * FROM {ks}.{t} WHERE nope = 1 ALLOW FILTERING", "Invalid"),
    ("SELECT nope({k}) FROM {ks}.{t}", "Invalid"),
    ("SELECT * FROM {ks}.{t} GROUP BY nope", "Invalid"),
    ("SELECT writetime({k}) FROM {ks}.{t}", "Invalid"),
    ("ALTER TABLE {ks}.{t} DROP nope", "Invalid"), ("ALTER TABLE {ks}.{t} DROP {k}", "Invalid"),
    ("ALTER TABLE {ks}.{t} ADD {k} int", "Invalid"), ("ALTER TABLE {ks}.{t} ADD x nope", "Invalid"),
    ("ALTER TABLE {ks}.{t} ADD x frozen<map<duration, int>>", "Invalid"),
    ("BEGIN BATCH APPLY", "Syntax"), ("BEGIN BATCH SELECT * FROM {ks}.{t}; APPLY BATCH", "Syntax"),
    ("CREATE TABLE {ks}.{t} (a int PRIMARY KEY)", "Exists"),
    ("CREATE TABLE {ks}.x (a int, a int, PRIMARY KEY (a))", "Invalid"),
    ("CREATE TABLE {ks}.x (a int)", "Invalid"),
    ("CREATE TABLE {ks}.x (a duration PRIMARY KEY)", "Invalid"),
    ("TRUNCATE {ks}.nope", "Invalid"), ("DROP TABLE {ks}.nope", "Invalid"),
    ("INSERT INTO {ks}.{t} JSON '{{'", "Invalid"),
    ("INSERT INTO {ks}.{t} JSON '{{\"nope\": 1}}'", "Invalid"),
]


class Generator:
    def __init__(self, seed):
        self.seed = seed
        self.dice = random.Random(seed)
        self.model = Model()
        self.pools, self.types = {}, []
        self.explicit = self.dice.choice([0, 0.5, 0.9])
        self.number = 0

    def chance(self, share):
        return self.dice.random() < share

    # The schema

    def history(self, count):
        """The user types, and `count` statements after those that make the tables."""
        for number in range(self.dice.randrange(3)):
            parts = tuple(draw_type(self.dice, 1, self.types)
                          for _ in range(self.dice.choice([1, 2, 3])))
            self.types.append(Fields(parts, f"u{number}", [f"f{i}" for i in range(len(parts))]))
        found = [self.create(f"t{n}", n == 1) for n in range(2)]
        while len(found) < count:
            found += self.next()
            if self.number % 15 == 0:
                found += [self.everything(name) for name in self.model.tables]
        return found

    def everything(self, name):
        """What shows any change that should not be."""
        return {"kind": "select", "table": name, "select": [("*",)], "where": [], "bound": False,
                "page": self.dice.choice([None, 1, 7]), "types": {}}

    def create(self, name, counter=False):
        dice = self.dice
        kind = lambda: draw_type(dice, 1, self.types, key=True)
        keys = [(f"p{i}", kind()) for i in range(dice.choice([1, 1, 1, 2, 3]))]
        clustering = [(f"c{i}", kind(), self.chance(0.4))
                      for i in range(dice.choice([0, 1, 1, 2, 2, 3]))]
        static = lambda: bool(clustering) and self.chance(0.25)
        if counter:
            columns = [(f"n{i}", SCALARS["bigint"], static(), True)
                       for i in range(dice.choice([1, 2]))]
        else:
            columns = [(f"v{i}", draw_column_type(dice, self.types), static(), False)
                       for i in range(dice.randrange(1, 6))]
            columns.append(("i", SCALARS[dice.choice(INTEGERS)], False, False))
        s = {"kind": "create", "table": name, "keys": keys, "clustering": clustering,
             "columns": columns, "bound": False}
        self.model.do_create(s)
        table = self.model.tables[name]
        table.pool = {c: self.pool(c, 2 if c in table.keys else 4,
                                   len(keys) == 1 and c in table.keys)
                      for c in table.key_columns()}
        table.counter = counter
        return s

    def pool(self, column, count, alone):
        """The values that a key column gets. A partition key of one column is not empty."""
        found = []
        while len(found) < count:
            value = column.type.draw(self.dice)
            if not alone or column.type.encode(value):
                found.append(value)
        return found

    def next(self):
        self.number += 1
        table = self.dice.choice([*self.model.tables.values()] + [self.model.tables["t0"]] * 2)
        kinds = [(self.insert, 20), (self.update, 20), (self.delete, 12), (self.batch, 8),
                 (self.select, 50), (self.conditional, 8), (self.wrong, 5), (self.schema, 3),
                 (self.node, 3), (self.waiting, 0.4)]
        make = self.dice.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        found = make(table)
        found = found if isinstance(found, list) else [found]
        for s in found:
            s.setdefault("bound", self.chance(0.5))
        return found

    def schema(self, table):
        """One change of the schema, or of the whole table."""
        what = self.dice.choice(["add", "add", "drop", "drop", "again", "rename", "truncate",
                                 "options", "recreate"])
        s = {"table": table.name, "bound": False}
        plain = [c for c in table.columns.values() if not c.counter and c.name != "i"]
        if what == "add" and not table.counter:
            static = bool(table.clustering) and self.chance(0.2)
            s.update(kind="add_column", name=f"a{self.number}", static=static,
                     type=draw_column_type(self.dice, self.types))
        elif what == "drop" and 1 < len(plain):
            s.update(kind="drop_column", name=self.dice.choice(plain).name)
        elif what == "again" and table.gone:
            name = self.dice.choice(sorted(table.gone))
            if name in table.columns:
                return []
            old = table.gone[name]
            s.update(kind="add_column", name=name, type=old.type, static=old.static)
        elif what == "rename":
            s.update(kind="rename", name=self.dice.choice(table.key_columns()).name,
                     to=f"k{self.number}")
        elif what == "recreate" and self.chance(0.3):
            del self.model.tables[table.name]
            return [dict(s, kind="drop"), self.create(table.name, table.counter)]
        elif what == "truncate":
            return [dict(s, kind="truncate")]
        else:
            # A deletion may be forgotten at once then, and what is written after it with a time
            # before its own shows up or not.
            forgets = "gc_grace_seconds = 0"
            options = [one for one in OPTIONS if one != forgets or not self.explicit]
            return [dict(s, kind="options", options=self.dice.choice(options))]
        self.model.apply(s)
        return [s]

    def node(self, _table):
        action = self.dice.choices(["flush", "compact", "kill", "restart"], [12, 8, 0.6, 0.3])[0]
        return {"kind": "node", "action": action, "bound": False}

    def wrong(self, table):
        text, expected = self.dice.choice(WRONG)
        key = table.keys[0]
        text = text.replace("{t}", table.name).replace("{k}", key.name)
        literal = key.type.literal(table.pool[key][0]).replace("{", "{{").replace("}", "}}")
        if "WHERE {k} = {v}".replace("{k}", key.name) in text and "nope" not in text and (
                1 < len(table.key_columns())):
            expected = "Invalid"
        return {"kind": "wrong", "text": text.replace("{v}", literal), "expected": expected,
                "bound": False}

    # Writes

    def types_of(self, table):
        """What columns are at this time: a shortened list of statements may lack some."""
        return {c.name: c.type for c in table.all_columns()}

    def pick(self, table, columns):
        return [(c.name, self.dice.choice(table.pool[c])) for c in columns]

    def times(self, ttl=True):
        found = {}
        if self.chance(self.explicit):
            found["ts"] = self.dice.randrange(1, 12)
        if ttl and self.chance(0.15):
            found["ttl"] = 100000 + 1000 * self.number
        return found

    def value(self, column, bound):
        dice = self.dice.random()
        if dice < 0.1:
            return None
        if dice < 0.15 and bound:
            return UNSET
        return column.type.draw(self.dice)

    def base(self, kind, table, bound):
        return {"kind": kind, "table": table.name, "bound": bound, "types": self.types_of(table)}

    def insert(self, table, bound=None, plain=False):
        if table.counter:
            return self.update(table, bound)
        bound = self.chance(0.5) if bound is None else bound
        s = self.base("insert", table, bound)
        whole = not table.clustering or self.chance(0.93)
        statics = [c for c in table.columns.values() if c.static]
        whole = whole or not statics
        rest = [c for c in table.columns.values() if whole or c.static]
        chosen = [c for c in rest if self.chance(0.6)]
        whole = whole or not chosen
        keys = table.key_columns() if whole else table.keys
        json = self.dice.choice([None, None, None, "NULL", "UNSET"]) if whole else None
        if json == "NULL":
            chosen = rest
        values = [(c.name, self.value(c, bound and not json)) for c in chosen]
        s.update(values=self.pick(table, keys) + values, json=json)
        self.dice.shuffle(s["values"])
        if not plain:
            s.update(self.times())
        return s

    def equal_keys(self, table, columns, many=False):
        found = []
        for c in columns:
            if many and self.chance(0.15):
                count = self.dice.randrange(1, 4)
                values = [self.dice.choice(table.pool[c]) for _ in range(count)]
                found.append(Relation((c.name,), "in", values))
            else:
                found.append(Relation((c.name,), "=", self.dice.choice(table.pool[c])))
        return found

    def update(self, table, bound=None, plain=False, many=True):
        bound = self.chance(0.5) if bound is None else bound
        s = self.base("update", table, bound)
        columns = list(table.columns.values())
        self.dice.shuffle(columns)
        columns = columns[:self.dice.randrange(1, 4)]
        if table.clustering and all(c.static for c in columns):
            where = self.equal_keys(table, table.keys, many and not table.counter)
        else:
            where = self.equal_keys(table, table.keys, many and not table.counter)
            where += self.equal_keys(table, table.clustering)
        lists = any(c.type.has("list") and c.multi for c in columns)
        if lists:
            where = [Relation(r.columns, "=", r.value[0]) if r.op == "in" else r for r in where]
        s.update(where=where, sets=[self.operation(c, bound) for c in columns])
        if not plain and not table.counter:
            s.update(self.times())
        return s

    def operation(self, column, bound):
        if column.counter:
            return ("counter", column.name, self.dice.choice([1, -1, 5, 2**40]))
        kind, dice = column.type, self.dice
        if not column.multi or self.chance(0.25):
            return ("set", column.name, self.value(column, bound))
        if kind.kind == "udt":
            number = dice.randrange(len(kind.parts))
            value = None if self.chance(0.15) else kind.parts[number].draw(dice)
            return ("element", column.name, number, value)
        what = dice.choice(["add", "add", "remove", "element", "prepend"])
        if what == "remove":
            part = kind.parts[0]
            items = [part.draw(dice) for _ in range(dice.choice([1, 1, 2]))]
            from values import Collection
            return ("remove", column.name, Collection(
                "list" if kind.kind == "list" else "set", (part,)).normal(items))
        if what == "element" and kind.kind != "set":
            path = dice.choice([0, 0, 1, 2]) if kind.kind == "list" else kind.parts[0].draw(dice)
            value = None if self.chance(0.15) else kind.parts[-1].draw(dice)
            return ("element", column.name, path, value)
        if what == "prepend" and kind.kind == "list":
            return ("prepend", column.name, kind.draw(dice))
        return ("add", column.name, kind.draw(dice))

    def delete(self, table, bound=None, plain=False):
        if table.counter:
            return self.update(table, bound)
        bound = self.chance(0.5) if bound is None else bound
        s = self.base("delete", table, bound)
        shape = self.dice.choice(["cells", "cells", "row", "partition", "range", "range"])
        where, targets = self.equal_keys(table, table.keys, shape != "cells"), []
        if shape == "cells":
            columns = [c for c in table.columns.values() if self.chance(0.4)]
            if not columns:
                columns = [self.dice.choice(list(table.columns.values()))]
            targets = [self.target(c) for c in columns]
            if not all(c.static for c in columns):
                where += self.equal_keys(table, table.clustering)
        elif shape == "row":
            where += self.equal_keys(table, table.clustering, True)
        elif shape == "range":
            where += self.clustering(table)
        s.update(where=where, targets=targets)
        if not plain:
            s.update(self.times(ttl=False))
        return s

    def target(self, column):
        kind, dice = column.type, self.dice
        if not column.multi or self.chance(0.4):
            return ("column", column.name, None)
        if kind.kind == "udt":
            return ("element", column.name, dice.randrange(len(kind.parts)))
        if kind.kind == "list":
            return ("element", column.name, dice.choice([0, 0, 1]))
        return ("element", column.name, kind.parts[0].draw(dice))

    def batch(self, table):
        bound, count = self.chance(0.5), self.dice.choice([1, 2, 3, 4])
        s = {"kind": "batch", "table": table.name, "bound": bound,
             "form": self.dice.choice(["text", "request"])}
        if table.counter:
            parts = [self.update(table, bound, True) for _ in range(count)]
            return dict(s, type="counter", statements=parts)
        makers = [self.insert, self.update, self.delete]
        parts = [self.dice.choice(makers)(table, bound, True) for _ in range(count)]
        if s["form"] == "text" and self.chance(self.explicit):
            s["ts"] = self.dice.randrange(1, 12)
        elif self.chance(self.explicit):
            for part in parts:
                part["ts"] = self.dice.randrange(1, 12)
        # What two statements of one batch put into a list at one time has no order of its own.
        kinds = [c for c in table.columns.values() if c.multi and c.type.kind == "list"]
        if kinds:
            parts = parts[:1]
        return dict(s, type=self.dice.choice(["logged", "unlogged"]), statements=parts)

    def waiting(self, table):
        """What expires after a second, and the time for it."""
        if table.counter:
            return []
        s = self.insert(table) if self.chance(0.5) else self.update(table)
        if "ts" in s:
            # No other write has this time. Whether what has expired counts as a deletion beside a
            # write of the same time depends on whether a compaction has met it.
            s["ts"] = 100 + self.number
        return [dict(s, ttl=1), {"kind": "wait", "bound": False}]

    # Conditions

    def conditional(self, table):
        if table.counter:
            return []
        if self.chance(0.25):
            return self.conditional_batch(table)
        s = self.one_conditional(table, self.chance(0.5))
        return s

    def one_conditional(self, table, bound):
        kind = self.dice.choice(["insert", "update", "update", "delete"])
        if kind == "insert":
            s = self.insert(table, bound, True)
            names = {n for n, _ in s["values"]}
            if any(c.name not in names for c in table.clustering):
                return self.one_conditional(table, bound)
            return dict(s, **{"if": [("not exists",)]})
        if kind == "update":
            s = self.update(table, bound, True, many=False)
        else:
            s = dict(self.base("delete", table, bound), targets=[], where=self.equal_keys(
                table, table.key_columns()))
        whole = len(s["where"]) == len(table.key_columns())
        if self.chance(0.3):
            return dict(s, **{"if": [("exists",)]})
        columns = [c for c in table.columns.values() if whole or c.static]
        return dict(s, **{"if": [self.condition(self.dice.choice(columns))
                                 for _ in range(self.dice.choice([1, 1, 2]))]})

    def condition(self, column):
        kind, dice, path = column.type, self.dice, None
        if column.multi and self.chance(0.5) and kind.kind != "set":
            if kind.kind == "udt":
                path = dice.randrange(len(kind.parts))
                kind = kind.parts[path]
            else:
                path = dice.randrange(3) if kind.kind == "list" else kind.parts[0].draw(dice)
                kind = kind.parts[-1]
        ops = ["=", "=", "!=", "in"]
        if kind.parts == () and not kind.has("duration"):
            ops += ["<", "<=", ">", ">="]
        op = dice.choice(ops)
        if op == "in":
            return ("column", column.name, path, op, [kind.draw(dice) for _ in range(2)])
        value = None if op in ("=", "!=") and self.chance(0.25) else kind.draw(dice)
        return ("column", column.name, path, op, value)

    def conditional_batch(self, table):
        bound = self.chance(0.5)
        count = self.dice.choice([2, 3])
        first = [self.dice.choice(table.pool[c]) for c in table.keys]
        parts = [self.one_conditional(table, bound) for _ in range(count)]
        for part in parts:
            self.move(table, part, first)
        kinds = [c for c in table.columns.values() if c.multi and c.type.kind == "list"]
        if kinds:
            return []
        return {"kind": "batch", "table": table.name, "bound": bound, "type": "logged",
                "form": self.dice.choice(["text", "request"]), "statements": parts}

    @staticmethod
    def move(table, part, values):
        """Puts a statement into the partition of the batch."""
        wanted = {c.name: v for c, v in zip(table.keys, values)}
        if part["kind"] == "insert":
            part["values"] = [(n, wanted.get(n, v)) for n, v in part["values"]]
        else:
            part["where"] = [Relation(r.columns, "=", wanted[r.columns[0]])
                             if r.columns[0] in wanted else r for r in part["where"]]

    # Reads

    def clustering(self, table):
        """Relations on the clustering columns that need no filtering; at least one."""
        columns, dice = table.clustering, self.dice
        if not columns:
            return []
        depth = dice.randrange(len(columns))
        found = self.equal_keys(table, columns[:depth])
        last = columns[depth]
        draw = lambda c: dice.choice(table.pool[c])
        shape = dice.choice(["=", "slice", "slice", "both", "tuple", "tuple both"])
        if shape == "=" :
            return found + [Relation((last.name,), "=", draw(last))]
        names = tuple(c.name for c in columns[depth:dice.randrange(depth, len(columns)) + 1])
        values = lambda: [draw(table.find(n)) for n in names]
        if shape.startswith("tuple"):
            found.append(Relation(names, dice.choice(["(>", "(>="]), values()))
            if shape == "tuple both":
                found.append(Relation(names, dice.choice(["(<", "(<="]), values()))
            return found
        ops = ["<", "<=", ">", ">="] if shape == "slice" else [">", ">="]
        found.append(Relation((last.name,), dice.choice(ops), draw(last)))
        if shape == "both":
            found.append(Relation((last.name,), dice.choice(["<", "<="]), draw(last)))
        return found

    def select(self, table):
        dice = self.dice
        bound = self.chance(0.5)
        s = self.base("select", table, bound)
        s.update(select=[("*",)], where=[], filtering=False,
                 page=dice.choice([None, None, 1, 2, 3, 5, 10]))
        shape = dice.choice(["all", "partition", "partition", "partition", "in", "token", "filter",
                             "filter", "distinct", "tuples"])
        if shape == "distinct":
            return self.select_distinct(table, s)
        if shape == "token":
            names = tuple(c.name for c in table.keys)
            for op in dice.choice([[">"], [">="], ["<"], ["<="], [">", "<="], ["="]]):
                values = [dice.choice(table.pool[c]) for c in table.keys]
                s["where"].append(Relation(names, "token", (op, values)))
        elif shape in ("partition", "in", "tuples"):
            s["where"] = self.equal_keys(table, table.keys, shape == "in")
            if shape == "tuples" and table.clustering:
                names = tuple(c.name for c in table.clustering)
                tuples = [[dice.choice(table.pool[c]) for c in table.clustering]
                          for _ in range(dice.randrange(1, 4))]
                s["where"].append(Relation(names, "tuples", tuples))
            elif self.chance(0.6):
                s["where"] += self.clustering(table)
        elif shape == "filter":
            self.filters(table, s)
        self.limits(table, s, shape)
        self.items(table, s)
        return s

    def filters(self, table, s):
        dice = self.dice
        s["filtering"] = True
        if self.chance(0.4):
            s["where"] = self.equal_keys(table, table.keys)
        named = {n for r in s["where"] for n in r.columns}
        columns = [c for c in table.all_columns() if c.name not in named]
        dice.shuffle(columns)
        for column in columns[:dice.choice([1, 1, 2])]:
            found = self.filter(table, column)
            if found:
                s["where"].append(found)

    def filter(self, table, column):
        kind, dice = column.type, self.dice
        if column in table.key_columns():
            ops = ["=", "=", "<", ">", "<=", ">="] if column in table.clustering else ["="]
            return Relation((column.name,), dice.choice(ops), dice.choice(table.pool[column]))
        if kind.parts and kind.kind in ("list", "set", "map"):
            ways = ["contains", "contains key"] + (["entry"] if kind.multi else [])
            what = dice.choice(ways) if kind.kind == "map" else "contains"
            if what == "entry":
                return Relation((column.name,), what, [p.draw(dice) for p in kind.parts])
            part = kind.parts[0] if what == "contains key" else kind.parts[-1]
            return Relation((column.name,), what, part.draw(dice))
        if column.multi:
            return None
        ops = ["="]
        if not kind.parts and not kind.has("duration"):
            ops += ["<", ">", "<=", ">="]
        return Relation((column.name,), dice.choice(ops), kind.draw(dice))

    def limits(self, table, s, shape):
        dice = self.dice
        if self.chance(0.25):
            s["limit"] = dice.choice([1, 2, 3, 7])
        if self.chance(0.15):
            s["per_partition"] = dice.choice([1, 2, 3])
        names = {r.columns[0] for r in s["where"] if r.op == "="}
        single = all(c.name in names for c in table.keys)
        if table.clustering and single and shape in ("partition", "tuples") and self.chance(0.5):
            s["reversed"] = self.chance(0.7)
            s["order"] = [(c.name, "DESC" if d != s["reversed"] else "ASC")
                          for c, d in zip(table.clustering, table.descending)]

    def items(self, table, s):
        """What is selected; mostly everything."""
        dice, shape = self.dice, self.dice.random()
        if shape < 0.5:
            return
        plain = [c for c in table.columns.values() if not c.counter]
        if shape < 0.7:
            wanted = [("column", c.name) for c in table.all_columns() if self.chance(0.5)]
            for c in plain:
                if not c.multi and self.chance(0.3):
                    wanted.append((dice.choice(["writetime", "ttl"]), c.name))
                elif c.multi and c.type.kind == "map" and self.chance(0.4):
                    wanted.append(("part", c.name, c.type.parts[0].draw(dice)))
                elif c.type.parts and c.type.kind == "udt" and self.chance(0.6):
                    wanted.append(("part", c.name, dice.randrange(len(c.type.parts))))
                elif not c.type.parts and c.type.name == "int" and self.chance(0.5):
                    wanted.append(("cast", c.name, dice.choice(["text", "bigint"])))
            if self.chance(0.2):
                wanted.append(("token",))
            s["select"] = wanted or [("*",)]
        else:
            self.aggregates(table, s)

    def aggregates(self, table, s):
        dice = self.dice
        s.pop("per_partition", None)
        wanted = [("count",)]
        for c in table.all_columns():
            ordered = c.type.parts == () and not c.counter and c.type.name != "duration"
            if ordered and self.chance(0.4):
                functions = ["min", "max", "count"]
                if c.type.name in INTEGERS:
                    functions += ["sum", "sum"]
                wanted.append(("aggregate", c.name, dice.choice(functions)))
        if self.chance(0.5):
            depth = dice.randrange(len(table.clustering) + 1)
            s["group"] = [c.name for c in table.keys + table.clustering[:depth]]
            wanted = [("column", n) for n in s["group"]] + wanted
        s["select"] = wanted

    def select_distinct(self, table, s):
        statics = [c.name for c in table.columns.values() if c.static and self.chance(0.6)]
        s.update(distinct=True, select=[("column", c.name) for c in table.keys]
                 + [("column", n) for n in statics])
        if self.chance(0.4):
            s["where"] = self.equal_keys(table, table.keys, True)
        if self.chance(0.3):
            s["limit"] = self.dice.choice([1, 2])
        return s
