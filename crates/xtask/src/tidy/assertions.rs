//! Invariants are asserted: so many assertions for each function of a crate, tests aside.
//!
//! A function is one with a body. An assertion is a call of a macro of [`MACROS`], or a relation of
//! constants in `const _: () = assert!(..)`.

use super::source::is_test_file;
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Attribute, Item};

const MACROS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "bug",
    "unreachable",
];

/// What a crate has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    functions: usize,
    assertions: usize,
}

/// Crates with fewer assertions for each function than `floors` says, in lines of the form
/// `crate ratio`.
pub(crate) fn check(root: &Path, floors: &str) -> Vec<String> {
    let lines = floors.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut problems = Vec::new();
    for line in lines {
        let words = line.split_once(' ');
        let floor = words.and_then(|(name, ratio)| Some((name, ratio.trim().parse::<f64>().ok()?)));
        let Some((name, floor)) = floor else {
            problems.push(format!("crates/xtask/assertions.txt: not a crate and a ratio: {line}"));
            continue;
        };
        let mut count = Count::default();
        add_folder(root, &root.join("crates").join(name).join("src"), &mut count);
        problems.extend(below(name, &count, floor));
    }
    problems
}

fn below(name: &str, count: &Count, floor: f64) -> Option<String> {
    let Count { functions, assertions } = count;
    let ratio = *assertions as f64 / (*functions).max(1) as f64;
    (ratio < floor).then(|| {
        format!(
            "{name}: {assertions} assertions for {functions} functions are {ratio:.2} for each, \
             {floor} at least (crates/xtask/assertions.txt)"
        )
    })
}

fn add_folder(root: &Path, folder: &Path, count: &mut Count) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_folder(root, &path, count);
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path);
        if name.extension().is_some_and(|end| end == "rs") && !is_test_file(name) {
            count.add(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

impl Count {
    /// Counts a file. What is not Rust counts nothing: the compiler reports it.
    fn add(&mut self, text: &str) {
        let Ok(file) = syn::parse_file(text) else { return };
        if !is_for_tests(&file.attrs) {
            self.visit_file(&file);
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
        attribute.path().is_ident("cfg") && condition.is_ok_and(|text| text.contains("test"))
    })
}

impl<'ast> Visit<'ast> for Count {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(one) => &one.attrs,
            Item::Fn(one) => &one.attrs,
            Item::Impl(one) => &one.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.functions += 1;
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.functions += 1;
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.functions += usize::from(item.default.is_some());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|part| part.ident.to_string());
        self.assertions += usize::from(name.is_some_and(|name| MACROS.contains(&&name[..])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, functions: usize, assertions: usize) {
        let mut count = Count::default();
        count.add(text);
        assert_eq!(count, Count { functions, assertions }, "{text}");
    }

    #[test]
    fn functions_and_assertions_are_counted_without_those_of_tests() {
        check("", 0, 0);
        check("fn f() { assert!(true); debug_assert_eq!(1, 1); }", 1, 2);
        check("const _: () = assert!(1 < 2); struct S; impl S { fn f(&self) {} }", 1, 1);
        check("trait T { fn f(); fn g() { stdx::bug!((), \"no\") } }", 1, 1);
        check("#[cfg(test)] mod tests { fn f() { assert!(true); } }", 0, 0);
        check("#[cfg(any(test, feature = \"testing\"))] fn f() { assert!(true); }", 0, 0);
        check("fn f() { println!(\"assert!(true)\"); }", 1, 0);
    }

    #[test]
    fn too_few_are_a_problem() {
        let count = Count { functions: 4, assertions: 1 };
        assert_eq!(below("a", &count, 0.25), None);
        assert!(below("a", &count, 0.5).is_some_and(|told| told.contains("0.25 for each")));
    }
}
