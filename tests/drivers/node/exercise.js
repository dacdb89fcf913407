// What the Node.js driver must be able to do: node exercise.js ADDRESS PORT.
// Prints "N passed, N failed".
"use strict";
const assert = require("assert");
const cassandra = require("cassandra-driver");
const { types } = cassandra;

const [address, port] = process.argv.slice(2);
const client = new cassandra.Client({
  contactPoints: [`${address}:${port}`],
  localDataCenter: "datacenter1",
  queryOptions: { prepare: true, consistency: types.consistencies.localOne },
});

const uuid = "c4e2f8a0-1d3b-11f0-8de9-0242ac120002";
const TYPES = [
  ["ascii", "plain"], ["bigint", types.Long.fromString("-9223372036854775808")],
  ["blob", Buffer.from([0, 255])], ["boolean", true], ["date", types.LocalDate.fromString("2026-11-21")],
  ["decimal", types.BigDecimal.fromString("-12.3400")], ["double", 1.5e300],
  ["duration", new types.Duration(1, 2, types.Long.fromNumber(3))], ["float", 0.25],
  ["inet", types.InetAddress.fromString("2001:db8::1")], ["int", -7], ["smallint", -300],
  ["text", "gr\u00fc\u00df"], ["time", types.LocalTime.fromString("23:59:59.999999999")],
  ["timestamp", new Date(Date.UTC(2026, 10, 21, 1, 2, 3))], ["timeuuid", types.TimeUuid.fromString(uuid)],
  ["tinyint", -128], ["uuid", types.Uuid.fromString(uuid)],
  ["varint", types.Integer.fromString("-1267650600228229401496703205376")],
  ["list<int>", [3, 1, 3]], ["set<text>", ["a", "b"]], ["map<text, int>", { a: 1, b: 2 }],
  ["tuple<int, text>", new types.Tuple(1, "z")], ["frozen<list<frozen<set<int>>>>", [[1, 2], [3]]],
];

const TESTS = {
  async types() {
    for (const [index, [name, value]] of TYPES.entries()) {
      const table = `node_tests.type_${index}`;
      await client.execute(`CREATE TABLE ${table} (k int PRIMARY KEY, v ${name})`, [], { prepare: false });
      await client.execute(`INSERT INTO ${table} (k, v) VALUES (?, ?)`, [1, value]);
      const got = (await client.execute(`SELECT v FROM ${table} WHERE k = ?`, [1])).first().v;
      assert.strictEqual(JSON.stringify(got), JSON.stringify(value), name);
    }
  },
  async structured() {
    const plain = (query) => client.execute(query, [], { prepare: false });
    await plain("CREATE TYPE node_tests.address (street text, number int)");
    await plain("CREATE TABLE node_tests.structured (k int PRIMARY KEY, u frozen<address>, v vector<float, 3>)");
    const value = { street: "a", number: 3 };
    const vector = new types.Vector([0.5, 1.5, -2], "float");
    await client.execute("INSERT INTO node_tests.structured (k, u, v) VALUES (?, ?, ?)", [1, value, vector]);
    const row = (await client.execute("SELECT u, v FROM node_tests.structured WHERE k = ?", [1])).first();
    assert.deepStrictEqual({ ...row.u }, value);
    assert.deepStrictEqual([...row.v], [0.5, 1.5, -2]);
    await plain("CREATE TABLE node_tests.counted (k int PRIMARY KEY, n counter)");
    for (const delta of [7, -2]) {
      await client.execute("UPDATE node_tests.counted SET n = n + ? WHERE k = ?", [types.Long.fromNumber(delta), 1]);
    }
    const counted = (await client.execute("SELECT n FROM node_tests.counted WHERE k = ?", [1])).first();
    assert.strictEqual(counted.n.toNumber(), 5);
  },
  async pages() {
    await client.execute("CREATE TABLE node_tests.wide (p int, c int, v text, PRIMARY KEY (p, c))", [], { prepare: false });
    for (let start = 0; start < 10000; start += 250) {
      const rows = Array.from({ length: 250 }, (_, i) => start + i);
      const insert = "INSERT INTO node_tests.wide (p, c, v) VALUES (?, ?, ?)";
      await Promise.all(rows.map((c) => client.execute(insert, [c % 7, c, `v${c}`])));
    }
    const seen = new Set();
    const result = await client.execute("SELECT c FROM node_tests.wide", [], { fetchSize: 400 });
    for await (const row of result) seen.add(row.c);
    assert.strictEqual(seen.size, 10000);
  },
  async batches() {
    await client.execute("CREATE TABLE node_tests.batched (k int PRIMARY KEY, v int)", [], { prepare: false });
    const query = "INSERT INTO node_tests.batched (k, v) VALUES (?, ?)";
    await client.batch(Array.from({ length: 20 }, (_, k) => ({ query, params: [k, k * k] })), { prepare: true });
    const row = (await client.execute("SELECT count(*) AS n FROM node_tests.batched")).first();
    assert.strictEqual(row.n.toNumber(), 20);
  },
  async errors() {
    await assert.rejects(client.execute("SELECT * FROM node_tests.nothing"), /unconfigured table nothing/);
  },
};

async function main() {
  let passed = 0;
  let failed = 0;
  await client.connect();
  await client.execute("CREATE KEYSPACE node_tests WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", [], { prepare: false });
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await test();
      passed += 1;
    } catch (error) {
      failed += 1;
      console.log("FAILED", name, error);
    }
  }
  await client.shutdown();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main().catch((error) => {
  console.log(error, "\n0 passed, 1 failed");
  process.exit(1);
});
