"""A strict decoder of the server's answers, written from the specifications of the protocol and of
nothing else: what is missing, what is left over and what breaks a rule is a `Broken`.

Versions 3 to 5: frames, segments of version 5 without compression, all kinds of results, errors with
what belongs to them, and values by their types.
"""
import struct
import uuid
import zlib

RESULT_KINDS = {1: "void", 2: "rows", 3: "keyspace", 4: "prepared", 5: "schema"}
TRACING, PAYLOAD, WARNING = 2, 4, 8
GLOBAL_TABLE, MORE_PAGES, NO_METADATA, METADATA_CHANGED = 1, 2, 4, 8
LWT_MARK = 1 << 31
SIZES = {0x02: (8,), 0x04: (1,), 0x05: (8,), 0x07: (8,), 0x08: (4,), 0x09: (4,), 0x0b: (8,),
         0x0c: (16,), 0x0f: (16,), 0x10: (4, 16), 0x11: (4,), 0x12: (8,), 0x13: (2,), 0x14: (1,)}
TEXTS = {0x01: "ascii", 0x0d: "utf-8"}


class Broken(AssertionError):
    """An answer that breaks the rules of the protocol."""


def check(condition, *facts):
    if not condition:
        raise Broken(facts)


class Body:
    """Bytes that are taken from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count, what):
        check(0 <= count <= len(self.data) - self.at, f"{what} ends early", self.at, self.data)
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form, what):
        return struct.unpack(">" + form, self.take(struct.calcsize(form), what))[0]

    def string(self, what):
        return self.take(self.number("H", what), what).decode()

    def short_bytes(self, what):
        return self.take(self.number("H", what), what)

    def bytes(self, what):
        """None for null. No answer holds "not set"."""
        length = self.number("i", what)
        check(-1 <= length, f"{what} has length {length}")
        return None if length < 0 else self.take(length, what)

    def strings(self, what):
        return [self.string(what) for _ in range(self.number("H", what))]

    def end(self, what):
        check(self.at == len(self.data), f"{what} leaves bytes over", self.data[self.at:], self.data)


def type_of(body):
    kind = body.number("H", "type")
    if kind == 0:
        return kind, body.string("class of a type")
    if kind in (0x20, 0x22):
        return kind, [type_of(body)]
    if kind == 0x21:
        return kind, [type_of(body), type_of(body)]
    if kind == 0x30:
        name = body.string("keyspace of a type"), body.string("name of a type")
        count = body.number("H", "count of fields")
        fields = [(body.string("name of a field"), type_of(body)) for _ in range(count)]
        return kind, (name, [field for _, field in fields])
    if kind == 0x31:
        return kind, [type_of(body) for _ in range(body.number("H", "count of elements"))]
    check(kind in SIZES or kind in TEXTS or kind in (0x03, 0x06, 0x0e, 0x15), "unknown type", kind)
    return kind, None


def check_value(ty, data):
    """Whether bytes are a value of a type."""
    kind, inner = ty
    if data is None or kind in (0, 0x03):
        return
    if kind in TEXTS:
        data.decode(TEXTS[kind])
    elif not data:
        # An empty value: scalars may have it, collections may not.
        check(kind not in (0x20, 0x21, 0x22), "an empty collection", ty)
    elif kind in SIZES:
        check(len(data) in SIZES[kind], "length of a value", ty, data)
        check(kind != 0x04 or data in (b"\0", b"\1"), "boolean", data)
    elif kind == 0x06:
        check(4 < len(data), "decimal", data)
    elif kind in (0x20, 0x21, 0x22):
        body = Body(data)
        for _ in range(body.number("i", "count")):
            for element in inner:
                value = body.bytes("element")
                check(value is not None, "null in a collection", ty, data)
                check_value(element, value)
        body.end("collection")
    elif kind in (0x30, 0x31):
        body = Body(data)
        for element in inner if kind == 0x31 else inner[1]:
            if body.at == len(data):
                break
            check_value(element, body.bytes("component"))
        body.end("tuple")


class Metadata:
    """Of rows, or of the markers of a prepared statement."""

    def __init__(self, body, version, of_markers=False, lwt_mark=False):
        self.flags = body.number("I", "metadata flags")
        known = GLOBAL_TABLE | MORE_PAGES | NO_METADATA | (METADATA_CHANGED if version == 5 else 0)
        known |= LWT_MARK if of_markers and lwt_mark else 0
        check(self.flags & ~known == 0, "unknown flags of metadata", hex(self.flags))
        self.count = body.number("i", "column count")
        check(0 <= self.count, "column count", self.count)
        self.keys = []
        if of_markers and 4 <= version:
            keys = body.number("i", "count of keys")
            self.keys = [body.number("H", "key") for _ in range(keys)]
            check(all(key < self.count for key in self.keys), "keys", self.keys, self.count)
        self.paging_state = body.bytes("paging state") if self.flags & MORE_PAGES else None
        check(self.paging_state != b"", "empty paging state")
        self.id = body.short_bytes("metadata id") if self.flags & METADATA_CHANGED else None
        self.columns = None
        if self.flags & NO_METADATA:
            return
        place = None
        if self.flags & GLOBAL_TABLE:
            place = body.string("keyspace"), body.string("table")
        self.columns = []
        for _ in range(self.count):
            of = place or (body.string("keyspace"), body.string("table"))
            self.columns.append((*of, body.string("column"), type_of(body)))


class Answer:
    """A frame of the server, decoded to its last byte."""

    def __init__(self, frame, version, lwt_mark=False):
        first, self.flags, self.stream, self.opcode, length = struct.unpack(">BBhBI", frame[:9])
        check(first == 0x80 | version, "version", first)
        check(length == len(frame) - 9, "length", length, len(frame))
        check(self.flags & ~(TRACING | PAYLOAD | WARNING) == 0, "flags", self.flags)
        body = Body(frame[9:])
        self.tracing = uuid.UUID(bytes=body.take(16, "trace")) if self.flags & TRACING else None
        self.warnings = body.strings("warnings") if self.flags & WARNING else []
        check(self.flags & WARNING == 0 or self.warnings, "no warning where the flag says so")
        self.payload = {}
        if self.flags & PAYLOAD:
            for _ in range(body.number("H", "payload")):
                key = body.string("key of the payload")
                self.payload[key] = body.bytes("payload")
        self.kind, self.version, self.lwt_mark = None, version, lwt_mark
        self.rows, self.metadata, self.markers = [], None, None
        {0: self._error, 2: lambda _: None, 3: lambda it: it.string("authenticator"),
         6: self._supported, 8: self._result, 16: lambda it: it.bytes("token")}[self.opcode](body)
        self._body = body
        if self.kind != "rows":
            body.end(self.kind)

    def _supported(self, body):
        self.kind = "supported"
        count = body.number("H", "options")
        self.options = {body.string("option"): body.strings("words") for _ in range(count)}

    def _error(self, body):
        self.kind = "error"
        self.code, self.text = body.number("I", "code"), body.string("message")
        check(self.text, "an error without a message")
        counts = lambda: [body.number("H", "level"), body.number("i", "received"),  # noqa: E731
                          body.number("i", "required")]
        if self.code == 0x1000:
            counts()
        elif self.code == 0x1100:
            counts()
            if body.string("kind of write") == "CAS" and self.version == 5:
                body.number("H", "contentions")
        elif self.code == 0x1200:
            counts()
            check(body.number("B", "data") < 2)
        elif self.code in (0x1300, 0x1500):
            counts()
            failures = body.number("i", "failures")
            for _ in range(failures if self.version == 5 else 0):
                body.take(body.number("B", "address"), "address")
                body.number("H", "reason")
            if self.code == 0x1300:
                check(body.number("B", "data") < 2)
            else:
                body.string("kind of write")
        elif self.code == 0x1400:
            body.string("keyspace"), body.string("function"), body.strings("arguments")
        elif self.code == 0x2400:
            body.string("keyspace"), body.string("table")
        elif self.code == 0x2500:
            self.unprepared = body.short_bytes("id")
        else:
            check(self.code in (0, 0xa, 0x100, 0x1001, 0x1002, 0x1003, 0x1600, 0x2000, 0x2100,
                                0x2200, 0x2300), "unknown code", hex(self.code))

    def _result(self, body):
        number = body.number("I", "kind of result")
        check(number in RESULT_KINDS, "kind of result", number)
        self.kind = RESULT_KINDS[number]
        if self.kind == "keyspace":
            self.keyspace = body.string("keyspace")
        elif self.kind == "schema":
            self._schema_change(body)
        elif self.kind == "prepared":
            self.id = body.short_bytes("id")
            check(self.id, "an empty id")
            self.metadata_id = body.short_bytes("metadata id") if self.version == 5 else None
            self.markers = Metadata(body, self.version, True, self.lwt_mark)
            self.metadata = Metadata(body, self.version)
        elif self.kind == "rows":
            self.metadata = Metadata(body, self.version)
            self.row_count = body.number("i", "row count")

    def _schema_change(self, body):
        change, target = body.string("change"), body.string("target")
        check(change in ("CREATED", "UPDATED", "DROPPED"), change)
        names = {"KEYSPACE": 1, "TABLE": 2, "TYPE": 2, "FUNCTION": 2, "AGGREGATE": 2}
        check(target in names, target)
        self.change = [change, target, *(body.string("name") for _ in range(names[target]))]
        if target in ("FUNCTION", "AGGREGATE"):
            self.change.append(body.strings("arguments"))

    def read_rows(self, columns=None):
        """Decodes the rows, by the metadata that came with them or by those that the client has."""
        columns = self.metadata.columns if self.metadata.columns is not None else columns
        check(columns is not None, "rows without metadata")
        check(len(columns) == self.metadata.count, "columns", len(columns), self.metadata.count)
        for _ in range(self.row_count):
            row = [self._body.bytes(name) for _, _, name, _ in columns]
            for (_, _, _, ty), value in zip(columns, row):
                check_value(ty, value)
            self.rows.append(row)
        self._body.end("rows")
        return self


def crc24(data):
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974f0b
    return crc


def crc32(data):
    return zlib.crc32(data, zlib.crc32(b"\xfa\x2d\x55\xca"))


def segment(payload):
    """A self-contained segment of version 5, without compression."""
    header = struct.pack("<I", len(payload) | 1 << 17)[:3]
    head = header + struct.pack("<I", crc24(header))[:3]
    return head + payload + struct.pack("<I", crc32(payload))


def read_segment(take):
    """The payload of the next segment, and whether it is self-contained."""
    header, check_sum = take(3), take(3)
    check(struct.pack("<I", crc24(header))[:3] == check_sum, "checksum of a segment's header")
    facts = int.from_bytes(header, "little")
    payload = take(facts & 0x1ffff)
    check(struct.unpack("<I", take(4))[0] == crc32(payload), "checksum of a segment")
    return payload, bool(facts & 1 << 17)
