"""Several nodes: whoever is asked, and while one is killed, no update is lost."""
import sys
import threading
from pathlib import Path

from boto3.dynamodb.conditions import Key
from botocore.exceptions import BotoCoreError, ClientError
from door import dynamodb, table

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from trio import Nodes, until  # noqa: E402  pylint: disable=wrong-import-position

CLIENTS = 4
UPDATES = 25


def count(node, name, told):
    """Counts by reading the item and writing it on condition, until it is done so often."""
    counter = dynamodb(node).Table(name)
    done = 0
    while done < UPDATES:
        seen = counter.get_item(Key={"p": "x"}, ConsistentRead=True)["Item"]["n"]
        try:
            counter.update_item(Key={"p": "x"}, UpdateExpression="SET n = n + :one",
                                ConditionExpression="n = :seen",
                                ExpressionAttributeValues={":one": 1, ":seen": seen})
            done += 1
        except ClientError as error:
            assert "ConditionalCheckFailed" in str(error), error
    told.append(done)


def test_conditional_updates_of_all_nodes_are_all_counted():
    with Nodes(3) as nodes:
        with table(dynamodb(nodes[0])) as t:
            t.put_item(Item={"p": "x", "n": 0})
            told = []
            clients = [threading.Thread(target=count, args=(nodes[n % 3], t.name, told))
                       for n in range(CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join(300)
            assert told == [UPDATES] * CLIENTS
            read = dynamodb(nodes[2]).Table(t.name).get_item(Key={"p": "x"}, ConsistentRead=True)
            assert read["Item"]["n"] == CLIENTS * UPDATES


def test_an_index_follows_when_a_node_is_killed():
    with Nodes(3) as nodes:
        t = dynamodb(nodes[0]).create_table(
            TableName="indexed", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"},
                                  {"AttributeName": "x", "AttributeType": "S"},
                                  {"AttributeName": "n", "AttributeType": "N"}],
            GlobalSecondaryIndexes=[{
                "IndexName": "by_x", "Projection": {"ProjectionType": "ALL"},
                "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"},
                              {"AttributeName": "n", "KeyType": "RANGE"}]}])
        expected = {}
        for n in range(120):
            if n == 60:
                nodes[2].kill()
            p, x = str(n % 40), "xyz"[n % 3]
            try:
                t.put_item(Item={"p": p, "x": x, "n": n})
                expected[p] = (x, n)
            except (BotoCoreError, ClientError):
                expected.pop(p, None)  # It is there as it was, or as it should be.
        nodes[2].start()
        other = dynamodb(nodes[1]).Table("indexed")

        def found():
            pages = [other.query(IndexName="by_x", KeyConditionExpression=Key("x").eq(x))["Items"]
                     for x in "xyz"]
            return {item["p"]: (item["x"], int(item["n"])) for page in pages for item in page}

        assert 30 < len(expected)
        until(lambda: expected.items() <= found().items(), 60)


def test_what_was_acknowledged_is_there_when_a_node_is_killed():
    with Nodes(3) as nodes:
        t = dynamodb(nodes[0]).create_table(
            TableName="kept", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
        written = []
        for n in range(200):
            if n == 100:
                nodes[2].kill()
            try:
                t.update_item(Key={"p": str(n)}, UpdateExpression="ADD n :one",
                              ExpressionAttributeValues={":one": 1})
                written.append(str(n))
            except (BotoCoreError, ClientError):
                pass  # What is not acknowledged may be there, or not.
        assert set(map(str, range(100))) <= set(written) and 150 < len(written)
        other = dynamodb(nodes[1]).Table("kept")
        for p in written:
            item = other.get_item(Key={"p": p}, ConsistentRead=True)["Item"]
            assert item == {"p": p, "n": 1}, p
        found, start = set(), {}
        while start is not None:
            page = other.scan(ConsistentRead=True, Limit=17, **start)
            found |= {item["p"] for item in page["Items"]}
            last = page.get("LastEvaluatedKey")
            start = {"ExclusiveStartKey": last} if last else None
        assert set(written) <= found
