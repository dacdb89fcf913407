"""The Debian package in a clean root: it installs, starts by its unit's command, and goes again."""
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from node import NEREID, ROOT, Client, free_address

SUITE = os.environ.get("NEREID_DEBIAN", "bookworm")
UNIT = "lib/systemd/system/nereid.service"


def run(*words, **facts):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=600, check=False, **facts)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def mirror():
    """Where this machine has its packages from, or the public one."""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        text = path.read_text() if path.is_file() else ""
        for line in text.splitlines():
            found = re.match(r"(?:deb (?:\[.*\] )?|URIs: )(https?://\S+/debian/?)(?:\s|$)", line)
            if found:
                return found[1]
    return "http://deb.debian.org/debian"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("package")
    return Path(run(ROOT / "dist" / "debian" / "build", NEREID, out).strip())


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A root that holds nothing but the base system."""
    if os.geteuid() != 0:
        pytest.skip("a root of its own needs the rights to make one")
    root = tmp_path_factory.mktemp("debian") / "root"
    run("debootstrap", "--variant=minbase", "--include=adduser", SUITE, root, mirror())
    run("mount", "--bind", "/proc", root / "proc")
    run("mount", "--bind", "/dev", root / "dev")
    yield root
    run("umount", root / "dev", root / "proc")
    shutil.rmtree(root)


def test_what_the_package_holds(package):
    listing = run("dpkg-deb", "--contents", package)
    for path in ["/usr/bin/nereid", "/usr/bin/scylla -> nereid", "/etc/nereid/nereid.yaml",
                 f"/{UNIT}", "/usr/lib/sysctl.d/90-nereid.conf",
                 "/etc/security/limits.d/nereid.conf", "/usr/share/man/man1/nereid.1.gz",
                 "/usr/share/man/man1/nereid-config.1.gz",
                 "/usr/share/bash-completion/completions/nereid",
                 "/usr/share/zsh/vendor-completions/_nereid",
                 "/usr/share/fish/vendor_completions.d/nereid.fish"]:
        assert path in listing, f"{path}\n{listing}"
    assert all(line.split()[1] == "root/root" for line in listing.splitlines())
    facts = run("dpkg-deb", "--field", package)
    assert "Depends: libc6 (>= " in facts and "Conflicts: scylla-server" in facts, facts
    assert not re.search(r"@\w+@", facts), facts
    said = run(NEREID, "--version").strip()
    assert said.split("-")[0] in facts


def unit():
    """The options of the unit: name to value."""
    lines = (ROOT / "dist" / "etc" / "nereid.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


class Supervisor:
    """What systemd would be: a socket for notices, the unit's command, its signals."""

    def __init__(self, root, address):
        self.path = root / "run" / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.path.chmod(0o777)
        self.notices = []
        environment = {"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": "/run/notify"}
        assert unit()["Type"] == "notify"
        words = [word for word in shlex.split(unit()["ExecStart"]) if not word.startswith("$")]
        words += ["--rpc-address", address, "--listen-address", address, "--api-address", address,
                  "--prometheus-address", address, "--smp", "1", "--memory", "512M",
                  "--overprovisioned"]
        self.process = subprocess.Popen(
            [shutil.which("chroot"), f"--userspec={unit()['User']}:{unit()['Group']}", str(root), *words],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_for(self, text, seconds=60):
        deadline = time.monotonic() + seconds
        while not any(text in notice for notice in self.notices):
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                self.notices.append(self.socket.recv(4096).decode())
            except TimeoutError:
                self.process.kill()
                pytest.fail(f"no {text}: {self.notices}\n{self.process.communicate()[0]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.socket.close()
        self.path.unlink()


def test_the_package_installs_starts_and_goes(package, root):
    shutil.copy(package, root / "tmp")
    name = f"/tmp/{package.name}"
    run("chroot", root, "dpkg", "--install", name)
    assert run("chroot", root, "getent", "passwd", "nereid").endswith(":/usr/sbin/nologin\n")
    data = root / "var" / "lib" / "nereid"
    assert data.stat().st_uid != 0 and data.stat().st_mode & 0o777 == 0o750
    assert run("chroot", root, "scylla", "--version") == run(NEREID, "--version")
    run("chroot", root, "nereid", "config", "check", "/etc/nereid/nereid.yaml")

    address = free_address()
    with Supervisor(root, address) as node:
        node.wait_for("READY=1")
        assert any(notice.startswith("STATUS=") for notice in node.notices)
        client = Client(address)
        session = client.connect()
        session.execute("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', "
                        "'replication_factor': 1}")
        session.execute("CREATE TABLE k.t (p int PRIMARY KEY)")
        session.execute("INSERT INTO k.t (p) VALUES (7)")
        client.disconnect()
        probe = run("chroot", root, "nereid", "probe", "--host", address)
        assert "let in" in probe
        assert (data / "lock").exists()
        node.process.send_signal(signal.SIGTERM)
        node.wait_for("STOPPING=1")
        assert node.process.wait(60) == 0

    # An upgrade keeps what the operator has changed, and the data.
    yaml = root / "etc" / "nereid" / "nereid.yaml"
    yaml.write_text(yaml.read_text().replace("Test Cluster", "Mine"))
    run("chroot", root, "dpkg", "--install", name)
    assert "Mine" in yaml.read_text()
    with Supervisor(root, address) as node:
        node.wait_for("READY=1")
        client = Client(address)
        session = client.connect()
        assert [row.p for row in session.execute("SELECT p FROM k.t")] == [7]
        assert session.execute("SELECT cluster_name FROM system.local").one()[0] == "Mine"
        client.disconnect()
    run("chroot", root, "dpkg", "--purge", "nereid")
    assert not (root / "usr" / "bin" / "nereid").exists() and not yaml.exists()
    # Data is nobody's to remove but the operator's.
    assert (data / "data").is_dir()
