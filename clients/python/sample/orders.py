"""A program that keeps orders in a table; what a test of it looks like is in test_orders.py."""
from decimal import Decimal


class Orders:
    """Orders of customers, newest first."""

    def __init__(self, session):
        self.session = session
        session.execute("CREATE TABLE IF NOT EXISTS orders (customer int, day date, total decimal, "
                        "PRIMARY KEY (customer, day)) WITH CLUSTERING ORDER BY (day DESC)")
        self._add = session.prepare(
            "INSERT INTO orders (customer, day, total) VALUES (?, ?, ?) IF NOT EXISTS")
        self._totals = session.prepare("SELECT total FROM orders WHERE customer = ?")

    def add(self, customer, day, total):
        """Whether the order is new: a customer has one a day."""
        return self.session.execute(self._add, (customer, day, Decimal(total))).was_applied

    def totals(self, customer):
        return [row.total for row in self.session.execute(self._totals, (customer,))]
