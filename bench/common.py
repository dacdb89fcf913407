"""What the measurements share: the release binary, the tests' Node, a table of results."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True


def say(text):
    """Progress, kept apart from the result."""
    print(text, file=sys.stderr, flush=True)


def parser(text):
    return argparse.ArgumentParser(description=text,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def with_driver():
    """Goes on in the environment that `./test.py` made, which has the Python driver."""
    try:
        import cassandra  # noqa: F401  pylint: disable=unused-import,import-outside-toplevel
    except ImportError:
        python = ROOT / ".venv" / "bin" / "python"
        if Path(sys.prefix) == ROOT / ".venv" or not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(ROOT / ".venv")], check=True)
            say("installing the driver into .venv")
            subprocess.run([str(python), "-m", "pip", "install", "-q",
                            "--disable-pip-version-check", "-r",
                            str(ROOT / "tests" / "requirements.txt")], check=True)
        os.execv(python, [str(python), *sys.argv])


def binary():
    """The release binary, built now unless NEREID names one."""
    given = os.environ.get("NEREID")
    if given:
        return given
    say("cargo build --release")
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "nereid"], cwd=ROOT, check=True)
    path = str(ROOT / "target" / "release" / "nereid")
    os.environ["NEREID"] = path
    return path


def example(package, name):
    """An example of a crate, built now."""
    say(f"cargo build --release -p {package} --example {name}")
    subprocess.run(["cargo", "build", "--release", "-q", "-p", package, "--example", name],
                   cwd=ROOT, check=True)
    return str(ROOT / "target" / "release" / "examples" / name)


def table(heading, rows):
    """Rows of text under a heading, in columns."""
    widths = [max(len(str(row[n])) for row in [heading, *rows]) for n in range(len(heading))]
    for row in [heading, ["-" * width for width in widths], *rows]:
        cells = [str(cell).ljust(width) if n == 0 else str(cell).rjust(width)
                 for n, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def markdown(heading, rows):
    """Rows of text under a heading, as a table of Markdown."""
    for row in [heading, ["---" for _ in heading], *rows]:
        print(f"| {' | '.join(str(cell) for cell in row)} |")


def run(command, seconds):
    """Runs a command: (exit code, what it printed, the peak of its resident memory in MiB). It is
    killed after `seconds`."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        text = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, text, used.ru_maxrss / 1024


def spread(values, unit, digits=2):
    """Median, best and worst of a sample."""
    return (f"median {statistics.median(values):.{digits}f} {unit}, "
            f"min {min(values):.{digits}f}, max {max(values):.{digits}f}, n = {len(values)}")
