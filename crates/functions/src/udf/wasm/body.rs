//! The body of a function: from what stands in the statement to a binary module.
//!
//! A module may name a function that runs at its start. The interpreter would run it to its end
//! whatever else the shard has to do, so [`module_of`] turns it into one that is exported as
//! [`START`], which is called like any other.

use std::borrow::Cow;

/// Bytes of a body at most.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;
/// What the function is exported as that runs at the start of a module.
pub(super) const START: &str = "(start)";

/// With what a binary module begins: its magic number and its version.
const HEADER_BYTES: usize = 8;
const EXPORTS: u8 = 7;
const STARTS: u8 = 8;
/// An export of a function.
const FUNCTION: u8 = 0;

/// The binary module of a body, which is its text form or base64 of its binary form.
pub(super) fn module_of(body: &str) -> Result<Vec<u8>, String> {
    if BODY_BYTES_MAX < body.len() {
        return Err(format!("the module is longer than {BODY_BYTES_MAX} bytes"));
    }
    // Of the four bytes with which a binary module begins.
    let bytes = match body.trim_start().starts_with("AGFzb") {
        true => Cow::Owned(decode_base64(body)?),
        false => wat::parse_bytes(body.as_bytes()).map_err(|error| error.to_string())?,
    };
    Ok(export_start(&bytes).unwrap_or_else(|| bytes.into_owned()))
}

/// Base64 (RFC 4648), with spaces in it.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0);
    let text = text.trim_ascii_end().trim_end_matches('=');
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err("the body is neither WebAssembly text nor a base64 module".to_owned()),
        };
        held = held << 6 | u32::from(digit);
        bits += 6;
        if 8 <= bits {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Ok(bytes)
}

/// The module with its start exported; none where it has no start, exports nothing, or is damaged,
/// which the one who compiles it finds out.
fn export_start(module: &[u8]) -> Option<Vec<u8>> {
    let (header, mut rest) = module.split_at_checked(HEADER_BYTES)?;
    let mut sections = Vec::new();
    while !rest.is_empty() {
        let section;
        (section, rest) = Section::split(rest)?;
        sections.push(section);
    }
    let mut starts = sections.iter().filter(|section| section.id == STARTS);
    let (start, None) = (&starts.next()?.content, starts.next()) else { return None };
    let mut made = header.to_vec();
    for section in &sections {
        match section.id {
            STARTS => {}
            EXPORTS => section.with_export(start)?.append_to(&mut made),
            _ => section.append_to(&mut made),
        }
    }
    sections.iter().any(|section| section.id == EXPORTS).then_some(made)
}

/// A section of a binary module.
struct Section<'a> {
    id: u8,
    content: Cow<'a, [u8]>,
}

impl<'a> Section<'a> {
    /// The first section of `bytes`, and what follows it.
    fn split(bytes: &'a [u8]) -> Option<(Section<'a>, &'a [u8])> {
        let (&id, bytes) = bytes.split_first()?;
        let (length, bytes) = split_u32(bytes)?;
        let (content, rest) = bytes.split_at_checked(length as usize)?;
        Some((Section { id, content: Cow::Borrowed(content) }, rest))
    }

    /// A section of exports with one more, of the function with that index.
    fn with_export(&self, function: &[u8]) -> Option<Section<'static>> {
        let (count, exports) = split_u32(&self.content)?;
        let mut content = Vec::with_capacity(exports.len() + START.len() + function.len() + 8);
        put_u32(&mut content, count.checked_add(1)?);
        content.extend_from_slice(exports);
        put_u32(&mut content, START.len() as u32);
        content.extend_from_slice(START.as_bytes());
        content.push(FUNCTION);
        content.extend_from_slice(function);
        Some(Section { id: self.id, content: Cow::Owned(content) })
    }

    fn append_to(&self, module: &mut Vec<u8>) {
        module.push(self.id);
        put_u32(module, self.content.len() as u32);
        module.extend_from_slice(&self.content);
    }
}

/// A number of seven bits a byte, the low ones first, and what follows it.
fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, &bytes[at + 1..]));
        }
    }
    None
}

fn put_u32(bytes: &mut Vec<u8>, mut value: u32) {
    while 0x80 <= value {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn binary(text: &str) -> Vec<u8> {
        wat::parse_str(text).expect("a module")
    }

    #[test]
    fn a_start_becomes_an_export() {
        let body = "(func $s nop) (func (export \"f\"))";
        let exported = format!("(module {body} (export \"{START}\" (func $s)))");
        let checks = [
            (format!("(module {body} (start $s))"), exported),
            // Left as they are: without a start, or without an export.
            (format!("(module {body})"), format!("(module {body})")),
            (
                "(module (func $s) (start $s))".to_owned(),
                "(module (func $s) (start $s))".to_owned(),
            ),
        ];
        for (given, expected) in checks {
            let without_names = |text: &str| {
                let module = binary(text);
                let mut rest = &module[HEADER_BYTES..];
                let mut kept = module[..HEADER_BYTES].to_vec();
                while let Some((section, after)) = Section::split(rest) {
                    // Custom sections hold the names of functions.
                    if section.id != 0 {
                        section.append_to(&mut kept);
                    }
                    rest = after;
                }
                kept
            };
            let module = without_names(&given);
            let made = export_start(&module).unwrap_or(module);
            assert_eq!(made, without_names(&expected), "{given}");
        }
    }

    #[test]
    fn base64() {
        let module = binary("(module (func (export \"f\") (result i32) i32.const 7))");
        let text = "AGFzbQEAAAABBQFgAAF/AwIBAAcFAQFmAAAK\n BgEEAEEHCw==\n";
        assert_eq!(module_of(text), Ok(module));
        assert!(module_of("AGFzbQEAAAA!").is_err());
    }

    proptest! {
        #[test]
        fn numbers_round_trip(value: u32, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            put_u32(&mut bytes, value);
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(split_u32(&bytes), Some((value, &rest[..])));
        }

        #[test]
        fn damaged_modules_are_left_alone_or_stay_modules(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = binary("(module (func $s) (func (export \"f\")) (start $s))");
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Some(made) = export_start(&bytes) {
                let (section, _) = Section::split(&made[HEADER_BYTES..]).expect("a section");
                prop_assert!(section.id != STARTS);
            }
        }
    }
}
