//! The program as it is called, without a node. That it is a test of the program also has it built
//! as all tests are: `test.py` runs its suites over the wire on it.

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_nereid");
    Command::new(program).args(words).output().expect("the program runs")
}

#[test]
fn what_it_is_built_as_is_told() {
    let told = run(&["--build-mode"]);
    assert!(told.status.success());
    assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "debug");
}

#[test]
fn what_it_does_not_know_is_named_and_nothing_starts() {
    for (words, named) in [
        (&["--no-such-option", "1"][..], "unknown option --no-such-option"),
        (&["no-such-tool"], "no-such-tool"),
        (&["sstable", "no-such-operation"], "no-such-operation"),
    ] {
        let refused = run(words);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{words:?}");
        assert!(text.contains(named), "{words:?}: {text}");
    }
}
