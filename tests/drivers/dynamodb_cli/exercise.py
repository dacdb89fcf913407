"""What the AWS CLI must be able to do: exercise.py ADDRESS PORT. Prints "N passed, N failed"."""
import json
import os
import subprocess
import sys
import time

TABLE = "sdk.cli"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_MAX_ATTEMPTS": "1",
               "AWS_DEFAULT_REGION": "us-east-1", "AWS_PAGER": "", "AWS_EC2_METADATA_DISABLED": "true"}


def call(service, operation, *words):
    """Runs an operation; each word that is no text is given as JSON."""
    words = [word if isinstance(word, str) else json.dumps(word) for word in words]
    command = ["aws", service, operation, "--endpoint-url", f"http://{sys.argv[1]}:8000",
               "--output", "json", *words]
    return subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True,
                          timeout=120, check=False, stdin=subprocess.DEVNULL)


def db(operation, *words, service="dynamodb"):
    """What an operation prints, as a value."""
    done = call(service, operation, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else {}


def refused(error, operation, *words):
    done = call("dynamodb", operation, *words)
    assert done.returncode != 0 and error in done.stderr, done.stderr


def key(p, c):
    return {"p": {"S": p}, "c": {"N": str(c)}}


def create():
    db("create-table", "--table-name", TABLE, "--billing-mode", "PAY_PER_REQUEST",
       "--attribute-definitions", "AttributeName=p,AttributeType=S", "AttributeName=c,AttributeType=N",
       "--key-schema", "AttributeName=p,KeyType=HASH", "AttributeName=c,KeyType=RANGE",
       "--stream-specification", "StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES")
    db("wait", "table-exists", "--table-name", TABLE)
    assert db("list-tables")["TableNames"] == [TABLE]


def put():
    # Versions of the CLI differ in what text they take bytes for.
    item = {**key("types", 1), "list": {"L": [{"N": "-1.5"}, {"NULL": True}]},
            "map": {"M": {"x": {"S": "gr\u00fcn"}}}, "strings": {"SS": ["a", "b"]}}
    db("put-item", "--table-name", TABLE, "--item", item)
    get = ["--table-name", TABLE, "--key", key("types", 1), "--consistent-read"]
    found = db("get-item", *get)["Item"]
    found["strings"]["SS"].sort()
    assert found == item, found
    refused("ConditionalCheckFailedException", "put-item", "--table-name", TABLE, "--item", item,
            "--condition-expression", "attribute_not_exists(p)")


def update():
    for turn in (1, 2):
        found = db("update-item", "--table-name", TABLE, "--key", key("count", 0),
                   "--update-expression", "SET #n = if_not_exists(#n, :zero) + :one",
                   "--expression-attribute-names", {"#n": "n"}, "--expression-attribute-values",
                   {":zero": {"N": "0"}, ":one": {"N": "1"}}, "--return-values", "UPDATED_NEW")
        assert found["Attributes"] == {"n": {"N": str(turn)}}, found


def query():
    puts = [{"PutRequest": {"Item": key("wide", c)}} for c in range(20)]
    assert db("batch-write-item", "--request-items", {TABLE: puts})["UnprocessedItems"] == {}
    found = db("query", "--table-name", TABLE, "--page-size", "7", "--key-condition-expression",
               "p = :p AND c >= :c", "--expression-attribute-values",
               {":p": {"S": "wide"}, ":c": {"N": "5"}})
    assert found["Items"] == [key("wide", c) for c in range(5, 20)], found
    assert db("scan", "--table-name", TABLE, "--select", "COUNT")["Count"] == 22


def transact():
    def puts(*numbers):
        return [{"Put": {"TableName": TABLE, "Item": key("both", c),
                         "ConditionExpression": "attribute_not_exists(p)"}} for c in numbers]
    db("transact-write-items", "--transact-items", puts(1, 2))
    refused("TransactionCanceledException", "transact-write-items", "--transact-items", puts(3, 2))
    gets = [{"Get": {"TableName": TABLE, "Key": key("both", c)}} for c in (1, 2, 3)]
    found = db("transact-get-items", "--transact-items", gets)["Responses"]
    assert found == [{"Item": key("both", 1)}, {"Item": key("both", 2)}, {}], found


def records():
    """All records of the stream, from the first on."""
    def read(operation, *words):
        return db(operation, *words, service="dynamodbstreams")
    arn = db("describe-table", "--table-name", TABLE)["Table"]["LatestStreamArn"]
    for shard in read("describe-stream", "--stream-arn", arn)["StreamDescription"]["Shards"]:
        at = read("get-shard-iterator", "--stream-arn", arn, "--shard-id", shard["ShardId"],
                  "--shard-iterator-type", "TRIM_HORIZON")["ShardIterator"]
        yield from read("get-records", "--shard-iterator", at)["Records"]


def until_recorded(p, fits):
    deadline = time.monotonic() + 120
    while not any(it["dynamodb"]["Keys"]["p"]["S"] == p and fits(it) for it in records()):
        assert time.monotonic() < deadline, f"no such record of {p}"


def stream():
    until_recorded("count", lambda it: it["eventName"] == "MODIFY"
                   and it["dynamodb"]["NewImage"]["n"]["N"] == "2")


def expire():
    db("update-time-to-live", "--table-name", TABLE, "--time-to-live-specification",
       "AttributeName=end,Enabled=true")
    item = key("old", 0) | {"end": {"N": str(int(time.time()) - 60)}}
    db("put-item", "--table-name", TABLE, "--item", item)
    until_recorded("old", lambda it: it["eventName"] == "REMOVE" and "userIdentity" in it)


def drop():
    db("delete-table", "--table-name", TABLE)
    refused("ResourceNotFoundException", "describe-table", "--table-name", TABLE)


def main():
    failed = 0
    tests = [create, put, update, query, transact, stream, expire, drop]
    for test in tests:
        try:
            test()
        except (AssertionError, KeyError, ValueError) as error:
            failed += 1
            print("FAILED", test.__name__, error)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
