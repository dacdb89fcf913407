//! How many files and sockets the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a node with many clients and many SSTables needs.
const ENOUGH: u64 = 100_000;

/// Takes as many descriptors as the process may have. What the operator should know, if they are
/// few.
pub(crate) fn raise() -> Option<String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_err() {
        return few(limit.current);
    }
    few(limit.maximum)
}

fn few(descriptors: Option<u64>) -> Option<String> {
    let count = descriptors.filter(|count| *count < ENOUGH)?;
    Some(format!(
        "this process may open {count} files and sockets; {ENOUGH} are advised (ulimit -n, or \
         LimitNOFILE of the unit)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_told() {
        assert_eq!(few(None), None);
        assert_eq!(few(Some(ENOUGH)), None);
        let told = few(Some(1024)).expect("1024 are few");
        assert!(told.contains("may open 1024 files"), "{told}");
    }
}
