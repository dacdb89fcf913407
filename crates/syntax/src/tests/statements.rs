//! Statements that read and change rows.

use super::{check, same};

#[test]
fn select_clauses() {
    same("SELECT * FROM t");
    same("SELECT * FROM ks.t WHERE a = 1 AND b IN (1, 2) ORDER BY c DESC LIMIT 3 ALLOW FILTERING");
    same("SELECT now()");
    same("SELECT 1, 'a', ?, (int)3");
    same("SELECT * FROM MUTATION_FRAGMENTS(ks.t) WHERE a = 1");
    same("SELECT a FROM mutation_fragments");
    same("SELECT a FROM t GROUP BY a, b ORDER BY b, c DESC PER PARTITION LIMIT 2 LIMIT ?");
    check("SELECT a FROM t ORDER BY b ASC", "SELECT a FROM t ORDER BY b");
    same("SELECT a FROM t ORDER BY v ANN OF [1.0, 2.0] LIMIT 10");
    same("SELECT a FROM t ORDER BY v ANN OF ? LIMIT ?");
    same("SELECT a FROM t WHERE bm25(c, 'q') > 0 ORDER BY bm25(c, 'q') LIMIT 5");
    same("SELECT a FROM t BYPASS CACHE USING TIMEOUT 5ms AND SERVICE LEVEL gold");
    same("SELECT a FROM t ALLOW FILTERING BYPASS CACHE");
    check("SELECT a FROM t LIMIT :n", "SELECT a FROM t LIMIT ?");
    same("SELECT a FROM t LIMIT -1");
}

#[test]
fn json_and_distinct_are_names_too() {
    same("SELECT JSON DISTINCT a, b AS c FROM t");
    same("SELECT JSON * FROM t");
    same("SELECT JSON \"A\" FROM t");
    same("SELECT JSON count(*) FROM t");
    same("SELECT JSON (int)5 AS a FROM t");
    same("SELECT JSON {'a': 1} FROM t");
    same("SELECT DISTINCT token(p) FROM t");
    check("select json from t", "SELECT json FROM t");
    check("select json, distinct from t;;", "SELECT json, distinct FROM t");
    check("select json as j from t", "SELECT json AS j FROM t");
    // As the first word of a list they would be something else.
    check("select (json) * a from t", "SELECT \"json\" * a FROM t");
    check("select (json(a)) from t", "SELECT \"json\"(a) FROM t");
    check("select json (distinct) * a from t", "SELECT JSON \"distinct\" * a FROM t");
    same("SELECT JSON json * a FROM t");
    same("SELECT DISTINCT distinct * a FROM t");
    same("SELECT json_a * json FROM t");
    check("select distinct json from t", "SELECT DISTINCT json FROM t");
    check("select json.a, distinct[1] from t", "SELECT json.a, distinct[1] FROM t");
}

#[test]
fn selectors() {
    same("SELECT a, f(b), ks.f(b, 1), m['k'], l[0], u.f, u.f.g[1] FROM t");
    check(
        "SELECT COUNT(*), count(1), COUNT(a), count FROM t",
        "SELECT count(*), count(*), count(a), count FROM t",
    );
    check(
        "SELECT WRITETIME(a), TTL(m[1]), maxwritetime(u.f), ttl, writetime FROM t",
        "SELECT writetime(a), ttl(m[1]), maxwritetime(u.f), ttl, writetime FROM t",
    );
    check(
        "SELECT CAST(a AS text), CAST(f(b) AS int) AS c, cast FROM t",
        "SELECT cast(a as text), cast(f(b) as int) AS c, cast FROM t",
    );
    same("SELECT token(a, b), min(a), max(b), system.now() FROM t");
    same("SELECT m[1 .. 2], m[.. 'b'], m[? ..] FROM t");
    check("SELECT m[1..2] FROM t", "SELECT m[1 .. 2] FROM t");
    same("SELECT a + b * 2, (a + b) * 2, -a, - -a, a - (b - c), a % 3 / b FROM t");
    check("SELECT (a), ((a) + (b)) FROM t", "SELECT a, a + b FROM t");
    check("SELECT (a)-1, (int)-1, (a)[1] FROM t", "SELECT a - 1, (int)-1, a[1] FROM t");
    check("SELECT (a) AS b FROM t", "SELECT a AS b FROM t");
    same("SELECT (a, b), [a, b], {a, b}, {(a): b}, {'k': a}, {f: a} FROM t");
    same("SELECT (float)?, (list<int>)[1], (ks.u){a: 1}, (u)f(1) FROM t");
    same("SELECT (a, b).c, ((int)a)[1], (1).x FROM t");
}

#[test]
fn relations() {
    for relation in [
        "a = 1",
        "a != 1",
        "a < 1",
        "a <= 1",
        "a > 1",
        "a >= 1",
        "a = null",
        "a IN (1, ?)",
        "a IN ()",
        "a IN ?",
        "a NOT IN (1)",
        "a NOT IN ?",
        "(a, b) > (1, 2)",
        "(a, b) = ?",
        "(a, b) IN ((1, 2), (3, 4), ?)",
        "(a, b) IN ?",
        "(a) = (1)",
        "(a) IN ((1), (2))",
        "token(a) > 10",
        "token(a, b) <= token(1, 2)",
        "token(a) = ?",
        "a CONTAINS 1",
        "a CONTAINS KEY ?",
        "a LIKE '%x%'",
        "a IS NOT NULL",
        "a IS NULL",
        "m['k'] = 1",
        "m[?] IN (1)",
        "a = {}",
        "a = 1h30m",
        "a = f(1) AND b = 2",
    ] {
        same(&format!("SELECT * FROM t WHERE {relation}"));
    }
    check(
        "SELECT * FROM t WHERE ((a = 1)) AND ((a, b) > (1, 2)) AND (token(a) > 1)",
        "SELECT * FROM t WHERE a = 1 AND (a, b) > (1, 2) AND token(a) > 1",
    );
}

#[test]
fn insert() {
    same("INSERT INTO ks.t (a, \"B\", c) VALUES (1, ?, null)");
    same("INSERT INTO t (a) VALUES (1) IF NOT EXISTS");
    same("INSERT INTO t (a) VALUES (?) IF NOT EXISTS USING TIMESTAMP ? AND TTL ? AND TIMEOUT 5s");
    check(
        "insert into t(a) values(1) using ttl 5 and timestamp -3",
        "INSERT INTO t (a) VALUES (1) USING TIMESTAMP -3 AND TTL 5",
    );
    check(
        "INSERT INTO t (a) VALUES (1) USING TTL 5 AND TTL 6",
        "INSERT INTO t (a) VALUES (1) USING TTL 6",
    );
    same("INSERT INTO t (a) VALUES (1, 2)");
    same("INSERT INTO t JSON '{\"a\": 1}'");
    same("INSERT INTO t JSON ? DEFAULT UNSET IF NOT EXISTS USING TTL 1");
    check("INSERT INTO t JSON :j DEFAULT NULL", "INSERT INTO t JSON ?");
}

#[test]
fn update() {
    same("UPDATE t SET a = 1 WHERE k = 2");
    same("UPDATE ks.t USING TIMESTAMP 1 AND TTL ? SET a = 1, b = ? WHERE k = 2 IF EXISTS");
    same("UPDATE t SET c = c + 1, d = d - ?, l = [1] + l, m = m + {1: 2} WHERE k = 1");
    check(
        "UPDATE t SET c += 1, d -= {2} WHERE k = 1",
        "UPDATE t SET c = c + 1, d = d - {2} WHERE k = 1",
    );
    check("UPDATE t SET c = c -1 WHERE k = 1", "UPDATE t SET c = c - 1 WHERE k = 1");
    check("UPDATE t SET c = c-1 WHERE k = 1", "UPDATE t SET c = c - 1 WHERE k = 1");
    same("UPDATE t SET l = ? + l WHERE k = 1");
    same("UPDATE t SET l = f(1) + l WHERE k = 1");
    same("UPDATE t SET l = f(1) + ks.f(2) WHERE k = 1");
    same("UPDATE t SET a = 1 + 2 * 3 WHERE k = 1");
    same("UPDATE t SET l[0] = 1, m['k'] = null, u.f = 3 WHERE k = 1");
    same("UPDATE t SET \"C\" = \"C\" + 1 WHERE k IN (1, 2) IF a = 1 AND b[1] != ? AND u.f IN (1)");
    same("UPDATE t SET a = 1 WHERE k = 1 IF a LIKE 'x' AND b > null AND c NOT IN ?");
    same("UPDATE t SET a = 1 WHERE k = 1 IF exists = 1");
}

#[test]
fn delete() {
    same("DELETE FROM t WHERE k = 1");
    same("DELETE a, b[1], c.f FROM ks.t USING TIMESTAMP 5 AND TIMEOUT 1s WHERE k = 1 AND c > 2");
    same("DELETE FROM t WHERE k = 1 IF EXISTS");
    same("DELETE a FROM t WHERE k = 1 IF a = 1 BYPASS LARGE_DATA_GUARDRAILS");
}

#[test]
fn batches() {
    check(
        "begin batch insert into t (a) values (1) update t set a = 1 where k = 1; \
         delete from t where k = 1 apply batch;",
        "BEGIN BATCH INSERT INTO t (a) VALUES (1); UPDATE t SET a = 1 WHERE k = 1; \
         DELETE FROM t WHERE k = 1; APPLY BATCH",
    );
    same("BEGIN UNLOGGED BATCH USING TIMESTAMP 1 AND TIMEOUT 1s APPLY BATCH");
    same("BEGIN COUNTER BATCH UPDATE t SET c = c + 1 WHERE k = ?; APPLY BATCH");
    same("BEGIN BATCH DELETE FROM t WHERE k = 1 IF EXISTS; APPLY BATCH");
}

#[test]
fn the_rest() {
    same("USE ks");
    check("use \"Ks\" ;", "USE \"Ks\"");
    same("TRUNCATE TABLE t");
    check("truncate ks.t using timeout 1m", "TRUNCATE TABLE ks.t USING TIMEOUT 1m");
    check("TRUNCATE COLUMNFAMILY t", "TRUNCATE TABLE t");
    same("PRUNE MATERIALIZED VIEW ks.v");
    same("PRUNE MATERIALIZED VIEW v WHERE a = 1 USING TIMEOUT 1s AND CONCURRENCY 10");
}

#[test]
fn describe() {
    for what in [
        "CLUSTER",
        "SCHEMA",
        "FULL SCHEMA",
        "KEYSPACES",
        "KEYSPACE",
        "KEYSPACE ks",
        "ONLY KEYSPACE",
        "ONLY KEYSPACE \"Ks\"",
        "TABLES",
        "TABLE ks.t",
        "INDEX i",
        "MATERIALIZED VIEW ks.v",
        "TYPES",
        "TYPE t",
        "FUNCTIONS",
        "FUNCTION ks.f",
        "AGGREGATES",
        "AGGREGATE a",
        "ks.t",
        "only",
        "tables.t",
    ] {
        same(&format!("DESCRIBE {what}"));
        same(&format!("DESCRIBE {what} WITH INTERNALS"));
        same(&format!("DESCRIBE {what} WITH INTERNALS AND PASSWORDS"));
    }
    check("desc columnfamily t", "DESCRIBE TABLE t");
}
