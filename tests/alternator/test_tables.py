"""Properties of tables, and what the service has around them."""
import pytest
from door import dynamodb, error, table
from node import Node


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def client(node):
    return dynamodb(node).meta.client


def described(client, name):
    return client.describe_table(TableName=name)["Table"]


def test_a_protected_table_is_not_deleted(node, client):
    with table(dynamodb(node), DeletionProtectionEnabled=True) as t:
        assert described(client, t.name)["DeletionProtectionEnabled"] is True
        t.put_item(Item={"p": "1"})
        words = error("ValidationException", client.delete_table, TableName=t.name)
        assert "protected against deletion" in words
        assert t.scan()["Count"] == 1
        # It comes and goes, beside other things, and no tag shows it.
        client.update_table(TableName=t.name, DeletionProtectionEnabled=False,
                            TableClass="STANDARD_INFREQUENT_ACCESS")
        shown = described(client, t.name)
        assert shown["DeletionProtectionEnabled"] is False
        assert shown["TableClassSummary"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        client.update_table(
            TableName=t.name, DeletionProtectionEnabled=True, BillingMode="PROVISIONED",
            ProvisionedThroughput={"ReadCapacityUnits": 3, "WriteCapacityUnits": 4})
        shown = described(client, t.name)
        assert shown["DeletionProtectionEnabled"] is True
        assert shown["ProvisionedThroughput"]["WriteCapacityUnits"] == 4
        assert shown["TableClassSummary"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        assert client.list_tags_of_resource(ResourceArn=shown["TableArn"])["Tags"] == []
        error("ValidationException", client.delete_table, TableName=t.name)
        client.update_table(TableName=t.name, DeletionProtectionEnabled=False)
    error("ResourceNotFoundException", client.describe_table, TableName=t.name)


def test_a_table_says_its_class_if_it_was_told_one(node, client):
    with table(dynamodb(node)) as t:
        shown = described(client, t.name)
        assert shown["DeletionProtectionEnabled"] is False and "TableClassSummary" not in shown
        words = error("ValidationException", client.update_table, TableName=t.name,
                      TableClass="GLACIER")
        assert "GLACIER" in words and "STANDARD_INFREQUENT_ACCESS" in words
        error("ValidationException", client.update_table, TableName=t.name)


def test_limits_hold(node, client):
    limits = client.describe_limits()
    most = limits["TableMaxReadCapacityUnits"]
    assert {name for name in limits if name.endswith("Units")} == {
        f"{whose}Max{what}CapacityUnits" for whose in ("Account", "Table")
        for what in ("Read", "Write")}

    def units(count):
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": {
            "ReadCapacityUnits": count, "WriteCapacityUnits": 1}}

    with table(dynamodb(node)) as t:
        client.update_table(TableName=t.name, **units(most))
        assert described(client, t.name)["ProvisionedThroughput"]["ReadCapacityUnits"] == most
        words = error("ValidationException", client.update_table, TableName=t.name,
                      **units(most + 1))
        assert str(most) in words


def test_what_is_not_there_is_told_to_be_off(node, client):
    index = {"IndexName": "by_x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    with table(dynamodb(node), others={"x": "S"}, GlobalSecondaryIndexes=[index]) as t:
        of_table = {"TableName": t.name}
        for facts in (of_table, {**of_table, "IndexName": "by_x"}):
            told = client.describe_contributor_insights(**facts)
            assert told["ContributorInsightsStatus"] == "DISABLED"
            assert {name: told[name] for name in facts} == facts
            act = client.update_contributor_insights
            off = act(**facts, ContributorInsightsAction="DISABLE")
            assert off["ContributorInsightsStatus"] == "DISABLED"
            words = error("ValidationException", act, **facts, ContributorInsightsAction="ENABLE")
            assert "not supported" in words
        error("ResourceNotFoundException", client.describe_contributor_insights, **of_table,
              IndexName="by_y")
        assert client.list_contributor_insights()["ContributorInsightsSummaries"] == []
        told = client.describe_kinesis_streaming_destination(**of_table)
        assert (told["TableName"], told["KinesisDataStreamDestinations"]) == (t.name, [])
        told = client.describe_table_replica_auto_scaling(**of_table)
        assert told["TableAutoScalingDescription"] == {
            "TableName": t.name, "TableStatus": "ACTIVE", "Replicas": []}
        error("PolicyNotFoundException", client.get_resource_policy,
              ResourceArn=described(client, t.name)["TableArn"])
        assert client.list_global_tables()["GlobalTables"] == []
        for act in (client.describe_global_table, client.describe_global_table_settings):
            error("GlobalTableNotFoundException", act, GlobalTableName=t.name)
    for act in (client.describe_contributor_insights, client.list_contributor_insights,
                client.describe_kinesis_streaming_destination,
                client.describe_table_replica_auto_scaling):
        error("ResourceNotFoundException", act, TableName="nobody")


def test_new_tables_have_what_the_operator_wants_of_new_tables():
    index = {"IndexName": "by_x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    with Node("--speculative-retry-user-table-default", "200ms",
              "--sstable-compression-user-table-options", "sstable_compression=ZstdCompressor") as node:
        session = node.connect()
        later = {**index, "IndexName": "later"}
        with table(dynamodb(node), others={"x": "S"}, GlobalSecondaryIndexes=[index],
                   StreamSpecification=stream) as t:
            t.meta.client.update_table(
                TableName=t.name, AttributeDefinitions=[{"AttributeName": "x", "AttributeType": "S"}],
                GlobalSecondaryIndexUpdates=[{"Create": later}])
            keyspace = f"alternator_{t.name}"
            rows = []
            for of in ("tables", "views"):
                rows += session.execute(
                    f"SELECT speculative_retry, compression FROM system_schema.{of} "
                    "WHERE keyspace_name = %s", [keyspace]).all()
            assert len(rows) == 4
            assert {row.speculative_retry for row in rows} == {"200.00ms"}
            assert all(row.compression["sstable_compression"].endswith("ZstdCompressor") for row in rows)
