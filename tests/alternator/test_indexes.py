"""Indexes: what they show is what a scan of the table shows, whatever was written."""
import random
import time

import pytest
from boto3.dynamodb.conditions import Key
from botocore.exceptions import ClientError
from door import dynamodb
from node import Node

CHOICES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


def definitions(names):
    return [{"AttributeName": name, "AttributeType": "N" if name == "n" else "S"} for name in names]


def index(name, *keys, projection=None):
    kinds = zip(keys, ["HASH", "RANGE"])
    return {"IndexName": name, "Projection": projection or {"ProjectionType": "ALL"},
            "KeySchema": [{"AttributeName": key, "KeyType": kind} for key, kind in kinds]}


def create(resource, name, attributes, **facts):
    return resource.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST", AttributeDefinitions=definitions(attributes),
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "c", "KeyType": "RANGE"}],
        **facts)


def all_of(call, **facts):
    """All pages, of few items each."""
    items = []
    while True:
        page = call(Limit=3, **facts)
        items += page["Items"]
        if "LastEvaluatedKey" not in page:
            return items
        facts["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def in_order(items):
    return sorted(items, key=lambda item: (item["p"], item["c"]))


def until_same(found, wanted):
    """A global index is behind for a moment."""
    for _ in range(50):
        if in_order(found()) == in_order(wanted):
            return
        time.sleep(0.1)
    assert in_order(found()) == in_order(wanted)


def write(table, draw):
    """One write of some item, of those that keep to the types of the indexes."""
    key = {"p": draw.choice(CHOICES), "c": draw.choice(CHOICES)}
    kind = draw.randrange(5)
    if kind == 0:
        table.delete_item(Key=key)
    elif kind == 1:
        name = draw.choice(["x", "n", "z"])
        table.update_item(Key=key, UpdateExpression="REMOVE #a", ExpressionAttributeNames={"#a": name})
    elif kind == 2:
        table.update_item(Key=key, UpdateExpression="SET #a = :v", ExpressionAttributeNames={"#a": "x"},
                          ExpressionAttributeValues={":v": draw.choice(CHOICES)})
    else:
        item = {**key, "x": draw.choice(CHOICES), "n": draw.randrange(3), "z": draw.randrange(9)}
        dropped = [name for name in ("x", "n", "z") if draw.randrange(4) == 0]
        table.put_item(Item={name: value for name, value in item.items() if name not in dropped})


def test_indexes_show_what_a_scan_shows(node):
    table = create(
        dynamodb(node), "random", ["p", "c", "x", "n"],
        GlobalSecondaryIndexes=[index("by_x", "x"), index("by_both", "x", "n"), index("by_c", "c", "p")],
        LocalSecondaryIndexes=[index("local", "p", "n")])
    for seed in range(6):
        draw = random.Random(seed)
        for _ in range(60):
            write(table, draw)
            items = all_of(table.scan, ConsistentRead=True)
            # The local one is as the table, at once.
            local = all_of(table.scan, IndexName="local", ConsistentRead=True)
            assert in_order(local) == in_order(item for item in items if "n" in item)
        for name, has in [("by_x", ["x"]), ("by_both", ["x", "n"]), ("by_c", [])]:
            wanted = [item for item in items if all(key in item for key in has)]
            until_same(lambda name=name: all_of(table.scan, IndexName=name), wanted)
        for x in CHOICES:
            asked = {"IndexName": "by_both", "KeyConditionExpression": Key("x").eq(x) & Key("n").gte(1)}
            wanted = [item for item in items if item.get("x") == x and item.get("n", 0) >= 1]
            found = all_of(table.query, **asked)
            assert in_order(found) == in_order(wanted)
            assert [item["n"] for item in found] == sorted(item["n"] for item in wanted)
    table.delete()


HASHES, RANGES = ["h", "i"], ["r", "s", "t"]
TYPES = {"p": "S", "h": "S", "i": "N", "r": "N", "s": "S", "t": "B"}


def value_of(name, draw):
    """A value of an attribute of the index `whole`, of few."""
    number = draw.randrange(3)
    return {"S": "ab" * number + "a", "N": number, "B": bytes([number, 255])}[TYPES[name]]


def condition(draw):
    """A key condition of the index `whole`, and a function that tells what it lets through."""
    asked, known, tests = [], {}, []

    def add(name, how):
        values = [value_of(name, draw) for _ in range(2 if how == "BETWEEN" else 1)]
        values.sort()
        names = [f":{name}{at}" for at in range(len(values))]
        known.update(zip(names, values))
        if how == "BETWEEN":
            asked.append(f"{name} BETWEEN {names[0]} AND {names[1]}")
            tests.append(lambda item: values[0] <= item[name] <= values[1])
        elif how == "begins_with":
            asked.append(f"begins_with({name}, {names[0]})")
            tests.append(lambda item: item[name].startswith(values[0]))
        else:
            asked.append(f"{name} {how} {names[0]}")
            compare = {"=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
                       ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}[how]
            tests.append(lambda item: compare(item[name], values[0]))

    for name in HASHES:
        add(name, "=")
    depth = draw.randrange(len(RANGES) + 1)
    for at, name in enumerate(RANGES[:depth]):
        others = ["<", "<=", ">", ">=", "BETWEEN"] + (["begins_with"] if TYPES[name] != "N" else [])
        add(name, draw.choice(others) if at == depth - 1 else "=")
    draw.shuffle(asked)
    facts = {"KeyConditionExpression": " AND ".join(asked), "ExpressionAttributeValues": known}
    return facts, lambda item: all(test(item) for test in tests)


def plain(item):
    """With what boto3 gives for bytes and numbers as what was given to it."""
    of = {"B": lambda value: bytes(value), "N": int}  # pylint: disable=unnecessary-lambda
    return {name: of.get(TYPES[name], lambda value: value)(value) for name, value in item.items()}


def test_keys_of_several_attributes(node):
    schema = [{"AttributeName": name, "KeyType": "HASH"} for name in HASHES]
    schema += [{"AttributeName": name, "KeyType": "RANGE"} for name in RANGES]
    resource = dynamodb(node)
    table = resource.create_table(
        TableName="several", BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": ty} for name, ty in TYPES.items()],
        GlobalSecondaryIndexes=[
            {"IndexName": "whole", "KeySchema": schema, "Projection": {"ProjectionType": "ALL"}}])
    described = table.meta.client.describe_table(TableName="several")["Table"]
    assert described["GlobalSecondaryIndexes"][0]["KeySchema"] == schema
    draw = random.Random(4)
    for _ in range(3):
        for _ in range(60):
            key, name = {"p": str(draw.randrange(20))}, draw.choice(HASHES + RANGES)
            kind = draw.randrange(8)
            if kind == 0:
                table.delete_item(Key=key)
            elif kind == 1:
                table.update_item(Key=key, UpdateExpression=f"REMOVE {name}")
            elif kind == 2:
                table.update_item(Key=key, UpdateExpression=f"SET {name} = :v",
                                  ExpressionAttributeValues={":v": value_of(name, draw)})
            else:
                table.put_item(Item={**key, **{it: value_of(it, draw) for it in HASHES + RANGES}})
        items = [plain(item) for item in all_of(table.scan, ConsistentRead=True)]
        indexed = [item for item in items if len(item) == len(TYPES)]
        by_p = lambda items: sorted(map(plain, items), key=lambda item: item["p"])  # noqa: E731
        for _ in range(50):
            if by_p(all_of(table.scan, IndexName="whole")) == by_p(indexed):
                break
            time.sleep(0.1)
        assert by_p(all_of(table.scan, IndexName="whole")) == by_p(indexed)
        for _ in range(60):
            asked, lets_through = condition(draw)
            forward = draw.randrange(2) == 0
            found = all_of(table.query, IndexName="whole", ScanIndexForward=forward, **asked)
            assert by_p(found) == by_p(filter(lets_through, indexed)), asked
            keys = [tuple(plain(item)[name] for name in RANGES) for item in found]
            assert keys == sorted(keys, reverse=not forward), asked
    refused = [
        ("h = :a", "HASH.*equality"), ("h = :a AND i > :n", "HASH.*equality"),
        ("h = :a AND i = :n AND s = :a", "RANGE.*equality"),
        ("h = :a AND i = :n AND r > :n AND s = :a", "RANGE.*equality"),
        ("h = :a AND i = :n AND r = :n AND t = :t", "RANGE.*equality"),
        ("h = :a AND i = :a", "[Tt]ype"), ("h = :a AND i = :n AND p = :a", "no key")]
    values = {":a": "a", ":n": 1, ":t": b"t"}
    for text, said in refused:
        used = {name: value for name, value in values.items() if name in text}
        with pytest.raises(ClientError, match=f"ValidationException.*{said}"):
            table.query(IndexName="whole", KeyConditionExpression=text, ExpressionAttributeValues=used)
    with pytest.raises(ClientError, match="ValidationException.*Type mismatch"):
        table.put_item(Item={"p": "wrong", "t": "no bytes"})
    many = [{"AttributeName": f"a{at}", "AttributeType": "S"} for at in range(6)]
    for kinds, said in [("HHHHH", "4 HASH"), ("HRRRRR", "4 RANGE"), ("HRH", "HASH.*precede.*RANGE"),
                        ("R", "not a HASH")]:
        schema = [{"AttributeName": f"a{at}", "KeyType": {"H": "HASH", "R": "RANGE"}[kind]}
                  for at, kind in enumerate(kinds)]
        create = {"IndexName": "more", "KeySchema": schema, "Projection": {"ProjectionType": "ALL"}}
        with pytest.raises(ClientError, match=f"ValidationException.*{said}"):
            table.meta.client.update_table(
                TableName="several", AttributeDefinitions=many[:len(kinds)],
                GlobalSecondaryIndexUpdates=[{"Create": create}])
    table.delete()


def test_a_query_goes_on_within_what_it_asks_for(node):
    table = create(dynamodb(node), "within", ["p", "c", "x"], GlobalSecondaryIndexes=[index("by_x", "x")])
    for c in "abc":
        table.put_item(Item={"p": "1", "c": c, "x": "x"})
    asked = {"KeyConditionExpression": Key("p").eq("1") & Key("c").gt("a")}
    found = table.query(ExclusiveStartKey={"p": "1", "c": "b"}, **asked)["Items"]
    assert [item["c"] for item in found] == ["c"]
    for start, said in [({"p": "1", "c": "a"}, "range key"), ({"p": "2", "c": "b"}, "hash key")]:
        with pytest.raises(ClientError, match=f"ValidationException.*starting key is outside.*{said}"):
            table.query(ExclusiveStartKey=start, **asked)
    start = {"p": "1", "c": "a", "x": "x"}
    until_same(lambda: table.query(IndexName="by_x", KeyConditionExpression=Key("x").eq("x"),
                                   ExclusiveStartKey=start)["Items"],
               [{"p": "1", "c": c, "x": "x"} for c in "bc"])
    with pytest.raises(ClientError, match="ValidationException.*starting key is outside"):
        table.query(IndexName="by_x", KeyConditionExpression=Key("x").eq("y"), ExclusiveStartKey=start)
    arn = table.meta.client.describe_table(TableName="within")["Table"]["GlobalSecondaryIndexes"][0]["IndexArn"]
    with pytest.raises(ClientError, match="ValidationException.*ResourceArn"):
        table.meta.client.tag_resource(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    table.delete()


def test_only_what_is_projected_is_shown(node):
    included = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["y"]}
    table = create(dynamodb(node), "projected", ["p", "c", "x"], GlobalSecondaryIndexes=[
        index("keys", "x", projection={"ProjectionType": "KEYS_ONLY"}),
        index("some", "x", projection=included)])
    table.put_item(Item={"p": "1", "c": "2", "x": "3", "y": "4", "z": "5"})
    keys = {"p": "1", "c": "2", "x": "3"}
    until_same(lambda: table.scan(IndexName="keys")["Items"], [keys])
    until_same(lambda: table.scan(IndexName="some")["Items"], [{**keys, "y": "4"}])
    described = table.meta.client.describe_table(TableName=table.name)["Table"]
    found = {it["IndexName"]: it["Projection"] for it in described["GlobalSecondaryIndexes"]}
    assert found == {"keys": {"ProjectionType": "KEYS_ONLY"}, "some": included}
    for facts, said in [({"Select": "ALL_ATTRIBUTES"}, "ALL_ATTRIBUTES"),
                        ({"ProjectionExpression": "z"}, "does not project"),
                        ({"ConsistentRead": True}, "Consistent")]:
        with pytest.raises(ClientError, match=f"ValidationException.*{said}"):
            table.scan(IndexName="some", **facts)
    where = {"IndexName": "some", "KeyConditionExpression": Key("x").eq("3")}
    assert table.query(FilterExpression="y = p", **where)["Items"] == []
    with pytest.raises(ClientError, match="Secondary index some does not project .*: .a, z."):
        table.query(FilterExpression="y = z OR attribute_exists(a.b)", **where)
    table.delete()


def test_what_no_index_can_have_is_not_written(node):
    table = create(dynamodb(node), "refused", ["p", "c", "x"], GlobalSecondaryIndexes=[index("by_x", "x")])
    for value, said in [(3, "mismatch"), (None, "NULL"), ("", "empty"), ("a" * 2049, "2048")]:
        with pytest.raises(ClientError, match=f"ValidationException.*{said}"):
            table.put_item(Item={"p": "1", "c": "2", "x": value})
        with pytest.raises(ClientError, match=f"ValidationException.*{said}"):
            table.update_item(Key={"p": "1", "c": "2"}, UpdateExpression="SET x = :x",
                              ExpressionAttributeValues={":x": value})
        with pytest.raises(ClientError, match=f"ValidationException.*{said}"):
            with table.batch_writer() as batch:
                batch.put_item(Item={"p": "1", "c": "3"})
                batch.put_item(Item={"p": "1", "c": "2", "x": value})
    assert table.scan(ConsistentRead=True)["Items"] == []
    table.delete()


def test_indexes_come_and_go(node):
    resource = dynamodb(node)
    client = resource.meta.client
    table = create(resource, "living", ["p", "c"])
    items = [{"p": "1", "c": f"{n:03}", "x": CHOICES[n % 3], "n": n} for n in range(100)]
    with table.batch_writer() as batch:
        for item in items:
            batch.put_item(Item=item)
        batch.put_item(Item={"p": "1", "c": "other", "x": 5})
    client.update_table(TableName="living", AttributeDefinitions=definitions(["x"]),
                        GlobalSecondaryIndexUpdates=[{"Create": index("by_x", "x")}])

    def status():
        described = client.describe_table(TableName="living")["Table"]
        return [it["IndexStatus"] for it in described.get("GlobalSecondaryIndexes", [])]
    for _ in range(100):
        if status() == ["ACTIVE"]:
            break
        time.sleep(0.1)
    assert status() == ["ACTIVE"]
    # What has another type is in the table and in no index.
    until_same(lambda: all_of(table.scan, IndexName="by_x"), items)
    assert "living" in client.list_tables()["TableNames"]
    assert not [name for name in client.list_tables()["TableNames"] if ":" in name]
    with pytest.raises(ClientError, match="already exists"):
        client.update_table(TableName="living", AttributeDefinitions=definitions(["x"]),
                            GlobalSecondaryIndexUpdates=[{"Create": index("by_x", "x")}])
    client.update_table(TableName="living",
                        GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by_x"}}])
    assert status() == []
    with pytest.raises(ClientError, match="ValidationException.*by_x"):
        table.scan(IndexName="by_x")
    table.put_item(Item={"p": "1", "c": "2", "x": 7})
    table.delete()
