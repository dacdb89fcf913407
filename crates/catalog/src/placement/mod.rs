//! Where data is to be: how many replicas a keyspace has ([`strategy`]), which nodes have a part of
//! the ring ([`ring`]), what of it goes from node to node when some join or leave ([`moves`]), and
//! how a table's ring is divided into tablets, which nodes and shards have ([`tablets`]), when it
//! is divided into more or fewer ([`resize`]), which go to other nodes ([`balance`], [`by_hand`]),
//! which tablets a keyspace of the ring is given ([`conversion`]), and which streams of changes
//! there are ([`streams`]). Pure.

pub mod balance;
pub mod by_hand;
pub mod conversion;
pub mod moves;
pub mod resize;
pub mod ring;
pub mod strategy;
pub mod streams;
pub mod tablets;

pub use balance::Move;
pub use by_hand::TabletOrder;
pub use moves::{Sides, Take, ends, foreign, sides, sources, takes};
pub use ring::{Owners, Ring};
pub use strategy::{Factors, Replication};
pub use tablets::{Division, Here, Hosts, Load, SCALE, TABLETS_MAX};
pub use tablets::{Repairs, Resize, TabletMove, TabletReplicas, TabletStep};
