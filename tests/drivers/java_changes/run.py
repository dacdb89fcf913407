#!/usr/bin/env python3
"""Copies the library, and goes on as other exercises of Maven do: run.py ADDRESS PORT. Maven looks
for what was copied before it begins, so this is a run of its own. The other skips without it."""
import subprocess
import sys

subprocess.run(["mvn", "-q", "-B", "validate"], capture_output=True, check=False)
done = subprocess.run([sys.executable, "../java/run.py", "-", *sys.argv[1:]], check=False)
sys.exit(done.returncode)
