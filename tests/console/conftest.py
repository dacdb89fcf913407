"""A page of a real browser, which tells of every error that it meets."""
import shutil
import threading
import time

import pytest
from playwright.sync_api import sync_playwright

# Of the machine: nothing is downloaded.
CHROMIUM = shutil.which("chromium")


def wait_for(page, condition, argument=None, seconds=15):
    """Waits until an expression, or a function of `argument`, is true on the page. Asked from here:
    the page's policy lets nobody evaluate texts within it."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition, argument):
        if deadline < time.monotonic():
            raise TimeoutError(f"not true within {seconds} s: {condition}")
        page.wait_for_timeout(50)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(node, browser):
    """The console of the node. Errors of scripts and of the policy of contents fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(15_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text)
            if "Content Security Policy" in message.text else None)
    page.goto(f"http://{node.address}:10000/console")
    wait_for(page, "document.querySelector('#health').textContent === 'serving'")
    yield page
    context.close()
    assert errors == []


@pytest.fixture(scope="session")
def load(cql, keyspace):
    """Reads and writes that go on until the suite ends, one partition more than all others."""
    cql.execute(f"CREATE TABLE {keyspace}.busy (k int PRIMARY KEY, v text)")
    write = cql.prepare(f"INSERT INTO {keyspace}.busy (k, v) VALUES (?, ?)")
    read = cql.prepare(f"SELECT v FROM {keyspace}.busy WHERE k = ?")
    ended = threading.Event()

    def work():
        number = 0
        while not ended.is_set():
            number += 1
            key = 7 if number % 2 else number % 1000
            cql.execute(write, (key, "x" * 100))
            cql.execute(read, (key,))

    worker = threading.Thread(target=work)
    worker.start()
    yield f"{keyspace}.busy"
    ended.set()
    worker.join()
