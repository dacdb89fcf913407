use super::*;
use crate::kind::parse_bytes;
use crate::line::{Line, Listed, arguments, read, values_of};

#[test]
fn a_later_source_wins_and_is_named() {
    let mut values = Values::default();
    assert_eq!(values.text("native_transport_port"), "9042");
    assert_eq!(values.source("native_transport_port"), Source::Default);
    values.set("native-transport-port", vec!["9999".into()], Source::CommandLine).unwrap();
    values.read_file("native_transport_port: 9043\nrpc_address: 127.0.0.2\n").unwrap();
    assert_eq!(values.text("native_transport_port"), "9999");
    assert_eq!(values.text("rpc_address"), "127.0.0.2");
    assert_eq!(values.source("rpc_address").name(), "config");
}

#[test]
fn refusals_name_the_option_and_the_place() {
    let mut values = Values::default();
    let check = |result: Result<(), Refused>, expected: &str| {
        assert_eq!(result.unwrap_err().0, expected);
    };
    check(
        values.set("rpc_adress", vec!["x".into()], Source::CommandLine),
        "unknown option rpc_adress; did you mean rpc_address?",
    );
    check(
        values.set("storage_port", vec!["many".into()], Source::CommandLine),
        "option storage_port: not a port: many",
    );
    check(
        values.set("developer_mode", vec!["perhaps".into()], Source::CommandLine),
        "option developer_mode: not a boolean: perhaps",
    );
}

#[test]
fn faults_of_a_file_are_told_all_at_once_with_their_places() {
    let check = |text: &str, expected: &[&str]| {
        let mut values = Values::default();
        let faults = values.read_file(text).err().unwrap_or_default();
        let said: Vec<String> = faults.iter().map(Note::to_string).collect();
        assert_eq!(said, expected, "{text}");
        assert!(values.given.is_empty(), "{text}");
    };
    check("- a list", &["1:1: the options file does not hold `name: value` lines"]);
    check(
        "num_tokens: 4\nrpc_adress: x\nstorage_port:\n  many\n",
        &[
            "2:1: unknown option rpc_adress; did you mean rpc_address?",
            "4:3: option storage_port: not a port: many",
        ],
    );
    check(
        "client_encryption_options:\n  enabled: true\n  keyfil: x\n",
        &["3:3: option client_encryption_options: unknown key keyfil; did you mean keyfile?"],
    );
    check(
        "rpc_address: [a, b]\nnum_tokens: [1]\nclient_encryption_options: true\n",
        &[
            "2:13: option num_tokens: expected one value, found a list",
            "3:28: option client_encryption_options: expected a map of `key: value` lines",
        ],
    );
    check(
        "options_file: x\n",
        &["1:1: option options_file: it belongs on the command line, not in a file"],
    );
    let twice = Values::default().read_file("num_tokens: 1\nnum_tokens: 2\n").unwrap_err();
    assert!(twice[0].to_string().starts_with("2:1: the options file is not YAML"), "{twice:?}");
    let broken = Values::default().read_file("a: [1\n").unwrap_err();
    assert!(broken[0].at.is_some(), "{broken:?}");
}

#[test]
fn a_file_gives_scalars_lists_and_maps() {
    let mut values = Values::default();
    let text = "data_file_directories:\n  - /a\n  - /b\nseed_provider:\n  - class_name: X\n    \
                parameters:\n      - seeds: 1.2.3.4\nclient_encryption_options:\n  enabled: true\n\
                key_cache_save_period: 3\n";
    let warnings = values.read_file(text).unwrap();
    assert_eq!(values.list("data_file_directories"), ["/a", "/b"]);
    assert_eq!(values.list("client_encryption_options"), ["enabled=true"]);
    let seeds = r#"[{"class_name":"X","parameters":[{"seeds":"1.2.3.4"}]}]"#;
    assert_eq!(values.text("seed_provider"), seeds);
    assert_eq!(values.place("seed_provider"), Some(Place { line: 4, column: 1 }));
    values.read_file("audit_tables: [a.b, c.d]\napi_port:\nnum_tokens:\n").unwrap();
    assert_eq!((values.text("audit_tables"), values.text("api_port")), ("a.b,c.d", ""));
    assert_eq!(values.source("num_tokens"), Source::Default);
    let warnings: Vec<String> = warnings.iter().map(Note::to_string).collect();
    assert_eq!(warnings, ["10:1: option key_cache_save_period has no effect and is ignored"]);
}

#[test]
fn sizes() {
    let check = |text, expected| assert_eq!(parse_bytes(text), expected, "{text}");
    check("1G", Some(1 << 30));
    check("200M", Some(200 << 20));
    check("64k", Some(64 << 10));
    check("77", Some(77));
    check("1GiB", Some(1 << 30));
    check("G", None);
    check("12Q", None);
}

#[test]
fn a_command_line_is_read_as_launchers_write_it() {
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let line = "--smp 2 -m 1G --overprovisioned --kernel-page-cache=1 --developer-mode 1 \
                --logger-log-level compaction=warn --logger-log-level x=info --workdir /tmp/w \
                --client-encryption-options enabled=true --client-encryption-options keyfile=/k";
    let command = clap::Command::new("x").no_binary_name(true).args(arguments(Listed::All, &[]));
    let Ok(Line::Given(matches)) = read(command, &words(line)) else { panic!("not accepted") };
    let values = values_of(&matches).expect("values");
    assert_eq!(values.integer("smp"), 2);
    assert_eq!(values.text("memory"), "1G");
    assert!(values.flag("overprovisioned"));
    assert_eq!(values.list("logger_log_level"), ["compaction=warn", "x=info"]);
    assert_eq!(values.list("client_encryption_options"), ["enabled=true", "keyfile=/k"]);
}

#[test]
fn options_that_nobody_asks_for_are_known() {
    let mut values = Values::default();
    values.read_file("storage_port: 7777\nrpc_address: 127.0.0.2\nnum_tokens: 4\n").unwrap();
    let copy = values.clone();
    copy.text("rpc_address");
    copy.text("workdir");
    values.to_show().integer("storage_port");
    let mut unasked = values.unasked();
    unasked.sort_unstable();
    assert_eq!(unasked, ["num_tokens", "storage_port"]);
    values.integer("num_tokens");
    assert_eq!(copy.unasked(), ["storage_port"]);
}

#[test]
fn the_table_is_well_formed() {
    let mut names: Vec<&str> = rows().map(|row| row.name).collect();
    names.sort_unstable();
    names.windows(2).for_each(|two| assert_ne!(two[0], two[1], "twice in the table"));
    for row in rows() {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(row.name.chars().all(is_good), "{:?}: not a name", row.name);
        assert!(!row.about.is_empty() && !row.about.ends_with('.'), "{}: no description", row.name);
        assert!(!table::LEGACY.contains(&row.name), "{}: an option or not?", row.name);
        // Where nothing is the default it means something of its own.
        if !row.default.is_empty() {
            let checked = row.kind.check(row.name, row.default, "?");
            assert_eq!(checked, Ok(()), "{}: the default", row.name);
        }
        assert!(!(row.is_live && row.is_of_line), "{}: a file never changes it", row.name);
    }
    assert!(109 <= table::LEGACY.len());
}

#[test]
fn files_of_other_servers_are_taken_with_a_warning() {
    let mut values = Values::default();
    let text = "group0_tombstone_gc_refresh_interval_in_ms: 1000\ntrickle_fsync: true\n";
    let warnings = values.read_file(text).expect("keys that mean nothing");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(values.read_file("no_such_option: 1\n").is_err());
}

#[test]
fn a_map_of_the_command_line_is_one_word_or_several() {
    let split = |words: &[&str]| {
        entries(&words.iter().map(|word| word.to_string()).collect::<Vec<String>>())
    };
    assert_eq!(split(&["class=Zstd,level=3"]), ["class=Zstd", "level=3"]);
    assert_eq!(split(&["class=Zstd", "level=3"]), ["class=Zstd", "level=3"]);
    assert_eq!(split(&["seeds=1.1.1.1,2.2.2.2"]), ["seeds=1.1.1.1,2.2.2.2"]);
    assert_eq!(split(&["x"]), ["x"]);
}
