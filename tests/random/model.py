"""A naive model of what CQL means: cells with timestamps, deletions, merging, reading.

Statements come as data (`statements.py` says how they look); `Model.apply` gives what a server must
answer: `Rows`, `Done`, `Applied` or, raised, `Refused`. Nothing here is fast, nothing is shared
with the server. What is written without a timestamp gets one from a count that is above
all explicit ones, as the server's clock is.

Merge rules: a cell loses to a deletion of its own or a later timestamp. Of two cells the later one
wins; of one timestamp a dead one, then one that expires, then the one that expires later, then the
greater bytes. A row is there if its marker lives or a cell of a column that still exists does.
"""
from collections import namedtuple

from cassandra.metadata import Murmur3Token

CLOCK = 10**17
UNSET = type("Unset", (), {"__repr__": lambda self: "UNSET"})()
Rows = namedtuple("Rows", "names rows")
Done = namedtuple("Done", "")
Applied = namedtuple("Applied", "applied before existing")
Cell = namedtuple("Cell", "ts rank expiry value ttl")
Relation = namedtuple("Relation", "columns op value", defaults=(None,))
LIVE, EXPIRING, DEAD = 0, 1, 2


class Refused(Exception):
    """The server must refuse; `kind` is Invalid or Syntax."""

    def __init__(self, kind, why):
        super().__init__(f"{kind}: {why}")
        self.kind = kind


class Near:
    """A number that depends on the server's clock: a timestamp, or what is left of a TTL."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def __repr__(self):
        return f"{self.low}..{self.high}"


def token_of(raw):
    """Where a partition lies on the ring; the least number is no token."""
    token = Murmur3Token.hash_fn(raw)
    return 2**63 - 1 if token == -2**63 else token


def later(a, b):
    """The winner of two cells."""
    if a is None or b is None:
        return a or b
    return max(a, b, key=lambda c: (c.ts, c.rank, c.expiry, c.value or b""))


class Column:
    def __init__(self, name, kind, static=False, counter=False):
        self.name, self.type, self.static, self.counter = name, kind, static, counter
        self.multi = getattr(kind, "multi", False)
        self.dropped = -1


class Multi:
    """A column whose elements are cells: by path, with one deletion of all."""

    def __init__(self):
        self.deleted, self.cells = -1, {}

    def put(self, path, cell):
        self.cells[path] = later(self.cells.get(path), cell)


class Row:
    def __init__(self):
        self.marker, self.deleted, self.cells, self.counters = None, -1, {}, {}

    def multi(self, name):
        return self.cells.setdefault(name, Multi())


class Partition:
    def __init__(self, key):
        self.key, self.deleted, self.static = key, -1, Row()
        self.rows, self.ranges = {}, []


class Table:
    """`keys`: Columns of the partition key; `clustering`: Columns, `descending` beside them."""

    def __init__(self, name, keys, clustering, descending, columns):
        self.name, self.keys, self.clustering = name, list(keys), list(clustering)
        self.descending = list(descending)
        self.columns = {c.name: c for c in columns}
        self.gone = {}
        self.partitions = {}

    def key_columns(self):
        return self.keys + self.clustering

    def all_columns(self):
        """As `SELECT *` gives them."""
        rest = sorted(self.columns.values(), key=lambda c: (not c.static, c.name))
        return self.key_columns() + rest

    def find(self, name):
        for column in self.key_columns():
            if column.name == name:
                return column
        if name not in self.columns:
            raise Refused("Invalid", f"no column {name}")
        return self.columns[name]

    def ring_key(self, values):
        raw = [c.type.encode(v) for c, v in zip(self.keys, values)]
        if len(raw) == 1:
            return raw[0]
        return b"".join(len(r).to_bytes(2, "big") + r + b"\0" for r in raw)

    def ring_order(self, partition):
        raw = self.ring_key(partition.key)
        return (token_of(raw), raw)

    def row_order(self, values):
        return [Reversed(c.type.order(v)) if d else Forward(c.type.order(v))
                for c, v, d in zip(self.clustering, values, self.descending)]

    def partition(self, values):
        raw = self.ring_key(values)
        if raw not in self.partitions:
            self.partitions[raw] = Partition(tuple(values))
        return self.partitions[raw]

    def row(self, partition, values):
        raw = tuple(c.type.encode(v) for c, v in zip(self.clustering, values))
        if raw not in partition.rows:
            partition.rows[raw] = (tuple(values), Row())
        return partition.rows[raw][1]


class Forward:
    def __init__(self, order):
        self.order = order

    def __lt__(self, other):
        return self.order < other.order

    def __eq__(self, other):
        return self.order == other.order


class Reversed(Forward):
    def __lt__(self, other):
        return other.order < self.order


def on_existence(s):
    """Whether the condition of a statement asks for a row, not for what it holds."""
    return any(c[0] != "column" for c in s["if"])


def changed(s):
    """The columns that a statement changes, and of an INSERT those of the key too."""
    if s["kind"] == "insert":
        return [name for name, _ in s["values"]]
    return [item[1] for item in s["sets" if s["kind"] == "update" else "targets"]]


class Reader:
    """What is visible of a row, at the model's present."""

    def __init__(self, table, partition, values, row):
        self.table, self.partition, self.values, self.row = table, partition, values, row
        deleted = max(partition.deleted, row.deleted)
        if values is not None:
            for relations, ts in partition.ranges:
                if all(holds(table, r, lambda c: self.key(c)) for r in relations):
                    deleted = max(deleted, ts)
        self.deleted = deleted

    def columns(self):
        """Those that it can have values of: the static row has none of the clustered ones."""
        every = self.table.all_columns()
        if self.values is not None:
            return every
        return [c for c in every if c.static or c in self.table.keys]

    def key(self, column):
        for c, v in zip(self.table.clustering, self.values or ()):
            if c is column:
                return v
        for c, v in zip(self.table.keys, self.partition.key):
            if c is column:
                return v
        return None

    def lives(self, cell, column, deleted=-1):
        return (cell is not None and cell.rank != DEAD
                and max(self.deleted, deleted, column.dropped) < cell.ts)

    def cells(self, column):
        """The live elements of a multi-cell column, in their order."""
        multi = self.row.cells.get(column.name)
        if multi is None:
            return []
        found = [(p, c) for p, c in multi.cells.items() if self.lives(c, column, multi.deleted)]
        if column.type.kind in ("list", "udt"):
            return sorted(found, key=lambda pair: pair[0])
        part = column.type.parts[0]
        return sorted(found, key=lambda pair: part.order(pair[1].value[0]))

    def value(self, column):
        """The value of a column, or None."""
        if column.counter:
            return self.row.counters.get(column.name)
        if not column.multi:
            cell = self.row.cells.get(column.name)
            return cell.value[0] if self.lives(cell, column) else None
        found = self.cells(column)
        if not found:
            return None
        if column.type.kind == "udt":
            fields = {p: c.value[0] for p, c in found}
            return tuple(fields.get(i) for i in range(len(column.type.parts)))
        if column.type.kind == "map":
            return tuple(tuple(c.value.items) for _, c in found)
        return tuple(c.value[0] for _, c in found)

    def cell(self, column):
        cell = self.row.cells.get(column.name)
        return cell if self.lives(cell, column) else None

    def exists(self):
        marker = self.row.marker
        if marker is not None and marker.rank != DEAD and self.deleted < marker.ts:
            return True
        return any(self.value(c) is not None for c in self.table.columns.values()
                   if c.static == (self.values is None))


def compare(kind, a, op, b):
    """What `a op b` is for values of a type that are not null."""
    x, y = kind.order(a), kind.order(b)
    if op in ("=", "!="):
        return (kind.encode(a) == kind.encode(b)) == (op == "=")
    return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


def holds(table, relation, get):
    """Whether a relation of WHERE holds; null equals nothing."""
    columns = [table.find(name) for name in relation.columns]
    op, wanted = relation.op, relation.value
    values = [get(c) for c in columns]
    if op == "token":
        return token_holds(table, wanted, values)
    if any(v is None for v in values):
        return False
    kind, value = columns[0].type, values[0]
    if op == "in":
        return any(kind.encode(value) == kind.encode(w) for w in wanted)
    if op == "tuples":
        return any(all(c.type.encode(v) == c.type.encode(w) for c, v, w in zip(columns, values, t))
                   for t in wanted)
    if op.startswith("("):
        return compare_tuples(columns, values, op[1:], wanted)
    if op == "contains":
        part = kind.parts[-1]
        items = [v[1] for v in value] if kind.kind == "map" else value
        return any(part.encode(i) == part.encode(wanted) for i in items)
    if op == "contains key":
        return any(kind.parts[0].encode(k) == kind.parts[0].encode(wanted) for k, _ in value)
    if op == "entry":
        return any(kind.parts[0].encode(k) == kind.parts[0].encode(wanted[0])
                   and kind.parts[1].encode(v) == kind.parts[1].encode(wanted[1])
                   for k, v in value)
    return compare(kind, value, op, wanted)


def compare_tuples(columns, values, op, wanted):
    """Columns together: as one value, compared from the left, whatever order the table has."""
    pairs = list(zip(columns, wanted))
    x = [c.type.order(v) for c, v in zip(columns, values)][:len(pairs)]
    y = [c.type.order(w) for c, w in pairs]
    return {"=": x == y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


def token_holds(table, wanted, values):
    op, bound = wanted
    x, y = token_of(table.ring_key(values)), token_of(table.ring_key(bound))
    return {"=": x == y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


class Model:
    """All tables of one keyspace."""

    def __init__(self):
        self.tables = {}
        self.clock = CLOCK
        self.places = 0

    def now(self):
        self.clock += 10
        return self.clock

    def table(self, name):
        if name not in self.tables:
            raise Refused("Invalid", f"no table {name}")
        return self.tables[name]

    def apply(self, statement):
        return getattr(self, "do_" + statement["kind"])(statement)

    # Schema

    def do_create(self, s):
        if s["table"] in self.tables:
            raise Refused("Exists", "it exists")
        from statements import table_of
        self.tables[s["table"]] = table_of(s)
        return Done()

    def do_drop(self, s):
        self.table(s["table"])
        del self.tables[s["table"]]
        return Done()

    def do_truncate(self, s):
        self.table(s["table"]).partitions.clear()
        return Done()

    def do_options(self, s):
        self.table(s["table"])
        return Done()

    def do_add_column(self, s):
        table = self.table(s["table"])
        name = s["name"]
        if name in table.columns or name in [c.name for c in table.key_columns()]:
            raise Refused("Invalid", "it is there")
        old = table.gone.get(name)
        if old and (old.type.cql(), old.static) != (s["type"].cql(), s["static"]):
            raise Refused("Invalid", "another type than it had")
        table.columns[name] = Column(name, s["type"], s["static"])
        table.columns[name].dropped = old.dropped if old else -1
        return Done()

    def do_drop_column(self, s):
        table = self.table(s["table"])
        column = table.columns.get(s["name"])
        if column is None:
            raise Refused("Invalid", "it is not there")
        column.dropped = self.now()
        table.gone[s["name"]] = table.columns.pop(s["name"])
        return Done()

    def do_rename(self, s):
        table = self.table(s["table"])
        column = next((c for c in table.key_columns() if c.name == s["name"]), None)
        if column is None or s["to"] in [c.name for c in table.all_columns()]:
            raise Refused("Invalid", "no key, or the name is taken")
        old, column.name = column.name, s["to"]
        for partition in table.partitions.values():
            partition.ranges = [([r._replace(columns=tuple(
                s["to"] if n == old else n for n in r.columns)) for r in relations], ts)
                for relations, ts in partition.ranges]
        return Done()

    # Writes

    def do_insert(self, s):
        return self.batch([s], s.get("ts"))

    do_update = do_delete = do_insert

    def do_batch(self, s):
        return self.batch(s["statements"], s.get("ts"))

    def batch(self, statements, ts):
        if any(s.get("if") for s in statements):
            return self.conditional(statements)
        clock = self.now()
        default = clock if ts is None else ts
        plans = [self.plan(s, default if s.get("ts") is None else s["ts"]) for s in statements]
        for plan in plans:
            for change in plan:
                change()
        return Done()

    def conditional(self, statements):
        """One round: all statements are judged by the partition as it was."""
        before, applied = [], True
        for s in statements:
            table = self.table(s["table"])
            reader = self.reader_of(table, s)
            if not s.get("if"):
                continue
            for condition in s["if"]:
                applied = self.judge(table, reader, condition) and applied
            before.append(reader)
        existing = None if applied else self.existing(statements)
        shown = []
        for reader in before:
            shown.append(None if reader is None else {
                c.name: self.shown(reader, c) for c in reader.columns()})
        if applied:
            ts = self.now()
            plans = [self.plan(s, ts) for s in statements]
            for plan in plans:
                for change in plan:
                    change()
        return Applied(applied, shown, existing)

    def existing(self, statements):
        """What a batch that is not applied shows in Cassandra's form: the names of the columns after
        `[applied]`, and the rows that its conditions are about, where they exist."""
        conditional = [s for s in statements if s.get("if")]
        table = self.table(conditional[0]["table"])
        readers = [self.reader_of(table, s) for s in conditional]
        named = {}
        for s in conditional:
            own = [table.find(c[1]) for c in s["if"] if c[0] == "column"]
            named.update((c.name, c) for c in sorted(own, key=lambda c: c.static))
        keys, columns = table.key_columns(), list(named.values())
        written = [any(table.find(name).static for s in conditional for name in changed(s)),
                   any(reader.values is not None for reader in readers)]
        if any(on_existence(s) for s in conditional):
            columns = table.all_columns()[len(keys):]
        read = {c.name for c in columns if c.name in named or written[not c.static]}
        read |= {c.name for c in keys}
        partition = readers[0].partition
        about = [r for r, s in zip(readers, conditional) if r.values is not None and (
            on_existence(s) or any(not table.find(c[1]).static for c in s["if"]))]
        rows = {tuple(c.type.encode(v) for c, v in zip(table.clustering, r.values)): r for r in about}
        if not about:
            rows = {raw: Reader(table, partition, *row) for raw, row in partition.rows.items()}
        found = sorted((r for r in rows.values() if r.exists()),
                       key=lambda r: table.row_order(r.values))
        statics = Reader(table, partition, None, partition.static)
        if not found and any(statics.value(c) is not None for c in columns
                             if c.static and c.name in read):
            found = [statics]
        shown = found if about else found[:1]
        return [c.name for c in keys + columns], [
            tuple(self.shown(r, c) if c.name in read else None for c in keys + columns)
            for r in shown]

    def shown(self, reader, column):
        value = self.get(reader, column)
        return None if value is None else column.type.encode(value)

    def get(self, reader, column):
        """A column of a row, be it of the key, static or of the row."""
        if column in reader.table.key_columns():
            return reader.key(column)
        if column.static and reader.values is not None:
            partition = reader.partition
            return Reader(reader.table, partition, None, partition.static).value(column)
        return reader.value(column)

    def reader_of(self, table, s):
        """The row that a conditional statement is about; with no row, the static one."""
        keys = self.key_values(table, s)
        partition = table.partition(keys[:len(table.keys)])
        rest = keys[len(table.keys):]
        if len(rest) < len(table.clustering):
            return Reader(table, partition, None, partition.static)
        return Reader(table, partition, tuple(rest), table.row(partition, rest))

    def judge(self, table, reader, condition):
        kind = condition[0]
        if kind in ("exists", "not exists"):
            return reader.exists() == (kind == "exists")
        _, name, path, op, wanted = condition
        column = table.find(name)
        value = self.get(reader, column)
        kind = column.type
        if path is not None and value is not None:
            value, kind = part_of(column, value, path)
        elif path is not None:
            kind = part_type(column, path)
        if op == "in":
            return any(same(kind, value, w) for w in wanted)
        if op in ("=", "!="):
            return same(kind, value, wanted) == (op == "=")
        return value is not None and compare(kind, value, op, wanted)

    def key_values(self, table, s):
        """The values of the whole key, or of as many columns as are given from the left."""
        given = dict(s["values"]) if s["kind"] == "insert" else {
            r.columns[0]: r.value for r in s["where"] if r.op == "="}
        found = []
        for column in table.key_columns():
            if column.name not in given:
                break
            found.append(given[column.name])
        return found

    def plan(self, s, ts):
        """The changes of one statement, once it is known that it is good."""
        return getattr(self, "plan_" + s["kind"])(self.table(s["table"]), s, ts)

    def live(self, ts, value, ttl):
        if ttl:
            return Cell(ts, EXPIRING, self.clock + ttl, value, ttl)
        return Cell(ts, LIVE, 0, value, 0)

    def plan_insert(self, table, s, ts):
        for name, _ in s["values"]:
            table.find(name)
        keys = self.key_values(table, s)
        if len(keys) < len(table.keys):
            raise Refused("Invalid", "a key is missing")
        partition = table.partition(keys[:len(table.keys)])
        rest = keys[len(table.keys):]
        whole = len(rest) == len(table.clustering)
        row = table.row(partition, rest) if whole else None
        names = {c.name for c in table.key_columns()}
        values = [(n, v) for n, v in s["values"] if n not in names]
        if s.get("json") == "NULL":
            said = {n for n, _ in values}
            values += [(n, None) for n in table.columns if n not in said]
        if not whole and not (values and all(table.find(n).static for n, _ in values)):
            raise Refused("Invalid", "a clustering column is missing")
        changes = []
        if whole:
            marker = self.live(ts, b"", s.get("ttl"))
            changes.append(lambda: setattr(row, "marker", later(row.marker, marker)))
        for name, value in values:
            column = table.find(name)
            target = partition.static if column.static else row
            changes += self.assign(target, column, value, ts, s.get("ttl"))
        return changes

    def assign(self, row, column, value, ts, ttl):
        """`column = value` of a whole value."""
        if value is UNSET:
            return []
        if not column.multi:
            raw = None if value is None else Bytes(column.type.encode(value), (value,))
            cell = Cell(ts, DEAD, 0, None, 0) if value is None else self.live(ts, raw, ttl)
            return [lambda: row.cells.update(
                {column.name: later(row.cells.get(column.name), cell)})]

        def change():
            multi = row.multi(column.name)
            multi.deleted = max(multi.deleted, ts - 1)
        return [change] + self.elements(row, column, value or (), ts, ttl)

    def elements(self, row, column, value, ts, ttl, prepend=False):
        """Elements that are put beside what is there."""
        kind, cells = column.type.kind, []
        part = column.type.parts
        self.places += 100
        base = self.places if not prepend else -self.places
        for number, item in enumerate(value):
            if kind == "udt":
                if item is not None:
                    cells.append((number, Bytes(part[number].encode(item), (item,))))
            elif kind == "map":
                cells.append((part[0].encode(item[0]), Bytes(part[1].encode(item[1]), item)))
            elif kind == "set":
                cells.append((part[0].encode(item), Bytes(b"", (item,))))
            else:
                place = base + number
                cells.append((place, Bytes(part[0].encode(item), (item,))))
        return [lambda p=p, v=v: row.multi(column.name).put(p, self.live(ts, v, ttl))
                for p, v in cells]

    def plan_update(self, table, s, ts):
        changes = []
        for partition in self.written(table, s):
            rest = [r.value for c in table.clustering for r in s["where"] if r.columns == (c.name,)]
            for op in s["sets"]:
                column = table.find(op[1])
                if not column.static and len(rest) < len(table.clustering):
                    raise Refused("Invalid", "a clustering column is missing")
                row = partition.static if column.static else table.row(partition, rest)
                changes += self.operation(table, partition, rest, row, column, op, ts, s.get("ttl"))
        return changes

    def operation(self, table, partition, rest, row, column, op, ts, ttl):
        what = op[0]
        reader = Reader(table, partition, None if column.static else tuple(rest), row)
        if op[-1] is UNSET:
            return []
        if what == "counter":
            return [lambda: row.counters.update(
                {column.name: wrap(row.counters.get(column.name, 0) + op[2])})]
        if what == "set":
            return self.assign(row, column, op[2], ts, ttl)
        if what in ("add", "prepend"):
            return self.elements(row, column, op[2] or (), ts, ttl, what == "prepend")
        dead = Cell(ts, DEAD, 0, None, 0)
        if what == "remove":
            if column.type.kind == "list":
                part = column.type.parts[0]
                gone = {part.encode(v) for v in op[2] or ()}
                paths = [p for p, c in reader.cells(column) if part.encode(c.value[0]) in gone]
            else:
                paths = [column.type.parts[0].encode(v) for v in op[2] or ()]
            return [lambda p=p: row.multi(column.name).put(p, dead) for p in paths]
        path, value = op[2], op[3]
        if column.type.kind == "list":
            found = reader.cells(column)
            if not 0 <= path < len(found):
                raise Refused("Invalid", "index out of bounds")
            path = found[path][0]
            value_type, whole = column.type.parts[0], (value,)
        elif column.type.kind == "udt":
            value_type, whole = column.type.parts[path], (value,)
        else:
            value_type, whole = column.type.parts[1], (path, value)
            path = column.type.parts[0].encode(path)
        cell = dead if value is None else self.live(ts, Bytes(value_type.encode(value), whole), ttl)
        return [lambda: row.multi(column.name).put(path, cell)]

    def written(self, table, s):
        """The partitions that WHERE of a write names."""
        found = [()]
        for column in table.keys:
            relation = next((r for r in s["where"] if r.columns == (column.name,)), None)
            if relation is None:
                raise Refused("Invalid", f"no {column.name}")
            values = relation.value if relation.op == "in" else [relation.value]
            found = [key + (v,) for key in found for v in values]
        for relation in s["where"]:
            for name in relation.columns:
                table.find(name)
        return [table.partition(key) for key in found]

    def plan_delete(self, table, s, ts):
        keys = [c.name for c in table.keys]
        rest = [r for r in s["where"] if r.columns[0] not in keys]
        changes = []
        for partition in self.written(table, s):
            if s["targets"]:
                values = [r.value for r in rest]
                for target in s["targets"]:
                    column = table.find(target[1])
                    row = partition.static if column.static else table.row(partition, values)
                    op = ("set", target[1], None) if target[0] == "column" else (
                        ("element", target[1], target[2], None))
                    if target[0] == "column" and column.multi:
                        changes.append(lambda row=row, name=target[1]: self.wipe(row, name, ts))
                    elif column.multi and column.type.kind == "set":
                        changes += self.operation(table, partition, values, row, column,
                                                  ("remove", target[1], (target[2],)), ts, None)
                    elif column.multi and column.type.kind == "list":
                        changes += self.drop_index(table, partition, values, row, column, op, ts)
                    else:
                        changes += self.operation(table, partition, values, row, column, op, ts, 0)
            elif rest:
                changes.append(lambda p=partition: p.ranges.append((rest, ts)))
            else:
                changes.append(lambda p=partition: setattr(p, "deleted", max(p.deleted, ts)))
        return changes

    def drop_index(self, table, partition, values, row, column, op, ts):
        """An index that is not there: nothing to delete."""
        reader = Reader(table, partition, None if column.static else tuple(values), row)
        if len(reader.cells(column)) <= op[2]:
            raise Refused("Invalid", "index out of bounds")
        return self.operation(table, partition, values, row, column, op, ts, 0)

    @staticmethod
    def wipe(row, name, ts):
        multi = row.multi(name)
        multi.deleted = max(multi.deleted, ts)

    def do_wait(self, s):
        """Enough time for what has a TTL of a second to be gone."""
        for table in self.tables.values():
            for partition in table.partitions.values():
                for row in [partition.static] + [row for _, row in partition.rows.values()]:
                    expire(row)
        return Done()

    def do_node(self, s):
        return Done()

    def do_wrong(self, s):
        raise Refused(s["expected"], s["text"])

    # Reads

    def do_select(self, s):
        import reading
        return reading.select(self, s)


def expire(row):
    """Cells of a short time to live become deletions of the same timestamp."""
    def dead(cell):
        short = cell is not None and cell.rank == EXPIRING and cell.ttl < 10
        return cell._replace(rank=DEAD, value=None) if short else cell
    row.marker = dead(row.marker)
    for name, found in row.cells.items():
        if isinstance(found, Multi):
            found.cells = {path: dead(cell) for path, cell in found.cells.items()}
        else:
            row.cells[name] = dead(found)


class Bytes(bytes):
    """The bytes by which cells compare, and beside them the value they stand for: `cell[0]`."""

    def __new__(cls, raw, items):
        found = super().__new__(cls, raw)
        found.items = items
        return found

    def __getitem__(self, index):
        return self.items[index]

    def __iter__(self):
        return iter(self.items)


def wrap(number, bits=64):
    return (number + 2**(bits - 1)) % 2**bits - 2**(bits - 1)


def same(kind, a, b):
    if a is None or b is None:
        # An empty collection that is not frozen is null.
        empty = getattr(kind, "multi", False) and kind.kind != "udt"
        return (a is None or (empty and not a)) and (b is None or (empty and not b))
    return kind.encode(a) == kind.encode(b)


def part_type(column, path):
    kind = column.type
    return kind.parts[path] if kind.kind == "udt" else kind.parts[-1]


def part_of(column, value, path):
    """An element or a field of a value, and its type."""
    kind = part_type(column, path)
    if column.type.kind == "map":
        raw = column.type.parts[0].encode(path)
        found = [v for k, v in value if column.type.parts[0].encode(k) == raw]
        return (found[0] if found else None), kind
    return (value[path] if path < len(value) else None), kind
