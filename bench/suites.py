"""ScyllaDB's public suites of Python: their environment, a run of one, and what comes of it.

No suite is part of this project: each is run from a checkout of scylladb/scylladb. The packages that
they need are installed below .test. Needs Python 3.12 or newer (PYTHON names one).
"""
import collections
import fnmatch
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import common

PACKAGES = ["scylla-driver==3.29.12", "pytest==8.4.2", "pytest-asyncio==1.2.0",
            "pytest-timeout==2.4.0", "pytest-xdist==3.8.0", "allure-pytest", "PyYAML", "requests",
            "boto3", "universalasync", "psutil", "aiohttp", "colorama", "unidiff", "humanfriendly",
            "python-dateutil", "sqlalchemy", "cryptography", "tabulate", "treelib", "deepdiff"]

# What the suites' launcher tells a server, as far as it is known.
NODE_OPTIONS = """--memory 1G --unsafe-bypass-fsync 1 --kernel-page-cache 1 --auto-snapshot 0
    --ring-delay-ms 0 --query-tombstone-page-limit 1000 --range-request-timeout-in-ms 300000
    --read-request-timeout-in-ms 300000 --counter-write-request-timeout-in-ms 300000
    --cas-contention-timeout-in-ms 300000 --truncate-request-timeout-in-ms 300000
    --write-request-timeout-in-ms 300000 --request-timeout-in-ms 300000
    --user-defined-function-time-limit-ms 1000 --experimental-features=udf
    --enable-user-defined-functions 1 --strict-allow-filtering true --enable-tablets true
    --strict-is-not-null-in-views true
    --alternator-ttl-period-in-seconds 0.5 --sstable-format mt
    --authenticator PasswordAuthenticator --authorizer CassandraAuthorizer
    --auth-superuser-name cassandra""".split()
# The superuser's password, "cassandra", hashed, as the launcher gives it.
NODE_OPTIONS.append("--auth-superuser-salted-password=$6$x7IFjiX5VCpvNiFk$2IfjTvSyGL7zerpV."
                     "wbY7mJjaRCrJ/68dtT3UpT.sSmNYz1bPjtn3mH.kJKFvaZ2T4SbVeBijjmwGjcb83LlV/")

# Reports each test to a file as it ends, and lets clients trust a certificate of a moment.
PLUGIN = '''
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


def parser(text, folder):
    """The words that all runs take; `folder` is that of the suite below test/."""
    made = common.parser(text, "release")
    made.add_argument("checkout", type=Path)
    made.add_argument("--only", action="append", help=f"files below test/{folder}, a pattern")
    return made


def files(arguments, folder, *patterns):
    """The folder of a suite, and its files that were asked for."""
    root = (arguments.checkout / "test" / folder).resolve()
    names = sorted({str(path.relative_to(root)) for pattern in patterns
                    for path in root.rglob(pattern)})
    names = [name for name in names
             if any(fnmatch.fnmatch(name, only) for only in arguments.only or ["*"])]
    if not names:
        sys.exit(f"no such files below {root}")
    return root, names


def environment():
    """The Python of an environment that has the suites' packages."""
    folder = common.ROOT / ".test" / "environments" / "suites"
    python = folder / "bin" / "python"
    ready, wanted = folder / "ready", "\n".join(PACKAGES)
    if not ready.exists() or ready.read_text() != wanted:
        common.say(f"installing the suites' packages into {folder}")
        base = os.environ.get("PYTHON", "python3.12")
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
                        *PACKAGES], check=True)
        ready.write_text(wanted)
    return python


def reason(why):
    """The first line that says something."""
    return next((line.strip() for line in why.splitlines() if line.strip()), "")


def of_node(node):
    """The options of a suite that speaks to a running node."""
    return ["--host", node.address, "--port", str(node.port)]


def run(work, root, names, options, judged=lambda outcome, why: (outcome, reason(why)),
        node=None, plugin="", path=()):
    """Outcomes of the tests of each file below `root`, {file: {test: (outcome, reason)}}, of one
    run of pytest over all of them, as those who develop the suite run it. `judged` makes the
    outcome and the reason of what pytest says. Ends when the node does, if there is one. `plugin`
    is Python that pytest loads besides, `path` what Python finds modules in."""
    events = work / "events"
    events.write_text("")
    (work / "suite_report.py").write_text(PLUGIN + plugin)
    path = os.pathsep.join([str(work), *map(str, path), os.environ.get("PYTHONPATH", "")])
    env = dict(os.environ, SCYLLA_TEST_RUNNER="runpy", SUITE_EVENTS=str(events), PYTHONPATH=path,
               PYTHONDONTWRITEBYTECODE="1")
    command = [str(environment()), "-m", "pytest", "-p", "suite_report", "-p", "no:cacheprovider",
               "-p", "no:xdist", "-o", "xfail_strict=false", "-q", "--tb=short", *options, *names]
    found = {name: {} for name in names}
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
                name = test.partition("::")[0]
                if told not in (None, name):
                    tell(told, found[told])
                told = name
                # What goes wrong after a test makes a failure of it; a failure stays one.
                if when == "call" or found[name].get(test, ("passed",))[0] != "failed":
                    found[name][test] = judged(outcome, why)
            if node and not node.is_running():
                process.kill()
                sys.exit(f"the node ended in {told}:\n{node.log.read_text()[-3000:]}")
            time.sleep(0.2)
        if told:
            tell(told, found[told])
    for name, results in found.items():
        if not results:
            results[f"{name}::(collection)"] = ("failed", "nothing was collected")
    if not any(outcome == "passed" for results in found.values() for outcome, _ in results.values()):
        common.say((work / "log").read_text(errors="replace")[-3000:])
    return found


def tell(name, results):
    """Progress: a file has ended."""
    counts = collections.Counter(outcome for outcome, _ in results.values())
    common.say(f"{name}: " + ", ".join(f"{number} {outcome}"
                                       for outcome, number in sorted(counts.items())))


def tabulate(found, columns):
    """Prints what came of each file, in columns {outcome: heading}; the counts of all."""
    rows, total = [], collections.Counter()
    for name, results in found.items():
        counts = collections.Counter(outcome for outcome, _ in results.values())
        total.update(counts)
        rows.append([name, *(counts[outcome] for outcome in columns)])
    rows.append(["all", *(total[outcome] for outcome in columns)])
    common.markdown(["file", *columns.values()], rows)
    return total


def enumerate_tests(found, *outcomes):
    """Prints each test that came to one of these outcomes, with its reason."""
    for results in found.values():
        for test, (outcome, why) in sorted(results.items()):
            if outcome in outcomes:
                print(f"* `{test}` {outcome}: {' '.join(why.split())[:300]}")
