#!/usr/bin/env python3
"""Puts random requests to a node and to DynamoDB Local, and tells where the answers differ.

    PYTHONPATH=tests tests/dynamodb_oracle/oracle.py [--seeds 0 99] [--requests 200] [--all]

A seed gives one table and its requests, always the same ones. A difference that `explained.py` knows
is counted; each other one is shown with its seed and its number, and the program fails. `--all`: it
does not end at the first of a seed.
"""
import argparse
import collections
import contextlib
import json
import random
import re
import sys
import time
from decimal import Context, Decimal

import explained
from explained import CANCELLED, CONDITION
from asks import Asks
from local import Door, DynamoDbLocal
from node import Node

PAGES_MAX = 60
EXACT = Context(prec=60)
NUMBER = re.compile(r'\{"N": "([^"]*)"\}')
PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?")
# An index follows its table.
SECONDS_OF_INDEX = 5


def number(text):
    """The number itself. DynamoDB Local writes many as they were given."""
    sign, digits, exponent = Decimal(text).as_tuple()
    return EXACT.normalize(Decimal((sign if any(digits) else 0, digits, exponent))).to_eng_string()


def check_numbers(answer):
    """We write a number without an exponent and without zeros that say nothing."""
    for text in NUMBER.findall(json.dumps(answer.body)):
        assert PLAIN.fullmatch(text), f"a number is written {text}"


def canonical(value):
    """An answer in which sets have an order, and numbers one form."""
    if isinstance(value, dict):
        if len(value) == 1:
            (kind, parts), = value.items()
            if kind == "NS" and isinstance(parts, list):
                return {kind: sorted(map(number, parts))}
            if kind in ("SS", "BS") and isinstance(parts, list):
                return {kind: sorted(parts)}
            if kind == "N":
                return {kind: number(parts)}
        return {name: canonical(part) for name, part in value.items()}
    if isinstance(value, list):
        return [canonical(part) for part in value]
    return value


def shape(text):
    """A message without what it is about."""
    return re.sub(r"\{.*\}|\[.*\]|\'.*\'|:v\d|#n\d|oracle.\d+|index\d", "X", text or "")


def text_of(value):
    return json.dumps(value, sort_keys=True)


def without_empty_end(pages):
    """Whether the page with the last item says that more may come, when it has as many as its Limit,
    is not defined; we say so where we have not looked further."""
    if len(pages) < 2 or pages[-1].get("ScannedCount") != 0:
        return pages
    last = {name: part for name, part in pages[-2].items() if name != "LastEvaluatedKey"}
    return [*pages[:-2], last]


class Answers:
    """All pages of a request."""

    def __init__(self, door, operation, request):
        self.pages, self.failed = [], None
        request = dict(request)
        while len(self.pages) < PAGES_MAX:
            answer = door.ask(operation, request)
            if answer.error:
                self.failed = answer
                return
            door.check(answer)
            self.pages.append(canonical(answer.body))
            if operation == "DeleteItem" and "ReturnConsumedCapacity" not in request:
                # DynamoDB Local tells it without having been asked.
                self.pages[-1].pop("ConsumedCapacity", None)
            after = answer.body.get("LastEvaluatedKey")
            if operation not in ("Query", "Scan") or not after:
                return
            request["ExclusiveStartKey"] = after
        raise AssertionError(f"more than {PAGES_MAX} pages")

    def whole(self, has_order):
        """What all pages say: each of them where there is an order, else together."""
        if self.failed:
            body = canonical(self.failed.body)
            # They end a sentence with a full stop in some of them, and say less of what is wrong.
            reasons = [{name: part for name, part in it.items() if name != "Message"}
                       for it in body.get("CancellationReasons", [])]
            return {"error": self.failed.error, "status": self.failed.status,
                    "item": body.get("Item"), "reasons": reasons}
        if has_order:
            return {"pages": without_empty_end(self.pages)}
        items = [item for page in self.pages for item in page.get("Items", [])]
        return {"items": sorted(items, key=text_of), "has": "Items" in self.pages[0],
                **{name: sum(page.get(name, 0) for page in self.pages)
                   for name in ("Count", "ScannedCount")}}

    def order(self, name):
        """The values of an attribute in the order of the items."""
        items = [item for page in self.pages for item in page.get("Items", [])]
        return [item.get(name) for item in items]

    def show(self):
        return f"{self.failed} {json.dumps(self.failed.body)}" if self.failed else json.dumps(self.pages)


class Run:
    """One seed."""

    def __init__(self, seed, ours, theirs):
        self.seed, self.ours, self.theirs = seed, ours, theirs
        self.asks = Asks(random.Random(seed), f"oracle.{seed}")
        self.table = self.asks.table
        self.counts, self.messages = collections.Counter(), collections.Counter()

    def differences(self, requests):
        """Each request of which the answers differ, and nothing explains it."""
        create = self.table.request()
        for door in (self.theirs, self.ours):
            answer = door.ask("CreateTable", create)
            assert not answer.error, f"seed {self.seed}: {answer} to {json.dumps(create)}"
        for number in range(requests):
            operation, request = self.asks.next()
            found = self.put_and_look(operation, request)
            self.counts["requests"] += 1
            if found:
                yield Difference(self, number, operation, request, *found)
                self.all_same()
        for door in (self.theirs, self.ours):
            door.ask("DeleteTable", {"TableName": self.table.name})

    def put(self, operation, request):
        """The answers of a request, if they differ."""
        if operation == "Scan" and "Segment" in request and request.get("TotalSegments", 0) > 1:
            return self.put_segments(request)
        theirs = Answers(self.theirs, operation, request)
        deadline = time.monotonic() + SECONDS_OF_INDEX
        while True:
            ours = Answers(self.ours, operation, request)
            if not self.differ(operation, request, ours, theirs):
                return self.same(ours, theirs)
            is_late = self.is_late(request) and not ours.failed and not theirs.failed
            if not is_late or deadline < time.monotonic():
                break
            time.sleep(0.02)
        return None if self.is_explained(operation, request, ours, theirs) else (ours, theirs)

    def is_explained(self, operation, request, ours, theirs):
        reason = explained.reason(operation, request, ours, theirs, self.index(request))
        if not reason and self.is_lost_between_pages(operation, request, ours):
            reason = explained.LOST_BETWEEN_PAGES
        if not reason and self.is_of_other_order(operation, request, ours):
            reason = explained.OTHER_ORDER
        if reason:
            self.counts[reason] += 1
            self.all_same()
        return bool(reason)

    def is_lost_between_pages(self, operation, request, ours):
        """Whether pages of an index differ, and without a limit both have what our pages have."""
        if operation != "Query" or ours.failed or not {"Limit", "IndexName"} <= set(request):
            return False
        whole = {name: part for name, part in request.items() if name != "Limit"}
        both = [Answers(door, operation, whole) for door in (self.ours, self.theirs)]
        if any(answers.failed for answers in both):
            return False
        all_ours, all_theirs = (answers.whole(False) for answers in both)
        return ours.whole(False) == all_ours == all_theirs

    def is_of_other_order(self, operation, request, part):
        """Whether a scan starts after a key, has the end of what our scan has without that, and both
        have the same items then."""
        if operation != "Scan" or "ExclusiveStartKey" not in request or part.failed:
            return False
        whole = {name: part for name, part in request.items() if name != "ExclusiveStartKey"}
        ours, theirs = (Answers(door, operation, whole) for door in (self.ours, self.theirs))
        if ours.failed or theirs.failed or ours.whole(False) != theirs.whole(False):
            return False
        part, whole = ([item for page in it.pages for item in page.get("Items", [])]
                       for it in (part, ours))
        return len(part) <= len(whole) and whole[len(whole) - len(part):] == part

    def same(self, ours, theirs):
        """The answers, if only their messages differ that should not."""
        if not ours.failed:
            self.counts["answers"] += 1
            return None
        self.counts["errors"] += 1
        we, they = ours.failed.message, theirs.failed.message
        if we != they:
            self.messages[(shape(we), shape(they))] += 1
        # Others are worded differently by their many versions; a program may read these.
        is_fixed = ours.failed.error in (CONDITION, CANCELLED)
        return (ours, theirs) if is_fixed and we != they else None

    def put_segments(self, request):
        """Segments hold other items than theirs: all of them together hold the same."""
        wholes = []
        for door in (self.ours, self.theirs):
            parts = [Answers(door, "Scan", request | {"Segment": segment})
                     for segment in range(request["TotalSegments"])]
            whole = parts[0]
            if not any(part.failed for part in parts):
                whole.pages = [page for part in parts for page in part.pages]
            wholes.append(whole)
        if not self.differ("Scan", request, *wholes):
            return self.same(*wholes)
        return None if self.is_explained("Scan", request, *wholes) else wholes

    def index(self, request):
        return next((it for it in self.table.indexes if it.name == request.get("IndexName")), None)

    def is_late(self, request):
        index = self.index(request)
        return index is not None and index.is_global

    def differ(self, operation, request, ours, theirs):
        """Whether they do. Items with the same key of an index have no order, nor have those of a
        scan."""
        index = self.index(request)
        has_order = operation != "Scan" and index is None
        views = [text_of(self.view(it, operation, has_order)) for it in (ours, theirs)]
        if operation == "Query" and index and len(index.key) > 1 and views[0] == views[1]:
            return ours.order(index.key[1][0]) != theirs.order(index.key[1][0])
        return views[0] != views[1]

    def view(self, answers, operation, has_order):
        whole = answers.whole(has_order)
        if operation == "BatchGetItem" and not answers.failed:
            for page in whole["pages"]:
                page["Responses"] = {name: sorted(items, key=text_of)
                                     for name, items in page["Responses"].items()}
        return whole

    def put_and_look(self, operation, request):
        """The answers of a request if they differ, or those that tell what it has written."""
        found = self.put(operation, request)
        for key in self.written(operation, request) if found is None else ():
            get = {"TableName": self.table.name, "Key": key, "ConsistentRead": True}
            self.counts["requests"] += 1
            ours, theirs = (Answers(door, "GetItem", get) for door in (self.ours, self.theirs))
            if self.differ("GetItem", get, ours, theirs):
                reason = explained.written(operation, request, ours, theirs)
                if not reason:
                    return ours, theirs
                self.counts[reason] += 1
                self.make_same(key)
        return found

    def written(self, operation, request):
        """The keys that a request may have written."""
        names = [name for name, _ in self.table.key]
        if operation in ("PutItem", "UpdateItem", "DeleteItem"):
            parts = [request]
        elif operation == "BatchWriteItem":
            parts = [part for it in request.get("RequestItems", {}).get(self.table.name, [])
                     for part in it.values()]
        elif operation == "TransactWriteItems":
            parts = [part for it in request.get("TransactItems", []) for part in it.values()]
        else:
            return []
        keys = [part.get("Key") or part.get("Item") or {} for part in parts]
        keys = [{name: key.get(name) for name in names} for key in keys]
        keys = [key for key in keys if all(key.values())]
        return [key for key in keys if all(
            kind in value for (_, kind), value in zip(self.table.key, key.values()))]

    def make_same(self, key):
        """Gives us the item that they have, or both none where we refuse it, so that one difference
        does not bring others."""
        facts = {"TableName": self.table.name, "Key": key}
        item = self.theirs.ask("GetItem", facts | {"ConsistentRead": True}).body.get("Item")
        put = item and self.ours.ask("PutItem", {"TableName": self.table.name, "Item": item})
        if not put or put.error:
            self.ours.ask("DeleteItem", facts)
            self.theirs.ask("DeleteItem", facts)

    def all_same(self):
        """As `make_same`, of all items."""
        scan = {"TableName": self.table.name, "ConsistentRead": True}
        ours, theirs = (
            {self.key_of(item): item for page in Answers(door, "Scan", scan).pages
             for item in page["Items"]} for door in (self.ours, self.theirs))
        for key in {**ours, **theirs}:
            if text_of(ours.get(key)) != text_of(theirs.get(key)):
                self.make_same(json.loads(key))

    def key_of(self, item):
        return text_of({name: item[name] for name, _ in self.table.key})


class Difference:
    def __init__(self, run, number, operation, request, ours, theirs):
        self.place = f"seed {run.seed}, request {number}"
        self.operation, self.request = operation, request
        self.ours, self.theirs = ours, theirs

    def __str__(self):
        return (f"{self.place}: {self.operation} {json.dumps(self.request)}\n"
                f"    we:   {self.ours.show()}\n    they: {self.theirs.show()}")


@contextlib.contextmanager
def serving(address=None, port=None):
    """Doors to a node and to DynamoDB Local: to those that run there, or to new ones."""
    with contextlib.ExitStack() as stack:
        address = address or stack.enter_context(Node()).address
        port = port or stack.enter_context(DynamoDbLocal()).port
        ours = Door(address, 8000)
        ours.check = check_numbers
        yield ours, Door("127.0.0.1", port)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 19])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--messages", type=int, default=0, help="so many that are worded differently")
    parser.add_argument("--node", help="the address of one that runs")
    parser.add_argument("--local", type=int, help="the port of DynamoDB Local, if it runs")
    arguments = parser.parse_args()
    counts, messages, failed = collections.Counter(), collections.Counter(), 0
    with serving(arguments.node, arguments.local) as (ours, theirs):
        for seed in range(arguments.seeds[0], arguments.seeds[1] + 1):
            run = Run(seed, ours, theirs)
            for difference in run.differences(arguments.requests):
                print(difference, flush=True)
                failed += 1
                if not arguments.all:
                    break
            counts += run.counts
            messages += run.messages
    for (we, they), count in messages.most_common(arguments.messages):
        print(f"{count:8} {we}\n         {they}")
    for name, count in counts.most_common():
        print(f"{count:8} {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
