"""Fixtures of every black-box suite."""
import itertools
import os
import sys

import pytest

from node import STUCK, Node

_names = itertools.count(1)


@pytest.fixture(scope="session")
def node():
    """A node that the tests of a suite share."""
    with Node() as node:
        yield node


@pytest.fixture(scope="session")
def cql(node):
    return node.connect()


@pytest.fixture(scope="session")
def keyspace(cql):
    name = "tests"
    cql.execute(f"CREATE KEYSPACE {name} WITH replication = "
                "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    yield name


@pytest.fixture
def table(cql, keyspace):
    """Makes tables that go with the test: `table("a int PRIMARY KEY")` is the table's name."""
    made = []

    def make(columns, options=""):
        name = f"{keyspace}.t{next(_names)}"
        cql.execute(f"CREATE TABLE {name} ({columns}) {options}")
        made.append(name)
        return name

    yield make
    for name in made:
        cql.execute(f"DROP TABLE {name}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    session.config.exit_status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """All is said and written. Python would wait for threads of the driver that never end."""
    if STUCK:
        print(f"{len(STUCK)} clusters of the driver did not end")
        sys.stdout.flush()
        os._exit(getattr(config, "exit_status", 1))
