"""A node that is gone: the page says so, and goes on when it is there again."""
import os
import re
import signal

import pytest
from conftest import wait_for
from helpers import share_of
from node import Node
from playwright.sync_api import expect


@pytest.fixture
def node():
    with Node() as node:
        yield node


def test_figures_of_a_node_that_is_gone_are_marked(page, node):
    expect(page.locator("#shards tbody tr")).to_have_count(2)
    expect(page.locator("#stale")).to_be_hidden()
    node.kill()
    expect(page.locator("#stale")).to_be_visible()
    expect(page.locator("#stale")).to_contain_text("does not answer")
    expect(page.locator("#stale")).to_contain_text("What is shown is of")
    expect(page.locator("#stale")).to_contain_text(" ago.")
    expect(page.locator("#health")).to_have_text("no answer")
    assert float(page.evaluate("getComputedStyle(document.querySelector('main')).opacity")) < 0.6
    # Nothing has the colour of something that is well.
    assert share_of(page.locator("#shards svg.share").first, "green") == 0
    wait_for(page, "/ago/.test(document.querySelector('#stale').textContent)")
    first = page.locator("#stale").text_content()
    wait_for(page, "first => document.querySelector('#stale').textContent !== first", first)
    node.start()
    expect(page.locator("#stale")).to_be_hidden()
    expect(page.locator("#health")).to_have_text("serving")
    wait_for(page, "getComputedStyle(document.querySelector('main')).opacity === '1'")
    # Figures of the new process.
    expect(page.locator("#node")).to_contain_text(re.compile(r"up \d+ s"))
    wait_for(page, "parseFloat(document.querySelector('#cards dd').textContent) >= 0")


def test_a_node_that_hangs_is_told_too(page, node):
    expect(page.locator("#shards tbody tr")).to_have_count(2)
    os.kill(node.process.pid, signal.SIGSTOP)
    try:
        expect(page.locator("#stale")).to_be_visible(timeout=20_000)
    finally:
        os.kill(node.process.pid, signal.SIGCONT)
    expect(page.locator("#stale")).to_be_hidden()


def test_a_full_disk_is_told(page, node):
    """Where nothing of the disk may be used, it is as good as full."""
    expect(page.locator("#health")).to_have_text("serving")
    expect(page.locator("#notice")).to_be_hidden()
    level = "UPDATE system.config SET value = '%s' WHERE name = 'critical_disk_utilization_level'"
    session = node.connect()
    session.execute(level % "0")
    expect(page.locator("#notice")).to_be_visible(timeout=30_000)
    expect(page.locator("#notice")).to_contain_text("The disk is full, writes of clients are refused")
    expect(page.locator("#health")).to_have_text("refuses writes")
    session.execute(level % "0.98")
    expect(page.locator("#notice")).to_be_hidden(timeout=30_000)
    expect(page.locator("#health")).to_have_text("serving")
