//! No knots inside a crate: among the modules of one folder, imports go one way.
//!
//! Of a path in a module, the module that it leads to counts: the one with the definition, where a
//! `use` of another passes it on. A module and those below it may name each other, and so may what
//! is for tests alone. Paths within the arguments of macros count as others do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The names from the root of a crate to a module or an item.
type Name = Vec<String>;

/// A cycle through so many uses of other modules is not followed further.
const PASSED_ON_MAX: usize = 8;

/// What a file says: the paths that it names, and what it passes on under a name of its own.
#[derive(Debug, Default)]
struct Room {
    paths: BTreeSet<Name>,
    passed_on: BTreeMap<String, Name>,
}

/// The modules of a crate, and what each says.
type Crate = BTreeMap<Name, Room>;

/// Modules of one folder that import each other in a circle.
#[derive(Debug, PartialEq, Eq)]
struct Knot {
    folder: Name,
    modules: Vec<String>,
    /// An import within it from each module: from, to, the path.
    because: Vec<(String, String, String)>,
}

/// Every knot of every crate.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let mut problems = Vec::new();
    for name in names {
        let rooms = read(&root.join("crates").join(&name).join("src"), &mut problems);
        for knot in knots(&rooms) {
            let place = [&[name.clone()][..], &knot.folder].concat().join("::");
            let modules = knot.modules.join(" ");
            problems.push(format!("modules import each other in a circle: {place}: {modules}"));
            let why = |(from, to, path): &(String, String, String)| {
                format!("    {from} names {path}, which is in {to}")
            };
            problems.extend(knot.because.iter().map(why));
        }
    }
    problems
}

/// The modules below a source folder; what cannot be read is a problem.
fn read(src: &Path, problems: &mut Vec<String>) -> Crate {
    let mut rooms = Crate::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Some(module) = module_of(path.strip_prefix(src).unwrap_or(&path)) else { continue };
            match syn::parse_file(&fs::read_to_string(&path).unwrap_or_default()) {
                Ok(file) if is_for_tests(&file.attrs) => {}
                Ok(file) => rooms.entry(module.clone()).or_default().fill(&module, &file.items),
                Err(error) => problems.push(format!("{}: {error}", path.display())),
            }
        }
    }
    rooms
}

/// The module of a file, if it is one that is not for tests alone.
fn module_of(path: &Path) -> Option<Name> {
    let mut names: Name = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let last = names.pop()?.strip_suffix(".rs")?.to_string();
    if !["mod", "lib", "main"].contains(&&last[..]) {
        names.push(last);
    }
    (!names.iter().any(|name| name == "tests")).then_some(names)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
        attribute.path().is_ident("cfg") && condition.is_ok_and(|text| text == "test")
    })
}

impl Room {
    fn fill(&mut self, module: &[String], items: &[Item]) {
        let mut seen = Seen { module, room: self };
        items.iter().for_each(|item| seen.visit_item(item));
    }
}

/// Collects what a module names.
struct Seen<'a> {
    module: &'a [String],
    room: &'a mut Room,
}

impl Seen<'_> {
    /// A path as it is from the root of the crate, if it is of this crate.
    fn absolute(&self, path: &[String]) -> Option<Name> {
        let mut at: Name = match path.first()?.as_str() {
            "crate" => Name::new(),
            "self" | "super" => self.module.to_vec(),
            _ => return None,
        };
        for (number, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" | "self" if number == 0 => {}
                "super" => drop(at.pop()?),
                name => at.push(name.to_string()),
            }
        }
        Some(at)
    }

    fn note(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.room.paths.insert(path);
        }
    }

    fn walk(&mut self, tree: &UseTree, before: &Name) {
        let with = |name: &syn::Ident| [&before[..], &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.walk(&path.tree, &with(&path.ident)),
            UseTree::Name(name) if name.ident == "self" => self.pass_on(before, None),
            UseTree::Name(name) => self.pass_on(&with(&name.ident), None),
            UseTree::Rename(rename) => {
                self.pass_on(&with(&rename.ident), Some(rename.rename.to_string()));
            }
            UseTree::Glob(_) => {
                let path = self.absolute(before).or_else(|| self.child(before));
                self.room.paths.extend(path);
            }
            UseTree::Group(group) => group.items.iter().for_each(|one| self.walk(one, before)),
        }
    }

    fn pass_on(&mut self, path: &[String], renamed: Option<String>) {
        let own = renamed.or_else(|| path.last().cloned());
        if let (Some(own), Some(path)) = (own, self.absolute(path).or_else(|| self.child(path))) {
            self.room.paths.insert(path.clone());
            self.room.passed_on.insert(own, path);
        }
    }

    /// A path that begins with a module below this one, or with another crate.
    fn child(&self, path: &[String]) -> Option<Name> {
        (1 < path.len()).then(|| [self.module, path].concat())
    }
}

impl<'ast> Visit<'ast> for Seen<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(one) => &one.attrs,
            Item::Fn(one) => &one.attrs,
            Item::Use(one) => &one.attrs,
            Item::Impl(one) => &one.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.walk(&item.tree, &Name::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Name = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string().replace(" :: ", "::");
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        for word in text.split(|c: char| !is_part(c)) {
            let names: Name = word.split("::").map(str::to_string).collect();
            if 1 < names.len() {
                self.note(&names);
            }
        }
        visit::visit_macro(self, call);
    }
}

/// The module that has what a path names: the longest part of it that is one, or where that module
/// has it from.
fn home(rooms: &Crate, path: &[String], steps: usize) -> Name {
    let length = (0..=path.len()).rev().find(|length| rooms.contains_key(&path[..*length]));
    let (module, rest) = path.split_at(length.unwrap_or(0));
    let room = rooms.get(module);
    let Some((next, rest)) = rest.split_first().filter(|_| steps < PASSED_ON_MAX) else {
        return module.to_vec();
    };
    let from = room.and_then(|room| room.passed_on.get(next));
    match from.filter(|from| from[..] != *path) {
        Some(from) => home(rooms, &[&from[..], rest].concat(), steps + 1),
        None => module.to_vec(),
    }
}

/// The knots of a crate, from its root down.
fn knots(rooms: &Crate) -> Vec<Knot> {
    let mut edges: BTreeMap<Name, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (module, room) in rooms {
        for path in &room.paths {
            let to = home(rooms, path, 0);
            let common = module.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (module.get(common), to.get(common)) {
                let folder = edges.entry(module[..common].to_vec()).or_default();
                let told = format!("crate::{}", path.join("::"));
                folder.entry((a.clone(), b.clone())).or_insert(told);
            }
        }
    }
    edges.into_iter().flat_map(|(folder, edges)| circles(&folder, &edges)).collect()
}

/// The groups of modules of a folder of which each reaches each.
fn circles(folder: &[String], edges: &BTreeMap<(String, String), String>) -> Vec<Knot> {
    let modules: BTreeSet<&String> = edges.keys().flat_map(|(a, b)| [a, b]).collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        modules.iter().map(|module| (*module, reached_from(module, edges))).collect();
    let mut knots = Vec::new();
    let mut done = BTreeSet::new();
    for module in modules {
        if !reached[module].contains(module) || done.contains(module) {
            continue;
        }
        let both = |other: &&&String| reached[**other].contains(module);
        let circle: BTreeSet<&String> = reached[module].iter().filter(both).copied().collect();
        let within = edges.iter().filter(|((a, b), _)| circle.contains(a) && circle.contains(b));
        let because = within.map(|((a, b), path)| (a.clone(), b.clone(), path.clone())).collect();
        done.extend(circle.iter().copied());
        let modules = circle.into_iter().cloned().collect();
        knots.push(Knot { folder: folder.to_vec(), modules, because });
    }
    knots
}

fn reached_from<'a>(
    module: &'a String,
    edges: &'a BTreeMap<(String, String), String>,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(at) = next.pop() {
        let to = edges.keys().filter(|(a, _)| a == at).map(|(_, b)| b);
        next.extend(to.filter(|b| reached.insert(*b)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The knots of a crate of these files.
    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let mut rooms = Crate::new();
        for (path, text) in files {
            let Some(module) = module_of(Path::new(path)) else { continue };
            let items = syn::parse_file(text).unwrap().items;
            rooms.entry(module.clone()).or_default().fill(&module, &items);
        }
        let told = |knot: Knot| format!("{}: {}", knot.folder.join("::"), knot.modules.join(" "));
        knots(&rooms).into_iter().map(told).collect()
    }

    #[test]
    fn what_goes_one_way_is_no_knot() {
        let none: [&str; 0] = [];
        assert_eq!(check(&[("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")]), none);
        let below = [("a/mod.rs", "use self::b::B; pub struct A;"), ("a/b.rs", "use super::A;")];
        assert_eq!(check(&below), none);
        let tests =
            [("a.rs", "use crate::b::B;"), ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; }")];
        assert_eq!(check(&tests), none);
        assert_eq!(
            check(&[("a.rs", "use crate::b::B;"), ("b/tests.rs", "use crate::a::A;")]),
            none
        );
    }

    #[test]
    fn a_circle_is_found_however_it_is_named() {
        for b in [
            "use crate::a::A;",
            "use super::a::A;",
            "fn f() { crate::a::f(); }",
            "fn f(it: crate::a::A) {}",
            "fn f() { assert!(crate::a::f()); }",
            "use crate::{c::C, a::{self, A}};",
            "use crate::a::*;",
            "use crate::A;",
        ] {
            let files = [("a.rs", "use crate::b::B;"), ("b.rs", b), ("lib.rs", "pub use a::A;")];
            assert_eq!(check(&files), [": a b"], "{b}");
        }
    }

    #[test]
    fn circles_of_several_and_of_folders() {
        let three = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::a::A;"),
            ("d.rs", "use crate::a::A;"),
        ];
        assert_eq!(check(&three), [": a b c"]);
        let inner = [("x/a.rs", "use super::b::B;"), ("x/b.rs", "use super::a::A;")];
        assert_eq!(check(&inner), ["x: a b"]);
        let through =
            [("x/a.rs", "use crate::y::B;"), ("y/b.rs", "use crate::x::a::A;"), ("y.rs", "")];
        assert_eq!(check(&through), [": x y"]);
    }
}
