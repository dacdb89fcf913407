"""Clients of the DynamoDB API of a node."""
import contextlib
import itertools
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

_numbers = itertools.count(1)


def _facts(node, key="any", secret="any"):
    return {
        "endpoint_url": f"http://{node.address}:8000", "region_name": "us-east-1",
        "aws_access_key_id": key, "aws_secret_access_key": secret,
        "config": Config(retries={"max_attempts": 0}, read_timeout=60)}


def dynamodb(node, key="any", secret="any"):
    """A resource of boto3 that asks this node, once."""
    return boto3.resource("dynamodb", **_facts(node, key, secret))


def streams(node, key="any", secret="any"):
    """A client of boto3 for streams of this node."""
    return boto3.client("dynamodbstreams", **_facts(node, key, secret))


def unchecked(node):
    """A client of boto3 that sends what it is told, also what the service would refuse."""
    facts = _facts(node)
    facts["config"] = facts["config"].merge(Config(parameter_validation=False))
    return boto3.client("dynamodb", **facts)


@contextlib.contextmanager
def table(resource, hash_type="S", range_type=None, others=None, **facts):
    """A table of its own; the keys are `p` and, if it has a type, `c`. `others`: types of attributes
    of its indexes."""
    keys = [("p", "HASH", hash_type)] + ([("c", "RANGE", range_type)] if range_type else [])
    made = resource.create_table(
        TableName=f"t.{next(_numbers)}-x", BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": ty}
                              for name, ty in [*((n, t) for n, _, t in keys), *(others or {}).items()]],
        **facts)
    try:
        yield made
    finally:
        made.delete()


def error(kind, act, **facts):
    """What is said of a request that is refused with an error of that kind."""
    with pytest.raises(ClientError) as raised:
        act(**facts)
    found = raised.value.response["Error"]
    assert found["Code"] == kind, found
    return found["Message"]


def until(condition, seconds=60):
    """Waits until a condition holds; fails when it does not come in so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)
