"""The REST API as a whole: what it says of itself, tasks, the ring, metrics, hostile requests."""
import re
import socket
import threading
import urllib.request
import uuid

import pytest

from node import Node
from rest import ask


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


@pytest.fixture(scope="module")
def cql(node):
    session = node.connect()
    for name, tablets in (("ks", "false"), ("tk", "true")):
        session.execute(f"CREATE KEYSPACE {name} WITH replication = "
                        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1} "
                        f"AND tablets = {{'enabled': {tablets}}}")
        session.execute(f"CREATE TABLE {name}.t (a int, b text, c int, v text, "
                        "PRIMARY KEY ((a, b), c))")
    return session


def get(node, path, **parameters):
    status, answer = ask(node, "GET", path, **parameters)
    assert status == 200, (path, answer)
    return answer


def test_each_described_operation_without_parameters_is_answered(node, cql):
    paths = get(node, "/v2")["paths"]
    assert 300 < sum(len(methods) for methods in paths.values())
    asked = 0
    for path, methods in paths.items():
        operation = methods.get("get")
        if not operation or any(one["required"] for one in operation["parameters"]):
            continue
        parameters = {"duration": 1} if "toppartitions" in path else {}
        status, answer = ask(node, "GET", path, **parameters)
        assert status in (200, 400, 500), (path, answer)
        if status != 200:
            assert answer["code"] == status and answer["message"], path
        asked += 1
    assert 100 < asked


def test_each_figure_of_a_table_is_told(node, cql):
    cql.execute("INSERT INTO ks.t (a, b, c, v) VALUES (1, 'x', 1, 'y')")
    cql.execute("SELECT * FROM ks.t WHERE a = 1 AND b = 'x'").all()
    assert ask(node, "POST", "/storage_service/keyspace_flush/ks") == (200, None)
    for path, methods in get(node, "/v2")["paths"].items():
        if path.startswith("/column_family/metrics/") and path.endswith("/{name}"):
            status, answer = ask(node, "GET", path.replace("{name}", "ks:t"))
            assert status in (200, 500, 501), (path, answer)
            status, answer = ask(node, "GET", path.replace("{name}", "ks.t"))
            assert status in (400, 500), (path, answer)
    metrics = "/column_family/metrics/"
    assert get(node, metrics + "live_ss_table_count/ks:t") == 1
    live = get(node, metrics + "live_disk_space_used/ks:t")
    assert 0 < live <= get(node, metrics + "total_disk_space_used/ks:t")
    for name in ("read", "write"):
        moving = get(node, f"{metrics}{name}_latency/moving_average_histogram/ks:t")
        assert moving["hist"]["count"] == 1 and 0 <= moving["hist"]["min"] <= moving["hist"]["max"]
        estimated = get(node, f"{metrics}{name}_latency/estimated_histogram/ks:t")
        assert sum(estimated["buckets"]) == 1
        assert len(estimated["buckets"]) == len(estimated["bucket_offsets"]) + 1
    sizes = get(node, metrics + "estimated_row_size_histogram/ks:t")
    assert sum(sizes["buckets"]) == 1


def test_the_description_has_two_forms_and_a_page(node):
    listing = get(node, "/api-doc/")
    names = [one["path"] for one in listing["apis"]]
    assert {"/storage_service", "/column_family", "/task_manager", "/v2/config"} <= set(names)
    for name in names:
        group = get(node, "/api-doc" + name)
        assert group["swaggerVersion"] == "1.2" and group["apis"], name
    with urllib.request.urlopen(f"http://{node.address}:10000/ui") as answer:
        assert answer.headers["Content-Type"].startswith("text/html")
        assert b"<title>" in answer.read()


def test_a_compaction_is_a_task(node, cql):
    status, task = ask(node, "POST", "/tasks/compaction/keyspace_compaction/ks")
    assert status == 200 and uuid.UUID(task)
    ended = get(node, f"/task_manager/wait_task/{task}")
    assert (ended["state"], ended["type"], ended["keyspace"]) == ("done", "major compaction", "ks")
    assert ended["progress_completed"] == ended["progress_total"] > 0
    tree = get(node, f"/task_manager/task_status_recursive/{task}")
    assert tree[0]["id"] == task and {one["shard"] for one in tree[1:]} == {0, 1}
    listed = get(node, "/task_manager/list_module_tasks/compaction", keyspace="ks")
    assert task in [one["task_id"] for one in listed]
    assert ask(node, "POST", "/task_manager/drain/compaction") == (200, None)
    assert ask(node, "GET", f"/task_manager/task_status/{task}")[0] == 400
    assert ask(node, "GET", "/task_manager/task_status/none")[0] == 400
    assert ask(node, "GET", "/task_manager/list_module_tasks/none")[0] == 400


def test_a_snapshot_is_a_task_that_cannot_be_aborted(node, cql):
    path = "/storage_service/tablets/snapshots"
    assert ask(node, "POST", path, tag="everywhere", keyspace="tk", table="t") == (200, None)
    tag, = [one for one in get(node, "/storage_service/snapshots") if one["key"] == "everywhere"]
    assert [(one["ks"], one["cf"]) for one in tag["value"]] == [("tk", "t")]
    task, = get(node, "/task_manager/list_module_tasks/snapshot")
    shown = get(node, f"/task_manager/task_status/{task['task_id']}")
    assert shown["state"] == "done" and not shown["is_abortable"]
    status, answer = ask(node, "POST", path, tag="everywhere", keyspace="tk")
    assert status == 400 and "already exists" in answer["message"]
    assert ask(node, "POST", path)[0] == 400


def test_a_task_is_waited_for_and_aborted(node, cql):
    point = "/v2/error_injection/injection/compaction_major_keyspace_compaction_task_impl_run"
    if ask(node, "POST", "/task_manager_test/test_module")[0] == 404:
        pytest.skip("not a development build")
    assert ask(node, "POST", point, one_shot="true") == (200, None)
    task = ask(node, "POST", "/tasks/compaction/keyspace_compaction/ks")[1]
    status, answer = ask(node, "GET", f"/task_manager/wait_task/{task}", timeout=0)
    assert status == 408, answer
    assert get(node, f"/task_manager/task_status/{task}")["state"] == "running"
    found = []
    waiter = threading.Thread(
        target=lambda: found.append(get(node, f"/task_manager/wait_task/{task}")))
    waiter.start()
    assert ask(node, "POST", f"/task_manager/abort_task/{task}") == (200, None)
    assert ask(node, "POST", point + "/message") == (200, None)
    waiter.join()
    assert found[0]["state"] == "failed" and "abort" in found[0]["error"]
    assert get(node, point + "/enters") == 1
    assert ask(node, "DELETE", point) == (200, None)
    assert get(node, "/v2/error_injection/injection") == []


def test_the_ring_is_that_of_one_node(node, cql):
    host = cql.execute("SELECT host_id FROM system.local").one().host_id
    assert get(node, "/storage_service/host_id") == [{"key": node.address, "value": str(host)}]
    tokens = get(node, "/storage_service/tokens")
    pairs = get(node, "/storage_service/tokens_endpoint")
    assert sorted(pair["key"] for pair in pairs) == sorted(tokens)
    ring = get(node, "/storage_service/describe_ring/ks")
    assert [one["end_token"] for one in ring] == [one["start_token"] for one in ring[1:] + ring[:1]]
    assert {tuple(one["endpoints"]) for one in ring} == {(node.address,)}
    for keyspace in ("ks", "tk"):
        path = f"/storage_service/natural_endpoints/{keyspace}"
        assert get(node, path, cf="t", key="1:x") == [node.address]
        assert ask(node, "GET", path, cf="t", key="1")[0] == 400
        path = f"/storage_service/natural_endpoints/v2/{keyspace}"
        assert get(node, path, cf="t", key_component=["1", "x:y"]) == [node.address]
    for path in ("describe_ring", "range_to_endpoint_map", "ownership"):
        status, answer = ask(node, "GET", f"/storage_service/{path}/tk")
        assert status == 400 and "per-table" in answer["message"]
    assert get(node, "/gossiper/endpoint/live") == [node.address]
    assert get(node, "/gossiper/endpoint/down") == []
    for path in ("decommission", "rebuild"):
        status, answer = ask(node, "POST", f"/storage_service/{path}")
        assert status == 500 and "only one" in answer["message"]


def test_a_repair_of_one_copy_has_succeeded(node, cql):
    status, number = ask(node, "POST", "/storage_service/repair_async/ks")
    assert status == 200 and 0 < number
    assert get(node, "/storage_service/repair_status", id=number) == "SUCCESSFUL"
    assert get(node, "/storage_service/repair_async/ks", id=number) == "SUCCESSFUL"
    assert get(node, "/storage_service/active_repair") == []
    assert ask(node, "GET", "/storage_service/repair_status", id=number + 1)[0] == 400
    status, answer = ask(node, "POST", "/storage_service/repair_async/tk")
    assert status == 400 and "tablets" in answer["message"]
    status, answer = ask(node, "POST", "/storage_service/tablets/repair", ks="tk", table="t",
                         tokens="all")
    assert status == 200 and uuid.UUID(answer["tablet_task_id"])
    said = f"Issued tablet repair by API request .* tablet_task_id={answer['tablet_task_id']}"
    assert re.search(said, node.log.read_text())


def test_log_levels_change_while_the_node_runs(node):
    path = "/system/logger/api"
    assert "api" in get(node, "/system/logger") and get(node, path) == "info"
    line = dict(message="a whisper", level="debug")
    ask(node, "POST", "/system/log", **line)
    assert "a whisper" not in node.log.read_text()
    assert ask(node, "POST", path, level="debug") == (200, None)
    ask(node, "POST", "/system/log", **line)
    assert "a whisper" in node.log.read_text() and get(node, path) == "debug"
    assert ask(node, "POST", path, level="info") == (200, None)
    assert ask(node, "POST", path, level="loud")[0] == 400
    assert ask(node, "GET", "/system/logger/none")[0] == 400


def test_routes_of_clients_are_kept(node, cql):
    route = {"connection_id": "c", "host_id": str(uuid.uuid4()), "address": "a.test", "port": 9042}
    path = "/v2/client-routes"
    assert ask(node, "POST", path, body=[route]) == (200, None)
    assert get(node, path) == [route]
    assert cql.execute("SELECT port, tls_port FROM system.client_routes").one() == (9042, None)
    for wrong in (None, {}, [1], [{**route, "port": 0}], [{**route, "host_id": "x"}]):
        assert ask(node, "POST", path, body=wrong)[0] == 400, wrong
    assert ask(node, "DELETE", path, body=[route]) == (200, None)
    assert get(node, path) == []


def test_the_busiest_partition_is_told(node, cql):
    found = {}

    def sample():
        found.update(get(node, "/storage_service/toppartitions/", table_filters="ks:t",
                         duration=2000))
    sampler = threading.Thread(target=sample)
    sampler.start()
    while sampler.is_alive():
        cql.execute("INSERT INTO ks.t (a, b, c) VALUES (7, 'hot', 1)")
    sampler.join()
    assert found["write"][0]["partition"] == "(ks:t) 7:hot"


def raw(node, request):
    """The first line of the answer to bytes; none where the connection ends without one, `reset`
    where it ended before all of them were taken, which can overtake the answer."""
    with socket.create_connection((node.address, 10000), timeout=30) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(4096).split(b"\r\n")[0]
        except OSError as error:
            assert not isinstance(error, TimeoutError)
            return b"reset"


@pytest.mark.parametrize("request_bytes, expected", [
    (b"nonsense\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\nHost\r\n\r\n", b"400"),
    (b"GET /%ff%00%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    (b"GET /" + b"a/" * 8000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    (b"GET /storage_service/load?" + b"a=b&" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
    (b"GET /task_manager/task_status/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
    (b"POST /v2/client-routes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", b"413"),
    (b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 1000000 + b"\r\n\r\n", b"431"),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", b"431"),
    (b"\x16\x03\x01\x02\x00", b""),
], ids=["no request", "no value", "no text", "deep path", "many parameters", "zero byte", "large body",
        "long header", "many headers", "handshake"])
def test_hostile_requests_are_refused(node, request_bytes, expected):
    answer = raw(node, request_bytes)
    assert expected in answer or (expected == b"431" and answer == b"reset")
    assert get(node, "/storage_service/is_initialized") is True
