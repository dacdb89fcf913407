//! All roles, grants and service levels, as one shard knows them, and how they change.
//!
//! A [`Change`] is primitive: it says what one row of the tables is to be, so that writing it down
//! and showing it need nothing else. Decisions ([`crate::decide`]) return lists of them.
//!
//! Invariants
//!  - *both-ways*: who is a member of what, and who has something on what, is kept in both
//!    directions; [`State::apply`] changes both, so that a drop finds what it ends without looking
//!    at everybody.

use crate::level::{EffectiveLevel, ServiceLevel};
use crate::permission::{Permission, PermissionSet};
use crate::resource::{Need, Resource};
use std::collections::{BTreeMap, BTreeSet};

/// The attribute of a role that names its service level.
pub const SERVICE_LEVEL: &str = "service_level";

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub can_login: bool,
    pub is_superuser: bool,
    /// Of its password.
    pub salted_hash: Option<String>,
    /// What was granted to it directly.
    pub member_of: BTreeSet<String>,
    /// What its options say, and its service level.
    pub attributes: BTreeMap<String, String>,
}

/// A change of one thing.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// A role is made or altered; `None` leaves its password as it is.
    Role { name: String, can_login: bool, is_superuser: bool, salted_hash: Option<String> },
    /// A role is gone, with its own grants and attributes; what others have of it is ended apart.
    Forget(String),
    /// `member` is one of `role`, or no longer.
    Member { role: String, member: String, is_member: bool },
    /// `None`: it has none of that name.
    Attribute { role: String, name: String, value: Option<String> },
    /// All that the role has on that resource, by its stored name.
    Grants { role: String, resource: String, permissions: PermissionSet },
    /// `None`: it is dropped.
    Level { name: String, level: Option<ServiceLevel> },
}

/// Without passwords, hashed or not.
impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Role { name, can_login, is_superuser, salted_hash } => {
                let password = if salted_hash.is_some() { " password" } else { "" };
                write!(f, "role {name} login={can_login} superuser={is_superuser}{password}")
            }
            Change::Forget(name) => write!(f, "forget {name}"),
            Change::Member { role, member, is_member } => {
                write!(f, "{role} {} {member}", if *is_member { "has" } else { "loses" })
            }
            Change::Attribute { role, name, value } => write!(f, "{role} {name}={value:?}"),
            Change::Grants { role, resource, permissions } => {
                write!(f, "{role} {resource} {permissions:?}")
            }
            Change::Level { name, level } => write!(f, "level {name} {level:?}"),
        }
    }
}

/// Whose permissions count for a session: the role itself and all that it is a member of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Ascending; empty where there is no such role.
    pub roles: Vec<String>,
    /// Whether one of them is a superuser.
    pub is_superuser: bool,
    /// Of the state that they were found in.
    pub generation: u64,
}

/// What a role has on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub role: String,
    pub resource: Resource,
    pub permissions: PermissionSet,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) roles: BTreeMap<String, Role>,
    /// *both-ways*: of each role its direct members.
    pub(crate) members: BTreeMap<String, BTreeSet<String>>,
    /// By role and stored name of the resource.
    grants: BTreeMap<String, BTreeMap<String, PermissionSet>>,
    /// *both-ways*: who has something on a resource.
    pub(crate) granted_on: BTreeMap<String, BTreeSet<String>>,
    pub(crate) levels: BTreeMap<String, ServiceLevel>,
    /// *both-ways*: to which roles a level is attached.
    pub(crate) attached: BTreeMap<String, BTreeSet<String>>,
    /// Rises with every change.
    generation: u64,
}

impl State {
    /// What many changes make of nothing.
    pub fn of(changes: impl IntoIterator<Item = Change>) -> State {
        let mut state = State::default();
        changes.into_iter().for_each(|change| state.apply(change));
        state
    }

    /// What makes this state of nothing.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, role) in &self.roles {
            let Role { can_login, is_superuser, salted_hash, .. } = role.clone();
            changes.push(Change::Role { name: name.clone(), can_login, is_superuser, salted_hash });
            changes.extend(role.attributes.iter().map(|(attribute, value)| {
                let (role, value) = (name.clone(), Some(value.clone()));
                Change::Attribute { role, name: attribute.clone(), value }
            }));
        }
        for (role, members) in &self.members {
            changes.extend(members.iter().map(|member| {
                let (role, member) = (role.clone(), member.clone());
                Change::Member { role, member, is_member: true }
            }));
        }
        for (role, grants) in &self.grants {
            changes.extend(grants.iter().map(|(resource, permissions)| {
                let (role, resource) = (role.clone(), resource.clone());
                Change::Grants { role, resource, permissions: *permissions }
            }));
        }
        changes.extend(self.levels.iter().map(|(name, level)| {
            let (name, level) = (name.clone(), Some(level.clone()));
            Change::Level { name, level }
        }));
        changes
    }

    /// What makes nothing of this state.
    pub fn undoing(&self) -> Vec<Change> {
        let known = self.roles.keys().chain(self.members.keys()).chain(self.grants.keys());
        let names: BTreeSet<&String> = known.collect();
        let mut changes: Vec<_> = names.into_iter().cloned().map(Change::Forget).collect();
        let gone = self.levels.keys().cloned();
        changes.extend(gone.map(|name| Change::Level { name, level: None }));
        changes
    }

    /// Rises with every change; two states of one number are the same on one shard.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether another state says the same, after whatever changes.
    pub fn says_the_same(&self, other: &State) -> bool {
        let grants = self.grants == other.grants && self.levels == other.levels;
        let same = grants && self.roles == other.roles && self.members == other.members;
        let both_ways = self.granted_on == other.granted_on && self.attached == other.attached;
        debug_assert!(!same || both_ways, "both-ways: two indices of one state");
        same
    }

    /// Takes the place of another state, whose answers no longer hold.
    pub fn replacing(mut self, before: &State) -> State {
        self.generation = self.generation.max(before.generation) + 1;
        self
    }

    /// The role of that name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// All roles by name.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &Role)> {
        self.roles.iter().map(|(name, role)| (name.as_str(), role))
    }

    /// The service level of that name.
    pub fn level(&self, name: &str) -> Option<&ServiceLevel> {
        self.levels.get(name)
    }

    /// All service levels by name, without the one that everybody has.
    pub fn levels(&self) -> impl Iterator<Item = (&str, &ServiceLevel)> {
        self.levels.iter().map(|(name, level)| (name.as_str(), level))
    }

    /// Which roles have a service level of their own: role and level, by role.
    pub fn attachments(&self) -> Vec<(&str, &str)> {
        let of_level = |(level, roles): (&'_ String, &'_ BTreeSet<String>)| -> Vec<_> {
            roles
                .iter()
                .filter_map(|role| {
                    let level = self.levels.get_key_value(level)?.0.as_str();
                    Some((self.roles.get_key_value(role)?.0.as_str(), level))
                })
                .collect()
        };
        let mut all: Vec<(&str, &str)> = self.attached.iter().flat_map(of_level).collect();
        all.sort_unstable();
        all
    }

    /// A role and all that it is a member of, however far; itself first. Empty where there is no
    /// such role. Ends also where rows make a circle (*acyclic*).
    pub fn closure<'s>(&'s self, name: &str) -> Vec<&'s str> {
        let mut found: Vec<&'s str> = Vec::new();
        let Some((name, _)) = self.roles.get_key_value(name) else { return found };
        let mut seen = BTreeSet::from([name.as_str()]);
        found.push(name);
        let mut next = 0;
        while let Some(role) = found.get(next).and_then(|name| self.roles.get(*name)) {
            for above in &role.member_of {
                if self.roles.contains_key(above) && seen.insert(above) {
                    found.push(above);
                }
            }
            next += 1;
        }
        found
    }

    /// What counts for a session of that role.
    pub fn rights(&self, name: &str) -> Rights {
        let roles = self.closure(name);
        let is_superuser = roles.iter().any(|name| self.roles[*name].is_superuser);
        let mut roles: Vec<String> = roles.into_iter().map(str::to_owned).collect();
        roles.sort_unstable();
        Rights { roles, is_superuser, generation: self.generation }
    }

    /// Whether a role is a superuser, by itself or by one that was granted to it.
    pub fn is_superuser(&self, name: &str) -> bool {
        self.closure(name).iter().any(|name| self.roles[*name].is_superuser)
    }

    /// Whether the rights cover a need. Superusers may do everything. Allocates nothing.
    pub fn permits(&self, rights: &Rights, need: &Need) -> bool {
        rights.is_superuser
            || need.names().iter().any(|name| {
                let Some(roles) = self.granted_on.get(&**name) else { return false };
                let mut held = rights.roles.iter().filter(|role| roles.contains(*role));
                held.any(|role| self.granted(role, name).contains(need.permission))
            })
    }

    /// All that a role by itself has on a resource by itself.
    pub fn granted(&self, role: &str, resource: &str) -> PermissionSet {
        let grants = self.grants.get(role).and_then(|grants| grants.get(resource));
        grants.copied().unwrap_or_default()
    }

    /// All that a role by itself was granted.
    pub fn grants_of(&self, role: &str) -> Vec<Granted> {
        let grants = self.grants.get(role).into_iter().flatten();
        let granted = grants.filter_map(|(name, permissions)| {
            let resource = Resource::parse(name)?;
            Some(Granted { role: role.to_owned(), resource, permissions: *permissions })
        });
        granted.collect()
    }

    /// Roles that were granted anything.
    pub fn grantees(&self) -> impl Iterator<Item = &str> {
        self.grants.keys().map(String::as_str)
    }

    /// The service level that was attached to a role by itself.
    pub fn attached_level(&self, role: &str) -> Option<&str> {
        let name = self.roles.get(role)?.attributes.get(SERVICE_LEVEL)?;
        self.levels.contains_key(name).then_some(name)
    }

    /// What holds for a role; `None` where neither it nor what it is a member of has a level.
    pub fn effective_level(&self, role: &str) -> Option<EffectiveLevel> {
        let mut levels: Vec<(&str, &ServiceLevel)> = Vec::new();
        for role in self.closure(role) {
            let level = self.attached_level(role).and_then(|it| self.levels.get_key_value(it));
            levels.extend(level.map(|(name, level)| (name.as_str(), level)));
        }
        (!levels.is_empty()).then(|| EffectiveLevel::of(levels.into_iter()))
    }

    /// Carries out a change.
    pub fn apply(&mut self, change: Change) {
        self.generation += 1;
        match change {
            Change::Role { name, can_login, is_superuser, salted_hash } => {
                let role = self.roles.entry(name).or_default();
                role.can_login = can_login;
                role.is_superuser = is_superuser;
                role.salted_hash = salted_hash.or(role.salted_hash.take());
            }
            Change::Forget(name) => self.forget(&name),
            Change::Member { role, member, is_member } => {
                if let Some(it) = self.roles.get_mut(&member) {
                    put(&mut it.member_of, &role, is_member);
                }
                put_of(&mut self.members, &role, &member, is_member);
            }
            Change::Attribute { role, name, value } => self.set_attribute(&role, name, value),
            Change::Grants { role, resource, permissions } => {
                put_of(&mut self.granted_on, &resource, &role, !permissions.is_empty());
                let grants = self.grants.entry(role.clone()).or_default();
                if permissions.is_empty() {
                    grants.remove(&resource);
                } else {
                    grants.insert(resource, permissions);
                }
                if grants.is_empty() {
                    self.grants.remove(&role);
                }
            }
            Change::Level { name, level: Some(level) } => drop(self.levels.insert(name, level)),
            Change::Level { name, level: None } => drop(self.levels.remove(&name)),
        }
    }

    fn forget(&mut self, name: &str) {
        let Some(role) = self.roles.remove(name) else { return };
        for above in &role.member_of {
            put_of(&mut self.members, above, name, false);
        }
        if let Some(level) = role.attributes.get(SERVICE_LEVEL) {
            put_of(&mut self.attached, level, name, false);
        }
        for resource in self.grants.remove(name).unwrap_or_default().keys() {
            put_of(&mut self.granted_on, resource, name, false);
        }
        self.members.remove(name);
    }

    fn set_attribute(&mut self, role: &str, name: String, value: Option<String>) {
        let Some(it) = self.roles.get_mut(role) else { return };
        let is_level = name == SERVICE_LEVEL;
        let before = match &value {
            Some(value) => it.attributes.insert(name, value.clone()),
            None => it.attributes.remove(&name),
        };
        if is_level {
            before.iter().for_each(|level| put_of(&mut self.attached, level, role, false));
            value.iter().for_each(|level| put_of(&mut self.attached, level, role, true));
        }
    }
}

/// Whether the permission is one of those that were granted, for tests and tools.
impl Granted {
    pub fn has(&self, permission: Permission) -> bool {
        self.permissions.contains(permission)
    }
}

fn put(set: &mut BTreeSet<String>, item: &str, is_in: bool) {
    if is_in {
        set.insert(item.to_owned());
    } else {
        set.remove(item);
    }
}

fn put_of(sets: &mut BTreeMap<String, BTreeSet<String>>, key: &str, item: &str, is_in: bool) {
    if is_in {
        sets.entry(key.to_owned()).or_default().insert(item.to_owned());
    } else if let Some(set) = sets.get_mut(key) {
        set.remove(item);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
