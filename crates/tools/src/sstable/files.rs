//! Which SSTables the words name, and opening them.

use super::Failure;
use model::TableSchema;
use mutation::Fragment;
use reader::{Budget, ReadError, Slice, Source};
use runtime::io::{IoClass, fs};
use sstable::cache::{Access, IndexCache};
use sstable::store::name::{Parsed, parse_file_name, refusal};
use sstable::store::{self, State};
use sstable::{Component, Descriptor, Digests, Lookup, Scope, Table};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{Bytes, Damaged};

/// Class of all I/O of the tool: nobody else waits.
pub(crate) const CLASS: IoClass = IoClass::Query;
/// Index pages that an open SSTable keeps.
const CACHE_BYTES: usize = 1 << 20;

/// An SSTable that was named.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) dir: PathBuf,
    pub(crate) descriptor: Descriptor,
    /// What becomes of a component whose digest does not match.
    pub(crate) digests: Digests,
}

impl Target {
    /// Its name in results: the path of Data.db.
    pub(crate) fn name(&self) -> String {
        self.path(Component::Data).display().to_string()
    }

    pub(crate) fn path(&self, component: Component) -> PathBuf {
        self.descriptor.path(&self.dir, component)
    }

    /// The bytes of a component; `None` where there is no such file.
    pub(crate) async fn component(&self, component: Component) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.path(component);
        match fs::read_file(&path).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The bytes of a component that every SSTable has.
    pub(crate) async fn need(&self, component: Component) -> Result<Vec<u8>, Failure> {
        match self.component(component).await? {
            Some(bytes) => Ok(bytes),
            None => Err(self.damaged(component, Damaged::new("the file is missing", 0))),
        }
    }

    /// What is wrong with a component.
    pub(crate) fn damaged(&self, component: Component, damaged: Damaged) -> Failure {
        let file = self.path(component).display().to_string();
        ReadError::Damaged { file, what: damaged.what.to_string(), at: damaged.at }.into()
    }

    /// Opens it.
    pub(crate) async fn open(&self, schema: &Rc<TableSchema>) -> Result<Rc<Table>, ReadError> {
        let cache = IndexCache::new(CACHE_BYTES);
        Table::open_with(&self.dir, self.descriptor, schema.clone(), &cache, self.digests).await
    }
}

/// The SSTables of the paths, each once, in order.
pub(crate) async fn find(paths: &[PathBuf], digests: Digests) -> Result<Vec<Target>, Failure> {
    let mut targets: Vec<Target> = Vec::new();
    for path in paths {
        for target in find_one(path).await? {
            let known =
                |other: &Target| (&other.dir, other.descriptor) == (&target.dir, target.descriptor);
            if !targets.iter().any(known) {
                targets.push(Target { digests, ..target });
            }
        }
    }
    Ok(targets)
}

async fn find_one(path: &Path) -> Result<Vec<Target>, Failure> {
    match fs::metadata(path).await {
        Ok(found) if found.is_dir => return complete_in(path).await,
        Ok(_) => {}
        Err(error) if error.is_not_found() => {
            return Failure::arguments(format!("no such file or directory: {}", path.display()));
        }
        Err(error) => return Err(error.into()),
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let dir = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    match parse_file_name(&name) {
        Parsed::Known(descriptor, _) => {
            Ok(vec![Target { dir, descriptor, digests: Digests::default() }])
        }
        Parsed::OtherVersion(version) => {
            Failure::arguments(format!("{}: {}", path.display(), refusal(version)))
        }
        Parsed::Foreign => Failure::arguments(format!(
            "{} is no component of an SSTable: <version>-<generation>-<format>-<Component> is",
            path.display()
        )),
    }
}

/// The sealed SSTables of a directory.
pub(crate) async fn complete_in(dir: &Path) -> Result<Vec<Target>, Failure> {
    let listing = store::list(dir).await?;
    let complete = listing.tables.iter().filter(|found| found.state == State::Complete);
    let target = |found: &store::Found| Target {
        dir: dir.to_path_buf(),
        descriptor: found.descriptor,
        digests: Digests::default(),
    };
    Ok(complete.map(target).collect())
}

/// All partitions.
pub(crate) fn everything() -> Scope {
    use model::Token;
    use mutation::page::RingBound;
    let bound = |token, after| RingBound { token, key: None, after };
    Scope::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
}

/// One partition.
pub(crate) fn of_key(key: &[u8]) -> Scope {
    Scope::Key(Lookup::new(Bytes::copy_from(key)))
}

/// What is in one SSTable of a scope.
pub(crate) fn read(table: &Rc<Table>, scope: Scope) -> Box<dyn Source> {
    Box::new(table.read(scope, Slice::full(), Access::bypass(CLASS)))
}

/// All of one SSTable, compared with its checksums: for what is written anew.
pub(crate) fn read_checked(table: &Rc<Table>) -> Box<dyn Source> {
    Box::new(table.read_checked(everything(), Slice::full(), Access::bypass(CLASS)))
}

/// Gives each fragment of a source to `take`.
pub(crate) async fn pump(
    source: &mut dyn Source,
    mut take: impl FnMut(&Fragment) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        source.fill(Budget::BATCH, &mut batch).await?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.iter().try_for_each(&mut take)?;
    }
}
