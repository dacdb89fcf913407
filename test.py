#!/usr/bin/env python3
"""Runs everything that proves Nereid.

  ./test.py                    every suite of the default lane
  ./test.py unit drivers       the suites of these names
  ./test.py tests/cql          the suites at or below this folder
  ./test.py tests/cql/test_x.py::test_y     one test of a pytest suite
  ./test.py -k WORD            only tests whose name holds WORD (pytest and cargo suites)
  ./test.py --changed [BASE]   what a change can reach: of files that differ from commit BASE, else
                               from where the branch left the main one (tests/reach.py decides)
  ./test.py --list             the suites, with what they prove
  ./test.py --fuzz [SECONDS]   each fuzz target for SECONDS (60), as many at a time as --jobs says
  ./test.py --jobs 1           one suite after the other, not three at a time
  ./test.py --release          suites over the wire run the release binary, as those of --lane nightly
  ./test.py --sanitize         the arena's tests under the address sanitizer (nightly Rust)
  ./test.py --lane nightly     the default lane and the slow suites

NEREID=PATH tests that binary instead of one that is built now. That is the development build which the
unit tests are of, too: one build for both, and every assertion of the server looks while drivers and
tools use it.

A suite is a folder with a suite.toml; nothing else registers it:

  about   = "what it proves, in one line"
  order   = 50                  # lower runs first
  kind    = "command"           # "cargo", "command", "lints" or "pytest"
  command = ["cargo", "fmt", "--check"]      # kind command; counts as one test, or prints
                                             # "N passed, N failed[, N skipped]" itself
  args    = ["--workspace"]     # kind cargo: arguments of "cargo test"; kind pytest: of pytest;
                                # kind lints: of "cargo test --no-run", which may print no warning
  cases   = "tests/cql"         # kind pytest: the folder of its tests, when it is another's
  tools   = ["go"]              # programs it needs; the suite is skipped by name without them
  server  = true                # it needs the server
  alone   = true                # nothing runs beside it: what it builds is what the others run, say.
                                # Those of cargo do
  at_once = 3                   # kind pytest: so many of its files run at a time, each in a process of
                                # its own with fixtures of its own; for tests that mostly wait
  files   = ["docs/*"]          # what it reads besides its folder and crates; for --changed
  lane    = "default"           # or "nightly"
  seconds = 600                 # it fails when it takes longer

Suites of cargo are built by the driver of clippy, so that lints and tests share what is built. Plain
`cargo test` builds the crates of the workspace once more, and shares all others.

A pytest suite may hold a requirements.txt; then it runs in an environment of its own with what that
file names, else in .venv with what tests/requirements.txt names. The last line is always
"N passed, N failed, N skipped"; above it stand the names of the tests that failed.
"""
import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True

import reach  # noqa: E402  pylint: disable=wrong-import-position

VENV = ROOT / ".venv"
WORK = ROOT / ".test"
CARGO_FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$", re.M)
CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
WARNED = re.compile(r"^warning: `.*` \(.*\) generated \d+ warning", re.M)
PLAIN_RESULT = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


class Counts:
    """What came of tests; of those that failed, the names as far as they are known."""

    def __init__(self, passed=0, failed=0, skipped=0, names=()):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.names = list(names)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.names += other.names

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Suite:
    """One folder with a suite.toml."""

    KEYS = {"about", "order", "kind", "command", "args", "tools", "server", "lane", "seconds",
            "cases", "alone", "at_once", "files"}

    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        with open(folder / "suite.toml", "rb") as file:
            facts = tomllib.load(file)
        unknown = set(facts) - self.KEYS
        if unknown or facts.get("kind") not in ("cargo", "command", "lints", "pytest"):
            sys.exit(f"{folder}/suite.toml: unknown keys {sorted(unknown)} or kind {facts.get('kind')}")
        self.about = facts["about"]
        self.kind = facts["kind"]
        self.order = facts.get("order", 50)
        self.command = facts.get("command", [])
        self.args = facts.get("args", [])
        self.cases = ROOT / facts["cases"] if "cases" in facts else folder
        self.tools = facts.get("tools", [])
        self.server = facts.get("server", self.kind == "pytest")
        self.lane = facts.get("lane", "default")
        self.seconds = facts.get("seconds", 900)
        self.is_alone = facts.get("alone", self.kind in ("cargo", "lints"))
        self.at_once = facts.get("at_once", 1)
        self.files = facts.get("files", [])

    def facts(self):
        """Those that decide whether a change reaches it."""
        return reach.Facts(self.name, str(self.folder.relative_to(ROOT)), self.kind,
                           str(self.cases.relative_to(ROOT)), self.server, tuple(self.files),
                           tuple(self.args))

    def missing_tools(self):
        return [tool for tool in self.tools if shutil.which(tool) is None]


def all_suites():
    folders = [path.parent for path in (ROOT / "tests").rglob("suite.toml")]
    return sorted((Suite(folder) for folder in folders), key=lambda s: (s.order, s.name))


def say(text):
    print(text, flush=True)


RUNNING = set()


def end_all():
    """Kills what runs, with all that it has started."""
    for process in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def run(command, seconds, cwd=ROOT, env=None, on_line=None):
    """Runs a command in a process group of its own, with a time limit; its exit code and output."""
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               errors="replace", start_new_session=True)
    RUNNING.add(process)
    late = threading.Event()

    def stop():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, stop)
    timer.start()
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if on_line:
                on_line(line.rstrip("\n"))
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        timer.cancel()
        RUNNING.discard(process)
    if late.is_set():
        lines.append(f"stopped: it took longer than {seconds} s\n")
        code = 124
    return code, "".join(lines)


def python_of(folder):
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"   making {folder.relative_to(ROOT)}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return python


INSTALLING = threading.Lock()


def install(requirements, folder=VENV):
    """Installs a requirements file into an environment, once for each content."""
    with INSTALLING:
        return install_alone(requirements, folder)


def install_alone(requirements, folder):
    python = python_of(folder)
    stamp = folder / (".done-" + hashlib.sha256(requirements.read_bytes()).hexdigest()[:16])
    if not stamp.exists():
        say(f"   installing {requirements.relative_to(ROOT)}")
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
                   "-r", str(requirements)]
        code, output = run(command, 900)
        if code:
            say(output)
            sys.exit(f"could not install {requirements}")
        stamp.touch()
    return python


def build_server(is_release):
    if "NEREID" in os.environ:
        say(f"   the server: {os.environ['NEREID']}")
        return True
    # The program comes with a test of it, built with the features that the tests of all crates have.
    command, env = ["cargo", "test", "--no-run", "--workspace", "--test", "program"], None
    if is_release:
        command = ["cargo", "build", "--release", "-p", "nereid"]
    else:
        env = with_lints(os.environ)
    say(f"   building the server: {' '.join(command)}")
    code, output = run(command, 1800, env=env)
    if code:
        say(output)
    return code == 0


def progress(line):
    """Passes on what tells a watcher that work goes on."""
    if line.startswith(("   Compiling", "     Running", "test result", "error", "warning: unused")):
        say("   " + line.strip()[:110])


def counts_of(output, expression):
    total, found = Counts(), False
    for line in output.splitlines():
        match = expression.match(line.strip())
        if match:
            found = True
            total.add(Counts(*(int(group or 0) for group in match.groups())))
    return total if found else None


def with_lints(env):
    """The environment in which cargo builds the crates of the workspace with the driver of clippy."""
    driver = shutil.which("clippy-driver")
    return dict(env, RUSTC_WORKSPACE_WRAPPER=driver) if driver else env


def run_cargo(suite, args, word, env):
    command = ["cargo", "test", "--no-fail-fast", *args] + ([word] if word else [])
    on_line = progress if suite.is_alone else None
    env = env if "--manifest-path" in args else with_lints(env)
    code, output = run(command, suite.seconds, env=env, on_line=on_line)
    total = counts_of(output, CARGO_RESULT) or Counts()
    total.names = CARGO_FAILED.findall(output)
    if code and not total.failed:
        total.failed = 1
    return total, output


def run_lints(suite, args, env):
    """Cargo repeats the warnings of what it need not build again."""
    command = ["cargo", "test", "--no-run", *args]
    code, output = run(command, suite.seconds, env=with_lints(env), on_line=progress)
    passed = code == 0 and not WARNED.search(output)
    return Counts(passed=int(passed), failed=int(not passed)), output


def run_command(suite, env):
    code, output = run(suite.command, suite.seconds, env=env)
    total = counts_of(output, PLAIN_RESULT) or Counts(passed=int(code == 0))
    if code and not total.failed:
        total.failed = 1
    return total, output


def run_pytest(suite, selected, word, env):
    own = suite.folder / "requirements.txt"
    if own.exists():
        python = install(own, WORK / "environments" / suite.name)
    else:
        python = install(ROOT / "tests" / "requirements.txt")
    files = sorted(suite.cases.rglob("test_*.py"), key=lambda path: -path.stat().st_size)
    if selected or suite.at_once == 1 or len(files) < 2:
        return run_cases(suite, suite.name, python, selected or [suite.cases], word, env)
    # Large ones first: they are likely to be the long ones, and one that comes last is waited for.
    with ThreadPoolExecutor(suite.at_once) as pool:
        done = list(pool.map(lambda path: run_cases(
            suite, f"{suite.name}.{path.stem}", python, [path], word, env), files))
    total = Counts()
    for counts, _ in done:
        total.add(counts)
    # What is too much of it is cut off in front: what failed comes last.
    done.sort(key=lambda it: it[0].failed)
    return total, "".join(output for _, output in done)


def run_cases(suite, name, python, cases, word, env):
    """Runs some files and tests of a suite in one process."""
    report = WORK / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "--no-header", "--tb=short", "-rs",
               "-p", "no:cacheprovider", f"--junitxml={report}", "--rootdir", str(ROOT / "tests")]
    command += suite.args + (["-k", word] if word else [])
    command += [str(case) for case in cases]
    code, output = run(command, suite.seconds, env=env)
    if code == 5 and word:
        return Counts(), output
    try:
        case = ElementTree.parse(report).getroot().find("testsuite")
        tests, errors, failures, skipped = (
            int(case.get(key)) for key in ("tests", "errors", "failures", "skipped"))
        failed = failures + errors
        names = [f"{it.get('classname')}::{it.get('name')}" for it in case.iter("testcase")
                 if it.find("failure") is not None or it.find("error") is not None]
        total = Counts(max(tests - failed - skipped, 0), failed, skipped, names)
    except (OSError, AttributeError, ElementTree.ParseError):
        total = Counts(failed=1)
    if code and not total.failed:
        total.failed = 1
    return total, output


def run_suite(chosen, word, env):
    suite = chosen.suite
    missing = suite.missing_tools()
    if missing:
        return Counts(skipped=1), f"skipped: {suite.name} needs {', '.join(missing)}\n"
    args = reach.narrowed(suite.args, chosen.crates) if chosen.crates else suite.args
    if suite.kind == "cargo":
        return run_cargo(suite, args, word, env)
    if suite.kind == "lints":
        return run_lints(suite, args, env)
    if suite.kind == "command":
        return run_command(suite, env)
    return run_pytest(suite, chosen.selected, word, env)


class Chosen:
    """A suite that is to run, where given only with these tests, or with those of these crates."""

    def __init__(self, suite, selected=(), crates=None):
        self.suite, self.selected, self.crates = suite, list(selected), crates


def select(suites, words, lane):
    """The suites that `words` name, each with the single tests wanted of it."""
    if not words:
        return [Chosen(s) for s in suites if s.lane == "default" or lane == "nightly"]
    chosen = {}
    for word in words:
        path = Path(word.split("::")[0])
        path = (Path.cwd() / path).resolve()
        found = False
        for suite in suites:
            if word == suite.name or suite.folder == path or path in suite.folder.parents:
                chosen.setdefault(suite, [])
                found = True
            elif suite.folder in path.parents and path.exists():
                tail = word[len(word.split("::")[0]):]
                chosen.setdefault(suite, []).append(str(path) + tail)
                found = True
        if not found:
            sys.exit(f"no suite or test is called {word}; ./test.py --list names them")
    return [Chosen(suite, chosen[suite]) for suite in suites if suite in chosen]


def git(*words):
    done = subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def changed_files(base):
    """The files that differ from a commit, those that git does not know yet included."""
    if not base:
        tips = ("@{upstream}", "origin/HEAD", "origin/main", "main", "HEAD")
        base = next(filter(None, (git("merge-base", "HEAD", tip) for tip in tips)), None)
    differ = base and git("diff", "--name-only", "--no-renames", base)
    if differ is None:
        sys.exit(f"git knows no commit {base}")
    say(f"== what changed since {base[:12]} can reach")
    return differ.splitlines() + git("ls-files", "--others", "--exclude-standard").splitlines()


def choose_changed(suites, lane, base):
    """The suites of a lane that what changed can reach."""
    metadata = subprocess.check_output(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, text=True)
    crates = reach.crates_of(json.loads(metadata))
    by_name = {suite.name: suite for suite in suites if lane in ("nightly", suite.lane)}
    facts = [suite.facts() for suite in by_name.values()]
    found = reach.reach(changed_files(base), crates, facts)
    for it in found:
        only = f"; of its crates {', '.join(it.crates)}" if it.crates else ""
        say(f"   {it.name}: {it.why}{only}")
    left = len(by_name) - len(found)
    say(f"   nothing reaches {left} other suites")
    return [Chosen(by_name[it.name], crates=it.crates) for it in found]


class Lane:
    """Suites in their order: as many at a time as `jobs`, those that are alone by themselves."""

    def __init__(self, chosen, arguments):
        self.chosen = chosen
        self.word, self.is_verbose = arguments.word, arguments.verbose
        # Many suites mostly wait.
        self.jobs = arguments.jobs or 3
        self.is_release = arguments.release or arguments.lane == "nightly"
        program = ROOT / "target" / ("release" if self.is_release else "debug") / "nereid"
        self.env = dict(os.environ, PYTHONPATH=str(ROOT / "tests"), PYTHONDONTWRITEBYTECODE="1",
                        NEREID=os.environ.get("NEREID", str(program)))
        self.total, self.server_built, self.printing = Counts(), None, threading.Lock()

    def run(self):
        try:
            left = list(enumerate(self.chosen, 1))
            while left:
                together = list(itertools.takewhile(lambda it: not it[1].suite.is_alone, left))
                together = together or left[:1]
                left = left[len(together):]
                self.run_together(together)
        except BaseException:
            end_all()
            raise
        return self.total

    def run_together(self, numbered):
        if self.server_built is None and any(it.suite.server for _, it in numbered):
            self.server_built = build_server(self.is_release)
        if len(numbered) == 1 or self.jobs == 1:
            for number, it in numbered:
                say(self.heading(number, it))
                say(self.outcome(it))
            return
        with ThreadPoolExecutor(self.jobs) as pool:
            waiting = [pool.submit(self.run_beside, *it) for it in numbered]
            for it in waiting:
                it.result()

    def run_beside(self, number, chosen):
        """Says all of a suite at once, for another one runs beside it."""
        say(f"   {chosen.suite.name} begins")
        outcome = self.outcome(chosen)
        say(f"{self.heading(number, chosen)}\n{outcome}")

    def heading(self, number, chosen):
        return f"== [{number}/{len(self.chosen)}] {chosen.suite.name}: {chosen.suite.about}"

    def outcome(self, chosen):
        """Runs a suite, and says what came of it."""
        name = chosen.suite.name
        if chosen.suite.server and not self.server_built:
            with self.printing:
                self.total.add(Counts(failed=1, names=[f"{name}: the server does not build"]))
            return "   failed: the server does not build"
        begun = time.monotonic()
        counts, output = run_suite(chosen, self.word, self.env)
        counts.names = [f"{name}: {it}" for it in counts.names or [name] * bool(counts.failed)]
        with self.printing:
            self.total.add(counts)
        lines = []
        if counts.failed or self.is_verbose:
            lines.append(output[-20000:])
        else:
            lines += ["   " + line for line in output.splitlines()
                      if line.startswith(("SKIPPED", "skipped:"))]
        lines.append(f"   {name}: {counts} ({time.monotonic() - begun:.0f} s)")
        return "\n".join(lines)


def fuzz(seconds, jobs):
    """Builds the targets of fuzz/ with coverage counters, and runs each for some seconds, so many
    of them at a time."""
    passes = ["passes=sancov-module"] + [f"llvm-args=-sanitizer-coverage-{word}" for word in (
        "level=4", "inline-8bit-counters", "pc-table", "trace-compares")]
    host = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True)).group(1)
    env = dict(os.environ, RUSTFLAGS=" ".join(f"-C{word}" for word in passes))
    say("   building the targets")
    # A target is named, so that build scripts and macros are spared the counters.
    code, output = run(["cargo", "build", "--release", "--target", host], 1800,
                       cwd=ROOT / "fuzz", env=env, on_line=progress)
    if code:
        say(output)
        return Counts(failed=1)
    targets = sorted(path.stem for path in (ROOT / "fuzz" / "targets").glob("*.rs"))
    say(f"== fuzz {len(targets)} targets, {jobs} at a time, for {seconds} s each")
    total = Counts()
    with ThreadPoolExecutor(jobs) as pool:
        for passed in pool.map(lambda target: fuzz_one(target, seconds, host), targets):
            total.add(Counts(passed=int(passed), failed=int(not passed)))
    return total


def fuzz_one(target, seconds, host):
    """Whether a target ran to its end without a crash."""
    found, crashes = WORK / "fuzz" / target, ROOT / "fuzz" / "artifacts" / target
    found.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    command = [str(ROOT / "fuzz" / "target" / host / "release" / target), str(found),
               str(ROOT / "fuzz" / "corpus" / target), f"-max_total_time={seconds}",
               "-rss_limit_mb=2048", "-timeout=10", "-max_len=65536", "-print_final_stats=1",
               f"-artifact_prefix={crashes}/"]
    code, output = run(command, seconds + 300)
    runs = re.search(r"number_of_executed_units: (\d+)", output)
    ended, count = "FAILED" if code else "passed", runs.group(1) if runs else "?"
    say(f"   {target}: {ended}, {count} runs")
    if code:
        say(output[-6000:])
    return code == 0


def sanitize():
    """The tests of the arena, whose dead bytes are poisoned, under the address sanitizer."""
    toolchains = shutil.which("rustup") and subprocess.check_output(
        ["rustup", "toolchain", "list"], text=True)
    if "nightly" not in (toolchains or ""):
        say("   skipped: sanitize needs a nightly toolchain")
        return Counts(skipped=1)
    host = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True)).group(1)
    env = dict(os.environ, RUSTFLAGS="-Zsanitizer=address")
    code, output = run(["cargo", "+nightly", "test", "-p", "memory", "--lib", "--features",
                        "sanitized", "--target", host, "--target-dir", "target/sanitize"],
                       1800, env=env, on_line=progress)
    total = counts_of(output, CARGO_RESULT) or Counts()
    if code:
        say(output[-20000:])
        total.failed = max(total.failed, 1)
    return total


def mend_null_device():
    """Puts the null device back where a file stands in its place: what one program throws away there
    is the next one's standard input, and rustc compiles it."""
    null = Path(os.devnull)
    if null.is_char_device() or not null.parent.is_dir():
        return
    say(f"{null} is not a device: something replaced it by a file. Every program that reads it or "
        "throws output away depends on it.")
    fresh = null.with_name(f".null-{os.getpid()}")
    try:
        os.mknod(fresh, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chmod(fresh, 0o666)
        os.replace(fresh, null)
    except OSError as error:
        sys.exit(f"It cannot be put back ({error}). As root: "
                 f"rm {null} && mknod -m 666 {null} c 1 3")
    say("It was put back.")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="names of suites, folders, or tests")
    parser.add_argument("-k", dest="word", help="only tests whose name holds this word")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    parser.add_argument("--fuzz", nargs="?", const=60, type=int, metavar="SECONDS")
    parser.add_argument("--changed", nargs="?", const="", metavar="BASE",
                        help="only what a change can reach")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="suites (3), or fuzz targets (1), that run at a time")
    parser.add_argument("--release", action="store_true",
                        help="suites over the wire run the release binary")
    parser.add_argument("--sanitize", action="store_true",
                        help="the arena's tests under the address sanitizer, and nothing else")
    parser.add_argument("--lane", choices=["default", "nightly"], default="default")
    parser.add_argument("-v", "--verbose", action="store_true", help="print all output")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    suites = all_suites()
    if arguments.list:
        for suite in suites:
            say(f"{suite.name:12} {suite.lane:8} {suite.about}")
        return 0
    mend_null_device()
    WORK.mkdir(exist_ok=True)
    if arguments.fuzz is not None:
        total = fuzz(arguments.fuzz, max(1, arguments.jobs or 1))
        say(str(total))
        return int(0 < total.failed)
    if arguments.sanitize:
        total = sanitize()
        say(str(total))
        return int(0 < total.failed)
    if arguments.changed is not None:
        chosen = choose_changed(suites, arguments.lane, arguments.changed)
    else:
        chosen = select(suites, arguments.what, arguments.lane)
    started = time.monotonic()
    total = Lane(chosen, arguments).run()
    say(f"all of it took {time.monotonic() - started:.0f} s")
    # Once more, for what was said of them may be far above, or cut off.
    for name in total.names:
        say(f"failed: {name}")
    say(str(total))
    return int(0 < total.failed)


if __name__ == "__main__":
    sys.exit(main())
