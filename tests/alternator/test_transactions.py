"""Transactions: all or none of their writes, on one node and on several of which one is killed."""
import random
import sys
import threading
import time
import uuid
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from cassandra import Unauthorized
from door import dynamodb, table
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from trio import Nodes, until  # noqa: E402  pylint: disable=wrong-import-position

ACCOUNTS = [f"account {n}" for n in range(6)]
MONEY = 100


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


def put(t, item, **facts):
    return {"Put": {"TableName": t.name, "Item": item, **facts}}


def update(t, key, expression, values, **facts):
    return {"Update": {"TableName": t.name, "Key": key, "UpdateExpression": expression,
                       "ExpressionAttributeValues": values, **facts}}


def items(t):
    return sorted((item for item in t.scan(ConsistentRead=True)["Items"]), key=str)


def reasons(call, **facts):
    with pytest.raises(ClientError, match="TransactionCanceledException") as raised:
        call(**facts)
    return raised.value.response["CancellationReasons"]


def test_all_writes_are_made_or_none(node):
    resource = dynamodb(node)
    client = resource.meta.client
    with table(resource) as a, table(resource, range_type="N") as b:
        a.put_item(Item={"p": "old", "n": 1})
        client.transact_write_items(TransactItems=[
            put(a, {"p": "new"}, ConditionExpression="attribute_not_exists(p)"),
            update(a, {"p": "old"}, "SET n = n + :x", {":x": 4}),
            put(b, {"p": "x", "c": 1}), put(b, {"p": "x", "c": 2}), put(b, {"p": "y", "c": 1})])
        then = items(a), items(b)
        assert then[0] == [{"p": "new"}, {"p": "old", "n": 5}]
        assert then[1] == [{"p": "x", "c": 1}, {"p": "x", "c": 2}, {"p": "y", "c": 1}]
        # Two of them fail, in one partition and in another one; the item is told that is asked for.
        check = {"TableName": a.name, "Key": {"p": "old"}, "ConditionExpression": "n < :x",
                 "ExpressionAttributeValues": {":x": 5},
                 "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        told = reasons(client.transact_write_items, TransactItems=[
            put(b, {"p": "x", "c": 3}),
            {"Delete": {"TableName": b.name, "Key": {"p": "x", "c": 1},
                        "ConditionExpression": "attribute_exists(z)"}},
            {"ConditionCheck": check}, put(a, {"p": "third"})])
        assert [one["Code"] for one in told] == [
            "None", "ConditionalCheckFailed", "ConditionalCheckFailed", "None"]
        assert told[2]["Item"] == {"p": {"S": "old"}, "n": {"N": "5"}} and "Item" not in told[1]
        assert (items(a), items(b)) == then
        # Nothing is held: others go on at once, and what only looks changes nothing.
        check["ExpressionAttributeValues"] = {":x": 6}
        client.transact_write_items(TransactItems=[
            {"ConditionCheck": check},
            {"Delete": {"TableName": b.name, "Key": {"p": "x", "c": 1}}}])
        began = time.monotonic()
        a.update_item(Key={"p": "old"}, UpdateExpression="SET n = n + n")
        assert time.monotonic() - began < 5
        assert items(a)[1]["n"] == 10 and len(items(b)) == 2


def test_what_cannot_be_meant_is_refused(node):
    resource = dynamodb(node)
    client = resource.meta.client
    with table(resource) as t:
        def refused(pattern, *parts, **facts):
            with pytest.raises(ClientError, match=pattern):
                client.transact_write_items(TransactItems=list(parts), **facts)

        one = put(t, {"p": "a"})
        refused("ValidationException.*one item", one, update(t, {"p": "a"}, "SET x = :x", {":x": 1}))
        refused("ValidationException.*transactItems.*100", *[
            put(t, {"p": str(n)}) for n in range(101)])
        refused("ValidationException.*ConditionExpression", {
            "ConditionCheck": {"TableName": t.name, "Key": {"p": "a"}, "ConditionExpression": ""}})
        refused("ValidationException.*clientRequestToken", one, ClientRequestToken="x" * 37)
        refused("ResourceNotFoundException", {"Put": {"TableName": "nowhere", "Item": {"p": "a"}}})
        refused("ValidationException.*size cannot exceed", *[
            put(t, {"p": str(n), "x": "x" * 390_000}) for n in range(12)])
        told = reasons(client.transact_write_items, TransactItems=[one, put(t, {"p": 7})])
        assert [one["Code"] for one in told] == ["None", "ValidationError"]
        assert items(t) == []


def test_what_is_asked_for_twice_is_done_once(node):
    resource = dynamodb(node)
    client = resource.meta.client
    with table(resource) as t:
        t.put_item(Item={"p": "a", "n": 0})
        more = [update(t, {"p": "a"}, "SET n = n + :x", {":x": 1})]
        token = uuid.uuid4().hex
        for _ in range(3):
            client.transact_write_items(TransactItems=more, ClientRequestToken=token)
        assert items(t) == [{"p": "a", "n": 1}]
        with pytest.raises(ClientError, match="IdempotentParameterMismatchException"):
            client.transact_write_items(TransactItems=[put(t, {"p": "b"})],
                                        ClientRequestToken=token)
        # Names have no order.
        token = uuid.uuid4().hex
        for item in ({"p": "z", "m": {"a": 1, "b": "\u00fc"}}, {"m": {"b": "\u00fc", "a": 1}, "p": "z"}):
            client.transact_write_items(TransactItems=[put(t, item)], ClientRequestToken=token)
        t.delete_item(Key={"p": "z"})
        # What has failed may be tried again.
        token = uuid.uuid4().hex
        only = [put(t, {"p": "c"}, ConditionExpression="attribute_exists(p)")]
        assert reasons(client.transact_write_items, TransactItems=only, ClientRequestToken=token)
        t.put_item(Item={"p": "c", "x": 1})
        client.transact_write_items(TransactItems=only, ClientRequestToken=token)
        assert items(t) == [{"p": "a", "n": 1}, {"p": "c"}]


def test_items_are_read_as_they_were_at_one_moment(node):
    resource = dynamodb(node)
    client = resource.meta.client
    with table(resource) as a, table(resource, range_type="N") as b:
        a.put_item(Item={"p": "x", "n": 1, "m": {"deep": [1, 2]}})
        b.put_item(Item={"p": "x", "c": 1})

        def get(t, key, **facts):
            return {"Get": {"TableName": t.name, "Key": key, **facts}}

        found = client.transact_get_items(TransactItems=[
            get(b, {"p": "x", "c": 1}), get(a, {"p": "none"}), get(b, {"p": "x", "c": 2}),
            get(a, {"p": "x"}, ProjectionExpression="#m.deep[1], n",
                ExpressionAttributeNames={"#m": "m"})], ReturnConsumedCapacity="TOTAL")
        assert found["Responses"] == [
            {"Item": {"p": "x", "c": 1}}, {}, {}, {"Item": {"n": 1, "m": {"deep": [2]}}}]
        assert {one["TableName"] for one in found["ConsumedCapacity"]} == {a.name, b.name}
        with pytest.raises(ClientError, match="ValidationException.*multiple operations on one item"):
            client.transact_get_items(TransactItems=[
                get(b, {"p": "x", "c": 1}), get(a, {"p": "x"}), get(b, {"p": "x", "c": 1})])


def test_indexes_and_streams_tell_of_what_took_effect_and_of_nothing_else():
    with Node("--alternator-streams-time-window-s", "0") as node:
        resource = dynamodb(node)
        client = resource.meta.client
        t = resource.create_table(
            TableName="told", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in "px"],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            GlobalSecondaryIndexes=[{
                "IndexName": "by_x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"}}])
        made = [{"p": p, "x": "one"} for p in "abc"]
        client.transact_write_items(TransactItems=[put(t, item) for item in made])
        assert reasons(client.transact_write_items, TransactItems=[
            put(t, {"p": "d", "x": "one"}),
            put(t, {"p": "e", "x": "one"}, ConditionExpression="attribute_exists(p)")])
        with pytest.raises(ClientError, match="ValidationException.*mismatch"):
            client.transact_write_items(TransactItems=[put(t, {"p": "f", "x": 7})])

        def indexed():
            found = t.query(IndexName="by_x", KeyConditionExpression="x = :x",
                            ExpressionAttributeValues={":x": "one"})["Items"]
            return sorted(found, key=str) == sorted(made, key=str)

        until(indexed, 30)
        streams = boto3.client(
            "dynamodbstreams", endpoint_url=f"http://{node.address}:8000", region_name="us-east-1",
            aws_access_key_id="any", aws_secret_access_key="any")
        told = []
        arn = t.latest_stream_arn
        for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
            begin = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"],
                                               ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
            told += streams.get_records(ShardIterator=begin)["Records"]
        assert sorted((one["eventName"], one["dynamodb"]["NewImage"]["p"]["S"]) for one in told) == [
            ("INSERT", p) for p in "abc"]


def test_clients_of_cql_leave_outcomes_alone():
    with Node() as node:
        resource = dynamodb(node)
        with table(resource) as t:
            resource.meta.client.transact_write_items(TransactItems=[put(t, {"p": "a"})])
        cql = node.connect()
        outcomes = "nereid_transactions.outcomes"
        assert cql.execute(f"SELECT * FROM {outcomes}") is not None
        columns = cql.cluster.metadata.keyspaces["nereid_transactions"].tables["outcomes"]
        key = columns.partition_key[0].name
        for statement in (f"DELETE FROM {outcomes} WHERE {key} = 1", f"TRUNCATE {outcomes}",
                          f"DROP TABLE {outcomes}", f"ALTER TABLE {outcomes} WITH comment = 'x'",
                          "DROP KEYSPACE nereid_transactions",
                          "CREATE TABLE nereid_transactions.t (p int PRIMARY KEY)"):
            with pytest.raises(Unauthorized, match="nereid_transactions keyspace is not user"):
                cql.execute(statement)
        cql.execute("ALTER KEYSPACE nereid_transactions WITH durable_writes = true")
        cql.execute("CREATE KEYSPACE ks WITH replication = "
                    "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
        described = cql.execute("DESCRIBE SCHEMA").all()
        assert {row.keyspace_name for row in described} == {"ks"}


class Bank:
    """Clients that move money between accounts, and auditors that count it."""

    def __init__(self, nodes, name):
        self.nodes, self.name = nodes, name
        self.moved, self.audits, self.wrong = 0, 0, []
        self.ends = threading.Event()

    def client(self, node):
        return dynamodb(node).meta.client

    def read(self, client):
        found = client.transact_get_items(TransactItems=[
            {"Get": {"TableName": self.name, "Key": {"p": p}}} for p in ACCOUNTS])
        return {p: int(one["Item"]["n"]) for p, one in zip(ACCOUNTS, found["Responses"])}

    def move(self, seed, node):
        chance, client = random.Random(seed), self.client(node)
        while not self.ends.is_set():
            giver, taker = chance.sample(ACCOUNTS, 2)
            amount = chance.randrange(1, 30)
            try:
                client.transact_write_items(TransactItems=[
                    {"Update": {"TableName": self.name, "Key": {"p": giver},
                                "UpdateExpression": "SET n = n - :x", "ConditionExpression": "n >= :x",
                                "ExpressionAttributeValues": {":x": amount}}},
                    {"Update": {"TableName": self.name, "Key": {"p": taker},
                                "UpdateExpression": "SET n = n + :x",
                                "ExpressionAttributeValues": {":x": amount}}}])
                self.moved += 1
            except (BotoCoreError, ClientError) as error:
                self.tolerate(error)

    def audit(self, node):
        client = self.client(node)
        while not self.ends.is_set():
            try:
                accounts = self.read(client)
            except (BotoCoreError, ClientError) as error:
                self.tolerate(error)
                continue
            self.audits += 1
            if sum(accounts.values()) != MONEY * len(ACCOUNTS) or min(accounts.values()) < 0:
                self.wrong.append(accounts)

    def tolerate(self, error):
        """Conflicts, and nodes that are away."""
        if "ValidationError" in str(error) or "ValidationException" in str(error):
            self.wrong.append(str(error))
        time.sleep(0.01)


def test_money_is_moved_and_neither_made_nor_lost():
    with Nodes(3) as nodes:
        with table(dynamodb(nodes[0])) as t:
            for p in ACCOUNTS:
                t.put_item(Item={"p": p, "n": MONEY})
            bank = Bank(nodes, t.name)
            work = [threading.Thread(target=bank.move, args=(n, nodes[n % 3])) for n in range(4)]
            work += [threading.Thread(target=bank.audit, args=(nodes[n],)) for n in range(2)]
            for thread in work:
                thread.start()

            def go_on():
                moved, audits = bank.moved + 20, bank.audits + 3
                until(lambda: bank.wrong or moved <= bank.moved and audits <= bank.audits, 120)

            go_on()
            nodes[2].kill()
            go_on()
            nodes[2].start()
            go_on()
            bank.ends.set()
            for thread in work:
                thread.join(120)
            assert not bank.wrong, bank.wrong[:3]
            # Who reads one account after the other, without rounds, sees what the last ones made.
            last = bank.read(bank.client(nodes[1]))
            assert sum(last.values()) == MONEY * len(ACCOUNTS)
            assert {item["p"]: int(item["n"]) for item in items(dynamodb(nodes[0]).Table(t.name))} == last
