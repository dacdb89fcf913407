//! The streams that a table has had: from when to when, and what their records show. Pure.
//!
//! All streams of a table are read from its one log, each the time for which it was there. They are
//! kept in a tag of the node's own: `created closed view`, milliseconds, `-` where it is open.
//!
//! Invariants
//!  - *one-open*: at most the last one is open.
//!  - *times-apart*: each begins after the one before has ended, so no record is of two.

use crate::date;
use crate::error::Error;
use crate::tags::Tags;

/// The tag.
const TAG: &str = "system:table_streams";
/// For how long a stream that is over is shown, milliseconds: as long as its log keeps rows.
pub(super) const KEPT_MILLIS: i64 = 24 * 3600 * 1000;

/// What records show of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    KeysOnly,
    NewImage,
    OldImage,
    Both,
}

impl View {
    const ALL: [View; 4] = [View::KeysOnly, View::NewImage, View::OldImage, View::Both];

    pub(crate) fn name(self) -> &'static str {
        match self {
            View::KeysOnly => "KEYS_ONLY",
            View::NewImage => "NEW_IMAGE",
            View::OldImage => "OLD_IMAGE",
            View::Both => "NEW_AND_OLD_IMAGES",
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<View> {
        View::ALL.into_iter().find(|view| view.name() == name)
    }

    pub(super) fn shows_old(self) -> bool {
        matches!(self, View::OldImage | View::Both)
    }

    pub(super) fn shows_new(self) -> bool {
        matches!(self, View::NewImage | View::Both)
    }
}

/// A stream of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Milliseconds since 1970.
    pub(crate) created: i64,
    pub(crate) closed: Option<i64>,
    pub(crate) view: View,
}

impl Stream {
    /// What tells it from other streams of its table.
    pub(crate) fn label(&self) -> String {
        date::iso(self.created)
    }
}

/// Those of a table, the first one first. A damaged tag is none.
pub(crate) fn of(tags: &Tags) -> Vec<Stream> {
    let text = tags.get(TAG).map_or("", String::as_str);
    let one = |text: &str| {
        let mut words = text.split(' ');
        let (created, closed, view) = (words.next()?, words.next()?, words.next()?);
        let closed = if closed == "-" { None } else { Some(closed.parse().ok()?) };
        Some(Stream { created: created.parse().ok()?, closed, view: View::by_name(view)? })
    };
    text.split(',').filter_map(one).collect()
}

fn set(tags: &mut Tags, streams: &[Stream]) {
    let one = |stream: &Stream| {
        let closed = stream.closed.map_or_else(|| "-".to_owned(), |at| at.to_string());
        format!("{} {closed} {}", stream.created, stream.view.name())
    };
    let text = streams.iter().map(one).collect::<Vec<_>>().join(",");
    tags.insert(TAG.to_owned(), text);
}

/// Adds a stream, if none is open.
pub(crate) fn open(tags: &mut Tags, view: View, now_millis: i64) -> Result<(), Error> {
    let mut streams = of(tags);
    if let Some(open) = streams.iter().find(|stream| stream.closed.is_none()) {
        return Err(Error::validation(format!(
            "Table already has an enabled stream: {}, of {}",
            open.label(),
            open.view.name()
        )));
    }
    streams.retain(|it| it.closed.is_some_and(|closed| now_millis - KEPT_MILLIS < closed));
    let after = streams.last().and_then(|last| last.closed).map_or(i64::MIN, |closed| closed + 1);
    streams.push(Stream { created: now_millis.max(after), closed: None, view });
    set(tags, &streams);
    Ok(())
}

/// Ends the stream that is open.
pub(crate) fn close(tags: &mut Tags, now_millis: i64) -> Result<(), Error> {
    let mut streams = of(tags);
    let Some(open) = streams.iter_mut().find(|stream| stream.closed.is_none()) else {
        return Err(Error::validation("Table has no stream to disable: its stream is disabled"));
    };
    open.closed = Some(now_millis.max(open.created + 1));
    set(tags, &streams);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stream_is_opened_and_closed() {
        let mut tags = Tags::new();
        assert!(close(&mut tags, 5).is_err());
        open(&mut tags, View::KeysOnly, 10).unwrap();
        assert!(open(&mut tags, View::KeysOnly, 11).unwrap_err().message.contains("already"));
        close(&mut tags, 20).unwrap();
        assert!(close(&mut tags, 21).unwrap_err().message.contains("disable"));
        // A clock that went back.
        open(&mut tags, View::Both, 15).unwrap();
        let first = Stream { created: 10, closed: Some(20), view: View::KeysOnly };
        let second = Stream { created: 21, closed: None, view: View::Both };
        assert_eq!(of(&tags), [first, second]);
        assert_eq!(second.label(), "1970-01-01T00:00:00.021");
        close(&mut tags, 30 + KEPT_MILLIS).unwrap();
        open(&mut tags, View::Both, 31 + KEPT_MILLIS).unwrap();
        assert_eq!(of(&tags).len(), 2);
    }

    proptest! {
        #[test]
        fn one_is_open_and_times_are_apart(
            steps in prop::collection::vec((any::<bool>(), 0i64..1000), 0..30),
        ) {
            let mut tags = Tags::new();
            for (opens, now) in steps {
                let _ = match opens {
                    true => open(&mut tags, View::NewImage, now),
                    false => close(&mut tags, now),
                };
                let all = of(&tags);
                for pair in all.windows(2) {
                    let closed = pair[0].closed.expect("one-open");
                    prop_assert!(pair[0].created < closed && closed < pair[1].created);
                }
            }
        }

        #[test]
        fn foreign_tags_do_not_panic(text: String) {
            let _ = of(&Tags::from([(TAG.to_owned(), text)]));
        }
    }
}
