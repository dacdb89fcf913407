#!/usr/bin/env python3
"""Runs a driver's exercise against a node of its own: external.py FOLDER COMMAND...

The command runs in the folder with the node's address and port as its last arguments, and prints
"N passed, N failed". Items of the DynamoDB API expire, and appear in streams, without the usual delay;
tables that say so get more tablets without it.
"""
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from node import Node  # noqa: E402  (the path has to be set first)

OPTIONS = ["--alternator-ttl-period-in-seconds", "0.5", "--alternator-streams-time-window-s", "0",
           "--tablet-load-stats-refresh-interval-in-seconds", "1"]


def main():
    folder, command = HERE / sys.argv[1], sys.argv[2:]
    if (folder / "package.json").exists() and not (folder / "node_modules").exists():
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
    separator = ["--"] if command[0] == "cargo" else []
    with Node(*OPTIONS) as node:
        done = subprocess.run([*command, *separator, node.address, str(node.port)], cwd=folder,
                              check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
