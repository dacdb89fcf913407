"""Tasks as they are: running, stopped, done, and what found damage."""
import os

from conftest import wait_for
from helpers import ask, cells, opened, share_of
from playwright.sync_api import expect


def filled(node, cql, table, rows=150, parts=3):
    name = table("k int, c int, v blob, PRIMARY KEY (k, c)")
    keyspace, bare = name.split(".")
    write = cql.prepare(f"INSERT INTO {name} (k, c, v) VALUES (?, ?, ?)")
    for part in range(parts):
        for number in range(rows):
            cql.execute(write, (number, part, os.urandom(10_000)))
        ask(node, f"/storage_service/keyspace_flush/{keyspace}?cf={bare}", "POST")
    return name, keyspace, bare


def newest(page, keyspace):
    row = page.locator("#tasks-asked tbody tr").first
    expect(row).to_contain_text(keyspace)
    return row


def test_a_task_is_stopped_after_a_question(page, node, cql, table):
    name, keyspace, bare = filled(node, cql, table)
    opened(page, "tasks")
    # So slow that it is seen.
    ask(node, "/storage_service/compaction_throughput?value=1", "POST")
    page.evaluate("""path => {
        window.merged = 'runs';
        fetch(path, { method: 'POST' }).then(async answer => window.merged = await answer.text());
    }""", f"/storage_service/keyspace_compaction/{keyspace}?cf={bare}")
    running = page.locator("#tasks-running tbody tr", has_text=name)
    expect(running.first.locator("th")).to_have_text("Major")
    expect(running.first).to_contain_text("%")
    asked = newest(page, keyspace)
    expect(asked.locator(".pill")).to_have_text("running")
    expect(page.locator("#tasks-status")).to_contain_text("running")
    stopped = []
    page.on("request", lambda request: stopped.append(request.url)
            if "tasks/stop" in request.url else None)
    question = page.locator("#confirm")
    running.first.get_by_role("button").click()
    expect(question).to_contain_text(f"Stop the Major compaction of {name}")
    expect(page.locator("#confirm-no")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    assert stopped == [], "nothing is stopped without a yes"
    expect(running.first).to_be_visible()
    while running.count():
        try:
            running.first.get_by_role("button").click(timeout=2_000)
            page.click("#confirm-yes", timeout=2_000)
        except Exception:  # It has ended meanwhile.
            pass
        page.wait_for_timeout(200)
    if question.is_visible():
        page.click("#confirm-no")
    assert stopped
    wait_for(page, "window.merged !== 'runs'")
    assert "stopped by an operator" in page.evaluate("window.merged")
    expect(asked.locator(".pill")).to_have_text("stopped by an operator")
    expect(asked).not_to_contain_text("%")
    expect(asked).not_to_contain_text("overloaded")
    ask(node, "/storage_service/compaction_throughput?value=0", "POST")
    assert ask(node, "/console/api/tasks/stop?id=nothing", "POST")[0] == 400
    nobody = "00000000-0000-0000-0000-000000000000"
    assert ask(node, f"/console/api/tasks/stop?id={nobody}", "POST")[0] == 404


def test_a_task_that_is_done_is_green(page, node, cql, table):
    _, keyspace, bare = filled(node, cql, table, rows=5, parts=1)
    opened(page, "tasks")
    path = f"/storage_service/keyspace_compaction/{keyspace}?cf={bare}"
    assert ask(node, path, "POST")[0] == 200
    row = newest(page, keyspace)
    expect(row.locator(".pill")).to_have_text("done")
    expect(row).to_contain_text("100 %")
    page.emulate_media(reduced_motion="reduce")
    assert share_of(row.locator("svg.share"), "green") > 0.94
    wait_for(page, "document.querySelectorAll('#tasks-ended tbody th').length > 0")


def test_a_scrub_that_found_damage_says_so(page, node, cql, table):
    name, keyspace, bare = filled(node, cql, table, rows=20, parts=1)
    for file in node.workdir.glob(f"data/**/{bare}-*/*-Data.db"):
        with open(file, "r+b") as data:
            data.seek(file.stat().st_size // 2)
            data.write(b"\xff" * 64)
    path = f"/storage_service/keyspace_scrub/{keyspace}?cf={bare}&scrub_mode=VALIDATE"
    assert ask(node, path)[2] == "3", "the API says that there are invalid SSTables"
    opened(page, "tasks")
    row = newest(page, keyspace)
    expect(row.locator(".pill")).to_have_text("found damage")
    expect(row).to_contain_text("damaged SSTables")
    assert name and share_of(row.locator("svg.share"), "red") > 0.9
    assert cells(page, "#tasks-asked")[0][3].strip() == "100 %"
