"""The checker of histories: it accepts what a register does and finds what none does."""
import random

from linear import CAS, READ, WRITE, Operation, is_linearizable


def history(seed, lies=0):
    """Operations of eight clients on a register that takes each at some time while it runs; of
    every tenth the answer is lost. `lies`: writes that are answered and do not happen."""
    dice = random.Random(seed)
    value, now, operations, fresh = None, 0.0, [], 0
    running = []
    for _ in range(300):
        now += 1
        if len(running) < 8 and dice.random() < 0.6:
            fresh += 1
            kind = dice.choice([READ, WRITE, CAS, CAS])
            expected = value if dice.random() < 0.7 else -1
            arguments = {READ: (), WRITE: (fresh,), CAS: (expected, fresh)}[kind]
            it = Operation(kind, arguments, now)
            operations.append(it)
            running.append([it, False])
            continue
        if not running:
            continue
        pair = dice.choice(running)
        it, happened = pair
        if not happened:
            pair[1] = True
            it.found = None if it.kind == WRITE else (value,)
            if it.kind == CAS:
                it.applied = it.arguments[0] == value
            if it.kind == WRITE and lies:
                lies -= 1
            elif it.kind == WRITE or it.applied:
                value = it.arguments[-1]
        else:
            running.remove(pair)
            if dice.random() < 0.1:
                it.found = it.applied = None
            else:
                it.returned = now
    for it, _ in running:
        it.found = it.applied = None
    operations.append(Operation(READ, (), now + 1, now + 2, (value,)))
    return operations


def test_histories_of_a_register_are_accepted():
    for seed in range(60):
        assert is_linearizable(history(seed)), seed


def test_writes_that_are_lost_are_found():
    found = sum(not is_linearizable(history(seed, lies=3)) for seed in range(60))
    # One that another write covers at once is not to be seen.
    assert found >= 30, found


def test_small_histories():
    def check(expected, *operations):
        assert is_linearizable(list(operations), 0) == expected, operations

    check(True)
    check(True, Operation(READ, (), 1, 2, (0,)))
    check(False, Operation(READ, (), 1, 2, (1,)))
    write = Operation(WRITE, (1,), 1, 4)
    # While it runs both values can be read, but the old one not after the new one.
    check(True, write, Operation(READ, (), 2, 3, (0,)), Operation(READ, (), 2, 3, (1,)))
    check(False, write, Operation(READ, (), 1.5, 2, (1,)), Operation(READ, (), 2.5, 3, (0,)))
    check(False, write, Operation(READ, (), 5, 6, (0,)))
    # Without an answer it may come late, or never, but not before its call.
    unknown = Operation(WRITE, (1,), 3)
    check(True, unknown, Operation(READ, (), 4, 5, (0,)), Operation(READ, (), 9, 10, (1,)))
    check(True, unknown, Operation(READ, (), 9, 10, (0,)))
    check(False, unknown, Operation(READ, (), 1, 2, (1,)))
    # Two cannot both take the register from one value.
    check(False, Operation(CAS, (0, 1), 1, 5, (0,), True),
          Operation(CAS, (0, 2), 1, 5, (0,), True))
    check(True, Operation(CAS, (0, 1), 1, 5, (0,), True),
          Operation(CAS, (0, 2), 1, 5, (1,), False))
    # What a refused one shows was there.
    check(False, Operation(CAS, (5, 1), 1, 2, (7,), False))
