//! Streams are opened and closed: with the log of their table, in one change of the schema.

use super::history::{self, View};
use super::now_millis;
use crate::error::{Error, Kind};
use crate::node::{Node, changed};
use crate::request::Request;
use crate::table::Table;
use crate::table_facts;
use crate::tags;
use cluster::{Schema, SchemaChange};
use model::TableSchema;
use model::schema::cdc::{CdcOptions, Delta, Images};

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
        let options = CdcOptions {
            preimage: Images::Full,
            postimage: true,
            delta: Delta::Keys,
            ..CdcOptions::DEFAULT
        };
        schema.options.cdc = options.stored(matches!(self, Specification::Open(_)));
        Ok(())
    }
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
    node.cluster.formed().await;
    let context = table_facts::context(node);
    let (id, name) = (table.entry.schema.id, table.name.clone());
    let decide = move |schema: &Schema| {
        let gone = || Error::new(Kind::ResourceNotFound, format!("Table: {name} not found"));
        let entry = schema.table_by_id(id).ok_or_else(gone)?;
        let mut after = entry.schema.edit().build().map_err(|it| Error::validation(it.0))?;
        // As it is now that the change is made: what was answered before is of the stream.
        specification.apply(&mut after, now_millis())?;
        let changes = vec![SchemaChange::AlterTable(after)];
        let followed = plan::ddl::with_logs(schema, changes, &context);
        followed.map_err(|error| Error::validation(error.to_string()))
    };
    changed(node.cluster.change_schema(decide).await).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_checked() {
        let said = |text: &str| {
            let body = format!("{{\"StreamSpecification\":{text}}}");
            let request = Request::parse(body.as_bytes()).unwrap();
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
