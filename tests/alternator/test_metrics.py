"""What is counted of requests."""
import sys
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from door import dynamodb, streams, table
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "metrics"))
from scraped import total  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def node():
    with Node("--alternator-streams-time-window-s", "0") as node:
        yield node


def grown(node, counters, act):
    """By how much counters have grown: pairs of names and labels."""
    def now():
        return [total(node, f"scylla_alternator_{name}", **labels) for name, labels in counters]

    before = now()
    act()
    return [after - before for before, after in zip(before, now())]


def test_requests_are_counted_by_operation_and_table(node):
    with table(dynamodb(node)) as t, table(dynamodb(node)) as other:
        def act():
            t.put_item(Item={"p": "a", "x": "x" * 2048})
            t.get_item(Key={"p": "a"}, ConsistentRead=True)
            t.get_item(Key={"p": "a"})
            other.put_item(Item={"p": "a"})
            t.update_item(Key={"p": "a"}, UpdateExpression="SET n = :x",
                          ExpressionAttributeValues={":x": 1})
            t.meta.client.batch_write_item(RequestItems={
                t.name: [{"PutRequest": {"Item": {"p": "b"}}}, {"PutRequest": {"Item": {"p": "c"}}}],
                other.name: [{"DeleteRequest": {"Key": {"p": "a"}}}]})
            assert t.scan()["Count"] == 3
            assert t.scan(Select="COUNT")["Count"] == 3
            with pytest.raises(ClientError, match="ConditionalCheckFailed"):
                t.delete_item(Key={"p": "a"}, ConditionExpression="attribute_exists(z)")
            with pytest.raises(ClientError, match="ValidationException"):
                t.get_item(Key={"q": "a"})

        cf = {"cf": t.name}
        assert grown(node, [
            ("total_operations", {}), ("operation", {"op": "PutItem"}),
            ("table_operation", {"op": "PutItem", **cf}), ("table_operation", {"op": "GetItem", **cf}),
            ("op_latency_count", {"op": "GetItem"}), ("table_op_latency_count", {"op": "Scan", **cf}),
            ("batch_item_count", {"op": "BatchWriteItem"}),
            ("table_batch_item_count", {"op": "BatchWriteItem", **cf}),
            ("table_wcu_total", {"op": "PutItem", **cf}), ("table_rcu_total", cf),
            ("table_returned_items", cf), ("table_reads_before_write", cf),
            ("table_write_using_lwt", cf), ("table_conditional_check_failed", cf),
            ("user_errors", {}), ("system_errors", {}),
        ], act) == [10, 2, 1, 2, 3, 2, 3, 2, 5, 2.5, 3, 1, 1, 1, 1, 0]


def up_to(counter, op, cf, *bounds):
    """The buckets of a histogram of a table."""
    return [(f"table_{counter}_bucket", {"op": op, "le": f"{bound}.000000", "cf": cf})
            for bound in bounds]


def test_sizes_of_items_are_counted_in_kib(node):
    resource = dynamodb(node)
    with table(resource) as t, table(resource) as other:
        def sized(op, *bounds):
            return up_to("operation_size_kb", op, t.name, *bounds)

        def act():
            t.put_item(Item={"p": "a", "x": "x" * 6 * 1024})
            t.put_item(Item={"p": "a", "x": "x" * 3 * 1024})
            other.put_item(Item={"p": "a"})
            t.get_item(Key={"p": "a"})
            t.get_item(Key={"p": "nobody"})
            t.update_item(Key={"p": "b"}, UpdateExpression="SET y = :y",
                          ExpressionAttributeValues={":y": "y" * 9 * 1024})
            # Without a condition nobody knows what there was.
            t.delete_item(Key={"p": "b"})
            t.delete_item(Key={"p": "nobody"}, ConditionExpression="attribute_not_exists(p)")
            t.delete_item(Key={"p": "a"}, ConditionExpression="attribute_exists(p)")

        assert grown(node, [
            *sized("PutItem", 3, 4, 6, 7), ("table_operation_size_kb_count", {"op": "PutItem", "cf": t.name}),
            ("operation_size_kb_count", {"op": "PutItem"}),
            *sized("GetItem", 3, 4), ("table_operation_size_kb_count", {"op": "GetItem", "cf": t.name}),
            *sized("UpdateItem", 8, 10), *sized("DeleteItem", 3, 4, 512),
        ], act) == [0, 1, 1, 2, 2, 3, 0, 1, 1, 0, 1, 0, 1, 1]


def test_items_and_sizes_of_batches_are_counted(node):
    resource = dynamodb(node)
    with table(resource) as t, table(resource) as other:
        client = t.meta.client

        def act():
            puts = [{"PutRequest": {"Item": {"p": p, "x": "x" * 1024 * kib}}}
                    for p, kib in (("a", 1), ("b", 20), ("c", 1))]
            client.batch_write_item(RequestItems={t.name: puts, other.name: puts[:2]})
            keys = [{"p": p} for p in "abcdefg"]
            client.batch_get_item(RequestItems={t.name: {"Keys": keys}})
            statement = f"SELECT * FROM \"{t.name}\" WHERE p = ?"
            client.execute_statement(Statement=statement, Parameters=["a"])
            client.batch_execute_statement(Statements=[
                {"Statement": statement, "Parameters": [p]} for p in "ab"])

        cf = {"cf": t.name}
        batches = "batch_item_count_histogram"
        assert grown(node, [
            *up_to(batches, "BatchWriteItem", t.name, 2, 3), *up_to(batches, "BatchWriteItem", other.name, 1, 2),
            (f"{batches}_bucket", {"op": "BatchWriteItem", "le": "4.000000"}),
            (f"{batches}_bucket", {"op": "BatchWriteItem", "le": "5.000000"}),
            *up_to(batches, "BatchGetItem", t.name, 6, 7), (f"{batches}_sum", {"op": "BatchGetItem"}),
            *up_to(batches, "BatchExecuteStatement", t.name, 1, 2),
            *up_to("operation_size_kb", "BatchWriteItem", t.name, 1, 2, 20, 24),
            *up_to("operation_size_kb", "BatchGetItem", t.name, 1, 2, 20, 24),
            ("table_wcu_total", {"op": "PutItem", **cf}),
        ], act) == [0, 1, 0, 1, 0, 1, 0, 1, 7, 0, 1, 0, 2, 2, 3, 0, 2, 2, 3, 2 + 21 + 2]


def test_items_of_answers_and_records_are_counted(node):
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    with table(dynamodb(node), range_type="N", StreamSpecification=stream) as t:
        cf, pages = {"cf": t.name}, "returned_items_histogram_bucket"
        client = streams(node)
        arn = client.list_streams(TableName=t.name)["Streams"][0]["StreamArn"]

        def act():
            for c in range(5):
                t.put_item(Item={"p": "a", "c": c})
            ask = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": "a"}}
            t.query(Limit=3, **ask)
            t.query(Select="COUNT", **ask)
            t.query(KeyConditionExpression="p = :p", ExpressionAttributeValues={":p": "nobody"})
            found = 0
            for shard in client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
                at = client.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"],
                                               ShardIteratorType="TRIM_HORIZON")
                found += len(client.get_records(ShardIterator=at["ShardIterator"])["Records"])
            assert found == 5

        assert grown(node, [
            (f"table_{pages}", {"le": "1.000000", **cf}), (f"table_{pages}", {"le": "2.000000", **cf}),
            (f"table_{pages}", {"le": "3.000000", **cf}), ("returned_records", {}),
            ("table_returned_records", cf), ("table_returned_items", cf),
        ], act) == [1, 1, 2, 5, 5, 3]


def test_writes_read_where_they_are_told_to():
    with Node("--alternator-force-read-before-write", "1",
              "--alternator-allow-system-table-write", "1") as node:
        resource = dynamodb(node)
        with table(resource) as t:
            def sized(op, *bounds):
                return up_to("operation_size_kb", op, t.name, *bounds)

            def act():
                t.put_item(Item={"p": "a", "x": "x" * 30 * 1024})
                t.update_item(Key={"p": "a"}, UpdateExpression="SET y = :y",
                              ExpressionAttributeValues={":y": "y" * 3 * 1024})
                t.delete_item(Key={"p": "a"})
                t.delete_item(Key={"p": "a"})
                t.put_item(Item={"p": "b", "x": "x" * 9 * 1024})
                put = {"PutRequest": {"Item": {"p": "b", "x": "x"}}}
                told = t.meta.client.batch_write_item(RequestItems={t.name: [put]},
                                                      ReturnConsumedCapacity="TOTAL")
                assert told["ConsumedCapacity"][0]["CapacityUnits"] == 10

            counters = [
                ("table_reads_before_write", {"cf": t.name}), ("table_write_using_lwt", {"cf": t.name}),
                *sized("UpdateItem", 32, 40), *sized("DeleteItem", 32, 40, 512),
                *sized("BatchWriteItem", 8, 10)]
            assert grown(node, counters, act) == [5, 5, 0, 1, 0, 1, 1, 0, 1]
            config = resource.Table(".scylla.alternator.system.config")
            config.update_item(Key={"name": "alternator_force_read_before_write"},
                               UpdateExpression="SET #v = :v", ExpressionAttributeNames={"#v": "value"},
                               ExpressionAttributeValues={":v": "false"})
            reads = ("table_reads_before_write", {"cf": t.name})
            assert grown(node, [reads], lambda: t.delete_item(Key={"p": "b"})) == [0]


def test_expressions_are_parsed_once():
    with Node("--alternator-allow-system-table-write", "1", "--smp", "1") as node:
        resource = dynamodb(node)
        with table(resource) as t:
            def keep(count):
                config = resource.Table(".scylla.alternator.system.config")
                config.update_item(
                    Key={"name": "alternator_max_expression_cache_entries_per_shard"},
                    UpdateExpression="SET #v = :v", ExpressionAttributeNames={"#v": "value"},
                    ExpressionAttributeValues={":v": str(count)})

            def act():
                for number in range(3):
                    t.update_item(
                        Key={"p": "a"}, UpdateExpression="SET n = :n, #m = :n",
                        ConditionExpression="attribute_not_exists(z) OR z < :n",
                        ExpressionAttributeNames={"#m": f"m{number}"},
                        ExpressionAttributeValues={":n": number})
                found = t.query(KeyConditionExpression="p = :p", FilterExpression="n = :n",
                                ProjectionExpression="n, m0, m1, m2",
                                ExpressionAttributeValues={":p": "a", ":n": 2})["Items"]
                assert found == [{"n": 2, "m0": 0, "m1": 1, "m2": 2}]
                for name in ("n", "m1", "n"):
                    t.get_item(Key={"p": "a"}, ProjectionExpression=name)

            def counted(what):
                return [(f"expression_cache_{what}", {"expression": f"{kind}Expression"})
                        for kind in ("Update", "Condition", "Projection")]

            evictions = [("expression_cache_evictions", {})]
            assert grown(node, counted("misses") + counted("hits") + evictions, act) == [
                1, 3, 3, 2, 2, 1, 0]
            assert grown(node, counted("misses") + counted("hits"), act) == [0, 0, 0, 3, 5, 4]
            # That of the option itself is among them.
            assert grown(node, evictions, lambda: keep(2)) == [6]
            # Those of the writes are there for the second and third one, and that of the last read.
            assert grown(node, counted("hits"), act) == [2, 2, 1]
            assert grown(node, evictions, lambda: keep(0)) == [3]
            assert grown(node, counted("misses") + counted("hits") + evictions, act) == [0] * 7


def test_transactions_and_what_there_is_none_of_are_counted(node):
    with table(dynamodb(node)) as t:
        def act():
            put = {"TableName": t.name, "Item": {"p": "a"}}
            client = t.meta.client
            client.transact_write_items(TransactItems=[{"Put": put}])
            put["ConditionExpression"] = "attribute_not_exists(p)"
            with pytest.raises(ClientError, match="TransactionCanceled"):
                client.transact_write_items(TransactItems=[{"Put": put}])
            with pytest.raises(ClientError, match="UnknownOperation"):
                client.delete_resource_policy(ResourceArn="arn:aws:dynamodb:::table/x")

        assert grown(node, [
            ("transactions_committed", {}), ("transactions_cancelled", {}),
            ("unsupported_operations", {}), ("table_operation", {"op": "TransactWriteItems", "cf": t.name}),
        ], act) == [1, 1, 1, 2]
