"""The prompt of a node that asks who its clients are."""
import json
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from conftest import wait_for
from helpers import HEADER, result, wrote
from node import Node


@pytest.fixture(scope="module")
def node():
    with Node("--authenticator", "PasswordAuthenticator",
              "--authorizer", "CassandraAuthorizer") as node:
        yield node


def run(page, statement):
    wrote(page, statement)
    page.keyboard.press("Control+Enter")


def log_in(page, name, password):
    expect(page.locator("#login")).to_be_visible()
    page.fill("#login-name", name)
    page.fill("#login-password", password)
    page.click("#login-submit")


def test_statements_need_a_login(page):
    page.click("nav a[href='#cql']")
    run(page, "SELECT key FROM system.local")
    log_in(page, "cassandra", "wrong")
    expect(page.locator("#login-error")).to_contain_text("incorrect")
    assert page.input_value("#login-password") == ""
    log_in(page, "cassandra", "cassandra")
    expect(page.locator("#login")).to_be_hidden()
    expect(result(page, ".status")).to_contain_text("1 row")
    expect(page.locator("#cql-user")).to_have_text("as cassandra")
    page.click("#cql-logout")
    expect(page.locator("#cql-status")).to_have_text("Logged out.")
    run(page, "SELECT key FROM system.local")
    expect(page.locator("#login")).to_be_visible()
    page.keyboard.press("Escape")
    expect(result(page, ".error")).to_have_text("Not logged in.")


def test_permissions_are_those_of_the_role(page):
    page.click("nav a[href='#cql']")
    run(page, "CREATE ROLE ann WITH PASSWORD = 'secret' AND LOGIN = true")
    log_in(page, "cassandra", "cassandra")
    expect(result(page, ".status")).to_contain_text("Done.")
    page.click("#cql-logout")
    run(page, "CREATE KEYSPACE k WITH replication = "
              "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    log_in(page, "ann", "secret")
    expect(result(page, ".error")).to_contain_text("ann")
    run(page, "SELECT salted_hash FROM system.roles")
    expect(result(page, ".error")).to_contain_text("ann")
    run(page, "SELECT key FROM system.local")
    expect(result(page, ".status")).to_contain_text("1 row")


def test_what_shows_data_needs_a_login(page):
    # Figures do not.
    wait_for(page, "document.querySelectorAll('#shards tbody tr').length === 2")
    for view, status in [("statements", "slow-status"), ("logs", "logs-count")]:
        page.click(f"nav a[href='#{view}']")
        expect(page.locator("#login")).to_be_visible()
        page.click("#login-cancel")
        expect(page.locator(f"#{status}")).to_have_text("Not logged in.")
    page.click("nav a[href='#tables']")
    page.fill("#hot-seconds", "1")
    page.click("#hot-start")
    log_in(page, "cassandra", "cassandra")
    expect(page.locator("#hot-status")).to_contain_text("Sampled for 1 s")


@pytest.mark.parametrize("method, path", [
    ("POST", "cql"), ("GET", "slow"), ("POST", "hot?seconds=1"), ("POST", "login"),
    ("GET", "statements"), ("POST", "statements?enable=true"), ("POST", "slow?enable=true"),
    ("GET", "trace?id=00000000-0000-1000-8000-000000000000"), ("GET", "logs"), ("GET", "schema")])
def test_nothing_is_answered_without_a_session(node, method, path):
    body = json.dumps({"statement": "SELECT key FROM system.local"}).encode()
    data = body if method == "POST" else None
    request = urllib.request.Request(f"http://{node.address}:10000/console/api/{path}", data,
                                     {**HEADER, "X-Nereid-Session": "0" * 64}, method=method)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 401
