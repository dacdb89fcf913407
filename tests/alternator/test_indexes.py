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
