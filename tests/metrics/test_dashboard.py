"""The dashboard, the alerts and the scrape settings below dist/ ask for what there is."""
import json
import re

import pytest
import yaml
from node import ROOT
from scraped import samples

DIST = ROOT / "dist"
NAME = re.compile(r"\bscylla_[a-z0-9_]+")


def panels():
    dashboard = json.loads((DIST / "grafana" / "nereid.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def expressions():
    """(where it stands, expression) of all that is asked of Prometheus."""
    for panel in panels():
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    dashboard = json.loads((DIST / "grafana" / "nereid.json").read_text(encoding="utf-8"))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]
    for group in yaml.safe_load((DIST / "prometheus" / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]


@pytest.fixture(scope="module")
def known(node, cql, keyspace):
    """{name: labels} of all samples of a node whose tables were used."""
    cql.execute(f"CREATE TABLE {keyspace}.shown (a int PRIMARY KEY)")
    for statement in ["INSERT INTO {} (a) VALUES (1)", "SELECT * FROM {} WHERE a = 1",
                      "SELECT * FROM {}", "DELETE FROM {} WHERE a = 1 IF EXISTS"]:
        cql.execute(statement.format(f"{keyspace}.shown"))
    with pytest.raises(Exception):
        cql.execute("SELECT")
    found = {}
    for sample in samples(node):
        # The parser gives counters this ending, which the text does not have.
        names = {sample.name, sample.name.removesuffix("_total")}
        for name in names:
            found.setdefault(name, set()).update(sample.labels)
    return found


def test_there_is_something_to_ask():
    asked = [expression for _, expression in expressions()]
    assert len(asked) > 60 and all(NAME.search(expression) or "up{" in expression
                                   for expression in asked)


def test_what_is_asked_for_exists(known):
    unknown = [(place, name) for place, expression in expressions()
               for name in NAME.findall(expression) if name not in known]
    assert unknown == []


def test_labels_that_are_asked_for_exist(known):
    given = {"instance", "job", "le"}
    wrong = []
    for place, expression in expressions():
        names = NAME.findall(expression)
        labels = set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=|!)", expression))
        for group in re.findall(r"\bby\s*\(([^)]*)\)", expression):
            labels |= {label.strip() for label in group.split(",")}
        has = given.union(*(known.get(name, set()) for name in names))
        wrong += [(place, label) for label in labels if label and label not in has]
    assert wrong == []


def test_panels_are_whole():
    ids, titles = set(), set()
    for panel in panels():
        assert panel["id"] not in ids, panel["title"]
        ids.add(panel["id"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["targets"] and panel["title"] not in titles, panel["title"]
            titles.add(panel["title"])
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["description"]


def test_alerts_tell_what_to_do():
    alerts = yaml.safe_load((DIST / "prometheus" / "alerts.yml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len(rules) >= 15
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_prometheus_scrapes_the_port_and_reads_the_alerts():
    settings = yaml.safe_load((DIST / "prometheus" / "prometheus.yml").read_text())
    assert settings["rule_files"] == ["alerts.yml"]
    [job] = settings["scrape_configs"]
    assert job["job_name"] == "nereid"
    assert job["static_configs"][0]["targets"] == ["localhost:9180"]
