"""Items, by boto3: the README's example, types, updates, conditions, pages, and what CQL sees of them."""
import random
import re
from decimal import Decimal
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from door import dynamodb, table
from node import Node

EVERYTHING = {
    "s": "text \u00e4 \u2028", "n": Decimal("-1.5e-20"), "b": b"\x00\xff", "yes": True, "null": None,
    "list": ["a", [Decimal(1)], {"x": {"y": b"z"}}], "strings": {"a", "b"},
    "numbers": {Decimal(1), Decimal("2.5")}, "binaries": {b"1", b"2"},
}


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def db(node):
    return dynamodb(node)


def refused(code):
    return pytest.raises(ClientError, match=code)


def test_the_example_of_the_readme_works(node, capsys):
    text = (Path(__file__).parents[2] / "README.md").read_text()
    example = re.search(r"^    import boto3\n(?:    .*\n|\n)+", text, re.M).group()
    example = example.replace("\n    ", "\n").strip().replace("127.0.0.1", node.address)
    exec(example, {})  # pylint: disable=exec-used
    assert "'total': Decimal('19')" in capsys.readouterr().out


def test_items_are_as_they_were_put_after_a_restart():
    # In periodic mode a kill may take what was put within the last milliseconds.
    with Node("--commitlog-sync", "batch") as node:
        with_key = {**EVERYTHING, "p": "x"}
        db = dynamodb(node)
        made = db.create_table(
            TableName="kept", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
            Tags=[{"Key": "a", "Value": "b"}])
        made.put_item(Item=with_key)
        described = made.meta.client.describe_table(TableName="kept")["Table"]
        assert described.pop("ItemCount") == 1 and 0 < described.pop("TableSizeBytes")
        node.kill()
        node.start()
        client = dynamodb(node).meta.client
        again = client.describe_table(TableName="kept")["Table"]
        assert again.pop("ItemCount") == 1 and 0 < again.pop("TableSizeBytes")
        assert again == described
        assert dynamodb(node).Table("kept").get_item(Key={"p": "x"})["Item"] == with_key
        tags = client.list_tags_of_resource(ResourceArn=again["TableArn"])["Tags"]
        assert tags == [{"Key": "a", "Value": "b"}]


def test_a_table_tells_how_many_items_it_has():
    """Also after a restart, where all of it is in SSTables; of each index, too."""
    attributes = [("p", "S"), ("c", "N"), ("x", "S")]
    index = {"IndexName": "by_x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    with Node() as node:
        db = dynamodb(node)
        hashed = db.create_table(
            TableName="hashed", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
        ranged = db.create_table(
            TableName="ranged", BillingMode="PAY_PER_REQUEST", GlobalSecondaryIndexes=[index],
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"},
                       {"AttributeName": "c", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": ty}
                                  for name, ty in attributes])
        assert (hashed.item_count, hashed.table_size_bytes) == (0, 0)
        with hashed.batch_writer() as batch, ranged.batch_writer() as of_ranges:
            for at in range(30):
                batch.put_item(Item={"p": str(at), "y": "y" * 1000})
                item = {"p": str(at % 3), "c": at}
                of_ranges.put_item(Item=item if at % 2 else {**item, "x": str(at)})
        hashed.reload()
        assert hashed.item_count == 30 and 30_000 < hashed.table_size_bytes
        node.stop()
        node.start()
        db = dynamodb(node)
        hashed, ranged = db.Table("hashed"), db.Table("ranged")
        assert hashed.item_count == 30 and 0 < hashed.table_size_bytes
        assert ranged.item_count == 30
        (described,) = ranged.global_secondary_indexes
        assert described["ItemCount"] == 15 and 0 < described["IndexSizeBytes"]


def test_an_update_changes_what_it_names(node, db):
    with table(db, range_type="N") as t:
        key = {"p": "a", "c": Decimal("1.0")}
        t.put_item(Item={**key, **EVERYTHING})
        t.update_item(
            Key=key, UpdateExpression="SET n = n + :one, #l[7] = :one REMOVE s ADD numbers :nine "
            "DELETE strings :a", ExpressionAttributeNames={"#l": "list"},
            ExpressionAttributeValues={":one": 1, ":nine": {9}, ":a": {"a"}})
        expected = {**EVERYTHING, **key, "n": Decimal("1") + EVERYTHING["n"], "strings": {"b"},
                    "numbers": {Decimal(9), *EVERYTHING["numbers"]}}
        expected["list"] = [*EVERYTHING["list"], 1]
        del expected["s"]
        assert t.get_item(Key={"p": "a", "c": 1})["Item"] == expected
        session = node.connect()
        rows = session.execute(f'SELECT c, ":attrs" FROM "alternator_{t.name}"."{t.name}"')
        (row,) = list(rows)
        assert row.c == 1 and set(row[1]) == set(expected) - {"p", "c"}
        assert row[1]["yes"] == b"\x02\x01" and row[1]["null"] == b'\x04{"NULL":true}'


def test_conditions_are_judged_by_the_item(db):
    with table(db) as t:
        condition = {"ConditionExpression": "attribute_not_exists(p)"}
        t.put_item(Item={"p": "a", "v": 1}, **condition)
        with refused("ConditionalCheckFailed") as failed:
            t.put_item(Item={"p": "a", "v": 2}, ReturnValuesOnConditionCheckFailure="ALL_OLD",
                       **condition)
        assert failed.value.response["Item"] == {"p": {"S": "a"}, "v": {"N": "1"}}
        old = t.delete_item(Key={"p": "a"}, ReturnValues="ALL_OLD",
                            Expected={"v": {"Value": 1}})["Attributes"]
        assert old == {"p": "a", "v": 1}
        assert "Item" not in t.get_item(Key={"p": "a"})
        for words, code in [("v = ", "yntax"), ("v < :nothing", ":nothing"), ("size(v, p) = v", "number")]:
            with refused(f"ValidationException.*{code}"):
                t.put_item(Item={"p": "a"}, ConditionExpression=words)


def test_pages_have_each_item_once(db):
    with table(db, range_type="S") as t:
        items = {(f"p{p}", f"c{c:02}"): {"p": f"p{p}", "c": f"c{c:02}", "n": c, "x": "y" * 1000}
                 for p in range(7) for c in range(23)}
        with t.batch_writer() as batch:
            for item in items.values():
                batch.put_item(Item=item)

        def pages(ask, **facts):
            found = []
            while True:
                page = ask(**facts)
                found += [(item["p"], item["c"]) for item in page["Items"]]
                if "LastEvaluatedKey" not in page:
                    return found
                facts["ExclusiveStartKey"] = page["LastEvaluatedKey"]

        assert sorted(pages(t.scan, Limit=10)) == sorted(items)
        parts = [key for n in range(3) for key in pages(t.scan, Segment=n, TotalSegments=3, Limit=5)]
        assert sorted(parts) == sorted(items)
        asked = {"KeyConditionExpression": "p = :p AND c BETWEEN :a AND :b",
                 "ExpressionAttributeValues": {":p": "p3", ":a": "c05", ":b": "c14"}}
        expected = [("p3", f"c{c:02}") for c in range(5, 15)]
        assert pages(t.query, Limit=3, **asked) == expected
        assert pages(t.query, Limit=3, ScanIndexForward=False, **asked) == expected[::-1]
        asked["ExpressionAttributeValues"][":n"] = 8
        assert pages(t.query, Limit=3, FilterExpression="n > :n", **asked) == expected[4:]
        count = t.query(Select="COUNT", FilterExpression="n > :n", **asked)
        assert (count["Count"], count["ScannedCount"]) == (6, 10)


def pages_of(read, **asked):
    """Items of each page."""
    found = []
    while True:
        answer = read(**asked)
        found.append(answer["Items"])
        if "LastEvaluatedKey" not in answer:
            return found
        asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def test_pages_end_among_what_is_deleted():
    """However much is deleted between two items, no page looks at all of it."""
    with Node("--query-tombstone-page-limit", "50") as few:
        db = dynamodb(few)
        with table(db, range_type="N") as t, table(db) as single:
            items = [{"p": "k", "c": 0}, {"p": "k", "c": 300}]
            with t.batch_writer() as batch:
                for item in items:
                    batch.put_item(Item=item)
                for number in range(1, 300):
                    batch.delete_item(Key={"p": "k", "c": number})
            of_k = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": "k"}}
            back = {**of_k, "ScanIndexForward": False}
            for read, asked, order in (
                    (t.scan, {}, items), (t.query, of_k, items), (t.query, back, items[::-1])):
                found = pages_of(read, **asked)
                assert len(found) >= 6 and found[0] == order[:1], asked
                assert sum(found, []) == order, asked
            with single.batch_writer() as batch:
                for number in range(600):
                    batch.delete_item(Key={"p": f"gone {number}"})
                for number in range(10):
                    batch.put_item(Item={"p": f"here {number}"})
            found = pages_of(single.scan)
            assert len(found) >= 6
            assert sorted(item["p"] for item in sum(found, [])) == [f"here {n}" for n in range(10)]


def test_a_query_that_can_have_one_item_has_one_page(db):
    with table(db) as t:
        t.put_item(Item={"p": "a"})
        page = t.query(Limit=1, KeyConditionExpression="p = :p", ExpressionAttributeValues={":p": "a"})
        assert page["Items"] == [{"p": "a"}] and "LastEvaluatedKey" not in page


def test_keys_that_are_too_long_are_refused_wherever_they_are(db):
    with table(db, range_type="B") as t:
        for p, c in [("x" * 2049, b"c"), ("x" * 70_000, b"c"), ("p", b"c" * 1025), ("p", b"c" * 70_000)]:
            values = {":p": p, ":c": c}
            for words in ["c = :c", "c > :c", "begins_with(c, :c)", "c BETWEEN :c AND :c"]:
                with refused("ValidationException.*maximum size"):
                    t.query(KeyConditionExpression=f"p = :p AND {words}", ExpressionAttributeValues=values)
            with refused("ValidationException.*maximum size"):
                t.put_item(Item={"p": p, "c": c})
            with refused("ValidationException.*maximum size"):
                t.scan(ExclusiveStartKey={"p": p, "c": c})
        assert t.scan()["Items"] == []


def test_no_path_leads_into_a_key(db):
    index = {"IndexName": "by_g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    with table(db, range_type="S", others={"g": "S"}, GlobalSecondaryIndexes=[index]) as t:
        key = {"p": "a", "c": "b"}
        t.put_item(Item={**key, "g": "c", "m": {"p": 1}})
        for path, said in [("p.x", "Key: p"), ("c[0]", "Key: c"), ("g.x", "IndexKey: g")]:
            said = refused(f"ValidationException.*must be scalars.*: {said}")
            condition = f"attribute_not_exists({path})"
            calls = [
                lambda: t.get_item(Key=key, ProjectionExpression=path),
                lambda: t.scan(FilterExpression=condition), lambda: t.scan(ProjectionExpression=path),
                lambda: t.delete_item(Key=key, ConditionExpression=condition),
                lambda: t.update_item(Key=key, UpdateExpression=f"SET n = if_not_exists(m.x, {path})"),
                lambda: db.batch_get_item(
                    RequestItems={t.name: {"Keys": [key], "ProjectionExpression": path}})]
            for call in calls:
                with said:
                    call()
        assert t.get_item(Key=key, ProjectionExpression="m.p, g")["Item"] == {"g": "c", "m": {"p": 1}}


def test_random_updates_are_those_of_a_model(db):
    """Each operation on an item and on a dict, from a seed that is told when they differ."""
    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    with table(db) as t:
        model = None
        for step in range(150):
            name, value = draw.choice("abc"), draw.randrange(9)
            what = draw.choice(["put", "set", "add", "remove", "delete", "get"])
            if what == "put":
                model = {"p": "x", name: value}
                t.put_item(Item=model)
            elif what == "set":
                model = {**(model or {"p": "x"}), name: value}
                t.update_item(Key={"p": "x"}, UpdateExpression=f"SET {name} = :v",
                              ExpressionAttributeValues={":v": value})
            elif what == "add":
                model = dict(model or {"p": "x"})
                model[name] = model.get(name, 0) + value
                got = t.update_item(Key={"p": "x"}, UpdateExpression=f"ADD {name} :v",
                                    ExpressionAttributeValues={":v": value}, ReturnValues="ALL_NEW")
                assert got["Attributes"] == model, (seed, step)
            elif what == "remove":
                t.update_item(Key={"p": "x"}, UpdateExpression=f"REMOVE {name}")
                (model or {}).pop(name, None)
            elif what == "delete":
                t.delete_item(Key={"p": "x"})
                model = None
            assert t.get_item(Key={"p": "x"}, ConsistentRead=True).get("Item") == model, (seed, step, what)
