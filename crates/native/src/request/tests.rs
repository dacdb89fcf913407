use super::*;
use proptest::prelude::*;
use stdx::Put;

const V4: Dialect = Dialect { version: 4, metadata_ids: false };
const V5: Dialect = Dialect { version: 5, metadata_ids: true };

fn check(code: u8, dialect: Dialect, body: &[u8], expected: &str) {
    let text = match parse(code, dialect, false, body) {
        Ok(request) => format!("{request:?}"),
        Err(damaged) => format!("error: {damaged}"),
    };
    assert_eq!(text, expected);
}

#[test]
fn tokens_with_and_without_their_length() {
    let check = |body: &[u8], token: &[u8]| assert_eq!(auth_token(body), token, "{body:?}");
    check(b"\0\0\0\x04\0a\0b", b"\0a\0b");
    check(b"\0\0\0\0", b"");
    check(b"\xff\xff\xff\xff", b"");
    check(b"\0a\0b", b"\0a\0b");
    check(b"\0name\0password", b"\0name\0password");
    // More than there is.
    check(b"\0\0\0\x05\0a\0b", b"\0\0\0\x05\0a\0b");
    check(b"\0a", b"\0a");
    check(b"", b"");
}

#[test]
fn a_query_with_every_parameter() {
    let mut body = Vec::new();
    body.put_u32_bytes(b"SELECT ?");
    body.put_u16(6);
    body.put_u8(0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x20);
    body.put_u16(3);
    body.put_u32_bytes(b"v");
    body.put_i32(-1);
    body.put_i32(-2);
    body.put_i32(100);
    body.put_u32_bytes(b"state");
    body.put_u16(9);
    body.put_i64(77);
    check(
        opcode::QUERY,
        V4,
        &body,
        "Query { text: \"SELECT ?\", parameters: Parameters { consistency: 6, \
         serial_consistency: Some(9), values: Positional([Bytes([118]), Null, Unset]), \
         skip_metadata: true, page_size: Some(100), \
         paging_state: Some([115, 116, 97, 116, 101]), timestamp: Some(77), keyspace: None, \
         now_seconds: None } }",
    );
}

#[test]
fn version_five_has_wide_flags_and_a_keyspace() {
    let mut body = Vec::new();
    body.put_u16_bytes(b"id");
    body.put_u16_bytes(b"md");
    body.put_u16(1);
    body.put_u32(0x80 | 0x100);
    body.put_u16_bytes(b"ks");
    body.put_i32(5);
    check(
        opcode::EXECUTE,
        V5,
        &body,
        "Execute { id: [105, 100], metadata_id: Some([109, 100]), parameters: Parameters { \
         consistency: 1, serial_consistency: None, values: Positional([]), skip_metadata: false, \
         page_size: None, paging_state: None, timestamp: None, keyspace: Some(\"ks\"), \
         now_seconds: Some(5) } }",
    );
}

#[test]
fn damage_is_named() {
    check(opcode::QUERY, V4, &[0xff, 0, 0, 0], "error: negative string length at offset 4");
    check(opcode::QUERY, V4, &[0, 0, 0, 9, b'x'], "error: long string at offset 4");
    check(0x55, V4, &[], "error: unknown opcode at offset 0");
    check(opcode::BATCH, V4, &[7], "error: unknown batch type at offset 1");
    let names = [0, 0, 0, 0, 1, 0x40];
    let text = "error: names for values are not allowed in a batch at offset 6";
    check(opcode::BATCH, V4, &names, text);
}

proptest! {
    #[test]
    fn any_body_is_survived(code in 0u8..0x12, v5: bool, payload: bool,
                            body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let dialect = if v5 { V5 } else { V4 };
        let _ = parse(code, dialect, payload, &body);
        if let Ok(glance) = glance(dialect, &body) {
            let _ = (glance.value(0), glance.value(7), glance.value(u16::MAX));
        }
    }

    #[test]
    fn a_glance_sees_what_is_parsed(
        v5: bool,
        named in prop::bool::weighted(0.2),
        values in prop::collection::vec(
            prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
            0..6,
        ),
    ) {
        let dialect = if v5 { V5 } else { V4 };
        let mut body = Vec::new();
        body.put_u16_bytes(b"id");
        if v5 {
            body.put_u16_bytes(b"md");
        }
        body.put_u16(1);
        let flags = flag::VALUES | if named { flag::NAMES } else { 0 };
        if v5 { body.put_u32(flags) } else { body.put_u8(flags as u8) }
        body.put_u16(values.len() as u16);
        for value in &values {
            if named {
                body.put_u16_bytes(b"name");
            }
            match value {
                Some(value) => body.put_u32_bytes(value),
                None => body.put_i32(-1),
            }
        }
        prop_assert!(parse(opcode::EXECUTE, dialect, false, &body).is_ok());
        let glance = glance(dialect, &body).unwrap();
        prop_assert_eq!(glance.id, b"id");
        for at in 0..8 {
            let there = values.get(at).and_then(|value| value.as_deref()).filter(|_| !named);
            prop_assert_eq!(glance.value(at as u16), there);
        }
    }
}
