//! The encryption that options ask for, and the compression of links between nodes.

use crate::zstd::Zstd;
use cluster::Settings;
use cluster::membership::links::{Keys, Links, Reach, Wishes};
use messaging::{Algorithms, Compression, Policy};
use options::Values;
use std::rc::Rc;
use std::sync::Arc;
use tls::Options;

/// The encryption of links between nodes.
pub const LINKS: &str = "server_encryption_options";
/// Their compression.
const COMPRESSION: &str = "internode_compression";
const ADVANCED: &str = "internode_compression_enable_advanced";
const ALGORITHMS: &str = "internode_compression_algorithms";

/// The encryption that an option asks for; `None`: none. The error names the option.
pub fn wanted(values: &Values, option: &str) -> Result<Option<Options>, String> {
    let entries = values.list(option);
    let wanted = match option {
        LINKS => tls::options::parse_links(&entries).map(|found| found.map(|(_, options)| options)),
        _ => tls::options::parse(&entries),
    };
    wanted.map_err(|error| format!("option {option}: {error}"))
}

/// Makes the decisions about links between nodes on each shard.
pub(crate) type Policies = Arc<dyn Fn() -> Rc<dyn Policy> + Send + Sync>;

/// The decisions about links between nodes. The error names the option.
pub(crate) fn policies(values: &Values) -> Result<Policies, String> {
    let wishes = wishes(values)?;
    let keys =
        Keys { client: || tls::service::dialing(LINKS), server: || tls::service::current(LINKS) };
    Ok(Arc::new(move || {
        let zstd = Zstd::registered(&Settings::of_shard());
        Rc::new(Links::new(wishes, keys, Rc::new(move || zstd.rules())))
    }))
}

/// Which links are encrypted and compressed. The error names the option.
fn wishes(values: &Values) -> Result<Wishes, String> {
    let links = tls::options::parse_links(&values.list(LINKS));
    let links = links.map_err(|error| format!("option {LINKS}: {error}"))?;
    let word = links.map_or("none".to_owned(), |(word, _)| word);
    let transitional = word == "transitional";
    let encrypted = if transitional { Some(Reach::All) } else { reach(&word) };
    let encrypted = encrypted.ok_or_else(|| {
        let known = "none, dc, rack, all, transitional";
        format!("option {LINKS}: internode_encryption: {word} is none of {known}")
    })?;
    let word = values.text(COMPRESSION);
    let compressed = reach(word)
        .ok_or_else(|| format!("option {COMPRESSION}: {word} is none of none, dc, rack, all"))?;
    let algorithms = algorithms(values)?;
    Ok(Wishes { encrypted, transitional, compressed, algorithms })
}

/// By what bodies are compressed, and what is taken. The error names the option.
fn algorithms(values: &Values) -> Result<Algorithms, String> {
    let named = |word: &str| {
        let known = Compression::ALL.into_iter().find(|one| one.name() == word);
        known.ok_or_else(|| format!("option {ALGORITHMS}: {word} is none of lz4, zstd"))
    };
    // A list, or a text with commas, as a command line and the options that a node shows have it.
    let given = values.list(ALGORITHMS);
    let words = given.iter().flat_map(|text| text.split(',')).map(str::trim);
    let named: Result<Algorithms, String> = words.map(named).collect();
    match values.flag(ADVANCED) {
        true => named,
        false => named.map(|_| Compression::Lz4.into()),
    }
}

fn reach(word: &str) -> Option<Reach> {
    match word {
        "" | "none" => Some(Reach::None),
        "dc" => Some(Reach::DataCenters),
        "rack" => Some(Reach::Racks),
        "all" => Some(Reach::All),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_or_refused() {
        let check = |text: &str, expected: Result<(Reach, bool, Reach), &str>| {
            let mut values = Values::default();
            values.read_file(text).expect("a file");
            let found = wishes(&values).map(|it| (it.encrypted, it.transitional, it.compressed));
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        let encrypts = |word: &str| {
            format!(
                "{LINKS}: {{internode_encryption: {word}, certificate: c, keyfile: k, \
                 truststore: t}}\n"
            )
        };
        check("", Ok((Reach::None, false, Reach::None)));
        check("internode_compression: dc\n", Ok((Reach::None, false, Reach::DataCenters)));
        check(&encrypts("none"), Ok((Reach::None, false, Reach::None)));
        check(&encrypts("dc"), Ok((Reach::DataCenters, false, Reach::None)));
        check(&encrypts("rack"), Ok((Reach::Racks, false, Reach::None)));
        check(&encrypts("transitional"), Ok((Reach::All, true, Reach::None)));
        let both = encrypts("all") + "internode_compression: all\n";
        check(&both, Ok((Reach::All, false, Reach::All)));
        let by = |text: &str| {
            let mut values = Values::default();
            values.read_file(text).expect("a file");
            wishes(&values).map(|it| it.algorithms.name())
        };
        assert_eq!(by("internode_compression: all\n"), Ok("lz4"));
        let advanced = "internode_compression_enable_advanced: true\n";
        assert_eq!(by(advanced), Ok("lz4,zstd"));
        let some =
            |list: &str| by(&format!("{advanced}internode_compression_algorithms: {list}\n"));
        assert_eq!(some("[zstd]"), Ok("zstd"));
        assert_eq!(some("[lz4, zstd]"), Ok("lz4,zstd"));
        assert_eq!(some("lz4,zstd"), Ok("lz4,zstd"));
        let unknown = "internode_compression_algorithms: [deflate]\n";
        let refused = Values::default().read_file(unknown).expect_err("no such algorithm");
        let text = "option internode_compression_algorithms: not one of lz4 or zstd: deflate";
        assert!(refused.iter().any(|note| note.text == text), "{refused:?}");
        check(
            &encrypts("some"),
            Err("option server_encryption_options: internode_encryption: some is none of none, \
                 dc, rack, all, transitional"),
        );
        check(
            "server_encryption_options: {internode_encryption: all}\n",
            Err("option server_encryption_options: truststore: missing: it says which nodes are \
                 trusted"),
        );
    }
}
