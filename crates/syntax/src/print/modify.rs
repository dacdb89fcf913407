//! Statements that read and change rows.

use std::fmt::{self, Display, Formatter};

use super::{And, commas, separated};
use crate::ast::{
    Assignment, Batch, BatchKind, Change, Condition, Delete, Direction, Insert, InsertSource,
    JsonMissing, Modification, OrderBy, PruneView, Relation, Select, Selection, Selector, Source,
    Statement, Truncate, Update, Using,
};

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Select(select) => write!(f, "{select}"),
            Statement::Insert(insert) => write!(f, "{insert}"),
            Statement::Update(update) => write!(f, "{update}"),
            Statement::Delete(delete) => write!(f, "{delete}"),
            Statement::Batch(batch) => write!(f, "{batch}"),
            Statement::Truncate(truncate) => write!(f, "{truncate}"),
            Statement::PruneView(prune) => write!(f, "{prune}"),
            Statement::Use(keyspace) => write!(f, "USE {keyspace}"),
            Statement::Schema(schema) => write!(f, "{schema}"),
            Statement::Access(access) => write!(f, "{access}"),
            Statement::Describe(describe) => write!(f, "{describe}"),
        }
    }
}

/// ` WHERE a AND b`, or nothing.
pub(super) fn filter(f: &mut Formatter<'_>, relations: &[Relation]) -> fmt::Result {
    if relations.is_empty() {
        return Ok(());
    }
    f.write_str(" WHERE ")?;
    separated(f, relations, " AND ", Display::fmt)
}

/// The select list; a name that it begins with and that would be taken for a word before the list,
/// as of `(json) * a`, is quoted.
fn select_list(f: &mut Formatter<'_>, select: &Select) -> fmt::Result {
    let words: &[&str] = match (select.json, select.distinct) {
        (false, false) => &["json", "distinct"],
        (true, false) => &["distinct"],
        (_, true) => &[],
    };
    let text = select.selection.to_string();
    for word in words {
        if let Some(rest) = text.strip_prefix(word)
            && rest.trim_start().starts_with(['*', '(', '{'])
        {
            return write!(f, "\"{word}\"{rest}");
        }
    }
    f.write_str(&text)
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        if self.json {
            f.write_str("JSON ")?;
        }
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        select_list(f, self)?;
        match &self.from {
            None => {}
            Some(Source::Table(table)) => write!(f, " FROM {table}")?,
            Some(Source::MutationFragments(table)) => {
                write!(f, " FROM MUTATION_FRAGMENTS({table})")?;
            }
        }
        filter(f, &self.filter)?;
        if !self.group_by.is_empty() {
            f.write_str(" GROUP BY ")?;
            commas(f, &self.group_by, Display::fmt)?;
        }
        if !self.order_by.is_empty() {
            f.write_str(" ORDER BY ")?;
            commas(f, &self.order_by, Display::fmt)?;
        }
        if let Some(limit) = &self.per_partition_limit {
            write!(f, " PER PARTITION LIMIT {limit}")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        if self.allow_filtering {
            f.write_str(" ALLOW FILTERING")?;
        }
        if self.bypass_cache {
            f.write_str(" BYPASS CACHE")?;
        }
        write!(f, "{}", self.using)
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Selection::All(_) => f.write_str("*"),
            Selection::Items(items) => commas(f, items, Display::fmt),
        }
    }
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.expr)?;
        match &self.alias {
            Some(alias) => write!(f, " AS {alias}"),
            None => Ok(()),
        }
    }
}

impl Direction {
    /// What follows a column.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Direction::Ascending => "",
            Direction::Descending => " DESC",
        }
    }
}

impl Display for OrderBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            OrderBy::Column(column, direction) => write!(f, "{column}{}", direction.suffix()),
            OrderBy::Nearest(column, vector) => write!(f, "{column} ANN OF {vector}"),
            OrderBy::Function(call, direction) => write!(f, "{call}{}", direction.suffix()),
        }
    }
}

impl Display for Using {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut and = And::after("USING");
        let clauses = [
            ("TIMESTAMP", &self.timestamp),
            ("TTL", &self.ttl),
            ("TIMEOUT", &self.timeout),
            ("CONCURRENCY", &self.concurrency),
        ];
        for (word, value) in clauses {
            if let Some(value) = value {
                and.print(f, format_args!("{word} {value}"))?;
            }
        }
        if let Some(level) = &self.service_level {
            and.print(f, format_args!("SERVICE LEVEL {level}"))?;
        }
        Ok(())
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::None => Ok(()),
            Condition::Exists => f.write_str(" IF EXISTS"),
            Condition::NotExists => f.write_str(" IF NOT EXISTS"),
            Condition::All(relations) => {
                f.write_str(" IF ")?;
                separated(f, relations, " AND ", Display::fmt)
            }
        }
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "INSERT INTO {} ", self.table)?;
        match &self.source {
            InsertSource::Values { columns, values } => {
                f.write_str("(")?;
                commas(f, columns, Display::fmt)?;
                f.write_str(") VALUES (")?;
                commas(f, values, Display::fmt)?;
                f.write_str(")")?;
            }
            InsertSource::Json { text, missing: JsonMissing::Null } => write!(f, "JSON {text}")?,
            InsertSource::Json { text, missing: JsonMissing::Unset } => {
                write!(f, "JSON {text} DEFAULT UNSET")?;
            }
        }
        write!(f, "{}{}", self.condition, self.using)
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "UPDATE {}{} SET ", self.table, self.using)?;
        commas(f, &self.assignments, Display::fmt)?;
        filter(f, &self.filter)?;
        write!(f, "{}", self.condition)
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match &self.change {
            Change::Set(value) => write!(f, "{target} = {value}"),
            Change::Add(value) => write!(f, "{target} = {target} + {value}"),
            Change::Subtract(value) => write!(f, "{target} = {target} - {value}"),
            Change::Prepend(value) => write!(f, "{target} = {value} + {target}"),
        }
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("DELETE ")?;
        commas(f, &self.columns, Display::fmt)?;
        let space = if self.columns.is_empty() { "" } else { " " };
        write!(f, "{space}FROM {}{}", self.table, self.using)?;
        filter(f, &self.filter)?;
        write!(f, "{}", self.condition)?;
        if self.bypass_large_data_guardrails {
            f.write_str(" BYPASS LARGE_DATA_GUARDRAILS")?;
        }
        Ok(())
    }
}

impl Display for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            BatchKind::Logged => "",
            BatchKind::Unlogged => "UNLOGGED ",
            BatchKind::Counter => "COUNTER ",
        };
        write!(f, "BEGIN {kind}BATCH{} ", self.using)?;
        for statement in &self.statements {
            write!(f, "{statement}; ")?;
        }
        f.write_str("APPLY BATCH")
    }
}

impl Display for Modification {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Modification::Insert(insert) => write!(f, "{insert}"),
            Modification::Update(update) => write!(f, "{update}"),
            Modification::Delete(delete) => write!(f, "{delete}"),
        }
    }
}

impl Display for Truncate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "TRUNCATE TABLE {}{}", self.table, self.using)
    }
}

impl Display for PruneView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PRUNE MATERIALIZED VIEW {}", self.view)?;
        filter(f, &self.filter)?;
        write!(f, "{}", self.using)
    }
}
