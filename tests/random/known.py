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
    Known("cassandra", r"Missing sub-option 'class' for the 'compression' option",
          "ScyllaDB's older name of the class, sstable_compression, is taken here."),
    Known("cassandra", "ClassCastException",
          "An empty map in a key, written as {}, is a server error there."),
    Known("cassandra", r"Cannot drop non-frozen column \w+ of user type",
          "A column of a user type that is not frozen can be dropped here, as in ScyllaDB."),
    Known("cassandra", r"Cannot restrict clustering columns when selecting only static columns",
          "What such a restriction leaves of the rows is found here."),
    Known("cassandra", r"Invalid value for the paging state",
          "It does not take back its own paging state of some groups."),
    Known("cassandra", r"Cannot add a column '\w+' of type .*, incompatible with previously dropped",
          "A dropped column of user types is kept as one of tuples there, and cannot come back."),
    Known("cassandra", r"Server error. message=.java\.lang\.IndexOutOfBoundsException",
          "A conditional batch whose conditions are on an element of a static map and on rows that "
          "are not there is a server error there."),
    Known("cassandra", r"code=1300 .*Operation failed - received 0 responses and 1 failures: UNKNOWN",
          "An exception within Cassandra; its log has it. A read does nothing."),
]

ANSWERS = [
    Known("cassandra", "the sum is too large",
          "A sum beyond its type wraps around there; it is refused here, as in ScyllaDB."),
]


def is_answer(server, refused, answer):
    """Whether that server is known to answer what the model refuses."""
    return isinstance(answer[0], list) and any(
        k.server == server and k.words in str(refused) for k in ANSWERS)


def is_refusal(server, answer):
    kind, told = answer
    return not isinstance(kind, list) and any(
        k.server == server and re.search(k.words, str(told)) for k in REFUSALS)
