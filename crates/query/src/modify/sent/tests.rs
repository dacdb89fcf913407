use super::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

fn any_value() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        Just(OwnedValue::Unset),
        vec(any::<u8>(), 0..9).prop_map(OwnedValue::Bytes),
    ]
}

fn any_level() -> impl Strategy<Value = Consistency> {
    (0u16..11).prop_map(|code| Consistency::from_wire(code).expect("a level"))
}

fn any_work() -> impl Strategy<Value = Work> {
    let part = of((0usize..9).prop_map(|part| part));
    let statement = (any::<String>(), of(any::<String>()), part, vec(any_value(), 0..4));
    let statement = statement.prop_map(|(text, keyspace, part, values)| OwnedStatement {
        text,
        keyspace,
        part,
        values,
    });
    let columns = vec(of(any::<u32>().prop_map(ColumnId)), 0..4);
    let form = any::<bool>().prop_map(|cassandra| match cassandra {
        true => BatchForm::Cassandra,
        false => BatchForm::Scylla,
    });
    (any_level(), of(any::<i32>()), form, columns, vec(statement, 1..4)).prop_map(
        |(consistency, now_secs, form, columns, statements)| Work {
            key: b"key".to_vec(),
            statements,
            shown: Some(Shown { columns, form }),
            consistency,
            now_secs,
            timestamp: 0,
        },
    )
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let flags = (any::<u32>(), any::<bool>(), any::<bool>());
    (vec(any::<u8>(), 0..20), flags, vec(any::<String>(), 0..3)).prop_map(
        |(body, (row_count, is_bare, applied), warnings)| Outcome {
            body,
            row_count,
            is_bare,
            applied,
            warnings,
        },
    )
}

fn any_error() -> impl Strategy<Value = CqlError> {
    let fields = (any_level(), any::<[u32; 3]>(), any::<bool>(), 0usize..KINDS.len());
    (0u8..12, fields, vec(any::<String>(), 4)).prop_map(
        |(which, (consistency, [received, required, failures], data_present, kind), texts)| {
            let (kind, text) = (KINDS[kind], texts[0].clone());
            let reason = text.clone();
            match which {
                0 => CqlError::Server(text),
                1 => CqlError::Unavailable { consistency, required, alive: received },
                2 => CqlError::Overloaded(text),
                3 => CqlError::WriteTimeout { consistency, received, required, kind },
                4 => CqlError::ReadTimeout { consistency, received, required, data_present },
                5 => CqlError::ReadFailure {
                    consistency,
                    received,
                    required,
                    failures,
                    data_present,
                    reason,
                },
                6 => CqlError::WriteFailure {
                    consistency,
                    received,
                    required,
                    failures,
                    kind,
                    reason,
                },
                7 => CqlError::FunctionFailure(Failure {
                    keyspace: text,
                    function: texts[1].clone(),
                    arguments: texts[2..].to_vec(),
                    reason: texts[1].clone(),
                }),
                8 => CqlError::Syntax(text),
                9 => CqlError::Unauthorized(text),
                10 => CqlError::Config(text),
                _ => CqlError::Invalid(text),
            }
        },
    )
}

/// Bytes that a decoder takes, changed in one place or cut.
fn changed(mut bytes: Vec<u8>, (at, to, cut): (usize, u8, Option<usize>)) -> Vec<u8> {
    let length = bytes.len();
    bytes[at % length] = to;
    bytes.truncate(cut.map_or(length, |cut| cut % length));
    bytes
}

fn any_change() -> impl Strategy<Value = (usize, u8, Option<usize>)> {
    (any::<usize>(), any::<u8>(), of(any::<usize>()))
}

proptest! {
    #[test]
    fn what_is_sent_arrives(work in any_work()) {
        prop_assert_eq!(decode(&encode(&work), b"key"), Ok(work));
    }

    #[test]
    fn results_come_back(outcome in any_outcome(), error in any_error()) {
        for result in [Ok(outcome), Err(error)] {
            prop_assert_eq!(decode_result(&encode_result(&result)), Ok(result));
        }
    }

    #[test]
    fn any_bytes_are_a_request_in_its_only_form_or_damage(
        work in any_work(),
        change in any_change(),
        random in vec(any::<u8>(), 0..60),
    ) {
        for bytes in [changed(encode(&work), change), random] {
            if let Ok(work) = decode(&bytes, b"key") {
                prop_assert_eq!(encode(&work), bytes);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_result_in_its_only_form_or_damage(
        outcome in any_outcome(),
        error in any_error(),
        change in any_change(),
        random in vec(any::<u8>(), 0..60),
    ) {
        let results = [Ok(outcome), Err(error)];
        let encoded = results.iter().map(|result| changed(encode_result(result), change));
        for bytes in encoded.chain([random]) {
            if let Ok(result) = decode_result(&bytes) {
                prop_assert_eq!(encode_result(&result), bytes);
            }
        }
    }
}

/// What has no parts of its own is an error of the server, in its words.
#[test]
fn rare_errors_keep_their_words() {
    let error = CqlError::Truncate("not now".to_owned());
    let sent = decode_result(&encode_result(&Err(error)));
    assert_eq!(sent, Ok(Err(CqlError::Server("not now".to_owned()))));
}
