"""Tables, and requests of all kinds that read and write their items."""
import copy

from draw import NAMES, TEXTS, Draw, Phrases, b64

KEPT = ["EQ", "NE", "LE", "LT", "GE", "GT", "NOT_NULL", "NULL", "CONTAINS", "NOT_CONTAINS",
        "BEGINS_WITH", "IN", "BETWEEN"]


class Index:
    def __init__(self, name, keys, projection, is_global):
        self.name, self.key, self.is_global = name, keys, is_global
        self.projection = projection

    def request(self):
        return {"IndexName": self.name, "KeySchema": schema(self.key), "Projection": self.projection}


def schema(key):
    return [{"AttributeName": name, "KeyType": kind}
            for (name, _), kind in zip(key, ("HASH", "RANGE"))]


class Table:
    """A table with its indexes."""

    def __init__(self, draw, name):
        self.name = name
        self.key = [("p", draw.one("SNB"))] + ([("c", draw.one("SNB"))] if draw.chance(70) else [])
        self.indexed, self.indexes = {}, []
        if draw.chance(50):
            self.indexed = {"g": draw.one("SNB"), "h": draw.one("SNB")}
            kinds = [True, False] if len(self.key) > 1 else [True]
            for number, is_global in enumerate(draw.some(kinds * 2, 1, 3)):
                self.indexes.append(self.index(draw, f"index{number}", is_global))
            used = {name for index in self.indexes for name, _ in index.key}
            self.indexed = {name: kind for name, kind in self.indexed.items() if name in used}

    def index(self, draw, name, is_global):
        projection = draw.one([{"ProjectionType": "ALL"}, {"ProjectionType": "KEYS_ONLY"}, {
            "ProjectionType": "INCLUDE", "NonKeyAttributes": draw.some(NAMES, 1, 2)}])
        own = list(self.indexed.items())
        if not is_global:
            return Index(name, [self.key[0], draw.one(own)], projection, False)
        key = draw.some(own + self.key[1:], 1, 2)
        return Index(name, key, projection, True)

    def request(self):
        """Of CreateTable."""
        kinds = dict(self.key) | self.indexed
        request = {
            "TableName": self.name, "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema(self.key),
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind}
                                     for name, kind in kinds.items()]}
        used = {name for index in self.indexes for name, _ in index.key} | set(dict(self.key))
        request["AttributeDefinitions"] = [
            it for it in request["AttributeDefinitions"] if it["AttributeName"] in used]
        for word, is_global in (("GlobalSecondaryIndexes", True), ("LocalSecondaryIndexes", False)):
            indexes = [it.request() for it in self.indexes if it.is_global == is_global]
            if indexes:
                request[word] = indexes
        return request


class Asks:
    """The requests of one table."""

    def __init__(self, rng, name):
        self.draw = Draw(rng)
        self.table = Table(self.draw, name)

    def next(self):
        """An operation and a request of it."""
        kinds = {"PutItem": 14, "UpdateItem": 26, "DeleteItem": 6, "GetItem": 8, "Query": 18,
                 "Scan": 10, "BatchWriteItem": 3, "BatchGetItem": 3, "TransactWriteItems": 5,
                 "TransactGetItems": 2}
        operation = self.draw.rng.choices(list(kinds), kinds.values())[0]
        request = getattr(self, operation)()
        if self.draw.chance(8):
            request = self.spoil(operation, request)
        return operation, request

    def PutItem(self):  # pylint: disable=invalid-name
        request = {"TableName": self.table.name, "Item": self.draw.item(self.table)}
        self.condition(request)
        if self.draw.chance(40):
            request["ReturnValues"] = self.draw.one(["NONE", "ALL_OLD"])
        return request

    def DeleteItem(self):  # pylint: disable=invalid-name
        request = {"TableName": self.table.name, "Key": self.draw.key(self.table)}
        self.condition(request)
        if self.draw.chance(40):
            request["ReturnValues"] = self.draw.one(["NONE", "ALL_OLD"])
        return request

    def UpdateItem(self):  # pylint: disable=invalid-name
        request = {"TableName": self.table.name, "Key": self.draw.key(self.table)}
        turn = self.draw.rng.random()
        if turn < 0.2:
            request["AttributeUpdates"] = self.updates()
            if self.draw.chance(30):
                self.old_condition(request, "Expected")
        elif turn < 0.97:
            phrases = Phrases(self.draw, self.table)
            request["UpdateExpression"] = phrases.update()
            if self.draw.chance(25):
                request["ConditionExpression"] = phrases.condition()
                self.return_on_failure(request)
            phrases.put_into(request)
        if self.draw.chance(70):
            request["ReturnValues"] = self.draw.one(
                ["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"])
        return request

    def updates(self):
        """AttributeUpdates."""
        updates = {}
        names = NAMES + list(self.table.indexed)
        for name in self.draw.some(names, 1, 3):
            action = self.draw.one(["PUT", "ADD", "DELETE"])
            # DynamoDB Local forgets attributes without an action.
            updates[name] = {"Action": action}
            if action != "DELETE" or self.draw.chance(50):
                kind = self.table.indexed.get(name)
                updates[name]["Value"] = (
                    self.draw.key_value(kind) if kind and self.draw.chance(80)
                    else self.draw.scalar("N") if action == "ADD" and self.draw.chance(50)
                    else self.draw.value(1))
        return updates

    def return_on_failure(self, request):
        if self.draw.chance(40):
            request["ReturnValuesOnConditionCheckFailure"] = self.draw.one(["ALL_OLD", "NONE"])

    def condition(self, request):
        """A condition of a write, in some requests."""
        turn = self.draw.rng.random()
        if turn < 0.3:
            phrases = Phrases(self.draw, self.table)
            request["ConditionExpression"] = phrases.condition()
            self.return_on_failure(request)
            phrases.put_into(request)
        elif turn < 0.4:
            self.old_condition(request, "Expected")

    def old_condition(self, request, word, names=None):
        """Expected, QueryFilter and ScanFilter."""
        conditions = {}
        for name in self.draw.some(names or NAMES + list(self.table.indexed), 1, 2):
            conditions[name] = self.old_comparison()
            if word == "Expected" and self.draw.chance(30):
                exists = self.draw.chance(50)
                conditions[name] = {"Exists": exists} | ({"Value": self.draw.value(1)} if exists else {})
        request[word] = conditions
        if self.draw.chance(30):
            request["ConditionalOperator"] = self.draw.one(["AND", "OR"])

    def old_comparison(self):
        operator, draw = self.draw.one(KEPT), self.draw
        kind = draw.one("SNB")
        if operator in ("NOT_NULL", "NULL"):
            return {"ComparisonOperator": operator}
        if operator == "BETWEEN":
            ends = ([{"N": "0"}, {"N": "5"}], [{"S": "a"}, {"S": "b"}])[draw.chance(50)]
            return {"ComparisonOperator": operator, "AttributeValueList": ends}
        count = draw.rng.randint(1, 3) if operator == "IN" else 1
        values = [draw.scalar(kind) for _ in range(count)]
        if operator in ("EQ", "NE") and draw.chance(50):
            values = [draw.value(1)]
        return {"ComparisonOperator": operator, "AttributeValueList": values}

    def GetItem(self):  # pylint: disable=invalid-name
        request = {"TableName": self.table.name, "Key": self.draw.key(self.table),
                   "ConsistentRead": True}
        self.projection(request, Phrases(self.draw, self.table))
        return request

    def projection(self, request, phrases, per_cent=35):
        """What is asked for of items, and the placeholders."""
        turn = self.draw.rng.random() * 100
        if turn < per_cent:
            request["ProjectionExpression"] = phrases.projection()
        elif turn < per_cent + 10 and not phrases.names and not phrases.values:
            names = NAMES + list(self.table.indexed) + [name for name, _ in self.table.key]
            request["AttributesToGet"] = self.draw.some(names, 1, 3)
        phrases.put_into(request)

    def Query(self):  # pylint: disable=invalid-name
        draw = self.draw
        index = draw.one(self.table.indexes) if self.table.indexes and draw.chance(60) else None
        request, key = {"TableName": self.table.name}, self.table.key
        if index:
            request["IndexName"], key = index.name, index.key
        if not (index and index.is_global):
            request["ConsistentRead"] = True
        is_old = draw.chance(20)
        phrases = Phrases(draw, self.table)
        if is_old:
            request["KeyConditions"] = self.key_conditions(key)
            if draw.chance(40):
                self.old_condition(request, "QueryFilter")
        else:
            request["KeyConditionExpression"] = self.key_condition(phrases, key)
            if draw.chance(40):
                request["FilterExpression"] = phrases.condition()
        if draw.chance(50):
            request["ScanIndexForward"] = draw.chance(40)
        self.page(request, phrases)
        return request

    def page(self, request, phrases):
        if self.draw.chance(40):
            request["Limit"] = self.draw.rng.randint(1, 4)
        if self.draw.chance(20):
            request["Select"] = self.draw.one(
                ["COUNT", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"])
            phrases.put_into(request)
        else:
            self.projection(request, phrases, 25)

    def key_condition(self, phrases, key):
        (name, kind), rest = key[0], key[1:]
        parts = [f"{phrases.name(name)} = {phrases.value(self.draw.key_value(kind))}"]
        for name, kind in rest:
            if self.draw.chance(60):
                parts.append(self.range_condition(phrases, name, kind))
        if self.draw.chance(20):
            parts.reverse()
        if self.draw.chance(10):
            parts[0] = f"({parts[0]})"
        return " AND ".join(parts)

    def range_condition(self, phrases, name, kind):
        turn, name = self.draw.rng.randint(0, 7), phrases.name(name)
        first = phrases.value(self.draw.key_value(kind))
        if turn <= 4:
            return f"{name} {self.draw.one(['=', '<', '<=', '>', '>='])} {first}"
        if turn == 5 and kind != "N":
            return f"begins_with({name}, {first})"
        return f"{name} BETWEEN {first} AND {phrases.value(self.draw.key_value(kind))}"

    def key_conditions(self, key):
        conditions = {key[0][0]: {"ComparisonOperator": "EQ",
                                  "AttributeValueList": [self.draw.key_value(key[0][1])]}}
        for name, kind in key[1:]:
            if self.draw.chance(60):
                operator = self.draw.one(["EQ", "LT", "LE", "GT", "GE", "BETWEEN", "BEGINS_WITH"])
                count = 2 if operator == "BETWEEN" else 1
                conditions[name] = {
                    "ComparisonOperator": operator,
                    "AttributeValueList": [self.draw.key_value(kind) for _ in range(count)]}
        return conditions

    def Scan(self):  # pylint: disable=invalid-name
        draw = self.draw
        index = draw.one(self.table.indexes) if self.table.indexes and draw.chance(50) else None
        request = {"TableName": self.table.name}
        if index:
            request["IndexName"] = index.name
        if not (index and index.is_global):
            request["ConsistentRead"] = True
        phrases = Phrases(draw, self.table)
        if draw.chance(50):
            request["FilterExpression"] = phrases.condition()
        elif draw.chance(30):
            self.old_condition(request, "ScanFilter")
        if draw.chance(15):
            request["TotalSegments"] = draw.rng.randint(1, 3)
            request["Segment"] = 0
        self.page(request, phrases)
        return request

    def BatchWriteItem(self):  # pylint: disable=invalid-name
        asked = []
        for key in self.some_keys(2):
            if self.draw.chance(70):
                asked.append({"PutRequest": {"Item": self.draw.item(self.table) | key}})
            else:
                asked.append({"DeleteRequest": {"Key": key}})
        return {"RequestItems": {self.table.name: asked}}

    def some_keys(self, repeated=0):
        """Keys, each once; in so many of a hundred requests, perhaps one twice."""
        keys = [self.draw.key(self.table) for _ in range(self.draw.rng.randint(1, 6))]
        if self.draw.chance(repeated):
            return keys
        return list({canonical_key(key): key for key in keys}.values())

    def BatchGetItem(self):  # pylint: disable=invalid-name
        asked = {"Keys": self.some_keys(2), "ConsistentRead": True}
        self.projection(asked, Phrases(self.draw, self.table))
        asked.pop("ExpressionAttributeValues", None)
        return {"RequestItems": {self.table.name: asked}}

    def TransactGetItems(self):  # pylint: disable=invalid-name
        parts = []
        for key in self.some_keys(2):
            part = {"TableName": self.table.name, "Key": key}
            phrases = Phrases(self.draw, self.table)
            if self.draw.chance(35):
                part["ProjectionExpression"] = phrases.projection()
            parts.append({"Get": phrases.put_into(part)})
        return {"TransactItems": parts}

    def TransactWriteItems(self):  # pylint: disable=invalid-name
        parts = []
        for key in self.some_keys(2):
            kind = self.draw.one(["Put", "Update", "Delete", "ConditionCheck"])
            part, phrases = {"TableName": self.table.name}, Phrases(self.draw, self.table)
            part |= {"Item": self.draw.item(self.table) | key} if kind == "Put" else {"Key": key}
            if kind == "Update":
                part["UpdateExpression"] = phrases.update()
            if kind == "ConditionCheck" or self.draw.chance(30):
                part["ConditionExpression"] = phrases.condition()
                self.return_on_failure(part)
            parts.append({kind: phrases.put_into(part)})
        return {"TransactItems": parts}

    # What is wrong with requests.

    def spoil(self, operation, request):
        """The request with one mistake."""
        request = copy.deepcopy(request)
        turn = self.draw.rng.randint(0, 9)
        if turn == 0:
            request.pop(self.draw.one(list(request)))
        elif turn == 1:
            place = self.inner(request)
            name = self.draw.one(list(place)) if place else None
            if name:
                place[name] = self.draw.bad_value()
        elif turn == 2:
            words = [word for word in request if word.endswith("Expression")]
            if words:
                word = self.draw.one(words)
                text = request[word]
                place = self.draw.rng.randrange(len(text) + 1)
                request[word] = text[:place] + self.draw.one(["", "(", ")", " ", ",", "#", ":"]) \
                    + text[place + 1:]
        elif turn == 3:
            request.setdefault("ExpressionAttributeValues", {})[":unused"] = {"S": "x"}
        elif turn == 4:
            request.setdefault("ExpressionAttributeNames", {})["#unused"] = "x"
        elif turn == 5:
            request["ReturnValues"] = self.draw.one(["ALL_NEW", "UPDATED_OLD", "SOME"])
        elif turn == 6 and operation in ("Query", "Scan"):
            request |= self.draw.one([
                {"Limit": 0}, {"Select": "SPECIFIC_ATTRIBUTES"}, {"Select": "SOME"},
                {"IndexName": "none"}, {"ConsistentRead": True}, {"Limit": -1},
                {"ExclusiveStartKey": {"p": {"S": "?"}}}, {"TotalSegments": 0, "Segment": 0},
                {"Segment": 2, "TotalSegments": 2}, {"Segment": 0}])
        elif turn == 7:
            request["TableName"] = self.draw.one(["none", "no", "no table!", ""])
        elif turn == 8:
            request |= self.draw.one([
                {"ExpressionAttributeNames": {}}, {"ExpressionAttributeValues": {}},
                {"ExpressionAttributeNames": {"x": "y"}}, {"ConditionalOperator": "AND"},
                {"ExpressionAttributeValues": {"x": {"S": "y"}}}, {"ConditionExpression": ""},
                {"Expected": {"a": {"Exists": True}}}, {"AttributeUpdates": {"p": {"Value": {"S": "z"}}}},
                {"ConditionExpression": "a = :none"}, {"ConditionExpression": "#none = a"},
                {"ProjectionExpression": "a, a"}, {"ProjectionExpression": "a.x, a[0]"},
                {"Expected": {"a": {"ComparisonOperator": "EQ"}}},
                {"Expected": {"a": {"ComparisonOperator": "LT", "AttributeValueList": [{"NULL": True}]}}},
                {"Expected": {"a": {"ComparisonOperator": "WHAT", "AttributeValueList": [{"S": ""}]}}}])
        else:
            place = request.get("Key") or request.get("Item")
            if place:
                change = self.draw.rng.randint(0, 3)
                name = self.draw.one([name for name, _ in self.table.key])
                if change == 0:
                    place.pop(name, None)
                elif change == 1:
                    place[name] = self.draw.value()
                elif change == 2:
                    place[name] = self.draw.one([{"S": ""}, {"B": ""}, {"S": "a" * 2049},
                                                 {"B": b64(b"b" * 1025)}])
                else:
                    place["more"] = {"S": self.draw.one(TEXTS)}
        return request

    def inner(self, request):
        """A map of values in the request."""
        places = [request[word] for word in ("Item", "Key", "ExpressionAttributeValues",
                                             "ExclusiveStartKey") if request.get(word)]
        return self.draw.one(places) if places else None


def canonical_key(key):
    return tuple((name, kind, float(text) if kind == "N" else text)
                 for name, value in sorted(key.items()) for kind, text in value.items())
