//! `CREATE MATERIALIZED VIEW` and `CREATE INDEX`.

use super::{Internals, cql_map, qualified};
use crate::schema::{Column, Index, IndexTarget, TableSchema, View};
use crate::types::Type;
use crate::types::quote_identifier;
use crate::value::quote_string;
use std::fmt::Write;

impl TableSchema {
    /// `CREATE MATERIALIZED VIEW ..;` of a view, with every option; with internals its id too.
    pub fn describe_view(&self, view: &View, internals: Internals) -> String {
        let name = qualified(&self.keyspace, &self.name);
        let selected = match view.includes_all {
            true => "*".to_owned(),
            false => {
                let shown = self.columns.iter().filter(|column| !self.is_hidden(column.id));
                shown.map(|it| quote_identifier(&it.name)).collect::<Vec<_>>().join(", ")
            }
        };
        let base = qualified(&self.keyspace, &view.base_name);
        let mut out =
            format!("CREATE MATERIALIZED VIEW {name} AS\n    SELECT {selected}\n    FROM {base}\n");
        if !view.where_clause.is_empty() {
            let _ = writeln!(out, "    WHERE {}", view.where_clause);
        }
        let options = self.view_options(view, internals);
        let _ = write!(
            out,
            "    PRIMARY KEY ({})\n    WITH {};",
            self.primary_key(),
            options.join("\n    AND ")
        );
        out
    }

    fn view_options(&self, view: &View, internals: Internals) -> Vec<String> {
        let mut options = Vec::new();
        if internals == Internals::Shown {
            options.push(format!("ID = {}", self.id.hyphenated()));
        }
        options.extend(self.clustering_order());
        options.extend(self.options.to_cql());
        options.extend(view.synchronous.map(|is| format!("synchronous_updates = {is}")));
        options
    }

    /// `CREATE INDEX ..;` and the end of a line, of an index of this table, with every option of
    /// the view that answers it, if there is one; with internals the view's id too.
    pub fn describe_index(
        &self,
        index: &Index,
        answered_by: Option<&TableSchema>,
        internals: Internals,
    ) -> String {
        let column = quote_identifier(&index.column);
        // Of a set nothing but its elements can be indexed: they are its values in statements.
        let is_set = |it: &Column| matches!(it.ty, Type::Set { frozen: false, .. });
        let target = match index.target {
            IndexTarget::Values => column,
            IndexTarget::Keys if self.column(&index.column).is_some_and(is_set) => {
                format!("{}({column})", IndexTarget::ElementValues.name())
            }
            target => format!("{}({column})", target.name()),
        };
        let target = match index.is_local {
            false => target,
            true => {
                let names = self.partition_key().iter().map(|it| quote_identifier(&it.name));
                format!("({}), {target}", names.collect::<Vec<_>>().join(", "))
            }
        };
        let custom = if index.class.is_some() { "CUSTOM " } else { "" };
        let mut out = format!(
            "CREATE {custom}INDEX {} ON {}({target})",
            quote_identifier(&index.name),
            qualified(&self.keyspace, &self.name)
        );
        if let Some(class) = &index.class {
            let _ = write!(out, " USING {}", quote_string(class));
        }
        let mut options = Vec::new();
        if !index.options.is_empty() {
            options.push(format!("OPTIONS = {}", cql_map(&index.options)));
        }
        if let Some((table, view)) = answered_by.and_then(|it| Some((it, it.view.as_ref()?))) {
            let is_order = |option: &String| option.starts_with("CLUSTERING ORDER");
            let of_view = table.view_options(view, internals);
            options.extend(of_view.into_iter().filter(|option| !is_order(option)));
        }
        if !options.is_empty() {
            let _ = write!(out, " WITH {}", options.join("\n    AND "));
        }
        out.push_str(";\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn views_and_indexes_are_shown() {
        let base = TableSchema::builder("ks", "T", Uuid::nil())
            .partition_key("p", Type::Int)
            .regular("V", Type::Int)
            .regular("w", Type::Int)
            .regular("s", Type::Set { element: Type::Int.into(), frozen: false })
            .build()
            .unwrap();
        let view = View {
            base_name: "T".into(),
            where_clause: "\"V\" IS NOT NULL".into(),
            synchronous: Some(true),
            ..View::default()
        };
        let made = TableSchema::builder("ks", "v", Uuid::from_u128(1))
            .partition_key("V", Type::Int)
            .clustering_descending("p", Type::Int)
            .regular("w", Type::Empty);
        let mut view = View { includes_all: false, ..view };
        let unhidden = made.clone().build().unwrap();
        view.hidden = vec![unhidden.column("w").unwrap().id];
        let made = made.view(view.clone()).build().unwrap();
        let text = made.describe_view(&view, Internals::Shown);
        let expected = "CREATE MATERIALIZED VIEW ks.v AS\n    SELECT \"V\", p\n    FROM ks.\"T\"\n\
                        \x20   WHERE \"V\" IS NOT NULL\n    PRIMARY KEY (\"V\", p)\n    WITH ID = \
                        00000000-0000-0000-0000-000000000001\n    AND CLUSTERING ORDER BY (p DESC)\
                        \n    AND bloom_filter_fp_chance";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\n    AND synchronous_updates = true;"), "{text}");

        let index = |target, is_local| Index {
            name: "i".into(),
            column: "V".into(),
            target,
            is_local,
            class: None,
            options: Vec::new(),
        };
        let check = |index: &Index, expected: &str| {
            assert_eq!(base.describe_index(index, None, Internals::Hidden), expected);
        };
        check(&index(IndexTarget::Values, false), "CREATE INDEX i ON ks.\"T\"(\"V\");\n");
        check(&index(IndexTarget::Full, true), "CREATE INDEX i ON ks.\"T\"((p), full(\"V\"));\n");
        let of_set = Index { column: "s".into(), ..index(IndexTarget::Keys, false) };
        check(&of_set, "CREATE INDEX i ON ks.\"T\"(values(s));\n");
        let custom = Index {
            class: Some("sai".into()),
            options: vec![("a".into(), "b".into())],
            ..index(IndexTarget::ElementValues, false)
        };
        let text = "CREATE CUSTOM INDEX i ON ks.\"T\"(values(\"V\")) USING 'sai' WITH OPTIONS = \
                    {'a': 'b'};\n";
        check(&custom, text);
        let whole = base.describe_index(&custom, Some(&made), Internals::Shown);
        let expected = "WITH OPTIONS = {'a': 'b'}\n    AND ID = 00000000-0000-0000-0000-\
                        000000000001\n    AND bloom_filter_fp_chance";
        assert!(whole.contains(expected) && !whole.contains("CLUSTERING"), "{whole}");
    }
}
