"""Differences that are known, each with its reason. A statement so refused did nothing.

An entry goes when its fault is mended; `test_random.py` checks that each still happens where that
can be checked with one statement.
"""
import re
from collections import namedtuple

Known = namedtuple("Known", "server words reason")

REFUSALS = [
    Known("cassandra", r"Cannot mix IF (EXISTS|NOT EXISTS|conditions)",
          "Conditions that cannot hold together are refused there and do not apply here, as in "
          "ScyllaDB."),
]


def is_refusal(server, answer):
    kind, told = answer
    return kind == "Invalid" and any(
        k.server == server and re.search(k.words, str(told)) for k in REFUSALS)
