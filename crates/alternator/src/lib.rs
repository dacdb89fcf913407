//! The DynamoDB API: HTTP, JSON, signatures; tables, items and their expressions, on the same
//! tables that CQL has. The only crate that knows the wire form and the errors of that API.
//!
//! From the ground up. Pure: [`error`], [`json`], [`number`], [`value`] (types, and their stored
//! form), [`expression`], [`evaluate`], [`update`], `legacy` (parameters from before there were
//! expressions), `request` (parameters), `filter`, [`sign`] (Signature Version 4), `body` (bytes,
//! packed and not), `capacity`, `throughput`, `tags`, `properties`, `restored` (tables made of
//! backups and files), `recovery` (points in time), `date`, `pauses`,
//! [`met`] (what is counted). Tables and
//! rows: `options`, `column`, `index`, `table`, `key`, `paths`, `key_condition`, `row`, `write`
//! (what a write makes of an item; pure), `standing` (what several come to; pure). On the node:
//! `together` (writes that wait for each other), `traced` (what is told of requests), `node` (what
//! they share), `led` (what leaders of rounds answer), `part` (parts of transactions), `owner`
//! (writes that read before), `system` (the node's own tables), `items`, `batch`, `query`,
//! `index_operations`, `table_facts`, `streams`, `tables`, `kept` (what nodes keep of the next
//! two), `backups`, [`transfers`] (imports and exports), `tag_operations`, `ttl`, `transact`,
//! [`partiql`] (statements), `audit`; `operations` (by name), `level` (service levels),
//! [`client`], `connection`, `server` (listeners).
//!
//! Invariants
//!  - *foreign-never-panics*: no request does, whatever its bytes.

mod around;
mod audit;
mod backups;
mod batch;
mod body;
mod capacity;
pub mod client;
mod column;
mod connection;
mod date;
pub mod error;
pub mod evaluate;
pub mod expression;
mod extent;
mod filter;
mod index;
mod index_operations;
mod items;
pub mod json;
mod kept;
mod key;
mod key_condition;
mod led;
mod legacy;
mod level;
pub mod met;
mod node;
pub mod number;
mod operations;
mod options;
mod owner;
mod part;
pub mod partiql;
mod paths;
mod pauses;
mod properties;
mod query;
mod recovery;
mod request;
mod restored;
mod row;
mod seen;
mod server;
pub mod sign;
mod silent;
mod standing;
mod streams;
mod system;
mod table;
mod table_facts;
mod tables;
mod tag_operations;
mod tags;
mod throughput;
mod together;
mod traced;
mod transact;
pub mod transfers;
mod ttl;
pub mod update;
pub mod value;
mod write;

pub use server::{ENCRYPTION, Ports, Server};
