"""The door: HTTP, signatures, permissions, and requests that are none."""
import gzip
import json
import random
import socket
import sys
import zlib
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from door import dynamodb, streams, table
from node import Node, free_address

sys.path.insert(0, str(Path(__file__).parents[1] / "metrics"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tls"))
from authority import Authority  # noqa: E402  pylint: disable=wrong-import-position
from scraped import total  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


def ask(node, operation, body, *headers):
    """One request over a connection of its own: status, headers, body."""
    target = f"X-Amz-Target: DynamoDB_20120810.{operation}"
    head = ["POST / HTTP/1.1", f"Host: {node.address}", "Connection: close", target,
            f"Content-Length: {len(body)}", *headers]
    with socket.create_connection((node.address, 8000), timeout=30) as connection:
        connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


def test_answers_have_what_sdks_check(node):
    status, headers, body = ask(node, "ListTables", b"{}")
    assert (status, json.loads(body)) == (200, {"TableNames": []})
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert int(headers["x-amz-crc32"]) == zlib.crc32(body)
    assert len(headers["x-amzn-requestid"]) == 32
    status, _, body = ask(node, "Nonsense", b"{}")
    assert status == 400 and json.loads(body)["__type"].endswith("#UnknownOperationException")


def test_bodies_may_be_packed(node):
    packed = gzip.compress(b"{}")
    assert ask(node, "ListTables", packed, "Content-Encoding: gzip")[0] == 200
    assert ask(node, "ListTables", packed[:-3], "Content-Encoding: gzip")[0] == 500
    bomb = gzip.compress(b" " * (17 << 20))
    assert ask(node, "ListTables", bomb, "Content-Encoding: gzip")[0] == 413


def test_damaged_requests_are_refused_and_harm_nobody(node):
    with table(dynamodb(node), range_type="N") as t:
        whole = json.dumps({
            "TableName": t.name, "Item": {"p": {"S": "a"}, "c": {"N": "1"}, "b": {"B": "YWI="},
                                          "l": {"L": [{"NS": ["1", "2"]}, {"M": {"x": {"BOOL": True}}}]}},
            "ConditionExpression": "attribute_not_exists(p) OR NOT (c BETWEEN :a AND :b)",
            "ExpressionAttributeValues": {":a": {"N": "5"}, ":b": {"N": "9"}}}).encode()
        assert ask(node, "PutItem", whole)[0] == 200
        draw = random.Random(7)
        for _ in range(400):
            body = bytearray(whole)
            for _ in range(draw.randrange(1, 4)):
                at = draw.randrange(len(body))
                body[at:at + draw.randrange(3)] = bytes([draw.randrange(256)] * draw.randrange(3))
            operation = draw.choice(["PutItem", "UpdateItem", "Query", "Scan", "BatchWriteItem"])
            status, _, answer = ask(node, operation, bytes(body))
            assert status in (200, 400) and isinstance(json.loads(answer), dict), body
        for text in [b"[" * 100_000, b'{"":' * 100_000, b"\xff", b"", b"7"]:
            assert ask(node, "PutItem", text)[0] == 400
        assert "Item" in t.get_item(Key={"p": "a", "c": 1})


def test_requests_are_signed_by_roles_that_may():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1")
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")

        def secret(role):
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            return row.salted_hash

        with pytest.raises(ClientError, match="UnrecognizedClientException"):
            dynamodb(node).meta.client.list_tables()
        with pytest.raises(ClientError, match="UnrecognizedClientException"):
            dynamodb(node, "app", "x").meta.client.list_tables()
        with table(dynamodb(node, "cassandra", secret("cassandra"))) as t:
            of_app = dynamodb(node, "app", secret("app")).Table(t.name)
            with pytest.raises(ClientError, match="AccessDeniedException"):
                of_app.put_item(Item={"p": "a"})
            session.execute(f'GRANT MODIFY ON "alternator_{t.name}"."{t.name}" TO app')
            of_app.put_item(Item={"p": "a"})
            with pytest.raises(ClientError, match="AccessDeniedException"):
                of_app.get_item(Key={"p": "a"})


def test_indexes_and_streams_have_permissions_of_their_own():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1")
    index = {"IndexName": "by_x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        roles = {}
        for role in ("owner", "app"):
            session.execute(f"CREATE ROLE {role} WITH LOGIN = true AND PASSWORD = 'x'")
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            roles[role] = (role, row.salted_hash)
        session.execute("GRANT CREATE ON ALL KEYSPACES TO owner")
        denied = pytest.raises(ClientError, match="AccessDeniedException")
        with table(dynamodb(node, *roles["owner"])) as t:
            update = t.meta.client.update_table
            update(TableName=t.name, AttributeDefinitions=[{"AttributeName": "x", "AttributeType": "S"}],
                   GlobalSecondaryIndexUpdates=[{"Create": index}])
            update(TableName=t.name, StreamSpecification=stream)
            asks = {role: dynamodb(node, *roles[role]).Table(t.name) for role in roles}
            readers = {role: streams(node, *roles[role]) for role in roles}

            def records(role):
                arn = readers[role].list_streams(TableName=t.name)["Streams"][0]["StreamArn"]
                shard = readers[role].describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
                iterator = readers[role].get_shard_iterator(
                    StreamArn=arn, ShardId=shard, ShardIteratorType="LATEST")["ShardIterator"]
                readers[role].get_records(ShardIterator=iterator)

            # Who has created them may read them.
            asks["owner"].scan(IndexName="by_x")
            records("owner")
            space = f'"alternator_{t.name}"'
            session.execute(f'GRANT SELECT ON {space}."{t.name}" TO app')
            asks["app"].scan()
            with denied:
                asks["app"].scan(IndexName="by_x")
            with denied:
                asks["app"].meta.client.execute_statement(Statement=f'SELECT * FROM "{t.name}"."by_x"')
            with denied:
                records("app")
            session.execute(f'GRANT SELECT ON {space}."{t.name}:by_x" TO app')
            asks["app"].scan(IndexName="by_x")
            asks["app"].meta.client.execute_statement(Statement=f'SELECT * FROM "{t.name}"."by_x"')
            session.execute(f'GRANT SELECT ON {space}."{t.name}_scylla_cdc_log" TO app')
            records("app")


def test_who_adds_an_index_may_read_it_until_it_goes():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1")
    index = {"IndexName": "by_x", "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")

        def door(role):
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            return dynamodb(node, role, row.salted_hash)

        denied = pytest.raises(ClientError, match="AccessDeniedException")
        with table(door("cassandra")) as t:
            of_app = door("app").Table(t.name)

            def update(role, change):
                door(role).meta.client.update_table(
                    TableName=t.name, GlobalSecondaryIndexUpdates=[change],
                    AttributeDefinitions=[{"AttributeName": "x", "AttributeType": "S"}])

            with denied:
                update("app", {"Create": index})
            space = f'"alternator_{t.name}"'
            session.execute(f'GRANT ALTER ON {space}."{t.name}" TO app')
            update("app", {"Create": index})
            of_app.scan(IndexName="by_x")
            with denied:
                of_app.scan()
            granted = {(row.resource, row.permission)
                       for row in session.execute("LIST ALL PERMISSIONS OF app")}
            part = f"<table alternator_{t.name}.{t.name}:by_x>"
            assert {it for it in granted if it[0] == part} == {
                (part, permission)
                for permission in ("ALTER", "AUTHORIZE", "DROP", "MODIFY", "SELECT")}
            # What was granted goes with the index, and does not come back with one of that name.
            update("cassandra", {"Delete": {"IndexName": "by_x"}})
            update("cassandra", {"Create": index})
            with denied:
                of_app.scan(IndexName="by_x")


def test_what_would_be_refused_is_counted():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1",
               "--alternator-allow-system-table-write", "1")
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")

        def door(role):
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            return dynamodb(node, role, row.salted_hash)

        def refused():
            return [total(node, f"scylla_alternator_{what}_failures")
                    for what in ("authorization", "authentication")]

        with table(door("cassandra")) as t:
            def set_option(name, value):
                session.execute(f"UPDATE system.config SET value = '{value}' WHERE name = 'alternator_{name}'")

            of_app = door("app").Table(t.name)
            with pytest.raises(ClientError, match="AccessDeniedException"):
                of_app.get_item(Key={"p": "a"})
            assert refused() == [1, 0]
            set_option("warn_authorization", "true")
            set_option("enforce_authorization", "false")
            of_app.put_item(Item={"p": "a"})
            assert "Item" in of_app.get_item(Key={"p": "a"})
            assert refused() == [3, 0]
            dynamodb(node).Table(t.name).get_item(Key={"p": "a"})
            assert refused() == [3, 1]
            set_option("warn_authorization", "false")
            of_app.put_item(Item={"p": "a"})
            assert refused() == [3, 1]


def test_options_are_changed_by_superusers_alone():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1",
               "--alternator-allow-system-table-write", "1")
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")
        session.execute("GRANT MODIFY ON ALL KEYSPACES TO app")

        def change(role):
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            config = dynamodb(node, role, row.salted_hash).Table(".scylla.alternator.system.config")
            config.update_item(Key={"name": "alternator_timeout_in_ms"}, UpdateExpression="SET #v = :v",
                               ExpressionAttributeNames={"#v": "value"},
                               ExpressionAttributeValues={":v": "9000"})

        with pytest.raises(ClientError, match="AccessDeniedException.*superusers"):
            change("app")
        change("cassandra")


def test_the_port_is_no_way_around_passwords():
    with Node("--authenticator", "PasswordAuthenticator") as node:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((node.address, 8000), timeout=5)


def test_it_is_served_encrypted(tmp_path):
    address, authority = free_address(), Authority(tmp_path)
    certificate, key = authority.make("node", address)
    options = ("--alternator-https-port", "8043",
               "--alternator-encryption-options", f"certificate={certificate}",
               "--alternator-encryption-options", f"keyfile={key}")
    with Node(*options, address=address) as node:
        client = boto3.client(
            "dynamodb", endpoint_url=f"https://{address}:8043", region_name="us-east-1",
            aws_access_key_id="any", aws_secret_access_key="any", verify=str(authority.file))
        assert client.list_tables()["TableNames"] == []
        # Who asks for the encrypted port alone gets no other.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((node.address, 8000), timeout=5)


def test_a_port_that_nobody_asked_for_is_done_without():
    with Node() as first:
        other = Node("--native-transport-port", "9043", "--native-shard-aware-transport-port", "19043",
                     "--storage-port", "7005", "--api-port", "10001", "--prometheus-port", "9181",
                     address=first.address)
        with other:
            log = other.log.read_text()
            assert "the DynamoDB API is not served" in log and "alternator_port" in log
        asked = Node("--native-transport-port", "9043", "--native-shard-aware-transport-port", "19043",
                     "--storage-port", "7005", "--api-port", "10001", "--prometheus-port", "9181",
                     "--alternator-port", "8000", address=first.address)
        with pytest.raises(RuntimeError, match="8000"):
            asked.start()
