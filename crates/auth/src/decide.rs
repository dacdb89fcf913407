//! Decisions: what a statement about roles, grants or service levels changes, or why it may not.
//!
//! Pure: they see the state that their changes apply to. Whether somebody may ask for it is asked
//! before, and elsewhere.

use crate::level::{COUNT_MAX, DEFAULT, NAME_CHARS_MAX, ServiceLevel, Workload};
use crate::permission::PermissionSet;
use crate::resource::Resource;
use crate::state::{Change, SERVICE_LEVEL, State};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Why nothing changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    RoleExists(String),
    NoRole(String),
    /// `role` includes `other` already, or must not be included by it.
    Includes {
        role: String,
        other: String,
    },
    NotGranted {
        role: String,
        member: String,
    },
    LevelExists(String),
    NoLevel(String),
    NoRoomForLevels,
    /// The level that everybody has, and what cannot be done to it.
    DefaultLevel(&'static str),
    LongName,
    /// What is too long: a role, or an option of one.
    LongRole(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::RoleExists(role) => write!(f, "Role {role} already exists."),
            Refused::NoRole(role) => write!(f, "Role {role} doesn't exist."),
            Refused::Includes { role, other } => {
                write!(f, "{role} already includes role {other}.")
            }
            Refused::NotGranted { role, member } => {
                write!(f, "{member} was not granted role {role}, so it cannot be revoked.")
            }
            Refused::LevelExists(name) => write!(f, "Service Level {name} already exists."),
            Refused::NoLevel(name) => write!(f, "Service Level {name} doesn't exists."),
            Refused::NoRoomForLevels => {
                f.write_str("Can't create service level - no more scheduling groups exist")
            }
            Refused::DefaultLevel(what) => {
                write!(f, "The default service level, {DEFAULT}, {what}")
            }
            Refused::LongName => {
                write!(f, "A name of a service level has {NAME_CHARS_MAX} characters at most")
            }
            Refused::LongRole(what) => {
                write!(f, "A name of {what} has {ROLE_BYTES_MAX} bytes at most")
            }
        }
    }
}
impl std::error::Error for Refused {}

/// Bytes of a role's name at most, and of the names of its options: they are parts of keys.
const ROLE_BYTES_MAX: usize = 8 << 10;

fn check_attributes(attributes: Option<&[(String, String)]>) -> Result<(), Refused> {
    match attributes.into_iter().flatten().any(|(name, _)| ROLE_BYTES_MAX < name.len()) {
        true => Err(Refused::LongRole("an option of a role")),
        false => Ok(()),
    }
}

/// Changes in order; none where there is nothing to do.
pub type Decision = Result<Vec<Change>, Refused>;

/// What is to become of something that may be there already, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Nothing is done.
    Ignored,
    Refused,
}

/// What a new or altered role is to be; what is `None` is not said.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    pub can_login: Option<bool>,
    pub is_superuser: Option<bool>,
    pub salted_hash: Option<String>,
    /// In the place of those that it has.
    pub attributes: Option<Vec<(String, String)>>,
}

/// A change of a service level; the inner `None` takes back what was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelOptions {
    pub timeout: Option<Option<Duration>>,
    pub workload: Option<Option<Workload>>,
    pub shares: Option<u32>,
}

impl State {
    fn known(&self, role: &str) -> Result<(), Refused> {
        match self.roles.contains_key(role) {
            true => Ok(()),
            false => Err(Refused::NoRole(role.to_owned())),
        }
    }

    /// A new role; who creates it, if that counts, has all that there is on it.
    pub fn create_role(
        &self,
        name: &str,
        options: RoleOptions,
        creator: Option<&str>,
        if_present: Otherwise,
    ) -> Decision {
        if self.roles.contains_key(name) {
            return match if_present {
                Otherwise::Ignored => Ok(Vec::new()),
                Otherwise::Refused => Err(Refused::RoleExists(name.to_owned())),
            };
        }
        if ROLE_BYTES_MAX < name.len() {
            return Err(Refused::LongRole("a role"));
        }
        check_attributes(options.attributes.as_deref())?;
        let mut changes = vec![Change::Role {
            name: name.to_owned(),
            can_login: options.can_login.unwrap_or(false),
            is_superuser: options.is_superuser.unwrap_or(false),
            salted_hash: options.salted_hash,
        }];
        for (key, value) in options.attributes.unwrap_or_default() {
            let value = Some(value);
            changes.push(Change::Attribute { role: name.to_owned(), name: key, value });
        }
        changes.extend(
            creator.and_then(|creator| {
                self.grant_to_creator(creator, &Resource::Role(name.to_owned()))
            }),
        );
        Ok(changes)
    }

    /// Another password, other attributes.
    pub fn alter_role(&self, name: &str, options: RoleOptions, if_absent: Otherwise) -> Decision {
        let Some(role) = self.roles.get(name) else {
            return match if_absent {
                Otherwise::Ignored => Ok(Vec::new()),
                Otherwise::Refused => Err(Refused::NoRole(name.to_owned())),
            };
        };
        check_attributes(options.attributes.as_deref())?;
        let mut changes = vec![Change::Role {
            name: name.to_owned(),
            can_login: options.can_login.unwrap_or(role.can_login),
            is_superuser: options.is_superuser.unwrap_or(role.is_superuser),
            salted_hash: options.salted_hash,
        }];
        let Some(attributes) = options.attributes else { return Ok(changes) };
        let gone = role.attributes.keys().filter(|key| {
            *key != SERVICE_LEVEL && !attributes.iter().any(|(other, _)| other == *key)
        });
        for key in gone {
            let (role, key) = (name.to_owned(), key.clone());
            changes.push(Change::Attribute { role, name: key, value: None });
        }
        for (key, value) in attributes {
            let value = Some(value);
            changes.push(Change::Attribute { role: name.to_owned(), name: key, value });
        }
        Ok(changes)
    }

    /// A role goes, with all that it has, and all that others have of it or on it.
    pub fn drop_role(&self, name: &str, if_absent: Otherwise) -> Decision {
        let Some(role) = self.roles.get(name) else {
            return match if_absent {
                Otherwise::Ignored => Ok(Vec::new()),
                Otherwise::Refused => Err(Refused::NoRole(name.to_owned())),
            };
        };
        let end = |role: &str, member: &str| Change::Member {
            role: role.to_owned(),
            member: member.to_owned(),
            is_member: false,
        };
        let mut changes: Vec<Change> =
            role.member_of.iter().map(|above| end(above, name)).collect();
        let members = self.members.get(name).into_iter().flatten();
        changes.extend(members.map(|member| end(name, member)));
        changes.extend(self.revoke_all_on(&Resource::Role(name.to_owned())));
        changes.push(Change::Forget(name.to_owned()));
        Ok(changes)
    }

    /// `member` becomes one of `role` (*acyclic*).
    pub fn grant_role(&self, role: &str, member: &str) -> Decision {
        self.known(member)?;
        self.known(role)?;
        let includes = |role: &str, other: &str| {
            Err(Refused::Includes { role: role.to_owned(), other: other.to_owned() })
        };
        if self.closure(role).contains(&member) {
            return includes(role, member);
        }
        if self.closure(member).contains(&role) {
            return includes(member, role);
        }
        Ok(vec![Change::Member {
            role: role.to_owned(),
            member: member.to_owned(),
            is_member: true,
        }])
    }

    /// `member` is no longer one of `role`.
    pub fn revoke_role(&self, role: &str, member: &str) -> Decision {
        self.known(member)?;
        self.known(role)?;
        if !self.roles[member].member_of.contains(role) {
            let (role, member) = (role.to_owned(), member.to_owned());
            return Err(Refused::NotGranted { role, member });
        }
        Ok(vec![Change::Member {
            role: role.to_owned(),
            member: member.to_owned(),
            is_member: false,
        }])
    }

    /// A role gets permissions on a resource, as far as they apply to it.
    pub fn grant(&self, role: &str, permissions: PermissionSet, on: &Resource) -> Decision {
        self.known(role)?;
        Ok(self.granting(role, permissions, on).into_iter().collect())
    }

    fn granting(&self, role: &str, permissions: PermissionSet, on: &Resource) -> Option<Change> {
        let resource = on.name();
        let before = self.granted(role, &resource);
        let permissions = before.union(permissions.intersection(on.applicable()));
        let role = role.to_owned();
        (permissions != before).then_some(Change::Grants { role, resource, permissions })
    }

    /// A role loses permissions on a resource.
    pub fn revoke(&self, role: &str, permissions: PermissionSet, on: &Resource) -> Decision {
        self.known(role)?;
        let resource = on.name();
        let before = self.granted(role, &resource);
        let permissions = before.without(permissions);
        let role = role.to_owned();
        let change = Change::Grants { role, resource, permissions };
        Ok(Some(change).filter(|_| permissions != before).into_iter().collect())
    }

    /// Whoever creates something may do everything with it.
    pub fn grant_to_creator(&self, creator: &str, on: &Resource) -> Option<Change> {
        self.known(creator).ok()?;
        self.granting(creator, on.applicable(), on)
    }

    /// What somebody has on a resource that goes, and on what is below it.
    pub fn revoke_all_on(&self, gone: &Resource) -> Vec<Change> {
        let name = gone.name();
        let mut resources: BTreeSet<&String> = BTreeSet::new();
        resources.extend(self.granted_on.get_key_value(&name).map(|(name, _)| name));
        if matches!(gone, Resource::Keyspace(_) | Resource::FunctionsIn(_)) {
            let below = format!("{name}/");
            let range = self.granted_on.range(below.clone()..);
            resources.extend(range.map(|(name, _)| name).take_while(|it| it.starts_with(&below)));
        }
        let mut changes = Vec::new();
        for resource in resources {
            for role in &self.granted_on[resource] {
                let (role, resource) = (role.clone(), resource.clone());
                let permissions = PermissionSet::NONE;
                changes.push(Change::Grants { role, resource, permissions });
            }
        }
        changes
    }

    /// A new service level.
    pub fn create_level(
        &self,
        name: &str,
        options: &LevelOptions,
        if_present: Otherwise,
    ) -> Decision {
        if name == DEFAULT {
            return match if_present {
                Otherwise::Ignored => Ok(Vec::new()),
                Otherwise::Refused => {
                    Err(Refused::DefaultLevel("already exists and cannot be created"))
                }
            };
        }
        if NAME_CHARS_MAX < name.chars().count() {
            return Err(Refused::LongName);
        }
        if self.levels.contains_key(name) {
            return match if_present {
                Otherwise::Ignored => Ok(Vec::new()),
                Otherwise::Refused => Err(Refused::LevelExists(name.to_owned())),
            };
        }
        // Where it was dropped, another may have the room of the level of drivers.
        if COUNT_MAX < self.levels.len() {
            return Err(Refused::NoRoomForLevels);
        }
        let level = changed(ServiceLevel::default(), options);
        Ok(vec![Change::Level { name: name.to_owned(), level: Some(level) }])
    }

    pub fn alter_level(&self, name: &str, options: &LevelOptions) -> Decision {
        if name == DEFAULT {
            return Err(Refused::DefaultLevel("cannot be altered"));
        }
        let before = self.levels.get(name).ok_or_else(|| Refused::NoLevel(name.to_owned()))?;
        let level = changed(before.clone(), options);
        Ok(vec![Change::Level { name: name.to_owned(), level: Some(level) }])
    }

    /// A service level goes; nobody has it any longer.
    pub fn drop_level(&self, name: &str, if_absent: Otherwise) -> Decision {
        if name == DEFAULT {
            return Err(Refused::DefaultLevel("cannot be dropped"));
        }
        if !self.levels.contains_key(name) {
            return match if_absent {
                Otherwise::Ignored => Ok(Vec::new()),
                Otherwise::Refused => Err(Refused::NoLevel(name.to_owned())),
            };
        }
        let roles = self.attached.get(name).into_iter().flatten();
        let mut changes: Vec<Change> = roles.map(|role| attachment(role, None)).collect();
        changes.push(Change::Level { name: name.to_owned(), level: None });
        Ok(changes)
    }

    /// A role has that level from now on, instead of the one before.
    pub fn attach_level(&self, name: &str, role: &str) -> Decision {
        if name == DEFAULT {
            return Err(Refused::DefaultLevel(
                "cannot be attached to a role. If you want to detach an attached service level, \
                 use the DETACH SERVICE LEVEL statement",
            ));
        }
        if !self.levels.contains_key(name) {
            return Err(Refused::NoLevel(name.to_owned()));
        }
        self.known(role)?;
        Ok(vec![attachment(role, Some(name.to_owned()))])
    }

    pub fn detach_level(&self, role: &str) -> Decision {
        self.known(role)?;
        let has = self.roles[role].attributes.contains_key(SERVICE_LEVEL);
        Ok(if has { vec![attachment(role, None)] } else { Vec::new() })
    }
}

fn attachment(role: &str, value: Option<String>) -> Change {
    Change::Attribute { role: role.to_owned(), name: SERVICE_LEVEL.to_owned(), value }
}

fn changed(mut level: ServiceLevel, options: &LevelOptions) -> ServiceLevel {
    if let Some(timeout) = options.timeout {
        level.timeout = timeout;
    }
    if let Some(workload) = options.workload {
        level.workload = workload;
    }
    level.shares = options.shares.or(level.shares);
    level
}

#[cfg(test)]
mod tests;
