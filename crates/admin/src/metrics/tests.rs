use super::*;
use relabel::Rules;
use serde_json::json;
use std::sync::Arc;

/// The text of sheets of `x`.
fn written(sheets: Vec<Sheet>, tells_help: bool) -> String {
    let config = runtime::Config::new(1);
    let write = move || async move { text("x", sheets, tells_help).await };
    let bytes = runtime::testing::block_on_with(config, write);
    String::from_utf8(bytes).expect("text")
}

fn filter(query: &[(&str, &str)]) -> Result<Filter, String> {
    Filter::parse("x", Arc::default(), query.iter().copied())
}

/// Lines that two shards and the node itself make, under a filter.
fn shown(query: &[(&str, &str)]) -> String {
    let filter = filter(query).expect("a filter");
    let mut sheets: Vec<Sheet> = (0..2).map(|shard| Sheet::new(&filter, Some(shard))).collect();
    for (value, sheet) in (1..).zip(&mut sheets) {
        sheet.gauge("b_now", "What it is.", &[("class", "a\"b\n\\")], value);
        sheet.counter("a_total", "How many.", &[], value + 2);
    }
    sheets[0].counter("d", "By type.", &[("type", "t"), ("op", "o")], 5);
    let mut node = Sheet::new(&filter, None);
    node.push(Kind::Gauge, ("c", "All."), &[("ks", "k"), ("cf", "t")], 0.5);
    sheets.push(node);
    written(sheets, filter.tells_help())
}

#[test]
fn samples_are_grouped_by_name() {
    let expected = "\
# HELP x_a_total How many.
# TYPE x_a_total counter
x_a_total{shard=\"0\"} 3
x_a_total{shard=\"1\"} 4
# HELP x_b_now What it is.
# TYPE x_b_now gauge
x_b_now{class=\"a\\\"b\\n\\\\\",shard=\"0\"} 1
x_b_now{class=\"a\\\"b\\n\\\\\",shard=\"1\"} 2
# HELP x_c All.
# TYPE x_c gauge
x_c{ks=\"k\",cf=\"t\"} 0.5
# HELP x_d By type.
# TYPE x_d counter
x_d{op=\"o\",shard=\"0\",type=\"t\"} 5
";
    assert_eq!(shown(&[]), expected);
}

#[test]
fn histograms_and_summaries_have_a_sum_and_a_count() {
    let filter = Filter::all("x");
    let mut sheet = Sheet::new(&filter, Some(0));
    let buckets = Buckets { up_to: vec![(1.0, 2), (10.5, 3)], sum: 7.5, count: 4 };
    sheet.histogram("h", "H.", &[], &buckets);
    let mut node = Sheet::new(&filter, None);
    node.summary("s", "S.", &[], (&[(0.5, 3.0), (0.99, 9.0)], 12.0, 3));
    let expected = "\
# TYPE x_h histogram
x_h_bucket{shard=\"0\",le=\"1.000000\"} 2
x_h_bucket{shard=\"0\",le=\"10.500000\"} 3
x_h_bucket{shard=\"0\",le=\"+Inf\"} 4
x_h_sum{shard=\"0\"} 7.5
x_h_count{shard=\"0\"} 4
# TYPE x_s summary
x_s{quantile=\"0.5\"} 3
x_s{quantile=\"0.99\"} 9
x_s_sum 12
x_s_count 3
";
    assert_eq!(written(vec![sheet, node], false), expected);
}

#[test]
fn filters_choose_samples() {
    let check = |query: &[(&str, &str)], expected: &[&str]| {
        let text = shown(query);
        let found: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let found: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(found, expected, "{query:?}");
    };
    let (a0, a1) = ("x_a_total{shard=\"0\"}", "x_a_total{shard=\"1\"}");
    let b1 = "x_b_now{class=\"a\\\"b\\n\\\\\",shard=\"1\"}";
    let c = "x_c{ks=\"k\",cf=\"t\"}";
    check(&[("__name__", "x_a*")], &[a0, a1]);
    check(&[("__name__", "x_a_total")], &[a0, a1]);
    check(&[("__name__", "x_a")], &[]);
    check(&[("__name__", "a_total")], &[a0, a1]);
    check(&[("__name__", "a*")], &[a0, a1]);
    check(&[("__name__", "_a*")], &[]);
    check(&[("__name__", "x_a*"), ("__name__", "x_c")], &[a0, a1, c]);
    check(&[("shard", "1")], &[a1, b1]);
    check(&[("shard", "[12]"), ("__name__", "x_a*")], &[a1]);
    check(&[("shard", "1"), ("class", "(?s)a.*")], &[b1]);
    check(&[("shard", "")], &[]);
    check(&[("cf", "t|u")], &[c]);
    check(&[("cf", "t.")], &[]);
    assert!(!shown(&[("__help__", "false")]).contains("# HELP"));
    assert!(!filter(&[("__aggregate__", "0")]).expect("a filter").aggregates());
}

#[test]
fn families_are_left_out_as_a_whole() {
    let check = |name: &str, start: &str, expected: bool| {
        let filter = filter(&[("__name__", name)]).expect("a filter");
        assert_eq!(filter.wants_any(start), expected, "{name} {start}");
    };
    check("*", "column_family_", true);
    check("x*", "column_family_", true);
    check("x_col*", "column_family_", true);
    check("x_column_family_read*", "column_family_", true);
    check("x_column_family_reads", "column_family_", true);
    check("x_cql*", "column_family_", false);
    check("x_cql_reads", "column_family_", false);
    check("y*", "column_family_", false);
    check("col*", "column_family_", true);
    check("column_family_reads", "column_family_", true);
    check("cql*", "column_family_", false);
}

#[test]
fn what_is_no_filter_is_refused() {
    let check = |query: &[(&str, &str)], expected: &str| {
        let reason = filter(query).expect_err("refused");
        assert!(reason.contains(expected), "{query:?}: {reason}");
    };
    check(&[("__nam__", "x")], "__nam__: neither __name__, __help__, __aggregate__ nor a label");
    check(&[("color", "red")], "labels are: shard, ks, cf");
    check(&[("shard", "(")], "shard: not a regular expression: (");
    check(&[("__help__", "maybe")], "__help__: not true or false: maybe");
    let long = "a".repeat(2000);
    check(&[("ks", &long)], "ks: a pattern of more than 1024 characters");
    check(&[("ks", "(a{99}){99}")], "ks: not a regular expression");
    check(&[("ks", "a"); 17], "more than 16 filters");
}

#[test]
fn samples_are_called_as_the_rules_say() {
    let rules = json!([
        { "source_labels": ["ks"], "target_label": "keyspace" },
        { "source_labels": ["ks"], "action": "drop_label", "target_label": "ks" },
        { "source_labels": ["cf"], "action": "drop_label", "target_label": "cf" },
        { "source_labels": ["__name__"], "regex": "^idle", "action": "skip_when_empty" },
        { "source_labels": ["class"], "regex": "^c$", "action": "drop" },
    ]);
    let rules = Arc::new(Rules::parse(&rules).expect("rules"));
    let shown = |query: &[(&str, &str)]| {
        let filter = Filter::parse("x", rules.clone(), query.iter().copied()).expect("a filter");
        let mut sheet = Sheet::new(&filter, Some(0));
        for (table, value) in [("a", 1), ("b", 2), ("c", 3)] {
            sheet.gauge("of", "Of.", &[("ks", "k"), ("cf", table)], value);
        }
        sheet.gauge("of", "Of.", &[("class", "c")], 4);
        sheet.push(Kind::Gauge, ("idle", "Idle."), &[("class", "a")], 0.0);
        sheet.push(Kind::Gauge, ("idle", "Idle."), &[("class", "b")], 0.5);
        let none = Buckets { up_to: Vec::new(), sum: 0.0, count: 0 };
        sheet.histogram("idle_times", "Times.", &[], &none);
        written(vec![sheet], false)
    };
    // Of tables that have the same name now, one is called so, and the others as ever.
    let expected = "\
# TYPE x_idle gauge
x_idle{class=\"b\",shard=\"0\"} 0.5
# TYPE x_of gauge
x_of{shard=\"0\",keyspace=\"k\"} 1
x_of{ks=\"k\",cf=\"b\",shard=\"0\"} 2
x_of{ks=\"k\",cf=\"c\",shard=\"0\"} 3
";
    assert_eq!(shown(&[("__help__", "false")]), expected);
    let filtered = "# TYPE x_of gauge\nx_of{shard=\"0\",keyspace=\"k\"} 1\n";
    assert_eq!(shown(&[("keyspace", "k")]), filtered);
}
