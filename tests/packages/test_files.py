"""What packages are made of: the unit, the entrypoint of the image, completions, manual pages."""
import os
import re
import shutil
import subprocess

import pytest
from node import NEREID, ROOT, Node

DIST = ROOT / "dist"


def run(*words, **facts):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=120, check=False, **facts)


def test_the_unit_is_one(tmp_path):
    # Its program need not be installed where the test runs.
    text = (DIST / "etc" / "nereid.service").read_text()
    text = text.replace("/usr/bin/nereid", NEREID).replace("Documentation=man:nereid(1)\n", "")
    path = tmp_path / "nereid.service"
    path.write_text(text)
    done = run("systemd-analyze", "verify", "--man=no", path)
    said = [line for line in done.stderr.splitlines() if "nereid.service" in line]
    assert not said, said
    assert "Type=notify" in text and "ExecReload=/bin/kill -HUP $MAINPID" in text


def test_the_file_that_is_installed_is_right():
    for path in [DIST / "etc" / "nereid.yaml", DIST / "docker" / "nereid.yaml"]:
        done = run(NEREID, "config", "check", path)
        assert done.returncode == 0, done
        assert "warning: option" not in done.stdout, done.stdout


@pytest.mark.parametrize("given, started", [
    ("", "--listen-address IP --rpc-address IP --options-file FILE --overprovisioned"),
    ("--smp 2 --memory 1G",
     "--smp 2 --memory 1G --listen-address IP --rpc-address IP --options-file FILE "
     "--overprovisioned"),
    ("--rpc-address=10.0.0.1 --overprovisioned 0 --options-file /x",
     "--rpc-address=10.0.0.1 --overprovisioned 0 --options-file /x --listen-address IP"),
    ("--seeds 10.0.0.1,10.0.0.2 --smp 1 --disable-version-check --seeds=c",
     "--seed-provider-parameters seeds=10.0.0.1,10.0.0.2 --smp 1 --seed-provider-parameters "
     "seeds=c --listen-address IP --rpc-address IP --options-file FILE --overprovisioned"),
    ("config check", "config check"),
])
def test_the_entrypoint_takes_the_usual_options(given, started):
    done = run("sh", DIST / "docker" / "entrypoint", *given.split(),
               env={**os.environ, "NEREID": shutil.which("echo")})
    assert done.returncode == 0, done
    said = re.sub(r"(listen-address|rpc-address) [0-9.:a-f]+", r"\1 IP", done.stdout.strip())
    assert said.replace("/etc/nereid/nereid.yaml", "FILE") == started


def test_the_image_is_made_of_what_is_there():
    """Every file that the image copies from the sources exists, and is not left out."""
    lines = (DIST / "docker" / "Dockerfile").read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    sources = [path for copy in copies if not copy[0].startswith("--") for path in copy]
    assert "Cargo.toml" in sources and "crates" in sources
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"]
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(source == path or source.startswith(path + "/") for path in kept), source
    rust = re.search(r"^FROM rust:([0-9.]+)", "\n".join(lines), re.M)[1]
    assert f'rust-version = "{rust}"' in (ROOT / "Cargo.toml").read_text()
    assert "USER nereid" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)


def test_the_probe_tells_whether_clients_are_let_in():
    with Node() as node:
        done = run(NEREID, "probe", "--host", node.address)
        assert (done.returncode, done.stdout) == (0, "the node accepts clients\n")
    done = run(NEREID, "probe", "--host", node.address, "--timeout", "1")
    assert done.returncode == 1 and node.address in done.stderr, done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts_of_their_shell(tmp_path, shell):
    path = tmp_path / shell
    assert run(NEREID, "generate", shell, path).returncode == 0
    assert "--rpc-address" in path.read_text() or "rpc-address" in path.read_text()
    if shutil.which(shell):
        done = run(shell, "-n", path)
        assert done.returncode == 0, done
    if shell == "bash":
        script = (f"source {path}; COMP_WORDS=(nereid --rpc-addr); COMP_CWORD=1; "
                  "_nereid nereid --rpc-addr nereid; echo ${COMPREPLY[@]}")
        assert run("bash", "-c", script).stdout.strip() == "--rpc-address"


def test_pages_are_read_by_man(tmp_path):
    assert run(NEREID, "generate", "man", tmp_path).returncode == 0
    tools = run(NEREID, "--list-tools").stdout.splitlines()
    pages = {page.name for page in tmp_path.glob("*.1")}
    operations = {page for page in pages if page.startswith("nereid-nodetool-")}
    assert len(pages - operations) == len(tools) and "nereid-nodetool-flush.1" in operations
    for page in tmp_path.glob("*.1"):
        done = run("man", "--warnings", "-l", page, env={**os.environ, "MANWIDTH": "100"})
        assert done.returncode == 0 and page.stem.lower() in done.stdout.lower(), (page, done)
    done = run("man", "-l", tmp_path / "nereid.1", env={**os.environ, "MANWIDTH": "200"})
    assert "--commitlog-sync" in done.stdout


def test_it_answers_under_the_other_name(tmp_path):
    link = tmp_path / "scylla"
    link.symlink_to(NEREID)
    assert run(link, "--version").stdout == run(NEREID, "--version").stdout
    assert run(link, "--list-tools").stdout == run(NEREID, "--list-tools").stdout
