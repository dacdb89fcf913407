//! Properties of a table that requests set and descriptions show: whether it is protected from
//! being deleted, and its class. They are kept with its tags.
//!
//! Invariants
//!  - *protected-stays*: a table that is protected is not deleted. That is decided on the schema as
//!    it is when it would be deleted.
//!  - *class-in-name*: of its class a table has nothing but the name: all data are stored alike.

use crate::error::Error;
use crate::json::Object;
use crate::request::Request;
use crate::tags::{self, Tags};
use model::TableSchema;

/// The tags.
const PROTECTED: &str = "system:table_protected";
const CLASS: &str = "system:table_class";

/// The classes that there are; the first is that of a table which says none.
const CLASSES: &[&str] = &["STANDARD", "STANDARD_INFREQUENT_ACCESS"];

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    is_protected: Option<bool>,
    class: Option<&'static str>,
}

impl Properties {
    pub(crate) fn asked(request: &Request<'_>) -> Result<Properties, Error> {
        let class = match request.get("TableClass") {
            Some(_) => Some(request.word("TableClass", CLASSES)?),
            None => None,
        };
        Ok(Properties { is_protected: request.bool("DeletionProtectionEnabled")?, class })
    }

    /// Whether anything is asked for.
    pub(crate) fn is_any(&self) -> bool {
        *self != Properties::default()
    }

    /// Changes those of a table, at that time, milliseconds.
    pub(crate) fn put(&self, now: i64, tags: &mut Tags) {
        match self.is_protected {
            Some(true) => drop(tags.insert(PROTECTED.to_owned(), String::new())),
            Some(false) => drop(tags.remove(PROTECTED)),
            None => {}
        }
        if let Some(class) = self.class {
            tags.insert(CLASS.to_owned(), format!("{now} {class}"));
        }
        let is_protected = tags.contains_key(PROTECTED);
        debug_assert!(self.is_protected.is_none_or(|it| it == is_protected), "protected-stays");
    }
}

/// Refuses that a table is deleted. (*protected-stays*)
pub(crate) fn check_deletable(schema: &TableSchema) -> Result<(), Error> {
    match tags::one(schema, PROTECTED) {
        None => Ok(()),
        Some(_) => Err(Error::validation(format!(
            "Resource cannot be deleted as it is currently protected against deletion. Disable \
             deletion protection first: DeletionProtectionEnabled of {}",
            schema.name
        ))),
    }
}

/// Adds them to the description of a table.
pub(crate) fn write(tags: &Tags, object: &mut Object<'_>) {
    let is_protected = if tags.contains_key(PROTECTED) { "true" } else { "false" };
    object.json("DeletionProtectionEnabled", is_protected);
    let class = tags.get(CLASS).and_then(|said| said.split_once(' '));
    let changed = class.and_then(|(at, class)| Some((at.parse::<i64>().ok()?, class)));
    if let Some((at, class)) = changed.filter(|(_, class)| CLASSES.contains(class)) {
        let mut told = Object::open(object.member("TableClassSummary"));
        let seconds = format!("{}.{:03}", at.div_euclid(1000), at.rem_euclid(1000));
        told.string("TableClass", class).json("LastUpdateDateTime", &seconds);
        told.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::schema::TableOptions;
    use model::{TableId, Type};

    fn asked(body: &str) -> Properties {
        Properties::asked(&Request::parse(body).expect("JSON")).expect("properties")
    }

    fn shown(tags: &Tags) -> String {
        let mut out = String::new();
        let mut object = Object::open(&mut out);
        write(tags, &mut object);
        object.close();
        out
    }

    fn is_deletable(tags: &Tags) -> bool {
        let mut options = TableOptions::new();
        tags::set(&mut options, tags);
        let built = TableSchema::builder("ks", "t", TableId::from_u128(1));
        let built = built.partition_key("p", Type::Text).options(options).build();
        check_deletable(&built.expect("a table")).is_ok()
    }

    #[test]
    fn what_is_asked_for_is_kept_and_shown() {
        let mut tags = Tags::new();
        let off = r#"{"DeletionProtectionEnabled":false}"#;
        let (on, infrequent) = ("DeletionProtectionEnabled", "STANDARD_INFREQUENT_ACCESS");
        let class = |name: &str, at: &str| {
            format!(r#""TableClassSummary":{{"TableClass":"{name}","LastUpdateDateTime":{at}}}"#)
        };
        let steps = [
            ("{}".to_owned(), off.to_owned(), true),
            (format!(r#"{{"{on}":true}}"#), format!(r#"{{"{on}":true}}"#), false),
            (
                format!(r#"{{"TableClass":"{infrequent}"}}"#),
                format!(r#"{{"{on}":true,{}}}"#, class(infrequent, "7.008")),
                false,
            ),
            (
                format!(r#"{{"TableClass":"STANDARD","{on}":false}}"#),
                format!(r#"{{"{on}":false,{}}}"#, class("STANDARD", "7.008")),
                true,
            ),
        ];
        for (body, expected, deletable) in steps {
            let properties = asked(&body);
            assert_eq!(properties.is_any(), body != "{}");
            properties.put(7008, &mut tags);
            assert_eq!(shown(&tags), expected, "{body}");
            assert_eq!(is_deletable(&tags), deletable, "{body}");
        }
    }

    #[test]
    fn damaged_tags_are_none() {
        for damaged in ["", "STANDARD", "x STANDARD", "7 GLACIER"] {
            let tags = Tags::from([(CLASS.to_owned(), damaged.to_owned())]);
            assert_eq!(shown(&tags), shown(&Tags::new()), "{damaged}");
        }
        let refused = Request::parse(r#"{"TableClass":"GLACIER"}"#).expect("JSON");
        assert!(Properties::asked(&refused).is_err());
    }
}
