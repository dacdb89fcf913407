use super::*;

fn words(line: &str) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// What runs, with a few of its options, or what is wrong.
fn asked(line: &str) -> String {
    match read("nereid", &words(line)) {
        Ok(Asked::Text(text)) => text,
        Ok(Asked::Run(entry, given)) => {
            let mut told = entry.name.to_string();
            for opt in GLOBAL.iter().chain(entry.options) {
                let value = match opt.takes {
                    Takes::Nothing => given.flag(opt.long).then(|| "yes".to_string()),
                    Takes::Number => given.number(opt.long).map(|number| number.to_string()),
                    _ => Some(given.texts(opt.long).join("+")).filter(|text| !text.is_empty()),
                };
                told += &value.map_or(String::new(), |value| format!(" {}={value}", opt.long));
            }
            for place in entry.places {
                let given = given.texts(place.name).join("+");
                if !given.is_empty() {
                    told += &format!(" <{}>{given}", place.name);
                }
            }
            told
        }
        Err(failure) => {
            let (code, text) = failure.told();
            format!("{code} {text}")
        }
    }
}

#[test]
fn all_commands_are_one() {
    let whole = whole();
    whole.clone().debug_assert();
    for entry in commands::all() {
        let mut words = entry.name.split(' ');
        let found = words.try_fold(&whole, |at, word| at.find_subcommand(word));
        let found = found.unwrap_or_else(|| panic!("no {}", entry.name));
        for opt in entry.options.iter().chain(GLOBAL) {
            let mut args = found.get_arguments();
            assert!(args.any(|arg| arg.get_long() == Some(opt.long)), "{}", opt.long);
        }
    }
}

#[test]
fn every_command_makes_sense() {
    for entry in commands::all() {
        command("nereid", entry).debug_assert();
        assert!(commands::all().filter(|other| other.name == entry.name).count() == 1);
        for opt in entry.options.iter().chain(GLOBAL) {
            let long = opt.also.iter().all(|name| name.starts_with('-') && 2 <= name.len());
            assert!(long, "{}: {}", entry.name, opt.long);
        }
    }
}

#[test]
fn options_stand_anywhere() {
    let check = |line: &str, expected: &str| assert_eq!(asked(line), expected, "{line}");
    check("compact", "compact");
    check("-h ::1 compact -p 1 ks t u", "compact host=::1 port=1 <keyspace>ks <table>t+u");
    check("-u me -pw x -pp compact", "compact username=me password=x print-port=yes");
    check("compact -Djava=x -Dcom.scylladb.apiPort=7", "compact rest-api-port=7");
    check("compact ks -st -5 -et=7", "compact start-token=-5 end-token=7 <keyspace>ks");
    check("scrub -ns -m SKIP", "scrub mode=SKIP no-snapshot=yes");
    check("settraceprobability -- -0.1", "settraceprobability <trace_probability>-0.1");
    check(
        "tasks list compaction -ks a -i 2",
        "tasks list keyspace=a iterations=2 <module>compaction",
    );
    check("cluster -p 9 repair ks -dc a --in-dc b", "cluster repair port=9 in-dc=a+b <keyspace>ks");
    check("stop -id=1", "stop id=1");
}

#[test]
fn what_makes_no_sense_is_told() {
    let check = |line: &str, part: &str| {
        let told = asked(line);
        assert!(told.starts_with("1 ") && told.contains(part), "{line}: {told}");
    };
    check("", "Usage: nereid nodetool OPERATION [OPTIONS] ...\nTry `nereid nodetool --help`");
    check("nonsense", "error: unrecognized operation argument: expected one of (");
    check("tasks", "got tasks");
    check("compact --nonsense", "error: unrecognised option '--nonsense'");
    check(
        "snapshot --table a -cf b ks",
        "error: option '--table' cannot be specified more than once",
    );
    check("tasks tree a b", "cannot be specified more than once");
    check("tasks ttl --set x", "error: the argument ('x') for option '--set' is invalid");
    check("help nonsense", "error processing arguments: unknown command nonsense");
    check("help compact a b", "error processing arguments: unknown command compact a b");
}

#[test]
fn help_is_the_same_either_way() {
    for entry in commands::all() {
        let text = asked(&format!("help {}", entry.name));
        assert_eq!(text, asked(&format!("{} --help", entry.name)));
        assert!(text.contains(entry.about), "{text}");
    }
    assert_eq!(asked("help"), asked("--help"));
    assert!(asked("help").contains("describering"));
}
