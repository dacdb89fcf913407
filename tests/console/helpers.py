"""What several tests of the console do: views, statements, requests without a browser, colours."""
import io
import json
import urllib.error
import urllib.request

from PIL import Image
from playwright.sync_api import expect

HEADER = {"X-Nereid-Console": "1"}
VIEWS = ["overview", "tables", "tasks", "statements", "cql", "settings", "logs"]


def opened(page, view):
    page.click(f"nav a[href='#{view}']")
    expect(page.locator(f"#{view}")).to_be_visible()


def wrote(page, text):
    """The editor with that text, and the focus in it."""
    opened(page, "cql")
    content = page.locator("#cql-editor .cm-content")
    content.focus()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def run(page, text):
    """Runs statements and waits for the end of the last."""
    wrote(page, text)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#cql-run")).to_be_enabled()
    expect(page.locator(".result").last.locator(".status")).not_to_have_text("Running …")


def result(page, part=""):
    return page.locator(f".result:last-child {part}".strip())


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


def pixels(locator):
    """The pixels of an element as the browser has painted them, without its edges, which lie
    between pixels of the screen."""
    image = Image.open(io.BytesIO(locator.screenshot())).convert("RGB")
    return list(image.crop((1, 2, image.width - 1, image.height - 2)).getdata())


def meaning(pixel):
    """green, red, grey or another colour: by hue, for shades differ between themes."""
    red, green, blue = pixel
    if max(pixel) - min(pixel) < 40:
        return "grey"
    if red > green + 40 and red > blue + 40:
        return "red" if green < 0.75 * red else "amber"
    if green > red + 25 and green > blue + 10:
        return "green"
    return "other"


def share_of(locator, wanted):
    """How much of an element has a colour of that meaning."""
    found = [meaning(pixel) for pixel in pixels(locator)]
    return found.count(wanted) / len(found)
