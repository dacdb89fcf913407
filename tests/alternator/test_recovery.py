"""Recovery of tables to points in time."""
import datetime
import random
import sys
import time
from pathlib import Path

import pytest
from boto3.dynamodb.conditions import Key
from door import dynamodb, error, streams, table, unchecked, until
from node import Node
from test_backups import LATER, index, inject, is_alive, items, parts, wait_for_restore

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from trio import Nodes  # noqa: E402  pylint: disable=wrong-import-position

DURABLE = ("--commitlog-sync", "batch")


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def db(node):
    return dynamodb(node)


def at(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def point_of(t):
    described = t.meta.client.describe_continuous_backups(TableName=t.name)
    return described["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]


def enable(t, **facts):
    """Until the first point is there."""
    said = {"PointInTimeRecoveryEnabled": True, **facts}
    answer = t.meta.client.update_continuous_backups(
        TableName=t.name, PointInTimeRecoverySpecification=said)
    described = answer["ContinuousBackupsDescription"]
    assert described["ContinuousBackupsStatus"] == "ENABLED"
    assert described["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    until(lambda: "EarliestRestorableDateTime" in point_of(t))


def disable(t):
    said = {"PointInTimeRecoveryEnabled": False}
    return t.meta.client.update_continuous_backups(
        TableName=t.name, PointInTimeRecoverySpecification=said)


def next_second():
    """A time between what was written and what will be, in whole seconds, as clients send them."""
    second = int(time.time()) + 1
    until(lambda: second <= time.time())
    return second


def restore(t, second, name, client=None, **facts):
    """Begins to make a table of another one, as that was then."""
    until(lambda: at(second) <= point_of(t)["LatestRestorableDateTime"])
    made = (client or t.meta.client).restore_table_to_point_in_time(
        SourceTableName=t.name, TargetTableName=name, RestoreDateTime=at(second), **facts)
    described = made["TableDescription"]
    assert (described["TableName"], described["TableStatus"]) == (name, "CREATING")
    return described


def restored(db, t, second, name, **facts):
    restore(t, second, name, **facts)
    wait_for_restore(db, name)
    return db.Table(name)


def write(t, prng, count):
    """Writes of every kind."""
    client = t.meta.client
    for number in range(count):
        key = {"p": f"p{prng.randrange(6)}", "c": prng.randrange(8)}
        value = prng.randrange(1000)
        match prng.randrange(7):
            case 0:
                t.delete_item(Key=key)
            case 1:
                t.update_item(Key=key, UpdateExpression="SET #x = :v REMOVE other",
                              ExpressionAttributeNames={"#x": "x"},
                              ExpressionAttributeValues={":v": f"x{value % 3}"})
            case 2:
                t.update_item(Key=key, UpdateExpression="SET other.a = :v",
                              ConditionExpression="attribute_exists(other)",
                              ExpressionAttributeValues={":v": value}) if "other" in t.get_item(
                                  Key=key, ConsistentRead=True).get("Item", {}) else None
            case 3:
                with t.batch_writer(overwrite_by_pkeys=["p", "c"]) as batch:
                    for c in range(3):
                        batch.put_item(Item={**key, "c": c, "many": number})
                    batch.delete_item(Key={**key, "c": 5})
            case 4:
                client.transact_write_items(TransactItems=[
                    {"Put": {"TableName": t.name, "Item": {**key, "with": value}}},
                    {"Update": {"TableName": t.name, "Key": {"p": "both", "c": key["c"]},
                                "UpdateExpression": "ADD n :one",
                                "ExpressionAttributeValues": {":one": 1}}}])
            case _:
                t.put_item(Item={**key, "x": f"x{value % 3}", "n": value,
                                 "other": {"a": value, "set": {"s", str(value)}}})


def test_a_table_is_made_as_it_was_at_each_point(db):
    prng = random.Random(7)
    facts = {"range_type": "N", "others": {"x": "S"},
             "GlobalSecondaryIndexes": [index("by_x", "x", "c")]}
    with table(db, **facts) as t:
        # What was there before, and what nobody has written since.
        write(t, prng, 60)
        t.put_item(Item={"p": "old", "c": 1, "x": "x1"})
        enable(t, RecoveryPeriodInDays=3)
        point = point_of(t)
        assert point["RecoveryPeriodInDays"] == 3
        assert point["EarliestRestorableDateTime"] <= point["LatestRestorableDateTime"]
        expected = {}
        for _ in range(3):
            write(t, prng, 40)
            second = next_second()
            expected[second] = items(t)
        write(t, prng, 40)
        now = items(t)
        assert len({str(of) for of in [*expected.values(), now]}) == 4
        for second, of in expected.items():
            copy = restored(db, t, second, f"{t.name}.{second}")
            assert items(copy) == of, second
            summary = db.meta.client.describe_table(TableName=copy.name)["Table"]["RestoreSummary"]
            assert summary["RestoreDateTime"] == at(second)
            assert "SourceBackupArn" not in summary and not summary["RestoreInProgress"]
            for x in range(3):
                queried = [(one["p"], one["c"]) for one in of if one.get("x") == f"x{x}"]
                until(lambda: sorted((one["p"], one["c"]) for one in copy.query(
                    IndexName="by_x", KeyConditionExpression=Key("x").eq(f"x{x}"))["Items"])
                    == sorted(queried))
            copy.delete()
        assert items(t) == now
        # As the latest is, once nothing is written any more.
        last = next_second()
        until(lambda: at(last) <= point_of(t)["LatestRestorableDateTime"])
        arn = db.meta.client.describe_table(TableName=t.name)["Table"]["TableArn"]
        db.meta.client.restore_table_to_point_in_time(
            SourceTableArn=arn, TargetTableName="latest", UseLatestRestorableTime=True,
            GlobalSecondaryIndexOverride=[])
        wait_for_restore(db, "latest")
        assert items(db.Table("latest")) == now
        described = db.meta.client.describe_table(TableName="latest")["Table"]
        assert "GlobalSecondaryIndexes" not in described
        # Nobody has asked for its bases.
        assert db.meta.client.list_backups()["BackupSummaries"] == []
        db.Table("latest").delete()


def test_deletions_of_ranges_and_what_cql_writes_come_with_it(db, node):
    with table(db, range_type="N") as t:
        name = f'"alternator_{t.name}"."{t.name}"'
        session = node.connect()
        for p in "ab":
            for c in range(30):
                t.put_item(Item={"p": p, "c": c, "big": "x" * 20_000})
        enable(t)
        session.execute(f"DELETE FROM {name} WHERE p = 'a' AND c >= 5 AND c < 20")
        t.put_item(Item={"p": "a", "c": 7, "later": True})
        session.execute(f"DELETE FROM {name} WHERE p = 'b'")
        for c in range(3):
            t.put_item(Item={"p": "b", "c": c, "big": "y" * 300_000})
        second, expected = next_second(), items(t)
        assert len(expected) == 15 + 1 + 3
        session.execute(f"DELETE FROM {name} WHERE p = 'a'")
        copy = restored(db, t, second, f"{t.name}.copy")
        assert items(copy) == expected
        copy.delete()


def test_a_history_that_somebody_ends_begins_anew(db, node):
    with table(db) as t:
        t.put_item(Item={"p": "1"})
        enable(t)
        first = point_of(t)["EarliestRestorableDateTime"]
        session = node.connect()
        session.execute(f'ALTER TABLE "alternator_{t.name}"."{t.name}" '
                        "WITH cdc = {'enabled': false}")
        t.put_item(Item={"p": "2"})
        # What was written is in a base.
        until(lambda: first < point_of(t).get("EarliestRestorableDateTime", first), 120)
        t.put_item(Item={"p": "3"})
        second, expected = next_second(), items(t)
        t.delete_item(Key={"p": "2"})
        copy = restored(db, t, second, f"{t.name}.copy")
        assert items(copy) == expected
        assert len(expected) == 3
        copy.delete()


def test_a_stream_of_the_same_table_goes_on(db, node):
    told = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    door = streams(node)

    def records(arn):
        found = []
        for shard in door.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
            asked = door.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"],
                                            ShardIteratorType="TRIM_HORIZON")
            page = door.get_records(ShardIterator=asked["ShardIterator"])
            found += [(record["eventName"], record["dynamodb"].get("OldImage", {}).get("n"),
                       record["dynamodb"].get("NewImage", {}).get("n"))
                      for record in page["Records"]]
        return found

    def n(value):
        return {"N": str(value)}

    with table(db) as t:
        client = t.meta.client
        enable(t)
        t.put_item(Item={"p": "1", "n": 1})
        opened = client.update_table(TableName=t.name, StreamSpecification=told)
        arn = opened["TableDescription"]["LatestStreamArn"]
        t.put_item(Item={"p": "1", "n": 2})
        t.delete_item(Key={"p": "1"})
        seen = [("MODIFY", n(1), n(2)), ("REMOVE", n(2), None)]
        until(lambda: records(arn) == seen)
        second = next_second()
        client.update_table(TableName=t.name, StreamSpecification={"StreamEnabled": False})
        t.put_item(Item={"p": "1", "n": 3})
        later = next_second()
        assert records(arn) == seen
        assert items(restored(db, t, second, "first")) == []
        assert items(restored(db, t, later, "second")) == [{"p": "1", "n": 3}]
        # The stream is shown for as long as one is, without what it is no part of.
        disable(t)
        assert records(arn) == seen
        for name in ("first", "second"):
            db.Table(name).delete()


def test_what_is_wrong_is_said(db, node):
    client = unchecked(node)
    with table(db) as t:
        name = t.name
        described = client.describe_continuous_backups(TableName=name)
        off = {"ContinuousBackupsStatus": "DISABLED",
               "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"}}
        assert described["ContinuousBackupsDescription"] == off
        assert disable(t)["ContinuousBackupsDescription"] == off
        act, update = client.restore_table_to_point_in_time, client.update_continuous_backups
        error("PointInTimeRecoveryUnavailableException", act, SourceTableName=name,
              TargetTableName="copy", UseLatestRestorableTime=True)
        on = {"PointInTimeRecoveryEnabled": True}
        for wrong in ({}, {**on, "RecoveryPeriodInDays": 0}, {**on, "RecoveryPeriodInDays": 36}):
            error("ValidationException", update, TableName=name,
                  PointInTimeRecoverySpecification=wrong)
        error("TableNotFoundException", update, TableName="nobody",
              PointInTimeRecoverySpecification=on)
        error("TableNotFoundException", client.describe_continuous_backups, TableName="nobody")
        enable(t)
        assert point_of(t)["RecoveryPeriodInDays"] == 35
        latest = {"TargetTableName": "copy", "UseLatestRestorableTime": True}
        error("TableNotFoundException", act, SourceTableName="nobody", **latest)
        error("ValidationException", act, **latest)
        error("ValidationException", act, SourceTableName=name, TargetTableName="copy")
        error("ValidationException", act, SourceTableName=name, RestoreDateTime=at(5), **latest)
        error("ValidationException", act, SourceTableName=name, TargetTableName="a b",
              UseLatestRestorableTime=True)
        error("TableAlreadyExistsException", act, SourceTableName=name, TargetTableName=name,
              UseLatestRestorableTime=True)
        for time_of in (at(5), LATER):
            words = error("InvalidRestoreTimeException", act, SourceTableName=name,
                          TargetTableName="copy", RestoreDateTime=time_of)
            assert "EarliestRestorableDateTime" in words
        error("ResourceNotFoundException", client.describe_table, TableName="copy")


def test_what_is_disabled_leaves_nothing(db, node):
    # What earlier tables had goes when somebody looks after it.
    until(lambda: parts(node) == [])
    with table(db) as t:
        enable(t)
        assert len(parts(node)) == 1
        log = f"{t.name}_scylla_cdc_log"
        session = node.connect()
        asked = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'alternator_{t.name}'"
        assert log in [row.table_name for row in session.execute(asked)]
        disable(t)
        assert log not in [row.table_name for row in session.execute(asked)]
        until(lambda: parts(node) == [])
        error("PointInTimeRecoveryUnavailableException",
              t.meta.client.restore_table_to_point_in_time, SourceTableName=t.name,
              TargetTableName="copy", UseLatestRestorableTime=True)
        # Again, from now on.
        enable(t)
        assert len(parts(node)) == 1
    # And so does a table that is deleted.
    until(lambda: parts(node) == [])


def test_a_crash_changes_nothing():
    with Node(*DURABLE) as node:
        db = dynamodb(node)
        prng = random.Random(11)
        with table(db, range_type="N") as t:
            write(t, prng, 30)
            # One that is killed while it makes the first base makes it when it is there again.
            inject(node, "alternator_backup_taken")
            said = {"PointInTimeRecoveryEnabled": True}
            t.meta.client.update_continuous_backups(
                TableName=t.name, PointInTimeRecoverySpecification=said)
            node.wait_for_log("alternator_backup_taken: waiting")
            assert "EarliestRestorableDateTime" not in point_of(t)
            node.kill()
            node.start()
            until(lambda: "EarliestRestorableDateTime" in point_of(t), 120)
            assert len(parts(node)) == 1
            write(t, prng, 40)
            second, expected = next_second(), items(t)
            write(t, prng, 20)
            node.kill()
            node.start()
            now = items(t)
            inject(node, "alternator_history_step")
            restore(t, second, "copy")
            node.wait_for_log("alternator_history_step: waiting")
            described = db.meta.client.describe_table(TableName="copy")["Table"]
            assert described["RestoreSummary"]["RestoreInProgress"]
            error("ResourceNotFoundException", db.meta.client.scan, TableName="copy")
            # What is being restored keeps what it is made of.
            disable(t)
            assert len(parts(node)) == 1
            node.kill()
            node.start()
            wait_for_restore(db, "copy")
            assert items(db.Table("copy")) == expected
            assert items(t) == now
            until(lambda: parts(node) == [])


def test_three_nodes_restore_what_they_have_written_together():
    with Nodes(3, *DURABLE) as nodes:
        dbs = [dynamodb(node) for node in nodes]
        prng = random.Random(13)
        with table(dbs[0], range_type="N") as t:
            write(t, prng, 30)
            enable(t)
            write(dbs[1].Table(t.name), prng, 30)
            # Of what comes now one node hears later.
            nodes[2].kill()
            until(lambda: not is_alive(nodes[0], nodes[2]))
            write(dbs[1].Table(t.name), prng, 30)
            second, expected = next_second(), items(t)
            write(t, prng, 20)
            nodes[2].start()
            until(lambda: all(is_alive(nodes[2], node) for node in nodes))
            write(dbs[2].Table(t.name), prng, 20)
            for node in nodes:
                inject(node, "alternator_history_step")
            restore(t, second, "copy", dbs[1].meta.client)
            text = "alternator_history_step: waiting"
            until(lambda: any(text in node.log.read_text() for node in nodes))
            # Two may drive while one is thought to be dead.
            driver = next(node for node in nodes if text in node.log.read_text())
            driver.kill()
            others = [node for node in nodes if node is not driver]
            for node in others:
                inject(node, "alternator_history_step", "DELETE")
            db = dynamodb(others[0])
            wait_for_restore(db, "copy")
            assert items(db.Table("copy")) == expected
            driver.start()
            wait_for_restore(dynamodb(driver), "copy")
            assert items(dynamodb(driver).Table("copy")) == expected
