"""Makes a failing list of statements short: `shrink(items, fails)` removes what is not needed.

`fails(items)` says whether a list still fails. The result fails, and with any single item of it
removed, or replaced by any of its `smaller` forms, it does not.
"""
from statements import flat


def shrink(items, fails, seconds_left=lambda: 1):
    size = max(1, len(items) // 2)
    while True:
        at, changed = 0, False
        while at < len(items) and 0 < seconds_left():
            rest = items[:at] + items[at + size:]
            if rest and fails(rest):
                items, changed = rest, True
            else:
                at += size
        if size == 1 and not changed:
            return items
        if seconds_left() <= 0:
            return items
        size = max(1, size // 2)


def simplify(items, fails, seconds_left=lambda: 1):
    """Replaces single statements by smaller ones for as long as that still fails."""
    changed = True
    while changed and 0 < seconds_left():
        changed = False
        for at, item in enumerate(items):
            for form in smaller(item):
                if 0 < seconds_left() and fails(items[:at] + [form] + items[at + 1:]):
                    items, changed = items[:at] + [form] + items[at + 1:], True
                    break
    return items


def smaller(s):
    """Statements that say a little less."""
    if s["kind"] == "batch":
        if len(flat(s)) == 1 and s.get("ts") is None:
            yield dict(flat(s)[0], bound=s["bound"])
        for at in range(len(flat(s))):
            if 1 < len(flat(s)):
                yield dict(s, statements=flat(s)[:at] + flat(s)[at + 1:])
        return
    for name in ("columns", "sets", "targets", "if", "where", "select", "values"):
        found = s.get(name) or []
        for at in range(len(found)):
            if 1 < len(found) and s["kind"] in ("create", "update", "delete", "insert", "select"):
                if s.get("json") or name in ("where", "values") and (
                        s["kind"] != "select" and is_key(found[at])):
                    continue
                yield dict(s, **{name: found[:at] + found[at + 1:]})
    for name in ("ts", "ttl", "limit", "per_partition", "page", "order"):
        if s.get(name) is not None and not (name == "order" and s.get("reversed")):
            yield dict(s, **{name: None})
    if s.get("bound"):
        yield dict(s, bound=False)


def is_key(item):
    """Whether a value or a relation is of a key: these have names of their own."""
    name = item.columns[0] if hasattr(item, "columns") else item[0]
    return name[0] in "pck"
