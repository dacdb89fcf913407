"""What the tests of a node ask its REST API."""
import json
import time
import urllib.error
import urllib.parse
import urllib.request


def ask(node, method, path, body=None, **parameters):
    """The status and the JSON of the answer, or None where it is empty."""
    url = f"http://{node.address}:10000{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, method=method, data=data)
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, found = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, found = error.code, error.read()
    return status, json.loads(found) if found else None


def told(node, method, path, **parameters):
    """The JSON of an answer that is no refusal."""
    status, answer = ask(node, method, path, **parameters)
    assert status == 200, (method, path, parameters, status, answer)
    return answer


def until(condition, what):
    """What `condition` gives, once it is something; it is asked again and again for a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it does not come to {what}")
