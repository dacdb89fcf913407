"""PartiQL: statements do what the operations do that they are equal to."""
import random
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError
from door import dynamodb, table
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
sys.path.insert(0, str(Path(__file__).parents[1] / "metrics"))
from scraped import total  # noqa: E402  pylint: disable=wrong-import-position
from trio import Nodes  # noqa: E402  pylint: disable=wrong-import-position


@pytest.fixture(scope="module")
def node():
    with Node() as node:
        yield node


class Statements:
    """Statements on tables that are called `t` and `u` in them."""

    def __init__(self, t, u=None):
        self.client = t.meta.client
        self.names = {"t": t.name, "u": u.name if u else ""}

    def text(self, text):
        for short, name in self.names.items():
            text = text.replace(f" {short} ", f' "{name}" ').replace(f" {short}.", f' "{name}".')
        return text

    def page(self, text, *parameters, **facts):
        if parameters:
            facts["Parameters"] = list(parameters)
        return self.client.execute_statement(Statement=self.text(text + " ").strip(), **facts)

    def __call__(self, text, *parameters, **facts):
        return self.page(text, *parameters, **facts)["Items"]

    def fails(self, kind, text, *parameters, **facts):
        with pytest.raises(ClientError) as raised:
            self(text, *parameters, **facts)
        assert raised.value.response["Error"]["Code"] == kind, raised.value
        return raised.value.response

    def batch(self, *texts, **facts):
        statements = [{"Statement": self.text(text + " ").strip()} for text in texts]
        return self.client.batch_execute_statement(Statements=statements, **facts)["Responses"]

    def transaction(self, *texts, **facts):
        statements = [{"Statement": self.text(text + " ").strip()} for text in texts]
        return self.client.execute_transaction(TransactStatements=statements, **facts)["Responses"]


def test_items_are_inserted_read_updated_and_deleted(node):
    with table(dynamodb(node), range_type="N") as t:
        do = Statements(t)
        assert not do("INSERT INTO t VALUE {'p': 'a', 'c': 1, 'n': 1.50, 's': <<'x', 'y'>>, "
                      "'m': {'l': [1, 'b', true, null]}, 'q': ?}", b"bytes")
        item = {"p": "a", "c": 1, "n": Decimal("1.5"), "s": {"x", "y"},
                "m": {"l": [1, "b", True, None]}, "q": b"bytes"}
        assert t.get_item(Key={"p": "a", "c": 1})["Item"] == item
        assert do("SELECT * FROM t WHERE p = 'a' AND c = 1") == [item]
        assert do("SELECT n, m.l[1], m.l[0] FROM t WHERE p = ?", "a") == [
            {"n": Decimal("1.5"), "l[1]": "b", "l[0]": 1}]
        error = do.fails("DuplicateItemException", "INSERT INTO t VALUE {'p': 'a', 'c': 1}")
        assert error["Error"]["Message"] == "Duplicate primary key exists in table"
        key = "WHERE p = 'a' AND c = 1"
        assert not do(f"UPDATE t SET n = n + 1, o = 2 REMOVE q {key}")
        assert do(f"UPDATE t SET n = n - 0.5 {key} RETURNING MODIFIED NEW *") == [{"n": 2}]
        assert do(f"UPDATE t SET m.l = list_append(m.l, [2]) {key} RETURNING MODIFIED OLD *") == [
            {"m": {"l": [1, "b", True, None]}}]
        assert do(f"UPDATE t SET s = set_add(s, <<'z'>>) REMOVE m REMOVE o {key} "
                  "RETURNING ALL NEW *") == [{"p": "a", "c": 1, "n": 2, "s": {"x", "y", "z"}}]
        assert do(f"UPDATE t SET s = set_delete(s, <<'x', 'y'>>) {key} AND n BETWEEN 1 AND 2 "
                  "RETURNING ALL OLD *") == [{"p": "a", "c": 1, "n": 2, "s": {"x", "y", "z"}}]
        refused = do.fails("ConditionalCheckFailedException", f"UPDATE t SET n = 3 {key} AND n > 2",
                           ReturnValuesOnConditionCheckFailure="ALL_OLD")
        assert refused["Item"] == {"p": {"S": "a"}, "c": {"N": "1"}, "n": {"N": "2"}, "s": {"SS": ["z"]}}
        do.fails("ConditionalCheckFailedException", "UPDATE t SET n = 3 WHERE p = 'b' AND c = 1")
        assert t.scan()["Count"] == 1
        do.fails("ConditionalCheckFailedException", f"DELETE FROM t {key} AND n = 3")
        # What is not there is not like anything, and is deleted all the same.
        assert not do("DELETE FROM t WHERE p = 'b' AND c = 1 AND n = 3")
        assert do(f"DELETE FROM t {key} AND s = <<'z'>> RETURNING ALL OLD *") == [
            {"p": "a", "c": 1, "n": 2, "s": {"z"}}]
        assert not do(f"DELETE FROM t {key} RETURNING ALL OLD *") and not t.scan()["Items"]


def test_what_cannot_be_meant_is_refused(node):
    with table(dynamodb(node), range_type="N") as t:
        do = Statements(t)
        for text, part in [
            ("SELECT * FRM t", "FROM is expected, not FRM at 1:10"),
            ("INSERT INTO t VALUE {'p': 1, 'c': 1}", "Type mismatch"),
            ("INSERT INTO t VALUE {'c': 1}", "Key p"),
            ("UPDATE t SET n = 1 WHERE p = 'a'", "mandatory equality on all key attributes"),
            ("UPDATE t SET p = 'b' WHERE p = 'a' AND c = 1", "part of the key"),
            ("DELETE FROM t WHERE p = 'a' AND c = 1 RETURNING ALL NEW *", "RETURNING ALL OLD"),
            ("SELECT * FROM t WHERE p = 'a' AND c = '1'", "Key c"),
            ("SELECT * FROM t WHERE p = ?", "Number of parameters"),
            ("SELECT * FROM t WHERE p = 'a' ORDER BY n", "part of the primary key"),
            ("SELECT * FROM t WHERE c = 1 ORDER BY c", "hash key"),
            ("SELECT n, n FROM t WHERE p = 'a'", "Duplicate identifiers"),
            ("SELECT n FROM t.none WHERE p = 'a'", "index"),
            ("EXISTS(SELECT * FROM t WHERE p = 'a' AND c = 1 AND n = 1)", "ExecuteTransaction"),
            ("CREATE TABLE t ", "is expected"),
        ]:
            assert part in do.fails("ValidationException", text)["Error"]["Message"], text
        do.fails("ResourceNotFoundException", 'SELECT * FROM "no-such-table"')


def fill(t, numbers):
    with t.batch_writer() as batch:
        for p in "abc":
            for c in range(12):
                item = {"p": p, "c": c, "n": numbers.randrange(5), "s": numbers.choice(["dog", "do", "x"])}
                if numbers.randrange(2):
                    item["m"] = {"x": numbers.randrange(3)}
                batch.put_item(Item=item)


def filters(numbers):
    """A condition as a statement has it, and as boto3 does."""
    if numbers.randrange(3) == 0:
        (a, b), (x, y) = filters(numbers), filters(numbers)
        return numbers.choice([(f"({a} AND {x})", b & y), (f"({a} OR {x})", b | y)])
    n = numbers.randrange(5)
    return numbers.choice([
        (f"n < {n}", Attr("n").lt(n)), (f"{n} <= n", Attr("n").gte(n)), (f"n <> {n}", Attr("n").ne(n)),
        (f"n IN [{n}, 1]", Attr("n").is_in([n, 1])), ("m IS MISSING", Attr("m").not_exists()),
        ("begins_with(s, 'do')", Attr("s").begins_with("do")), (f"m.x = {n}", Attr("m.x").eq(n)),
        (f"n BETWEEN 1 AND {n + 1}", Attr("n").between(1, n + 1)), ("contains(s, 'og')", Attr("s").contains("og")),
        (f"size(s) > {n}", Attr("s").size().gt(n)), (f"NOT n = {n}", ~Attr("n").eq(n))])


def ranges(numbers):
    """A condition on the range key, in both ways."""
    c = numbers.randrange(12)
    return numbers.choice([
        (f"c = {c}", Key("c").eq(c)), (f"c < {c}", Key("c").lt(c)), (f"{c} < c", Key("c").gt(c)),
        (f"c <= {c}", Key("c").lte(c)), (f"c BETWEEN 3 AND {c + 3}", Key("c").between(3, c + 3))])


def test_selects_answer_what_queries_and_scans_do(node):
    numbers = random.Random(7)
    with table(dynamodb(node), range_type="N") as t:
        fill(t, numbers)
        do = Statements(t)
        for _ in range(150):
            text, attr = filters(numbers)
            whole = t.scan(FilterExpression=attr)["Items"]
            assert do(f"SELECT * FROM t WHERE {text}") == whole, text
            p = numbers.choice("abc")
            range_text, key = ranges(numbers)
            order, is_up = numbers.choice([("", True), ("ORDER BY c DESC", False), ("ORDER BY c", True)])
            wanted = t.query(KeyConditionExpression=Key("p").eq(p) & key, FilterExpression=attr,
                             ScanIndexForward=is_up)["Items"]
            parts = [f"p = '{p}'", range_text, text]
            numbers.shuffle(parts)
            assert do(f"SELECT * FROM t WHERE {' AND '.join(parts)} {order}") == wanted, parts


def test_several_keys_are_read_in_order_page_by_page(node):
    numbers = random.Random(8)
    with table(dynamodb(node), range_type="N") as t:
        fill(t, numbers)
        do = Statements(t)

        def keys(items):
            return [(item["p"], item["c"]) for item in items]

        expected = [(p, c) for p in "abc" for c in range(12)]
        two = "SELECT * FROM t WHERE p IN ['c', 'a', 'c', 'zz']"
        assert keys(do(two)) == [key for key in expected if key[0] != "b"]
        assert keys(do(f"{two} AND c IN [5, 3, 3]")) == [("a", 3), ("a", 5), ("c", 3), ("c", 5)]
        assert keys(do(f"{two} AND c > 3 AND c <= 5 ORDER BY p DESC, c DESC")) == [
            ("c", 5), ("c", 4), ("a", 5), ("a", 4)]
        assert keys(do(f"{two} AND c > 3 AND 3 > c")) == []
        assert keys(do("SELECT * FROM t WHERE p = 'a' AND (c = 1 OR c = 3)")) == [("a", 1), ("a", 3)]
        assert sorted(keys(do("SELECT * FROM t WHERE p = 'a' OR c = 1"))) == sorted(
            [key for key in expected if key[0] == "a" or key[1] == 1])
        for text in [two, f"{two} ORDER BY p DESC", f"{two} AND n > 1", "SELECT * FROM t",
                     "SELECT * FROM t WHERE n > 1", "SELECT * FROM t WHERE p = 'a' ORDER BY c DESC"]:
            whole, paged, facts = do(text), [], {}
            while True:
                page = do.page(text, Limit=numbers.randrange(1, 8), **facts)
                paged += page["Items"]
                if "NextToken" not in page:
                    break
                facts = {"NextToken": page["NextToken"]}
            assert paged == whole, text
        token = do.page(two, Limit=1)["NextToken"]
        for text, wrong in [(f"{two} AND n = 1", token), (two, token[:-8]), (two, "??")]:
            do.fails("ValidationException", text, NextToken=wrong)


def test_indexes_are_read_by_their_keys(node):
    index = {"IndexName": "by-g", "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["n"]},
             "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "c", "KeyType": "RANGE"}]}
    resource = dynamodb(node)
    t = resource.create_table(
        TableName="with-index", BillingMode="PAY_PER_REQUEST", GlobalSecondaryIndexes=[index],
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": ty} for name, ty in [
            ("p", "S"), ("g", "S"), ("c", "N")]])
    try:
        for i in range(6):
            t.put_item(Item={"p": f"{i}", "g": "ab"[i % 2], "c": i, "n": i, "o": i})
        do = Statements(t)
        some = [{"p": f"{i}", "g": "b", "c": i, "n": i} for i in (5, 3)]
        assert do("SELECT * FROM t.\"by-g\" WHERE g = 'b' AND c > 1 ORDER BY c DESC") == some
        assert do("SELECT p FROM t.\"by-g\" WHERE g = 'a' AND n = 2") == [{"p": "2"}]
        assert "project" in do.fails(
            "ValidationException", "SELECT o FROM t.\"by-g\" WHERE g = 'a'")["Error"]["Message"]
        do.fails("ValidationException", "SELECT * FROM t.\"by-g\" WHERE g = 'a'", ConsistentRead=True)
        do.fails("ValidationException", "UPDATE t.\"by-g\" SET n = 1 WHERE p = '1'")
    finally:
        t.delete()


def test_batches_tell_what_has_become_of_each_statement(node):
    resource = dynamodb(node)
    with table(resource) as t, table(resource, range_type="N") as u:
        do = Statements(t, u)
        made = do.batch(*(f"INSERT INTO t VALUE {{'p': '{i}', 'n': {i}}}" for i in range(3)),
                        "INSERT INTO u VALUE {'p': 'x', 'c': 1}")
        assert made == [{"TableName": t.name}] * 3 + [{"TableName": u.name}]
        found = do.batch("SELECT n FROM t WHERE p = '1'", "SELECT * FROM t WHERE p = 'none'",
                         "SELECT * FROM u WHERE c = 1 AND p = 'x'", "SELECT * FROM u WHERE p = 'x'",
                         "SELECT * FROM", "SELECT * FROM nowhere WHERE p = '1'")
        assert [one.get("Item") for one in found] == [{"n": 1}, None, {"p": "x", "c": 1}, None, None, None]
        assert [one.get("Error", {}).get("Code") for one in found] == [
            None, None, None, "ValidationError", "ValidationError", "ResourceNotFound"]
        done = do.batch("UPDATE t SET n = n + 5 WHERE p = '1' RETURNING ALL NEW *",
                        "UPDATE t SET n = 1 WHERE p = 'none'", "DELETE FROM t WHERE p = '2'",
                        "INSERT INTO t VALUE {'p': '0'}", "DELETE FROM u WHERE p = 'x'")
        assert done[0] == {"TableName": t.name, "Item": {"p": "1", "n": 6}}
        assert [one.get("Error", {}).get("Code") for one in done] == [
            None, "ConditionalCheckFailed", None, "DuplicateItem", "ValidationError"]
        assert sorted(item["p"] for item in t.scan()["Items"]) == ["0", "1"]
        for texts in [["SELECT * FROM t WHERE p = '1'", "DELETE FROM t WHERE p = '1'"],
                      ["DELETE FROM t WHERE p = '1'"] * 2,
                      [f"DELETE FROM t WHERE p = '{i}'" for i in range(26)]]:
            with pytest.raises(ClientError, match="ValidationException"):
                do.batch(*texts)
        assert t.scan()["Count"] == 2


def test_transactions_are_all_or_none(node):
    resource = dynamodb(node)
    with table(resource) as t, table(resource, range_type="N") as u:
        do = Statements(t, u)
        for i in range(3):
            t.put_item(Item={"p": f"{i}", "n": i, "m": {"x": i}})
        some = ["INSERT INTO u VALUE {'p': 'x', 'c': 1}", "UPDATE t SET n = n + 10 WHERE p = '1'",
                "DELETE FROM t WHERE p = '2'", "EXISTS(SELECT * FROM t WHERE p = '0' AND n = 0)"]
        assert do.transaction(*some, ClientRequestToken="one") == []
        assert do.transaction(*some, ClientRequestToken="one") == []
        with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
            do.transaction(*some[1:], ClientRequestToken="one")
        assert do.transaction("SELECT n, m.x FROM t WHERE p = '1'", "SELECT * FROM t WHERE p = '2'",
                              "SELECT * FROM u WHERE p = 'x' AND c = 1") == [
            {"Item": {"n": 11, "x": 1}}, {}, {"Item": {"p": "x", "c": 1}}]
        with pytest.raises(ClientError, match="TransactionCanceledException") as raised:
            do.transaction("INSERT INTO t VALUE {'p': 'new'}", "INSERT INTO u VALUE {'p': 'x', 'c': 1}",
                           "UPDATE t SET n = 1 WHERE p = '2'",
                           "EXISTS(SELECT * FROM t WHERE p = '0' AND n = 1)",
                           "DELETE FROM t WHERE p = '1' AND n = 11")
        reasons = raised.value.response["CancellationReasons"]
        assert [one["Code"] for one in reasons] == [
            "None", "DuplicateItem", "ConditionalCheckFailed", "ConditionalCheckFailed", "None"]
        assert sorted(item["p"] for item in t.scan(ConsistentRead=True)["Items"]) == ["0", "1"]
        for texts, part in [
            (["SELECT * FROM t WHERE p = '1'", some[1]], "both read and write"),
            (["SELECT * FROM u WHERE p = 'x'"], "[0]: Select statements"),
            ([some[1], "UPDATE t SET n = 1 WHERE n = 1"], "[1]: Where clause"),
            (["UPDATE t SET n = 1 WHERE p = '1' RETURNING ALL OLD *"], "RETURNING"),
            (["EXISTS(SELECT * FROM t WHERE p = '1')"], "additional condition"),
            (["DELETE FROM t WHERE p = '1'", "UPDATE t SET n = 1 WHERE p = '1'"], "one item"),
            ([f"DELETE FROM t WHERE p = '{i}'" for i in range(101)], "length"),
        ]:
            with pytest.raises(ClientError, match="ValidationException") as raised:
                do.transaction(*texts)
            assert part in str(raised.value), texts


def test_what_statements_consume_is_told_and_counted(node):
    with table(dynamodb(node)) as t:
        do = Statements(t)

        def count(operation):
            return total(node, "scylla_alternator_table_operation", op=operation, cf=t.name)

        large = "x" * 5000
        facts = {"ReturnConsumedCapacity": "TOTAL"}
        made = do.page("INSERT INTO t VALUE {'p': 'a', 'x': ?}", large, **facts)["ConsumedCapacity"]
        assert made == {"TableName": t.name, "CapacityUnits": 5}
        for consistent, units in [(True, 2), (False, 1)]:
            read = do.page("SELECT p FROM t WHERE p = 'a'", ConsistentRead=consistent, **facts)
            assert read["ConsumedCapacity"]["CapacityUnits"] == units
        client, text = do.client, do.text("SELECT * FROM t WHERE p = 'a'")
        batch = client.batch_execute_statement(Statements=[{"Statement": text}], **facts)
        assert batch["ConsumedCapacity"] == [{"TableName": t.name, "CapacityUnits": 1}]
        batch = client.batch_execute_statement(
            Statements=[{"Statement": do.text("UPDATE t SET n = 1 WHERE p = 'a'")}], **facts)
        assert batch["ConsumedCapacity"] == [{"TableName": t.name, "CapacityUnits": 5}]
        taken = client.execute_transaction(TransactStatements=[{"Statement": text}], **facts)
        assert taken["ConsumedCapacity"][0]["TableName"] == t.name
        assert [count(name) for name in [
            "ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"]] == [3, 2, 1]


def test_statements_are_led_by_other_nodes_too():
    with Nodes(3) as nodes:
        resources = [dynamodb(node) for node in nodes]
        with table(resources[0], range_type="N") as t:
            all_of = [Statements(resource.Table(t.name)) for resource in resources]
            for i in range(9):
                all_of[i % 3]("INSERT INTO t VALUE {'p': ?, 'c': 1, 'n': 0}", f"{i}")
            for i in range(9):
                for do in all_of:
                    do("UPDATE t SET n = n + 1 WHERE p = ? AND c = 1", f"{i}")
                all_of[i % 3].fails("DuplicateItemException", "INSERT INTO t VALUE {'p': ?, 'c': 1}", f"{i}")
            found = all_of[1]("SELECT * FROM t", ConsistentRead=True)
            assert sorted(found, key=lambda item: item["p"]) == [
                {"p": f"{i}", "c": 1, "n": 3} for i in range(9)]
