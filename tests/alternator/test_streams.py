"""Streams of tables, by boto3: which there are, what their records tell, and who reads on where."""
import time

import pytest
from boto3.dynamodb.types import TypeDeserializer
from botocore.exceptions import ClientError
from door import dynamodb, streams, table
from node import Node


@pytest.fixture(scope="module")
def node():
    with Node("--alternator-streams-time-window-s", "0") as node:
        yield node


@pytest.fixture(scope="module")
def db(node):
    return dynamodb(node)


@pytest.fixture(scope="module")
def of(node):
    return streams(node)


def specification(view):
    return {"StreamEnabled": True, "StreamViewType": view}


def arn(t):
    return t.meta.client.describe_table(TableName=t.name)["Table"]["LatestStreamArn"]


def shards(of, name, limit=3):
    """All of a stream, a page at a time."""
    found, more = [], {}
    while True:
        page = of.describe_stream(StreamArn=name, Limit=limit, **more)["StreamDescription"]
        assert len(page["Shards"]) <= limit
        found += page["Shards"]
        if "LastEvaluatedShardId" not in page:
            ids = [shard["ShardId"] for shard in found]
            assert ids == sorted(set(ids)), "each once, in order"
            return found
        more = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}


def iterators(of, name, kind):
    asked = [{"StreamArn": name, "ShardId": shard["ShardId"], "ShardIteratorType": kind}
             for shard in shards(of, name)]
    return [of.get_shard_iterator(**one)["ShardIterator"] for one in asked]


def plain(item):
    return item and {name: TypeDeserializer().deserialize(it) for name, it in item.items()}


def told(record):
    it = record["dynamodb"]
    images = plain(it.get("OldImage")), plain(it.get("NewImage"))
    return (record["eventName"], plain(it["Keys"]), *images)


def read(of, reading, expected, seconds=20, limit=1000):
    """Reads on until there are as many records as expected; then there are no more."""
    found, deadline = [], time.monotonic() + seconds
    while len(found) < expected and time.monotonic() < deadline:
        for at, iterator in enumerate(reading):
            if iterator:
                page = of.get_records(ShardIterator=iterator, Limit=limit)
                assert len(page["Records"]) <= limit
                found += page["Records"]
                reading[at] = page.get("NextShardIterator")
    for iterator in filter(None, reading):
        found += of.get_records(ShardIterator=iterator)["Records"]
    assert len(found) == expected, found
    return found


def writes(t, key):
    """Changes of an item, and what they are told as."""
    t.put_item(Item={**key, "x": 1})
    yield "INSERT", None, {"x": 1}
    t.put_item(Item={**key, "x": 1})
    t.update_item(Key=key, UpdateExpression="SET y = :y", ExpressionAttributeValues={":y": {"a": [2]}})
    yield "MODIFY", {"x": 1}, {"x": 1, "y": {"a": [2]}}
    t.update_item(Key=key, UpdateExpression="REMOVE z")
    t.update_item(Key=key, UpdateExpression="ADD x :one REMOVE y", ExpressionAttributeValues={":one": 1})
    yield "MODIFY", {"x": 1, "y": {"a": [2]}}, {"x": 2}
    t.put_item(Item=key)
    yield "MODIFY", {"x": 2}, {}
    t.delete_item(Key=key)
    yield "REMOVE", {}, None
    t.delete_item(Key=key)


@pytest.mark.parametrize("range_type", [None, "S"])
@pytest.mark.parametrize("view", ["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"])
def test_records_tell_changes(db, of, view, range_type):
    with table(db, range_type=range_type, StreamSpecification=specification(view)) as t:
        key = {"p": "k", **({"c": "r"} if range_type else {})}
        reading = iterators(of, arn(t), "LATEST")
        shows = {"old": "OLD" in view, "new": "NEW" in view}
        expected = [
            (name, key, {**key, **old} if shows["old"] and old is not None else None,
             {**key, **new} if shows["new"] and new is not None else None)
            for name, old, new in writes(t, key)]
        found = read(of, reading, len(expected))
        assert [told(record) for record in found] == expected
        numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in found]
        assert numbers == sorted(set(numbers))
        assert len({record["eventID"] for record in found}) == len(found)
        for record in found:
            assert record["dynamodb"]["StreamViewType"] == view
            assert 0 < record["dynamodb"]["SizeBytes"]
            assert abs(record["dynamodb"]["ApproximateCreationDateTime"].timestamp() - time.time()) < 60


def test_batches_tell_each_item(db, of):
    view = specification("NEW_AND_OLD_IMAGES")
    with table(db, range_type="N", StreamSpecification=view) as t:
        reading = iterators(of, arn(t), "LATEST")
        with t.batch_writer() as batch:
            for c in range(20):
                batch.put_item(Item={"p": "k", "c": c, "x": c})
        # A page at a time, in the midst of a batch.
        found = read(of, reading, 20, limit=3)
        assert sorted(told(record)[1]["c"] for record in found) == list(range(20))
        assert {record["eventName"] for record in found} == {"INSERT"}
        with t.batch_writer() as batch:
            batch.delete_item(Key={"p": "k", "c": 3})
            batch.delete_item(Key={"p": "k", "c": 77})
            batch.put_item(Item={"p": "k", "c": 4, "x": 4})
            batch.put_item(Item={"p": "k", "c": 5, "x": 6})
        found = sorted(told(record)[:2] for record in read(of, reading, 2))
        assert [(name, it["c"]) for name, it in found] == [("MODIFY", 5), ("REMOVE", 3)]


def test_iterators_begin_where_they_are_told(db, of):
    with table(db, StreamSpecification=specification("KEYS_ONLY")) as t:
        name = arn(t)
        for x in range(5):
            t.put_item(Item={"p": "k", "x": x})
        found = read(of, iterators(of, name, "TRIM_HORIZON"), 5)
        numbers = [record["dynamodb"]["SequenceNumber"] for record in found]
        (shard,) = [shard for shard in shards(of, name) if read_from(of, name, shard, numbers[0])]
        for kind, expected in [("AT", 3), ("AFTER", 2)]:
            asked = {"StreamArn": name, "ShardId": shard["ShardId"], "SequenceNumber": numbers[2],
                     "ShardIteratorType": f"{kind}_SEQUENCE_NUMBER"}
            first = of.get_shard_iterator(**asked)["ShardIterator"]
            later = of.get_records(ShardIterator=first)["Records"]
            assert [it["dynamodb"]["SequenceNumber"] for it in later] == numbers[-expected:]
        assert read(of, iterators(of, name, "LATEST"), 0) == []


def read_from(of, name, shard, number):
    asked = {"StreamArn": name, "ShardId": shard["ShardId"], "SequenceNumber": number,
             "ShardIteratorType": "AT_SEQUENCE_NUMBER"}
    return of.get_records(ShardIterator=of.get_shard_iterator(**asked)["ShardIterator"])["Records"]


@pytest.fixture(scope="module")
def waiting():
    """A node whose streams show what is some seconds old.

    Nobody here writes between two calls but the scan for expired items, which works beside a reader:
    what it is slow to write, a reader without a window has gone past (*none-skipped*).
    """
    with Node("--alternator-streams-time-window-s", "4",
              "--alternator-ttl-period-in-seconds", "0.2") as node:
        yield node


def test_items_that_expire_are_told_so(waiting):
    db, of = dynamodb(waiting), streams(waiting)
    with table(db, range_type="S", StreamSpecification=specification("OLD_IMAGE")) as t:
        reading = iterators(of, arn(t), "TRIM_HORIZON")
        said = {"AttributeName": "e", "Enabled": True}
        t.meta.client.update_time_to_live(TableName=t.name, TimeToLiveSpecification=said)
        item = {"p": "k", "c": "r", "e": int(time.time()) - 60}
        t.put_item(Item=item)
        put, gone = read(of, reading, 2, seconds=60)
        assert put["eventName"] == "INSERT" and "userIdentity" not in put
        assert told(gone) == ("REMOVE", {"p": "k", "c": "r"}, item, None)
        service = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
        assert gone["userIdentity"] == service


def test_a_stream_that_is_closed_is_read_to_its_end(node, db, of):
    with table(db) as t:
        client = t.meta.client
        assert of.list_streams(TableName=t.name)["Streams"] == []
        described = client.describe_table(TableName=t.name)["Table"]
        assert "LatestStreamArn" not in described and "StreamSpecification" not in described
        with pytest.raises(ClientError, match="ValidationException.*disabled"):
            t.update(StreamSpecification={"StreamEnabled": False})
        t.put_item(Item={"p": "before"})
        t.update(StreamSpecification=specification("KEYS_ONLY"))
        first = arn(t)
        with pytest.raises(ClientError, match="ValidationException.*already"):
            t.update(StreamSpecification=specification("NEW_IMAGE"))
        t.put_item(Item={"p": "first"})
        t.update(StreamSpecification={"StreamEnabled": False})
        t.put_item(Item={"p": "between"})
        described = of.describe_stream(StreamArn=first)["StreamDescription"]
        assert described["StreamStatus"] == "DISABLED"
        assert all("EndingSequenceNumber" in it["SequenceNumberRange"] for it in shards(of, first))
        t.update(StreamSpecification=specification("NEW_IMAGE"))
        second = arn(t)
        t.put_item(Item={"p": "second"})
        listed = of.list_streams(TableName=t.name)["Streams"]
        assert [it["StreamArn"] for it in listed] == [first, second]
        assert node.stop() == 0
        node.start()
        for name, key in [(first, "first"), (second, "second")]:
            reading = iterators(of, name, "TRIM_HORIZON")
            (record,) = read(of, reading, 1)
            assert plain(record["dynamodb"]["Keys"]) == {"p": key}
            is_open = [iterator is not None for iterator in reading]
            assert all(is_open) if name == second else not any(is_open)
        pages = of.list_streams(Limit=1, TableName=t.name)
        assert pages["LastEvaluatedStreamArn"] == first
        rest = of.list_streams(TableName=t.name, ExclusiveStartStreamArn=first)
        assert [it["StreamArn"] for it in rest["Streams"]] == [second]


def test_what_is_wrong_is_refused(db, of):
    with table(db, StreamSpecification=specification("KEYS_ONLY")) as t:
        name = arn(t)
        (shard, *_) = shards(of, name)
        asked = {"StreamArn": name, "ShardId": shard["ShardId"], "ShardIteratorType": "LATEST"}
        for wrong, code in [
                ({"StreamArn": "x" * 60}, "ValidationException"),
                ({"StreamArn": name.replace(t.name, "other")}, "ResourceNotFoundException"),
                ({"StreamArn": name[:-3] + "abc"}, "ResourceNotFoundException"),
                ({"ShardId": "shardId-" + "0" * 48}, "ResourceNotFoundException"),
                ({"ShardIteratorType": "SOMEWHERE"}, "ValidationException"),
                ({"SequenceNumber": "1" * 21}, "ValidationException"),
                ({"SequenceNumber": "x" * 21}, "ValidationException"),
                ({"ShardIteratorType": "AT_SEQUENCE_NUMBER"}, "ValidationException")]:
            with pytest.raises(ClientError, match=code):
                of.get_shard_iterator(**{**asked, **wrong})
        iterator = of.get_shard_iterator(**asked)["ShardIterator"]
        for wrong in [{"ShardIterator": "x|y|z"}, {"ShardIterator": "nothing"}, {"Limit": 1001}]:
            with pytest.raises(ClientError, match="ValidationException"):
                of.get_records(**{"ShardIterator": iterator, **wrong})
        children = {"Type": "CHILD_SHARDS", "ShardId": shard["ShardId"]}
        found = of.describe_stream(StreamArn=name, ShardFilter=children)["StreamDescription"]
        assert found["Shards"] == []
