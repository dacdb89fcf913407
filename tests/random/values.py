"""Values of every CQL type: drawn, written as literals, JSON and bytes, and put in order.

A value is a plain Python value; `encode` gives the bytes of the protocol, and two values are the
same if these bytes are. Nothing here comes from a driver or from the server: what it gives and what
is computed here are two opinions. `order` is a key for sorting as CQL sorts the type.
"""
import ipaddress
import json as json_text
import struct
import uuid
from decimal import Decimal

LETTERS = ["", "a", "b", "B", "ab", "a'b", "zz", "e"]
TEXTS = LETTERS + ["\u00e9\u4e16", 'q"t', "a\\n"]


def varint(value):
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def zigzag_vint(value):
    value = (value << 1) ^ (value >> 63)
    value &= 2**64 - 1
    size = max(1, (value.bit_length() + 6) // 7)
    if 9 <= size:
        return b"\xff" + value.to_bytes(8, "big")
    first = (0xFF << (9 - size)) & 0xFF if size > 1 else 0
    raw = bytearray(value.to_bytes(size, "big"))
    raw[0] |= first
    return bytes(raw)


def encode_decimal(value):
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    return struct.pack(">i", -exponent) + varint(-number if sign else number)


def encode_duration(value):
    return b"".join(zigzag_vint(part) for part in value)


def encode_time_of_uuid(value):
    return value.bytes


def float_order(pack, width):
    """As Java compares floats: by the bits, -0.0 below 0.0, NaN above all."""
    def order(value):
        bits = int.from_bytes(struct.pack(pack, value), "big")
        if value != value:
            return 2**(width * 8)
        return -(bits - 2**(width * 8 - 1)) - 1 if bits >> (width * 8 - 1) else bits
    return order


def float_literal(value):
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if 0 < value else "-Infinity"
    return repr(value)


def uuid_order(value):
    first = value.time if value.version == 1 else 0
    return (value.version or 0, first, value.bytes)


def timeuuid_order(value):
    signed = [byte - 256 if 127 < byte else byte for byte in value.bytes[8:]]
    return (value.time, signed)


def duration_literal(value):
    months, days, nanos = value
    sign = "-" if min(value) < 0 else ""
    return f"{sign}{abs(months)}mo{abs(days)}d{abs(nanos)}ns"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def time_literal(nanos):
    seconds, part = divmod(nanos, 10**9)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:09}"


TIMEUUIDS = [uuid.UUID(text) for text in (
    "13814000-1dd2-11b2-8080-808080808080", "13814001-1dd2-11b2-8080-808080808080",
    "13814001-1dd2-11b2-7f7f-7f7f7f7f7f7f", "00000000-1dd3-11b2-8080-808080808080",
    "fed35080-0efb-11ee-be56-0242ac120002")]
UUIDS = TIMEUUIDS[:2] + [uuid.UUID(text) for text in (
    "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
    "ffffffff-ffff-4fff-bfff-ffffffffffff")]
FLOATS = [0.0, -0.0, 1.5, -2.25, 3.0, float("inf"), float("-inf"), float("nan")]


class Scalar:
    """A type without parts."""
    parts = ()
    multi = frozen = False

    def __init__(self, name, pool, encode, literal, order=None, size=None):
        self.name, self.pool, self.encode, self.literal = name, pool, encode, literal
        self.order = order or (lambda value: value)
        self.size = size

    def cql(self):
        return self.name

    def draw(self, dice):
        return dice.choice(self.pool)

    def json(self, value):
        """The value as what a JSON document holds."""
        if self.name in ("tinyint", "smallint", "int", "bigint", "varint", "boolean"):
            return value
        if self.name in ("float", "double"):
            return value if value == value and abs(value) != float("inf") else float_literal(value)
        if self.name in ("text", "ascii"):
            return value
        if self.name == "blob":
            return "0x" + value.hex()
        return self.literal(value).strip("'")

    def has(self, name):
        return self.name == name


def integer(name, width):
    top = 2**(8 * width - 1)
    return Scalar(name, [0, 1, -1, 2, 3, 7, top - 1, -top],
                  lambda v: v.to_bytes(width, "big", signed=True), str, size=width)


def inet(text):
    return ipaddress.ip_address(text)


SCALARS = {kind.name: kind for kind in [
    integer("tinyint", 1), integer("smallint", 2), integer("int", 4), integer("bigint", 8),
    Scalar("varint", [0, 1, -1, 127, 128, -128, -129, 10**20, -10**20], varint, str),
    Scalar("boolean", [True, False], lambda v: bytes([v]), lambda v: str(v).lower(), size=1),
    Scalar("ascii", LETTERS, lambda v: v.encode(), quoted, lambda v: v.encode()),
    Scalar("text", TEXTS, lambda v: v.encode(), quoted, lambda v: v.encode()),
    Scalar("blob", [b"", b"\0", b"\x01", b"\xff", b"\x01\x02", b"ab"], bytes,
           lambda v: "0x" + v.hex()),
    Scalar("date", [2**31, 2**31 + 1, 2**31 - 1, 2**31 + 19000, 2**31 - 5],
           lambda v: v.to_bytes(4, "big"), lambda v: quoted(date_text(v))),
    Scalar("time", [0, 1, 86399999999999, 3600 * 10**9, 12345678901234],
           lambda v: v.to_bytes(8, "big"), lambda v: quoted(time_literal(v))),
    Scalar("timestamp", [0, 1, -1, 1700000000123, -86400000],
           lambda v: v.to_bytes(8, "big", signed=True), str, size=8),
    Scalar("uuid", UUIDS, lambda v: v.bytes, str, uuid_order, size=16),
    Scalar("timeuuid", TIMEUUIDS, lambda v: v.bytes, str, timeuuid_order, size=16),
    Scalar("inet", [inet("127.0.0.1"), inet("10.0.0.255"), inet("::1"), inet("255.1.1.1")],
           lambda v: v.packed, lambda v: quoted(str(v)), lambda v: v.packed),
    Scalar("float", FLOATS, lambda v: struct.pack(">f", v), float_literal, float_order(">f", 4), 4),
    Scalar("double", FLOATS + [0.1], lambda v: struct.pack(">d", v), float_literal,
           float_order(">d", 8), 8),
    Scalar("decimal", [Decimal(t) for t in (
        "0", "1", "-1", "1.5", "-2.25", "100000000000000000.1")],
           encode_decimal, str),
    Scalar("duration", [(0, 0, 0), (1, 2, 3), (-1, -2, -3), (0, 0, 10**15), (14, 0, 0)],
           encode_duration, duration_literal),
]}


def date_text(days):
    import datetime
    return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=days - 2**31))


def sized(raw):
    return b"\xff\xff\xff\xff" if raw is None else struct.pack(">i", len(raw)) + raw


class Composed:
    """What types with parts share. `multi`: its elements are cells of their own (not frozen)."""
    size = None
    multi = False

    def has(self, name):
        return self.kind == name or any(part.has(name) for part in self.parts)

    def frozen_cql(self):
        return f"frozen<{self.bare()}>"

    def cql(self):
        return self.bare() if self.multi else self.frozen_cql()


class Collection(Composed):
    """list, set (values are tuples of elements) and map (tuples of pairs)."""

    def __init__(self, kind, parts, multi=False):
        self.kind, self.parts, self.multi = kind, parts, multi

    def bare(self):
        return f"{self.kind}<{', '.join(part.cql() for part in self.parts)}>"

    def normal(self, items):
        """Elements in their order, the last of equal ones."""
        if self.kind == "list":
            return tuple(items)
        if self.kind == "set":
            return tuple(sorted({self.parts[0].encode(v): v for v in items}.values(),
                                key=self.parts[0].order))
        return tuple(sorted({self.parts[0].encode(k): (k, v) for k, v in items}.values(),
                            key=lambda pair: self.parts[0].order(pair[0])))

    def draw(self, dice):
        count = dice.choice([0, 1, 1, 2, 3])
        if self.kind == "map":
            return self.normal([tuple(p.draw(dice) for p in self.parts) for _ in range(count)])
        return self.normal([self.parts[0].draw(dice) for _ in range(count)])

    def encode(self, value):
        flat = [(self.parts[i], v) for pair in value for i, v in enumerate(pair)] \
            if self.kind == "map" else [(self.parts[0], v) for v in value]
        return struct.pack(">i", len(value)) + b"".join(sized(t.encode(v)) for t, v in flat)

    def literal(self, value):
        if self.kind == "map":
            key, item = self.parts
            return "{" + ", ".join(f"{key.literal(k)}: {item.literal(v)}" for k, v in value) + "}"
        inner = ", ".join(self.parts[0].literal(v) for v in value)
        return f"[{inner}]" if self.kind == "list" else "{" + inner + "}"

    def json(self, value):
        if self.kind != "map":
            return [self.parts[0].json(v) for v in value]
        names = [self.parts[0].json(k) for k, _ in value]
        return {name if isinstance(name, str) else json_text.dumps(name, ensure_ascii=False):
                self.parts[1].json(v) for name, (_, v) in zip(names, value)}

    def order(self, value):
        if self.kind == "map":
            return [tuple(p.order(v) for p, v in zip(self.parts, pair)) for pair in value]
        return [self.parts[0].order(v) for v in value]


class Fields(Composed):
    """Tuples, and user types, which have names."""

    def __init__(self, parts, name=None, fields=(), multi=False):
        self.parts, self.name, self.fields, self.multi = parts, name, fields, multi
        self.kind = "udt" if name else "tuple"

    def bare(self):
        return self.name or f"tuple<{', '.join(part.cql() for part in self.parts)}>"

    def draw(self, dice):
        return tuple(None if dice.random() < 0.15 else p.draw(dice) for p in self.parts)

    def encode(self, value):
        return b"".join(sized(None if v is None else p.encode(v))
                        for p, v in zip(self.parts, value))

    def literal(self, value):
        texts = ["null" if v is None else p.literal(v) for p, v in zip(self.parts, value)]
        if self.name:
            return "{" + ", ".join(f"{f}: {t}" for f, t in zip(self.fields, texts)) + "}"
        return "(" + ", ".join(texts) + ")"

    def json(self, value):
        texts = [None if v is None else p.json(v) for p, v in zip(self.parts, value)]
        return dict(zip(self.fields, texts)) if self.name else texts

    def order(self, value):
        return [(0,) if v is None else (1, p.order(v)) for p, v in zip(self.parts, value)]


class Vector(Composed):
    kind = "vector"

    def __init__(self, part, count):
        self.parts, self.count = (part,), count

    def cql(self):
        return f"vector<{self.parts[0].cql()}, {self.count}>"

    def draw(self, dice):
        return tuple(self.parts[0].draw(dice) for _ in range(self.count))

    def encode(self, value):
        raw = [self.parts[0].encode(v) for v in value]
        if self.parts[0].size:
            return b"".join(raw)
        assert all(len(r) < 128 for r in raw)
        return b"".join(bytes([len(r)]) + r for r in raw)

    def literal(self, value):
        return "[" + ", ".join(self.parts[0].literal(v) for v in value) + "]"

    def json(self, value):
        return [self.parts[0].json(v) for v in value]

    def order(self, value):
        return [self.parts[0].order(v) for v in value]


KEY_SCALARS = [n for n in SCALARS if n != "duration"]
FIXED_IN_VECTORS = ["int", "float", "double", "bigint", "uuid", "text", "varint"]


def draw_type(dice, depth, udts=(), key=False):
    """A frozen type or a scalar. `key`: one that has an order, for keys of tables and of maps."""
    if depth == 0 or dice.random() < 0.55:
        return SCALARS[dice.choice(KEY_SCALARS if key else list(SCALARS))]
    kind = dice.choice(["list", "set", "map", "tuple", "tuple", "vector", "udt"])
    inner = lambda ordered=key: draw_type(dice, depth - 1, udts, ordered)
    if kind == "udt" and udts:
        choices = [u for u in udts if not (key and u.has("duration"))]
        if choices:
            return dice.choice(choices)
    if kind == "vector":
        return Vector(SCALARS[dice.choice(FIXED_IN_VECTORS)], dice.choice([1, 2, 3]))
    if kind == "map":
        return Collection("map", (inner(True), inner()))
    if kind in ("list", "set"):
        return Collection(kind, (inner(kind == "set" or key),))
    return Fields(tuple(inner() for _ in range(dice.choice([1, 2, 3]))))


def draw_column_type(dice, udts):
    """The type of a regular column: half of them have parts that are cells of their own."""
    if dice.random() < 0.45:
        kind = dice.choice(["list", "set", "map", "udt"])
        if kind == "udt" and udts:
            udt = dice.choice(udts)
            return Fields(udt.parts, udt.name, udt.fields, multi=True)
        if kind == "map":
            parts = (draw_type(dice, 1, udts, True), draw_type(dice, 1, udts))
            return Collection("map", parts, True)
        kind = "list" if kind == "udt" else kind
        return Collection(kind, (draw_type(dice, 1, udts, kind == "set"),), True)
    return draw_type(dice, 2, udts)
