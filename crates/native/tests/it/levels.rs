//! Service levels of clients that are logged in, in simulated nodes: which group their requests run
//! in, how much of a shard each gets, and who is shed when there is no room.

use cluster::{AccessConfig, Authenticator, Authorizer, Cluster};
use native::{Limits, Server};
use runtime::group::GroupStats;
use runtime::sim::{Options, Scheduling};
use runtime::task::Scope;
use runtime::time::{Instant, timeout};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use testkit::bare::opcode::*;
use testkit::bare::*;
use testkit::{CqlEnv, SimNode};

/// The hash of `x`: bcrypt of the least cost.
const HASH: &str = "$2b$04$CCCCCCCCCCCCCCCCCCCCC.HrBIdffznV69GxsYPA9PLSACo3k11D6";
const SELECT: &str = "SELECT v FROM ks.t WHERE k = 1";

/// A served node that asks for passwords; all that log in have `x`.
async fn served(limits: Limits, statements: &[&str]) -> (CqlEnv, Rc<Server>, u16) {
    let env = CqlEnv::start().await;
    let config = AccessConfig {
        authenticator: Authenticator::Password,
        authorizer: Authorizer::AllowAll,
        superuser: "root".to_owned(),
        default_superuser: true,
        superuser_salted_password: HASH.to_owned(),
        certificate_roles: cluster::access::certificate::Queries::usual(),
    };
    runtime::local::get::<Cluster>().secure(config).await.expect("a superuser");
    for text in statements {
        env.ok(text).await;
    }
    let (server, port) = serve(&env, limits, 10).await;
    (env, server, port)
}

fn role(name: &str) -> String {
    format!("CREATE ROLE {name} WITH LOGIN = true AND HASHED PASSWORD = '{HASH}'")
}

fn stats(name: &str) -> Option<GroupStats> {
    let found = runtime::group::all_stats().into_iter().find(|(known, _)| known == name);
    found.map(|(_, stats)| stats)
}

fn polls(name: &str) -> u64 {
    stats(name).map_or(0, |stats| stats.polls)
}

/// Requests of kind QUERY that a group has answered.
fn answered(server: &Server, name: &str) -> u64 {
    let served = server.served().into_iter();
    let of = served.filter(|(group, kind, _)| group == name && *kind == "QUERY");
    of.map(|(_, _, served)| served.requests).sum()
}

#[test]
fn a_connection_moves_with_its_level() {
    runtime::sim::test(11, || async {
        let limits = Limits::of_shard(64 << 20);
        let (env, server, port) = served(limits, &[&role("u"), &role("other")]).await;
        let mut client = Client::log_in(HERE, port, "u", "x").await;
        let group = || server.clients().remove(0).group;
        let system = "SELECT key FROM system.local";
        assert_eq!(client.ask(query(1, system)).await.opcode, RESULT);
        assert_eq!(group(), "sl:driver", "*driver-until-load*");
        assert_eq!(client.ask(query(1, SELECT)).await.opcode, RESULT);
        assert_eq!(group(), "sl:default");
        // It has been in the group of drivers until that was answered.
        assert_eq!(answered(&server, "sl:driver"), 2);

        env.ok("CREATE SERVICE LEVEL gold WITH shares = 300").await;
        env.ok("CREATE SERVICE LEVEL lead WITH shares = 100").await;
        env.ok("ATTACH SERVICE LEVEL gold TO u").await;
        assert_eq!(group(), "sl:gold");
        let (gold, default) = (polls("sl:gold"), polls("sl:default"));
        for _ in 0..10 {
            assert_eq!(client.ask(query(1, SELECT)).await.opcode, RESULT);
        }
        assert!(gold + 10 <= polls("sl:gold"), "its requests run in its group");
        // Its two tasks each wake once where they slept.
        assert!(polls("sl:default") <= default + 2, "and nowhere else");
        assert_eq!(answered(&server, "sl:gold"), 10);

        env.ok("ALTER SERVICE LEVEL gold WITH shares = 30").await;
        assert_eq!(stats("sl:gold").map(|stats| stats.shares), Some(30));
        // By a role that was granted to it, whose level has fewer shares.
        env.ok("ALTER SERVICE LEVEL gold WITH shares = 500").await;
        env.ok("ATTACH SERVICE LEVEL lead TO other").await;
        env.ok("GRANT other TO u").await;
        assert_eq!(group(), "sl:lead");
        env.ok("DROP SERVICE LEVEL lead").await;
        assert_eq!(group(), "sl:gold");
        assert_eq!(stats("sl:lead"), None);
        // What comes next has the number of what went; the client was never in it.
        env.ok("CREATE SERVICE LEVEL tin WITH shares = 10").await;
        assert_eq!(stats("sl:tin").map(|stats| (stats.polls, stats.shares)), Some((0, 10)));
        assert_eq!(client.ask(query(1, SELECT)).await.opcode, RESULT);
        assert_eq!((group(), answered(&server, "sl:gold")), ("sl:gold".to_owned(), 11));
        assert_eq!(answered(&server, "sl:tin"), 0);
        env.ok("DETACH SERVICE LEVEL FROM u").await;
        assert_eq!(group(), "sl:default");
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn without_the_level_of_drivers_all_is_the_roles_own() {
    runtime::sim::test(12, || async {
        let statements = ["DROP SERVICE LEVEL driver", &role("u")];
        let (env, server, port) = served(Limits::of_shard(64 << 20), &statements).await;
        let mut client = Client::log_in(HERE, port, "u", "x").await;
        let group = || server.clients().remove(0).group;
        assert_eq!(client.ask(query(1, "SELECT key FROM system.local")).await.opcode, RESULT);
        assert_eq!(group(), "sl:default");
        env.ok("CREATE SERVICE LEVEL driver WITH shares = 50").await;
        assert_eq!(group(), "sl:driver");
        assert_eq!(stats("sl:driver").map(|stats| stats.shares), Some(50));
        server.stop(Duration::from_secs(1)).await;
    });
}

/// Clients of a role that ask as fast as they are answered.
fn load(address: IpAddr, port: u16, name: &'static str, clients: usize, scope: &Scope) {
    for _ in 0..clients {
        scope.spawn(async move {
            let mut client = Client::log_in(address, port, name, "x").await;
            loop {
                assert_eq!(client.ask(query(1, SELECT)).await.opcode, RESULT);
            }
        });
    }
}

#[test]
fn levels_share_a_full_shard_by_their_shares() {
    let options = Options {
        scheduling: Scheduling::ByShares,
        latency_max: Duration::from_nanos(100),
        ..Options::new(13)
    };
    let mut node = SimNode::with(options, 1);
    let clients = node.world().add_node(1);
    let port = node.run(async {
        let statements = [
            &role("little"),
            &role("much"),
            "CREATE SERVICE LEVEL little WITH shares = 100",
            "CREATE SERVICE LEVEL much WITH shares = 900",
            "ATTACH SERVICE LEVEL little TO little",
            "ATTACH SERVICE LEVEL much TO much",
        ];
        let (_, _, port) = served(Limits::of_shard(64 << 20), &statements).await;
        port
    });
    let (id, world) = (node.id(), node.world());
    let address = world.ip(id);
    world.start(clients, move |_| async move {
        let scope = Scope::new();
        load(address, port, "little", 32, &scope);
        load(address, port, "much", 128, &scope);
        scope.join().await;
    });
    let measure = |node: &mut SimNode| {
        node.run(async {
            let of = |name| stats(name).map_or((0, 0), |stats| (stats.cpu_ns, stats.queue_length));
            (of("sl:little"), of("sl:much"))
        })
    };
    node.world().run_for(Duration::from_millis(20));
    let before = measure(&mut node);
    let mut queued = true;
    for _ in 0..100 {
        node.world().run_for(Duration::from_micros(500));
        let now = measure(&mut node);
        queued &= 0 < now.0.1 && 0 < now.1.1;
    }
    let after = measure(&mut node);
    assert!(queued, "both always had something to do");
    let (little, much) = (after.0.0 - before.0.0, after.1.0 - before.1.0);
    let ratio = much as f64 / little as f64;
    assert!((8.7..9.3).contains(&ratio), "{little} ns and {much} ns: 1 to {ratio}");
}

#[test]
fn interactive_work_is_shed_soon_and_batch_work_waits() {
    runtime::sim::test(14, || async {
        let limits = Limits { memory_bytes: 1 << 20, ..Limits::of_shard(10 << 20) };
        let (names, mut statements) = (["plain", "quick", "patient"], Vec::new());
        statements.extend(names.map(role));
        let levels = [
            "CREATE SERVICE LEVEL quick WITH workload_type = 'interactive'",
            "CREATE SERVICE LEVEL patient WITH workload_type = 'batch'",
            "ATTACH SERVICE LEVEL quick TO quick",
            "ATTACH SERVICE LEVEL patient TO patient",
        ];
        statements.extend(levels.map(str::to_owned));
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        let (_env, server, port) = served(limits, &statements).await;
        // Announces most of the memory, and sends little of it.
        let mut busy = Client::log_in(HERE, port, "plain", "x").await;
        let announced = frame(1, QUERY, &vec![0; 300_000]);
        busy.send(announced[..1000].to_vec()).await;
        runtime::time::sleep(Duration::from_millis(10)).await;
        // One after the other, so that each finds the same.
        let ask = async |name: &str| {
            let mut client = Client::log_in(HERE, port, name, "x").await;
            let start = Instant::now();
            client.send(announced[..1000].to_vec()).await;
            let answer = timeout(Duration::from_secs(20), client.answer()).await;
            let waited = Instant::now() - start;
            (answer.ok().flatten().map(|answer| answer.error == Some(OVERLOADED)), waited, client)
        };
        let (shed, waited, _client) = ask("quick").await;
        assert!(shed == Some(true) && waited <= Duration::from_millis(60), "{shed:?} {waited:?}");
        let (shed, waited, _client) = ask("plain").await;
        let usual = Duration::from_millis(990)..Duration::from_millis(1100);
        assert!(shed == Some(true) && usual.contains(&waited), "{waited:?}");
        let (shed, _, mut patient) = ask("patient").await;
        assert_eq!(shed, None, "it still waits");
        busy.send(announced[1000..].to_vec()).await;
        assert_ne!(busy.answer().await.expect("an answer").error, Some(OVERLOADED));
        patient.send(announced[1000..].to_vec()).await;
        assert_ne!(patient.answer().await.expect("an answer").error, Some(OVERLOADED));
        server.stop(Duration::from_secs(1)).await;
    });
}
