//! What the stream of the table shows of the changes that were made before.

use super::{Outcome, TABLE};
use aws_sdk_dynamodbstreams::types::{
    AttributeValue, OperationType, Record, ShardIteratorType, StreamRecord,
};
use std::time::Duration;

type Db = aws_sdk_dynamodb::Client;
type Streams = aws_sdk_dynamodbstreams::Client;

/// Whether the stream has such a record of an item of that hash key.
async fn is_recorded(
    db: &Db,
    streams: &Streams,
    p: &str,
    fits: fn(&Record, &StreamRecord) -> bool,
) -> Outcome<bool> {
    let described = db.describe_table().table_name(TABLE).send().await?;
    let arn = described.table().and_then(|table| table.latest_stream_arn());
    let arn = arn.ok_or("there is no stream")?;
    let stream = streams.describe_stream().stream_arn(arn).send().await?;
    let hash = AttributeValue::S(p.to_owned());
    for shard in stream.stream_description().map_or(&[][..], |stream| stream.shards()) {
        let at = streams.get_shard_iterator().stream_arn(arn);
        let at = at.set_shard_id(shard.shard_id().map(str::to_owned));
        let at = at.shard_iterator_type(ShardIteratorType::TrimHorizon).send().await?;
        let mut next = at.shard_iterator().map(str::to_owned);
        while let Some(iterator) = next {
            let got = streams.get_records().shard_iterator(iterator).send().await?;
            for record in got.records() {
                let Some(change) = record.dynamodb() else { continue };
                let is_of_it = change.keys().is_some_and(|keys| keys.get("p") == Some(&hash));
                if is_of_it && fits(record, change) {
                    return Ok(true);
                }
            }
            next = got.next_shard_iterator().map(str::to_owned);
            if got.records().is_empty() {
                break;
            }
        }
    }
    Ok(false)
}

async fn until_recorded(
    db: &Db,
    streams: &Streams,
    p: &str,
    fits: fn(&Record, &StreamRecord) -> bool,
) -> Outcome {
    for _ in 0..300 {
        if is_recorded(db, streams, p, fits).await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(format!("no such record of {p}").into())
}

/// A change with both images, and a deletion by a client.
pub async fn changes(db: &Db, streams: &Streams) -> Outcome {
    let changed = |record: &Record, change: &StreamRecord| {
        let number = |text: &str| AttributeValue::N(text.to_owned());
        record.event_name() == Some(&OperationType::Modify)
            && change.old_image().and_then(|item| item.get("n")) == Some(&number("2"))
            && change.new_image().and_then(|item| item.get("n")) == Some(&number("3"))
    };
    until_recorded(db, streams, "count", changed).await?;
    let removed = |record: &Record, _: &StreamRecord| {
        record.event_name() == Some(&OperationType::Remove) && record.user_identity().is_none()
    };
    until_recorded(db, streams, "count", removed).await
}

/// A deletion by the service.
pub async fn expired(db: &Db, streams: &Streams) -> Outcome {
    until_recorded(db, streams, "old", |record, _| {
        let by = record.user_identity().and_then(|identity| identity.principal_id());
        record.event_name() == Some(&OperationType::Remove) && by == Some("dynamodb.amazonaws.com")
    })
    .await
}
