"""How the model answers a SELECT: all rows in their order, filtered one by one."""
import itertools
import struct

from model import CLOCK, EXPIRING, Near, Reader, Refused, Rows, holds, part_of, token_of, wrap

WIDTHS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
# What the clock of a machine may say: not before this test was written.
CLOCK_LOW, CLOCK_HIGH = 16 * 10**14, 10**17


def select(model, s):
    table = model.table(s["table"])
    for item in s["select"]:
        if len(item) > 1 and isinstance(item[1], str):
            table.find(item[1])
    for relation in s["where"]:
        for name in relation.columns:
            table.find(name)
    for name in s.get("group") or ():
        table.find(name)
    readers = distinct(table, s) if s.get("distinct") else rows_of(table, s)
    if s.get("group") or any(item[0] in ("count", "aggregate") for item in s["select"]):
        rows = grouped(model, table, s, readers)
    else:
        rows = [project(model, table, s, reader) for reader in readers]
    if s.get("limit") is not None:
        rows = rows[:s["limit"]]
    return Rows(None, rows)


def partitions_of(table, s):
    """In the order of the ring, or of the values that are named."""
    named = []
    for column in table.keys:
        relation = next((r for r in s["where"]
                         if r.columns == (column.name,) and r.op in ("=", "in")), None)
        if relation is None:
            return sorted(table.partitions.values(), key=table.ring_order)
        values = relation.value if relation.op == "in" else [relation.value]
        named.append(sorted({column.type.encode(v): v for v in values}.values(),
                            key=column.type.order))
    found = [table.partitions.get(table.ring_key(key)) for key in itertools.product(*named)]
    return [partition for partition in found if partition is not None]


def live_rows(table, partition, s):
    """The rows of a partition that are there; the static row alone stands for them if none is."""
    rows = [Reader(table, partition, values, row) for values, row in partition.rows.values()]
    rows = sorted((r for r in rows if r.exists()), key=lambda r: table.row_order(r.values),
                  reverse=bool(s.get("reversed")))
    static = Reader(table, partition, None, partition.static)
    names = {c.name for c in table.clustering}
    if not rows and static.exists() and not any(names & set(r.columns) for r in s["where"]):
        return [static]
    return rows


def static_reader(reader):
    return Reader(reader.table, reader.partition, None, reader.partition.static)


def value_of(reader, column):
    if column in reader.table.key_columns():
        return reader.key(column)
    if column.static:
        return static_reader(reader).value(column)
    return None if reader.values is None else reader.value(column)


def rows_of(table, s):
    found = []
    for partition in partitions_of(table, s):
        taken = 0
        for reader in live_rows(table, partition, s):
            if not all(holds(table, r, lambda c, x=reader: value_of(x, c)) for r in s["where"]):
                continue
            taken += 1
            if s.get("per_partition") is not None and s["per_partition"] < taken:
                break
            found.append(reader)
    return found


def distinct(table, s):
    found = []
    for partition in partitions_of(table, s):
        rows = live_rows(table, partition, {"where": []})
        if rows and all(holds(table, r, lambda c, x=rows[0]: value_of(x, c)) for r in s["where"]):
            found.append(rows[0])
    return found


def project(model, table, s, reader):
    row = []
    for item in s["select"]:
        if item[0] == "*":
            row += [raw(reader, column) for column in table.all_columns()]
        else:
            row.append(computed(model, table, item, reader))
    return row


def raw(reader, column):
    value = value_of(reader, column)
    return None if value is None else encode(column, value)


def encode(column, value):
    return struct.pack(">q", value) if column.counter else column.type.encode(value)


def computed(model, table, item, reader):
    """One column of the result, of one row."""
    if item[0] == "token":
        return struct.pack(">q", token_of(table.ring_key(reader.partition.key)))
    column = table.find(item[1])
    if item[0] == "column":
        return raw(reader, column)
    if item[0] in ("writetime", "ttl"):
        return time_of(model, reader, column, item[0])
    value = value_of(reader, column)
    if value is None:
        return None
    if item[0] == "part":
        found, kind = part_of(column, value, item[2])
        return None if found is None else kind.encode(found)
    assert item[0] == "cast"
    if item[2] == "text":
        return str(value).encode()
    return value.to_bytes(8, "big", signed=True)


def time_of(model, reader, column, what):
    owner = static_reader(reader) if column.static else reader
    if reader.values is None and not column.static:
        return None
    cell = owner.cell(column)
    if cell is None:
        return None
    if what == "writetime":
        return Near(CLOCK_LOW, CLOCK_HIGH) if CLOCK <= cell.ts else struct.pack(">q", cell.ts)
    return Near(cell.ttl - 900, cell.ttl) if cell.rank == EXPIRING else None


def grouped(model, table, s, readers):
    names = s.get("group") or ()
    columns = [table.find(name) for name in names]
    if not names:
        groups = [list(readers)]
    else:
        groups = [list(rows) for _, rows in itertools.groupby(
            readers, key=lambda r: [raw(r, c) for c in columns])]
    # A group behind the limit is not asked for: what it cannot answer is no refusal.
    return [[aggregate(model, table, item, rows) for item in s["select"]]
            for rows in groups[:s.get("limit")]]


def aggregate(model, table, item, rows):
    if item[0] == "count":
        return struct.pack(">q", len(rows))
    if item[0] != "aggregate":
        return computed(model, table, item, rows[0]) if rows else None
    column, what = table.find(item[1]), item[2]
    values = [v for v in (value_of(r, column) for r in rows) if v is not None]
    if what == "count":
        return struct.pack(">q", len(values))
    if what == "sum":
        width = WIDTHS.get(column.type.name)
        if width is None:
            raise Refused("Invalid", "no number")
        if wrap(sum(values), width * 8) != sum(values):
            raise Refused("Invalid", "the sum is too large")
        return sum(values).to_bytes(width, "big", signed=True)
    if not values:
        return None
    return column.type.encode((min if what == "min" else max)(values, key=column.type.order))
