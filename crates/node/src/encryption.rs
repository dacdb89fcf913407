//! The encryption that options ask for, and the compression of links between nodes.

use cluster::membership::links::{Keys, Links, Reach, Wishes};
use messaging::Policy;
use options::Values;
use std::rc::Rc;
use std::sync::Arc;
use tls::Options;

/// The encryption of links between nodes.
pub const LINKS: &str = "server_encryption_options";
/// Their compression.
const COMPRESSION: &str = "internode_compression";

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
    Ok(Arc::new(move || Rc::new(Links::new(wishes, keys))))
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
    Ok(Wishes { encrypted, transitional, compressed })
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
