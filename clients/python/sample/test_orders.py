"""Tests of a program that uses the database, with the fixtures of pytest-nereid."""
import datetime
import os
from decimal import Decimal

import pytest
from orders import Orders
from pytest_nereid import Node, StartFailed

MONDAY, TUESDAY = datetime.date(2026, 11, 23), datetime.date(2026, 11, 24)


@pytest.fixture
def orders(nereid):
    return Orders(nereid)


def test_orders_come_newest_first(orders):
    assert orders.add(7, MONDAY, "19.90") and orders.add(7, TUESDAY, "5")
    assert orders.totals(7) == [Decimal("5"), Decimal("19.90")]


def test_a_customer_has_one_order_a_day(orders):
    assert orders.add(7, MONDAY, "19.90")
    assert not orders.add(7, MONDAY, "1")
    assert orders.totals(7) == [Decimal("19.90")]


def test_each_test_begins_with_an_empty_keyspace(orders):
    assert orders.totals(7) == []


def test_a_node_of_ones_own_leaves_nothing_behind():
    with Node("--smp=2") as node:
        session = node.connect()
        assert session.execute("SELECT key FROM system.local").one().key == "local"
        assert node.is_running()
    assert not node.is_running()
    with pytest.raises(ProcessLookupError):
        os.kill(node.pid, 0)


def test_a_node_that_does_not_start_says_why():
    with pytest.raises(StartFailed, match="no-such-option"):
        Node("--no-such-option=1")
