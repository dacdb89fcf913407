#!/usr/bin/env python3
"""Builds and runs the exercise of the Maven project in the current folder: run.py PROFILE ADDRESS PORT.
PROFILE is "-" where the project has none. What the registry does not have is skipped by name."""
import subprocess
import sys
from pathlib import Path

PROFILE, *ARGUMENTS = sys.argv[1:]
MAVEN = ["mvn", "-q", "-B", *([] if PROFILE == "-" else [f"-P{PROFILE}"])]

resolved = subprocess.run([*MAVEN, "dependency:resolve"], capture_output=True, text=True, check=False)
if resolved.returncode:
    print(f"skipped: {Path.cwd().name} {PROFILE}: {resolved.stdout[-500:]}")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
done = subprocess.run([*MAVEN, "compile", "exec:java", f"-Dexec.args={' '.join(ARGUMENTS)}"],
                      check=False)
sys.exit(done.returncode)
