//! The ports of CQL, and how a connection to each is served.

use std::net::SocketAddr;

/// One kind of ports; `None`: not served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Plain; connections go to the shards in turn.
    pub plain: Option<SocketAddr>,
    /// Plain; the source port of the client chooses the shard.
    pub shard_aware: Option<SocketAddr>,
    /// The same two with TLS.
    pub encrypted: Option<SocketAddr>,
    pub encrypted_shard_aware: Option<SocketAddr>,
}

impl Ports {
    /// These, and those of `others` that are missing.
    pub(crate) fn or(self, others: Ports) -> Ports {
        Ports {
            plain: self.plain.or(others.plain),
            shard_aware: self.shard_aware.or(others.shard_aware),
            encrypted: self.encrypted.or(others.encrypted),
            encrypted_shard_aware: self.encrypted_shard_aware.or(others.encrypted_shard_aware),
        }
    }

    /// What `change` makes of each, in the order of [`Ports::kinds`].
    pub(crate) fn try_map<E>(
        self,
        mut change: impl FnMut(SocketAddr) -> Result<SocketAddr, E>,
    ) -> Result<Ports, E> {
        let mut change = |port: Option<SocketAddr>| port.map(&mut change).transpose();
        Ok(Ports {
            plain: change(self.plain)?,
            shard_aware: change(self.shard_aware)?,
            encrypted: change(self.encrypted)?,
            encrypted_shard_aware: change(self.encrypted_shard_aware)?,
        })
    }

    fn kinds(self, proxied: bool) -> impl Iterator<Item = (SocketAddr, PortKind)> {
        let kind = |encrypted, choice| PortKind { encrypted, choice, proxied };
        let all = [
            (self.plain, kind(false, Choice::InTurn)),
            (self.shard_aware, kind(false, Choice::SourcePort)),
            (self.encrypted, kind(true, Choice::InTurn)),
            (self.encrypted_shard_aware, kind(true, Choice::SourcePort)),
        ];
        all.into_iter().filter_map(|(address, kind)| Some((address?, kind)))
    }
}

/// The addresses that are listened on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// For clients.
    pub direct: Ports,
    /// For proxies, which send a PROXY protocol header first.
    pub proxied: Ports,
}

impl Bound {
    /// The addresses, with how a connection to them is served.
    pub fn kinds(self) -> impl Iterator<Item = (SocketAddr, PortKind)> {
        self.direct.kinds(false).chain(self.proxied.kinds(true))
    }
}

/// How the connections of a port are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortKind {
    pub encrypted: bool,
    pub choice: Choice,
    /// Whether a PROXY protocol header comes first.
    pub proxied: bool,
}

/// How a connection's shard is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    InTurn,
    SourcePort,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from(([10, 0, 0, 1], port)))
    }

    #[test]
    fn each_port_has_its_door() {
        let direct = Ports { plain: at(1), encrypted_shard_aware: at(4), ..Ports::default() };
        let proxied = Ports { shard_aware: at(6), encrypted: at(7), ..Ports::default() };
        let found: Vec<(u16, bool, Choice, bool)> = Bound { direct, proxied }
            .kinds()
            .map(|(address, it)| (address.port(), it.encrypted, it.choice, it.proxied))
            .collect();
        let expected = [
            (1, false, Choice::InTurn, false),
            (4, true, Choice::SourcePort, false),
            (6, false, Choice::SourcePort, true),
            (7, true, Choice::InTurn, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn ports_are_completed_and_changed_in_their_order() {
        let known = Ports { plain: at(1), ..Ports::default() };
        let wanted = Ports { plain: at(9), shard_aware: at(2), encrypted: at(3), ..known };
        let all = known.or(wanted);
        assert_eq!(all, Ports { plain: at(1), ..wanted });
        let mut seen = Vec::new();
        let changed = all.try_map(|address| {
            seen.push(address.port());
            if address.port() < 9 { Ok(address) } else { Err("nine") }
        });
        assert_eq!((changed, seen), (Ok(all), vec![1, 2, 3]));
        assert_eq!(wanted.try_map(|_| Err("no")), Err("no"));
    }
}
