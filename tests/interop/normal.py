"""Dumps of `nereid sstable dump-data` and of SSTableExport in one form that can be compared:

partition  (key, deletion, static cells, elements)
element    ("row", key, deletion, (timestamp, ttl, expiry) or None, cells)
           ("change", key prefix, weight, deletion that holds from there on or None)
cell       (name, path or None, value, timestamp, ttl, expiry), the value ("dead", time) of a deletion;
           (name, "all", deletion) of what was there before
deletion   (timestamp, time); times in seconds
"""
import calendar
import ipaddress
import json
import re
import struct
import time
from decimal import Decimal

PACKAGE = "org.apache.cassandra.db.marshal."


# -- types: the classes of the serialization header ----------------------------------------------

def parse_class(text):
    """(name, arguments); an argument `label:type` is ("label", type)."""
    text = text.strip().removeprefix(PACKAGE)
    if "(" not in text:
        return (text, [])
    name, rest = text.split("(", 1)
    depth, start, parts, rest = 0, 0, [], rest[:-1]
    for at, char in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(rest[start:at])
            start = at + 1
    parts.append(rest[start:])
    return (name, [part.strip() for part in parts])


def unwrap(text):
    name, parts = parse_class(text)
    while name in ("FrozenType", "ReversedType"):
        name, parts = parse_class(parts[0])
    return name, parts


def user_fields(parts):
    """Names and types of the fields of a user type."""
    fields = [part.split(":", 1) for part in parts[2:]]
    return [(bytes.fromhex(name).decode(), ty) for name, ty in fields]


def children(text, count):
    """The types of the parts of a value."""
    name, parts = unwrap(text)
    if name in ("ListType", "SetType", "VectorType"):
        return [parts[0]] * count
    if name == "MapType":
        return [parts[index % 2] for index in range(count)]
    if name == "UserType":
        return [ty for _, ty in user_fields(parts)][:count]
    return parts[:count]


# -- literals: [1, 2], {'k': 1}, {a: 1}, (1, null) ------------------------------------------------

def parse_literal(text):
    value, at = _literal(text, 0)
    assert at == len(text), text
    return value


def _literal(text, at):
    """Scalars as strings, None, ("list", items), ("map", pairs)."""
    if text[at] in "[({":
        close = {"[": "]", "(": ")", "{": "}"}[text[at]]
        items, pairs, at = [], [], at + 1
        while text[at] != close:
            item, at = _literal(text, at)
            if text[at] == ":":
                value, at = _literal(text, at + 2)
                pairs.append((item, value))
            else:
                items.append(item)
            if text[at] == ",":
                at += 2
        return (("map", pairs) if pairs else ("list", items)), at + 1
    if text[at] == "'":
        found = re.compile(r"'((?:[^']|'')*)'", re.DOTALL).match(text, at)
        return found.group(1).replace("''", "'"), found.end()
    found = re.compile(r'"(?:[^"]|"")*"|[^\s,:\])}][^,:\])}]*').match(text, at)
    word = found.group(0)
    return (None if word == "null" else word.strip('"')), found.end()


# -- values --------------------------------------------------------------------------------------

def float32(value):
    return struct.unpack(">f", struct.pack(">f", value))[0]


def duration(text):
    units = {"y": (0, 12), "mo": (0, 1), "w": (1, 7), "d": (1, 1), "h": (2, 3600 * 10**9),
             "m": (2, 60 * 10**9), "s": (2, 10**9), "ms": (2, 10**6), "us": (2, 1000),
             "\u00b5s": (2, 1000), "ns": (2, 1)}
    parts = [0, 0, 0]
    for number, unit in re.findall(r"(\d+)(mo|ms|us|\u00b5s|ns|[ywdhms])", text):
        parts[units[unit][0]] += int(number) * units[unit][1]
    return tuple(parts)


def scalar(name, value):
    """A scalar from its text or JSON value."""
    if name in ("UTF8Type", "AsciiType"):
        return str(value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if name == "BytesType":
        return text.removeprefix("0x")
    if text == "":
        return "empty"
    if name in ("Int32Type", "LongType", "ShortType", "ByteType", "IntegerType",
                "CounterColumnType"):
        return int(text)
    if name == "DecimalType":
        return Decimal(text)
    if name == "DoubleType":
        return float(text)
    if name == "FloatType":
        return float32(float(text))
    if name == "InetAddressType":
        return ipaddress.ip_address(text)
    if name == "DurationType":
        return duration(text)
    if name == "TimestampType":
        return text.replace("T", " ")
    return text


def of_tree(ty, tree):
    """A value from a parsed literal."""
    if tree is None:
        return None
    name, parts = unwrap(ty)
    if isinstance(tree, str):
        return scalar(name, tree)
    kind, items = tree
    if name == "MapType":
        return [(of_tree(parts[0], key), of_tree(parts[1], value)) for key, value in
                (items if kind == "map" else [])]
    if name == "UserType":
        given = dict(items) if kind == "map" else {}
        return {field: of_tree(ty, given.get(field)) for field, ty in user_fields(parts)}
    return [of_tree(child, item) for child, item in zip(children(ty, len(items)), items)]


def of_json(ty, value):
    """A value from what SSTableExport prints: JSON, whose keys of maps are strings."""
    if value is None:
        return None
    name, parts = unwrap(ty)
    if name == "MapType":
        return [(of_json_key(parts[0], key), of_json(parts[1], item))
                for key, item in value.items()]
    if name == "UserType":
        return {field: of_json(ty, value.get(field)) for field, ty in user_fields(parts)}
    if isinstance(value, list):
        return [of_json(child, item) for child, item in zip(children(ty, len(value)), value)]
    return scalar(name, value)


def of_json_key(ty, key):
    if unwrap(ty)[0] in ("ListType", "SetType", "MapType", "TupleType", "UserType", "VectorType"):
        return of_json(ty, json.loads(key, parse_float=Decimal))
    return scalar(unwrap(ty)[0], key)


def of_ours(ty, text):
    name, parts = unwrap(ty)
    if parts:
        return of_tree(ty, parse_literal(text))
    return scalar(name, text)


# -- ours ----------------------------------------------------------------------------------------

def seconds(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%Sz"))


class Header:
    """Types by the serialization header in `dump-statistics`."""

    def __init__(self, statistics):
        header = statistics["serialization_header"]
        name, parts = parse_class(header["pk_type_name"])
        self.key = parts if name == "CompositeType" else [header["pk_type_name"]]
        self.clustering = header["clustering_key_types_names"]
        self.columns = {column["name"]: column["type_name"] for column in
                        header["static_columns"] + header["regular_columns"]}

    def element(self, name):
        """The types of path and value of an element of a column."""
        kind, parts = parse_class(self.columns[name])
        if kind == "ListType":
            return "TimeUUIDType", parts[0]
        if kind == "SetType":
            return parts[0], "BytesType"
        return parts[0], parts[1]


def deletion(tombstone):
    if not tombstone:
        return None
    return (tombstone["timestamp"], seconds(tombstone["deletion_time"]))


def key_of(types, raw):
    """The values of a key, from the hexadecimal form with lengths; as SSTableExport has them."""
    data, parts = bytes.fromhex(raw), []
    while data:
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2:2 + size])
        data = data[2 + size:]
    return tuple(scalar_of_bytes(unwrap(ty)[0], part) for ty, part in zip(types, parts))


def scalar_of_bytes(name, data):
    if name in ("Int32Type", "LongType", "ShortType", "ByteType"):
        return int.from_bytes(data, "big", signed=True)
    assert name in ("UTF8Type", "AsciiType"), name
    return data.decode()


def counter_context(shards):
    """What SSTableExport prints of a counter: not its value, but the first eight bytes of what is
    stored, as a number: how many shards there are, which are global, and the first one's id."""
    stored = len(shards).to_bytes(2, "big")
    stored += b"".join((0x8000 + index).to_bytes(2, "big") for index in range(len(shards)))
    for shard in shards:
        stored += bytes.fromhex(shard["id"].replace("-", ""))
    return int.from_bytes(stored[:8], "big")


def our_cell(name, path, ty, cell):
    ttl = int(cell["ttl"].rstrip("s")) if "ttl" in cell else None
    expiry = seconds(cell["expiry"]) if "expiry" in cell else None
    if not cell["is_live"]:
        value = ("dead", seconds(cell["deletion_time"]))
    elif cell["type"] == "counter-shards":
        value = counter_context(cell["value"])
    else:
        value = of_ours(ty, cell["value"]) if ty != "BytesType" or cell["value"] else ""
    return (name, path, value, cell["timestamp"], ttl, expiry)


def our_cells(header, columns):
    out = []
    for name, column in columns.items():
        if "cells" not in column:
            out.append(our_cell(name, None, header.columns[name], column))
            continue
        if "tombstone" in column:
            out.append((name, "all", deletion(column["tombstone"])))
        kind, parts = parse_class(header.columns[name])
        for cell in column["cells"]:
            if kind == "UserType":
                path, ty = cell["key"], dict(user_fields(parts))[cell["key"]]
            else:
                path_type, ty = header.element(name)
                path = scalar(unwrap(path_type)[0], cell["key"])
            out.append(our_cell(name, path, ty, cell["value"]))
    return sorted(out, key=repr)


def ours(partitions, statistics):
    """The partitions of `dump-data`."""
    header, out = Header(statistics), []
    for partition in partitions:
        elements = []
        for element in partition.get("clustering_elements", []):
            key = key_of(header.clustering, element.get("key", {"raw": ""})["raw"])
            if element["type"] == "range-tombstone-change":
                held = deletion(element["tombstone"])
                elements.append(("change", key, element["weight"], held))
                continue
            marker = element.get("marker")
            if marker:
                marker = (marker["timestamp"],
                          int(marker["ttl"].rstrip("s")) if "ttl" in marker else None,
                          seconds(marker["expiry"]) if "expiry" in marker else None)
            elements.append(("row", key, deletion(element.get("tombstone")), marker,
                             our_cells(header, element["columns"])))
        out.append((key_of(header.key, partition["key"]["raw"]),
                    deletion(partition.get("tombstone")),
                    our_cells(header, partition.get("static_row", {})), elements))
    return out


# -- theirs --------------------------------------------------------------------------------------

def their_deletion(info):
    return (int(info["marked_deleted"]), int(info["local_delete_time"])) if info else None


def their_cells(header, cells, marker):
    out = []
    for cell in cells:
        name, path = cell["name"], cell.get("path")
        info = cell.get("deletion_info", {})
        if "marked_deleted" in info:
            out.append((name, "all", their_deletion(info)))
            continue
        ty = header.columns[name]
        if path is not None:
            kind, parts = parse_class(ty)
            if kind == "UserType":
                # The index of the field, or its name.
                fields = user_fields(parts)
                path = fields[int(path[0])][0] if path[0].isdigit() else path[0]
                ty = dict(fields)[path]
            else:
                path_type, ty = header.element(name)
                path = scalar(unwrap(path_type)[0], path[0])
        stamp, ttl, expiry = marker or (None, None, None)
        stamp = int(cell["tstamp"]) if "tstamp" in cell else stamp
        if info:
            ttl, expiry = None, None
            value = ("dead", int(info["local_delete_time"]))
        else:
            value = cell["value"]
            value = "" if ty == "BytesType" and value == "" else of_json(ty, value)
            if "ttl" in cell:
                ttl, expiry = int(cell["ttl"]), int(cell["expires_at"])
        out.append((name, path, value, stamp, ttl, expiry))
    return sorted(out, key=repr)


def their_key(types, values):
    """Without what stands for all: `*`."""
    values = [value for value in values if value != "*"]
    return tuple(scalar(unwrap(ty)[0], value) for ty, value in zip(types, values))


def their_change(header, element):
    """A bound or a boundary: where it is, and what holds from there on."""
    start, end = element.get("start"), element.get("end")
    place = start or end
    inclusive = place["type"] == "inclusive"
    weight = (-1 if inclusive else 1) if start else (1 if inclusive else -1)
    after = their_deletion(start["deletion_info"]) if start else None
    return ("change", their_key(header.clustering, place.get("clustering", [])), weight,
            after)


def theirs(text, statistics):
    """What SSTableExport printed."""
    header, out = Header(statistics), []
    for entry in json.loads(text, parse_float=Decimal, strict=False):
        partition, statics, elements = entry["partition"], [], []
        for element in entry["rows"]:
            if element["type"] == "static_block":
                statics = their_cells(header, element["cells"], None)
            elif element["type"] == "row":
                marker = element.get("liveness_info")
                if marker:
                    marker = (int(marker["tstamp"]),
                              int(marker["ttl"]) if "ttl" in marker else None,
                              int(marker["expires_at"]) if "expires_at" in marker else None)
                elements.append(("row", their_key(header.clustering, element.get("clustering", [])),
                                 their_deletion(element.get("deletion_info")), marker,
                                 their_cells(header, element["cells"], marker)))
            else:
                elements.append(their_change(header, element))
        out.append((their_key(header.key, partition["key"]),
                    their_deletion(partition.get("deletion_info")), statics, elements))
    return out
