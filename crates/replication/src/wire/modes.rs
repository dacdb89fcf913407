//! How a node stores the tables of a keyspace that is being given tablets.
//!
//! ```text
//! STORAGE_MODES  name of a keyspace  -> nothing, or version:be64 table*, in the order of names
//!
//! table := mode:u8 (0 the ring, 1 tablets) length:be16 name{length}
//! ```
//! Nothing is answered of a keyspace that is not being given tablets.

use cluster::conversion::Modes;
use cluster::{StorageMode, Stored};
use stdx::{Cursor, Damaged, Put};

pub(crate) fn encode(stored: Option<&Stored>) -> Vec<u8> {
    let Some(Stored { modes, version }) = stored else { return Vec::new() };
    let mut out = Vec::new();
    out.put_u64(*version);
    for (name, mode) in modes {
        let length = u16::try_from(name.len());
        debug_assert!(length.is_ok(), "one-form: the name of a table has {} bytes", name.len());
        out.put_u8(u8::from(*mode == StorageMode::Tablets));
        out.put_u16(length.unwrap_or(u16::MAX));
        out.put(name.as_bytes());
    }
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Stored>, Damaged> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut cursor = Cursor::new(bytes);
    let version = cursor.u64("a version")?;
    let mut modes = Modes::new();
    while !cursor.is_empty() {
        let mode = match cursor.u8("a mode")? {
            0 => StorageMode::Ring,
            1 => StorageMode::Tablets,
            _ => return Err(cursor.damaged("a mode that there is not")),
        };
        let name = std::str::from_utf8(cursor.u16_bytes("a name")?);
        let name = name.map_err(|_| cursor.damaged("a name that is no text"))?;
        if modes.last_key_value().is_some_and(|(last, _)| name <= last.as_str()) {
            return Err(cursor.damaged("tables out of order"));
        }
        modes.insert(name.to_owned(), mode);
    }
    let stored = Some(Stored { modes, version });
    debug_assert_eq!(encode(stored.as_ref()), bytes, "one-form");
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_in_its_only_form_or_damage(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            if let Ok(stored) = decode(&bytes) {
                prop_assert_eq!(encode(stored.as_ref()), bytes);
            }
        }

        #[test]
        fn what_is_told_is_heard(
            names in prop::collection::btree_map("[a-z]{1,9}", any::<bool>(), 0..9),
            version: u64,
        ) {
            let mode = |by| if by { StorageMode::Tablets } else { StorageMode::Ring };
            let modes = names.into_iter().map(|(name, by)| (name, mode(by))).collect();
            let stored = Some(Stored { modes, version });
            prop_assert_eq!(decode(&encode(stored.as_ref())), Ok(stored));
        }
    }

    #[test]
    fn bytes_are_as_they_were() {
        let of = |name: &str, mode| (name.to_owned(), mode);
        let modes = [of("a", StorageMode::Ring), of("bc", StorageMode::Tablets)].into();
        let told = encode(Some(&Stored { modes, version: 7 }));
        assert_eq!(told, b"\0\0\0\0\0\0\0\x07\0\0\x01a\x01\0\x02bc");
        assert_eq!(encode(None), b"");
    }
}
