//! What the AWS SDK for Rust must be able to do: `cargo run -- ADDRESS PORT`. Prints
//! "N passed, N failed".

mod streams;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::client::Waiters;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, Get, GlobalSecondaryIndex, KeySchemaElement,
    KeyType, Projection, ProjectionType, Put, PutRequest, ReturnValue,
    ReturnValuesOnConditionCheckFailure, ScalarAttributeType, StreamSpecification, StreamViewType,
    Tag, TimeToLiveSpecification, TransactGetItem, TransactWriteItem, WriteRequest,
};
use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, SystemTime};

const TABLE: &str = "sdk.rust";

type Item = HashMap<String, AttributeValue>;
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn key(p: &str, c: i32) -> Item {
    item([("p", s(p)), ("c", n(c))])
}

fn check(condition: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(otherwise().into()) }
}

async fn create(db: &Client) -> Outcome {
    let attribute = |name: &str, kind| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()
    };
    let part =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    let index = GlobalSecondaryIndex::builder()
        .index_name("by_g")
        .key_schema(part("g", KeyType::Hash)?)
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()?;
    let stream = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(StreamViewType::NewAndOldImages)
        .build()?;
    db.create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("p", ScalarAttributeType::S)?)
        .attribute_definitions(attribute("c", ScalarAttributeType::N)?)
        .attribute_definitions(attribute("g", ScalarAttributeType::S)?)
        .key_schema(part("p", KeyType::Hash)?)
        .key_schema(part("c", KeyType::Range)?)
        .global_secondary_indexes(index)
        .stream_specification(stream)
        .tags(Tag::builder().key("a").value("b").build()?)
        .send()
        .await?;
    db.wait_until_table_exists().table_name(TABLE).wait(Duration::from_secs(60)).await?;
    let listed = db.list_tables().send().await?;
    check(listed.table_names() == [TABLE], || format!("tables: {listed:?}"))
}

/// One of each type.
fn thing() -> Item {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let map = item([("x", s("gr\u{fc}n")), ("y", s(""))]);
    item([
        ("p", s("types")),
        ("c", n(1)),
        ("g", s("indexed")),
        ("binary", AttributeValue::B(Blob::new([0, 255]))),
        ("float", n("-0.00000015")),
        ("yes", AttributeValue::Bool(true)),
        ("nothing", AttributeValue::Null(true)),
        ("list", AttributeValue::L(vec![n(3), n(1), s("3")])),
        ("map", AttributeValue::M(map)),
        ("strings", AttributeValue::Ss(texts(&["a", "b"]))),
        ("numbers", AttributeValue::Ns(texts(&["7"]))),
        ("binaries", AttributeValue::Bs(vec![Blob::new([1]), Blob::new([2, 0])])),
    ])
}

async fn put(db: &Client) -> Outcome {
    let wanted = thing();
    db.put_item().table_name(TABLE).set_item(Some(wanted.clone())).send().await?;
    let got = db.get_item().table_name(TABLE).set_key(Some(key("types", 1))).consistent_read(true);
    let got = got.send().await?;
    check(got.item() == Some(&wanted), || format!("{got:?} is not {wanted:?}"))?;
    let again = db.put_item().table_name(TABLE).set_item(Some(wanted.clone()));
    let again = again
        .condition_expression("attribute_not_exists(p)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match again.send().await.map_err(|error| error.into_service_error()) {
        Err(PutItemError::ConditionalCheckFailedException(failed)) => {
            check(failed.item() == Some(&wanted), || format!("it was refused with {failed:?}"))
        }
        other => Err(format!("not refused: {other:?}").into()),
    }
}

async fn update(db: &Client) -> Outcome {
    for turn in 1..=3 {
        let update = db.update_item().table_name(TABLE).set_key(Some(key("count", 0)));
        let got = update
            .update_expression("SET #n = if_not_exists(#n, :zero) + :one")
            .expression_attribute_names("#n", "n")
            .expression_attribute_values(":zero", n(0))
            .expression_attribute_values(":one", n(1))
            .return_values(ReturnValue::UpdatedNew)
            .send()
            .await?;
        check(got.attributes() == Some(&item([("n", n(turn))])), || format!("{turn}: {got:?}"))?;
    }
    db.delete_item().table_name(TABLE).set_key(Some(key("count", 0))).send().await?;
    Ok(())
}

async fn query(db: &Client) -> Outcome {
    for start in (0..100).step_by(25) {
        let mut batch = db.batch_write_item();
        for c in start..start + 25 {
            let mut one = key("wide", c);
            one.insert("g".to_owned(), s(format!("g{}", c % 4)));
            let put = PutRequest::builder().set_item(Some(one)).build()?;
            let write = WriteRequest::builder().put_request(put).build();
            let mut all = batch.get_request_items().clone().unwrap_or_default();
            all.entry(TABLE.to_owned()).or_default().push(write);
            batch = batch.set_request_items(Some(all));
        }
        batch.send().await?;
    }
    let wide = db.query().table_name(TABLE).consistent_read(true).limit(7);
    let wide = wide
        .key_condition_expression("p = :p AND c >= :c")
        .expression_attribute_values(":p", s("wide"))
        .expression_attribute_values(":c", n(10));
    let mut items = wide.into_paginator().items().send();
    let mut next = 10;
    while let Some(found) = items.next().await {
        let found = found?;
        check(found.get("c") == Some(&n(next)), || format!("{found:?} in the place of {next}"))?;
        next += 1;
    }
    check(next == 100, || format!("the pages end before {next}"))?;
    // A global index is behind for a moment.
    let mut count = 0;
    for _ in 0..100 {
        let by_g = db.query().table_name(TABLE).index_name("by_g");
        let by_g =
            by_g.key_condition_expression("g = :g").expression_attribute_values(":g", s("g1"));
        count = by_g.send().await?.count();
        if count == 25 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    check(count == 25, || format!("{count} items of the index"))
}

async fn transact(db: &Client) -> Outcome {
    let put = |c| {
        let put = Put::builder().table_name(TABLE).set_item(Some(key("both", c)));
        let put = put.condition_expression("attribute_not_exists(p)").build()?;
        Ok::<_, Box<dyn Error>>(TransactWriteItem::builder().put(put).build())
    };
    for _ in 0..2 {
        let both = db.transact_write_items().transact_items(put(1)?).transact_items(put(2)?);
        // What is sent again is done once.
        both.client_request_token("once").send().await?;
    }
    let more = db.transact_write_items().transact_items(put(3)?).transact_items(put(2)?);
    match more.send().await.map_err(|error| error.into_service_error()) {
        Err(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            let reasons = cancelled.cancellation_reasons();
            let code = reasons.get(1).and_then(|reason| reason.code());
            check(code == Some("ConditionalCheckFailed"), || format!("{cancelled:?}"))?;
        }
        other => return Err(format!("not cancelled: {other:?}").into()),
    }
    let mut reads = db.transact_get_items();
    for c in 1..=3 {
        let get = Get::builder().table_name(TABLE).set_key(Some(key("both", c))).build()?;
        reads = reads.transact_items(TransactGetItem::builder().get(get).build());
    }
    let got = reads.send().await?;
    let found: Vec<_> = got.responses().iter().map(|one| one.item().map_or(0, Item::len)).collect();
    check(found == [2, 2, 0], || format!("{got:?}"))
}

async fn expire(db: &Client, streams: &aws_sdk_dynamodbstreams::Client) -> Outcome {
    let specification =
        TimeToLiveSpecification::builder().attribute_name("end").enabled(true).build()?;
    let ttl = db.update_time_to_live().table_name(TABLE);
    ttl.time_to_live_specification(specification).send().await?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let mut old = key("old", 0);
    old.insert("end".to_owned(), n(now - 60));
    db.put_item().table_name(TABLE).set_item(Some(old)).send().await?;
    streams::expired(db, streams).await
}

async fn drop_table(db: &Client) -> Outcome {
    db.delete_table().table_name(TABLE).send().await?;
    let found = db.describe_table().table_name(TABLE).send().await;
    match found.map_err(|error| error.into_service_error()) {
        Err(DescribeTableError::ResourceNotFoundException(_)) => Ok(()),
        other => Err(format!("still there: {other:?}").into()),
    }
}

/// Both clients, made alike.
fn clients(address: &str) -> (Client, aws_sdk_dynamodbstreams::Client) {
    let endpoint = format!("http://{address}:8000");
    let credentials = Credentials::new("any", "any", None, None, "static");
    let http = aws_smithy_http_client::Builder::new().build_http();
    let db = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(&endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials.clone())
        .http_client(http.clone())
        .retry_config(RetryConfig::disabled())
        .build();
    let streams = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(&endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials)
        .http_client(http)
        .retry_config(RetryConfig::disabled())
        .build();
    (Client::from_conf(db), aws_sdk_dynamodbstreams::Client::from_conf(streams))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let address = std::env::args().nth(1).ok_or("an address is needed")?;
    let (db, streams) = clients(&address);
    let outcomes = [
        ("create", create(&db).await),
        ("put", put(&db).await),
        ("update", update(&db).await),
        ("query", query(&db).await),
        ("transact", transact(&db).await),
        ("stream", streams::changes(&db, &streams).await),
        ("expire", expire(&db, &streams).await),
        ("drop", drop_table(&db).await),
    ];
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    for (name, outcome) in &outcomes {
        if let Err(error) = outcome {
            println!("FAILED {name} {error:?}");
        }
    }
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed == 0 { Ok(()) } else { Err(format!("{failed} failed").into()) }
}
