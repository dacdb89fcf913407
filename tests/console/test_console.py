"""What the console shows and does, as an operator sees it."""
import json
import os
import re
import urllib.error
import urllib.request

import pytest
from conftest import wait_for
from playwright.sync_api import expect

HEADER = {"X-Nereid-Console": "1"}


def opened(page, view):
    page.click(f"nav a[href='#{view}']")
    expect(page.locator(f"#{view}")).to_be_visible()


def run(page, statement):
    opened(page, "cql")
    page.fill("#cql-text", statement)
    page.press("#cql-text", "Control+Enter")
    expect(page.locator("#cql-run")).to_be_enabled()
    expect(page.locator("#cql-status")).not_to_have_text("Running …")


def cells(page, table):
    return page.locator(f"{table} tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))")


def ask(node, path, method="GET", headers=HEADER, body=None):
    """(status, headers, body) of a request without a browser."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{node.address}:10000{path}", data, headers,
                                     method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_cluster_and_shards_are_shown(page, node):
    expect(page.locator("#cluster")).to_have_text("Test Cluster")
    expect(page.locator("#node")).to_contain_text(f"{node.address} · version ")
    expect(page.locator("#node")).to_contain_text("2 shards")
    expect(page.locator("#nodes tbody tr")).to_contain_text("up, normal")
    expect(page.locator("#shards tbody tr")).to_have_count(2)
    heads = page.locator("#shards thead th").all_text_contents()
    assert {"Busy", "Heap", "Connections", "Waiting", "Stalls"} <= set(heads)
    memory = cells(page, "#shards")[0][2]
    assert re.search(r"^[\d.]+ [KMG]iB of [\d.]+ [MG]iB$", memory), memory


def test_plots_move_under_load(page, load):
    wait_for(page, "document.querySelectorAll('#plots path.line[d]').length >= 6")
    # Each plot has its latest values in words.
    label = "#plots figure:nth-child(1) svg"
    wait_for(page, """selector => {
        const found = /reads ([\\d.]+)( k)?, writes ([\\d.]+)/.exec(
            document.querySelector(selector).getAttribute('aria-label'));
        return found && found[1] > 0 && found[3] > 0;
    }""", label)
    line = "document.querySelector('#plots figure:nth-child(1) path.line').getAttribute('d')"
    before = page.evaluate(line)
    wait_for(page, f"before => {line} !== before && {line}.split('L').length > 2", before)
    wait_for(page, """() => /p99 [\\d.]+ (µs|ms)/.test(
        document.querySelector('#plots figure:nth-child(3) svg').getAttribute('aria-label'))""")
    wait_for(page, "parseFloat(document.querySelector('#cards dd').textContent) > 0")


def test_a_page_that_is_opened_again_shows_what_was(page, load):
    points = "document.querySelector('#plots path.line').getAttribute('d').split('L').length"
    wait_for(page, f"{points} > 3")
    before = page.evaluate(points)
    page.reload()
    wait_for(page, f"before => {points} >= before", before)


def test_tables_are_listed_sorted_and_filtered(page, node, cql, table, load):
    name = table("k int PRIMARY KEY, v text", "WITH comment = 'of tests <i>x</i>'")
    for number in range(20):
        cql.execute(f"INSERT INTO {name} (k, v) VALUES ({number}, 'v')")
    ask(node, f"/storage_service/keyspace_flush/{name.split('.')[0]}", "POST")
    opened(page, "tables")
    row = page.locator("#tables-list tbody tr", has_text=name)
    expect(row.locator("th")).to_have_text(f"{name}of tests <i>x</i>")
    wait_for(page, """name => [...document.querySelectorAll('#tables-list tbody tr')].some(row =>
        row.textContent.startsWith(name) && parseInt(row.children[2].textContent) > 0)""", name)
    found = row.locator("td").all_text_contents()
    assert re.search(r"^[\d.]+ (Ki)?B$", found[0]) and 0 < int(found[1]), found
    assert found[7] == "20", found
    # Reads and writes a second, once two looks are there.
    wait_for(page, """name => [...document.querySelectorAll('#tables-list tbody tr')].some(row =>
        row.textContent.startsWith(name) && parseFloat(row.children[5].textContent) > 0)""", load)
    page.click("#tables-list button[data-key='name']")
    names = [row[0] for row in cells(page, "#tables-list")]
    assert names == sorted(names) and 1 < len(names)
    page.click("#tables-list button[data-key='name']")
    names = [row[0] for row in cells(page, "#tables-list")]
    assert names == sorted(names, reverse=True)
    assert not any(name.startswith("system") for name in names)
    page.fill("#tables-filter", "busy")
    expect(page.locator("#tables-list tbody tr")).to_have_count(1)
    page.fill("#tables-filter", "")
    page.check("#tables-system")
    expect(page.locator("#tables-list tbody tr", has_text="system.local")).to_be_visible()


def test_hot_partitions_are_found(page, load):
    opened(page, "tables")
    page.fill("#hot-seconds", "2")
    page.click("#hot-start")
    expect(page.locator("#hot-status")).to_contain_text("Samples for 2 s")
    expect(page.locator("#hot-status")).to_contain_text("Of 2 s")
    for side in ["#hot-reads", "#hot-writes"]:
        first = cells(page, side)[0]
        assert first[:2] == [load, "7"], first
        part = int(first[4].split()[0])
        assert 40 <= part <= 60, first


def test_tasks_are_shown_and_stopped(page, node, cql, table):
    name = table("k int, c int, v blob, PRIMARY KEY (k, c)")
    keyspace, bare = name.split(".")
    write = cql.prepare(f"INSERT INTO {name} (k, c, v) VALUES (?, ?, ?)")
    for part in range(3):
        for number in range(150):
            cql.execute(write, (number, part, os.urandom(10_000)))
        ask(node, f"/storage_service/keyspace_flush/{keyspace}?cf={bare}", "POST")
    opened(page, "tasks")
    # So slow that it is seen.
    ask(node, "/storage_service/compaction_throughput?value=1", "POST")
    page.evaluate("""path => {
        window.merged = 'runs';
        fetch(path, { method: 'POST' }).then(async answer => window.merged = await answer.text());
    }""", f"/storage_service/keyspace_compaction/{keyspace}?cf={bare}")
    row = page.locator("#tasks-running tbody tr", has_text=name).first
    expect(row.locator("th")).to_have_text("Major")
    expect(row).to_contain_text("%")
    asked = page.locator("#tasks-asked tbody tr").first
    expect(asked).to_contain_text(keyspace)
    expect(asked).to_contain_text("running")
    expect(page.locator("#tasks-status")).to_contain_text("running")
    while page.locator("#tasks-running tbody tr", has_text=name).count():
        stop = page.locator("#tasks-running tbody tr", has_text=name).first.get_by_role("button")
        try:
            stop.click(timeout=2_000)
        except Exception:  # It has ended meanwhile.
            pass
        page.wait_for_timeout(200)
    wait_for(page, "window.merged !== 'runs'")
    assert "stopped" in page.evaluate("window.merged")
    expect(asked).to_contain_text("failed")
    ask(node, "/storage_service/compaction_throughput?value=0", "POST")
    assert ask(node, "/console/api/tasks/stop?id=nothing", "POST")[0] == 400
    nobody = "00000000-0000-0000-0000-000000000000"
    assert ask(node, f"/console/api/tasks/stop?id={nobody}", "POST")[0] == 404


def test_slow_queries_are_shown(page, node, cql, table):
    opened(page, "slow")
    expect(page.locator("#slow-status")).to_contain_text("not written down now")
    name = table("k int PRIMARY KEY, v text")
    path = "/storage_service/slow_query?enable=true&threshold=0"
    assert ask(node, path, "POST")[0] == 200
    try:
        cql.execute(f"INSERT INTO {name} (k, v) VALUES (1, '<b>slow</b>')")
    finally:
        ask(node, "/storage_service/slow_query?enable=false&threshold=500000", "POST")
    row = page.locator("#slow-list tbody tr", has_text=f"INSERT INTO {name}")
    expect(row.locator("td").nth(1)).to_have_text(
        f"INSERT INTO {name} (k, v) VALUES (1, '<b>slow</b>')")
    assert re.search(r"^[\d.]+ (µs|ms|s)$", row.locator("td").first.text_content())


def test_a_statement_answers_with_types(page, table):
    run(page, "SELECT key, gossip_generation, tokens FROM system.local")
    assert page.locator("#cql-table thead th").all_text_contents() == [
        "keytext", "gossip_generationint", "tokensset<text>"]
    row = cells(page, "#cql-table")[0]
    assert row[0] == "local" and row[1].isdigit() and row[2].startswith("{'"), row
    expect(page.locator("#cql-status")).to_contain_text("1 row")
    name = table("k int PRIMARY KEY, v text")
    run(page, f"INSERT INTO {name} (k) VALUES (1);")
    expect(page.locator("#cql-status")).to_contain_text("Done.")
    run(page, f"SELECT * FROM {name}")
    assert cells(page, "#cql-table") == [["1", "null"]]


def test_errors_are_shown(page):
    run(page, "SELEC 1")
    expect(page.locator("#cql-error")).to_contain_text("line 1")
    expect(page.locator("#cql-result")).to_be_hidden()
    run(page, "SELECT * FROM nowhere.nothing")
    expect(page.locator("#cql-error")).to_contain_text("nowhere")
    run(page, "SELECT key FROM system.local")
    expect(page.locator("#cql-error")).to_be_hidden()


def test_the_keyspace_in_use_is_remembered(page, table):
    name = table("k int PRIMARY KEY")
    keyspace, bare = name.split(".")
    run(page, f"USE {keyspace}")
    expect(page.locator("#cql-status")).to_contain_text(f"Keyspace: {keyspace}.")
    run(page, f"SELECT * FROM {bare}")
    expect(page.locator("#cql-status")).to_contain_text("0 rows")


def test_results_come_page_by_page(page, cql, table):
    name = table("k int, c int, PRIMARY KEY (k, c)")
    for number in range(25):
        cql.execute(f"INSERT INTO {name} (k, c) VALUES (1, {number})")
    opened(page, "cql")
    page.fill("#cql-rows", "10")
    run(page, f"SELECT c FROM {name}")
    seen = []
    for count in [10, 10, 5]:
        expect(page.locator("#cql-table tbody tr")).to_have_count(count)
        seen += [int(row[0]) for row in cells(page, "#cql-table")]
        if count == 10:
            page.click("#cql-more")
            expect(page.locator("#cql-status")).to_contain_text(f"page {len(seen) // 10 + 1}")
    assert seen == list(range(25))
    expect(page.locator("#cql-more")).to_be_hidden()


def test_the_prompt_obeys_the_keyboard(page):
    opened(page, "cql")
    expect(page.locator("#cql-text")).to_be_focused()
    page.keyboard.type("SELECT key\nFROM system.local;")
    page.keyboard.press("Enter")
    expect(page.locator("#cql-status")).to_contain_text("1 row")
    run(page, "CREATE ROLE somebody WITH PASSWORD = 'hidden'")
    page.fill("#cql-text", "a draft")
    page.keyboard.press("Alt+ArrowUp")
    assert page.input_value("#cql-text") == "SELECT key\nFROM system.local;"
    page.keyboard.press("Alt+ArrowDown")
    assert page.input_value("#cql-text") == "a draft"


def test_what_is_stored_stays_text(page, cql, table):
    attack = "<img src=x onerror=\"window.harmed=1\"><script>window.harmed=1</script>"
    name = table("k text PRIMARY KEY, v text", f"WITH comment = '{attack}'")
    cql.execute(f"INSERT INTO {name} (k, v) VALUES (%s, %s)", (attack, attack))
    run(page, f"SELECT * FROM {name}")
    assert cells(page, "#cql-table") == [[attack, attack]]
    opened(page, "tables")
    row = page.locator("#tables-list tbody tr", has_text=name)
    expect(row.locator(".note-text")).to_have_text(attack)
    run(page, f"SELECT * FROM \"{attack.replace(chr(34), '')}\".t")
    expect(page.locator("#cql-error")).to_contain_text("<img src=x")
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script").count() == 0


def test_long_values_are_cut(page, cql, table):
    name = table("k int PRIMARY KEY, v text, b blob")
    cql.execute(f"INSERT INTO {name} (k, v, b) VALUES (1, %s, %s)", ("é" * 50_000, b"\1" * 50_000))
    run(page, f"SELECT v, b FROM {name}")
    text, blob = cells(page, "#cql-table")[0]
    assert text == "é" * 2048 + "…"
    assert blob.startswith("0x0101") and blob.endswith("…") and len(blob) == 4097


def test_answers_of_any_size_are_bounded(node, cql, table):
    name = table("k int, c int, v text, PRIMARY KEY (k, c)")
    write = cql.prepare(f"INSERT INTO {name} (k, c, v) VALUES (1, ?, ?)")
    for number in range(1000):
        cql.execute(write, (number, "x" * 3000))
    secret = json.loads(ask(node, "/console/api/login", "POST")[2])["session"]
    body = {"statement": f"SELECT * FROM {name}", "page_size": 100_000}
    headers = {**HEADER, "X-Nereid-Session": secret}
    status, _, answer = ask(node, "/console/api/cql", "POST", headers, body)
    assert status == 200 and len(answer) < 1 << 20
    assert len(json.loads(answer)["rows"]) <= 1000


@pytest.mark.parametrize("headers, status", [
    (HEADER, 200),
    ({}, 403),
    ({**HEADER, "Host": "attacker.example:10000"}, 403),
    ({**HEADER, "Sec-Fetch-Site": "cross-site"}, 403),
])
def test_other_sites_are_refused(node, headers, status):
    assert ask(node, "/console/api/state", headers=headers)[0] == status
    assert ask(node, "/console/api/login", "POST", headers)[0] == status


def test_a_statement_needs_a_session(node):
    body = {"statement": "SELECT key FROM system.local"}
    assert ask(node, "/console/api/cql", "POST", body=body)[0] == 401
    wrong = {**HEADER, "X-Nereid-Session": "0" * 64}
    assert ask(node, "/console/api/cql", "POST", wrong, body)[0] == 401


def test_browsers_are_told_to_load_nothing_else(node):
    for path in ["/console", "/console/console.js", "/console/api/state", "/console/nothing"]:
        _, headers, _ = ask(node, path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Access-Control-Allow-Origin"] is None


def test_narrow_and_dark_screens(page):
    page.set_viewport_size({"width": 360, "height": 700})
    page.emulate_media(color_scheme="dark")
    for view in ["overview", "tables", "tasks", "slow", "cql"]:
        opened(page, view)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{view}: {width}"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", ground)[:3])) < 150, ground


def test_everything_has_a_name(page):
    """What a screen reader tells: each control, table column and picture has a name."""
    page.wait_for_selector("#shards tbody tr")
    for view in ["overview", "tables", "tasks", "slow", "cql"]:
        opened(page, view)
        nameless = page.evaluate("""view => {
            const section = document.getElementById(view);
            const named = node => node.getAttribute('aria-label') || node.textContent.trim()
                || node.labels?.length || node.getAttribute('aria-hidden');
            return [...section.querySelectorAll('button, input, select, textarea, svg.plot')]
                .filter(node => !node.closest('[hidden]') && !named(node))
                .map(node => node.outerHTML.slice(0, 100));
        }""", view)
        assert nameless == []
