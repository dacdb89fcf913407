use super::*;
use model::{Token, Type};
use query::ColumnSpec;
use replication::{Consistency, WriteKind};
use std::rc::Rc;

const V4: Dialect = Dialect { version: 4, metadata_ids: false };
const V5: Dialect = Dialect { version: 5, metadata_ids: true };

/// The body as text: printable runs as they are, the rest in hexadecimal.
fn body(envelope: &[u8]) -> String {
    let length = u32::from_be_bytes([envelope[5], envelope[6], envelope[7], envelope[8]]);
    assert_eq!(length as usize, envelope.len() - frame::HEADER_BYTES);
    let mut text = String::new();
    for byte in &envelope[frame::HEADER_BYTES..] {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b' ' => text.push(*byte as char),
            _ => text.push_str(&format!("<{byte:x}>")),
        }
    }
    text
}

fn spec(name: &str, ty: Type) -> ColumnSpec {
    ColumnSpec { keyspace: "ks".into(), table: "t".into(), name: name.into(), ty }
}

fn page(paging_state: Option<Vec<u8>>) -> Rows {
    let columns = vec![spec("a", Type::Int), spec("b", Type::Text)];
    let metadata = Rc::new(ResultMetadata::new(columns));
    Rows { metadata, row_count: 1, body: vec![0xff; 3], paging_state }
}

fn rows_body(dialect: Dialect, known: Known<'_>, page: Rows) -> String {
    let mut out = Vec::new();
    let response = Response::of(ResponseKind::Rows(page));
    result(&mut out, dialect, 1, &known, &response);
    body(&out)
}

#[test]
fn rows_carry_metadata_unless_the_client_has_it() {
    assert_eq!(
        rows_body(V4, Known::default(), page(None)),
        "<0><0><0><2><0><0><0><1><0><0><0><2><0><2>ks<0><1>t<0><1>a<0><9><0><1>b<0><d>\
         <0><0><0><1><ff><ff><ff>"
    );
    let known = Known { skip_metadata: true, ..Known::default() };
    assert_eq!(
        rows_body(V4, known, page(Some(b"s".to_vec()))),
        "<0><0><0><2><0><0><0><6><0><0><0><2><0><0><0><1>s<0><0><0><1><ff><ff><ff>"
    );
}

#[test]
fn a_large_result_is_the_same_in_memory_of_its_own() {
    runtime::sim::test(1, || async {
        let of = |bytes: usize| {
            let body = (0..bytes).map(|at| (at % 251) as u8).collect();
            Response::of(ResponseKind::Rows(Rows { body, ..page(Some(b"s".to_vec())) }))
        };
        let small = of(PIECE_BYTES);
        assert!(!is_large(&small));
        let void = Response::of(ResponseKind::Void);
        assert!(!is_large(&void));
        for known in [Known::default(), Known { skip_metadata: true, ..Known::default() }] {
            let mut large = of(10 * PIECE_BYTES + 7);
            large.warnings.push("long".to_string());
            assert!(is_large(&large));
            let mut out = Vec::new();
            result(&mut out, V5, 9, &known, &large);
            assert!(large_result(V5, 9, &known, &large).await == out);
        }
    });
}

#[test]
fn a_changed_result_is_told_with_its_new_id() {
    let known = Known { skip_metadata: true, metadata_id: Some(b"old"), tablet: None };
    let text = rows_body(V5, known, page(None));
    assert!(text.starts_with("<0><0><0><2><0><0><0><9><0><0><0><2><0><10>"), "{text}");
    assert!(text.contains("ks<0><1>t<0><1>a"), "{text}");
    let current = page(None).metadata.id;
    let known = Known { skip_metadata: true, metadata_id: Some(&current), tablet: None };
    assert!(!rows_body(V5, known, page(None)).contains("ks"));
}

#[test]
fn warnings_and_tracing_stand_before_the_body() {
    let mut response = Response::VOID;
    response.warnings.push("careful".to_string());
    let mut out = Vec::new();
    result(&mut out, V4, 1, &Known::default(), &response);
    assert_eq!(out[1], flag::WARNING);
    assert_eq!(body(&out), "<0><1><0><7>careful<0><0><0><1>");
    let mut out = Vec::new();
    let dialect = Dialect { version: 3, metadata_ids: false };
    result(&mut out, dialect, 1, &Known::default(), &response);
    assert_eq!((out[1], body(&out).as_str()), (0, "<0><0><0><1>"));
}

#[test]
fn errors_by_version() {
    let failure = CqlError::WriteFailure {
        consistency: Consistency::Quorum,
        received: 1,
        required: 2,
        failures: 1,
        kind: WriteKind::Batch,
        reason: "x".to_string(),
    };
    let ends = |version: u8| {
        let mut out = Vec::new();
        error(&mut out, version, 0, &failure);
        let text = body(&out);
        let code = text.chars().take(16).collect::<String>();
        (code, text[text.len() - 41..].to_string())
    };
    let tail = "<0><0><0><1><0><0><0><2>".len() + "<0><5>BATCH".len();
    assert!(tail < 41);
    assert_eq!(ends(3).0, "<0><0><11><0><0>");
    assert!(ends(3).1.ends_with("<0><0><0><1><0><0><0><2><0><5>BATCH"));
    assert_eq!(ends(4).0, "<0><0><15><0><0>");
    assert!(ends(4).1.ends_with("<0><0><0><2><0><0><0><1><0><5>BATCH"));
    assert!(ends(5).1.ends_with("<0><0><0><2><0><0><0><0><0><5>BATCH"));
}

#[test]
fn a_conditional_write_that_timed_out_has_its_contentions_in_version_5() {
    let end = |version: u8, kind: WriteKind| {
        let (consistency, received, required) = (Consistency::Serial, 0, 1);
        let timeout = CqlError::WriteTimeout { consistency, received, required, kind };
        let mut out = Vec::new();
        error(&mut out, version, 0, &timeout);
        let text = body(&out);
        text[text.rfind("<0><0><0><1>").expect("how many are required") + 12..].to_owned()
    };
    assert_eq!(end(3, WriteKind::Cas), "<0><3>CAS");
    assert_eq!(end(4, WriteKind::Cas), "<0><3>CAS");
    assert_eq!(end(5, WriteKind::Cas), "<0><3>CAS<0><0>");
    assert_eq!(end(5, WriteKind::Simple), "<0><6>SIMPLE");
}

#[test]
fn a_rate_limit_says_what_was_refused_and_by_whom() {
    let tail = |operation, by_coordinator| {
        let table = "ks.t".to_string();
        let limited = replication::RateLimited { operation, by_coordinator, table };
        let mut out = Vec::new();
        error(&mut out, 4, 0, &CqlError::RateLimit(limited));
        let text = body(&out);
        assert!(text.starts_with("<0><0><f0><0><0>"), "{text}");
        text[text.len() - 6..].to_string()
    };
    assert_eq!(tail(Operation::Read, true), "<0><1>");
    assert_eq!(tail(Operation::Write, false), "<1><0>");
}

#[test]
fn only_registered_events_are_told() {
    let created = Event::Schema(SchemaEvent {
        kind: SchemaEventKind::Created,
        target: SchemaTarget::Table,
        keyspace: "ks".to_string(),
        name: "t".to_string(),
        arguments: Vec::new(),
    });
    let mut registered = Registered::default();
    assert!(registered.add("STATUS_CHANGE") && !registered.add("WEATHER"));
    let mut out = Vec::new();
    event(&mut out, 4, registered, &created);
    assert!(out.is_empty());
    assert!(registered.add("SCHEMA_CHANGE"));
    event(&mut out, 4, registered, &created);
    assert_eq!(out[2..5], [0xff, 0xff, opcode::EVENT]);
    assert_eq!(body(&out), "<0><d>SCHEMA_CHANGE<0><7>CREATED<0><5>TABLE<0><2>ks<0><1>t");
}

#[test]
fn a_tablet_goes_in_front_of_the_result() {
    let replicas = vec![(Uuid::from_u128(1), 7), (Uuid::from_u128(2), 259)];
    let place = Place { after: Token(-2), last: Token(5), replicas };
    let known = Known { tablet: Some(place), ..Known::default() };
    let mut out = Vec::new();
    result(&mut out, V4, 1, &known, &Response::VOID);
    assert_eq!(out[1], flag::CUSTOM_PAYLOAD);
    let head = "<0><1><0><12>tablets<2d>routing<2d>v<31>";
    let range = "<0><0><0><8><ff><ff><ff><ff><ff><ff><ff><fe>\
                 <0><0><0><8><0><0><0><0><0><0><0><5>";
    let host = |last| format!("<0><0><0><10>{}<{last}>", "<0>".repeat(15));
    let first = format!("<0><0><0><1c>{}<0><0><0><4><0><0><0><7>", host(1));
    let second = format!("<0><0><0><1c>{}<0><0><0><4><0><0><1><3>", host(2));
    let tuple = format!("<0><0><0><60>{range}<0><0><0>D<0><0><0><2>{first}{second}");
    assert_eq!(body(&out), format!("{head}{tuple}<0><0><0><1>"));
}

#[test]
fn of_columns_that_are_one_the_same_is_said() {
    let set = Type::Set { element: Box::new(Type::Date), frozen: true };
    let of = |count| {
        let int = std::iter::repeat_n(spec("a", Type::Int), count);
        ResultMetadata::new(int.chain(std::iter::repeat_n(spec("b", set.clone()), count)).collect())
    };
    let (one, three) = (of(1), of(3));
    let repeated = one.columns().flat_map(|column| std::iter::repeat_n(column, 3));
    for (version, shared) in [(3, None), (4, None), (4, Some(("ks", "t"))), (5, Some(("ks", "t")))]
    {
        let (mut found, mut expected) = (vec![1], vec![1]);
        columns(&mut found, version, shared, repeated.clone());
        columns(&mut expected, version, shared, three.columns());
        assert_eq!(found, expected);
    }
    assert_eq!(shared_table(repeated), Some(("ks", "t")));
    // More of them than are remembered, in turns.
    for count in [2, SAID_MAX, SAID_MAX + 1] {
        let specs: Vec<_> = (0..count).map(|at| spec(&format!("c{at}"), Type::Int)).collect();
        let once = ResultMetadata::new(specs.clone());
        let each = ResultMetadata::new(specs.into_iter().cycle().take(40).collect());
        let (mut found, mut expected) = (vec![1], vec![1]);
        columns(&mut found, 4, None, once.columns().cycle().take(40));
        columns(&mut expected, 4, None, each.columns());
        assert_eq!(found, expected, "{count}");
    }
}
