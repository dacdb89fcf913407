//! `system.client_routes`: the addresses at which clients reach nodes whose own addresses they
//! cannot reach. Written by operators, read by drivers.

use catalog::rows::Row;
use catalog::rows::partition::{PartitionWriter, int, text};
use model::{TableSchema, Uuid};
use mutation::FrozenMutation;

/// The table.
pub(crate) const TABLE: &str = "client_routes";
/// Columns of the ports, in the order of [`ClientRoute::ports`].
const PORTS: [&str; 4] = ["port", "tls_port", "alternator_port", "alternator_https_port"];

/// How clients of a connection reach a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRoute {
    pub connection_id: String,
    pub host_id: Uuid,
    pub address: String,
    /// Of CQL, of CQL with TLS, of Alternator, of Alternator with TLS.
    pub ports: [Option<u16>; 4],
}

impl ClientRoute {
    /// What a row says; what it does not is empty.
    pub(crate) fn of(row: &Row) -> ClientRoute {
        let bytes = |name: &str| row.get(name).map(Vec::as_slice).unwrap_or_default();
        let text = |name| String::from_utf8_lossy(bytes(name)).into_owned();
        let port = |name| {
            let port = bytes(name).try_into().map(i32::from_be_bytes).ok()?;
            u16::try_from(port).ok()
        };
        ClientRoute {
            connection_id: text("connection_id"),
            host_id: bytes("host_id").try_into().map_or(Uuid::nil(), Uuid::from_bytes),
            address: text("address"),
            ports: PORTS.map(port),
        }
    }

    /// The mutation that puts it in place of what was there, or removes that.
    pub(crate) fn mutation(
        &self,
        table: &TableSchema,
        is_kept: bool,
        timestamp: i64,
    ) -> FrozenMutation {
        debug_assert!(!self.connection_id.is_empty(), "a route of no connection");
        let key = self.connection_id.as_bytes();
        let mut partition = PartitionWriter::new(table, &[key], timestamp);
        let clustering: &[&[u8]] = &[self.host_id.as_bytes()];
        partition.delete_rows(clustering);
        if is_kept {
            debug_assert!(PORTS.len() == self.ports.len(), "a port of no column");
            let mut cells = vec![("address", text(&self.address))];
            for (name, port) in PORTS.into_iter().zip(self.ports) {
                cells.push((name, port.and_then(|port| int(i32::from(port)))));
            }
            partition.row(clustering, cells);
        }
        partition.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::system_tables;

    #[test]
    fn rows_go_in_and_out() {
        let route = ClientRoute {
            connection_id: "c\0d".to_owned(),
            host_id: Uuid::from_u128(7),
            address: "somewhere.test".to_owned(),
            ports: [Some(1), None, Some(65535), None],
        };
        let mut row = Row::default();
        row.insert("connection_id".to_owned(), b"c\0d".to_vec());
        row.insert("host_id".to_owned(), Uuid::from_u128(7).as_bytes().to_vec());
        row.insert("address".to_owned(), b"somewhere.test".to_vec());
        row.insert("port".to_owned(), 1i32.to_be_bytes().to_vec());
        row.insert("alternator_port".to_owned(), 65535i32.to_be_bytes().to_vec());
        assert_eq!(ClientRoute::of(&row), route);
        let table = system_tables::table("system", TABLE);
        assert_ne!(route.mutation(&table, true, 5), route.mutation(&table, false, 5));
    }
}
