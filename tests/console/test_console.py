"""What the console shows, as an operator sees it; who may ask it."""
import json
import re
import urllib.error
import urllib.request

import pytest
from conftest import wait_for
from helpers import HEADER, VIEWS, ask, cells, opened, result, run
from playwright.sync_api import expect


def test_cluster_and_shards_are_shown(page, node):
    expect(page.locator("#cluster")).to_have_text("Test Cluster")
    expect(page.locator("#node")).to_contain_text(f"{node.address} · version ")
    expect(page.locator("#node")).to_contain_text("2 shards")
    expect(page.locator("#nodes tbody tr")).to_contain_text("up, normal")
    expect(page.locator("#shards tbody tr")).to_have_count(2)
    heads = page.locator("#shards thead th").all_text_contents()
    assert {"Utilisation", "Heap", "Connections", "Queued", "Stalls"} <= set(heads)
    memory = cells(page, "#shards")[0][2]
    assert re.search(r"^[\d.]+ [KMG]iB of [\d.]+ [MG]iB$", memory), memory


LABEL = "document.querySelector('#plots figure:nth-child({}) .canvas').getAttribute('aria-label')"


def test_plots_move_under_load(page, load):
    # Each plot has its latest values in words.
    wait_for(page, f"""() => {{
        const found = /reads ([\\d.]+)( k)?, writes ([\\d.]+)/.exec({LABEL.format(1)});
        return found && found[1] > 0 && found[3] > 0;
    }}""")
    before = page.evaluate(LABEL.format(1))
    wait_for(page, f"before => {LABEL.format(1)} !== before", before)
    wait_for(page, f"() => /p99 [\\d.]+ (µs|ms)/.test({LABEL.format(3)})")
    wait_for(page, "parseFloat(document.querySelector('#cards dd').textContent) > 0")


def test_the_node_keeps_its_history_unasked(page, node, load):
    """Without a page that is open: the first that is opened shows what was."""
    wait_for(page, "!document.querySelector('#stale:not([hidden])')")
    page.goto("about:blank")
    told = {}
    deadline = 40
    while deadline and len(told.get("at", [])) < 2:
        told = json.loads(ask(node, "/console/api/history?seconds=3600")[2])["points"]
        page.wait_for_timeout(1000)
        deadline -= 1
    assert len(told["at"]) >= 2 and told["reads"][-1] > 0 and told["read_p99"][-1] > 0, told
    assert told["at"] == sorted(told["at"])


def test_ranges_and_zoom(page, load):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    wait_for(page, f"/reads [\\d.]/.test({LABEL.format(1)})")
    group = page.get_by_role("group", name="Range of time").first
    expect(group.get_by_role("button", name="5 min")).to_have_attribute("aria-pressed", "true")
    for name, seconds in [("1 h", 3600), ("6 h", 21600), ("24 h", 86400), ("5 min", 300)]:
        button = group.get_by_role("button", name=name)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        assert any(f"history?seconds={seconds}" in url for url in asked), name
    reset = group.get_by_role("button", name="Reset zoom")
    expect(reset).to_be_hidden()
    # Dragged with the mouse; all plots follow.
    box = page.locator("#plots figure").first.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40, steps=5)
    page.mouse.up()
    expect(reset).to_be_visible()
    reset.click()
    expect(reset).to_be_hidden()
    # And with the keyboard.
    page.locator("#plots figure").nth(1).focus()
    page.keyboard.press("+")
    expect(reset).to_be_visible()
    page.keyboard.press("Escape")
    expect(reset).to_be_hidden()


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
    expect(page.locator("#hot-status")).to_contain_text("Sampling for 2 s")
    expect(page.locator("#hot-status")).to_contain_text("Sampled for 2 s")
    for side in ["#hot-reads", "#hot-writes"]:
        first = cells(page, side)[0]
        assert first[:2] == [load, "7"], first
        part = int(first[4].split()[0])
        assert 40 <= part <= 60, first


def test_a_table_has_a_page(page, node, cql, table, load):
    name = table("k int, c int, v text, PRIMARY KEY (k, c)",
                 "WITH comment = 'told <b>here</b>' AND gc_grace_seconds = 0")
    keyspace, bare = name.split(".")
    for number in range(30):
        cql.execute(f"INSERT INTO {name} (k, c, v) VALUES ({number}, 1, 'v')")
    for number in range(5):
        cql.execute(f"DELETE FROM {name} WHERE k = {number} AND c = 1")
    ask(node, f"/storage_service/keyspace_flush/{keyspace}?cf={bare}", "POST")
    opened(page, "tables")
    page.locator("#tables-list a", has_text=name).click()
    expect(page.locator("#table-title")).to_have_text(name)
    expect(page.locator("#table-status")).to_have_text("told <b>here</b>")
    expect(page.locator("#table-schema")).to_contain_text(f"CREATE TABLE {name}")
    expect(page.locator("#table-schema")).to_contain_text("PRIMARY KEY (k, c)")
    expect(page.locator("#table-shards tbody tr")).to_have_count(2)
    wait_for(page, "document.querySelectorAll('#table-files tbody th').length > 0")
    # A deletion is droppable when the second in which it was made is over.
    wait_for(page, """[...document.querySelectorAll('#table-cards dt')].some(
        name => name.textContent === 'Droppable' && name.nextElementSibling.textContent === '5')""")
    figures = dict(zip(page.locator("#table-cards dt").all_text_contents(),
                       page.locator("#table-cards dd").all_text_contents()))
    files = cells(page, "#table-files")
    assert figures["SSTables"] == str(len(files)) and figures["Partitions (est.)"] == "30"
    assert figures["Tombstones"] == "5", figures
    assert figures["Droppable"] == "5", figures
    assert sum(int(row[6]) for row in files) == 30 and sum(int(row[8]) for row in files) == 5
    # Latencies of a table that is in use.
    page.evaluate("name => { location.hash = `table/${name}`; }", load)
    expect(page.locator("#table-title")).to_have_text(load)
    wait_for(page, """() => /p99 [\\d.]+ (µs|ms)/.test(
        document.querySelectorAll('#table-plots .canvas')[2].getAttribute('aria-label'))""")
    page.evaluate("location.hash = 'table/no.such'")
    expect(page.locator("#table-status")).to_contain_text("there is no table no.such")
    expect(page.locator("#table-body")).to_be_hidden()


def test_settings_tell_where_they_are_from(page):
    opened(page, "settings")
    expect(page.locator("#settings-count")).to_contain_text("options")
    page.fill("#settings-filter", "rpc_address")
    row = page.locator("#settings-list tbody tr", has=page.get_by_text("rpc_address", exact=True))
    expect(row).to_contain_text("command line")
    expect(row).to_contain_text("at a restart")
    page.fill("#settings-filter", "compaction_throughput")
    throughput = page.locator("#settings-list tbody tr", has=page.get_by_text(
        "compaction_throughput_mb_per_sec", exact=True))
    expect(throughput).to_contain_text("while it runs")
    page.fill("#settings-filter", "")
    page.check("#settings-set")
    assert 0 < page.locator("#settings-list tbody tr").count() < 30


def test_the_log_is_shown(page, node):
    opened(page, "logs")
    rows = page.locator("#logs-list tbody tr")
    expect(rows.first).to_be_visible()
    page.fill("#logs-filter", "serving")
    expect(rows.first).to_contain_text("init")
    page.fill("#logs-filter", "")
    page.select_option("#logs-level", "ERROR")
    shown = page.locator("#logs-list .pill").all_text_contents()
    assert set(shown) <= {"error"}, shown
    page.select_option("#logs-level", "INFO")
    # A line that comes while somebody looks.
    ask(node, "/console/api/slow?enable=false&threshold_us=500000", "POST")
    expect(rows.first).to_contain_text("slow query log is off")


def test_what_is_stored_stays_text(page, cql, table):
    attack = "<img src=x onerror=\"window.harmed=1\"><script>window.harmed=1</script>"
    name = table("k text PRIMARY KEY, v text", f"WITH comment = '{attack}'")
    cql.execute(f"INSERT INTO {name} (k, v) VALUES (%s, %s)", (attack, attack))
    run(page, f"SELECT * FROM {name}")
    assert cells(page, ".result table") == [[attack, attack]]
    opened(page, "tables")
    row = page.locator("#tables-list tbody tr", has_text=name)
    expect(row.locator(".note-text")).to_have_text(attack)
    run(page, f"SELECT * FROM \"{attack.replace(chr(34), '')}\".t")
    expect(result(page, ".error")).to_contain_text("<img src=x")
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script").count() == 0


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


@pytest.mark.parametrize("accept, status, there", [
    ("text/html,application/xhtml+xml,*/*;q=0.8", 302, "/console"),
    ("*/*", 404, None),
    ("application/json", 404, None),
])
def test_the_port_leads_browsers_to_the_console(node, accept, status, there):
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    request = urllib.request.Request(f"http://{node.address}:10000/", headers={"Accept": accept})
    try:
        answer = urllib.request.build_opener(Stay).open(request)
    except urllib.error.HTTPError as error:
        answer = error
    assert (answer.status, answer.headers["Location"]) == (status, there)


def test_the_address_of_the_port_shows_the_console(page, node):
    page.goto(f"http://{node.address}:10000/")
    expect(page.locator("#health")).to_have_text("serving")


def test_everything_has_a_name(page):
    """What a screen reader tells: each control, table column and picture has a name."""
    page.wait_for_selector("#shards tbody tr")
    for view in VIEWS:
        opened(page, view)
        nameless = page.evaluate("""view => {
            const section = document.getElementById(view);
            const named = node => node.getAttribute('aria-label') || node.textContent.trim()
                || node.labels?.length || node.getAttribute('aria-hidden');
            return [...section.querySelectorAll('button, input, select, textarea, .canvas')]
                .filter(node => !node.closest('[hidden]') && !named(node))
                .map(node => node.outerHTML.slice(0, 100));
        }""", view)
        assert nameless == []
