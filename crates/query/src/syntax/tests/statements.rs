//! Statements that read and change rows.

use super::{check, same};

#[test]
fn select_clauses() {
    same("SELECT * FROM t");
    same("SELECT * FROM ks.t WHERE a = 1 AND b IN (1, 2) ORDER BY c DESC LIMIT 3 ALLOW FILTERING");
    same("SELECT JSON DISTINCT a, b AS c FROM t");
    check("select json from t", "SELECT json FROM t");
    check("select json, distinct from t;;", "SELECT json, distinct FROM t");
    check("select json as j from t", "SELECT json AS j FROM t");
    same("SELECT JSON * FROM t");
    same("SELECT now()");
    same("SELECT * FROM MUTATION_FRAGMENTS(ks.t) WHERE a = 1");
    same("SELECT a FROM mutation_fragments");
    same("SELECT a FROM t GROUP BY a, b ORDER BY b, c DESC PER PARTITION LIMIT 2 LIMIT ?");
    check("SELECT a FROM t ORDER BY b ASC", "SELECT a FROM t ORDER BY b");
    same("SELECT a FROM t ORDER BY v ANN OF [1.0, 2.0] LIMIT 10");
    same("SELECT a FROM t WHERE bm25(c, 'q') > 0 ORDER BY bm25(c, 'q') LIMIT 5");
    same("SELECT a FROM t BYPASS CACHE USING TIMEOUT 5ms AND SERVICE LEVEL gold");
    check("SELECT a FROM t LIMIT :n", "SELECT a FROM t LIMIT ?");
}
