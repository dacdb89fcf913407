"""nereid setup: what is wrong with a host, and what mends it."""
import json
import socket
import subprocess

from node import NEREID, free_address


def setup(*words):
    return subprocess.run([NEREID, "setup", *words], capture_output=True, text=True, timeout=60,
                          check=False)


def test_every_finding_that_is_not_fine_comes_with_a_command(tmp_path):
    done = setup("--json", "--workdir", tmp_path / "data", "--rpc-address", free_address())
    found = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert {"kernel", "memory", "folder", "file system", "free space", "open files", "io_uring",
            "clock source", "transparent huge pages", "swap"} <= set(found)
    assert found["folder"]["verdict"] == "fine" and "can be created" in found["folder"]["found"]
    for finding in found.values():
        assert finding["verdict"] in ("fine", "poor", "wrong")
        assert (finding["mend"] is None) == (finding["verdict"] == "fine"), finding
    is_wrong = any(finding["verdict"] == "wrong" for finding in found.values())
    assert done.returncode == int(is_wrong)


def test_a_port_that_somebody_has_is_wrong(tmp_path):
    address = free_address()
    with socket.create_server((address, 9042)):
        done = setup("--workdir", tmp_path, "--rpc-address", address, "--quiet")
    assert done.returncode == 1
    assert f"wrong    port: native_transport_port: {address}:9042" in done.stdout, done.stdout
    assert "ss -ltnp" in done.stdout
    assert "fine     " not in done.stdout


def test_a_folder_and_memory_that_cannot_be_are_wrong():
    done = setup("--workdir", "/proc/nereid", "--memory", "9000T")
    assert done.returncode == 1
    assert "wrong    memory" in done.stdout, done.stdout
    assert setup("--no-such-option").returncode == 2
    assert "nereid setup" in setup("--help").stdout
