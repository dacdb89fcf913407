//! TOC.txt: one component suffix a line.

use crate::store::Component;

/// The components that a TOC names; unknown ones are kept by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toc {
    /// Those we know.
    pub known: Vec<Component>,
    /// Suffixes of the others.
    pub unknown: Vec<String>,
}

impl Toc {
    /// Reads a TOC. `None` when it is empty or not text.
    pub fn parse(bytes: &[u8]) -> Option<Toc> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut toc = Toc::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let plain = line.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
            match Component::of_suffix(line) {
                Some(component) => toc.known.push(component),
                None if plain => toc.unknown.push(line.to_string()),
                None => return None,
            }
        }
        (!toc.known.is_empty()).then_some(toc)
    }

    /// Whether it names a component.
    pub fn has(&self, component: Component) -> bool {
        self.known.contains(&component)
    }

    /// The suffixes of all that it names.
    pub fn suffixes(&self) -> impl Iterator<Item = &str> {
        let known = self.known.iter().map(|component| component.suffix());
        known.chain(self.unknown.iter().map(String::as_str))
    }
}

/// The TOC of these components.
pub fn to_bytes(components: &[Component]) -> Vec<u8> {
    let mut out = Vec::new();
    let once = |(at, one): (usize, &Component)| !components[..at].contains(one);
    debug_assert!(components.iter().enumerate().all(once), "a component twice in a TOC");
    let temporary = |one: &Component| one.suffix().ends_with(".tmp");
    debug_assert!(!components.iter().any(temporary), "a temporary file in a TOC");
    for component in components {
        out.extend_from_slice(component.suffix().as_bytes());
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tocs_round_trip_and_garbage_is_none() {
        let bytes = to_bytes(&[Component::Data, Component::Toc]);
        assert_eq!(bytes, b"Data.db\nTOC.txt\n");
        let toc = Toc::parse(&bytes).unwrap();
        assert!(toc.has(Component::Data) && !toc.has(Component::Index));
        let toc = Toc::parse(b"Data.db\nNew.db\n").unwrap();
        assert_eq!(toc.unknown, ["New.db"]);
        for bad in [&b""[..], b"\n\n", b"\xff\xfe", b"../x\n", b"New.db\n"] {
            assert_eq!(Toc::parse(bad), None);
        }
    }
}
