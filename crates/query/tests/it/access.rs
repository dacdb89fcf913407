//! Who may execute what, on a simulated node that asks for permissions.

use cluster::access::certificate;
use cluster::{AccessConfig, Authenticator, Authorizer, Cluster};
use query::{CqlError, Parameters, Session};
use replication::Consistency;
use std::net::SocketAddr;
use testkit::CqlEnv;
use testkit::cql::rows_text;

/// The hash of `x`: bcrypt of the least cost.
const HASH: &str = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

/// Makes the node ask for permissions, with the superuser `root`.
async fn secure() {
    let config = AccessConfig {
        authenticator: Authenticator::Password,
        authorizer: Authorizer::Cassandra,
        superuser: "root".to_owned(),
        default_superuser: true,
        superuser_salted_password: HASH.to_owned(),
        certificate_roles: certificate::Queries::usual(),
    };
    runtime::local::get::<Cluster>().secure(config).await.expect("a superuser");
}

fn session_of(role: Option<&str>) -> Session {
    let session = Session::new(SocketAddr::from(([127, 0, 0, 1], 9)));
    if let Some(role) = role {
        session.log_in(role);
    }
    *session.keyspace.borrow_mut() = Some("ks".into());
    session
}

async fn execute(env: &CqlEnv, session: &Session, text: &str) -> Result<String, CqlError> {
    let parameters = Parameters::plain(Consistency::One);
    let response = env.processor().query(session, text, &parameters).await?;
    Ok(rows_text(&response))
}

/// Executes statements as the node itself.
async fn prepare(env: &CqlEnv, statements: &[&str]) {
    for text in statements {
        env.ok(text).await;
    }
}

const SETUP: [&str; 9] = [
    "CREATE TABLE IF NOT EXISTS ks.t (p int PRIMARY KEY, v int)",
    "CREATE INDEX IF NOT EXISTS i ON ks.t (v)",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS ks.mv AS SELECT * FROM ks.t WHERE p IS NOT NULL \
     PRIMARY KEY (p)",
    "CREATE TYPE IF NOT EXISTS ks.u (f int)",
    "CREATE FUNCTION IF NOT EXISTS ks.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua \
     AS 'return 1'",
    "CREATE FUNCTION IF NOT EXISTS ks.s(a int, b int) CALLED ON NULL INPUT RETURNS int \
     LANGUAGE lua AS 'return 1'",
    "CREATE AGGREGATE IF NOT EXISTS ks.a(int) SFUNC s STYPE int INITCOND 0",
    "CREATE ROLE IF NOT EXISTS other",
    "CREATE ROLE IF NOT EXISTS u",
];

/// Every permission on every kind of resource, as GRANT writes it.
fn grants() -> Vec<String> {
    let resources = [
        ("ALL KEYSPACES", "CREATE ALTER DROP SELECT MODIFY AUTHORIZE"),
        ("KEYSPACE ks", "CREATE ALTER DROP SELECT MODIFY AUTHORIZE"),
        ("TABLE ks.t", "ALTER DROP SELECT MODIFY AUTHORIZE"),
        ("ALL ROLES", "CREATE ALTER DROP AUTHORIZE DESCRIBE"),
        ("ROLE other", "ALTER DROP AUTHORIZE"),
        ("ALL FUNCTIONS", "CREATE ALTER DROP AUTHORIZE EXECUTE"),
        ("ALL FUNCTIONS IN KEYSPACE ks", "CREATE ALTER DROP AUTHORIZE EXECUTE"),
        ("FUNCTION ks.f(int)", "ALTER DROP AUTHORIZE EXECUTE"),
    ];
    let of = |(resource, names): (&str, &str)| {
        let grant = |name: &str| format!("{name} ON {resource}");
        names.split(' ').map(grant).collect::<Vec<_>>()
    };
    resources.into_iter().flat_map(of).collect()
}

/// Statements that need one permission, and on which resources it may have been granted.
const CASES: &[(&str, &str, &[&str])] = &[
    (
        "CREATE KEYSPACE k2 WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}",
        "CREATE",
        &["ALL KEYSPACES"],
    ),
    ("ALTER KEYSPACE ks WITH durable_writes = true", "ALTER", &["KEYSPACE ks", "ALL KEYSPACES"]),
    ("DROP KEYSPACE k2", "DROP", &["ALL KEYSPACES"]),
    ("CREATE TABLE ks.t2 (p int PRIMARY KEY)", "CREATE", &["KEYSPACE ks", "ALL KEYSPACES"]),
    ("CREATE TABLE t3 (p int PRIMARY KEY)", "CREATE", &["KEYSPACE ks", "ALL KEYSPACES"]),
    (
        "ALTER TABLE ks.t WITH comment = 'x'",
        "ALTER",
        &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"],
    ),
    ("DROP TABLE ks.t", "DROP", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    ("CREATE INDEX ON ks.t (v)", "ALTER", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    (
        "CREATE MATERIALIZED VIEW ks.m AS SELECT * FROM ks.t WHERE p IS NOT NULL PRIMARY KEY (p)",
        "ALTER",
        &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"],
    ),
    ("DROP INDEX ks.i", "ALTER", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    ("DROP MATERIALIZED VIEW ks.mv", "ALTER", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    ("CREATE TYPE ks.u2 (f int)", "CREATE", &["KEYSPACE ks", "ALL KEYSPACES"]),
    ("ALTER TYPE ks.u ADD g int", "ALTER", &["KEYSPACE ks", "ALL KEYSPACES"]),
    ("DROP TYPE ks.u", "DROP", &["KEYSPACE ks", "ALL KEYSPACES"]),
    ("SELECT * FROM ks.t", "SELECT", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    ("SELECT JSON count(*) FROM t", "SELECT", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    (
        "SELECT * FROM MUTATION_FRAGMENTS(ks.t)",
        "SELECT",
        &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"],
    ),
    ("SELECT * FROM system.roles", "SELECT", &["ALL KEYSPACES"]),
    ("SELECT * FROM system.clients", "SELECT", &["ALL KEYSPACES"]),
    ("INSERT INTO ks.t (p) VALUES (1)", "MODIFY", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    (
        "UPDATE ks.t SET v = 1 WHERE p = 1",
        "MODIFY",
        &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"],
    ),
    ("DELETE FROM ks.t WHERE p = 1", "MODIFY", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    (
        "BEGIN BATCH INSERT INTO ks.t (p) VALUES (1); APPLY BATCH",
        "MODIFY",
        &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"],
    ),
    ("TRUNCATE ks.t", "MODIFY", &["TABLE ks.t", "KEYSPACE ks", "ALL KEYSPACES"]),
    (
        "SELECT ks.f(1)",
        "EXECUTE",
        &["FUNCTION ks.f(int)", "ALL FUNCTIONS IN KEYSPACE ks", "ALL FUNCTIONS"],
    ),
    (
        "CREATE FUNCTION ks.g(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
        "CREATE",
        &["ALL FUNCTIONS IN KEYSPACE ks", "ALL FUNCTIONS"],
    ),
    (
        "DROP FUNCTION ks.f",
        "DROP",
        &["FUNCTION ks.f(int)", "ALL FUNCTIONS IN KEYSPACE ks", "ALL FUNCTIONS"],
    ),
    ("DROP AGGREGATE ks.a(int)", "DROP", &["ALL FUNCTIONS IN KEYSPACE ks", "ALL FUNCTIONS"]),
    ("CREATE ROLE r2", "CREATE", &["ALL ROLES"]),
    ("ALTER ROLE other WITH LOGIN = false", "ALTER", &["ROLE other", "ALL ROLES"]),
    ("DROP ROLE other", "DROP", &["ROLE other", "ALL ROLES"]),
    ("GRANT other TO u", "AUTHORIZE", &["ROLE other", "ALL ROLES"]),
    ("LIST ROLES OF other", "DESCRIBE", &["ALL ROLES"]),
    ("LIST ALL PERMISSIONS", "DESCRIBE", &["ALL ROLES"]),
    ("LIST SERVICE LEVELS", "DESCRIBE", &["ALL ROLES"]),
    // Nothing that can be granted is enough.
    ("UPDATE system.roles SET is_superuser = true WHERE role = 'u'", "", &[]),
    ("INSERT INTO system.config (name, value) VALUES ('a', 'b')", "", &[]),
    ("CREATE ROLE r3 WITH SUPERUSER = true", "", &[]),
    ("ALTER ROLE u WITH SUPERUSER = true", "", &[]),
    ("GRANT root TO u", "", &[]),
    ("DROP ROLE root", "", &[]),
    ("CREATE SERVICE LEVEL gold", "", &[]),
    ("DROP TABLE system.local", "", &[]),
    ("GRANT SELECT ON ks.t TO other", "", &[]),
];

async fn is_refused(env: &CqlEnv, session: &Session, text: &str) -> bool {
    match execute(env, session, text).await {
        Err(CqlError::Unauthorized(_)) => true,
        Err(CqlError::Syntax(error)) => panic!("{text}: {error}"),
        _ => false,
    }
}

/// Every statement with every permission on every resource alone: it passes with those that it
/// needs, and with no other.
#[test]
fn each_permission_alone_allows_what_it_is_for() {
    CqlEnv::run(1, 2, |env| async move {
        secure().await;
        for (text, permission, resources) in CASES {
            let needed = |grant: &String| {
                resources.iter().any(|resource| *grant == format!("{permission} ON {resource}"))
            };
            for grant in grants() {
                prepare(&env, &SETUP).await;
                prepare(&env, &[&format!("GRANT {grant} TO u")]).await;
                let refused = is_refused(&env, &session_of(Some("u")), text).await;
                assert_eq!(refused, !needed(&grant), "{text} with {grant}");
                prepare(&env, &["DROP ROLE IF EXISTS u", "DROP ROLE IF EXISTS r2"]).await;
            }
            prepare(&env, &SETUP).await;
            assert!(is_refused(&env, &session_of(None), text).await, "{text} by nobody");
            assert!(is_refused(&env, &session_of(Some("gone")), text).await, "{text} by a gone");
            let by_root = is_refused(&env, &session_of(Some("root")), text).await;
            assert_eq!(by_root, text.contains("TABLE system.local"), "{text} by root");
            // What root did is undone.
            prepare(&env, &["DROP SERVICE LEVEL IF EXISTS gold", "DROP ROLE IF EXISTS u"]).await;
        }
    });
}

/// Statements that need several permissions: each is missed alone.
#[test]
fn all_permissions_that_are_needed_are_asked_for() {
    let cases: [(&str, &[&str]); 6] = [
        ("INSERT INTO ks.t (p) VALUES (1) IF NOT EXISTS", &["SELECT ON ks.t", "MODIFY ON ks.t"]),
        ("SELECT ks.f(p) FROM ks.t", &["SELECT ON ks.t", "EXECUTE ON FUNCTION ks.f(int)"]),
        (
            "SELECT ks.a(p) FROM ks.t",
            &[
                "SELECT ON ks.t",
                "EXECUTE ON FUNCTION ks.a(int)",
                "EXECUTE ON FUNCTION ks.s(int, int)",
            ],
        ),
        (
            "CREATE OR REPLACE FUNCTION ks.f(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua \
             AS 'return 2'",
            &["CREATE ON ALL FUNCTIONS IN KEYSPACE ks", "ALTER ON FUNCTION ks.f(int)"],
        ),
        (
            "CREATE AGGREGATE IF NOT EXISTS ks.b(int) SFUNC s STYPE int",
            &["CREATE ON ALL FUNCTIONS IN KEYSPACE ks", "EXECUTE ON FUNCTION ks.s(int, int)"],
        ),
        ("GRANT SELECT ON ks.t TO other", &["SELECT ON ks.t", "AUTHORIZE ON ks.t"]),
    ];
    CqlEnv::run(2, 1, move |env| async move {
        secure().await;
        for (text, needs) in cases {
            prepare(&env, &SETUP).await;
            for grant in needs {
                prepare(&env, &[&format!("GRANT {grant} TO u")]).await;
            }
            let session = session_of(Some("u"));
            assert!(!is_refused(&env, &session, text).await, "{text}");
            for missing in needs {
                let (permission, resource) = missing.split_once(" ON ").expect("a grant");
                let revoke = format!("REVOKE {permission} ON {resource} FROM u");
                prepare(&env, &[&revoke]).await;
                // The same session, which remembers what it was allowed.
                assert!(is_refused(&env, &session, text).await, "{text} without {missing}");
                prepare(&env, &[&format!("GRANT {missing} TO u")]).await;
                assert!(!is_refused(&env, &session, text).await, "{text} again");
            }
            prepare(&env, &["DROP ROLE u"]).await;
            assert!(is_refused(&env, &session, text).await, "{text} by a dropped role");
        }
    });
}

#[test]
fn everybody_reads_what_drivers_need() {
    CqlEnv::run(3, 1, |env| async move {
        secure().await;
        prepare(&env, &SETUP).await;
        for text in [
            "SELECT * FROM system.local",
            "SELECT * FROM system.peers",
            "SELECT * FROM system_schema.tables",
            "SELECT now()",
            "DESCRIBE TABLE ks.t",
            "USE ks",
        ] {
            assert!(!is_refused(&env, &session_of(Some("u")), text).await, "{text}");
            assert!(is_refused(&env, &session_of(None), text).await, "{text} by nobody");
        }
    });
}

#[test]
fn creators_have_what_they_create_until_it_is_dropped() {
    CqlEnv::run(4, 2, |env| async move {
        secure().await;
        prepare(&env, &SETUP).await;
        prepare(&env, &["GRANT CREATE ON KEYSPACE ks TO u"]).await;
        let (own, other) = (session_of(Some("u")), session_of(Some("other")));
        execute(&env, &own, "CREATE TABLE ks.mine (p int PRIMARY KEY)").await.expect("a table");
        execute(&env, &own, "SELECT * FROM ks.mine").await.expect("its rows");
        assert!(is_refused(&env, &other, "SELECT * FROM ks.mine").await);
        execute(&env, &own, "DROP TABLE ks.mine").await.expect("its end");
        prepare(&env, &["CREATE TABLE ks.mine (p int PRIMARY KEY)"]).await;
        assert!(is_refused(&env, &own, "SELECT * FROM ks.mine").await);
        // What was there before is not given to who asks for it again.
        let again = "CREATE TABLE IF NOT EXISTS ks.mine (p int PRIMARY KEY)";
        execute(&env, &own, again).await.expect("nothing to do");
        assert!(is_refused(&env, &own, "SELECT * FROM ks.mine").await);
    });
}

#[test]
fn what_superusers_write_into_the_tables_holds() {
    CqlEnv::run(5, 2, |env| async move {
        secure().await;
        prepare(&env, &SETUP).await;
        let text = "UPDATE system.roles SET is_superuser = true WHERE role = 'u'";
        let session = session_of(Some("u"));
        assert!(is_refused(&env, &session, "SELECT * FROM ks.t").await);
        execute(&env, &session_of(Some("root")), text).await.expect("a change");
        assert!(!is_refused(&env, &session, "SELECT * FROM ks.t").await);
    });
}

#[test]
fn passwords_are_looked_at() {
    CqlEnv::run(6, 1, |env| async move {
        secure().await;
        let made = [
            "CREATE ROLE in_it WITH PASSWORD = 'p' AND LOGIN = true",
            "CREATE ROLE out WITH PASSWORD = 'p'",
            "CREATE ROLE bare WITH LOGIN = true",
        ];
        prepare(&env, &made).await;
        let long = format!("CREATE ROLE long WITH PASSWORD = '{}'", "p".repeat(4097));
        let refused = execute(&env, &session_of(Some("root")), &long).await;
        let text = refused.map_err(|error| error.message());
        assert_eq!(text, Err("A password has 4096 bytes at most".to_owned()));
        let wrong = "Username and/or password are incorrect";
        for (name, password, expected) in [
            ("in_it", "p", None),
            ("in_it", "P", Some(wrong)),
            ("in_it", "", Some(wrong)),
            ("out", "p", Some("out is not permitted to log in")),
            ("bare", "", Some(wrong)),
            ("nobody", "p", Some(wrong)),
            ("", "", Some("Authentication ID must not be null")),
            ("root", "U*U", None),
        ] {
            let session = session_of(None);
            let found = env.processor().log_in(&session, name, password).await;
            let found = found.map_err(|error| error.message()).err();
            assert_eq!(found.as_deref(), expected, "{name} {password}");
            assert_eq!(session.role().as_deref(), expected.is_none().then_some(name));
        }
    });
}
