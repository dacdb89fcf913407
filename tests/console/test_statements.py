"""Statements by fingerprint, slow queries, traces."""
import json
import re

import pytest
from conftest import wait_for
from helpers import ask, cells, opened, run
from node import Node
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def node():
    """A node of their own: what others ask theirs would be in all lists."""
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def cql(node):
    return node.connect()


@pytest.fixture(scope="module")
def keyspace(cql):
    cql.execute("CREATE KEYSPACE tests WITH replication = "
                "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    return "tests"


def rows_of(page):
    return {row[0]: row for row in cells(page, "#statements-list")}


def test_statements_are_grouped_by_fingerprint(page, cql, table):
    name = table("k int PRIMARY KEY, v text")
    opened(page, "statements")
    expect(page.locator("#record-status")).to_contain_text("Nothing is recorded now")
    page.click("#record")
    expect(page.locator("#record")).to_have_text("Stop recording")
    for number in range(20):
        cql.execute(f"INSERT INTO {name} (k, v) VALUES ({number}, 'secret {number}')")
    read = cql.prepare(f"SELECT * FROM {name} WHERE k = ?")
    for number in range(10):
        cql.execute(read, (number,))
    cql.execute(f"SELECT * FROM {name} WHERE k IN (1, 2, 3)")
    write = f"INSERT INTO {name} (k, v) VALUES (?, ?)"
    expect(page.locator("#statements-list tbody tr", has_text=write)).to_be_visible()
    wait_for(page, """text => [...document.querySelectorAll('#statements-list tbody td')].some(
        cell => cell.textContent === text)""", f"SELECT * FROM {name} WHERE k IN (?, ...)")
    found = rows_of(page)
    assert found[write][1] == "20" and found[write][6] == "0", found[write]
    one = found[f"SELECT * FROM {name} WHERE k = ?"]
    assert one[1] == "10" and one[6] == "10" and re.search(r"[\d.]+ (µs|ms)", one[4]), one
    assert found[f"SELECT * FROM {name} WHERE k IN (?, ...)"][6] == "3"
    assert "secret" not in page.locator("#statements-list").text_content()
    # What the page asks for itself is no statement of anybody's.
    assert not any("system_traces" in form for form in found), found.keys()
    page.click("#statements-list button[data-key='count']")
    counts = [row[1] for row in cells(page, "#statements-list")]
    assert counts[0] == "20", counts
    page.click("#record")
    expect(page.locator("#record-status")).to_contain_text("recording is off")


def test_slow_queries_lead_to_their_traces(page, node, cql, table):
    opened(page, "statements")
    expect(page.locator("#slow-status")).to_contain_text("The slow query log is off")
    name = table("k int PRIMARY KEY, v text")
    page.check("#slow-enabled")
    page.fill("#slow-threshold", "0")
    page.click("#slow-set")
    expect(page.locator("#slow-status")).to_contain_text("slower than 0 µs")
    try:
        cql.execute(f"INSERT INTO {name} (k, v) VALUES (1, '<b>slow</b>')")
        row = page.locator("#slow-list tbody tr", has_text=f"INSERT INTO {name}")
        expect(row.locator("td").nth(1)).to_have_text(
            f"INSERT INTO {name} (k, v) VALUES (1, '<b>slow</b>')")
        # The page goes on to ask for the list, and each of these queries is slower than nothing.
        for _ in range(3):
            page.wait_for_timeout(3_200)
        shown = [row[2] for row in cells(page, "#slow-list")]
        assert not any("node_slow_log" in text or "system_traces" in text for text in shown), shown
    finally:
        ask(node, "/storage_service/slow_query?enable=false&threshold=500000", "POST")
    assert re.search(r"^[\d.]+ (µs|ms|s)$", row.locator("td").first.text_content())
    row.get_by_role("link", name="Trace").click()
    expect(page.locator("#trace-text")).to_have_text(
        f"INSERT INTO {name} (k, v) VALUES (1, '<b>slow</b>')")
    expect(page.locator("#trace-status")).to_have_text("Execute CQL3 query")
    wait_for(page, "document.querySelectorAll('#trace-events tbody th').length > 0")
    page.click("#trace-back")
    expect(page.locator("#statements")).to_be_visible()


def test_a_statement_of_the_editor_is_traced(page, table):
    name = table("k int PRIMARY KEY")
    opened(page, "cql")
    page.check("#cql-trace")
    run(page, f"SELECT * FROM {name} WHERE k = 7")
    page.locator(".result a", has_text="Trace").click()
    expect(page.locator("#trace-text")).to_have_text(f"SELECT * FROM {name} WHERE k = 7")
    wait_for(page, "document.querySelectorAll('#trace-events tbody th').length > 0")
    assert ask_no_trace(page) == 400


def ask_no_trace(page):
    return page.evaluate("""async () => {
        const headers = { 'X-Nereid-Console': '1' };
        const login = await fetch('/console/api/login', { method: 'POST', headers });
        const { session } = await login.json();
        const answer = await fetch('/console/api/trace?id=nothing',
            { headers: { ...headers, 'X-Nereid-Session': session } });
        return answer.status;
    }""")


def test_recording_is_told_by_the_api(node):
    for wanted in ["true", "false"]:
        assert ask(node, f"/console/api/statements?enable={wanted}", "POST")[0] == 200
        told = json.loads(ask(node, "/console/api/statements")[2])
        assert json.dumps(told["recording"]) == wanted
    assert ask(node, "/console/api/statements?enable=maybe", "POST")[0] == 400
