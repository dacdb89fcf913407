"""Both Python drivers, each in an environment of its own: they share a module name."""
import subprocess
import sys
import venv
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[2] / ".test" / "drivers"


def environment_of(driver):
    """The interpreter of an environment that has this driver."""
    folder = ENVIRONMENTS / driver
    python = folder / "bin" / "python"
    done = folder / ".done"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
                        driver, "lz4"], check=True)
        done.touch()
    return str(python)


def run(python, node, program, *versions):
    command = [python, str(HERE / program), node.address, str(node.port), *versions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]


def test_scylla_driver(node):
    run(sys.executable, node, "exercise.py", "3", "4")


@pytest.mark.parametrize("version", ["3", "4", "5"])
def test_cassandra_driver(node, version):
    run(environment_of("cassandra-driver"), node, "exercise.py", version)


def test_changes_are_read_with_scylla_driver(node):
    run(sys.executable, node, "changes.py")


def test_changes_are_read_with_cassandra_driver(node):
    run(environment_of("cassandra-driver"), node, "changes.py")
