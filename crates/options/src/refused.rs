//! Why options are refused, and which name was probably meant.

/// Why options are refused, for the person who typed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub(crate) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name that was probably meant.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names.into_iter().map(|name| (strsim::osa_distance(wanted, name), name));
    let (far, near) = distances.min()?;
    (far <= wanted.len() / 3 + 1).then_some(near)
}
