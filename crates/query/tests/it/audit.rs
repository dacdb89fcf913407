//! The audit log of a simulated node, in its table.

use cluster::{AccessConfig, Authenticator, Authorizer, Cluster, Settings, settings::Offer};
use query::{Audit, BatchEntry, BatchKind, BatchStatement, Parameters, Session, Values};
use replication::Consistency;
use std::net::SocketAddr;
use testkit::CqlEnv;
use testkit::cql::rows_text;

async fn begin(categories: &'static str, keyspaces: &'static str, tables: &'static str) {
    let offer = move || async move {
        let settings = Settings::of_shard();
        for (name, value) in [
            ("audit_categories", categories),
            ("audit_keyspaces", keyspaces),
            ("audit_tables", tables),
        ] {
            let shown = format!("\"{value}\"");
            settings.offer(Offer { name, kind: "string", shown, source: "config", changes: true });
        }
    };
    runtime::on_all_shards(offer).await;
    let config = query::audit::Config { to_table: true, syslog_bytes_max: None };
    Audit::start(config).await.expect("an audit log");
}

fn session_of(role: Option<&str>) -> Session {
    let session = Session::new(SocketAddr::from(([127, 0, 0, 1], 9)));
    role.into_iter().for_each(|role| session.log_in(role));
    *session.keyspace.borrow_mut() = Some("ks".into());
    session
}

async fn execute(env: &CqlEnv, session: &Session, text: &str) {
    let parameters = Parameters::plain(Consistency::One);
    let _ = env.processor().query(session, text, &parameters).await;
}

/// Ends the log, and what stands in it, in order of time.
async fn written(env: &CqlEnv) -> Vec<String> {
    Audit::stop().await;
    let text = "SELECT category, keyspace_name, table_name, username, error, operation, source, \
                consistency FROM audit.audit_log";
    let parameters = Parameters::plain(Consistency::One);
    let rows = env.processor().query(&Session::internal(), text, &parameters).await;
    rows_text(&rows.expect("rows")).split(" | ").map(str::to_owned).collect()
}

#[test]
fn what_clients_do_is_written_down() {
    CqlEnv::run(1, 1, |env| async move {
        env.ok("CREATE TABLE ks.t (p int PRIMARY KEY, v int)").await;
        env.ok("CREATE TABLE ks.other (p int PRIMARY KEY, v int)").await;
        begin("DML,DCL,QUERY", "", "ks.t").await;
        let session = session_of(Some("a"));
        for text in [
            "INSERT INTO t (p, v) VALUES (1, 1)",
            "INSERT INTO other (p, v) VALUES (1, 1)",
            "SELECT * FROM ks.t",
            "SELECT nothing FROM ks.t",
            "CREATE TABLE ks.new (p int PRIMARY KEY)",
            "CREATE ROLE r WITH PASSWORD = 'secret'",
        ] {
            execute(&env, &session, text).await;
        }
        // What the node does for itself is no event.
        env.ok("DELETE FROM ks.t WHERE p = 1").await;
        let all = written(&env).await;
        let seen = |part: &str| all.iter().filter(|row| row.contains(part)).count();
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(seen("INSERT INTO t (p, v)"), 1, "{all:?}");
        assert_eq!(seen("SELECT * FROM ks.t"), 1, "{all:?}");
        assert_eq!(seen("CREATE ROLE r"), 1, "{all:?}");
        assert_eq!((seen("secret"), seen("127.0.0.1"), seen("ONE")), (0, 3, 3), "{all:?}");
    });
}

#[test]
fn failures_and_statements_of_batches_are_written_down() {
    CqlEnv::run(2, 2, |env| async move {
        env.ok("CREATE TABLE ks.t (p int PRIMARY KEY, v int)").await;
        let config = AccessConfig {
            authenticator: Authenticator::Password,
            authorizer: Authorizer::Cassandra,
            superuser: String::new(),
            default_superuser: true,
            superuser_salted_password: String::new(),
            certificate_roles: cluster::access::certificate::Queries::usual(),
        };
        runtime::local::get::<Cluster>().secure(config).await.expect("a superuser");
        begin("DML,AUTH,DDL", "ks", "").await;
        let processor = env.processor();
        let nobody = session_of(None);
        processor.log_in(&nobody, "cassandra", "wrong").await.expect_err("a refusal");
        execute(&env, &nobody, "DROP TABLE ks.t").await;
        processor.log_in(&nobody, "cassandra", "cassandra").await.expect("a login");
        let entries = ["INSERT INTO ks.t (p) VALUES (1)", "DELETE FROM ks.t WHERE p = 2"];
        let entries = entries.map(|text| BatchEntry {
            statement: BatchStatement::Text(text),
            values: Values::Positional(&[]),
        });
        let parameters = Parameters::plain(Consistency::Quorum);
        let done = processor.batch(&nobody, BatchKind::Logged, &entries, &parameters).await;
        done.expect("a batch");
        let all = written(&env).await;
        let check = |expected: &[&str]| {
            let found = all.iter().any(|row| expected.iter().all(|part| row.contains(part)));
            assert!(found, "{expected:?} in {all:?}");
        };
        assert_eq!(all.len(), 5, "{all:?}");
        check(&["AUTH", "cassandra", "true", "LOGIN"]);
        check(&["AUTH", "cassandra", "false", "LOGIN"]);
        check(&["DDL", "anonymous", "true", "DROP TABLE ks.t"]);
        check(&["DML", "cassandra", "false", "INSERT INTO ks.t (p) VALUES (1)", "QUORUM"]);
        check(&["DML", "cassandra", "false", "DELETE FROM ks.t WHERE p = 2", "QUORUM"]);
    });
}
