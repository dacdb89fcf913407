#!/usr/bin/env python3
"""Runs the tests of other languages' projects: counted.py go|maven FOLDER...

Prints what failed, and at last "N passed, N failed, N skipped".
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUREFIRE = re.compile(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$")


def run(command, folder):
    return subprocess.run(command, cwd=ROOT / folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def go(folder):
    """Passed, failed and skipped tests of a module, and what they printed."""
    done = run(["go", "test", "-count=1", "-json", "./..."], folder)
    counts, text = {"pass": 0, "fail": 0, "skip": 0}, []
    for line in done.stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            text.append(line + "\n")
            continue
        text.append(event.get("Output", ""))
        if "Test" in event and event["Action"] in counts:
            counts[event["Action"]] += 1
    return done.returncode, list(counts.values()), "".join(text)


def maven(folder):
    """The same of a Maven project, with modules."""
    done = run(["mvn", "-q", "-B", "-Dsurefire.printSummary=true", "-Dstyle.color=never", "clean", "verify"],
               folder)
    counts = [0, 0, 0]
    for report in (ROOT / folder).glob("*/target/surefire-reports/*.txt"):
        for line in report.read_text().splitlines():
            found = SUREFIRE.search(line.split(", Time elapsed")[0])
            if found:
                run_count, failures, errors, skipped = map(int, found.groups())
                counts[0] += run_count - failures - errors - skipped
                counts[1] += failures + errors
                counts[2] += skipped
    return done.returncode, counts, done.stdout


def main():
    total = [0, 0, 0]
    for folder in sys.argv[2:]:
        code, counts, text = {"go": go, "maven": maven}[sys.argv[1]](folder)
        if code and not counts[1]:
            counts[1] = 1
        if counts[1]:
            print(text)
        total = [a + b for a, b in zip(total, counts)]
    print("{} passed, {} failed, {} skipped".format(*total))
    return int(0 < total[1])


if __name__ == "__main__":
    sys.exit(main())
