//! A connection for each shard of a node, made again when it is lost.
//!
//! A server that deals its connections to shards says which one a connection has got. So as many
//! are opened as it takes to have one of each; a shard that got none is reached through another.

use crate::connection::{Connection, Failure};
use crate::target::Target;
use model::Token;
use runtime::sync::Semaphore;
use std::cell::RefCell;
use std::rc::Rc;

/// How a server divides the ring among its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    pub shards: u32,
    /// High bits of a token that do not count.
    ignored_bits: u32,
}

impl Sharding {
    /// A server that does not tell: one shard, as far as anybody knows.
    pub const NONE: Sharding = Sharding { shards: 1, ignored_bits: 0 };

    fn told_by(connection: &Connection) -> Option<Sharding> {
        let number = |name| connection.supports(name)?.parse::<u32>().ok();
        let shards = number("SCYLLA_NR_SHARDS").filter(|shards| (1..=4096).contains(shards))?;
        let ignored_bits = number("SCYLLA_SHARDING_IGNORE_MSB").filter(|bits| *bits < 64)?;
        Some(Sharding { shards, ignored_bits })
    }

    /// The shard of a token of a table without tablets.
    pub fn shard_of(&self, token: Token) -> u32 {
        let biased = token.biased() << self.ignored_bits;
        ((u128::from(biased) * u128::from(self.shards)) >> 64) as u32
    }
}

/// Connections to one node.
#[derive(Debug)]
pub struct Pool {
    target: Target,
    /// `None`: the server does not tell of shards.
    sharding: Option<Sharding>,
    /// By shard; an empty place is made up for by another.
    connections: RefCell<Vec<Option<Rc<Connection>>>>,
    /// Held by who connects again.
    connecting: Semaphore,
}

impl Pool {
    /// Connects to every shard.
    pub async fn open(target: Target) -> Result<Pool, Failure> {
        let first = Rc::new(Connection::open(&target).await?);
        let sharding = Sharding::told_by(&first);
        let shards = sharding.unwrap_or(Sharding::NONE).shards;
        let connections = RefCell::new(vec![None; shards as usize]);
        let connecting = Semaphore::new(1, usize::MAX);
        let pool = Pool { target, sharding, connections, connecting };
        pool.place(first);
        pool.complete().await?;
        Ok(pool)
    }

    /// The node.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How the server divides the ring; `None`: it does not tell.
    pub fn sharding(&self) -> Option<Sharding> {
        self.sharding
    }

    /// Puts a connection where it belongs.
    fn place(&self, connection: Rc<Connection>) {
        let shard = connection.supports("SCYLLA_SHARD").and_then(|shard| shard.parse().ok());
        let mut connections = self.connections.borrow_mut();
        let shard = shard.unwrap_or(0usize).min(connections.len() - 1);
        let is_good = connections[shard].as_ref().is_some_and(|old| !old.is_broken());
        if !is_good {
            connections[shard] = Some(connection);
        }
    }

    fn lacks(&self, shard: Option<usize>) -> bool {
        let lacks = |place: &Option<Rc<Connection>>| place.as_ref().is_none_or(|c| c.is_broken());
        let connections = self.connections.borrow();
        match shard {
            Some(shard) => lacks(&connections[shard]),
            None => connections.iter().any(lacks),
        }
    }

    /// Opens connections until there is one of each shard, within reason.
    async fn complete(&self) -> Result<(), Failure> {
        let attempts = 3 * self.connections.borrow().len() + 3;
        for _ in 0..attempts {
            if !self.lacks(None) {
                break;
            }
            let made = Rc::new(Connection::open(&self.target).await?);
            self.place(made);
        }
        Ok(())
    }

    /// A connection to that shard, or to another one where that has none.
    pub async fn connection(&self, shard: u32) -> Result<Rc<Connection>, Failure> {
        let shards = self.connections.borrow().len();
        let shard = (shard as usize).min(shards - 1);
        if let Some(found) = self.at(shard) {
            return Ok(found);
        }
        let permit = self.connecting.acquire(1).await;
        // Whoever waited before may have made it.
        if self.at(shard).is_none() {
            let attempts = if self.lacks(Some(shard)) { shards + 1 } else { 0 };
            for _ in 0..attempts {
                let made = Rc::new(Connection::open(&self.target).await?);
                self.place(made);
                if !self.lacks(Some(shard)) {
                    break;
                }
            }
            if self.lacks(Some(shard)) {
                self.lend(shard);
            }
        }
        drop(permit);
        self.at(shard).ok_or_else(|| Failure::Lost("no connection".into()))
    }

    fn at(&self, shard: usize) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        connections[shard].clone().filter(|connection| !connection.is_broken())
    }

    /// Lets a shard without a connection use one of another.
    fn lend(&self, shard: usize) {
        let mut connections = self.connections.borrow_mut();
        let good = connections.iter().flatten().find(|connection| !connection.is_broken());
        connections[shard] = good.cloned();
    }

    /// Prepares a statement.
    pub async fn prepare(&self, text: &str) -> Result<crate::Prepared, Failure> {
        self.connection(0).await?.prepare(&self.target, text).await
    }

    /// Sends a batch or an execution to a shard; prepares `text` there where it is not known.
    pub async fn send(
        &self,
        shard: u32,
        opcode: u8,
        body: &[u8],
        text: &str,
    ) -> Result<crate::answer::Answer, Failure> {
        let connection = self.connection(shard).await?;
        match connection.ask(&self.target, opcode, body).await {
            Err(failure) if failure.is_unprepared() => {
                connection.prepare(&self.target, text).await?;
                connection.ask(&self.target, opcode, body).await
            }
            outcome => outcome,
        }
    }
}
