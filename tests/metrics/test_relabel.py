"""Metrics under the rules of an operator: from a file, and set while the node runs."""
import json
import re
import subprocess
import urllib.error
import urllib.request

import pytest

import node as nodes
from node import Node

RULES = """
relabel_configs:
  - source_labels: [__name__]
    regex: ^(cql|cache)_
    action: drop
  - source_labels: [__name__]
    regex: ^cql_batches
    action: keep
  - source_labels: [group]
    regex: sl:(.*)
    target_label: level
    replacement: of $1
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "relabel.yaml"
    path.write_text(RULES)
    with Node("--relabel-config-file", path) as node:
        yield node


def ask(node, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{node.address}:10000/v2/metrics-config/", data=data)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or "null")


def scrape(node, query=""):
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics{query}",
                                timeout=10) as answer:
        return answer.read().decode()


def names(text):
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines()
            if not line.startswith("#")}


def test_rules_hold_from_the_start_and_are_changed(node):
    text = scrape(node)
    cql = {name for name in names(text) if re.match("scylla_(cql|cache)_", name)}
    assert cql and all(name.startswith("scylla_cql_batches") for name in cql)
    assert 'scylla_scheduler_shares{group="sl:default",shard="0",level="of default"} 1000' in text
    shown = names(scrape(node, "?level=of%20default"))
    assert "scylla_scheduler_shares" in shown
    assert all(name.startswith("scylla_scheduler_") for name in shown)
    rules = ask(node)
    assert [rule["action"] for rule in rules] == ["drop", "keep", "replace"]
    assert rules[1] == {"source_labels": ["__name__"], "separator": ";", "regex": "^cql_batches",
                        "action": "keep", "target_label": "", "replacement": "${1}"}
    # As they are shown, they may be set.
    ask(node, rules)
    assert ask(node) == rules
    idle = {"source_labels": ["__name__"], "regex": "^cql_", "action": "skip_when_empty"}
    ask(node, [idle])
    later = {name for name in names(scrape(node)) if name.startswith("scylla_cql_")}
    ask(node, [])
    every = {name for name in names(scrape(node)) if name.startswith("scylla_cql_")}
    assert later < every and cql <= every
    assert ask(node) == []


@pytest.mark.parametrize("rules, reason", [
    ({}, "not a list"),
    ([{"source_labels": ["ks"], "action": "hashmod"}], "unknown action hashmod"),
    ([{"source_labels": ["ks"], "target_label": "shard"}], "shard is not to be changed"),
    ([{"source_labels": ["ks"], "action": "drop", "regex": "("}], "rule 1: regex: ("),
])
def test_rules_that_make_no_sense_change_nothing(node, rules, reason):
    before = ask(node)
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(node, rules)
    assert refused.value.code == 400 and reason in refused.value.read().decode()
    assert ask(node) == before


def test_a_file_is_checked_without_a_node(tmp_path):
    path = tmp_path / "relabel.yaml"
    command = [nodes.NEREID, "config", "check", "--developer-mode", "1", "--workdir",
               str(tmp_path), "--relabel-config-file", str(path)]

    def check():
        found = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return found.returncode, found.stdout
    code, text = check()
    assert code == 1 and f"option relabel_config_file: {path}: " in text
    path.write_text(RULES.replace("action: keep", "action: keeps"))
    code, text = check()
    assert code == 1 and "relabel_configs: rule 2: unknown action keeps" in text
    path.write_text(RULES)
    assert check()[0] == 0
