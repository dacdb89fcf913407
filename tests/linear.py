"""Whether a history of one register's operations is linearizable: whether there is an order of
them that explains every answer, in which each stands between its call and its return.

The search is Wing and Gong's with a memory of what was tried: take the first operation that may
come next, and go back where no operation can. An operation without an answer may have happened at
any time after its call, or never.
"""
from dataclasses import dataclass
from typing import Any

READ, WRITE, CAS = "read", "write", "cas"


@dataclass
class Operation:
    """`kind` with its arguments: `read` none, `write` a value, `cas` expected and new value.

    `found` is what the register held before; of a `write` it is not known (None is a value: so it
    is in a tuple). `applied` is of `cas`. Without `returned` nothing is known of the outcome.
    """
    kind: str
    arguments: tuple
    called: float
    returned: float | None = None
    found: tuple | None = None
    applied: bool | None = None

    def step(self, value):
        """(whether the answer fits a register that holds `value`, what it holds then)"""
        if self.found is not None and self.found[0] != value:
            return False, value
        if self.kind == READ:
            return True, value
        if self.kind == WRITE:
            return True, self.arguments[0]
        fits = self.arguments[0] == value
        if self.applied is not None and self.applied != fits:
            return False, value
        return True, self.arguments[1] if fits else value


def observed(operations):
    """The values that any answer shows."""
    values = set()
    for it in operations:
        if it.returned is None:
            continue
        if it.found is not None:
            values.add(it.found[0])
        if it.kind == CAS and it.applied:
            values.add(it.arguments[0])
    return values


def relevant(operations):
    """Without those of unknown outcome that may as well never have happened: nobody saw what they
    wrote, nor what came of it. Values are written once, so that this is no guess."""
    seen = observed(operations)
    unknown = [it for it in operations if it.returned is None and it.kind != READ]
    before = None
    while before != len(seen):
        before = len(seen)
        seen |= {it.arguments[0] for it in unknown if it.kind == CAS and it.arguments[1] in seen}
    return [it for it in operations
            if it.returned is not None or (it.kind != READ and it.arguments[-1] in seen)]


@dataclass
class Event:
    operation: int
    is_call: bool
    before: Any = None
    after: Any = None


def _list_of(operations):
    """The events in order of time, linked, behind a head that is none."""
    events = []
    for index, it in enumerate(operations):
        events.append((it.called, 0, Event(index, True)))
        if it.returned is not None:
            events.append((it.returned, 1, Event(index, False)))
    events.sort(key=lambda event: event[:2])
    head = last = Event(-1, True)
    returns = {}
    for _, _, event in events:
        last.after, event.before = event, last
        last = event
        if not event.is_call:
            returns[event.operation] = event
    return head, returns


def _take_out(event):
    event.before.after = event.after
    if event.after is not None:
        event.after.before = event.before


def _put_back(event):
    event.before.after = event
    if event.after is not None:
        event.after.before = event


def is_linearizable(operations, value=None):
    """Whether an order explains the answers, of a register that holds `value` at first."""
    operations = relevant(operations)
    head, returns = _list_of(operations)
    left = len(returns)
    done, tried, taken = 0, set(), []
    event = head.after
    while left:
        if event is not None and event.is_call:
            fits, after = operations[event.operation].step(value)
            key = (done | 1 << event.operation, after)
            if fits and key not in tried:
                tried.add(key)
                taken.append((event, value))
                done, value = key
                _take_out(event)
                if event.operation in returns:
                    _take_out(returns[event.operation])
                    left -= 1
                event = head.after
            else:
                event = event.after
            continue
        # A return whose operation is not taken yet, or the end: what was taken last was wrong.
        if not taken:
            return False
        event, value = taken.pop()
        done &= ~(1 << event.operation)
        if event.operation in returns:
            _put_back(returns[event.operation])
            left += 1
        _put_back(event)
        event = event.after
    return True
