"""Values, items, paths and expressions, drawn from few names so that they meet."""
import base64
import re

NAMES = ["a", "b", "d", "e", "f"]
INNER = ["x", "y", "a"]
NUMBERS = ["0", "1", "-1", "2", "3", "10", "1.5", "-0.25", "1e2", "100", "0.0", "1E-5", "007", "-0",
           "99999999999999999999999999999999999999", "1.0000000000000000000000000000000000001",
           "-12345678901234567890123456789012345678", "1e125", "-9.9e-130", "5e-130", "+4", ".5",
           "9999999999999999999999999999999999999e86"]
BAD_NUMBERS = ["", "1e126", "x", "1e-131", "123456789012345678901234567890123456789", "1e", "NaN",
               "--1", "1 ", "0x1", "Infinity", "1_0"]
TEXTS = ["", "a", "b", "ab", "abc", "b\u00e4", "\u2028z", "A", "zz", "a b", "\U0001f600"]
BLOBS = [b"", b"\0", b"\0\xff", b"a", b"ab", b"\x80", b"zz"]
COMPARATORS = ["=", "<>", "<", "<=", ">", ">="]
TYPES = ["S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"]


def b64(data):
    return base64.b64encode(data).decode()


class Draw:
    """Draws by one source of random numbers."""

    def __init__(self, rng):
        self.rng = rng

    def chance(self, per_cent):
        return self.rng.random() * 100 < per_cent

    def one(self, choices):
        return self.rng.choice(choices)

    def some(self, choices, least=1, most=3):
        count = min(self.rng.randint(least, most), len(choices))
        return self.rng.sample(choices, count)

    def scalar(self, kind):
        if kind == "N":
            return {"N": self.one(NUMBERS)}
        if kind == "S":
            return {"S": self.one(TEXTS)}
        return {"B": b64(self.one(BLOBS))}

    def key_value(self, kind):
        """Few of them, none empty."""
        if kind == "N":
            return {"N": self.one(["0", "1", "-1", "1.5", "10", "1e2", "2.0", "-7e-3", "1e40"])}
        if kind == "S":
            return {"S": self.one(["a", "ab", "b", "\u00e4", "z", "A", "abc", "ba"])}
        return {"B": b64(self.one([b"\0", b"a", b"ab", b"\xff", b"b", b"\x7f"]))}

    def value(self, depth=0):
        kind = self.one(["S", "N", "B", "S", "N", "NULL", "BOOL", "SS", "NS", "BS"]
                        + (["M", "L", "M", "L"] if depth < 3 else []))
        return self.of_kind(kind, depth)

    def of_kind(self, kind, depth):
        """A value of a type, at a depth."""
        if kind in ("S", "N", "B"):
            return self.scalar(kind)
        if kind == "NULL":
            return {"NULL": True}
        if kind == "BOOL":
            return {"BOOL": self.chance(50)}
        if kind == "SS":
            return {"SS": self.some([text for text in TEXTS if text])}
        if kind == "NS":
            return {"NS": self.some(["0", "1", "2", "-1", "1.5", "1e2", "10", "3.25e-9"])}
        if kind == "BS":
            return {"BS": [b64(blob) for blob in self.some(BLOBS[1:])]}
        if kind == "M":
            names = self.some(INNER, 0, 3)
            return {"M": {name: self.value(depth + 1) for name in names}}
        return {"L": [self.value(depth + 1) for _ in range(self.rng.randint(0, 4))]}

    def bad_value(self):
        return self.one([
            {"SS": []}, {"NS": []}, {"SS": ["a", "a"]}, {"NS": ["1", "1.0"]}, {"BS": ["YQ==", "YQ=="]},
            {"N": self.one(BAD_NUMBERS)}, {"NS": ["1", "x"]}, {"NULL": False}, {}, {"S": "a", "N": "1"},
            {"L": [{"N": "x"}]}, {"M": {"x": {"SS": []}}}, {"SS": ["a", ""]}, {"BS": ["", "YQ=="]}])

    def item(self, table):
        item = {name: self.value() for name in self.some(NAMES, 0, 4)}
        for name, kind in table.indexed.items():
            if self.chance(75):
                item[name] = self.key_value(kind)
        return {**item, **self.key(table)}

    def key(self, table):
        return {name: self.key_value(kind) for name, kind in table.key}


class Phrases:
    """Expressions of one request, with the placeholders that they use."""

    def __init__(self, draw, table):
        self.draw, self.table = draw, table
        self.names, self.values = {}, {}

    def name(self, name):
        if name.isalpha() and self.draw.chance(60):
            return name
        known = [key for key, value in self.names.items() if value == name]
        if known:
            return known[0]
        key = f"#n{len(self.names)}"
        self.names[key] = name
        return key

    def value(self, value):
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key

    def attribute(self, with_keys=True):
        names = NAMES * 2 + list(self.table.indexed)
        if with_keys:
            names += [name for name, _ in self.table.key]
        return self.draw.one(names)

    def path(self, with_keys=True):
        text = self.name(self.attribute(with_keys))
        while self.draw.chance(30):
            inner = self.draw.chance(60)
            text += f".{self.name(self.draw.one(INNER))}" if inner else f"[{self.draw.rng.randint(0, 3)}]"
        return text

    def operand(self):
        turn = self.draw.rng.random()
        if turn < 0.5:
            return self.path()
        if turn < 0.62:
            return f"size({self.path()})"
        return self.value(self.draw.value(1))

    def comparison(self):
        draw = self.draw
        turn = draw.rng.randint(0, 9)
        if turn <= 3:
            return f"{self.operand()} {draw.one(COMPARATORS)} {self.operand()}"
        if turn == 4:
            low, high = draw.scalar("N"), draw.scalar("N")
            low, high = sorted((low, high), key=lambda it: float(it["N"]))
            return f"{self.path()} BETWEEN {self.value(low)} AND {self.value(high)}"
        if turn == 5:
            many = ", ".join(self.operand() for _ in range(draw.rng.randint(1, 4)))
            return f"{self.operand()} IN ({many})"
        if turn == 6:
            return f"{draw.one(['attribute_exists', 'attribute_not_exists'])}({self.path()})"
        if turn == 7:
            return f"attribute_type({self.path()}, {self.value({'S': draw.one(TYPES)})})"
        if turn == 8:
            return f"begins_with({self.path()}, {self.value(draw.scalar(draw.one('SB')))})"
        return f"contains({self.path()}, {self.operand()})"

    def condition(self, depth=0):
        turn = self.draw.rng.random()
        if depth > 2 or turn < 0.55:
            return self.comparison()
        if turn < 0.7:
            return f"NOT {self.condition(depth + 1)}"
        if turn < 0.8:
            return f"({self.condition(depth + 1)})"
        word = self.draw.one([" AND ", " OR "])
        return self.condition(depth + 1) + word + self.condition(depth + 1)

    def projection(self):
        return ", ".join(self.path() for _ in range(self.draw.rng.randint(1, 3)))

    def set_operand(self):
        turn, draw = self.draw.rng.random(), self.draw
        if turn < 0.35:
            return self.value(draw.value(1))
        if turn < 0.5:
            return self.path()
        if turn < 0.7:
            return f"if_not_exists({self.path()}, {self.set_operand()})"
        if turn < 0.85:
            ends = [self.path(), self.value({"L": [draw.value(2)]})]
            draw.rng.shuffle(ends)
            return f"list_append({', '.join(ends)})"
        return self.value({"L": [draw.value(2)]})

    def set_value(self):
        turn = self.draw.rng.random()
        if turn < 0.65:
            return self.set_operand()
        one = self.draw.one([self.path, lambda: self.value(self.draw.scalar("N")), self.set_operand])
        return f"{one()} {self.draw.one('+-')} {self.value(self.draw.scalar('N'))}"

    def update(self):
        draw, parts, roots = self.draw, [], set()
        for word in draw.some(["SET", "SET", "REMOVE", "ADD", "DELETE"], 1, 2):
            if any(part.startswith(word) for part in parts) and draw.chance(98):
                continue
            clauses = []
            for _ in range(draw.rng.randint(1, 2)):
                path = self.path(with_keys=draw.chance(2))
                root = re.split(r"[.\[]", path)[0]
                root = self.names.get(root, root)
                if root in roots and draw.chance(90):
                    continue
                roots.add(root)
                if word == "SET":
                    clauses.append(f"{path} = {self.set_value()}")
                elif word == "REMOVE":
                    clauses.append(path)
                else:
                    clauses.append(f"{path} {self.value(self.addend(word))}")
            if clauses:
                parts.append(f"{word} {', '.join(clauses)}")
        return " ".join(parts)

    def addend(self, word):
        if self.draw.chance(3):
            return self.draw.value(2)
        if word == "ADD" and self.draw.chance(50):
            return self.draw.scalar("N")
        return self.draw.of_kind(self.draw.one(["SS", "NS", "BS"]), 0)

    def put_into(self, request):
        """Adds the placeholders."""
        if self.names:
            request["ExpressionAttributeNames"] = self.names
        if self.values:
            request["ExpressionAttributeValues"] = self.values
        return request
