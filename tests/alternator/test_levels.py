"""Service levels of the roles whose keys sign requests."""
import sys
from pathlib import Path

from botocore.exceptions import ClientError
from cassandra.auth import PlainTextAuthProvider
from door import dynamodb, table
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "metrics"))
from scraped import total  # noqa: E402  pylint: disable=wrong-import-position

OPTIONS = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
           "--alternator-port", "8000", "--alternator-enforce-authorization", "1")


def test_requests_run_in_the_group_of_the_level_of_their_role():
    with Node(*OPTIONS) as node:
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        clients = {}
        for role in ("app", "reports"):
            session.execute(f"CREATE ROLE {role} WITH LOGIN = true AND SUPERUSER = true AND PASSWORD = 'x'")
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            clients[role] = dynamodb(node, role, row.salted_hash)
        session.execute("CREATE SERVICE LEVEL slow WITH shares = 100")

        def writes():
            """How many were counted in each group."""
            name = "scylla_storage_proxy_coordinator_write_latency_count"
            groups = ("sl:default", "sl:slow", "sl:other")
            return [total(node, name, scheduling_group_name=group) for group in groups]

        with table(clients["app"]) as t:
            tables = {role: clients[role].Table(t.name) for role in clients}

            def grown(*roles):
                before = writes()
                for role in roles:
                    tables[role].put_item(Item={"p": role})
                return [after - was for was, after in zip(before, writes())]

            assert grown("app", "reports", "reports") == [3, 0, 0]
            # Connections that are open follow.
            session.execute("ATTACH SERVICE LEVEL slow TO reports")
            assert grown("app", "reports", "reports", "app") == [2, 2, 0]
            rows = session.execute("SELECT * FROM system.clients").all()
            rows = [row for row in rows if row.client_type == "alternator"]
            assert {(row.username, row.scheduling_group) for row in rows} == {
                ("app", "sl:default"), ("reports", "sl:slow")}
            assert all("Boto3" in row.driver_name and not row.ssl_enabled and row.port and
                       row.connection_stage == "READY" and row.shard_id is not None for row in rows)
            session.execute("CREATE SERVICE LEVEL other")
            session.execute("ATTACH SERVICE LEVEL other TO app")
            assert grown("app", "reports", "app") == [0, 1, 2]
            session.execute("DETACH SERVICE LEVEL FROM reports")
            session.execute("DROP SERVICE LEVEL other")
            # Nothing is counted of a level that is gone.
            assert grown("app", "reports")[0] == 2
            assert writes()[2] == 0


def test_a_request_takes_no_longer_than_the_level_of_its_role_allows():
    with Node(*OPTIONS) as node:
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND SUPERUSER = true AND PASSWORD = 'x'")
        (row,) = session.execute("SELECT salted_hash FROM system.roles WHERE role = 'app'")
        with table(dynamodb(node, "app", row.salted_hash)) as t:
            value = "x" * 10_000
            for n in range(100):
                t.put_item(Item={"p": f"{n}", "value": value})
            assert t.scan()["Count"] == 100
            session.execute("CREATE SERVICE LEVEL short WITH timeout = 1ms")
            session.execute("ATTACH SERVICE LEVEL short TO app")
            # What it is about is for the table to take: none of these is an item.
            t.load()

            def is_refused():
                try:
                    t.scan(FilterExpression=" OR ".join(f"contains(#v, :v{n})" for n in range(50)),
                           ExpressionAttributeNames={"#v": "value"},
                           ExpressionAttributeValues={f":v{n}": "y" * 100 + str(n) for n in range(50)})
                    return False
                except ClientError as failed:
                    assert failed.response["Error"]["Code"] == "InternalServerError"
                    assert "the timeout of the service level is over" in str(failed)
                    return True

            # Some are done in one turn, however long it takes.
            assert any(is_refused() for _ in range(1000))
            session.execute("ALTER SERVICE LEVEL short WITH timeout = 10s")
            assert t.scan()["Count"] == 100
