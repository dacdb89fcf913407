//! Streams are opened and closed: with the log of their table, in one change of the schema.

use super::history::{self, KEPT_MILLIS, View};
use super::now_millis;
use crate::error::{Error, Kind};
use crate::node::{Node, changed};
use crate::recovery::Recovery;
use crate::request::Request;
use crate::table::Table;
use crate::table_facts;
use crate::tags::{self, Tags};
use cluster::{Schema, SchemaChange, TableEntry};
use model::TableSchema;
use model::schema::TableOptions;
use model::schema::cdc::{CdcOptions, Delta, Images, TTL_SECS_DEFAULT, log_name};
use std::rc::Rc;

/// What `StreamSpecification` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Specification {
    Open(View),
    Close,
}

impl Specification {
    /// Changes a table, whose log is to follow.
    pub(crate) fn apply(self, schema: &mut TableSchema, now_millis: i64) -> Result<(), Error> {
        let mut tags = tags::of(schema);
        match self {
            Specification::Open(view) => history::open(&mut tags, view, now_millis)?,
            Specification::Close => history::close(&mut tags, now_millis)?,
        }
        tags::set(&mut schema.options, &tags);
        set_log(&mut schema.options, &tags);
        Ok(())
    }
}

/// Has the log of a table tell what its tags want of it: images, where a stream is open, and all of
/// each change for as long as it is kept, where the table can be recovered to points in time.
pub(crate) fn set_log(options: &mut TableOptions, tags: &Tags) {
    let is_open = history::of(tags).last().is_some_and(|stream| stream.closed.is_none());
    let recovery = Recovery::of(tags);
    let asked = CdcOptions {
        preimage: if is_open { Images::Full } else { Images::None },
        postimage: is_open,
        delta: if recovery.is_some() { Delta::Full } else { Delta::Keys },
        ttl_secs: recovery.map_or(TTL_SECS_DEFAULT, |recovery| recovery.log_secs()),
    };
    options.cdc = asked.stored(is_open || recovery.is_some());
}

/// The recovery of a table, where its log is asked for what that needs. Who alters a table by CQL
/// may ask for less, and then what is written meanwhile is in no history.
pub(crate) fn recovery_of(schema: &TableSchema) -> Option<Recovery> {
    let recovery = Recovery::of(&tags::of(schema))?;
    let asked = CdcOptions::of(&schema.options)?;
    let is_kept = asked.ttl_secs == 0 || recovery.log_secs() <= asked.ttl_secs;
    (is_kept && asked.delta == Delta::Full).then_some(recovery)
}

/// The log of a table, where it has one, or had one that is there still.
pub(crate) fn log_of(schema: &Schema, base: &TableEntry) -> Option<Rc<TableEntry>> {
    if let Some(log) = base.log {
        return schema.table_by_id(log).cloned();
    }
    let log = schema.table(&base.schema.keyspace, &log_name(&base.schema.name))?;
    let is_of_it = log.schema.log.as_ref().is_some_and(|log| log.base == base.schema.id);
    is_of_it.then(|| log.clone())
}

/// What a request asks for, if anything.
pub(crate) fn asked(request: &Request<'_>) -> Result<Option<Specification>, Error> {
    let Some(json) = request.object("StreamSpecification")? else { return Ok(None) };
    let said = Request::of(json, "StreamSpecification")?;
    let enabled = said.bool("StreamEnabled")?.ok_or_else(|| {
        Error::validation(
            "One or more parameter values were invalid: StreamEnabled of StreamSpecification is \
             missing",
        )
    })?;
    if !enabled {
        return Ok(Some(Specification::Close));
    }
    let name = said.need_string("StreamViewType")?;
    let view = View::by_name(&name).ok_or_else(|| {
        Error::validation(format!(
            "1 validation error detected: Value '{name}' at 'streamSpecification.streamViewType' \
             failed to satisfy constraint: Member must satisfy enum value set: [KEYS_ONLY, \
             NEW_IMAGE, OLD_IMAGE, NEW_AND_OLD_IMAGES]"
        ))
    })?;
    Ok(Some(Specification::Open(view)))
}

/// Opens or closes the stream of a table.
pub(crate) async fn change(
    node: &Node,
    table: &Table,
    specification: Specification,
) -> Result<(), Error> {
    // As it is now that the change is made: what was answered before is of the stream.
    change_logged(node, table, move |after| specification.apply(after, now_millis())).await
}

/// Changes a table, with what that means for its log.
pub(crate) async fn change_logged(
    node: &Node,
    table: &Table,
    how: impl Fn(&mut TableSchema) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    node.cluster.formed().await;
    let context = table_facts::context(node);
    let (id, name) = (table.entry.schema.id, table.name.clone());
    let decide = move |schema: &Schema| {
        let gone = || Error::new(Kind::ResourceNotFound, format!("Table: {name} not found"));
        let entry = schema.table_by_id(id).ok_or_else(gone)?;
        let mut after = entry.schema.edit().build().map_err(|it| Error::validation(it.0))?;
        how(&mut after)?;
        let changes = vec![SchemaChange::AlterTable(after)];
        let followed = plan::ddl::with_logs(schema, changes, &context);
        followed.map_err(|error| Error::validation(error.to_string()))
    };
    changed(node.cluster.change_schema(decide).await).map(drop)
}

/// Removes the log of a table that nobody writes, if no stream shows it still.
pub(crate) async fn remove_log(node: &Node, table: &Table) -> Result<(), Error> {
    let id = table.entry.schema.id;
    let decide = move |schema: &Schema| {
        let Some(base) = schema.table_by_id(id) else { return Ok(Vec::new()) };
        let now = now_millis();
        let is_shown = |stream: &history::Stream| {
            stream.closed.is_none_or(|closed| now - KEPT_MILLIS < closed)
        };
        let is_shown = history::of(&tags::of(&base.schema)).iter().any(is_shown);
        let log = log_of(schema, base).filter(|_| base.log.is_none() && !is_shown);
        let drop = |log: Rc<TableEntry>| {
            let TableSchema { keyspace, name, .. } = &*log.schema;
            SchemaChange::DropTable { keyspace: keyspace.clone(), name: name.clone() }
        };
        Ok(log.map(drop).into_iter().collect())
    };
    changed(node.cluster.change_schema(decide).await).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{TableId, Type};

    #[test]
    fn a_log_tells_what_is_wanted_of_it() {
        let check = |open: bool, recovers: bool, expected: Option<(Images, Delta, u32)>| {
            let (mut tags, mut options) = (Tags::new(), TableOptions::new());
            if open {
                history::open(&mut tags, View::KeysOnly, 7).expect("none is open");
            }
            if recovers {
                Recovery::new(7, 3).put(&mut tags);
            }
            set_log(&mut options, &tags);
            let built = TableSchema::builder("ks", "t", TableId::from_u128(1));
            let built = built.partition_key("p", Type::Text);
            tags::set(&mut options, &tags);
            let mut table = built.options(options.clone()).build().expect("a table");
            assert_eq!(recovery_of(&table), Recovery::of(&tags));
            // As somebody has altered it who does not know of that.
            for less in [
                CdcOptions::DEFAULT.stored(false),
                CdcOptions::DEFAULT.stored(true),
                CdcOptions { delta: Delta::Keys, ttl_secs: 0, ..CdcOptions::DEFAULT }.stored(true),
            ] {
                table.options.cdc = less;
                assert_eq!(recovery_of(&table), None);
            }
            let told = CdcOptions::of(&options).map(|it| {
                assert_eq!(it.postimage, it.preimage == Images::Full);
                (it.preimage, it.delta, it.ttl_secs / 86_400)
            });
            assert_eq!(told, expected, "{open} {recovers}");
        };
        check(false, false, None);
        check(true, false, Some((Images::Full, Delta::Keys, 1)));
        check(false, true, Some((Images::None, Delta::Full, 5)));
        check(true, true, Some((Images::Full, Delta::Full, 5)));
    }

    #[test]
    fn what_is_asked_for_is_checked() {
        let said = |text: &str| {
            let body = format!("{{\"StreamSpecification\":{text}}}");
            let request = Request::parse(&body).unwrap();
            asked(&request).map_err(|error| error.message)
        };
        assert_eq!(said("null"), Ok(None));
        assert_eq!(said("{\"StreamEnabled\":false}"), Ok(Some(Specification::Close)));
        let open = said("{\"StreamEnabled\":true,\"StreamViewType\":\"OLD_IMAGE\"}");
        assert_eq!(open, Ok(Some(Specification::Open(View::OldImage))));
        for (text, part) in [
            ("{}", "StreamEnabled"),
            ("{\"StreamEnabled\":true}", "StreamViewType"),
            ("{\"StreamEnabled\":true,\"StreamViewType\":\"Fisk\"}", "Fisk"),
            ("{\"StreamEnabled\":1}", "StreamEnabled"),
            ("7", "StreamSpecification"),
        ] {
            assert!(said(text).unwrap_err().contains(part), "{text}");
        }
    }
}
