"""Fixtures: one node for a test run, and a keyspace of its own for each test that asks for one."""
import itertools

import pytest

from . import Node

_numbers = itertools.count(1)


def pytest_addoption(parser):
    group = parser.getgroup("nereid")
    group.addoption("--nereid", metavar="PATH",
                    help="the nereid program (default: $NEREID, else nereid of the PATH)")
    parser.addini("nereid_options", type="args", default=[],
                  help="options of the command line for the node, such as --smp=2")


@pytest.fixture(scope="session")
def nereid_node(request):
    """A node that all tests of this run share."""
    with Node(*request.config.getini("nereid_options"),
              binary=request.config.getoption("--nereid")) as node:
        yield node


@pytest.fixture(scope="session")
def nereid_session(nereid_node):
    """A driver's session with that node, in no keyspace."""
    return nereid_node.connect()


@pytest.fixture
def nereid_keyspace(nereid_session):
    """The name of a new keyspace, dropped after the test. Sessions are not switched to it."""
    name = f"test_{next(_numbers)}"
    nereid_session.execute(
        f"CREATE KEYSPACE {name} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    yield name
    nereid_session.execute(f"DROP KEYSPACE {name}")


@pytest.fixture
def nereid(nereid_session, nereid_keyspace):
    """A session whose current keyspace is new and is dropped after the test."""
    nereid_session.set_keyspace(nereid_keyspace)
    return nereid_session
