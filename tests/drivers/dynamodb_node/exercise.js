// What the AWS SDK for JavaScript must be able to do: node exercise.js ADDRESS PORT.
// Prints "N passed, N failed".
"use strict";
const assert = require("assert");
const { setTimeout: sleep } = require("timers/promises");
const db = require("@aws-sdk/client-dynamodb");
const lib = require("@aws-sdk/lib-dynamodb");
const streams = require("@aws-sdk/client-dynamodb-streams");

const [address] = process.argv.slice(2);
const facts = {
  endpoint: `http://${address}:8000`, region: "us-east-1", maxAttempts: 1,
  credentials: { accessKeyId: "any", secretAccessKey: "any" },
};
const client = new db.DynamoDBClient(facts);
const items = lib.DynamoDBDocumentClient.from(client);
const log = new streams.DynamoDBStreamsClient(facts);
const TableName = "sdk.node";

// All records of the stream of the table.
async function records() {
  const { Table } = await client.send(new db.DescribeTableCommand({ TableName }));
  const StreamArn = Table.LatestStreamArn;
  const { StreamDescription } = await log.send(new streams.DescribeStreamCommand({ StreamArn }));
  const found = [];
  for (const { ShardId } of StreamDescription.Shards) {
    const start = { StreamArn, ShardId, ShardIteratorType: "TRIM_HORIZON" };
    let { ShardIterator } = await log.send(new streams.GetShardIteratorCommand(start));
    while (ShardIterator) {
      const page = await log.send(new streams.GetRecordsCommand({ ShardIterator }));
      found.push(...page.Records);
      ShardIterator = page.Records.length ? page.NextShardIterator : null;
    }
  }
  return found;
}

async function untilRecorded(p, fits) {
  for (let turn = 0; turn < 300; turn++) {
    const of = (await records()).filter((it) => it.dynamodb.Keys.p.S === p);
    if (of.some(fits)) return;
    await sleep(100);
  }
  assert.fail(`no such record of ${p}`);
}

const TESTS = {
  async create() {
    await client.send(new db.CreateTableCommand({
      TableName, BillingMode: "PAY_PER_REQUEST",
      AttributeDefinitions: [["p", "S"], ["c", "N"], ["g", "S"]].map(
        ([AttributeName, AttributeType]) => ({ AttributeName, AttributeType })),
      KeySchema: [{ AttributeName: "p", KeyType: "HASH" }, { AttributeName: "c", KeyType: "RANGE" }],
      GlobalSecondaryIndexes: [{
        IndexName: "by_g", Projection: { ProjectionType: "ALL" },
        KeySchema: [{ AttributeName: "g", KeyType: "HASH" }],
      }],
      StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
    }));
    const waited = await db.waitUntilTableExists({ client, maxWaitTime: 60 }, { TableName });
    assert.strictEqual(waited.state, "SUCCESS");
    const listed = await client.send(new db.ListTablesCommand({}));
    assert.deepStrictEqual(listed.TableNames, [TableName]);
  },
  async put() {
    const Item = {
      p: "types", c: 1, g: "indexed", binary: new Uint8Array([0, 255]), float: -1.5e-7, yes: true, nothing: null,
      big: 12345678901234567890n, list: [3, "x", [1]], map: { x: "gr\u00fcn", y: "" },
      strings: new Set(["a", "b"]), numbers: new Set([7]),
    };
    await items.send(new lib.PutCommand({ TableName, Item }));
    const got = await items.send(new lib.GetCommand({ TableName, Key: { p: "types", c: 1 }, ConsistentRead: true }));
    got.Item.big = BigInt(got.Item.big);
    assert.deepStrictEqual(got.Item, Item);
    const refused = new db.PutItemCommand({
      TableName, Item: { p: { S: "types" }, c: { N: "1" } }, ConditionExpression: "attribute_not_exists(p)",
      ReturnValuesOnConditionCheckFailure: "ALL_OLD",
    });
    await assert.rejects(client.send(refused), (error) =>
      error instanceof db.ConditionalCheckFailedException && error.Item.yes.BOOL === true);
  },
  async update() {
    for (const turn of [1, 2, 3]) {
      const { Attributes } = await items.send(new lib.UpdateCommand({
        TableName, Key: { p: "count", c: 0 }, UpdateExpression: "SET #n = if_not_exists(#n, :zero) + :one",
        ExpressionAttributeNames: { "#n": "n" }, ExpressionAttributeValues: { ":zero": 0, ":one": 1 },
        ReturnValues: "UPDATED_NEW",
      }));
      assert.deepStrictEqual(Attributes, { n: turn });
    }
    await items.send(new lib.DeleteCommand({ TableName, Key: { p: "count", c: 0 } }));
  },
  async query() {
    const all = Array.from({ length: 100 }, (_, c) => ({ p: "wide", c, g: `g${c % 4}` }));
    for (let start = 0; start < all.length; start += 25) {
      const RequestItems = { [TableName]: all.slice(start, start + 25).map((Item) => ({ PutRequest: { Item } })) };
      const { UnprocessedItems } = await items.send(new lib.BatchWriteCommand({ RequestItems }));
      assert.deepStrictEqual(UnprocessedItems, {});
    }
    const pages = lib.paginateQuery({ client: items, pageSize: 7 }, {
      TableName, KeyConditionExpression: "p = :p AND c >= :c", ConsistentRead: true,
      ExpressionAttributeValues: { ":p": "wide", ":c": 10 },
    });
    const found = [];
    for await (const page of pages) found.push(...page.Items);
    assert.deepStrictEqual(found, all.slice(10));
    const ask = new lib.QueryCommand({
      TableName, IndexName: "by_g", KeyConditionExpression: "g = :g", ExpressionAttributeValues: { ":g": "g1" },
    });
    // A global index is behind for a moment.
    let count = 0;
    for (let turn = 0; turn < 100 && count !== 25; turn++) {
      count = (await items.send(ask)).Count;
      await sleep(20);
    }
    assert.strictEqual(count, 25);
  },
  async transact() {
    const put = (c) => ({
      Put: { TableName, Item: { p: "both", c }, ConditionExpression: "attribute_not_exists(p)" },
    });
    // What is sent again with its token is done once.
    for (let turn = 0; turn < 2; turn++) {
      await items.send(new lib.TransactWriteCommand({ TransactItems: [put(1), put(2)], ClientRequestToken: "once" }));
    }
    const again = new lib.TransactWriteCommand({ TransactItems: [put(3), put(2)] });
    await assert.rejects(items.send(again), (error) =>
      error instanceof db.TransactionCanceledException
      && error.CancellationReasons[1].Code === "ConditionalCheckFailed");
    const TransactItems = [1, 2, 3].map((c) => ({ Get: { TableName, Key: { p: "both", c } } }));
    const { Responses } = await items.send(new lib.TransactGetCommand({ TransactItems }));
    assert.deepStrictEqual(Responses.map((it) => it.Item?.c), [1, 2, undefined]);
  },
  async stream() {
    await untilRecorded("count", ({ eventName, dynamodb: { OldImage, NewImage } }) =>
      eventName === "MODIFY" && OldImage.n.N === "2" && NewImage.n.N === "3");
    await untilRecorded("count", (it) => it.eventName === "REMOVE" && it.userIdentity === undefined);
  },
  async expire() {
    const TimeToLiveSpecification = { AttributeName: "end", Enabled: true };
    await client.send(new db.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
    const end = Math.floor(Date.now() / 1000) - 60;
    await items.send(new lib.PutCommand({ TableName, Item: { p: "old", c: 0, end } }));
    await untilRecorded("old", ({ eventName, userIdentity }) =>
      eventName === "REMOVE" && userIdentity?.PrincipalId === "dynamodb.amazonaws.com");
  },
  async drop() {
    await client.send(new db.DeleteTableCommand({ TableName }));
    await assert.rejects(
      client.send(new db.DescribeTableCommand({ TableName })), db.ResourceNotFoundException);
  },
};

async function main() {
  let passed = 0, failed = 0;
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await test();
      passed++;
    } catch (error) {
      failed++;
      console.log("FAILED", name, error);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main();
