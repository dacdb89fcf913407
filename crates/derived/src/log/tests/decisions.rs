//! Single writes, and what is asked for.

use super::facts::{Fact, Of, Said, freeze};
use super::rows::{LogRow, decode};
use super::world::World;
use super::{read, stream_of};
use crate::log::{Before, LogPlan, LogWrite, Origin};
use model::key::push_clustering;
use model::schema::cdc::{CdcOptions, Delta, Images, log_schema};
use model::{ColumnId, TableSchema, Type, Uuid, value};
use mutation::{ClusteringPosition, ClusteringRange};

const NOW: i64 = 100;
const PLAIN: CdcOptions =
    CdcOptions { preimage: Images::None, postimage: false, delta: Delta::Full, ttl_secs: 60 };

/// `(p int, c int, d int, s int static, a int, b int, m map<int, int>, primary key (p, c, d))`
fn world(options: CdcOptions) -> World {
    let map = Type::Map { key: Type::Int.into(), value: Type::Int.into(), frozen: false };
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("p", Type::Int);
    let table = table.clustering("c", Type::Int).clustering("d", Type::Int);
    let table = table.static_column("s", Type::Int).regular("a", Type::Int);
    let mut base = table.regular("b", Type::Int).regular("m", map).build().expect("a table");
    base.options.cdc = options.stored(true);
    let log = log_schema(&base, options, Uuid::from_u128(2)).expect("a log");
    let plan = LogPlan::new(&base, &log).expect("a log of the table");
    World { base, plan, key: 7i32.to_be_bytes().to_vec(), ascends: true }
}

fn prefix(parts: &[i32]) -> Vec<u8> {
    let mut key = Vec::new();
    parts.iter().for_each(|part| push_clustering(&part.to_be_bytes(), &mut key));
    key
}

fn row(c: i32) -> Vec<u8> {
    prefix(&[c, 1])
}

fn said(value: Option<i32>, at: i64, ttl: i32) -> Said {
    let value = value.map(|value| value.to_be_bytes().to_vec());
    Said { at, ttl, since: NOW, value }
}

fn id(name: &str) -> ColumnId {
    world(PLAIN).base.column(name).expect("a column").id
}

fn marker(c: i32, at: i64, ttl: i32) -> Fact {
    Fact::Marker(row(c), Said { value: Some(Vec::new()), ..said(None, at, ttl) })
}

fn cell(c: i32, name: &str, value: Option<i32>, at: i64, ttl: i32) -> Fact {
    Fact::Cell(Some(row(c)), id(name), said(value, at, ttl))
}

fn set_static(value: i32, at: i64) -> Fact {
    Fact::Cell(None, id("s"), said(Some(value), at, 0))
}

fn element(c: i32, key: i32, value: Option<i32>, at: i64, ttl: i32) -> Fact {
    let path = key.to_be_bytes().to_vec();
    Fact::Element(Some(row(c)), id("m"), path, said(value, at, ttl))
}

fn cleared(c: i32, at: i64) -> Fact {
    let of: Of = Some(row(c));
    Fact::Cleared(of, id("m"), at)
}

fn deleted(start: (&[i32], i8), end: (&[i32], i8), at: i64) -> Fact {
    let position = |(parts, weight)| ClusteringPosition { prefix: prefix(parts).into(), weight };
    Fact::RangeDeleted(ClusteringRange { start: position(start), end: position(end) }, at)
}

fn number(bytes: &[u8]) -> String {
    value::decode_i32(bytes).map_or("?".to_owned(), |value| value.to_string())
}

/// `time.number operation key values ttl end`.
fn print(world: &World, log: &LogRow) -> String {
    let key = model::key::clustering_components(&log.clustering).map(number);
    let key: Vec<String> = key.collect();
    let mut out = format!("{}.{} op{} ({})", log.time, log.number, log.operation, key.join(" "));
    for column in world.base.statics().iter().chain(world.base.regulars()) {
        if log.deleted.contains(&column.id) {
            out += &format!(" -{}", column.name);
        }
        let parts = log.elements.get(&column.id).into_iter().flatten();
        parts.for_each(|part| out += &format!(" -{}[{}]", column.name, number(part)));
        let Some(bytes) = log.values.get(&column.id) else { continue };
        if !column.ty.is_multi_cell() {
            out += &format!(" {}={}", column.name, number(bytes));
        }
        if column.ty.is_multi_cell() {
            for (key, value) in value::map_entries(bytes) {
                out += &format!(" {}[{}]={}", column.name, number(key), number(value));
            }
        }
    }
    out += &log.ttl.map_or(String::new(), |ttl| format!(" ttl {ttl}"));
    if log.ends { out + " end" } else { out }
}

/// The log of a write of `facts` where `there` was written before.
fn logged(options: CdcOptions, there: &[Fact], facts: &[Fact], origin: Origin) -> String {
    let world = world(options);
    let (there, write) = (freeze(&world, there), freeze(&world, facts));
    let write = write.view().expect("a mutation");
    let command = world.plan.read(write, NOW);
    let before = command.map_or(Before::nothing(), |command| read(&world, &there, &command));
    let what = LogWrite { write, before: &before, origin, now: NOW };
    let stream = |time| Ok::<_, String>(stream_of(time));
    let uuid = |time: i64| value::timeuuid_from_ticks(10 * time, [0x80; 8]);
    let mutations = world.plan.log(&what, stream, uuid, &mut Vec::new()).expect("a log");
    let rows = decode(&world, &mutations, NOW).expect("rows of a log");
    let lines: Vec<String> = rows.iter().map(|row| print(&world, row)).collect();
    lines.join("\n")
}

#[track_caller]
fn check(facts: &[Fact], expected: &str) {
    assert_eq!(logged(PLAIN, &[], facts, Origin::Client), expected);
}

#[test]
fn rows_and_cells() {
    check(&[], "");
    check(&[marker(1, 5, 0), cell(1, "a", Some(3), 5, 0)], "5.0 op2 (1 1) a=3 end");
    check(&[marker(1, 5, 9), cell(1, "a", Some(3), 5, 9)], "5.0 op2 (1 1) a=3 ttl 9 end");
    check(&[marker(1, 5, 0)], "5.0 op2 (1 1) end");
    let update = [cell(1, "a", Some(3), 5, 0), cell(1, "b", None, 5, 0)];
    check(&update, "5.0 op1 (1 1) a=3 -b end");
    check(&[set_static(4, 5)], "5.0 op1 () s=4 end");
    check(&[Fact::RowDeleted(row(1), 5)], "5.0 op3 (1 1) end");
    check(&[Fact::PartitionDeleted(5)], "5.0 op4 () end");
    let expired = [Fact::RowDeleted(row(1), 5)];
    assert_eq!(logged(PLAIN, &[], &expired, Origin::RowTtl), "5.0 op-3 (1 1) end");
    let expired = [Fact::PartitionDeleted(5)];
    assert_eq!(logged(PLAIN, &[], &expired, Origin::RowTtl), "5.0 op-4 () end");
}

#[test]
fn ranges_have_two_bounds() {
    let both = [deleted((&[1], -1), (&[2], 1), 5)];
    check(&both, "5.0 op5 (1)\n5.1 op7 (2) end");
    let inner = [deleted((&[1], 1), (&[2, 3], -1), 5)];
    check(&inner, "5.0 op6 (1)\n5.1 op8 (2 3) end");
    let open = [deleted((&[], -1), (&[2], -1), 5), deleted((&[4], 1), (&[], 1), 5)];
    check(&open, "5.0 op5 ()\n5.1 op8 (2)\n5.2 op6 (4)\n5.3 op7 () end");
}

#[test]
fn collections() {
    let added = [element(1, 4, Some(40), 5, 0), element(1, 6, None, 5, 0)];
    check(&added, "5.0 op1 (1 1) -m[6] m[4]=40 end");
    let replaced = [cleared(1, 4), element(1, 4, Some(40), 5, 0)];
    check(&replaced, "5.0 op1 (1 1) -m m[4]=40 end");
    let expiring = [cleared(1, 4), element(1, 4, Some(40), 5, 9)];
    check(&expiring, "5.0 op1 (1 1) -m\n5.1 op1 (1 1) m[4]=40 ttl 9 end");
    let inserted = [marker(1, 5, 0), cell(1, "a", Some(3), 5, 0), replaced[0].clone()];
    check(&inserted, "5.0 op2 (1 1) a=3\n5.1 op1 (1 1) -m end");
    check(&[cleared(1, 4)], "5.0 op1 (1 1) -m end");
}

#[test]
fn what_is_not_one_change_is_split() {
    let times = [cell(1, "b", Some(2), 6, 0), cell(1, "a", Some(1), 5, 0)];
    check(&times, "5.0 op1 (1 1) a=1 end\n6.0 op1 (1 1) b=2 end");
    let lifetimes = [marker(1, 5, 9), cell(1, "a", None, 5, 0)];
    check(&lifetimes, "5.0 op2 (1 1) ttl 9\n5.1 op1 (1 1) -a end");
    let statics = [cell(1, "a", Some(1), 5, 0), set_static(4, 5)];
    check(&statics, "5.0 op1 () s=4\n5.1 op1 (1 1) a=1 end");
    // In the order of rows, while nothing asks for another.
    let rows = [cell(1, "a", Some(1), 5, 0), marker(2, 5, 0)];
    check(&rows, "5.0 op1 (1 1) a=1\n5.1 op2 (2 1) end");
    let deletion_first = [Fact::RowDeleted(row(1), 5), marker(2, 5, 0)];
    check(&deletion_first, "5.0 op3 (1 1)\n5.1 op2 (2 1) end");
    let deletion_last = [
        cell(1, "a", Some(1), 5, 0),
        Fact::RowDeleted(row(2), 5),
        marker(3, 5, 0),
        deleted((&[4], -1), (&[4], 1), 5),
        Fact::PartitionDeleted(5),
    ];
    let expected = "5.0 op2 (3 1)\n5.1 op1 (1 1) a=1\n5.2 op3 (2 1)\n5.3 op5 (4)\n5.4 op7 (4)\n\
                    5.5 op4 () end";
    check(&deletion_last, expected);
}

#[test]
fn keys_alone() {
    let keys = CdcOptions { delta: Delta::Keys, postimage: true, ..PLAIN };
    let facts = [marker(1, 5, 9), cell(1, "a", Some(3), 5, 9)];
    let expected = "5.0 op2 (1 1) ttl 9\n5.1 op9 (1 1) a=3 end";
    assert_eq!(logged(keys, &[], &facts, Origin::Client), expected);
}

#[test]
fn images() {
    let touched = CdcOptions { preimage: Images::Touched, ..PLAIN };
    let full = CdcOptions { preimage: Images::Full, postimage: true, ..PLAIN };
    let there = [marker(1, 2, 0), cell(1, "a", Some(3), 2, 0), element(1, 4, Some(40), 2, 0)];
    let check = |options, facts: &[Fact], expected: &str| {
        assert_eq!(logged(options, &there, facts, Origin::Client), expected);
    };
    let update = [cell(1, "b", Some(6), 5, 0)];
    check(touched, &update, "5.0 op0 (1 1) -b\n5.1 op1 (1 1) b=6 end");
    let expected = "5.0 op0 (1 1) a=3 -b m[4]=40\n5.1 op1 (1 1) b=6\n\
                    5.2 op9 (1 1) a=3 b=6 m[4]=40 end";
    check(full, &update, expected);
    // Of rows that are not there nothing is told, nor of deletions after them.
    check(touched, &[cell(2, "b", Some(6), 5, 0)], "5.0 op1 (2 1) b=6 end");
    check(touched, &[marker(1, 5, 0)], "5.0 op0 (1 1)\n5.1 op2 (1 1) end");
    let expected = "5.0 op0 (1 1) a=3 -b m[4]=40\n5.1 op3 (1 1) end";
    check(touched, &[Fact::RowDeleted(row(1), 5)], expected);
    check(full, &[Fact::RowDeleted(row(1), 5)], expected);
    check(full, &[deleted((&[1], -1), (&[1], 1), 5)], "5.0 op5 (1)\n5.1 op7 (1) end");
    // A value that is older than what is there does not show.
    let late = [cell(1, "a", Some(9), 1, 0)];
    check(touched, &late, "1.0 op0 (1 1) a=3\n1.1 op1 (1 1) a=9 end");
    let after = CdcOptions { postimage: true, ..PLAIN };
    check(after, &late, "1.0 op1 (1 1) a=9\n1.1 op9 (1 1) a=3 m[4]=40 end");
    // What a set deletes is gone after it; the next one begins there.
    let two = [marker(2, 5, 0), deleted((&[2], -1), (&[2], 1), 5), cell(2, "a", Some(1), 6, 0)];
    let expected = "5.0 op2 (2 1)\n5.1 op5 (2)\n5.2 op7 (2) end\n6.0 op1 (2 1) a=1\n\
                    6.1 op9 (2 1) a=1 end";
    check(after, &two, expected);
    let statics = [set_static(1, 5)];
    let twice = |facts| logged(touched, &[set_static(8, 2)], facts, Origin::Client);
    assert_eq!(twice(&statics), "5.0 op0 () s=8\n5.1 op1 () s=1 end");
    check(touched, &statics, "5.0 op1 () s=1 end");
}

/// The rows and columns that are read.
fn asked(options: CdcOptions, facts: &[Fact]) -> String {
    let world = world(options);
    let write = freeze(&world, facts);
    let Some(command) = world.plan.read(write.view().expect("a mutation"), NOW) else {
        return "nothing".to_owned();
    };
    let ranges = command.clustering_ranges();
    let keys = ranges.iter().map(|range| {
        assert_eq!(range.start.prefix, range.end.prefix);
        let key: Vec<String> =
            model::key::clustering_components(&range.start.prefix).map(number).collect();
        format!("({})", key.join(" "))
    });
    let names = command
        .columns
        .iter()
        .map(|(id, _)| world.base.column_by_id(*id).expect("a column").name.clone());
    let (keys, names): (Vec<String>, Vec<String>) = (keys.collect(), names.collect());
    format!("{} of {}", names.join(" "), keys.join(" "))
}

#[test]
fn only_what_an_image_shows_is_read() {
    let touched = CdcOptions { preimage: Images::Touched, ..PLAIN };
    let after = CdcOptions { postimage: true, ..PLAIN };
    let update = [cell(1, "b", Some(6), 5, 0), element(2, 1, Some(1), 5, 0)];
    assert_eq!(asked(PLAIN, &update), "nothing");
    assert_eq!(asked(touched, &update), "b m of (1 1) (2 1)");
    assert_eq!(asked(after, &update), "a b m of (1 1) (2 1)");
    let statics = [set_static(1, 5)];
    assert_eq!(asked(touched, &statics), "s of ()");
    let both = [set_static(1, 5), cell(1, "b", Some(6), 5, 0)];
    assert_eq!(asked(touched, &both), "s b of (1 1)");
    let deletion = [Fact::RowDeleted(row(1), 5)];
    assert_eq!(asked(touched, &deletion), "a b m of (1 1)");
    assert_eq!(asked(after, &deletion), "nothing");
    let ranges = [deleted((&[1], -1), (&[1], 1), 5), Fact::PartitionDeleted(6)];
    assert_eq!(asked(touched, &ranges), "nothing");
    assert_eq!(asked(touched, &[marker(1, 5, 0)]), " of (1 1)");
}

#[test]
fn schemas_that_do_not_fit_are_named() {
    let World { base, .. } = world(PLAIN);
    let log = log_schema(&base, PLAIN, Uuid::from_u128(2)).expect("a log");
    let check = |base: &TableSchema, log: &TableSchema, expected: &str| {
        assert_eq!(LogPlan::new(base, log).expect_err("no plan"), expected);
    };
    check(&base, &base, "the log ks.t: is no log");
    let wider = base.edit().regular("z", Type::Int).build().expect("a table");
    check(&wider, &log, "the log ks.t_scylla_cdc_log: it has no column z");
    let other = base.edit().drop_column("a", 1).regular("a", Type::Text).build().expect("a table");
    check(&other, &log, "the log ks.t_scylla_cdc_log: its column a is a int");
    let mut off = base.clone();
    off.options.cdc = PLAIN.stored(false);
    check(&off, &log, "the log ks.t_scylla_cdc_log: ks.t asks for none");
    let mut stranger = base.clone();
    stranger.id = Uuid::from_u128(9);
    check(&stranger, &log, "the log ks.t_scylla_cdc_log: is of another table than ks.t");
}
