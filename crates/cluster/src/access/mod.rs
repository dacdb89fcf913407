//! Access control as every shard of the node knows it: roles and grants, the configured
//! authenticator and authorizer, and the scheduling groups of service levels ([`groups`]).
//!
//! Invariants
//!  - *shown-before-answered*: a change is visible on all shards before it is acknowledged, so
//!    nothing is decided on an old state, and no cache has to expire.
//!
//! How roles and grants change is above: [`crate::roles`].

pub(crate) mod groups;

use crate::schema::Catalog;
use auth::State;
pub use auth::certificate;
use auth::certificate::Queries;
use groups::Groups;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

/// The default superuser, and its password.
pub(crate) const DEFAULT_SUPERUSER: &str = "cassandra";

/// How clients log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticator {
    /// None: clients may do everything that requires no role.
    AllowAll,
    /// By name and password.
    Password,
    /// By name and password; clients without one, or with a wrong one, are anonymous.
    Transitional,
    /// By the certificate that they show in their TLS handshake.
    Certificate,
    /// By certificate; clients without one, by name and password.
    CertificateOrPassword,
}

/// What a client has to do to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// Nothing.
    Free,
    /// To have shown a certificate that names a role.
    ByCertificate,
    /// To send a name and a password, asked for in the name of this class.
    ByPassword(&'static str),
}

/// Whether permissions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorizer {
    /// They do not.
    AllowAll,
    /// They do.
    Cassandra,
    /// Those to authorize and to execute do; data is everybody's.
    Transitional,
}

/// The part of a class name that follows the package, without regard to letters' case.
fn simple(name: &str) -> String {
    name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase()
}

impl Authenticator {
    /// By the name that an operator gives, with or without its package.
    pub fn by_name(name: &str) -> Option<Authenticator> {
        Some(match simple(name).as_str() {
            "allowallauthenticator" => Authenticator::AllowAll,
            "passwordauthenticator" => Authenticator::Password,
            "transitionalauthenticator" => Authenticator::Transitional,
            "certificateauthenticator" => Authenticator::Certificate,
            "certificateorpasswordauthenticator" => Authenticator::CertificateOrPassword,
            _ => return None,
        })
    }

    /// What is asked of a client that has shown a certificate, or none.
    pub fn login(self, shows_certificate: bool) -> Login {
        match self {
            Authenticator::AllowAll => Login::Free,
            Authenticator::Certificate => Login::ByCertificate,
            Authenticator::CertificateOrPassword if shows_certificate => Login::ByCertificate,
            // Drivers know this class, and send a name and a password.
            Authenticator::Password
            | Authenticator::Transitional
            | Authenticator::CertificateOrPassword => {
                Login::ByPassword("org.apache.cassandra.auth.PasswordAuthenticator")
            }
        }
    }

    /// Whether certificates of clients are looked at.
    pub fn reads_certificates(self) -> bool {
        matches!(self, Authenticator::Certificate | Authenticator::CertificateOrPassword)
    }
}

impl Authorizer {
    /// By the name that an operator gives, with or without its package.
    pub fn by_name(name: &str) -> Option<Authorizer> {
        Some(match simple(name).as_str() {
            "allowallauthorizer" => Authorizer::AllowAll,
            "cassandraauthorizer" => Authorizer::Cassandra,
            "transitionalauthorizer" => Authorizer::Transitional,
            _ => return None,
        })
    }
}

/// What an operator says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    /// Of a superuser that is to be there; empty: none is named.
    pub superuser: String,
    /// Whether one with a well-known password is made where none is named, and none can log in.
    pub default_superuser: bool,
    /// Its hashed password; empty: it has none yet.
    pub superuser_salted_password: String,
    /// The role of a certificate.
    pub certificate_roles: Queries,
}

/// What one shard knows.
#[derive(Debug)]
pub struct Access {
    /// The catalog of the shard, of which roles, grants and service levels are a part.
    catalog: Rc<RefCell<Catalog>>,
    /// Of the service levels that the catalog has.
    groups: RefCell<Groups>,
    authenticator: Cell<Authenticator>,
    authorizer: Cell<Authorizer>,
    /// Of the name in the options; empty: none is named.
    superuser: RefCell<String>,
    certificate_roles: RefCell<Option<Rc<Queries>>>,
}

impl Access {
    pub(crate) fn new(catalog: Rc<RefCell<Catalog>>) -> Access {
        let mut groups = Groups::default();
        let gone = groups.arrange(&catalog.borrow().access);
        assert!(gone.is_empty(), "one-per-level: a new shard has groups to retire");
        Access {
            catalog,
            groups: RefCell::new(groups),
            authenticator: Cell::new(Authenticator::AllowAll),
            authorizer: Cell::new(Authorizer::AllowAll),
            superuser: RefCell::default(),
            certificate_roles: RefCell::default(),
        }
    }

    /// The service levels with the workloads that they are meant for, as statements write them.
    pub fn workloads(&self) -> Vec<(String, Option<&'static str>)> {
        let state = self.state();
        let named = |(name, level): (&str, &auth::ServiceLevel)| {
            (name.to_owned(), level.workload.map(auth::Workload::name))
        };
        let default = ("default".to_owned(), None);
        [default].into_iter().chain(state.levels().map(named)).collect()
    }

    /// All roles, grants and service levels. Not to be held across an await.
    pub fn state(&self) -> Ref<'_, State> {
        Ref::map(self.catalog.borrow(), |catalog| &catalog.access)
    }

    /// How clients log in.
    pub fn authenticator(&self) -> Authenticator {
        self.authenticator.get()
    }

    /// Whether permissions count.
    pub fn authorizer(&self) -> Authorizer {
        self.authorizer.get()
    }

    /// The superuser that a new node of these options makes.
    pub fn superuser(&self) -> String {
        let superuser = match &**self.superuser.borrow() {
            "" => DEFAULT_SUPERUSER.to_owned(),
            name => name.to_owned(),
        };
        debug_assert!(!superuser.is_empty(), "a superuser without a name");
        superuser
    }

    /// The role of a certificate; `None` before it was configured.
    pub fn certificate_roles(&self) -> Option<Rc<Queries>> {
        self.certificate_roles.borrow().clone()
    }

    /// Puts what an operator says in force.
    pub(crate) fn configure(&self, config: &AccessConfig) {
        let before = self.certificate_roles.borrow().is_some();
        debug_assert!(!before, "configured-once: access was configured before");
        self.superuser.replace(config.superuser.clone());
        self.authenticator.set(config.authenticator);
        self.authorizer.set(config.authorizer);
        self.certificate_roles.replace(Some(Rc::new(config.certificate_roles.clone())));
    }
}

/// Random bytes for a new hash.
pub fn salt() -> [u8; auth::password::SALT_BYTES] {
    const { assert!(8 <= auth::password::SALT_BYTES, "a salt that can be guessed") };
    let mut salt = [0; auth::password::SALT_BYTES];
    for piece in salt.chunks_mut(8) {
        piece.copy_from_slice(&runtime::random_u64().to_le_bytes()[..piece.len()]);
    }
    salt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_known_with_and_without_package() {
        let check = |name: &str, expected: Option<Authenticator>| {
            assert_eq!(Authenticator::by_name(name), expected, "{name}");
        };
        check("AllowAllAuthenticator", Some(Authenticator::AllowAll));
        check("org.apache.cassandra.auth.AllowAllAuthenticator", Some(Authenticator::AllowAll));
        check("PasswordAuthenticator", Some(Authenticator::Password));
        check("com.scylladb.auth.TransitionalAuthenticator", Some(Authenticator::Transitional));
        let certificate = "com.scylladb.auth.CertificateAuthenticator";
        check(certificate, Some(Authenticator::Certificate));
        let either = "CertificateOrPasswordAuthenticator";
        check(either, Some(Authenticator::CertificateOrPassword));
        check("", None);
        check("SaslauthdAuthenticator", None);
        let check = |name: &str, expected: Option<Authorizer>| {
            assert_eq!(Authorizer::by_name(name), expected, "{name}");
        };
        check("AllowAllAuthorizer", Some(Authorizer::AllowAll));
        check("org.apache.cassandra.auth.CassandraAuthorizer", Some(Authorizer::Cassandra));
        check("com.scylladb.auth.TransitionalAuthorizer", Some(Authorizer::Transitional));
        check("PasswordAuthorizer", None);
    }

    #[test]
    fn what_is_asked_depends_on_the_certificate() {
        let check = |authenticator: Authenticator, expected: [&str; 2]| {
            let asked = [false, true].map(|shows| match authenticator.login(shows) {
                Login::Free => "nothing",
                Login::ByCertificate => "certificate",
                Login::ByPassword(_) => "password",
            });
            assert_eq!(asked, expected, "{authenticator:?}");
            assert_eq!(authenticator.reads_certificates(), expected[1] == "certificate");
        };
        check(Authenticator::AllowAll, ["nothing", "nothing"]);
        check(Authenticator::Password, ["password", "password"]);
        check(Authenticator::Transitional, ["password", "password"]);
        check(Authenticator::Certificate, ["certificate", "certificate"]);
        check(Authenticator::CertificateOrPassword, ["password", "certificate"]);
    }
}
