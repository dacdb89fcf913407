//! Replication by racks, as `system_schema.keyspaces` holds it: in a map of texts, a list of racks
//! (`['r1', 'r2']`) is flattened in `replication_v2` (`dc:0` is `r1`, `dc:1` is `r2`) and counted
//! in `replication`, where older clients look.

use crate::placement::strategy::listed_racks as racks;

/// Options by name.
type Options = Vec<(String, String)>;

/// The options with a number in place of each list, by name.
pub(super) fn counted(options: &[(String, String)]) -> Options {
    let count = |(name, value): &(String, String)| match racks(value) {
        Some(racks) => (name.clone(), racks.len().to_string()),
        None => (name.clone(), value.clone()),
    };
    options.iter().map(count).collect()
}

/// The options with an entry per rack, by name; `None` where there is no list.
pub(super) fn flattened(options: &[(String, String)]) -> Option<Options> {
    let mut out = Options::new();
    let mut any = false;
    for (name, value) in options {
        match racks(value) {
            None => out.push((name.clone(), value.clone())),
            Some(racks) => {
                any = true;
                let entry = |(index, rack): (usize, &str)| (format!("{name}:{index}"), rack.into());
                out.extend(racks.into_iter().enumerate().map(entry));
            }
        }
    }
    out.sort();
    any.then_some(out)
}

/// What was flattened, as lists again.
pub(super) fn gathered(flat: Options) -> Options {
    let mut lists: Vec<(String, Vec<(usize, String)>)> = Vec::new();
    let mut out = Options::new();
    for (name, value) in flat {
        let split = name.rsplit_once(':').and_then(|(name, at)| Some((name, at.parse().ok()?)));
        let Some((center, at)) = split else {
            out.push((name, value));
            continue;
        };
        match lists.iter_mut().find(|(known, _)| known == center) {
            Some((_, racks)) => racks.push((at, value)),
            None => lists.push((center.to_owned(), vec![(at, value)])),
        }
    }
    for (center, mut racks) in lists {
        racks.sort();
        let racks: Vec<String> = racks.into_iter().map(|(_, rack)| format!("'{rack}'")).collect();
        out.push((center, format!("[{}]", racks.join(", "))));
    }
    out.sort();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> Options {
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn lists_of_racks_are_flattened_and_gathered() {
        let given = options(&[("class", "N"), ("dc1", "['r2', 'r1']"), ("dc2", "3")]);
        let flat = options(&[("class", "N"), ("dc1:0", "r2"), ("dc1:1", "r1"), ("dc2", "3")]);
        assert_eq!(flattened(&given), Some(flat.clone()));
        assert_eq!(gathered(flat), given);
        assert_eq!(counted(&given), options(&[("class", "N"), ("dc1", "2"), ("dc2", "3")]));
        assert_eq!(flattened(&options(&[("class", "N"), ("dc1", "1")])), None);
        let many: Vec<String> = (0..12).map(|rack| format!("'r{rack}'")).collect();
        let many = options(&[("dc1", &format!("[{}]", many.join(", ")))]);
        assert_eq!(gathered(flattened(&many).unwrap()), many);
    }
}
