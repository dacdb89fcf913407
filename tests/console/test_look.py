"""What the page looks like in a real browser.

Whole screenshots are not compared: they differ with each version of a font and of the browser, so
their references would be renewed without a look, and would soon say nothing. Instead the browser
paints, and its pixels are asked for what must hold whatever the font is: which colour a bar has and
how much of it, whether lines are drawn within a plot, whether anything reaches beyond the screen.
"""
import json

import pytest
from conftest import wait_for
from helpers import VIEWS, meaning, opened, pixels, share_of
from playwright.sync_api import expect

THEMES = ["light", "dark"]
WIDTHS = [360, 390, 768, 1024, 1280]


def task(state, progress, why=None):
    return {"id": f"id-{state}", "kind": "major compaction", "keyspace": "ks", "table": "t",
            "state": state, "why": why, "progress": progress, "elapsed_ms": 1000,
            "began_at": 1_700_000_000_000, "stoppable": state == "running"}


STATES = [
    # state, progress, the colour of its pill, that of its bar, how much of the bar it is
    (task("done", 1.0), "done", "green", 1.0),
    (task("running", 0.5), "running", "green", 0.5),
    (task("stopped", None), "stopped by an operator", None, None),
    (task("damaged", 1.0, "1 damaged SSTables"), "found damage", "red", 1.0),
    (task("failed", None, "no space left"), "failed", None, None),
]
PILLS = {"done": "green", "stopped": "grey", "damaged": "red", "failed": "red"}


@pytest.mark.parametrize("theme", THEMES)
def test_colours_of_tasks_have_a_meaning(page, theme):
    """Of answers that are planted, so that all states are there at once."""
    told = {"asked": [one[0] for one in STATES], "running": [], "ended": [], "pending": 0, "held": 0}
    page.route("**/console/api/tasks", lambda route: route.fulfill(
        status=200, content_type="application/json", body=json.dumps(told)))
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    opened(page, "tasks")
    rows = page.locator("#tasks-asked tbody tr")
    expect(rows).to_have_count(len(STATES))
    for at, (planted, text, colour, part) in enumerate(STATES):
        expect(rows.nth(at).locator(".pill")).to_have_text(text)
        bar = rows.nth(at).locator("svg.share")
        if colour is None:
            assert bar.count() == 0, f"{text}: nothing is known of how much was done"
            expect(rows.nth(at)).not_to_contain_text("%")
        else:
            assert abs(share_of(bar, colour) - part) < 0.06, text
            assert colour == "red" or share_of(bar, "red") == 0, text
        wanted = PILLS.get(planted["state"])
        if wanted:
            # The text of the pill; the edges of letters may have a tinge of another colour.
            found = [meaning(pixel) for pixel in pixels(rows.nth(at).locator(".pill"))]
            telling = {name: found.count(name) for name in ["green", "red", "amber"]}
            if wanted == "grey":
                assert sum(telling.values()) < 0.02 * len(found), (text, telling)
            else:
                others = sum(telling.values()) - telling[wanted]
                assert 5 * others < telling[wanted], (text, telling)


@pytest.mark.parametrize("theme", THEMES)
def test_full_is_red_and_little_is_green(page, theme):
    """Bars of what is in use: other than with tasks, much of it is what has to be seen."""
    def shard(busy, heap):
        names = ["requests", "reads", "writes", "connections", "under_way", "waiting", "shed",
                 "errors", "memtable_bytes", "cache_bytes", "reads_active", "reads_queued",
                 "writes_blocked", "disk_queued", "disk_under_way", "disk_read", "disk_write",
                 "compactions", "stalls"]
        return {**dict.fromkeys(names, 0), "busy": busy, "heap_bytes": heap, "memory_bytes": 100}

    def planted(route):
        told = route.fetch().json()
        told["shards"] = [shard(0.3, 10), shard(1.0, 99)]
        route.fulfill(status=200, content_type="application/json", body=json.dumps(told))

    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.route("**/console/api/live*", planted)
    expect(page.locator("#shards tbody tr").nth(1)).to_contain_text("100 %")
    bars = page.locator("#shards svg.share")
    assert abs(share_of(bars.nth(0), "green") - 0.3) < 0.06
    assert abs(share_of(bars.nth(1), "green") - 0.1) < 0.06
    assert share_of(bars.nth(2), "red") > 0.94 and share_of(bars.nth(3), "red") > 0.9
    page.unroute_all(behavior="ignoreErrors")


@pytest.mark.parametrize("theme", THEMES)
def test_plots_are_drawn(page, load, theme):
    page.emulate_media(color_scheme=theme)
    plot = page.locator("#plots figure").first.locator("canvas")
    wait_for(page, """() => /reads [\\d.]/.test(
        document.querySelector('#plots .canvas').getAttribute('aria-label'))""")
    page.wait_for_timeout(2_500)
    found = pixels(plot)
    ground = max(set(found), key=found.count)
    drawn = sum(pixel != ground for pixel in found) / len(found)
    assert 0.01 < drawn < 0.9, drawn
    bright = sum(ground) > 382
    assert bright == (theme == "light"), ground


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off(page, load, table, width):
    """Nothing reaches beyond the screen, and what is wider than its place can be scrolled to."""
    name = table("k int PRIMARY KEY, a_column_with_a_very_long_name_that_goes_on_and_on text")
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_selector("#shards tbody tr + tr")
    for view in [*VIEWS, f"table/{name}", "trace/00000000-0000-1000-8000-000000000000"]:
        page.evaluate("view => { location.hash = view; }", view)
        expect(page.locator(f"#{view.split('/')[0]}")).to_be_visible()
        page.wait_for_timeout(150)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{view}: {wide} of {width}"
        cut = page.evaluate("""() => {
            const reach = node => {
                for (let up = node; up; up = up.parentElement) {
                    if (/auto|scroll/.test(getComputedStyle(up).overflowX)) return true;
                }
                return false;
            };
            return [...document.querySelectorAll('main section:not([hidden]) *')].filter(node => {
                const box = node.getBoundingClientRect();
                return box.width && box.right > innerWidth + 1 && !reach(node);
            }).map(node => node.outerHTML.slice(0, 80));
        }""")
        assert cut == [], f"{view} at {width}: {cut}"


@pytest.mark.parametrize("width", WIDTHS)
def test_all_of_a_shard_is_on_the_screen(page, width):
    """Nobody has to scroll sideways for what a shard does."""
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_selector("#shards tbody tr + tr")
    boxes = page.evaluate("""() => [...document.querySelector('#shards tbody tr').children].map(
        cell => [cell.getBoundingClientRect().left, cell.getBoundingClientRect().right])""")
    assert len(boxes) == page.locator("#shards thead th").count()
    assert all(0 <= left < right <= width for left, right in boxes), boxes
    scroll = page.evaluate("""() => {
        const around = document.querySelector('#shards').parentElement;
        return around.scrollWidth - around.clientWidth;
    }""")
    assert scroll <= 1, scroll


def test_dark_is_dark(page):
    page.emulate_media(color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    parts = ground[ground.index("(") + 1:].rstrip(")").split(",")
    assert sum(int(part) for part in parts[:3]) < 150, ground
