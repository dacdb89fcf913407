//! Patterns of names, as rules of the audit log have them: those of `fnmatch`, with groups. Pure.
//!
//! ```text
//! *  anything    ?  a character    [a-z] [!a-z] [[:digit:]]  one of a set    \x  x itself
//! @(a|b)  one of these    ?(..)  or nothing    +(..)  several    *(..)  any number    !(..)  none
//! ```
//!
//! Invariants
//!  - *bounded*: a pattern has so many bytes, and groups within each other, at most. Matching looks
//!    at sets of places and tries no ways one by one; what takes more than [`STEPS_MAX`] all the
//!    same counts as a match: rather too much is written down than too little.

use std::cell::Cell;

/// Bytes of a pattern.
const BYTES_MAX: usize = 1024;
/// Groups within each other.
const DEPTH_MAX: usize = 8;

/// Places that are looked at, of a name.
const STEPS_MAX: usize = 1 << 24;

/// A pattern of whole names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    /// `?`
    Any,
    /// `*`
    Rest,
    Set {
        is_negated: bool,
        members: Vec<Member>,
    },
    Group(Times, Vec<Vec<Part>>),
    /// What nothing is: a backslash with nothing behind it.
    Nothing,
}

/// What a group stands for, of its alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Once,
    Maybe,
    Some,
    Many,
    Not,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Member {
    Range(char, char),
    /// One of [`CLASSES`].
    Class(usize),
}

/// A class of characters, and its name.
type Class = (&'static str, fn(char) -> bool);

/// The classes of sets, which POSIX names.
const CLASSES: [Class; 12] = [
    ("alnum", char::is_alphanumeric),
    ("alpha", char::is_alphabetic),
    ("blank", |it| matches!(it, ' ' | '\t')),
    ("cntrl", char::is_control),
    ("digit", |it| it.is_ascii_digit()),
    ("graph", |it| !it.is_control() && !it.is_whitespace()),
    ("lower", char::is_lowercase),
    ("print", |it| !it.is_control()),
    ("punct", |it| it.is_ascii_punctuation()),
    ("space", char::is_whitespace),
    ("upper", char::is_uppercase),
    ("xdigit", |it| it.is_ascii_hexdigit()),
];

impl Pattern {
    /// That of a text; the error says what is wrong with it.
    pub(super) fn of(text: &str) -> Result<Pattern, String> {
        let refused = |why: &str| format!("{text}: {why}");
        if BYTES_MAX < text.len() {
            let shown: String = text.chars().take(40).collect();
            return Err(format!("{shown}..: it has {} bytes, {BYTES_MAX} at most", text.len()));
        }
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0 };
        let parts = parser.sequence(0).map_err(refused)?;
        debug_assert!(parser.at == chars.len(), "a pattern is read to its end");
        Ok(Pattern { parts })
    }

    /// Whether all of a name is as the pattern has it.
    pub(super) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let matching = Matching { name: &name, left: Cell::new(STEPS_MAX) };
        let ends = matching.after(&self.parts, matching.place(0));
        matching.is_over() || ends[name.len()]
    }
}

struct Parser<'p> {
    chars: &'p [char],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Up to the end, or to what ends an alternative of a group.
    fn sequence(&mut self, depth: usize) -> Result<Vec<Part>, &'static str> {
        let mut parts = Vec::new();
        while let Some(next) = self.peek(0) {
            if 0 < depth && matches!(next, '|' | ')') {
                break;
            }
            self.at += 1;
            let part = match (next, self.peek(0)) {
                ('?', Some('(')) => self.group(Times::Maybe, depth)?,
                ('*', Some('(')) => self.group(Times::Many, depth)?,
                ('+', Some('(')) => self.group(Times::Some, depth)?,
                ('@', Some('(')) => self.group(Times::Once, depth)?,
                ('!', Some('(')) => self.group(Times::Not, depth)?,
                ('?', _) => Part::Any,
                ('*', _) => Part::Rest,
                ('[', _) => self.set()?,
                ('\\', Some(escaped)) => {
                    self.at += 1;
                    Part::One(escaped)
                }
                ('\\', None) => Part::Nothing,
                (plain, _) => Part::One(plain),
            };
            parts.push(part);
        }
        Ok(parts)
    }

    /// What follows its sign.
    fn group(&mut self, times: Times, depth: usize) -> Result<Part, &'static str> {
        if depth == DEPTH_MAX {
            return Err("it has too many groups within each other");
        }
        let mut alternatives = Vec::new();
        loop {
            // The parenthesis, or what stands between two alternatives.
            self.at += 1;
            alternatives.push(self.sequence(depth + 1)?);
            match self.peek(0) {
                Some('|') => {}
                Some(_) => break,
                None => return Err("a group is not closed"),
            }
        }
        self.at += 1;
        Ok(Part::Group(times, alternatives))
    }

    /// What follows its bracket. A closing one that comes first is a member.
    fn set(&mut self) -> Result<Part, &'static str> {
        let is_negated = matches!(self.peek(0), Some('!' | '^'));
        self.at += usize::from(is_negated);
        let mut members = Vec::new();
        loop {
            match self.peek(0) {
                None => return Err("a set is not closed"),
                Some(']') if !members.is_empty() => break,
                Some('[') if self.peek(1) == Some(':') => members.push(self.class()?),
                Some(_) => {
                    let first = self.member()?;
                    let is_range = self.peek(0) == Some('-') && self.peek(1) != Some(']');
                    self.at += usize::from(is_range);
                    let last = if is_range { self.member()? } else { first };
                    members.push(Member::Range(first, last));
                }
            }
        }
        self.at += 1;
        Ok(Part::Set { is_negated, members })
    }

    fn member(&mut self) -> Result<char, &'static str> {
        self.at += usize::from(self.peek(0) == Some('\\'));
        let member = self.peek(0).ok_or("a set is not closed")?;
        self.at += 1;
        Ok(member)
    }

    fn class(&mut self) -> Result<Member, &'static str> {
        let begin = self.at + 2;
        let rest = self.chars.get(begin..).unwrap_or_default();
        let end = rest.windows(2).position(|two| two == [':', ']']).ok_or("a set is not closed")?;
        let name: String = rest[..end].iter().collect();
        let known = CLASSES.iter().position(|(known, _)| *known == name);
        self.at = begin + end + 2;
        known.map(Member::Class).ok_or("a set has a class that is none")
    }
}

/// One comparison.
struct Matching<'n> {
    name: &'n [char],
    /// Steps.
    left: Cell<usize>,
}

impl Matching<'_> {
    /// One place alone, of those between characters.
    fn place(&self, at: usize) -> Vec<bool> {
        let mut places = vec![false; self.name.len() + 1];
        places[at] = true;
        places
    }

    /// Whether it has taken too long. (*bounded*)
    fn is_over(&self) -> bool {
        self.left.get() == 0
    }

    /// The places at which parts may end that begin at one of `places`.
    fn after(&self, parts: &[Part], mut places: Vec<bool>) -> Vec<bool> {
        debug_assert!(places.len() == self.name.len() + 1, "places are between characters");
        for part in parts {
            self.left.set(self.left.get().saturating_sub(places.len()));
            if self.is_over() || !places.contains(&true) {
                break;
            }
            places = match part {
                Part::One(wanted) => self.step(&places, |found| found == *wanted),
                Part::Any => self.step(&places, |_| true),
                Part::Set { is_negated, members } => {
                    let has = |found| members.iter().any(|it| it.has(found));
                    self.step(&places, |found| has(found) != *is_negated)
                }
                Part::Rest => {
                    let first = places.iter().position(|place| *place).unwrap_or(places.len());
                    (0..places.len()).map(|place| first <= place).collect()
                }
                Part::Nothing => vec![false; places.len()],
                Part::Group(times, alternatives) => self.group(*times, alternatives, places),
            };
        }
        places
    }

    fn step(&self, places: &[bool], is_it: impl Fn(char) -> bool) -> Vec<bool> {
        let mut next = vec![false];
        next.extend(self.name.iter().zip(places).map(|(found, place)| *place && is_it(*found)));
        next
    }

    /// The same of one of some alternatives.
    fn one(&self, alternatives: &[Vec<Part>], places: &[bool]) -> Vec<bool> {
        let mut found = vec![false; places.len()];
        for parts in alternatives {
            add(&mut found, &self.after(parts, places.to_vec()));
        }
        found
    }

    fn group(&self, times: Times, all: &[Vec<Part>], places: Vec<bool>) -> Vec<bool> {
        match times {
            Times::Once => self.one(all, &places),
            Times::Maybe => {
                let mut found = self.one(all, &places);
                add(&mut found, &places);
                found
            }
            Times::Some | Times::Many => {
                let is_any = times == Times::Many;
                let mut found = if is_any { places } else { self.one(all, &places) };
                let mut new = found.clone();
                while new.contains(&true) && !self.is_over() {
                    let next = self.one(all, &new);
                    new = next.iter().zip(&found).map(|(next, known)| *next && !known).collect();
                    add(&mut found, &new);
                }
                found
            }
            Times::Not => {
                let mut found = vec![false; places.len()];
                for from in (0..places.len()).filter(|from| places[*from]) {
                    if self.is_over() {
                        break;
                    }
                    let taken = self.one(all, &self.place(from));
                    (from..places.len()).for_each(|end| found[end] |= !taken[end]);
                }
                found
            }
        }
    }
}

impl Member {
    fn has(&self, found: char) -> bool {
        match self {
            Member::Range(first, last) => (*first..=*last).contains(&found),
            Member::Class(class) => CLASSES[*class].1(found),
        }
    }
}

fn add(to: &mut [bool], more: &[bool]) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to |= more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_match_as_fnmatch_has_it() {
        let check = |pattern: &str, yes: &str, no: &str| {
            let pattern = Pattern::of(pattern).expect(pattern);
            let mut names = yes.split(' ').filter(|_| yes != "-");
            assert!(names.all(|name| pattern.matches(name)), "{pattern:?}: {yes}");
            let mut names = no.split(' ').filter(|_| no != "-");
            assert!(names.all(|name| !pattern.matches(name)), "{pattern:?}: {no}");
        };
        check("admin", "admin", "admins xadmin Admin");
        check("ks.*", "ks. ks.t ks.a.b", "ks kst xks.t");
        check("user?", "user1 user\u{e4}", "user user12");
        check("user[0-9]", "user9", "userx user10");
        check("[!a-c]x", "dx", "ax x");
        check("[]a]", "] a", "b");
        check("[a-]", "a -", "b");
        check("[[:digit:]_]", "7 _", "a");
        check("admin\\*", "admin*", "admins");
        check("domain\\\\user", "domain\\user", "domainuser");
        check("admin\\", "-", "admin admin\\");
        check("@(admin|root)_*", "root_full admin_", "user_x root");
        check("!(system).t", "user.t system2.t .t", "system.t");
        check("!(guest)", "admin guests", "guest");
        check("a+(b|cd)e", "abe abcdbe", "ae abce");
        check("a*(b)c", "ac abbbc", "abxc");
        check("a?(b|)c", "ac abc", "abbc");
        check("+(a*)", "a axa", "xa");
        check("*(!(a)b)", "b xb", "ba");
        check("a|b)", "a|b)", "a");
        check("", "", "a");
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        let check = |pattern: &str, words: &str| {
            let why = Pattern::of(pattern).expect_err(pattern);
            assert!(why.contains(words), "{why}");
        };
        check("a@(b|c", "a@(b|c: a group is not closed");
        check("[a-", "a set is not closed");
        check("[]", "a set is not closed");
        check("[[:digit]", "a set is not closed");
        check("[[:digits:]]", "a class that is none");
        check(&"@(".repeat(9), "too many groups");
        assert!(Pattern::of(&("@(".repeat(8) + &")".repeat(8))).is_ok());
        check(&"a".repeat(1025), "1025 bytes");
    }

    /// *bounded*
    #[test]
    fn what_takes_too_long_is_a_match() {
        let nested = (0..8).fold("x".to_owned(), |inner, _| format!("*!(*{inner})y"));
        let pattern = Pattern::of(&nested).expect("a pattern");
        assert!(!pattern.matches("ab"), "it does not end with a y");
        assert!(pattern.matches(&"ab".repeat(4096)));
    }

    /// By trying all ways of cutting a name.
    fn naive(parts: &[Part], name: &[char]) -> bool {
        let Some((part, rest)) = parts.split_first() else { return name.is_empty() };
        (0..=name.len()).any(|cut| is_one(part, &name[..cut]) && naive(rest, &name[cut..]))
    }

    fn is_one(part: &Part, name: &[char]) -> bool {
        match (part, name) {
            (Part::Rest, _) => true,
            (Part::Nothing, _) => false,
            (Part::Group(times, all), _) => {
                let one = |name: &[char]| all.iter().any(|parts| naive(parts, name));
                match times {
                    Times::Once => one(name),
                    Times::Maybe => name.is_empty() || one(name),
                    Times::Some => several(&one, name),
                    Times::Many => name.is_empty() || several(&one, name),
                    Times::Not => !one(name),
                }
            }
            (Part::One(wanted), [found]) => wanted == found,
            (Part::Any, [_]) => true,
            (Part::Set { is_negated, members }, [found]) => {
                members.iter().any(|it| it.has(*found)) != *is_negated
            }
            _ => false,
        }
    }

    fn several(one: &dyn Fn(&[char]) -> bool, name: &[char]) -> bool {
        one(name) || (1..name.len()).any(|cut| one(&name[..cut]) && several(one, &name[cut..]))
    }

    proptest! {
        #[test]
        fn sets_of_places_find_what_trying_finds(
            pattern in "([ab.*?]|[@?*+!]\\([ab*]{0,2}(\\|[ab?]{0,2}|)\\)|\\[!?[ab]\\]){0,5}",
            name in "[abc.]{0,7}",
        ) {
            let Ok(pattern) = Pattern::of(&pattern) else { return Ok(()) };
            let chars: Vec<char> = name.chars().collect();
            prop_assert_eq!(pattern.matches(&name), naive(&pattern.parts, &chars));
        }

        /// *bounded*
        #[test]
        fn any_text_is_a_pattern_or_refused(text in "[ab@?*+!()|\\[\\]\\\\:-]{0,40}", any: String) {
            for text in [&text, &any] {
                if let Ok(pattern) = Pattern::of(text) {
                    let _ = pattern.matches("ab|ba");
                }
            }
        }
    }
}
