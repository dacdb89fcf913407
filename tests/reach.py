"""Which suites a change can reach: from changed files, the graph of crates and the facts of suites to
what is to run, and why. Decides only; `./test.py --changed` obeys.

A suite is reached by
  - a file in its folder, in the folder of its cases, or that its `files` name;
  - a file beside a folder above it (`tests/node.py`), if it is a suite of Python or needs the server;
  - a crate that the server is built from, if it needs the server;
  - for the suites of cargo: a crate. Those whose tests are built from it are run, and no others.
"""
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

# What every crate is built with.
ALL_CRATES = ("Cargo.toml", "Cargo.lock", "rust-toolchain*", ".cargo/*")
# What runs the suites.
ALL_SUITES = ("test.py", "tests/reach.py")
# Parts of a crate's folder that only its own tests are built from.
OWN = ("tests", "benches", "examples")
SERVER = "nereid"


@dataclass(frozen=True)
class Crate:
    """A crate of the workspace, and those that it and its tests are built from directly."""
    name: str
    folder: str
    needs: frozenset = frozenset()
    tests_need: frozenset = frozenset()


@dataclass(frozen=True)
class Facts:
    """What matters here of a suite.toml."""
    name: str
    folder: str
    kind: str
    cases: str = ""
    server: bool = False
    files: tuple = ()
    args: tuple = ()


@dataclass
class Reached:
    """A suite that is to run; `crates` are the only ones of a suite of cargo, if not None."""
    name: str
    why: str
    crates: list = field(default=None)


def crates_of(metadata):
    """The crates in what `cargo metadata --no-deps` prints."""
    root = PurePosixPath(metadata["workspace_root"])
    names = {package["name"] for package in metadata["packages"]}
    crates = []
    for package in metadata["packages"]:
        own = [needed for needed in package["dependencies"]
               if needed["name"] in names and needed.get("path")]
        crates.append(Crate(
            package["name"],
            str(PurePosixPath(package["manifest_path"]).parent.relative_to(root)),
            frozenset(needed["name"] for needed in own if needed["kind"] != "dev"),
            frozenset(needed["name"] for needed in own if needed["kind"] == "dev")))
    return crates


def built_from(crates, names):
    """Those crates and all that they are built from."""
    needs = {crate.name: crate.needs for crate in crates}
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs[name]
    return found


def matches(path, patterns):
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def is_in(path, folder):
    return path.startswith(folder + "/")


def split_by_crates(paths, crates):
    """For each crate that was changed one of its files: those that others are built from too, and
    those that only its own tests are."""
    shared, own = {}, {}
    for path in paths:
        for crate in crates:
            if matches(path, ALL_CRATES):
                shared.setdefault(crate.name, path)
            elif is_in(path, crate.folder):
                part = path[len(crate.folder) + 1:].split("/")[0]
                (own if part in OWN else shared).setdefault(crate.name, path)
    return shared, own


def tested(crates, shared, own):
    """The crates whose tests are built from what was changed, with a file of each as the reason."""
    found = {}
    for crate in crates:
        if crate.name in own:
            found[crate.name] = own[crate.name]
        for needed in sorted(built_from(crates, {crate.name} | crate.tests_need) & set(shared)):
            found.setdefault(crate.name, shared[needed])
    return found


def of_files(suite, paths):
    """Why a suite is reached by files of its own, if it is."""
    above = [str(folder) for folder in PurePosixPath(suite.folder).parents if str(folder) != "."]
    for path in paths:
        if matches(path, ALL_SUITES):
            return f"{path} runs it"
        if is_in(path, suite.folder) or (suite.cases and is_in(path, suite.cases)):
            return f"{path} is its own"
        if matches(path, suite.files):
            return f"it reads {path}"
        if (suite.server or suite.kind == "pytest") and str(PurePosixPath(path).parent) in above:
            return f"it uses {path}"
    return None


def crates_named(suite, crates):
    """The crates that a suite of cargo tests, as its arguments say."""
    arguments = list(suite.args)
    if "--manifest-path" in arguments:
        return []
    def after(flag):
        return {arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word == flag}
    names = [crate.name for crate in crates]
    if "--workspace" in arguments:
        return [name for name in names if name not in after("--exclude")]
    return [name for name in names if name in after("-p")]


def reach(paths, crates, suites):
    """The suites that changes of these files can reach, in the order of `suites`."""
    paths = sorted(paths)
    shared, own = split_by_crates(paths, crates)
    tests = tested(crates, shared, own)
    served = sorted(built_from(crates, [SERVER]) & set(shared))
    found = []
    for suite in suites:
        why = of_files(suite, paths)
        if why is None and suite.server and served:
            why = f"the server is built from {shared[served[0]]}"
        named = crates_named(suite, crates) if suite.kind == "cargo" else []
        if why is None and named:
            some = [name for name in named if name in tests]
            if some:
                reason = f"{some[0]} is tested with {tests[some[0]]}"
                found.append(Reached(suite.name, reason, None if some == named else some))
        elif why is not None:
            found.append(Reached(suite.name, why))
    return found


def narrowed(args, names):
    """The arguments of a suite of cargo for these crates alone."""
    kept, left = [], list(args)
    while left:
        word = left.pop(0)
        if word in ("-p", "--exclude"):
            left.pop(0)
        elif word != "--workspace":
            kept.append(word)
    return [word for name in names for word in ("-p", name)] + kept
