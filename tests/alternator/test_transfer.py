"""Tables that are filled by files, and tables that become files."""
import base64
import csv
import datetime
import gzip
import hashlib
import io
import json
import os
import random
import sys
from decimal import Decimal
from pathlib import Path

import boto3
import pytest
from boto3.dynamodb.types import Binary, TypeSerializer
from door import dynamodb, error, table, unchecked, until
from node import Node

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
from trio import Nodes, rest  # noqa: E402  pylint: disable=wrong-import-position

STEP = "alternator_import_step"


@pytest.fixture(scope="module")
def buckets(tmp_path_factory):
    """The folder of buckets, with one that is called `files`."""
    folder = tmp_path_factory.mktemp("buckets")
    (folder / "files").mkdir()
    return folder


@pytest.fixture(scope="module")
def node(buckets):
    with Node("--alternator-transfer-directory", str(buckets)) as node:
        yield node


@pytest.fixture(scope="module")
def db(node):
    return dynamodb(node)


def parameters(name, hash_type="S", range_type=None, others=None, **facts):
    """What a table is to be: its keys are `p` and, if it has a type, `c`."""
    keys = [("p", "HASH", hash_type)] + ([("c", "RANGE", range_type)] if range_type else [])
    types = [*((key, ty) for key, _, ty in keys), *(others or {}).items()]
    return {"TableName": name, "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": key, "KeyType": kind} for key, kind, _ in keys],
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": ty} for key, ty in types],
            **facts}


def ask(name, prefix, keys=None, bucket="files", **facts):
    return {"S3BucketSource": {"S3Bucket": bucket, "S3KeyPrefix": prefix},
            "InputFormat": "DYNAMODB_JSON", "TableCreationParameters": parameters(name, **(keys or {})),
            **facts}


def ended(client, arn, seconds=60):
    """The description of an import that is over."""
    def described():
        return client.describe_import(ImportArn=arn)["ImportTableDescription"]
    until(lambda: described()["ImportStatus"] != "IN_PROGRESS", seconds)
    return described()


def run(client, name, prefix, keys=None, **facts):
    made = client.import_table(**ask(name, prefix, keys, **facts))["ImportTableDescription"]
    assert made["ImportStatus"] in ("IN_PROGRESS", "COMPLETED")
    return ended(client, made["ImportArn"])


def counts(described):
    names = ("ProcessedItemCount", "ImportedItemCount", "ErrorCount")
    return tuple(described[name] for name in names)


def line(item):
    serializer = TypeSerializer()

    def plain(value):
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list) else value
    return json.dumps({"Item": {name: plain(serializer.serialize(value))
                                for name, value in item.items()}}) + "\n"


def items(t):
    found, start = [], {}
    while start is not None:
        page = t.scan(ConsistentRead=True, **start)
        found += page["Items"]
        last = page.get("LastEvaluatedKey")
        start = {"ExclusiveStartKey": last} if last else None
    return sorted(found, key=lambda item: (item["p"], item.get("c", 0)))


def drawn(rng, depth=0):
    """A value of any type."""
    number = lambda: Decimal(rng.randint(-10**9, 10**9)).scaleb(rng.randint(-20, 20))  # noqa: E731
    text = lambda: "".join(rng.choice("aé€😀\"\\\n ,") for _ in range(rng.randint(0, 9)))  # noqa: E731
    blob = lambda: rng.randbytes(rng.randint(1, 9))  # noqa: E731
    makers = [number, text, lambda: Binary(blob()), lambda: rng.random() < 0.5, lambda: None,
              lambda: {number() for _ in range(3)}, lambda: {f"x{text()}" for _ in range(3)},
              lambda: {Binary(blob()) for _ in range(3)}]
    if depth < 3:
        makers += [lambda: [drawn(rng, depth + 1) for _ in range(rng.randint(0, 3))],
                   lambda: {f"k{n}": drawn(rng, depth + 1) for n in range(rng.randint(0, 3))}]
    return rng.choice(makers)()


def write(buckets, key, data, bucket="files"):
    path = buckets / bucket / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def test_items_of_all_types_come_in(db, buckets):
    rng = random.Random(17)
    client = db.meta.client
    expected = [{"p": f"p{n % 40}", "c": n, **{f"a{i}": drawn(rng) for i in range(rng.randint(0, 4))}}
                for n in range(2500)]
    lines = [line(item) for item in expected]
    # In two files, one of them below a folder of its own; what has another beginning is none.
    write(buckets, "typed/part-1.json.gz", gzip.compress("".join(lines[:900]).encode()))
    write(buckets, "typed/part-2/a.json.gz", gzip.compress("".join(lines[900:1500]).encode()) +
          gzip.compress("".join(lines[1500:]).encode()))
    write(buckets, "typed/other.json.gz", b"no gzip")
    described = run(client, "typed", "typed/part-", {"range_type": "N"}, InputCompressionType="GZIP")
    assert described["ImportStatus"] == "COMPLETED", described
    assert counts(described) == (2500, 2500, 0)
    assert described["ProcessedSizeBytes"] == sum(len(one.encode()) for one in lines)
    assert described["StartTime"] <= described["EndTime"]
    t = db.Table("typed")
    assert items(t) == sorted(expected, key=lambda item: (item["p"], item["c"]))
    # It is a table as others are.
    t.put_item(Item={"p": "p1", "c": 1, "later": True})
    found = client.describe_table(TableName="typed")["Table"]
    assert found["TableStatus"] == "ACTIVE" and "ArchivalSummary" not in found
    assert found["TableArn"] == described["TableArn"] and found["TableId"] == described["TableId"]
    t.delete()


def test_csv_comes_in(db, buckets):
    client = db.meta.client
    rows = [[f"p{n}", str(n), "AAE=", f"text \"{n}\",\nmore é"] for n in range(300)]
    out = io.StringIO()
    csv.writer(out).writerows([["p", "c", "b", "x"], *rows])
    write(buckets, "csv/a.csv", out.getvalue())
    write(buckets, "csv/b.csv", "p,c,x,b\r\nq,1,,\r\nbad,one,x,\r\ntoo,few\r\n\r\n")
    index = {"IndexName": "by_b", "Projection": {"ProjectionType": "ALL"},
             "KeySchema": [{"AttributeName": "b", "KeyType": "HASH"}]}
    keys = {"range_type": "N", "others": {"b": "B"}, "GlobalSecondaryIndexes": [index]}
    described = run(client, "csv", "csv/", keys, InputFormat="CSV")
    assert described["ImportStatus"] == "COMPLETED", described
    assert counts(described) == (303, 301, 2)
    t = db.Table("csv")
    expected = [{"p": p, "c": Decimal(c), "b": Binary(b"\0\1"), "x": x} for p, c, _, x in rows]
    expected.append({"p": "q", "c": Decimal(1), "x": ""})
    assert items(t) == sorted(expected, key=lambda item: (item["p"], item["c"]))
    until(lambda: len(t.query(IndexName="by_b", Select="ALL_ATTRIBUTES", KeyConditionExpression=(
        boto3.dynamodb.conditions.Key("b").eq(Binary(b"\0\1"))))["Items"]) == 300)
    t.delete()
    # The header and the delimiter are said.
    write(buckets, "named.csv", "a;1;x,y\nb;2;\"z;\"\n")
    said = {"Csv": {"Delimiter": ";", "HeaderList": ["p", "c", "x"]}}
    described = run(client, "named", "named.csv", {"range_type": "N"}, InputFormat="CSV",
                    InputFormatOptions=said)
    assert counts(described) == (2, 2, 0) and described["InputFormatOptions"] == said
    assert items(db.Table("named")) == [{"p": "a", "c": 1, "x": "x,y"}, {"p": "b", "c": 2, "x": "z;"}]
    db.Table("named").delete()


def test_bad_lines_are_counted_and_told(db, node, buckets):
    good = [line({"p": f"p{n}", "n": n}) for n in range(20)]
    bad = ["{\n", "nothing\n", "\xff\n", line({"q": "no key"}), line({"p": 1}), line({"p": ""}),
           '{"Item":{"p":{"S":"x"},"n":{"N":"one"}}}\n', '{"Items":{}}\n',
           line({"p": "large", "x": "x" * 410_000})]
    lines = [*good[:10], "\n", *bad, *good[10:-1], good[-1].rstrip("\n")]
    write(buckets, "bad/lines.json", "".join(lines).encode("latin-1"))
    # Of two of a key the later one stays.
    write(buckets, "bad/more.json", line({"p": "p1", "n": 100}) + line({"p": "p1", "n": 200}))
    described = run(db.meta.client, "bad", "bad/")
    assert described["ImportStatus"] == "COMPLETED"
    assert counts(described) == (31, 22, 9)
    found = {item["p"]: item["n"] for item in items(db.Table("bad"))}
    assert found == {**{f"p{n}": n for n in range(20)}, "p1": 200}
    log = node.log.read_text()
    for number in range(12, 21):
        assert f"bad/lines.json, line {number}: " in log
    db.Table("bad").delete()


def test_a_file_that_is_damaged_fails_an_import(db, buckets):
    client = db.meta.client
    whole = gzip.compress("".join(line({"p": f"p{n}"}) for n in range(1000)).encode())
    write(buckets, "cut.gz", whole[:-5])
    write(buckets, "none.gz", "nothing at all, and no gzip")
    write(buckets, "header.csv", "p,p\na,b\n")
    for name, facts in (("cut.gz", {"InputCompressionType": "GZIP"}),
                        ("none.gz", {"InputCompressionType": "GZIP"}),
                        ("header.csv", {"InputFormat": "CSV"})):
        described = run(client, name, name, **facts)
        assert described["ImportStatus"] == "FAILED", described
        assert described["FailureCode"] == "InvalidFile" and name in described["FailureMessage"]
        found = client.describe_table(TableName=name)["Table"]
        assert found["TableStatus"] == "ARCHIVED"
        assert "the import has failed" in found["ArchivalSummary"]["ArchivalReason"]
        error("ResourceNotFoundException", client.scan, TableName=name)
        client.delete_table(TableName=name)


def test_what_is_wrong_is_said(db, node, buckets):
    client = unchecked(node)
    write(buckets, "one/a.json", line({"p": "1"}))
    wrong = "ValidationException"
    act = client.import_table
    error(wrong, act, **ask("other", "one/", bucket="nobody"))
    error(wrong, act, **ask("other", "two/"))
    error(wrong, act, **ask("other", "one/", InputFormat="ION"))
    error(wrong, act, **ask("other", "one/", InputFormat="XML"))
    error(wrong, act, **ask("other", "one/", InputCompressionType="LZ4"))
    error(wrong, act, **ask("other", "one/", InputFormatOptions={"Csv": {}}))
    error(wrong, act, **ask("other", "one/", InputFormat="CSV",
                            InputFormatOptions={"Csv": {"Delimiter": "xx"}}))
    error(wrong, act, **ask("a b", "one/"))
    error("ResourceNotFoundException", client.describe_table, TableName="other")
    run(client, "one", "one/")
    error("ResourceInUseException", act, **ask("one", "one/"))
    arn = client.describe_table(TableName="one")["Table"]["TableArn"]
    error("ImportNotFoundException", client.describe_import, ImportArn=f"{arn}/import/0123456789")
    error(wrong, client.describe_import, ImportArn=arn)
    error(wrong, client.list_imports, PageSize=26)
    error(wrong, client.list_imports, NextToken="x")
    client.delete_table(TableName="one")


def test_nothing_leads_out_of_the_folder(db, node, buckets, tmp_path):
    client = unchecked(node)
    (tmp_path / "secret.json").write_text(line({"p": "secret"}))
    (buckets.parent / "beside").mkdir(exist_ok=True)
    (buckets.parent / "beside" / "a.json").write_text(line({"p": "secret"}))
    os.symlink(tmp_path, buckets / "linked")
    os.symlink(tmp_path, buckets / "files" / "folder")
    os.symlink(tmp_path / "secret.json", buckets / "files" / "secret.json")
    os.mkfifo(buckets / "files" / "pipe")
    up = f"../{buckets.name}/files"
    for bucket in ("..", ".", "", "/", "../beside", "files/..", str(tmp_path), up, "linked", "files\0",
                   "a" * 300):
        words = error("ValidationException", client.import_table, **ask("out", "", bucket=bucket))
        assert str(buckets) not in words.replace(bucket or "-", "")
    for prefix in ("../", "..", "../beside/", "/", str(tmp_path) + "/", "one/../../", "./", "folder/",
                   "folder/secret", "secret.json", "pipe", "one//", "a\0b"):
        error("ValidationException", client.import_table, **ask("out", prefix))
    error("ResourceNotFoundException", client.describe_table, TableName="out")
    # Beside what may be read they are left out.
    write(buckets, "fold.json", line({"p": "1"}))
    described = run(client, "out", "fo")
    assert counts(described) == (1, 1, 0)
    assert items(db.Table("out")) == [{"p": "1"}]
    db.Table("out").delete()
    for path in (buckets / "linked", buckets / "files" / "folder", buckets / "files" / "secret.json",
                 buckets / "files" / "pipe"):
        path.unlink()


def test_the_same_token_is_the_same_import(db, buckets):
    client = db.meta.client
    write(buckets, "token/a.json", line({"p": "1"}))
    facts = ask("token", "token/", ClientToken="again")
    first = client.import_table(**facts)["ImportTableDescription"]
    again = client.import_table(**facts)["ImportTableDescription"]
    assert first["ImportArn"] == again["ImportArn"] and again["ClientToken"] == "again"
    error("ImportConflictException", client.import_table,
          **ask("other", "token/", ClientToken="again"))
    ended(client, first["ImportArn"])
    client.delete_table(TableName="token")
    assert client.import_table(**facts)["ImportTableDescription"]["ImportStatus"] == "COMPLETED"


def test_lists_have_what_is_asked_for(db, buckets):
    client = db.meta.client
    write(buckets, "list/a.json", line({"p": "1"}))
    arns = []
    for name in ("list.a", "list.b", "list.a"):
        arns.append(run(client, name, "list/")["ImportArn"])
        client.delete_table(TableName=name)
    of_a = arns[0].split("/import/")[0]

    def listed(**facts):
        found, start = [], {}
        while start is not None:
            page = client.list_imports(**facts, **start)
            found += [one["ImportArn"] for one in page["ImportSummaryList"]]
            start = {"NextToken": page["NextToken"]} if "NextToken" in page else None
        return [arn for arn in found if arn in arns]

    assert listed() == listed(PageSize=1) == arns
    assert listed(TableArn=of_a) == listed(TableArn=of_a, PageSize=1) == [arns[0], arns[2]]
    [one] = client.list_imports(TableArn=arns[1].split("/import/")[0])["ImportSummaryList"]
    assert one["ImportStatus"] == "COMPLETED" and one["InputFormat"] == "DYNAMODB_JSON"
    assert one["S3BucketSource"] == {"S3Bucket": "files", "S3KeyPrefix": "list/"}


def inject(node, point, method="POST"):
    rest(node, f"/v2/error_injection/injection/{point}", method)


def test_a_table_is_not_used_before_all_of_it_is_there(buckets):
    write(buckets, "many/a.json", "".join(line({"p": f"p{n}"}) for n in range(2000)))
    with Node("--alternator-transfer-directory", str(buckets)) as node:
        client = dynamodb(node).meta.client
        inject(node, STEP)
        arns = [client.import_table(**ask(name, "many/"))["ImportTableDescription"]["ImportArn"]
                for name in ("first", "second")]
        node.wait_for_log(f"{STEP}: waiting")

        def status(arn):
            return client.describe_import(ImportArn=arn)["ImportTableDescription"]["ImportStatus"]

        assert [status(arn) for arn in arns] == ["IN_PROGRESS"] * 2
        assert client.describe_table(TableName="first")["Table"]["TableStatus"] == "CREATING"
        key = {"p": {"S": "p1"}}
        words = error("ResourceNotFoundException", client.get_item, TableName="first", Key=key)
        assert "is being imported" in words
        error("ResourceNotFoundException", client.put_item, TableName="first", Item=key)
        error("TableInUseException", client.create_backup, TableName="first", BackupName="abc")
        error("ResourceInUseException", client.import_table, **ask("first", "many/"))
        # Who does not want to wait may delete it.
        client.delete_table(TableName="second")
        # An import whose node has stopped has failed; its state outlives the node.
        node.kill()
        node.start()
        described = ended(client, arns[0])
        assert described["ImportStatus"] == "FAILED" and described["FailureCode"] == "NodeStopped"
        until(lambda: client.describe_table(TableName="first")["Table"]["TableStatus"] == "ARCHIVED")
        error("ResourceNotFoundException", client.scan, TableName="first")
        client.delete_table(TableName="first")
        until(lambda: status(arns[1]) == "FAILED")
        assert counts(run(client, "first", "many/")) == (2000, 2000, 0)
        # The same where the table goes away meanwhile.
        inject(node, STEP)
        arn = client.import_table(**ask("third", "many/"))["ImportTableDescription"]["ImportArn"]
        offset = len(node.log.read_text())
        node.wait_for_log(f"{STEP}: waiting", offset=max(0, offset - 2000))
        client.delete_table(TableName="third")
        inject(node, STEP, "DELETE")
        assert ended(client, arn)["FailureCode"] == "TableDeleted"
        # What is over outlives a restart, too.
        node.stop()
        node.start()
        assert ended(client, arn)["FailureCode"] == "TableDeleted"
        assert len(items(dynamodb(node).Table("first"))) == 2000


def test_without_the_option_there_are_no_imports():
    with Node() as node:
        client = dynamodb(node).meta.client
        words = error("ValidationException", client.import_table, **ask("any", "one/"))
        assert "alternator_transfer_directory" in words
        assert client.list_imports()["ImportSummaryList"] == []
        arn = "arn:aws:dynamodb:datacenter1:000000000000:table/any/import/0123456789"
        error("ImportNotFoundException", client.describe_import, ImportArn=arn)


def test_who_may_do_what(buckets):
    write(buckets, "may/a.json", line({"p": "1"}))
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1",
               "--alternator-transfer-directory", str(buckets))
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")
        (row,) = session.execute("SELECT salted_hash FROM system.roles WHERE role = 'app'")
        db = dynamodb(node, "app", row.salted_hash)
        client = db.meta.client
        error("AccessDeniedException", client.import_table, **ask("may", "may/"))
        # Who may not do it learns nothing of the files.
        error("AccessDeniedException", client.import_table, **ask("may", "nothing/"))
        assert client.list_imports()["ImportSummaryList"] == []
        session.execute("GRANT CREATE ON ALL KEYSPACES TO app")
        assert run(client, "may", "may/")["ImportStatus"] == "COMPLETED"
        # Who has made it may do everything with it.
        assert items(db.Table("may")) == [{"p": "1"}]
        db.Table("may").delete()


def test_an_import_of_a_node_that_died_has_failed(buckets):
    write(buckets, "trio/a.json", "".join(line({"p": f"p{n}"}) for n in range(1000)))
    with Nodes(3, "--alternator-transfer-directory", str(buckets)) as nodes:
        client = dynamodb(nodes[0]).meta.client
        assert counts(run(client, "whole", "trio/")) == (1000, 1000, 0)
        seen = dynamodb(nodes[1]).Table("whole")
        until(lambda: len(items(seen)) == 1000)
        inject(nodes[2], STEP)
        asked = dynamodb(nodes[2]).meta.client
        arn = asked.import_table(**ask("half", "trio/"))["ImportTableDescription"]["ImportArn"]
        nodes[2].wait_for_log(f"{STEP}: waiting")
        nodes[2].kill()
        described = ended(client, arn, 180)
        assert described["FailureMessage"] == "its node is dead"
        until(lambda: client.describe_table(TableName="half")["Table"]["TableStatus"] == "ARCHIVED")


def arn_of(t):
    return t.meta.client.describe_table(TableName=t.name)["Table"]["TableArn"]


def exported(t, seconds=60, bucket="files", **facts):
    """The description of an export that is over."""
    client = t.meta.client
    made = client.export_table_to_point_in_time(TableArn=arn_of(t), S3Bucket=bucket, **facts)
    return export_ended(client, made["ExportDescription"]["ExportArn"], seconds)


def export_ended(client, arn, seconds=60):
    def described():
        return client.describe_export(ExportArn=arn)["ExportDescription"]
    until(lambda: described()["ExportStatus"] != "IN_PROGRESS", seconds)
    return described()


def checked(path):
    """The text of a file beside which its sum is."""
    data = path.read_bytes()
    sums = path.with_suffix(".md5").read_text()
    assert base64.b64encode(hashlib.md5(data).digest()).decode() == sums
    return data.decode()


def lines_of(buckets, described):
    """What an export has, each file of which is as its manifest says."""
    bucket = buckets / described["S3Bucket"]
    summary = json.loads(checked(bucket / described["ExportManifest"]))
    assert summary["exportArn"] == described["ExportArn"]
    assert summary["itemCount"] == described["ItemCount"]
    assert summary["billedSizeBytes"] == described["BilledSizeBytes"]
    assert summary["tableArn"] == described["TableArn"] and summary["outputFormat"] == "DYNAMODB_JSON"
    found = []
    for one in checked(bucket / summary["manifestFilesS3Key"]).splitlines():
        one = json.loads(one)
        data = (bucket / one["dataFileS3Key"]).read_bytes()
        digest = hashlib.md5(data)
        assert base64.b64encode(digest.digest()).decode() == one["md5Checksum"]
        assert one["etag"] == digest.hexdigest() + "-1"
        lines = gzip.decompress(data).decode().splitlines()
        assert len(lines) == one["itemCount"]
        found += lines
    assert len(found) == summary["itemCount"]
    folder = (bucket / described["ExportManifest"]).parent
    assert (folder / "_started").exists()
    assert folder.name == described["ExportArn"].rsplit("/", 1)[1]
    return found


@pytest.mark.parametrize("prefix", [{}, {"S3Prefix": "out/a b"}, {"S3Prefix": "out/"}])
def test_what_was_exported_can_be_imported(db, buckets, prefix):
    rng = random.Random(23)
    client = db.meta.client
    with table(db, range_type="N") as t:
        expected = [{"p": f"p{n % 40}", "c": n, **{f"a{i}": drawn(rng) for i in range(4)}}
                    for n in range(1500)]
        expected += [{"p": "large", "c": n, "x": chr(65 + n) * 300_000} for n in range(8)]
        with t.batch_writer() as batch:
            for item in expected:
                batch.put_item(Item=item)
        for n in range(0, 1500, 10):
            t.delete_item(Key={"p": f"p{n % 40}", "c": n})
        expected = items(t)
        described = exported(t, **prefix)
        assert described["ExportStatus"] == "COMPLETED", described
        assert (described["ItemCount"], described["ExportType"]) == (1358, "FULL_EXPORT")
        assert described["TableArn"] == arn_of(t)
        lines = lines_of(buckets, described)
        assert {tuple(json.loads(one)) for one in lines} == {("Item",)}
    data = described["ExportManifest"].replace("manifest-summary.json", "data/")
    came = run(client, "came.back", data, {"range_type": "N"}, InputCompressionType="GZIP")
    assert counts(came) == (1358, 1358, 0)
    assert items(db.Table("came.back")) == expected
    db.Table("came.back").delete()


def test_what_is_wrong_with_an_export_is_said(db, node, buckets, tmp_path):
    client = unchecked(node)
    act = client.export_table_to_point_in_time
    with table(db) as t:
        t.put_item(Item={"p": "1"})
        arn = arn_of(t)
        wrong = "ValidationException"
        good = {"TableArn": arn, "S3Bucket": "files"}
        error(wrong, act, **{**good, "S3Bucket": "nobody"})
        error(wrong, act, **good, ExportFormat="ION")
        error("TableNotFoundException", act, TableArn=arn + "x", S3Bucket="files")
        now = datetime.datetime.now(datetime.timezone.utc)
        for minutes in (-10, 10):
            time_of = now + datetime.timedelta(minutes=minutes)
            words = error("InvalidExportTimeException", act, **good, ExportTime=time_of)
            assert "present" in words
        error("PointInTimeRecoveryUnavailableException", act, **good, ExportType="INCREMENTAL_EXPORT")
        # Nothing leads out of the folder.
        os.symlink(tmp_path, buckets / "linked")
        os.symlink(tmp_path, buckets / "files" / "elsewhere")
        (buckets / "files" / "plain").write_text("a file")
        for bucket in ("..", ".", "", "../beside", str(tmp_path), "linked", "files/.."):
            error(wrong, act, TableArn=arn, S3Bucket=bucket)
        for prefix in ("..", "../x", "/", str(tmp_path), "a/../../x", "elsewhere", "elsewhere/x", "plain",
                       "plain/x", "a//b", "a\0b"):
            error(wrong, act, **good, S3Prefix=prefix)
        assert list(tmp_path.iterdir()) == []
        for path in (buckets / "linked", buckets / "files" / "elsewhere", buckets / "files" / "plain"):
            path.unlink()
        assert client.list_exports(TableArn=arn)["ExportSummaries"] == []
        unknown = arn + "/export/0123456789"
        error("ExportNotFoundException", client.describe_export, ExportArn=unknown)
        error(wrong, client.describe_export, ExportArn=arn)
        error(wrong, client.list_exports, MaxResults=26)
        # A time that is near is the present; the same token is the same export.
        facts = {**good, "ExportTime": datetime.datetime.now(datetime.timezone.utc), "ClientToken": "e"}
        first = act(**facts)["ExportDescription"]["ExportArn"]
        assert act(**facts)["ExportDescription"]["ExportArn"] == first
        error("ExportConflictException", act, **{**facts, "S3Prefix": "other"})
        assert export_ended(client, first)["ItemCount"] == 1
        arns = [first, exported(t)["ExportArn"], exported(t)["ExportArn"]]
        found, start = [], {}
        while start is not None:
            page = client.list_exports(TableArn=arn, MaxResults=1, **start)
            found += [one["ExportArn"] for one in page["ExportSummaries"]]
            start = {"NextToken": page["NextToken"]} if "NextToken" in page else None
        assert found == arns
    with table(db) as t:
        empty = exported(t)
        assert lines_of(buckets, empty) == [] and empty["ItemCount"] == 0


def test_an_export_whose_node_has_stopped_has_failed(buckets):
    step = "alternator_export_step"
    with Node("--alternator-transfer-directory", str(buckets)) as node:
        db = dynamodb(node)
        client = db.meta.client
        with table(db) as t:
            t.put_item(Item={"p": "1"})
            inject(node, step)
            act = client.export_table_to_point_in_time
            made = act(TableArn=arn_of(t), S3Bucket="files", S3Prefix="cut")["ExportDescription"]
            assert made["ExportStatus"] == "IN_PROGRESS"
            node.wait_for_log(f"{step}: waiting")
            node.kill()
            node.start()
            described = export_ended(client, made["ExportArn"])
            assert (described["ExportStatus"], described["FailureCode"]) == ("FAILED", "NodeStopped")
            [folder] = (buckets / "files" / "cut" / "AWSDynamoDB").iterdir()
            assert not (folder / "manifest-summary.json").exists()
            assert lines_of(buckets, exported(t)) == ['{"Item":{"p":{"S":"1"}}}']


def test_who_may_export():
    options = ("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
               "--alternator-port", "8000", "--alternator-enforce-authorization", "1")
    with Node(*options) as node:
        from cassandra.auth import PlainTextAuthProvider
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        session.execute("CREATE ROLE app WITH LOGIN = true AND PASSWORD = 'x'")
        roles = {}
        for role in ("cassandra", "app"):
            (row,) = session.execute(f"SELECT salted_hash FROM system.roles WHERE role = '{role}'")
            roles[role] = dynamodb(node, role, row.salted_hash)
        with table(roles["cassandra"]) as t:
            act, arn = roles["app"].meta.client.export_table_to_point_in_time, arn_of(t)
            error("AccessDeniedException", act, TableArn=arn, S3Bucket="files")
            session.execute(f'GRANT SELECT ON "alternator_{t.name}"."{t.name}" TO app')
            # He may; but the option names no folder.
            words = error("ValidationException", act, TableArn=arn, S3Bucket="files")
            assert "alternator_transfer_directory" in words
