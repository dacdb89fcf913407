//! The keywords of CQL, and which of them are reserved.

/// Declares the enum, its texts and whether each is reserved from one list, so that they agree.
macro_rules! keywords {
    (reserved: $($reserved:ident)* ; free: $($free:ident)* ;) => {
        /// A word with a meaning in CQL.
        #[allow(clippy::upper_case_acronyms, reason = "written as CQL prints them")]
        #[allow(non_camel_case_types, reason = "written as CQL prints them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Keyword { $($reserved,)* $($free,)* }

        /// Every keyword; its index is its number.
        const KEYWORDS: &[(Keyword, &str)] = &[
            $((Keyword::$reserved, stringify!($reserved)),)*
            $((Keyword::$free, stringify!($free)),)*
        ];

        /// Keywords below this number are reserved.
        const RESERVED_COUNT: usize = [$(stringify!($reserved)),*].len();
    };
}

keywords! {
    reserved:
        ADD ALLOW ALTER AND APPLY ASC AUTHORIZE BATCH BEGIN BY COLUMNFAMILY CREATE DELETE DESC
        DESCRIBE DROP ENTRIES EXECUTE FALSE FROM FULL GRANT IF IN INDEX INFINITY INSERT INTO IS
        KEYSPACE LIMIT MATERIALIZED MODIFY NAN NORECURSIVE NOT NULL OF ON OR ORDER PRIMARY RENAME
        REPLACE REVOKE SCHEMA SELECT SET TABLE TO TOKEN TRUE TRUNCATE UNLOGGED UPDATE USE USING
        VIEW WHERE WITH;
    free:
        AGGREGATE AGGREGATES ALL ANN AS ATTACH ATTACHED BYPASS CACHE CALLED CAST CLUSTER
        CLUSTERING COMPACT CONCURRENCY CONTAINS COUNT COUNTER CUSTOM DEFAULT DETACH DISTINCT
        EFFECTIVE EXISTS FILTERING FINALFUNC FROZEN FUNCTION FUNCTIONS GROUP HASHED INITCOND
        INPUT INTERNALS JSON KEY KEYS KEYSPACES LANGUAGE LARGE_DATA_GUARDRAILS LEVEL LEVELS LIKE
        LIST LOGIN MAP MAXWRITETIME MUTATION_FRAGMENTS NOLOGIN NOSUPERUSER ONLY OPTIONS PARTITION
        PASSWORD PASSWORDS PER PERMISSION PERMISSIONS PRUNE REDUCEFUNC RETURNS ROLE ROLES SERVICE
        SERVICE_LEVEL SERVICE_LEVELS SFUNC STATIC STORAGE STYPE SUPERUSER TABLES
        TEXT_SEARCH_INDEXING TIMEOUT TIMESTAMP TTL TUPLE TYPE TYPES UNSET USER USERS VALUES
        VECTOR VECTOR_SEARCH_INDEXING WRITETIME;
}

impl Keyword {
    /// The keyword a word is, in any case.
    pub(super) fn of(word: &[u8]) -> Option<Keyword> {
        if word.len() > LENGTH_MAX {
            return None;
        }
        let mut slot = hash(word);
        loop {
            let (keyword, text) = KEYWORDS.get(usize::from(SLOTS[slot]))?;
            if text.as_bytes().eq_ignore_ascii_case(word) {
                return Some(*keyword);
            }
            slot = (slot + 1) % SLOTS.len();
        }
    }

    /// In capitals.
    pub(super) fn text(self) -> &'static str {
        KEYWORDS[self as usize].1
    }

    /// Whether it cannot be a name without quotes.
    pub(super) fn is_reserved(self) -> bool {
        (self as usize) < RESERVED_COUNT
    }
}

/// Length of the longest keyword.
const LENGTH_MAX: usize = {
    let mut longest = 0;
    let mut index = 0;
    while index < KEYWORDS.len() {
        if longest < KEYWORDS[index].1.len() {
            longest = KEYWORDS[index].1.len();
        }
        index += 1;
    }
    longest
};

/// In a free slot: no keyword has this number.
const FREE: u8 = u8::MAX;

/// Open addressing, filled at compile time; more than half of it is free.
const SLOTS: [u8; 512] = {
    assert!(KEYWORDS.len() < FREE as usize);
    let mut slots = [FREE; 512];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let mut slot = hash(KEYWORDS[index].1.as_bytes());
        while slots[slot] != FREE {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = index as u8;
        index += 1;
    }
    slots
};

/// Of the length and three letters, the same for both cases.
const fn hash(word: &[u8]) -> usize {
    if word.is_empty() {
        return 0;
    }
    let first = (word[0] | 0x20) as usize;
    let middle = (word[word.len() / 2] | 0x20) as usize;
    let last = (word[word.len() - 1] | 0x20) as usize;
    (first * 7 + middle * 61 + last * 149 + word.len() * 37) % 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (index, (keyword, text)) in KEYWORDS.iter().enumerate() {
            assert_eq!(*keyword as usize, index);
            assert_eq!(keyword.text(), *text);
            assert_eq!(Keyword::of(text.as_bytes()), Some(*keyword));
            assert_eq!(Keyword::of(text.to_lowercase().as_bytes()), Some(*keyword));
            assert_eq!(Keyword::of(format!("{text}_").as_bytes()), None);
        }
    }

    #[test]
    fn what_is_no_keyword_is_not_found() {
        for word in ["", "a", "selec", "selects", "int", "text", "x_y_z", "s\u{e9}lect"] {
            assert_eq!(Keyword::of(word.as_bytes()), None, "{word}");
        }
        assert!(Keyword::SELECT.is_reserved());
        assert!(Keyword::WITH.is_reserved());
        assert!(!Keyword::AGGREGATE.is_reserved());
        assert!(!Keyword::WRITETIME.is_reserved());
    }

    #[test]
    fn a_lookup_probes_few_slots() {
        let probes = |text: &str| {
            let mut slot = hash(text.as_bytes());
            let mut count = 1;
            while KEYWORDS[usize::from(SLOTS[slot])].1 != text {
                slot = (slot + 1) % SLOTS.len();
                count += 1;
            }
            count
        };
        let counts: Vec<usize> = KEYWORDS.iter().map(|(_, text)| probes(text)).collect();
        assert!(counts.iter().sum::<usize>() < counts.len() * 3 / 2, "{counts:?}");
    }
}
