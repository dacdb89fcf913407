"""Merges that shards do by themselves, and what is divided between tablets, as tasks."""
import os
import threading
import time

import pytest
from node import Node
from rest import ask, told, until

LIMIT = "/storage_service/compaction_throughput"


@pytest.fixture(scope="module")
def node():
    with Node("--smp", "1") as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE ks.t (a int PRIMARY KEY, b blob) WITH compression = "
                        "{'sstable_compression': ''} AND compaction = {'class': "
                        "'SizeTieredCompactionStrategy', 'min_threshold': 2}")
        session.execute("CREATE TABLE ks.empty (a int PRIMARY KEY)")
        yield node


def merges(node, **parameters):
    listed = told(node, "GET", "/task_manager/list_module_tasks/compaction", **parameters)
    return [task for task in listed if task["type"] == "regular compaction"]


@pytest.fixture
def merge(node):
    """The task of a merge of ks.t that takes its time."""
    told(node, "POST", LIMIT, value=1)
    session = node.connect()
    # What an earlier merge has left is not merged with the first part, while the second is written.
    session.execute("TRUNCATE ks.t")
    insert = session.prepare("INSERT INTO ks.t (a, b) VALUES (?, ?)")
    for part in range(2):
        for key in range(400):
            session.execute(insert, (part * 400 + key, os.urandom(10_000)))
        told(node, "POST", "/storage_service/keyspace_flush/ks", cf="t")
    yield until(lambda: merges(node, internal="true", keyspace="ks", table="t"), "a merge")[0]
    told(node, "POST", LIMIT, value=0)
    until(lambda: not merges(node, internal="true"), "the end of merges")


def test_a_merge_is_a_task_while_it_runs(node, merge):
    assert (merge["keyspace"], merge["table"], merge["state"]) == ("ks", "t", "running")
    assert not merges(node) and not merges(node, internal="true", table="other")
    path = f"/task_manager/task_status/{merge['task_id']}"
    status = told(node, "GET", path)
    assert status["type"] == "regular compaction" and status["state"] == "running"
    assert status["is_abortable"] and status["parent_id"] == "none"
    assert 0 <= status["progress_completed"] < status["progress_total"] == 1
    tree = told(node, "GET", f"/task_manager/task_status_recursive/{merge['task_id']}")
    assert [one["id"] for one in tree] == [merge["task_id"]]
    wait = f"/task_manager/wait_task/{merge['task_id']}"
    assert ask(node, "GET", wait, timeout=0)[0] == 408
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(told(node, "GET", wait)))
    waiting.start()
    told(node, "POST", LIMIT, value=0)
    waiting.join(60)
    assert ended[0]["state"] == "done" and ended[0]["progress_completed"] == 1
    # What has ended is no task any more.
    assert ask(node, "GET", path)[0] == 400


def test_a_merge_can_be_aborted(node, merge):
    ended = []
    wait = f"/task_manager/wait_task/{merge['task_id']}"
    waiting = threading.Thread(target=lambda: ended.append(told(node, "GET", wait)))
    waiting.start()
    told(node, "POST", f"/task_manager/abort_task/{merge['task_id']}")
    waiting.join(60)
    assert ended[0]["state"] == "failed" and ended[0]["error"]


def test_what_is_taken_over_is_divided_as_a_task(node):
    told(node, "POST", "/storage_service/sstables/ks", cf="empty")
    listed = told(node, "GET", "/task_manager/list_module_tasks/compaction", keyspace="ks",
                 table="empty")
    [task] = [task for task in listed if task["type"] == "resharding compaction"]
    status = told(node, "GET", f"/task_manager/wait_task/{task['task_id']}")
    assert (status["state"], status["keyspace"], status["table"]) == ("done", "ks", "empty")
