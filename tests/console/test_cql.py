"""The editor of CQL and the results of its statements."""
import csv
import io
import json

from conftest import wait_for
from helpers import cells, opened, result, run, wrote
from playwright.sync_api import expect

TABLE = ".result:last-child table"


def saved(page, kind):
    with page.expect_download() as download:
        result(page).get_by_role("button", name=kind).click()
    assert download.value.suggested_filename == f"result.{kind.lower()}"
    with open(download.value.path(), newline="") as file:
        return file.read()


def test_a_statement_answers_with_types(page, table):
    run(page, "SELECT key, gossip_generation, tokens FROM system.local")
    assert page.locator(f"{TABLE} thead th").all_text_contents() == [
        "keytext", "gossip_generationint", "tokensset<text>"]
    row = cells(page, TABLE)[0]
    assert row[0] == "local" and row[1].isdigit() and row[2].startswith("{'"), row
    expect(result(page, ".status")).to_contain_text("1 row")
    name = table("k int PRIMARY KEY, v text")
    run(page, f"INSERT INTO {name} (k) VALUES (1);")
    expect(result(page, ".status")).to_contain_text("Done.")
    run(page, f"SELECT * FROM {name}")
    assert cells(page, TABLE) == [["1", "null"]]


def test_several_statements_run_in_order_up_to_the_first_error(page, table):
    name = table("k int PRIMARY KEY, v text")
    run(page, f"INSERT INTO {name} (k, v) VALUES (1, 'a;b'); -- not; a statement\n"
              f"BEGIN BATCH INSERT INTO {name} (k) VALUES (2); INSERT INTO {name} (k) VALUES (3); "
              f"APPLY BATCH;\nSELECT * FROM {name} WHERE k = 1;")
    expect(page.locator(".result")).to_have_count(3)
    assert cells(page, TABLE) == [["1", "a;b"]]
    expect(page.locator("#cql-status")).to_have_text("3 of 3 statements were executed.")
    run(page, f"SELECT k FROM {name};\nSELECT nothing FROM {name};\nDROP TABLE {name};")
    expect(page.locator(".result")).to_have_count(2)
    expect(result(page, ".error")).to_contain_text("nothing")
    expect(page.locator("#cql-status")).to_have_text("1 of 3 statements were executed.")
    run(page, f"SELECT k FROM {name}")
    assert sorted(cells(page, TABLE)) == [["1"], ["2"], ["3"]], "it was not dropped"


def test_errors_are_marked_at_their_place(page):
    mark = page.locator("#cql-editor .cm-lintRange-error")
    run(page, "SELECT key FROM system.local;\nSELECT key\n  FRM system.local;")
    expect(result(page, ".error")).to_contain_text("line 2:2")
    expect(mark).to_have_text("FRM")
    expect(page.locator(".result")).to_have_count(2)
    run(page, "SELECT * FROM nowhere.nothing")
    expect(result(page, ".error")).to_contain_text("nowhere")
    # An error without a place is one of the whole statement.
    assert "".join(mark.all_text_contents()) == "SELECT * FROM nowhere.nothing"
    run(page, "SELECT key FROM system.local")
    expect(page.locator(".result .error")).to_be_hidden()
    expect(mark).to_have_count(0)


def test_what_is_selected_runs_alone(page):
    wrote(page, "SELEC nonsense;\nSELECT key FROM system.local")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.press("Control+Enter")
    expect(result(page, ".status")).to_contain_text("1 row")
    expect(page.locator(".result")).to_have_count(1)


def test_statements_are_highlighted(page):
    wrote(page, "SELECT v FROM t -- c\n WHERE k = 'x' AND n = 17")
    colours = page.evaluate("""() => {
        const root = document.querySelector('#cql-editor').shadowRoot;
        const found = {};
        for (const node of root.querySelectorAll('.cm-line span')) {
            found[node.textContent.trim()] = getComputedStyle(node).color;
        }
        return found;
    }""")
    kinds = [colours[text] for text in ["SELECT", "-- c", "'x'", "17"]]
    assert len(set(kinds)) == 4, colours
    assert colours["WHERE"] == colours["SELECT"]


def completions(page, text):
    wrote(page, text)
    page.keyboard.press("Control+Space")
    shown = page.locator("#cql-editor .cm-tooltip-autocomplete .cm-completionLabel")
    expect(shown.first).to_be_visible()
    labels = shown.all_text_contents()
    page.keyboard.press("Escape")
    return labels


def test_completion_knows_the_schema(page, table):
    name = table("part int, clus int, \"Mixed\" text, PRIMARY KEY (part, clus)")
    keyspace, bare = name.split(".")
    opened(page, "overview")
    with page.expect_response("**/console/api/schema"):
        opened(page, "cql")
    assert bare in completions(page, f"SELECT * FROM {keyspace}.")
    assert keyspace in completions(page, "SELECT * FROM ")
    assert {"part", "clus", '"Mixed"'} <= set(completions(page, f"SELECT * FROM {name} WHERE "))
    assert "SELECT" in completions(page, "SEL")
    # Taken by the keyboard.
    wrote(page, f"SELECT * FROM {keyspace}.{bare[:-1]}")
    page.keyboard.insert_text(bare[-1])
    wrote(page, "TRUNC")
    page.keyboard.press("Control+Space")
    expect(page.locator("#cql-editor .cm-tooltip-autocomplete")).to_be_visible()
    page.wait_for_timeout(150)
    page.keyboard.press("Tab")
    expect(page.locator("#cql-editor .cm-content")).to_have_text("TRUNCATE")


def test_the_keyspace_in_use_is_remembered(page, table):
    name = table("k int PRIMARY KEY")
    keyspace, bare = name.split(".")
    run(page, f"USE {keyspace}")
    expect(result(page, ".status")).to_contain_text(f"Keyspace: {keyspace}.")
    run(page, f"SELECT * FROM {bare}")
    expect(result(page, ".status")).to_contain_text("0 rows")


def test_results_come_page_by_page(page, cql, table):
    name = table("k int, c int, PRIMARY KEY (k, c)")
    for number in range(25):
        cql.execute(f"INSERT INTO {name} (k, c) VALUES (1, {number})")
    opened(page, "cql")
    page.fill("#cql-rows", "10")
    run(page, f"SELECT c FROM {name}")
    seen = []
    more = result(page).get_by_role("button", name="Next page")
    for count in [10, 10, 5]:
        expect(page.locator(f"{TABLE} tbody tr")).to_have_count(count)
        seen += [int(row[0]) for row in cells(page, TABLE)]
        if count == 10:
            more.click()
            expect(result(page, ".status")).to_contain_text(f"page {len(seen) // 10 + 1}")
    assert seen == list(range(25))
    expect(more).to_be_hidden()


def test_results_are_exported_with_all_pages(page, cql, table):
    name = table("k int, c int, v text, b boolean, PRIMARY KEY (k, c)")
    for number in range(25):
        cql.execute(f"INSERT INTO {name} (k, c, v, b) VALUES (1, {number}, %s, true)",
                    (f"a \"quoted\", {number}\nline",))
    cql.execute(f"INSERT INTO {name} (k, c) VALUES (1, 25)")
    opened(page, "cql")
    page.fill("#cql-rows", "10")
    run(page, f"SELECT c, v, b FROM {name}")
    rows = list(csv.reader(io.StringIO(saved(page, "CSV"))))
    assert rows[0] == ["c", "v", "b"] and len(rows) == 27
    assert rows[1] == ["0", 'a "quoted", 0\nline', "true"] and rows[26] == ["25", "", ""]
    expect(result(page, ".status")).to_have_text("26 rows exported.")
    told = json.loads(saved(page, "JSON"))
    assert told[3] == {"c": 3, "v": 'a "quoted", 3\nline', "b": True}
    assert told[25] == {"c": 25, "v": None, "b": None}


def test_the_editor_obeys_the_keyboard(page):
    opened(page, "cql")
    content = page.locator("#cql-editor .cm-content")
    expect(content).to_be_focused()
    page.keyboard.insert_text("SELECT key\nFROM system.local;")
    page.keyboard.press("Control+Enter")
    expect(result(page, ".status")).to_contain_text("1 row")
    run(page, "CREATE ROLE somebody WITH PASSWORD = 'hidden'")
    wrote(page, "a draft")
    page.keyboard.press("Alt+ArrowUp")
    assert content.inner_text().replace("\n\n", "\n") == "SELECT key\nFROM system.local;"
    page.keyboard.press("Alt+ArrowDown")
    assert content.inner_text() == "a draft"
    # Tab leaves the editor: nobody is caught in it.
    page.keyboard.press("Tab")
    expect(content).not_to_be_focused()


def test_long_values_are_cut(page, cql, table):
    name = table("k int PRIMARY KEY, v text, b blob")
    cql.execute(f"INSERT INTO {name} (k, v, b) VALUES (1, %s, %s)", ("é" * 50_000, b"\1" * 50_000))
    run(page, f"SELECT v, b FROM {name}")
    text, blob = cells(page, TABLE)[0]
    assert text == "é" * 2048 + "…"
    assert blob.startswith("0x0101") and blob.endswith("…") and len(blob) == 4097


def test_a_running_statement_is_awaited(page):
    opened(page, "cql")
    run(page, "SELECT key FROM system.local; SELECT key FROM system.local")
    wait_for(page, "document.querySelectorAll('.result').length === 2")
