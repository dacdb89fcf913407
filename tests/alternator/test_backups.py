"""Backups on demand, and tables that are made of them."""
import datetime
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest
from boto3.dynamodb.conditions import Key
from cassandra import Unauthorized
from door import dynamodb, error, table, unchecked, until
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from trio import Nodes, nodetool, rest  # noqa: E402  pylint: disable=wrong-import-position

LATER = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
EARLIER = datetime.datetime(2001, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def db(node):
    return dynamodb(node)


def back_up(t, name="monday"):
    """The ARN of a backup that is there."""
    client = t.meta.client
    made = client.create_backup(TableName=t.name, BackupName=name)["BackupDetails"]
    until(lambda: status_of(client, made["BackupArn"]) == "AVAILABLE")
    return made["BackupArn"]


def status_of(client, arn):
    described = client.describe_backup(BackupArn=arn)["BackupDescription"]
    return described["BackupDetails"]["BackupStatus"]


def restore(db, arn, name, **facts):
    """The table, when it may be used."""
    client = db.meta.client
    made = client.restore_table_from_backup(TargetTableName=name, BackupArn=arn, **facts)
    assert made["TableDescription"]["TableName"] == name
    wait_for_restore(db, name)
    return db.Table(name)


def wait_for_restore(db, name):
    client = db.meta.client
    until(lambda: client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE")


def items(t, **facts):
    """All items, in the order of their keys."""
    found, start = [], {}
    while start is not None:
        page = t.scan(ConsistentRead="IndexName" not in facts, **facts, **start)
        found += page["Items"]
        last = page.get("LastEvaluatedKey")
        start = {"ExclusiveStartKey": last} if last else None
    return sorted(found, key=lambda item: (item["p"], item.get("c", 0)))


def index(name, *keys):
    kinds = ("HASH", "RANGE")
    return {"IndexName": name, "Projection": {"ProjectionType": "ALL"},
            "KeySchema": [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, kinds)]}


def fill(t, count):
    with t.batch_writer() as batch:
        for n in range(count):
            batch.put_item(Item={"p": f"p{n % 7}", "c": n, "x": f"x{n % 5}", "y": n * 3,
                                 "other": {"list": [n, "text", None], "set": {"a", str(n)}}})
    for n in range(0, count, 10):
        t.delete_item(Key={"p": f"p{n % 7}", "c": n})
    for n in range(1, count, 10):
        t.update_item(Key={"p": f"p{n % 7}", "c": n}, UpdateExpression="SET #n = :v REMOVE x",
                      ExpressionAttributeNames={"#n": "new"},
                      ExpressionAttributeValues={":v": Decimal("1.5")})


def test_a_deleted_table_is_made_anew_with_its_items_and_indexes(db):
    facts = {"range_type": "N", "others": {"x": "S", "y": "N"},
             "GlobalSecondaryIndexes": [index("by_x", "x", "y")],
             "LocalSecondaryIndexes": [index("by_y", "p", "y")]}
    with table(db, **facts) as t:
        fill(t, 300)
        expected = items(t)
        assert len(expected) == 270
        arn = back_up(t)
        # What comes later is not in it.
        t.put_item(Item={"p": "p1", "c": 1, "later": True})
        t.put_item(Item={"p": "later", "c": 1})
        t.delete_item(Key={"p": "p2", "c": 2})
        name = t.name
    error("ResourceNotFoundException", db.meta.client.describe_table, TableName=name)
    assert status_of(db.meta.client, arn) == "AVAILABLE"

    same = restore(db, arn, name)
    assert items(same) == expected
    summary = db.meta.client.describe_table(TableName=name)["Table"]["RestoreSummary"]
    assert summary["SourceBackupArn"] == arn and not summary["RestoreInProgress"]
    assert summary["SourceTableArn"].endswith(f":table/{name}")
    for x in range(5):
        queried = [item for item in expected if item.get("x") == f"x{x}"]
        found = []
        until(lambda: (found := same.query(
            IndexName="by_x", KeyConditionExpression=Key("x").eq(f"x{x}"))["Items"]) is not None
            and len(found) == len(queried))
        found = same.query(IndexName="by_x", KeyConditionExpression=Key("x").eq(f"x{x}"))["Items"]
        assert found == sorted(queried, key=lambda item: item["y"])
    local = same.query(IndexName="by_y", KeyConditionExpression=Key("p").eq("p3"),
                       ConsistentRead=True)["Items"]
    assert local == sorted((item for item in expected if item["p"] == "p3"),
                           key=lambda item: item["y"])
    # It is a table as others are, and later writes are later.
    same.put_item(Item={"p": "p1", "c": 1, "changed": True})
    assert same.get_item(Key={"p": "p1", "c": 1}, ConsistentRead=True)["Item"] == {
        "p": "p1", "c": 1, "changed": True}
    # Twice of one backup, beside the first.
    again = restore(db, arn, f"{name}.again", GlobalSecondaryIndexOverride=[],
                    BillingModeOverride="PROVISIONED",
                    ProvisionedThroughputOverride={"ReadCapacityUnits": 3, "WriteCapacityUnits": 4})
    assert items(again) == expected
    described = db.meta.client.describe_table(TableName=again.name)["Table"]
    assert "GlobalSecondaryIndexes" not in described
    assert [one["IndexName"] for one in described["LocalSecondaryIndexes"]] == ["by_y"]
    units = described["ProvisionedThroughput"]
    assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (3, 4)
    same.delete()
    again.delete()


def test_large_partitions_come_back_without_what_was_deleted_of_them(db, node):
    """Steps end within partitions, and what covers rows is in another step than they are."""
    with table(db, range_type="N") as t:
        name = f'"alternator_{t.name}"."{t.name}"'
        for p in "ab":
            for n in range(60):
                t.put_item(Item={"p": p, "c": n, "big": chr(65 + n % 26) * 90_000})
        assert nodetool(node, "flush", f"alternator_{t.name}").returncode == 0
        # Deletions of ranges come from CQL alone.
        session = node.connect()
        session.execute(f"DELETE FROM {name} WHERE p = 'a' AND c >= 10 AND c < 25")
        session.execute(f"DELETE FROM {name} WHERE p = 'b' AND c > 40")
        t.put_item(Item={"p": "a", "c": 15, "later": True})
        t.delete_item(Key={"p": "b", "c": 3})
        expected = items(t)
        assert len(expected) == 60 - 15 + 1 + 41 - 1
        arn = back_up(t)
        copy = restore(db, arn, f"{t.name}.copy")
        assert items(copy) == expected
        copy.delete()


def test_a_backup_tells_of_its_table(db):
    with table(db, others={"x": "S"}, GlobalSecondaryIndexes=[index("by_x", "x")],
               StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}) as t:
        client = t.meta.client
        client.update_time_to_live(TableName=t.name, TimeToLiveSpecification={
            "AttributeName": "e", "Enabled": True})
        arn_of_table = client.describe_table(TableName=t.name)["Table"]["TableArn"]
        client.tag_resource(ResourceArn=arn_of_table, Tags=[{"Key": "a", "Value": "b"}])
        t.put_item(Item={"p": "1"})
        arn = back_up(t)
        assert arn.startswith(f"{arn_of_table}/backup/")
        told = client.describe_backup(BackupArn=arn)["BackupDescription"]
        details = told["BackupDetails"]
        assert (details["BackupName"], details["BackupType"]) == ("monday", "USER")
        assert details["BackupSizeBytes"] > 0
        ago = datetime.datetime.now(datetime.timezone.utc) - details["BackupCreationDateTime"]
        assert datetime.timedelta() <= ago < datetime.timedelta(minutes=5)
        source = told["SourceTableDetails"]
        assert (source["TableName"], source["TableArn"]) == (t.name, arn_of_table)
        assert source["BillingMode"] == "PAY_PER_REQUEST" and source["ItemCount"] == 1
        assert source["KeySchema"] == [{"AttributeName": "p", "KeyType": "HASH"}]
        features = told["SourceTableFeatureDetails"]
        assert [one["IndexName"] for one in features["GlobalSecondaryIndexes"]] == ["by_x"]
        assert features["StreamDescription"]["StreamViewType"] == "KEYS_ONLY"
        assert features["TimeToLiveDescription"] == {
            "TimeToLiveStatus": "ENABLED", "AttributeName": "e"}
        # As in the service, these are not restored.
        copy = restore(db, arn, f"{t.name}.copy")
        described = client.describe_table(TableName=copy.name)["Table"]
        assert "LatestStreamArn" not in described
        ttl = client.describe_time_to_live(TableName=copy.name)["TimeToLiveDescription"]
        assert ttl["TimeToLiveStatus"] == "DISABLED"
        assert client.list_tags_of_resource(ResourceArn=described["TableArn"])["Tags"] == []
        copy.delete()


def test_what_is_wrong_is_said(db, node):
    client = unchecked(node)
    with table(db) as t:
        arn = back_up(t)
        for name in ("ab", "x" * 256, "a/b"):
            error("ValidationException", client.create_backup, TableName=t.name, BackupName=name)
        error("TableNotFoundException", client.create_backup, TableName="nobody", BackupName="abc")
        unknown = arn[:-1] + ("0" if arn[-1] != "0" else "1")
        for act in (client.describe_backup, client.delete_backup):
            error("BackupNotFoundException", act, BackupArn=unknown)
            error("ValidationException", act, BackupArn="arn:aws:dynamodb:us-east-1:0:table/x-y-z")
        restoring = client.restore_table_from_backup
        error("BackupNotFoundException", restoring, BackupArn=unknown, TargetTableName="copy")
        error("TableAlreadyExistsException", restoring, BackupArn=arn, TargetTableName=t.name)
        error("ValidationException", restoring, BackupArn=arn, TargetTableName="a b")
        error("ValidationException", restoring, BackupArn=arn, TargetTableName="copy",
              GlobalSecondaryIndexOverride=[index("by_x", "x")])
        error("ValidationException", restoring, BackupArn=arn, TargetTableName="copy",
              BillingModeOverride="PROVISIONED")
        error("ResourceNotFoundException", client.describe_table, TableName="copy")
        deleted = client.delete_backup(BackupArn=arn)["BackupDescription"]["BackupDetails"]
        assert deleted["BackupStatus"] == "DELETED"
        for act in (client.describe_backup, client.delete_backup):
            error("BackupNotFoundException", act, BackupArn=arn)
        error("BackupNotFoundException", restoring, BackupArn=arn, TargetTableName="copy")


def test_a_removed_backup_leaves_no_files(db, node):
    def files():
        return list(node.workdir.glob("data/**/snapshots/dynamodb-*"))

    before = files()
    with table(db) as t:
        t.put_item(Item={"p": "1"})
        arn = back_up(t)
        [made] = set(files()) - set(before)
        assert any(made.glob("*-Data.db"))
    db.meta.client.delete_backup(BackupArn=arn)
    until(lambda: files() == before)


def test_lists_have_what_is_asked_for(db):
    client = db.meta.client
    with table(db) as a, table(db) as b:
        arns = [back_up(a, "one"), back_up(b, "two"), back_up(a, "three"), back_up(a, "four")]

        def listed(**facts):
            found = client.list_backups(**facts)["BackupSummaries"]
            return [one["BackupArn"] for one in found if one["TableName"] in (a.name, b.name)]

        assert listed() == arns
        assert listed(TableName=a.name) == [arns[0], arns[2], arns[3]]
        assert listed(TableName=b.name) == [arns[1]]
        assert listed(TableName="nobody") == []
        assert listed(BackupType="USER", TableName=b.name) == [arns[1]]
        assert listed(BackupType="ALL", TableName=b.name) == [arns[1]]
        assert listed(BackupType="SYSTEM") == listed(BackupType="AWS_BACKUP") == []
        assert listed(TimeRangeLowerBound=EARLIER, TimeRangeUpperBound=LATER) == arns
        assert listed(TimeRangeUpperBound=EARLIER) == listed(TimeRangeLowerBound=LATER) == []
        found, start = [], {}
        while start is not None:
            page = client.list_backups(TableName=a.name, Limit=1, **start)
            [one] = page["BackupSummaries"]
            assert (one["BackupStatus"], one["BackupType"]) == ("AVAILABLE", "USER")
            found.append(one["BackupName"])
            last = page.get("LastEvaluatedBackupArn")
            start = {"ExclusiveStartBackupArn": last} if last else None
        assert found == ["one", "three", "four"]
        error("ValidationException", client.list_backups, ExclusiveStartBackupArn="x" * 40)
        client.delete_backup(BackupArn=arns[2])
        assert listed(TableName=a.name) == [arns[0], arns[3]]


def inject(node, point, method="POST"):
    rest(node, f"/v2/error_injection/injection/{point}", method)


def parts(node):
    """The parts of backups that a node has."""
    return list(node.workdir.glob("data/**/snapshots/dynamodb-*"))


def test_a_table_is_not_used_before_all_of_it_is_there():
    with Node() as node:
        db = dynamodb(node)
        client = db.meta.client
        with table(db, range_type="N") as t:
            fill(t, 100)
            expected = items(t)
            arn = back_up(t)
        inject(node, "alternator_restore_step")
        client.restore_table_from_backup(TargetTableName="copy", BackupArn=arn)
        node.wait_for_log("alternator_restore_step: waiting")

        def is_refused():
            described = client.describe_table(TableName="copy")["Table"]
            assert described["TableStatus"] == "CREATING"
            assert described["RestoreSummary"]["RestoreInProgress"]
            key = {"p": {"S": "p1"}, "c": {"N": "1"}}
            error("ResourceNotFoundException", client.get_item, TableName="copy", Key=key)
            error("ResourceNotFoundException", client.put_item, TableName="copy", Item=key)
            error("ResourceNotFoundException", client.scan, TableName="copy")
            error("ResourceInUseException", client.update_table, TableName="copy",
                  BillingMode="PAY_PER_REQUEST")
            error("ResourceInUseException", client.update_time_to_live, TableName="copy",
                  TimeToLiveSpecification={"AttributeName": "e", "Enabled": True})
            error("TableInUseException", client.create_backup, TableName="copy", BackupName="abc")
            error("BackupInUseException", client.delete_backup, BackupArn=arn)
            assert status_of(client, arn) == "AVAILABLE"
            error("TableAlreadyExistsException", client.restore_table_from_backup,
                  TargetTableName="copy", BackupArn=arn)
            assert client.list_tables()["TableNames"] == ["copy"]

        is_refused()
        # It goes on when the node has started again, over what it has.
        node.kill()
        node.start()
        wait_for_restore(db, "copy")
        assert items(db.Table("copy")) == expected
        # Who does not want to wait may delete it.
        inject(node, "alternator_restore_step")
        client.restore_table_from_backup(TargetTableName="other", BackupArn=arn)
        client.delete_table(TableName="other")
        inject(node, "alternator_restore_step", "DELETE")
        assert client.list_tables()["TableNames"] == ["copy"]
        client.delete_backup(BackupArn=arn)
        until(lambda: parts(node) == [])


def test_a_backup_that_a_crash_interrupts_is_given_up():
    with Node() as node:
        db = dynamodb(node)
        client = db.meta.client
        with table(db) as t:
            t.put_item(Item={"p": "1"})
            kept = back_up(t, "kept")
            inject(node, "alternator_backup_taken")
            made = []
            asks = threading.Thread(target=lambda: made.append(
                client.create_backup(TableName=t.name, BackupName="lost")["BackupDetails"]))
            asks.start()
            node.wait_for_log("alternator_backup_taken: waiting")
            asks.join()  # The answer does not wait for as long.
            [lost] = made
            assert lost["BackupStatus"] == "CREATING"
            arn = lost["BackupArn"]
            assert status_of(client, arn) == "CREATING"
            error("BackupInUseException", client.delete_backup, BackupArn=arn)
            error("BackupInUseException", client.restore_table_from_backup, BackupArn=arn,
                  TargetTableName="copy")
            assert len(parts(node)) == 2
            node.kill()
            node.start()
            until(lambda: len(parts(node)) == 1)
            listed = client.list_backups()["BackupSummaries"]
            until(lambda: len(client.list_backups()["BackupSummaries"]) == 1)
            assert kept in [one["BackupArn"] for one in listed]
            error("BackupNotFoundException", client.describe_backup, BackupArn=arn)
            assert items(restore(db, kept, "copy")) == [{"p": "1"}]


def test_a_table_whose_backup_is_damaged_says_so():
    with Node() as node:
        db = dynamodb(node)
        client = db.meta.client
        with table(db) as t:
            t.put_item(Item={"p": "1"})
            arn = back_up(t)
        # It is no snapshot that an operator took.
        assert nodetool(node, "clearsnapshot").returncode == 0
        [part] = parts(node)
        assert nodetool(node, "clearsnapshot", "-t", part.name).returncode == 0
        assert parts(node) == []
        client.restore_table_from_backup(TargetTableName="copy", BackupArn=arn)
        until(lambda: client.describe_table(TableName="copy")["Table"]["TableStatus"] == "ARCHIVED")
        described = client.describe_table(TableName="copy")["Table"]
        assert "lost their parts" in described["ArchivalSummary"]["ArchivalReason"]
        error("ResourceNotFoundException", client.scan, TableName="copy")
        client.delete_table(TableName="copy")
        client.delete_backup(BackupArn=arn)


def test_a_restore_from_a_damaged_file_ends():
    with Node() as node:
        db = dynamodb(node)
        client = db.meta.client
        with table(db) as t:
            t.put_item(Item={"p": "1"})
            arn = back_up(t)
        [part] = parts(node)
        files = list(part.glob("*-Data.db"))
        assert files
        for file in files:
            file.write_bytes(bytes(file.stat().st_size))
        client.restore_table_from_backup(TargetTableName="copy", BackupArn=arn)
        until(lambda: client.describe_table(TableName="copy")["Table"]["TableStatus"] == "ARCHIVED")
        why = client.describe_table(TableName="copy")["Table"]["ArchivalSummary"]["ArchivalReason"]
        assert "1 of 1 nodes have lost their parts of it: " in why
        # Which file is damaged is told, in the log as well.
        assert any(file.name in why for file in files)
        assert "copy cannot be restored: 1 of 1 nodes have lost their parts" in node.log.read_text()
        client.delete_table(TableName="copy")
        client.delete_backup(BackupArn=arn)


def test_who_may_do_what():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1")
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")
        roles = {}
        for role in ("cassandra", "app"):
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            roles[role] = dynamodb(node, role, row.salted_hash)
        client = roles["app"].meta.client
        denied = "AccessDeniedException"
        with table(roles["cassandra"]) as t:
            name = f'"alternator_{t.name}"."{t.name}"'
            t.put_item(Item={"p": "1"})
            ask = {"TableName": t.name, "BackupName": "monday"}
            error(denied, client.create_backup, **ask)
            session.execute(f"GRANT SELECT ON {name} TO app")
            arn = client.create_backup(**ask)["BackupDetails"]["BackupArn"]
            until(lambda: status_of(client, arn) == "AVAILABLE")
            restoring = {"TargetTableName": "copy", "BackupArn": arn}
            error(denied, client.restore_table_from_backup, **restoring)
            session.execute("GRANT CREATE ON ALL KEYSPACES TO app")
            # Who has made it may do everything with it.
            copy = restore(roles["app"], arn, "copy")
            assert items(copy) == [{"p": "1"}]
            copy.delete()
            error(denied, client.delete_backup, BackupArn=arn)
            session.execute(f"REVOKE SELECT ON {name} FROM app")
            error(denied, client.restore_table_from_backup, **restoring)
            session.execute(f"GRANT DROP ON {name} TO app")
        # What was granted on a table goes with it.
        error(denied, client.restore_table_from_backup, **restoring)
        error(denied, client.delete_backup, BackupArn=arn)
        session.execute("GRANT SELECT ON ALL KEYSPACES TO app")
        assert items(restore(roles["app"], arn, "copy")) == [{"p": "1"}]
        session.execute("GRANT DROP ON ALL KEYSPACES TO app")
        client.delete_backup(BackupArn=arn)
        # What is known of backups is for nobody else to write.
        for text in ("DELETE FROM nereid_backups.backups WHERE kind = 'backup'",
                     "DROP KEYSPACE nereid_backups"):
            with pytest.raises(Unauthorized, match="not user-modifiable"):
                session.execute(text)


def test_three_nodes_have_each_their_part():
    with Nodes(3) as nodes:
        db = dynamodb(nodes[0])
        t = db.create_table(
            TableName="many", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"},
                       {"AttributeName": "c", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"},
                                  {"AttributeName": "c", "AttributeType": "N"},
                                  {"AttributeName": "x", "AttributeType": "S"}],
            GlobalSecondaryIndexes=[index("by_x", "x")])
        fill(t, 200)
        expected = items(t)
        made = db.meta.client.create_backup(TableName="many", BackupName="monday")["BackupDetails"]
        arn = made["BackupArn"]
        asked = dynamodb(nodes[1]).meta.client
        until(lambda: status_of(asked, arn) == "AVAILABLE")
        assert [len(parts(node)) for node in nodes] == [1, 1, 1]
        t.put_item(Item={"p": "later", "c": 1})
        t.delete()
        # Whoever drives it is killed in the midst of it; the others, or it, complete it.
        for node in nodes:
            inject(node, "alternator_restore_step")
        asked.restore_table_from_backup(TargetTableName="copy", BackupArn=arn)
        text = "alternator_restore_step: waiting"
        until(lambda: any(text in node.log.read_text() for node in nodes))
        [driver] = [node for node in nodes if text in node.log.read_text()]
        driver.kill()
        others = [node for node in nodes if node is not driver]
        until(lambda: any(text in node.log.read_text() for node in others))
        # Not from the start: some parts were done.
        [next_driver] = [node for node in others if text in node.log.read_text()]
        assert "a restore goes on, of which" in next_driver.log.read_text()
        for node in others:
            inject(node, "alternator_restore_step", "DELETE")
        db = dynamodb(others[0])
        wait_for_restore(db, "copy")
        copy = db.Table("copy")
        assert items(copy) == expected
        driver.start()
        # What it has missed of the schema it hears soon.
        wait_for_restore(dynamodb(driver), "copy")
        seen = dynamodb(driver).Table("copy")
        until(lambda: items(seen) == expected)
        for x in range(5):
            queried = {(item["p"], item["c"]) for item in expected if item.get("x") == f"x{x}"}
            until(lambda: {(item["p"], item["c"]) for item in seen.query(
                IndexName="by_x", KeyConditionExpression=Key("x").eq(f"x{x}"))["Items"]} == queried)
        # A node that is away removes its part when it is there again.
        others[1].kill()
        db.meta.client.delete_backup(BackupArn=arn)
        until(lambda: [len(parts(node)) for node in (others[0], driver)] == [0, 0])
        assert len(parts(others[1])) == 1
        others[1].start()
        until(lambda: parts(others[1]) == [], 120)


def test_a_backup_is_whole_without_one_node_of_three():
    with Nodes(3) as nodes:
        db = dynamodb(nodes[0])
        client = db.meta.client
        with table(db, range_type="N") as t:
            fill(t, 50)
            nodes[2].kill()
            until(lambda: not is_alive(nodes[0], nodes[2]))
            # Of these two nodes have a copy, which both take.
            fill(t, 120)
            expected = items(t)
            arn = back_up(t)
            assert [len(parts(node)) for node in nodes] == [1, 1, 0]
        nodes[2].start()
        assert items(restore(db, arn, "copy")) == expected
        # One had no part from the start, and another loses its own: these two may have been all that
        # acknowledged an item.
        [part] = parts(nodes[1])
        assert nodetool(nodes[1], "clearsnapshot", "-t", part.name).returncode == 0
        client.restore_table_from_backup(TargetTableName="less", BackupArn=arn)
        until(lambda: client.describe_table(TableName="less")["Table"]["TableStatus"] == "ARCHIVED")
        why = client.describe_table(TableName="less")["Table"]["ArchivalSummary"]["ArchivalReason"]
        assert "2 of 3 nodes have lost their parts" in why


def is_alive(node, other):
    rows = rest(node, "/gossiper/endpoint/live/")
    return other.address in rows
