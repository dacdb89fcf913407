"""The three nodes of dist/: what containers would run, started as the image starts it."""
import os
import threading
from pathlib import Path

import pytest
import yaml
from node import NEREID, Node, free_address
from trio import until

DIST = Path(__file__).resolve().parent.parent.parent / "dist"


class Container(Node):
    """A node that the image's entry point starts, whose network is an address of 127.0.0.0/8."""

    def __init__(self, words, names, address):
        super().__init__(address=address)
        self.words = [self.resolve(word, names).replace("=0.0.0.0", f"={address}") for word in words]
        tools = self.workdir / "bin"
        tools.mkdir()
        (tools / "hostname").write_text(f"#!/bin/sh\necho {address}\n")
        (tools / "hostname").chmod(0o755)
        self.env = {**os.environ, "NEREID": NEREID, "PATH": f"{tools}:{os.environ['PATH']}"}

    @staticmethod
    def resolve(word, names):
        for name, address in names.items():
            word = word.replace(f"={name}", f"={address}")
        return word

    def command(self):
        # Containers have networks and disks of their own; these share one of each.
        shared = {"--api-address": self.address, "--prometheus-address": self.address}
        given = {word.split("=")[0] for word in self.words}
        return ["sh", str(DIST / "docker" / "entrypoint"), *self.words,
                "--options-file", str(DIST / "docker" / "nereid.yaml"),
                "--workdir", str(self.workdir / "data"), "--developer-mode", "1",
                *[word for name, value in shared.items() if name not in given
                  for word in (name, value)]]


def compose():
    """The words of each service, by its name in the network."""
    services = yaml.safe_load((DIST / "docker" / "compose.yaml").read_text())["services"]
    return {name: service["command"] for name, service in services.items()}


def stateful_set():
    """The same of each pod."""
    kinds = {part["kind"]: part for part in manifests() if part["kind"] != "Service"}
    spec = kinds["StatefulSet"]["spec"]
    [container] = spec["template"]["spec"]["containers"]
    name = kinds["StatefulSet"]["metadata"]["name"]
    return {f"{name}-{number}.{spec['serviceName']}": container["args"]
            for number in range(spec["replicas"])}


def manifests():
    return list(yaml.safe_load_all((DIST / "kubernetes" / "nereid.yaml").read_text()))


@pytest.mark.parametrize("nodes", [compose, stateful_set])
def test_three_containers_are_one_cluster(nodes):
    words = nodes()
    names = {name: free_address() for name in words}
    assert len(names) == 3
    containers = [Container(words[name], names, names[name]) for name in words]
    try:
        threads = [threading.Thread(target=container.start) for container in containers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for container in containers:
            session = container.connect()
            until(lambda: sum(row.up for row in session.execute(
                "SELECT up FROM system.cluster_status")) == 3)
    finally:
        for container in containers:
            container.__exit__()


def test_ports_and_names_of_the_manifests_fit_together():
    parts = {(part["kind"], part["metadata"]["name"]): part for part in manifests()}
    pods = parts["StatefulSet", "nereid"]["spec"]
    template = pods["template"]
    assert ("Service", pods["serviceName"]) in parts
    [container] = template["spec"]["containers"]
    open_ports = {port["containerPort"] for port in container["ports"]}
    for (kind, _), part in parts.items():
        if kind == "Service":
            assert part["spec"]["selector"].items() <= template["metadata"]["labels"].items()
            assert {port["port"] for port in part["spec"]["ports"]} <= open_ports
    labels = pods["selector"]["matchLabels"].items()
    assert labels <= template["metadata"]["labels"].items()
    claims = {claim["metadata"]["name"] for claim in pods["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == claims
    [mount] = container["volumeMounts"]
    dockerfile = (DIST / "docker" / "Dockerfile").read_text()
    assert f"VOLUME {mount['mountPath']}\n" in dockerfile
    assert "--uid 999 " in dockerfile and template["spec"]["securityContext"]["runAsUser"] == 999
    for probe in "startupProbe", "readinessProbe":
        assert container[probe]["exec"]["command"] == ["nereid", "probe"]
    # More than the memory of the node, which has threads and a program besides.
    assert "--memory=1G" in container["args"]
    assert container["resources"]["limits"]["memory"] == "1536Mi"


def test_services_of_the_compose_file_have_data_of_their_own():
    file = yaml.safe_load((DIST / "docker" / "compose.yaml").read_text())
    volumes = [volume.split(":")[0] for service in file["services"].values()
               for volume in service["volumes"]]
    assert sorted(volumes) == sorted(file["volumes"]) and len(set(volumes)) == 3
    for name, service in file["services"].items():
        assert f"--seeds={next(iter(file['services']))}" in service["command"], name
        build = service["build"]
        assert (DIST / "docker" / build["context"] / build["dockerfile"]).is_file()
