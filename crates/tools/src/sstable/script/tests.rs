//! Programs, without files.

use super::*;
use model::{DecoratedKey, Type, Uuid};
use mutation::{Cell, Marker, RowBuilder, Tombstone};
use stdx::Bytes;

fn schema() -> Rc<TableSchema> {
    let builder = TableSchema::builder("ks", "t", Uuid::nil());
    let builder = builder.partition_key("p", Type::Int).clustering("c", Type::Int);
    Rc::new(builder.regular("v", Type::Text).build().unwrap())
}

/// What a program prints of a partition with one row; or the error.
fn printed(text: &str) -> Result<String, String> {
    let program = Program::load("test.lua", text.as_bytes(), schema())?;
    let key = DecoratedKey::new(Bytes::copy_from(&5i32.to_be_bytes()));
    let column = schema().column("v").unwrap().id;
    let mut row = RowBuilder::new(Vec::new());
    row.marker(Marker::Live { timestamp: 7 });
    row.cell(column, Cell::live(8, b"text"));
    let row = Bytes::copy_from(&row.finish());
    let clustering = Bytes::copy_from(&[0, 4, 0, 0, 0, 1]);
    let fragments = [
        Fragment::PartitionStart { key, tombstone: Tombstone::new(3, 1_296_705_906) },
        Fragment::Row { key: clustering, row },
    ];
    let run = || -> Result<(), Failure> {
        program.call("consume_stream_start", ())?;
        fragments.iter().try_for_each(|fragment| program.give(fragment).map(drop))?;
        program.call("consume_stream_end", ()).map(drop)
    };
    match run() {
        Ok(()) => Ok(String::from_utf8(program.shared.out.borrow().clone()).unwrap()),
        Err(Failure::Operation(why) | Failure::Arguments(why)) => Err(why),
    }
}

#[test]
fn fragments_have_fields() {
    let check = |function: &str, expression: &str, expected: &str| {
        let text = format!("function consume_{function}(it) print({expression}) end");
        assert_eq!(printed(&text), Ok(format!("{expected}\n")), "{expression}");
    };
    let start = |expression: &str, expected: &str| check("partition_start", expression, expected);
    start("it.key", "5");
    start("it.key:to_hex()", "000400000005");
    start("it.token, Scylla.token_of(it.key)", "-7509452495886106294\t-7509452495886106294");
    start("it.key.components[1].value + 1", "6");
    start("it.tombstone.timestamp, it.tombstone.deletion_time", "3\t2011-02-03 04:05:06z");
    start("it.tombstone.deletion_time.month, it.nonsense", "2\tnil");
    start("it.tombstone.deletion_time < Scylla.now()", "true");
    start(
        "os.time(it.tombstone.deletion_time) ~= nil, os.execute, io, load",
        "true\tnil\tnil\tnil",
    );
    let row = |expression: &str, expected: &str| check("clustering_row", expression, expected);
    row("it.key, it.tombstone, it.marker.timestamp, it.marker.has_ttl", "1\tnil\t7\tfalse");
    row("it.cells.v.value, it.cells.v.type, it.cells.v.is_live", "text\tregular\ttrue");
    row("#schema.all_columns, schema.clustering_key_columns[1].name", "3\tc");
}

#[test]
fn positions_compare() {
    let check = |a: &str, b: &str, expected: i8| {
        let text = format!("print(({a}):tri_cmp({b}), ({b}):tri_cmp({a}))");
        let text = format!("function consume_stream_start() {text} end");
        assert_eq!(printed(&text), Ok(format!("{expected}\t{}\n", -expected)), "{a} {b}");
    };
    let ring = |arguments: &str| format!("Scylla.new_ring_position({arguments})");
    let key = "Scylla.unserialize_partition_key('000400000005')";
    let token = "-7509452495886106294";
    check(&ring("1, nil"), &ring("-1, nil"), -1);
    check(&ring("1, nil"), &ring(&format!("0, {key}")), -1);
    check(&ring("-1, nil"), &ring(&format!("0, {key}")), 1);
    check(&ring(&format!("-1, {token}")), &ring(&format!("0, {key}")), -1);
    check(&ring(&format!("1, {token}")), &ring(&format!("0, {key}, {token}")), 1);
    check(&ring("-1, 5"), &ring("1, 5"), -1);
    check(&ring(&format!("0, {key}")), &ring(&format!("0, {key}")), 0);
    let place = |arguments: &str| format!("Scylla.new_position_in_partition({arguments})");
    let (one, two) = ["000400000001", "000400000002"]
        .map(|digits| format!("Scylla.unserialize_clustering_key('{digits}')"))
        .into();
    check(&place("1, nil"), &place("-1, nil"), -1);
    check(&place("1, nil"), &place(&format!("0, {one}")), -1);
    check(&place(&format!("0, {one}")), &place(&format!("0, {two}")), -1);
    check(&place(&format!("1, {one}")), &place(&format!("0, {one}")), 1);
    check(&place(&format!("0, {two}")), &place("-1, nil"), -1);
}

#[test]
fn json_is_written() {
    let check = |body: &str, expected: &str| {
        let text = format!("local w = Scylla.new_json_writer()\n{body}");
        assert_eq!(printed(&text), Ok(expected.to_string()), "{body}");
    };
    check("w:int(7.0) w:string('a\"')", "7\n\"a\\\"\"\n");
    check(
        "w:start_object() w:key('a') w:start_array() w:null() w:bool(true) w:double(1.5) \
         w:end_array() w:key('b') w:start_object() w:end_object() w:end_object()",
        "{\"a\":[null,true,1.5],\"b\":{}}\n",
    );
    let whole = "w:start_stream() w:start_sstable(nil)\n\
                 function consume_partition_start(it) w:start_partition(it) end\n\
                 function consume_clustering_row(it) w:clustering_row(it) end\n\
                 function consume_stream_end()\n\
                 w:end_partition() w:end_sstable() w:end_stream()\n\
                 end";
    let text = printed(&format!("local w = Scylla.new_json_writer()\n{whole}")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let partition = &json["sstables"]["anonymous"][0];
    assert_eq!(partition["key"]["value"], "5");
    assert_eq!(partition["clustering_elements"][0]["columns"]["v"]["value"], "text");
    for wrong in ["w:key('a')", "w:start_object() w:int(1)", "w:start_array() w:end_object()"] {
        assert!(
            printed(&format!("local w = Scylla.new_json_writer()\n{wrong}")).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn errors_name_their_line() {
    let check = |text: &str, expected: &str| {
        let error = printed(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check("function consume_", "test.lua:1");
    check("\n\nerror('no')", "test.lua:3: no");
    check("function consume_clustering_row(it)\n print(it.key:nonsense()) end", "test.lua:2");
    check("Scylla.unserialize_partition_key('zz')", "not hex");
    check("x = string.rep('x', (1 << 30) + 64)", "memory");
}

#[test]
fn arguments_are_pairs() {
    let read =
        |words: &[&str]| arguments(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    assert_eq!(
        read(&["a=1:b=x=y", "c="]),
        Ok(vec![pair("a", "1"), pair("b", "x=y"), pair("c", "")])
    );
    assert!(read(&["a"]).is_err());
    assert_eq!(read(&[]), Ok(Vec::new()));
}
