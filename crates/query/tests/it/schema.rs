//! Statements that change the schema on a simulated node: what they answer, what clients are
//! told, and what becomes of the rows.

use query::{CqlError, ResponseKind};
use testkit::{CqlEnv, SimNode, script};

#[test]
fn keyspaces_tables_and_types() {
    CqlEnv::run_on_one_and_two(|env| async move {
        script::run(&env, include_str!("scripts/schema.cql")).await
    });
}

#[test]
fn rows_through_alterations() {
    CqlEnv::run_on_one_and_two(|env| async move {
        script::run(&env, include_str!("scripts/alterations.cql")).await
    });
}

#[test]
fn the_schema_tables_tell_what_clients_need() {
    CqlEnv::run_on_one_and_two(|env| async move {
        script::run(&env, include_str!("scripts/schema_tables.cql")).await
    });
}

#[test]
fn descriptions() {
    CqlEnv::run_on_one_and_two(|env| async move {
        env.ok("CREATE TABLE t (p int, c text, v int, PRIMARY KEY (p, c))").await;
        script::run(&env, include_str!("scripts/describe.cql")).await;
        let described = env.ok("DESCRIBE TABLE t").await;
        let ResponseKind::Rows(rows) = &described.kind else { panic!("{described:?}") };
        let body = String::from_utf8_lossy(&rows.body);
        let create = body.find("CREATE TABLE").map(|at| body[at..].to_owned()).unwrap();
        env.ok("DROP TABLE t").await;
        env.ok(&create).await;
        let again = env.ok("DESCRIBE TABLE t").await;
        assert_eq!(again, described);
    });
}

#[test]
fn a_name_that_is_taken_has_its_own_error() {
    CqlEnv::run_on_one_and_two(|env| async move {
        env.ok("CREATE TABLE t (p int PRIMARY KEY)").await;
        let found = env.query("CREATE TABLE t (p int PRIMARY KEY)").await;
        let (keyspace, table) = ("ks".to_owned(), "t".to_owned());
        assert_eq!(found, Err(CqlError::AlreadyExists { keyspace, table }));
        let found = env.query("CREATE KEYSPACE ks").await;
        let (keyspace, table) = ("ks".to_owned(), String::new());
        assert_eq!(found, Err(CqlError::AlreadyExists { keyspace, table }));
    });
}

#[test]
fn more_copies_than_nodes_are_warned_of() {
    CqlEnv::run_on_one_and_two(|env| async move {
        let simple = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let create = format!("CREATE KEYSPACE a WITH replication = {simple}");
        let warnings = env.ok(&create).await.warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("SimpleStrategy"), "{warnings:?}");
        let warnings = env.ok("CREATE KEYSPACE b WITH replication = {'dc1': 1}").await.warnings;
        assert!(warnings.is_empty(), "{warnings:?}");
        let warnings = env.ok("CREATE KEYSPACE c WITH replication = {'dc1': 3}").await.warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("dc1=3"), "{warnings:?}");
    });
}

#[test]
fn what_cassandra_describes_can_be_executed() {
    CqlEnv::run_on_one_and_two(|env| async move {
        let response = env
            .ok("CREATE TABLE ks.t (p int, c int, v text, PRIMARY KEY (p, c)) WITH CLUSTERING \
                 ORDER BY (c ASC) AND additional_write_policy = '99p' AND allow_auto_snapshot = \
                 true AND bloom_filter_fp_chance = 0.01 AND caching = {'keys': 'ALL', \
                 'rows_per_partition': 'NONE'} AND cdc = false AND comment = '' AND compaction = \
                 {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
                 'max_threshold': '32', 'min_threshold': '4'} AND compression = \
                 {'chunk_length_in_kb': '16', 'class': \
                 'org.apache.cassandra.io.compress.LZ4Compressor'} AND memtable = 'default' AND \
                 crc_check_chance = 1.0 AND default_time_to_live = 0 AND extensions = {} AND \
                 gc_grace_seconds = 864000 AND incremental_backups = true AND max_index_interval \
                 = 2048 AND memtable_flush_period_in_ms = 0 AND min_index_interval = 128 AND \
                 read_repair = 'BLOCKING' AND speculative_retry = '99p'")
            .await;
        assert_eq!(response.warnings.len(), 6, "{:?}", response.warnings);
        let options = "compaction = {'class': 'SizeTieredCompactionStrategy', 'max_threshold': ";
        let described = format!("{:?}", env.rows("DESCRIBE TABLE t").await).replace("''", "'");
        assert!(described.contains(options), "{described}");
    });
}

#[test]
fn how_files_are_written_is_described_where_it_is_set() {
    CqlEnv::run_on_one_and_two(|env| async move {
        env.ok("CREATE TABLE t (p int PRIMARY KEY) WITH sstable_format = 'ms' AND \
                column_index_size_in_kb = 2")
            .await;
        let described = async || format!("{:?}", env.rows("DESCRIBE TABLE t").await);
        let text = described().await.replace("''", "'");
        assert!(text.contains("column_index_size_in_kb = 2"), "{text}");
        assert!(text.contains("sstable_format = 'ms'"), "{text}");
        let select = "SELECT extensions FROM system_schema.tables WHERE keyspace_name = 'ks' AND \
                      table_name = 't'";
        let stored = format!("{:?}", env.rows(select).await);
        assert!(stored.contains("sstable_format"), "{stored}");
        env.ok("ALTER TABLE t WITH sstable_format = ''").await;
        let text = described().await;
        assert!(!text.contains("sstable_format") && text.contains("column_index_size"), "{text}");
        env.ok("CREATE TABLE other (p int PRIMARY KEY)").await;
        let text = format!("{:?}", env.rows("DESCRIBE TABLE other").await);
        assert!(!text.contains("sstable_format") && !text.contains("column_index"), "{text}");
    });
}

#[test]
fn a_crash_takes_back_no_schema() {
    for seed in 0..20 {
        let mut node = SimNode::new(seed, 1 + (seed % 2) as u16);
        let before = node.run(async {
            let env = CqlEnv::start().await;
            for text in [
                "CREATE TYPE u (a int, \"B\" list<frozen<tuple<int, text>>>)",
                "CREATE TYPE \"o o\" (u frozen<u>, m map<int, frozen<u>>)",
            ] {
                env.ok(text).await;
            }
            let table = "CREATE TABLE t (\"P\" int, q vector<float, 3>, c timeuuid, d text, s int \
                         static, o set<frozen<\"o o\">>, v int, PRIMARY KEY ((\"P\", q), c, d)) \
                         WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'it''s' AND \
                         compression = {} AND caching = {'enabled': false} AND \
                         tombstone_gc = {'mode': 'repair'} AND paxos_grace_seconds = 5 AND \
                         per_partition_rate_limit = {'max_reads_per_second': 9}";
            env.ok(table).await;
            env.ok("CREATE TABLE gone (p int PRIMARY KEY)").await;
            env.ok("CREATE KEYSPACE tab WITH tablets = {'initial': 4}").await;
            env.ok("CREATE TABLE tab.t (p int PRIMARY KEY, v int)").await;
            env.ok("ALTER TABLE t DROP (v, s)").await;
            env.ok("ALTER TABLE t ADD v blob").await;
            env.ok("ALTER TABLE t RENAME d TO e").await;
            env.ok("ALTER TYPE u ADD c inet").await;
            env.ok("ALTER KEYSPACE tab WITH durable_writes = false").await;
            env.ok("DROP TABLE gone").await;
            env.rows("DESCRIBE FULL SCHEMA WITH INTERNALS").await
        });
        node.crash();
        let after = node.run(async {
            let env = CqlEnv::start().await;
            env.ok("INSERT INTO tab.t (p, v) VALUES (1, 2)").await;
            env.rows("DESCRIBE FULL SCHEMA WITH INTERNALS").await
        });
        assert_eq!(before, after, "seed {seed}");
    }
}
