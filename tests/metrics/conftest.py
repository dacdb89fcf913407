"""A client that asks nothing of itself, as these tests count requests."""
import pytest


@pytest.fixture(scope="session")
def cql(node):
    # A driver that hears of a change of the schema reads the schema again, up to two seconds later.
    return node.connect(schema_event_refresh_window=-1, topology_event_refresh_window=-1)
