use super::*;
use crate::testing;
use proptest::prelude::*;
use uuid::Uuid;

fn ty(text: &str) -> Type {
    let user = |name: &str| {
        (name == "u").then(|| crate::UserType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: vec![("a".into(), Type::Int), ("b".into(), Type::Text)],
        })
    };
    Type::from_cql(text, &user).expect("a type")
}

fn base() -> TableSchema {
    TableSchema::builder("ks", "t", Uuid::from_u128(5))
        .partition_key("p", Type::Int)
        .clustering_descending("c", Type::Text)
        .static_column("s", ty("set<int>"))
        .regular("l", ty("list<frozen<list<int>>>"))
        .regular("m", ty("map<int, text>"))
        .regular("f", ty("frozen<map<int, text>>"))
        .regular("u", ty("u"))
        .regular("v", Type::Int)
        .build()
        .expect("a table")
}

fn log_of(base: &TableSchema) -> TableSchema {
    log_schema(base, CdcOptions::DEFAULT, Uuid::from_u128(6)).expect("a log")
}

#[test]
fn a_log_has_the_columns_of_its_base() {
    let log = log_of(&base());
    let shown: Vec<String> =
        log.columns.iter().map(|it| format!("{} {}", it.name, it.ty.to_cql())).collect();
    let expected = "cdc$stream_id blob
cdc$time timeuuid
cdc$batch_seq_no int
c text
cdc$deleted_elements_l frozen<set<timeuuid>>
cdc$deleted_elements_m frozen<set<int>>
cdc$deleted_elements_s frozen<set<int>>
cdc$deleted_elements_u frozen<set<smallint>>
cdc$deleted_f boolean
cdc$deleted_l boolean
cdc$deleted_m boolean
cdc$deleted_s boolean
cdc$deleted_u boolean
cdc$deleted_v boolean
cdc$end_of_batch boolean
cdc$operation tinyint
cdc$ttl bigint
f frozen<map<int, text>>
l frozen<map<timeuuid, frozen<list<int>>>>
m frozen<map<int, text>>
p int
s frozen<set<int>>
u frozen<u>
v int";
    assert_eq!(shown.join("\n"), expected);
    assert_eq!((log.name.as_str(), log.clustering_count), ("t_scylla_cdc_log", 2));
    assert!(log.is_attached_log() && !base().is_attached_log());
    assert_eq!(base_of_log(&log.name), Some("t"));
    assert_eq!((base_of_log("_scylla_cdc_log"), base_of_log("t_scylla_cdc")), (None, None));
}

#[test]
fn ids_ascend_as_in_the_base() {
    // Made in no order of names.
    let base = base();
    let log = log_of(&base);
    let mut values: Vec<&Column> = base.columns.iter().skip(2).collect();
    values.sort_by_key(|column| column.id);
    let ids = values.iter().flat_map(|it| {
        let names = [it.name.clone(), deleted(&it.name), deleted_elements(&it.name)];
        names.into_iter().filter_map(|name| log.column(&name).map(|column| column.id))
    });
    let ids: Vec<_> = ids.collect();
    assert!(ids.len() == 16 && ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[test]
fn windows_follow_the_time_to_live() {
    let check = |ttl_secs, window: &str, frequency: &str, grace| {
        let options = log_options(&base(), CdcOptions { ttl_secs, ..CdcOptions::DEFAULT });
        let get = |name: &str| {
            let found = options.compaction.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(get("compaction_window_size"), Some(window), "{ttl_secs}");
        assert_eq!(get("expired_sstable_check_frequency_seconds"), Some(frequency), "{ttl_secs}");
        assert_eq!(options.gc_grace_seconds, grace, "{ttl_secs}");
    };
    check(86_400, "60", "1800", 0);
    check(1, "1", "1", 0);
    check(1441, "2", "30", 0);
    check(u32::MAX, "2982617", "89478485", 0);
    check(0, "60", "1800", 864_000);
}

#[test]
fn options_are_stored_and_read() {
    for preimage in [Images::None, Images::Touched, Images::Full] {
        for delta in [Delta::Full, Delta::Keys] {
            for (postimage, ttl_secs) in [(false, 0), (true, 1), (true, i32::MAX as u32)] {
                let asked = CdcOptions { preimage, postimage, delta, ttl_secs };
                let mut options = TableOptions::new();
                options.cdc = asked.stored(true);
                assert_eq!(CdcOptions::of(&options), Some(asked));
                assert!(options.cdc.is_sorted());
                options.cdc = asked.stored(false);
                assert_eq!(CdcOptions::of(&options), None);
            }
        }
    }
    let mut options = TableOptions::new();
    assert_eq!(CdcOptions::of(&options), None);
    options.cdc = vec![("enabled".into(), "true".into()), ("ttl".into(), "soon".into())];
    assert_eq!(CdcOptions::of(&options), Some(CdcOptions::DEFAULT));
}

#[test]
fn a_log_follows_its_base() {
    let first = base();
    let log = log_of(&first);
    let dropped =
        first.edit().drop_column("m", 9).rename_column("c", "d").build().expect("a table");
    let after = log_after(&dropped, &log, &[("c", "d")], 77).expect("a log");
    let at = 77 + AHEAD_MICROS;
    let gone: Vec<(&str, i64)> =
        after.dropped.iter().map(|it| (it.name.as_str(), it.dropped_at)).collect();
    assert_eq!(gone, [("cdc$deleted_elements_m", at), ("cdc$deleted_m", at), ("m", at)]);
    let id = |log: &TableSchema, name: &str| log.column(name).map(|it| it.id);
    assert_eq!(id(&after, "d"), id(&log, "c"));
    assert_eq!(after.version, log.version);
    // The same name again, of another type: another column, even where nobody saw the drop.
    let again = dropped.edit().regular("m", Type::Int).build().expect("a table");
    let once = log_after(&again, &after, &[], 99).expect("a log");
    let unseen = log_after(&again, &log, &[("c", "d")], 99).expect("a log");
    for log_again in [once, unseen] {
        assert_eq!(log_again.column("m").map(|it| &it.ty), Some(&Type::Int));
        assert!(id(&log, "cdc$batch_seq_no") < id(&log, "m"));
        assert!(id(&log, "m") < id(&log_again, "m"));
        assert!(log_again.column("cdc$deleted_elements_m").is_none());
    }
    // A type that holds the values as well keeps its column.
    let wider = first.edit().change_type("v", Type::Blob).build().expect("a table");
    let wide = log_after(&wider, &log, &[], 1).expect("a log");
    assert_eq!(id(&wide, "v"), id(&log, "v"));
    assert_eq!((wide.column("v").map(|it| &it.ty), wide.dropped.len()), (Some(&Type::Blob), 0));
}

#[test]
fn names_that_meet_are_refused() {
    let taken = base().edit().regular("cdc$time", Type::Int).build().expect("a table");
    let refused = log_schema(&taken, CdcOptions::DEFAULT, Uuid::from_u128(6)).expect_err("twice");
    assert_eq!(refused.0, "Multiple definition of identifier cdc$time");
}

proptest! {
    /// *same-columns*, *ids-for-life*: whatever the base was and is.
    #[test]
    fn a_log_has_what_its_base_asks_for(
        one in testing::table_schema(),
        other in testing::table_schema(),
    ) {
        let log = log_of(&one);
        let after = log_after(&other, &log, &[], 5).expect("a log");
        let mut has: Vec<(String, Type)> = after.regulars().iter()
            .filter(|it| !OF_EVERY_LOG.iter().any(|(name, _)| *name == it.name))
            .map(|it| (it.name.clone(), it.ty.clone()))
            .collect();
        let mut wanted = other.log_columns();
        has.sort_by(|a, b| a.0.cmp(&b.0));
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(has, wanted);
        for column in log.regulars() {
            let kept = after.column_by_id(column.id).is_some();
            let dropped = after.dropped.iter().any(|it| it.id == column.id);
            prop_assert!(kept != dropped, "{} is lost", column.name);
        }
        prop_assert_eq!(log_after(&other, &after, &[], 6).expect("a log"), after);
    }
}
