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


# What ScyllaDB's public suites of Python need, and what those that speak to a running node share.
SUITE_PACKAGES = ["scylla-driver==3.29.12", "pytest==8.4.2", "pytest-asyncio==1.2.0",
            "pytest-timeout==2.4.0", "pytest-xdist==3.8.0", "allure-pytest", "PyYAML", "requests",
            "boto3", "universalasync", "psutil", "aiohttp", "colorama", "unidiff", "humanfriendly",
            "python-dateutil", "sqlalchemy", "cryptography"]

# What the suite's launcher tells a server, as far as it is known.
SUITE_OPTIONS = """--memory 1G --unsafe-bypass-fsync 1 --kernel-page-cache 1 --auto-snapshot 0
    --ring-delay-ms 0 --query-tombstone-page-limit 1000 --range-request-timeout-in-ms 300000
    --read-request-timeout-in-ms 300000 --counter-write-request-timeout-in-ms 300000
    --cas-contention-timeout-in-ms 300000 --truncate-request-timeout-in-ms 300000
    --write-request-timeout-in-ms 300000 --request-timeout-in-ms 300000
    --user-defined-function-time-limit-ms 1000 --experimental-features=udf
    --enable-user-defined-functions 1 --strict-allow-filtering true --enable-tablets true
    --alternator-ttl-period-in-seconds 0.5 --sstable-format mt
    --authenticator PasswordAuthenticator --authorizer CassandraAuthorizer
    --auth-superuser-name cassandra""".split()
# The superuser's password, "cassandra", hashed, as the launcher gives it.
SUITE_OPTIONS.append("--auth-superuser-salted-password=$6$x7IFjiX5VCpvNiFk$2IfjTvSyGL7zerpV."
                     "wbY7mJjaRCrJ/68dtT3UpT.sSmNYz1bPjtn3mH.kJKFvaZ2T4SbVeBijjmwGjcb83LlV/")

SUITE_PLUGIN = '''
import json, os, pytest, ssl
_new = ssl.SSLContext.__new__
def _trusting(cls, *arguments):
    made = _new(cls, *arguments)
    made.load_verify_locations(os.environ["SUITE_TRUST"])
    return made
if "SUITE_TRUST" in os.environ:
    # A suite's own contexts trust nobody.
    ssl.SSLContext.__new__ = _trusting
_out = open(os.environ["SUITE_EVENTS"], "a", buffering=1)
def pytest_runtest_logreport(report):
    expected = hasattr(report, "wasxfail")
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = report.outcome
    if expected:
        outcome = "xfailed" if report.skipped else "xpassed"
    crash = getattr(report.longrepr, "reprcrash", None)
    why = crash.message if crash else str(report.longrepr or "")
    _out.write(json.dumps([report.nodeid, report.when, outcome, why[:2000]]) + "\\n")
'''


def suite_environment():
    """The Python of an environment that has the suites' packages."""
    folder = ROOT / ".test" / "environments" / "cqlpy"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        say(f"installing the suite's packages into {folder}")
        base = os.environ.get("PYTHON", "python3.12")
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
                        *SUITE_PACKAGES], check=True)
        (folder / "ready").touch()
    return python


def run_suite(python, root, files, node, work, options, judged, tell):
    """Outcomes of the tests of each file below `root`, {file: {test: (outcome, reason)}}, of one
    run of pytest over all of them, as those who develop the suite run it. `judged` makes the
    outcome and the reason of what pytest says; `tell` is called with each file that has ended."""
    events = work / "events"
    events.write_text("")
    (work / "suite_report.py").write_text(SUITE_PLUGIN)
    path = os.pathsep.join([str(work), os.environ.get("PYTHONPATH", "")])
    env = dict(os.environ, SCYLLA_TEST_RUNNER="runpy", SUITE_EVENTS=str(events), PYTHONPATH=path,
               PYTHONDONTWRITEBYTECODE="1")
    command = [str(python), "-m", "pytest", "-p", "suite_report", "-p", "no:cacheprovider", "-p",
               "no:xdist", "-o", "xfail_strict=false", "-q", "--tb=short", "--host", node.address,
               "--port", str(node.port), *options, *files]
    found = {file: {} for file in files}
    with open(work / "log", "ab") as log, open(events, encoding="utf-8") as reported:
        process = subprocess.Popen(command, cwd=root, env=env, stdout=log, stderr=log,
                                   stdin=subprocess.DEVNULL)
        told, ended, partial = None, False, ""
        while not ended:
            ended = process.poll() is not None
            *lines, partial = (partial + reported.read()).split("\n")
            for line in lines:
                test, when, outcome, why = json.loads(line)
                test = test.removeprefix(f"{root.name}/")
                file = test.partition("::")[0]
                if told not in (None, file):
                    tell(told, found[told])
                told = file
                # What goes wrong after a test makes a failure of it; a failure stays one.
                if when == "call" or found[file].get(test, ("passed",))[0] != "failed":
                    found[file][test] = judged(outcome, why)
            if not node.is_running():
                process.kill()
                sys.exit(f"the node ended in {told}:\n{node.log.read_text()[-3000:]}")
            time.sleep(0.2)
        if told:
            tell(told, found[told])
    for file, results in found.items():
        if not results:
            results[f"{file}::(collection)"] = ("failed", "nothing was collected")
    if not any(outcome == "passed" for results in found.values() for outcome, _ in results.values()):
        say((work / "log").read_text(errors="replace")[-3000:])
    return found
