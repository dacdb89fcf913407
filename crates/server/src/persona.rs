//! By which name a node speaks of itself in the lines that launchers look for: "Nereid version ..
//! starting", or "Scylla version .. starting" for harnesses that were written for ScyllaDB.

use options::Values;

/// A name that launchers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persona {
    Nereid,
    Scylla,
}

impl Persona {
    /// As the option says, or else by the name that the program was called by.
    pub(crate) fn of(values: &Values, program: &str) -> Persona {
        match values.text("persona") {
            "scylla" => Persona::Scylla,
            "nereid" => Persona::Nereid,
            _ if program == "scylla" => Persona::Scylla,
            _ => Persona::Nereid,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Persona::Nereid => "Nereid",
            Persona::Scylla => "Scylla",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    #[test]
    fn the_option_takes_precedence_over_the_program() {
        let check = |option: Option<&str>, program: &str, expected: Persona| {
            let mut values = Values::default();
            if let Some(word) = option {
                values.set("persona", vec![word.to_owned()], Source::CommandLine).expect("a word");
            }
            assert_eq!(Persona::of(&values, program), expected, "{option:?} {program}");
        };
        check(None, "nereid", Persona::Nereid);
        check(None, "anything", Persona::Nereid);
        check(None, "scylla", Persona::Scylla);
        check(Some("auto"), "scylla", Persona::Scylla);
        check(Some("nereid"), "scylla", Persona::Nereid);
        check(Some("scylla"), "nereid", Persona::Scylla);
    }
}
