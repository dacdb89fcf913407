//! A program that keeps orders in a table; what a test of it looks like is in `tests/orders.rs`.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlDate, CqlDecimal, Row};
use std::error::Error;

/// Orders of customers, newest first.
pub struct Orders<'a> {
    session: &'a Session,
    add: PreparedStatement,
    totals: PreparedStatement,
}

impl<'a> Orders<'a> {
    /// Makes the table where it is not there yet.
    pub async fn open(session: &'a Session, keyspace: &str) -> Result<Orders<'a>, Box<dyn Error>> {
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.orders (customer int, day date, total decimal, \
             PRIMARY KEY (customer, day)) WITH CLUSTERING ORDER BY (day DESC)"
        );
        session.query_unpaged(create, &[]).await?;
        let add = format!(
            "INSERT INTO {keyspace}.orders (customer, day, total) VALUES (?, ?, ?) IF NOT EXISTS"
        );
        let totals = format!("SELECT total FROM {keyspace}.orders WHERE customer = ?");
        let (add, totals) = (session.prepare(add).await?, session.prepare(totals).await?);
        Ok(Orders { session, add, totals })
    }

    /// Whether the order is new: a customer has one a day.
    pub async fn add(&self, customer: i32, day: u32, cents: i8) -> Result<bool, Box<dyn Error>> {
        let total = CqlDecimal::from_signed_be_bytes_slice_and_exponent(&cents.to_be_bytes(), 2);
        let values = (customer, CqlDate(day), total);
        let rows = self.session.execute_unpaged(&self.add, values).await?.into_rows_result()?;
        let row: Row = rows.first_row()?;
        let applied = row.columns.first().and_then(|value| value.as_ref()?.as_boolean());
        Ok(applied == Some(true))
    }

    /// The totals of a customer's orders, in cents.
    pub async fn totals(&self, customer: i32) -> Result<Vec<i8>, Box<dyn Error>> {
        let answer = self.session.execute_unpaged(&self.totals, (customer,)).await?;
        let rows = answer.into_rows_result()?;
        let mut totals = Vec::new();
        for row in rows.rows::<(CqlDecimal,)>()? {
            let (bytes, _) = row?.0.into_signed_be_bytes_and_exponent();
            totals.push(bytes.first().map_or(0, |byte| *byte as i8));
        }
        Ok(totals)
    }
}
