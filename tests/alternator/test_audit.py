"""The audit log has what clients of the DynamoDB API did, of the tables that it is asked to write down."""
import json
import socket
import time

import pytest
from botocore.exceptions import ClientError
from door import dynamodb, streams, table
from node import Node

OPTIONS = ["--audit", "table", "--audit-categories", "QUERY,DML,DDL", "--audit-tables", "alternator.t.1-x,alternator.t.2-x"]


@pytest.fixture(scope="module")
def node():
    with Node(*OPTIONS) as node:
        yield node


def rows(node, count):
    """All events, in the order of their times, as soon as there are so many."""
    asked = ("SELECT event_time, category, consistency, error, keyspace_name, table_name, operation, username, source "
             "FROM audit.audit_log")
    with node.connect() as session:
        for _ in range(100):
            found = sorted(session.execute(asked), key=lambda row: row.event_time.time)
            if len(found) >= count:
                break
            time.sleep(0.1)
    return found


def test_what_is_asked_for_is_written_down(node):
    resource = dynamodb(node)
    client = resource.meta.client
    expected = []

    def told(*event):
        expected.append(event)

    with (table(resource, StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}) as one,
          table(resource) as other, table(resource) as silent):
        assert [one.name, other.name, silent.name] == ["t.1-x", "t.2-x", "t.3-x"]
        own, of_log = "alternator_t.1-x", "t.1-x|t.1-x_scylla_cdc_log"
        told("DDL", "", False, own, one.name, "CreateTable")
        told("DDL", "", False, "alternator_t.2-x", other.name, "CreateTable")
        one.put_item(Item={"p": "key 1", "v": "value"})
        told("DML", "LOCAL_QUORUM", False, own, one.name, "PutItem", "key 1", "value")
        silent.put_item(Item={"p": "nobody"})
        one.get_item(Key={"p": "key 1"}, ConsistentRead=True)
        told("QUERY", "LOCAL_QUORUM", False, own, one.name, "GetItem", "key 1")
        one.scan()
        told("QUERY", "LOCAL_ONE", False, own, one.name, "Scan")
        with pytest.raises(ClientError):
            one.put_item(Item={"p": "key 1"}, ConditionExpression="attribute_not_exists(p)")
        told("DML", "LOCAL_QUORUM", True, own, one.name, "PutItem", "attribute_not_exists")
        writes = {it.name: [{"PutRequest": {"Item": {"p": f"batch {it.name}"}}}] for it in (silent, one, other)}
        client.batch_write_item(RequestItems=writes)
        told("DML", "LOCAL_QUORUM", False, "", "t.1-x|t.2-x", "BatchWriteItem", "batch t.1-x", "batch t.2-x")
        client.batch_write_item(RequestItems={silent.name: writes[silent.name]})
        puts = [{"Put": {"TableName": it.name, "Item": {"p": f"together {it.name}"}}} for it in (one, silent)]
        client.transact_write_items(TransactItems=puts)
        told("DML", "SERIAL", False, "", one.name, "TransactWriteItems", "together t.1-x")
        arn = client.describe_table(TableName=one.name)["Table"]["LatestStreamArn"]
        told("QUERY", "", False, own, one.name, "DescribeTable")
        of_streams = streams(node)
        shard = of_streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
        told("QUERY", "ONE", False, own, of_log, "DescribeStream", arn)
        iterator = of_streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard, ShardIteratorType="LATEST")["ShardIterator"]
        told("QUERY", "", False, own, of_log, "GetShardIterator", shard)
        of_streams.get_records(ShardIterator=iterator)
        told("QUERY", "LOCAL_QUORUM", False, own, of_log, "GetRecords")
        client.list_tables()
        told("QUERY", "", False, "", "", "ListTables")
    told("DDL", "", False, "alternator_t.2-x", "t.2-x", "DeleteTable")
    told("DDL", "", False, own, "t.1-x", "DeleteTable")
    found = rows(node, len(expected))
    of_others = [row for row in found if "t.3-x" in row.operation or "nobody" in row.operation]
    assert not of_others
    texts = [row.operation for row in found]
    assert len(found) == len(expected), texts
    for row, (category, level, error, keyspace, name, *words) in zip(found, expected):
        fields = (row.category, row.consistency, bool(row.error), row.keyspace_name, row.table_name)
        assert fields == (category, level, error, keyspace, name), row.operation
        assert row.operation.startswith(words[0] + " ") and all(word in row.operation for word in words)
        assert (row.username, row.source) == ("anonymous", "127.0.0.1")


def test_rules_say_what_is_written_down():
    rule = {"sinks": ["table"], "categories": ["DML", "QUERY"], "roles": ["anonymous"],
            "qualified_table_names": ["alternator_@(one|two).*"]}
    with Node("--audit", "table", "--audit-categories", "", "--audit-rules", json.dumps([rule])) as node:
        resource = dynamodb(node)
        client = resource.meta.client
        for name in ("one", "two", "three"):
            client.create_table(
                TableName=name, BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
            resource.Table(name).put_item(Item={"p": f"key of {name}"})
        resource.Table("one").get_item(Key={"p": "x"})
        writes = {name: [{"PutRequest": {"Item": {"p": f"batch {name}"}}}] for name in ("three", "one", "two")}
        client.batch_write_item(RequestItems=writes)
        client.list_tables()
        found = rows(node, 5)
        assert [(row.category, row.table_name, row.operation.split()[0]) for row in found] == [
            ("DML", "one", "PutItem"), ("DML", "two", "PutItem"), ("QUERY", "one", "GetItem"),
            ("DML", "one|two", "BatchWriteItem"), ("QUERY", "", "ListTables")]
        assert all("three" not in row.operation for row in found)


def test_rules_may_want_each_table_in_another_sink(tmp_path):
    def rule(sink, table):
        return {"sinks": [sink], "categories": ["DML"], "roles": ["*"],
                "qualified_table_names": [f"alternator_{table}.*"]}

    path = str(tmp_path / "log")
    rules = [rule("table", "one"), rule("syslog", "two")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(60)
        options = ("--audit", "table,syslog", "--audit-categories", "", "--audit-rules", json.dumps(rules),
                   "--audit-unix-socket-path", path)
        with Node(*options) as node:
            client = dynamodb(node).meta.client
            for name in ("one", "two"):
                client.create_table(
                    TableName=name, BillingMode="PAY_PER_REQUEST",
                    KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
                    AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
            writes = {name: [{"PutRequest": {"Item": {"p": f"key {name}"}}}] for name in ("one", "two")}
            client.batch_write_item(RequestItems=writes)
            line = receiver.recv(65536).decode()
            assert 'table="two"' in line and "key two" in line and "key one" not in line
            [row] = rows(node, 1)
            assert row.table_name == "one" and "key one" in row.operation and "key two" not in row.operation
