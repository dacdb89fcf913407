"""What is counted of requests."""
import sys
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from door import dynamodb, table
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "metrics"))
from scraped import total  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def node():
    with Node() as node:
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
                client.describe_limits()

        assert grown(node, [
            ("transactions_committed", {}), ("transactions_cancelled", {}),
            ("unsupported_operations", {}), ("table_operation", {"op": "TransactWriteItems", "cf": t.name}),
        ], act) == [1, 1, 1, 2]
