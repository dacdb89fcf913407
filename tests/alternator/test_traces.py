"""Requests of the DynamoDB API are traced by the rules of the node, into the tables that CQL has."""
import sys
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from door import dynamodb, table, until
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from trio import rest  # noqa: E402  pylint: disable=wrong-import-position

RULES = "/storage_service/"


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture
def session(node):
    with node.connect() as session:
        yield session


def rule(node, name, **parameters):
    query = "&".join(f"{key}={value}" for key, value in parameters.items())
    rest(node, f"{RULES}{name}?{query}", "POST")


@pytest.fixture
def traced(node):
    rule(node, "trace_probability", probability=1)
    assert rest(node, RULES + "trace_probability") == 1
    yield
    rule(node, "trace_probability", probability=0)


def found(session, text, name="sessions"):
    """The row of the request whose JSON has the text, when it is there."""
    rows = []

    def is_there():
        all_of_it = session.execute(f"SELECT * FROM system_traces.{name}")
        rows.extend(row for row in all_of_it if text in (row.parameters or {}).get("query", ""))
        return rows

    until(is_there)
    return rows[0]


def events(session, row):
    asked = session.execute("SELECT activity FROM system_traces.events WHERE session_id = %s", [row.session_id])
    return [event.activity for event in asked]


def test_a_request_is_traced(node, session, traced):
    with table(dynamodb(node)) as t, table(dynamodb(node)) as other:
        t.put_item(Item={"p": "a key of a put"})
        row = found(session, "a key of a put")
        assert (row.command, row.request, row.client) == ("ALTERNATOR", "Alternator PutItem", "127.0.0.1")
        assert row.username == "anonymous" and 0 <= row.duration and 0 < row.request_size
        parameters = dict(row.parameters)
        assert (parameters["alternator_op"], parameters["table"]) == ("PutItem", t.name)
        assert f'"{t.name}"' in parameters["query"]
        own = f"Using the table alternator_{t.name}.{t.name}"
        assert events(session, row)[:3] == ["PutItem", own, "Mutation successfully completed"]

        t.put_item(Item={"p": "a key of a round"}, ConditionExpression="attribute_not_exists(p)")
        assert "CAS successful" in events(session, found(session, "a key of a round"))
        t.get_item(Key={"p": "a key of a get"})
        read = events(session, found(session, "a key of a get"))
        assert read[:4] == ["GetItem", own, "Performing a database query", "Querying is done"]
        assert read[-1].startswith("Answered with ")
        list(t.scan(FilterExpression="p = :p", ExpressionAttributeValues={":p": "a key of a scan"}))
        assert "Querying is done" in events(session, found(session, "a key of a scan"))
        with pytest.raises(ClientError):
            t.put_item(Item={"p": "a key of a round"}, ConditionExpression="attribute_exists(nothing)")
        refused = found(session, "attribute_exists(nothing)")
        assert events(session, refused)[-1].startswith("Refused: ConditionalCheckFailedException")

        # The API shows it, too.
        sessions = dynamodb(node).Table(".scylla.alternator.system_traces.sessions")
        shown = sessions.scan(FilterExpression="contains(#p, :t)", ExpressionAttributeNames={"#p": "parameters"},
                              ExpressionAttributeValues={":t": f"{{table : {t.name}}}"})["Items"]
        assert {"Alternator PutItem", "Alternator GetItem"} <= {item["request"] for item in shown}

        keys = {it.name: {"Keys": [{"p": "a key of a batch"}]} for it in (t, other)}
        t.meta.client.batch_get_item(RequestItems=keys)
        row = found(session, "a key of a batch")
        assert [row.parameters[f"table[{at}]"] for at in (0, 1)] == sorted([t.name, other.name])


def test_long_requests_are_cut(node, session, traced):
    with table(dynamodb(node)) as t:
        def put(key):
            t.put_item(Item={"p": key, "v": "x" * 5000})
            return found(session, key).parameters["query"]

        kept = put("cut by default")
        assert len(kept) == 4096 + len("<truncated>") and kept.endswith("<truncated>")
        option = "UPDATE system.config SET value = '{}' WHERE name = 'alternator_max_users_query_size_in_trace_output'"
        session.execute(option.format(100_000))
        assert put("kept as a whole").endswith("}")
        session.execute(option.format(4096))


def test_slow_requests_are_kept(node, session):
    with table(dynamodb(node)) as t:
        t.put_item(Item={"p": "not slow"})
        rule(node, "slow_query", enable="true", threshold=0, ttl=60, fast="true")
        t.put_item(Item={"p": "a slow put"})
        rule(node, "slow_query", enable="false", threshold=500_000, ttl=86_400, fast="false")
        row = found(session, "a slow put", "node_slow_log")
        assert row.parameters["alternator_op"] == "PutItem" and "a slow put" in row.command
        assert row.table_names == {f"alternator_{t.name}.{t.name}"} and row.username == "anonymous"
        assert events(session, row) == []
        kept = [row.parameters.get("query", "") for row in session.execute("SELECT * FROM system_traces.node_slow_log")]
        assert not any("not slow" in query for query in kept)


def test_nothing_is_traced_without_a_rule(node, session):
    with table(dynamodb(node)) as t:
        t.put_item(Item={"p": "nobody asks"})
        rule(node, "trace_probability", probability=1)
        t.put_item(Item={"p": "somebody asks"})
        rule(node, "trace_probability", probability=0)
        found(session, "somebody asks")
        kept = [row.parameters.get("query", "") for row in session.execute("SELECT * FROM system_traces.sessions")]
        assert not any("nobody asks" in query for query in kept)
