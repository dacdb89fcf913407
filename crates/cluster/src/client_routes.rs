//! `system.client_routes`: the addresses at which clients reach nodes whose own addresses they
//! cannot reach. Written by operators, read by drivers.

use crate::registry::Cluster;
use crate::schema_tables::partition::{PartitionWriter, int, text};
use crate::schema_tables::read::Row;
use crate::system_tables;
use model::{TableSchema, Token, Uuid};
use mutation::FrozenMutation;
use storage::Storage;

const TABLE: &str = "client_routes";
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
    fn of(row: &Row) -> ClientRoute {
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
    fn mutation(&self, table: &TableSchema, is_kept: bool, timestamp: i64) -> FrozenMutation {
        let key = self.connection_id.as_bytes();
        let mut partition = PartitionWriter::new(table, &[key], timestamp);
        let clustering: &[&[u8]] = &[self.host_id.as_bytes()];
        partition.delete_rows(clustering);
        if is_kept {
            let mut cells = vec![("address", text(&self.address))];
            for (name, port) in PORTS.into_iter().zip(self.ports) {
                cells.push((name, port.and_then(|port| int(i32::from(port)))));
            }
            partition.row(clustering, cells);
        }
        partition.freeze()
    }
}

impl Cluster {
    /// All routes.
    pub async fn client_routes(&self) -> Result<Vec<ClientRoute>, String> {
        let read = || async {
            let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
            let rows = crate::boot::read_table(&storage, "system", TABLE).await;
            rows.map_err(|error| error.to_string())
        };
        let mut all = Vec::new();
        for rows in runtime::on_all_shards(read).await {
            all.extend(rows?.iter().map(ClientRoute::of));
        }
        Ok(all)
    }

    /// Adds routes, or puts them in the place of others of the same connection and node.
    pub async fn write_client_routes(&self, routes: &[ClientRoute]) -> Result<(), String> {
        self.change_client_routes(routes, true).await
    }

    /// Removes the routes of connections to nodes.
    pub async fn remove_client_routes(&self, routes: &[ClientRoute]) -> Result<(), String> {
        self.change_client_routes(routes, false).await
    }

    async fn change_client_routes(
        &self,
        routes: &[ClientRoute],
        is_kept: bool,
    ) -> Result<(), String> {
        let mut of_shards: Vec<Vec<ClientRoute>> = Vec::new();
        of_shards.resize_with(usize::from(runtime::shard_count()), Vec::new);
        let tablets = {
            let schema = self.schema();
            schema.table("system", TABLE).expect("a system table").tablets.clone()
        };
        for route in routes {
            let shard = tablets.shard_of(Token::of(route.connection_id.as_bytes()));
            of_shards[usize::from(shard)].push(route.clone());
        }
        for (shard, routes) in of_shards.into_iter().enumerate() {
            let write = move || async move {
                let storage = runtime::local::try_get::<Storage>().ok_or("the node stops")?;
                let table = system_tables::table("system", TABLE);
                for route in routes {
                    let mutation = route.mutation(&table, is_kept, runtime::time::wall_micros());
                    let applied = storage.apply_durably(mutation).await;
                    applied.map_err(|error| error.to_string())?;
                    runtime::task::yield_if_needed().await;
                }
                Ok::<(), String>(())
            };
            runtime::on_shard(shard as u16, write).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
