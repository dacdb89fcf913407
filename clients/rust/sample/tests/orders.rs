//! Tests of a program that uses the database, each in a keyspace of its own.

use nereid_test::{keyspace, Node};
use orders::Orders;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

const MONDAY: u32 = (1 << 31) + 20_780;

async fn connect() -> (Session, String) {
    let node = Node::shared().unwrap();
    let session = SessionBuilder::new().known_node(node.address()).build().await.unwrap();
    let (name, create) = keyspace();
    session.query_unpaged(create, &[]).await.unwrap();
    (session, name)
}

#[tokio::test]
async fn orders_come_newest_first() {
    let (session, keyspace) = connect().await;
    let orders = Orders::open(&session, &keyspace).await.unwrap();
    assert!(orders.add(7, MONDAY, 99).await.unwrap());
    assert!(orders.add(7, MONDAY + 1, 5).await.unwrap());
    assert_eq!(orders.totals(7).await.unwrap(), [5, 99]);
}

#[tokio::test]
async fn a_customer_has_one_order_a_day() {
    let (session, keyspace) = connect().await;
    let orders = Orders::open(&session, &keyspace).await.unwrap();
    assert!(orders.add(7, MONDAY, 99).await.unwrap());
    assert!(!orders.add(7, MONDAY, 1).await.unwrap());
    assert_eq!(orders.totals(7).await.unwrap(), [99]);
}

#[tokio::test]
async fn each_test_begins_with_an_empty_keyspace() {
    let (session, keyspace) = connect().await;
    let orders = Orders::open(&session, &keyspace).await.unwrap();
    assert!(orders.totals(7).await.unwrap().is_empty());
}
