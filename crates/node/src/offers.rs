//! The options as the parts of a node are offered them, and as `system.config` shows them.

use cluster::settings::Offer;
use options::{Values, rows};

/// Every option with its value.
pub fn offers(values: &Values) -> Vec<Offer> {
    let values = &values.to_show();
    let offers = rows().map(|row| Offer {
        name: row.name,
        kind: row.kind.type_name(),
        shown: values.shown(row),
        source: values.source(row.name).name(),
        changes: row.is_live,
    });
    offers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use options::Source;

    #[test]
    fn values_are_offered_as_json() {
        let mut values = Values::default();
        let lists = ["udf", "lwt"].map(str::to_owned).to_vec();
        values.set("experimental_features", lists, Source::CommandLine).expect("an option");
        let hash = vec!["$6$x".to_owned()];
        values.set("auth_superuser_salted_password", hash, Source::File).expect("an option");
        let offers = offers(&values);
        let check = |name: &str, kind: &str, shown: &str, source: &str| {
            let found = offers.iter().find(|offer| offer.name == name).expect("an option");
            assert_eq!((found.kind, found.shown.as_str(), found.source), (kind, shown, source));
        };
        check("experimental_features", "string list", "[\"udf\",\"lwt\"]", "cli");
        check("num_tokens", "integer", "1", "default");
        check("alternator_ttl_period_in_seconds", "double", "86400", "default");
        check("task_quota_ms", "double", "0.5", "default");
        check("auto_snapshot", "bool", "true", "default");
        check("sstable_format", "string", "\"ms\"", "default");
        check("native_transport_port_ssl", "integer", "null", "default");
        check("client_encryption_options", "string map", "{}", "default");
        check("auth_superuser_salted_password", "string", "\"***\"", "config");
    }
}
