//! Who may do what, and what is encrypted and written down.

use super::*;

const AUTHENTICATORS: Words = &[
    "AllowAllAuthenticator",
    "PasswordAuthenticator",
    "CertificateAuthenticator",
    "CertificateOrPasswordAuthenticator",
    "TransitionalAuthenticator",
    "SaslauthdAuthenticator",
];

const AUTHORIZERS: Words = &["AllowAllAuthorizer", "CassandraAuthorizer", "TransitionalAuthorizer"];

/// Of the maps that ask for encryption. The keys of Java's key stores are known, for files that
/// were written for Cassandra.
const ENCRYPTION: Words = &[
    "enabled",
    "optional",
    "certificate",
    "keyfile",
    "truststore",
    "certficate_revocation_list",
    "certificate_revocation_list",
    "require_client_auth",
    "priority_string",
    "enable_session_tickets",
    "min_version",
    "internode_encryption",
    "require_endpoint_verification",
    "keystore",
    "keystore_password",
    "truststore_password",
    "protocol",
    "algorithm",
    "store_type",
    "cipher_suites",
];

/// Of the maps that ask for encrypted files.
const AT_REST: Words = &[
    "enabled",
    "override_per_table",
    "override_configuration",
    "cipher_algorithm",
    "secret_key_strength",
    "key_provider",
    "system_key_directory",
    "secret_key_file",
    "key_cache_millis",
    "kmip_host",
    "kms_host",
    "gcp_host",
    "azure_host",
    "master_key",
    "key_namespace",
    "template_name",
];

pub(super) const ROWS: &[OptionRow] = &[
    class("authenticator", "AllowAllAuthenticator", AUTHENTICATORS, "How clients authenticate"),
    class("authorizer", "AllowAllAuthorizer", AUTHORIZERS, "How permissions are checked"),
    class(
        "role_manager",
        "CassandraRoleManager",
        &["CassandraRoleManager", "LDAPRoleManager"],
        "Where roles are kept",
    )
    .idle(),
    text(
        "auth_superuser_name",
        "",
        "Name of the first superuser, created at startup; given and empty: there is none",
    ),
    text("auth_superuser_salted_password", "", "Password hash of the first superuser").secret(),
    tree(
        "auth_certificate_role_queries",
        "Part of a client certificate that names the role: source, query",
    ),
    text("auth_certificate_role_query", "", "Old name of auth_certificate_role_queries").idle(),
    number("permissions_validity_in_ms", "10000", "Milliseconds that a permission is kept")
        .live()
        .idle(),
    number("permissions_update_interval_in_ms", "2000", "Milliseconds until it is looked up again")
        .live()
        .idle(),
    number("permissions_cache_max_entries", "1000", "Permissions that are kept").live().idle(),
    class(
        "internode_authenticator",
        "",
        &["AllowAllInternodeAuthenticator"],
        "Which nodes may join",
    )
    .idle(),
    map("client_encryption_options", ENCRYPTION, "TLS of CQL"),
    map("api_encryption_options", ENCRYPTION, "TLS of the REST API"),
    map("prometheus_encryption_options", ENCRYPTION, "TLS of metrics"),
    map("server_encryption_options", ENCRYPTION, "TLS between nodes"),
    map("alternator_encryption_options", ENCRYPTION, "TLS of Alternator"),
    map("system_info_encryption", AT_REST, "Encryption of files of the system").idle(),
    map("user_info_encryption", AT_REST, "Encryption of SSTables, where the table does not say")
        .idle(),
    text("system_key_directory", "conf/resources/system_keys", "Folder of keys").idle(),
    tree("kmip_hosts", "Servers of keys: KMIP").secret().idle(),
    tree("kms_hosts", "Servers of keys: AWS KMS").secret().idle(),
    tree("gcp_hosts", "Servers of keys: Google Cloud KMS").secret().idle(),
    tree("azure_hosts", "Servers of keys: Azure Key Vault").secret().idle(),
    text("ldap_url_template", "", "Where roles are asked for, {USER} for the name").idle(),
    text("ldap_attr_role", "", "Attribute that names a role").idle(),
    text("ldap_bind_dn", "", "Who asks").idle(),
    text("ldap_bind_passwd", "", "With which password").secret().idle(),
    text("saslauthd_socket_path", "", "Socket of saslauthd").idle(),
];

pub(super) const AUDIT: &[OptionRow] = &[
    words("audit", "none", &["none", "table", "syslog"], "Where audited statements are recorded"),
    text("audit_categories", "DCL,DDL,AUTH,ADMIN", "Categories to audit: these, QUERY or DML")
        .live(),
    text("audit_tables", "", "Tables to audit: keyspace.table, comma-separated").live(),
    text("audit_keyspaces", "", "Keyspaces to audit, comma-separated").live(),
    tree("audit_rules", "What else to audit: statements of these kinds, tables and roles").live(),
    text("audit_unix_socket_path", "/dev/log", "Socket of syslog"),
    number("audit_syslog_write_buffer_size", "1048576", "Bytes buffered for syslog, per shard"),
];
