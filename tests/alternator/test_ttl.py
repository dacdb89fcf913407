"""Items that say when they expire, by boto3."""
import time
from decimal import Decimal

import pytest
from botocore.exceptions import ClientError
from door import dynamodb, table
from node import Node


@pytest.fixture(scope="module")
def db():
    with Node("--alternator-ttl-period-in-seconds", "0.2") as node:
        yield dynamodb(node)


def enable(t, name="e", enabled=True):
    said = {"AttributeName": name, "Enabled": enabled}
    answer = t.meta.client.update_time_to_live(TableName=t.name, TimeToLiveSpecification=said)
    assert answer["TimeToLiveSpecification"] == said


def described(t):
    return t.meta.client.describe_time_to_live(TableName=t.name)["TimeToLiveDescription"]


def left(t):
    found = t.scan(ConsistentRead=True, ProjectionExpression="p")
    return {item["p"] for item in found["Items"]}


def wait_for(expected, found, seconds=20):
    deadline = time.monotonic() + seconds
    while found() != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found() == expected


def test_one_attribute_says_it(db):
    with table(db) as t:
        assert described(t) == {"TimeToLiveStatus": "DISABLED"}
        enable(t)
        assert described(t) == {"TimeToLiveStatus": "ENABLED", "AttributeName": "e"}
        for name, enabled, words in [("e", True, "already enabled"), ("f", True, "active"),
                                     ("f", False, "different")]:
            with pytest.raises(ClientError, match=f"ValidationException.*{words}"):
                enable(t, name, enabled)
        enable(t, enabled=False)
        assert described(t) == {"TimeToLiveStatus": "DISABLED"}
        with pytest.raises(ClientError, match="ValidationException.*disabled"):
            enable(t, enabled=False)
        with pytest.raises(ClientError, match="ValidationException.*length"):
            enable(t, "x" * 256)
        # Where ScyllaDB keeps it.
        arn = t.meta.client.describe_table(TableName=t.name)["Table"]["TableArn"]
        tag = "system:ttl_attribute"
        with pytest.raises(ClientError, match="ValidationException.*internal"):
            t.meta.client.tag_resource(ResourceArn=arn, Tags=[{"Key": tag, "Value": "x"}])
        with pytest.raises(ClientError, match="ValidationException.*internal"):
            t.meta.client.untag_resource(ResourceArn=arn, TagKeys=[tag])


@pytest.mark.parametrize("range_type", [None, "S"])
def test_items_expire(db, range_type):
    now = int(time.time())
    times = {
        "past": now - 60, "fraction": Decimal(now - 60) + Decimal("0.25"), "soon": now + 1,
        "exponent": Decimal(f"{(now - 60) // 10}e1"), "later": now + 3600, "text": str(now - 60),
        "mistake": now - 6 * 366 * 24 * 3600, "huge": Decimal("1e120"), "list": [now - 60],
    }
    stays = {"later", "text", "mistake", "huge", "list", "none", "moved"}
    with table(db, range_type=range_type) as t:
        key = {"c": "x"} if range_type else {}
        for name, value in times.items():
            t.put_item(Item={"p": name, "e": value, **key})
        t.put_item(Item={"p": "none", **key})
        t.put_item(Item={"p": "moved", "e": now - 60, **key})
        t.update_item(Key={"p": "moved", **key}, UpdateExpression="SET e = :e",
                      ConditionExpression="e < :e", ExpressionAttributeValues={":e": now + 3600})
        enable(t)
        wait_for(stays, lambda: left(t))
        # What changed its mind stays, though rounds of all shards have passed since.
        t.put_item(Item={"p": "past", "e": now + 3600, **key})
        for _ in range(2):
            for i in range(16):
                t.put_item(Item={"p": f"due {i}", "e": now - 60, **key})
            wait_for({*stays, "past"}, lambda: left(t))


def test_a_key_may_say_it(db):
    now = int(time.time())
    with table(db, hash_type="N") as t:
        enable(t, "p")
        t.put_item(Item={"p": now - 60})
        t.put_item(Item={"p": now + 3600})
        wait_for({now + 3600}, lambda: left(t))
    with table(db, range_type="N") as t:
        enable(t, "c")
        t.put_item(Item={"p": "x", "c": now - 60})
        t.put_item(Item={"p": "x", "c": now + 3600})
        t.put_item(Item={"p": "y", "c": now - 60})
        wait_for([now + 3600], lambda: [item["c"] for item in t.scan()["Items"]])
