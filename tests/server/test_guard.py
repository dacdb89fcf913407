"""What a browser sends for a page of another site is refused by the REST API, the console and the
port of metrics: each operation of the API's own table is tried, so that none is forgotten."""
import http.client
import json
import re

import pytest

from node import Node
from rest import ask, told

# What only a browser sends that has a page of another site open.
FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Referer": "http://evil.example/page"},
    # DNS rebinding: the page's own name leads to this node.
    {"Host": "evil.example:10000"},
    {"Host": "127.0.0.1.evil.example:10000"},
    {"Host": "evil.example:10000", "Origin": "http://evil.example:10000",
     "Sec-Fetch-Site": "same-origin"},
]
OPTIONS = ["--api-allowed-hosts", "ops.example", "--api-allowed-hosts", "db1.example"]


@pytest.fixture(scope="module", name="node")
def _node():
    with Node(*OPTIONS) as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
        session.execute("INSERT INTO ks.t (k, v) VALUES (1, 1)")
        yield node


def send(node, method, path, headers, port=10000):
    """The status and the text of an answer."""
    connection = http.client.HTTPConnection(node.address, port, timeout=60)
    with_host = {"Host": f"{node.address}:{port}", **headers}
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in with_host.items():
            if value is not None:
                connection.putheader(name, value)
        if method in ("POST", "PUT"):
            connection.putheader("Content-Length", "0")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def operations(node):
    """Method and path of all operations, with names in place of the parameters."""
    names = {"keyspace": "ks", "name": "ks:t", "table": "ks:t"}
    for path, methods in told(node, "GET", "/v2")["paths"].items():
        path = re.sub(r"{(\w+)}", lambda found: names.get(found[1], "x"), path)
        for method in methods:
            yield method.upper(), path


def test_each_operation_refuses_other_sites(node):
    all_of_it = list(operations(node))
    assert len(all_of_it) > 300 and {method for method, _ in all_of_it} >= {"GET", "POST",
                                                                            "DELETE", "PUT"}
    for method, path in all_of_it:
        for headers in FOREIGN if method != "GET" else FOREIGN[:1] + FOREIGN[3:4] + FOREIGN[-3:]:
            status, text = send(node, method, path, headers)
            assert status == 403, (method, path, headers, status, text)


def test_nothing_was_done(node):
    memtable = "/column_family/metrics/memtable_columns_count/ks:t"
    before = told(node, "GET", memtable)
    assert before == 1
    commands = [("POST", "/storage_service/flush"),
                ("GET", "/storage_service/keyspace_upgrade_sstables/ks"),
                ("GET", "/tasks/compaction/keyspace_scrub/ks?scrub_mode=SKIP")]
    for method, path in commands:
        for headers in FOREIGN:
            assert send(node, method, path, headers)[0] == 403
    assert told(node, "GET", memtable) == before
    assert told(node, "GET", "/storage_service/operation_mode") == "NORMAL"
    status, listed = ask(node, "GET", "/task_manager/list_module_tasks/compaction")
    assert (status, [one for one in listed if "scrub" in one["type"]]) == (200, [])


@pytest.mark.parametrize("headers, said", [
    ({"Origin": "http://evil.example"}, "Origin: http://evil.example"),
    ({"Host": "evil.example:10000"}, "Host: evil.example:10000"),
    ({"Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site: cross-site"),
    ({"Referer": "http://evil.example/"}, "Referer: http://evil.example/"),
])
def test_the_refusal_says_what_and_which_option_allows_it(node, headers, said):
    status, text = send(node, "POST", "/storage_service/flush", headers)
    message = json.loads(text)["message"]
    assert status == 403 and said in message and "api_allowed_hosts" in message, message


@pytest.mark.parametrize("headers", [
    {},
    # A client of HTTP/1.0 and of scripts may leave it out.
    {"Host": None},
    {"Host": "localhost:10000"},
    {"Host": "[::1]:10000"},
    {"Host": "ops.example"},
    {"Host": "ops.example:10000"},
    {"Host": "DB1.example:10000"},
    # The page at /ui, and one that a proxy shows as the name of the option.
    {"Origin": "http://{address}:10000", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "https://ops.example", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Referer": "http://{address}:10000/ui"},
])
def test_tools_and_pages_of_the_node_pass(node, headers):
    headers = {name: value and value.replace("{address}", node.address)
               for name, value in headers.items()}
    for method, path in [("POST", "/storage_service/keyspace_flush/ks"),
                         ("GET", "/storage_service/hostid/local")]:
        status, text = send(node, method, path, headers)
        assert status == 200, (path, text)


def test_the_console_has_the_same_guard(node):
    own = {"X-Nereid-Console": "1"}
    for method, path in [("GET", "/console/api/state"), ("POST", "/console/api/tasks/stop?id=1"),
                         ("POST", "/console/api/cql")]:
        for headers in FOREIGN:
            assert send(node, method, path, {**own, **headers})[0] == 403, (path, headers)
    assert send(node, "GET", "/console/api/state", {**own, "Host": "ops.example"})[0] == 200
    # A link on another page leads to the console: the page itself tells nothing of the node.
    assert send(node, "GET", "/console", {"Sec-Fetch-Site": "cross-site"})[0] == 200
    assert send(node, "GET", "/ui", {"Sec-Fetch-Site": "cross-site"})[0] == 200


def test_the_port_of_metrics_commands_nothing(node):
    for method in ("POST", "PUT", "DELETE"):
        for path in ("/metrics", "/storage_service/flush", "/"):
            status, _ = send(node, method, path, {}, port=9180)
            assert status == 404, (method, path)
    # Prometheus asks by whatever name it knows.
    assert send(node, "GET", "/metrics?__name__=scylla_storage*", {"Host": "db1.example"},
                port=9180)[0] == 200
