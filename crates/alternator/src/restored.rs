//! What the schema of a table says of the backup or the import that it was made of, and whether
//! its items are on their way still. Pure.
//!
//! Both stand with the schema, so every node knows them, and they outlive whoever drives the
//! restore. While it goes on the table forgets no deletion (`tombstone_gc`): what comes later may
//! be older.
//!
//! Invariants
//!  - *not-before-all*: a table is used when all of its items are there, and not before.

use crate::json::Object;
use crate::tags::{self, Tags};
use model::TableSchema;
use model::schema::TableOptions;

/// The extension of a table whose items are on their way: empty, or why they will not come.
const STATE: &str = "nereid_restore";
/// The tag that says which backup it was, when it was begun, in milliseconds, and of which table.
const ORIGIN: &str = "system:table_restored";
/// The tag that says to which point in time it is restored, in milliseconds.
const POINT: &str = "system:table_restored_to";
const GC: &str = "mode";

/// The tag that says which import it was.
const IMPORT: &str = "system:table_imported";

/// The backup that a table was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    /// The id of the backup.
    pub(crate) backup: String,
    /// When the restore was asked for, milliseconds.
    pub(crate) at: i64,
    /// The name of the table that it is of.
    pub(crate) source: String,
    /// The point in time that it is restored to, milliseconds; none: all that the backup has.
    pub(crate) point: Option<i64>,
}

/// How far a restore is that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State<'s> {
    UnderWay,
    /// The reason.
    Failed(&'s str),
}

impl Restored {
    /// That of a table that was restored, or is being.
    pub(crate) fn of(tags: &Tags) -> Option<Restored> {
        let (backup, rest) = tags.get(ORIGIN)?.split_once(' ')?;
        let (at, source) = rest.split_once(' ')?;
        let at = at.parse().ok()?;
        let point = tags.get(POINT).map(|point| point.parse()).transpose().ok()?;
        Some(Restored { backup: backup.to_owned(), at, source: source.to_owned(), point })
    }

    pub(crate) fn put(&self, tags: &mut Tags) {
        debug_assert!(!self.backup.contains(' '), "the id of a backup has no space");
        tags.insert(ORIGIN.to_owned(), format!("{} {} {}", self.backup, self.at, self.source));
        tags.extend(self.point.map(|point| (POINT.to_owned(), point.to_string())));
        debug_assert_eq!(Restored::of(tags).as_ref(), Some(self));
    }
}

/// `None`: the table may be used.
#[inline]
pub(crate) fn state(schema: &TableSchema) -> Option<State<'_>> {
    match schema.options.extension(STATE)? {
        "" => Some(State::UnderWay),
        why => Some(State::Failed(why)),
    }
}

/// Its items are on their way from now on.
pub(crate) fn begin(options: &mut TableOptions) {
    options.set_extension(STATE, Some(""));
    options.tombstone_gc = vec![(GC.to_owned(), "disabled".to_owned())];
}

/// They are all there.
pub(crate) fn end(options: &mut TableOptions) {
    options.set_extension(STATE, None);
    options.tombstone_gc = TableOptions::new().tombstone_gc;
}

/// They will not come.
pub(crate) fn fail(options: &mut TableOptions, why: &str) {
    let why = if why.is_empty() { "for no known reason" } else { why };
    options.set_extension(STATE, Some(why));
}

/// Writes down of which import a table is made.
pub(crate) fn put_import(id: &str, tags: &mut Tags) {
    tags.insert(IMPORT.to_owned(), id.to_owned());
}

/// The id of the import that fills a table just now.
pub(crate) fn import_under_way(schema: &TableSchema) -> Option<&str> {
    match state(schema)? {
        State::UnderWay => tags::one(schema, IMPORT),
        State::Failed(_) => None,
    }
}

/// What is wrong with a table whose items are not all there, after its name.
pub(crate) fn words(schema: &TableSchema, state: State<'_>) -> &'static str {
    match (state, tags::one(schema, IMPORT)) {
        (State::UnderWay, None) => "is being restored",
        (State::UnderWay, Some(_)) => "is being imported",
        (State::Failed(_), None) => "could not be restored, and can only be deleted",
        (State::Failed(_), Some(_)) => "could not be imported, and can only be deleted",
    }
}

/// What a table is being made of just now.
pub(crate) fn under_way(schema: &TableSchema) -> Option<Restored> {
    match state(schema)? {
        State::UnderWay => Restored::of(&tags::of(schema)),
        State::Failed(_) => None,
    }
}

/// The status of a table that would be `otherwise`.
pub(crate) fn status<'t>(schema: &TableSchema, otherwise: &'t str) -> &'t str {
    match state(schema) {
        _ if otherwise == "DELETING" => otherwise,
        None => otherwise,
        Some(State::UnderWay) => "CREATING",
        Some(State::Failed(_)) => "ARCHIVED",
    }
}

/// Adds what is known of its restore to the description of a table. `arn_of`: of a table's name.
pub(crate) fn describe(
    schema: &TableSchema,
    tags: &Tags,
    arn_of: impl Fn(&str) -> String,
    object: &mut Object<'_>,
) {
    let (state, restored) = (state(schema), Restored::of(tags));
    if let Some(Restored { backup, at, source, point }) = &restored {
        let table = arn_of(source);
        let is_under_way = state == Some(State::UnderWay);
        let mut part = Object::open(object.member("RestoreSummary"));
        if point.is_none() {
            part.string("SourceBackupArn", &format!("{table}/backup/{backup}"));
        }
        let to = point.unwrap_or(*at);
        part.string("SourceTableArn", &table).json("RestoreDateTime", &seconds(to));
        part.json("RestoreInProgress", if is_under_way { "true" } else { "false" });
        part.close();
    }
    if let Some(State::Failed(why)) = state {
        let made = tags.get(tags::CREATED).and_then(|millis| millis.parse().ok());
        let at = restored.as_ref().map(|restored| restored.at).or(made);
        let what = if restored.is_some() { "restore" } else { "import" };
        let mut part = Object::open(object.member("ArchivalSummary"));
        part.json("ArchivalDateTime", &seconds(at.unwrap_or(0)));
        part.string("ArchivalReason", &format!("the {what} has failed: {why}"));
        part.close();
    }
}

/// Milliseconds as the API has times.
pub(crate) fn seconds(millis: i64) -> String {
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Type;

    fn table(change: impl Fn(&mut TableOptions)) -> TableSchema {
        let mut options = TableOptions::new();
        change(&mut options);
        let builder = TableSchema::builder("ks", "t", model::TableId::from_u128(1));
        builder.partition_key("p", Type::Text).options(options).build().expect("a table")
    }

    /// *not-before-all*
    #[test]
    fn a_table_is_used_when_its_restore_is_over() {
        let check = |change: &dyn Fn(&mut TableOptions), expected, status_of: &str, gc: &str| {
            let table = table(change);
            assert_eq!(state(&table), expected);
            assert_eq!(status(&table, "ACTIVE"), status_of);
            assert_eq!(status(&table, "DELETING"), "DELETING");
            let mode = table.options.tombstone_gc.iter().find(|(name, _)| name == GC);
            assert_eq!(mode.map_or("", |(_, mode)| mode), gc);
        };
        check(&|_| (), None, "ACTIVE", "");
        check(&begin, Some(State::UnderWay), "CREATING", "disabled");
        let failed = |options: &mut TableOptions| {
            begin(options);
            fail(options, "no disk");
        };
        check(&failed, Some(State::Failed("no disk")), "ARCHIVED", "disabled");
        let ended = |options: &mut TableOptions| {
            begin(options);
            end(options);
        };
        check(&ended, None, "ACTIVE", "");
    }

    /// *not-before-all*
    #[test]
    fn a_table_is_used_when_its_import_is_over() {
        let check = |change: &dyn Fn(&mut TableOptions), import, said: &str| {
            let imported = table(|options| {
                let mut tags = Tags::new();
                put_import("017-ab", &mut tags);
                tags::set(options, &tags);
                change(options);
            });
            assert_eq!(import_under_way(&imported), import);
            assert_eq!(under_way(&imported), None);
            assert_eq!(state(&imported).map_or("", |state| words(&imported, state)), said);
            let (mut out, tags) = (String::new(), tags::of(&imported));
            let mut object = Object::open(&mut out);
            describe(&imported, &tags, str::to_owned, &mut object);
            object.close();
            assert_eq!(out.contains("the import has failed: no file"), said.contains("could not"));
            assert!(!out.contains("RestoreSummary"), "{out}");
        };
        check(&begin, Some("017-ab"), "is being imported");
        let failed = |options: &mut TableOptions| {
            begin(options);
            fail(options, "no file");
        };
        check(&failed, None, "could not be imported, and can only be deleted");
        let ended = |options: &mut TableOptions| {
            begin(options);
            end(options);
        };
        check(&ended, None, "");
    }

    #[test]
    fn a_description_tells_of_the_backup() {
        let (backup, source) = ("017-ab".to_owned(), "a.b".to_owned());
        let restored = Restored { backup, at: 5_250, source, point: None };
        let mut tags = Tags::new();
        restored.put(&mut tags);
        assert_eq!(Restored::of(&tags), Some(restored.clone()));
        let shown = |change: &dyn Fn(&mut TableOptions)| {
            let mut out = String::new();
            let mut object = Object::open(&mut out);
            describe(&table(change), &tags, |name| format!("arn:{name}"), &mut object);
            object.close();
            out
        };
        let summary = "\"RestoreSummary\":{\"SourceBackupArn\":\"arn:a.b/backup/017-ab\",\
                       \"SourceTableArn\":\"arn:a.b\",\"RestoreDateTime\":5.250,\
                       \"RestoreInProgress\":";
        assert_eq!(shown(&|_| ()), format!("{{{summary}false}}}}"));
        assert_eq!(shown(&begin), format!("{{{summary}true}}}}"));
        let failed = shown(&|options| fail(options, "no disk"));
        assert!(
            failed.contains("\"ArchivalReason\":\"the restore has failed: no disk\""),
            "{failed}"
        );
        Restored { point: Some(4_001), ..restored }.put(&mut tags);
        let mut out = String::new();
        let mut object = Object::open(&mut out);
        describe(&table(|_| ()), &tags, str::to_owned, &mut object);
        object.close();
        assert!(out.contains("{\"SourceTableArn\":\"a.b\",\"RestoreDateTime\":4.001,"), "{out}");
        assert_eq!(Restored::of(&Tags::new()), None);
        let damaged = Tags::from([(ORIGIN.to_owned(), "017-ab x a".to_owned())]);
        assert_eq!(Restored::of(&damaged), None);
    }
}
