"""What the measurements share: the binary, the tests' Node, a table of results."""
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


# The profile that is measured: `dist` is that of packages, `release` is built faster.
PROFILES = ("dist", "release")
_profile = "dist"


class Profile(argparse.Action):
    """Takes the profile for all that is built from now on."""

    def __call__(self, _parser, namespace, value, option_string=None):
        take_profile(value)
        setattr(namespace, self.dest, value)


def take_profile(name):
    global _profile  # pylint: disable=global-statement
    _profile = name


def parser(text, profile="dist"):
    """With the profile, which is this one where the command line names none."""
    take_profile(profile)
    made = argparse.ArgumentParser(description=text,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--profile", choices=PROFILES, default=profile, action=Profile,
                      help=f"of the build that is measured [{profile}]")
    return made


def measured():
    """What is measured, as it is said with the figures."""
    given = os.environ.get("NEREID", "")
    built = str(ROOT / "target" / _profile / "nereid")
    return f"profile {_profile}" if given in ("", built) else given


def built(*what):
    """Builds it with the profile; the folder that it is in."""
    command = ["cargo", "build", "--profile", _profile, *what]
    say(" ".join(command))
    subprocess.run([*command, "-q"], cwd=ROOT, check=True)
    return ROOT / "target" / _profile


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
    """The server, built now unless NEREID names one."""
    given = os.environ.get("NEREID")
    if given:
        return given
    path = str(built("-p", "nereid") / "nereid")
    os.environ["NEREID"] = path
    return path


def example(package, name):
    """An example of a crate, built now."""
    return str(built("-p", package, "--example", name) / "examples" / name)


def table(heading, rows):
    """Rows of text under a heading, in columns."""
    widths = [max(len(str(row[n])) for row in [heading, *rows]) for n in range(len(heading))]
    for row in [heading, ["-" * width for width in widths], *rows]:
        cells = [str(cell).ljust(width) if n == 0 else str(cell).rjust(width)
                 for n, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
    print(f"\nmeasured: {measured()}")


def markdown(heading, rows):
    """Rows of text under a heading, as a table of Markdown."""
    for row in [heading, ["---" for _ in heading], *rows]:
        print(f"| {' | '.join(str(cell) for cell in row)} |")
    print(f"\nmeasured: {measured()}")


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
