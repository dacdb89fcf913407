//! `CREATE`, `ALTER` and `DROP KEYSPACE`.
//!
//! Invariants
//!  - *expanded*: a stored replication map names a strategy by its full class name and has a
//!    factor for each data center; no shorthand is left in it.
//!  - *nothing-by-omission*: a keyspace with tablets that is altered loses no copies in a data
//!    center that the statement does not name.

use super::properties::{Options, Properties, get, put};
use super::racks::{copies, rack_list};
use super::{
    Context, Decision, NAME_CHARS_MAX, is_plain_name, need_keyspace, racks, refuse_system,
};
use crate::error::Error;
use cluster::{DataCenter, Schema, SchemaChange};
use model::Keyspace;
use syntax::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, PropertyValue};

/// The package of replication strategies.
const PACKAGE: &str = "org.apache.cassandra.locator.";
const NETWORK_TOPOLOGY: &str = "NetworkTopologyStrategy";
const FACTOR: &str = "replication_factor";

/// What `WITH` can say of a keyspace.
const PROPERTIES: [&str; 5] =
    ["replication", "durable_writes", "tablets", "storage", "consistency"];

/// Whether a keyspace that says nothing of tablets has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TabletsByDefault {
    No,
    Yes,
    /// And it cannot do without.
    Always,
}

pub(super) fn create(schema: &Schema, it: &CreateKeyspace, context: &Context) -> Decision {
    let name = it.name.text.as_str();
    if !is_plain_name(name) {
        return Err(Error::invalid(format!("\"{name}\" is not a valid keyspace name")));
    }
    if NAME_CHARS_MAX < name.len() {
        return Err(Error::invalid(format!(
            "Keyspace names shouldn't be more than {NAME_CHARS_MAX} characters long (got \
             \"{name}\")"
        )));
    }
    let is_reserved = Schema::is_of_nodes(name) || name.starts_with("system_");
    let is_there = schema.keyspace(name).is_some() && !matches!(name, "system" | "system_schema");
    if is_reserved && !is_there {
        return Err(Error::invalid("system keyspace is not user-modifiable"));
    }
    let properties = Properties(&it.properties);
    check_common(&properties)?;
    let replication = match strategy_options(&properties)? {
        Some(given) => expand(name, &given, None, context)?,
        None => expand(name, &[], None, context)?,
    };
    context.rules.check_replication(name, &replication)?;
    let mut keyspace = Keyspace {
        name: name.to_owned(),
        initial_tablets: match tablets(&properties, &replication)? {
            Some(said) => said,
            None => default_tablets(context.rules.tablets, &replication)?,
        },
        replication,
        previous: None,
        durable_writes: properties.boolean("durable_writes")?.unwrap_or(true),
        storage: Vec::new(),
    };
    if keyspace.initial_tablets.is_none() && context.rules.tablets == TabletsByDefault::Always {
        return Err(Error::Config(
            "Cannot disable tablets for keyspace since tablets are enforced using the \
             `tablets_mode_for_new_keyspaces: enforced` config option."
                .to_owned(),
        ));
    }
    racks::spread(&mut keyspace, None, context)?;
    match schema.keyspace(name) {
        None => Ok(vec![SchemaChange::CreateKeyspace(keyspace)]),
        Some(_) if it.if_not_exists => Ok(Vec::new()),
        Some(_) => {
            let (keyspace, table) = (name.to_owned(), String::new());
            Err(Error::AlreadyExists { keyspace, table })
        }
    }
}

pub(super) fn alter(schema: &Schema, it: &AlterKeyspace, context: &Context) -> Decision {
    let name = it.name.text.as_str();
    // Those of the outcomes of transactions and of backups are moved and copied as operators like.
    if Schema::is_system(name) {
        refuse_system(name)?;
    }
    if it.if_exists && schema.keyspace(name).is_none() {
        return Ok(Vec::new());
    }
    let mut keyspace = need_keyspace(schema, name)?.keyspace.clone();
    let properties = Properties(&it.properties);
    check_common(&properties)?;
    if let Some(given) = strategy_options(&properties)? {
        let mut replication = expand(name, &given, Some(&keyspace), context)?;
        context.rules.check_replication(name, &replication)?;
        if keyspace.initial_tablets.is_some() {
            replication.retain(|(center, factor)| center == "class" || copies(factor) != 0);
            check_tablets_step(&keyspace.replication, &replication, &given, context)?;
            racks::check_more(schema, &keyspace, &replication, &context.data_centers)?;
        }
        keyspace.replication = replication;
    }
    if let Some(tablets) = tablets(&properties, &keyspace.replication)? {
        if tablets.is_some() != keyspace.initial_tablets.is_some() {
            return Err(flavor_change());
        }
        keyspace.initial_tablets = tablets;
    }
    if let Some(durable_writes) = properties.boolean("durable_writes")? {
        keyspace.durable_writes = durable_writes;
    }
    let before = need_keyspace(schema, name)?.keyspace.clone();
    racks::spread(&mut keyspace, Some(&before), context)?;
    Ok(vec![SchemaChange::AlterKeyspace(keyspace)])
}

pub(super) fn drop(schema: &Schema, it: &DropKeyspace) -> Decision {
    let name = &it.name.text;
    if Schema::is_of_nodes(name) {
        return Err(Error::Unauthorized(Schema::why_not_dropped(name)));
    }
    match schema.keyspace(name) {
        Some(_) => Ok(vec![SchemaChange::DropKeyspace(name.clone())]),
        None if it.if_exists => Ok(Vec::new()),
        None => Err(Error::Config(format!("Cannot drop non existing keyspace '{name}'."))),
    }
}

/// What holds for CREATE and ALTER, whatever the keyspace.
fn check_common(properties: &Properties<'_>) -> Result<(), Error> {
    properties.refuse_unknown(&PROPERTIES)?;
    if let Some(storage) = properties.map("storage")? {
        let kind = get(&storage, "type").unwrap_or("LOCAL");
        if !kind.eq_ignore_ascii_case("LOCAL") {
            return Err(Error::invalid(format!("storage of type {kind} is not supported yet")));
        }
        if let Some((name, _)) = storage.iter().find(|(name, _)| name != "type") {
            return Err(Error::invalid(format!("Unknown storage option '{name}' for LOCAL")));
        }
    }
    match properties.scalar("consistency")? {
        None | Some("eventual") => Ok(()),
        Some(other) => Err(Error::invalid(format!("consistency '{other}' is not supported yet"))),
    }
}

/// The replication map as it was given; a list of racks is written `['r1', 'r2']`.
fn strategy_options(properties: &Properties<'_>) -> Result<Option<Options>, Error> {
    let wrong = || {
        let text = "Invalid value for property 'replication'. It should be a map";
        Error::Syntax(text.to_owned())
    };
    let entries = match properties.get("replication") {
        None => return Ok(None),
        Some(PropertyValue::Map(entries)) => entries,
        Some(_) => return Err(wrong()),
    };
    let mut options = Options::new();
    for (key, value) in entries {
        let text = match value {
            PropertyValue::Scalar(literal) => literal.text.clone(),
            PropertyValue::List(racks) => {
                let rack = |value: &PropertyValue| match value {
                    PropertyValue::Scalar(literal) => Ok(format!("'{}'", literal.text)),
                    _ => Err(wrong()),
                };
                let racks: Result<Vec<String>, Error> = racks.iter().map(rack).collect();
                format!("[{}]", racks?.join(", "))
            }
            _ => return Err(wrong()),
        };
        put(&mut options, &key.text, text);
    }
    Ok(Some(options))
}

/// The replication as it is stored. `previous` is the keyspace that is altered.
fn expand(
    keyspace: &str,
    given: &[(String, String)],
    previous: Option<&Keyspace>,
    context: &Context,
) -> Result<Options, Error> {
    let before = previous.and_then(|it| get(&it.replication, "class")).map(strategy_name);
    let class = get(given, "class").or(before).unwrap_or(NETWORK_TOPOLOGY);
    let name = strategy_name(class);
    let others: Vec<&(String, String)> = given.iter().filter(|(key, _)| key != "class").collect();
    let mut options = vec![("class".to_owned(), format!("{PACKAGE}{name}"))];
    match name {
        NETWORK_TOPOLOGY => {
            let known = previous.filter(|_| before == Some(NETWORK_TOPOLOGY));
            options.extend(per_data_center(keyspace, &others, known, context)?);
        }
        "SimpleStrategy" => {
            refuse_option(keyspace, name, others.iter().find(|(key, _)| key != FACTOR))?;
            let factor = get(given, FACTOR).ok_or_else(|| {
                let text = "SimpleStrategy requires a replication_factor strategy option.";
                Error::Config(text.to_owned())
            })?;
            options.push((FACTOR.to_owned(), checked_factor(factor)?));
        }
        // A factor says nothing to them, and is kept.
        "EverywhereStrategy" | "LocalStrategy" => {
            refuse_option(keyspace, name, others.iter().find(|(key, _)| key != FACTOR))?;
            if let Some(factor) = get(given, FACTOR) {
                options.push((FACTOR.to_owned(), checked_factor(factor)?));
            }
        }
        _ => {
            return Err(Error::Config(format!(
                "Unable to find replication strategy class '{class}'"
            )));
        }
    }
    Ok(options)
}

/// A strategy without its package.
fn strategy_name(class: &str) -> &str {
    class.strip_prefix(PACKAGE).unwrap_or(class)
}

fn refuse_option(
    keyspace: &str,
    strategy: &str,
    option: Option<&&(String, String)>,
) -> Result<(), Error> {
    match option {
        None => Ok(()),
        Some((key, _)) => Err(Error::Config(format!(
            "Unrecognized strategy option {{{key}}} passed to {strategy} for keyspace {keyspace}"
        ))),
    }
}

/// Factors by data center: those given, and for the others what `replication_factor` says. It
/// changes no data center that the keyspace names already, and without it and any other factor
/// there is one copy per rack.
fn per_data_center(
    keyspace: &str,
    given: &[&(String, String)],
    previous: Option<&Keyspace>,
    context: &Context,
) -> Result<Options, Error> {
    let shorthand = given.iter().find(|(key, _)| key == FACTOR);
    let named: Vec<&&(String, String)> = given.iter().filter(|(key, _)| key != FACTOR).collect();
    if shorthand.is_none() && named.is_empty() && previous.is_some() {
        let text = "Configuration for at least one datacenter must be present";
        return Err(Error::Config(text.to_owned()));
    }
    let nothing_named = named.is_empty();
    let mut options = Options::new();
    for (center, factor) in named {
        let Some(known) = context.data_centers.iter().find(|it| it.name == *center) else {
            let unknown = (center.clone(), String::new());
            refuse_option(keyspace, NETWORK_TOPOLOGY, Some(&&unknown))?;
            continue;
        };
        check_racks(center, factor, &known.racks)?;
        if rack_list(factor).is_some_and(|racks| racks.trim().is_empty()) {
            continue;
        }
        let factor = checked_factor(factor)?;
        // A number that a list of racks has already changes nothing.
        let before = previous.and_then(|it| get(&it.replication, center));
        let listed = before.filter(|it| rack_list(it).is_some() && copies(it) == copies(&factor));
        put(&mut options, center, listed.map(str::to_owned).unwrap_or(factor));
    }
    let default = match shorthand {
        Some((_, factor)) => Some(checked_factor(factor)?),
        None => None,
    };
    for DataCenter { name: center, racks, .. } in &context.data_centers {
        if get(&options, center).is_some() {
            continue;
        }
        let before = previous.and_then(|it| get(&it.replication, center));
        match (&default, before) {
            (Some(_), Some(before)) => put(&mut options, center, before.to_owned()),
            (Some(factor), None) => put(&mut options, center, factor.clone()),
            (None, _) if nothing_named && !racks.is_empty() => {
                put(&mut options, center, racks.len().to_string());
            }
            (None, _) => {}
        }
    }
    Ok(options)
}

/// An error for a list that names a rack that the data center does not have.
fn check_racks(center: &str, factor: &str, racks: &[String]) -> Result<(), Error> {
    let Some(list) = rack_list(factor) else { return Ok(()) };
    let listed = list.split(',').map(|rack| rack.trim().trim_matches('\''));
    let unknown = listed.filter(|rack| !rack.is_empty()).find(|rack| {
        let rack: &str = rack;
        !racks.iter().any(|known| known == rack)
    });
    match unknown {
        None => Ok(()),
        Some(rack) => {
            Err(Error::Config(format!("Unrecognized rack name '{rack}' for datacenter '{center}'")))
        }
    }
}

/// A factor in its normal form: a number without ornaments, or a list of racks.
fn checked_factor(text: &str) -> Result<String, Error> {
    if rack_list(text).is_some() {
        return Ok(text.to_owned());
    }
    match text.trim().parse::<i64>() {
        Ok(factor) if i64::from(i32::MAX) < factor => {
            Err(Error::Config(format!("Replication factor is too large: {factor}")))
        }
        Ok(factor) if 0 <= factor => Ok(factor.to_string()),
        Ok(factor) => {
            Err(Error::Config(format!("Replication factor must be non-negative; found {factor}")))
        }
        Err(_) => Err(Error::Config(format!("Replication factor must be numeric; found {text}"))),
    }
}

/// The tablets of a keyspace that says nothing of them.
fn default_tablets(
    mode: TabletsByDefault,
    replication: &[(String, String)],
) -> Result<Option<u32>, Error> {
    let class = get(replication, "class").map_or("", strategy_name);
    match (mode, class == NETWORK_TOPOLOGY) {
        // What is enforced has an error of its own.
        (TabletsByDefault::No, _) | (TabletsByDefault::Always, false) => Ok(None),
        (TabletsByDefault::Yes | TabletsByDefault::Always, true) => Ok(Some(0)),
        // Nobody has said that this keyspace goes without.
        (TabletsByDefault::Yes, false) => Err(Error::Config(format!(
            "Tablets are not supported with {class}, and new keyspaces have them by default: use \
             {NETWORK_TOPOLOGY}, or say AND tablets = {{'enabled': false}}"
        ))),
    }
}

/// What the statement says about tablets: nothing, none, or how many a table has at first.
fn tablets(
    properties: &Properties<'_>,
    replication: &[(String, String)],
) -> Result<Option<Option<u32>>, Error> {
    let Some(options) = properties.map("tablets")? else { return Ok(None) };
    let mut enabled = None;
    let mut initial = None;
    for (name, value) in &options {
        match name.as_str() {
            "enabled" => enabled = Some(parse_enabled(value)?),
            "initial" => initial = Some(parse_initial(value)?),
            _ => {
                return Err(Error::Config(format!("Unrecognized tablets option {name}")));
            }
        }
    }
    // A number that stays in a statement which disables them is of nothing.
    if enabled == Some(false) {
        return Ok(Some(None));
    }
    let class = get(replication, "class").map_or("", strategy_name);
    if class != NETWORK_TOPOLOGY {
        return Err(Error::Config(format!("Tablets are not supported with {class}")));
    }
    Ok(Some(Some(initial.unwrap_or(0))))
}

fn parse_enabled(value: &str) -> Result<bool, Error> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::Config(format!(
            "Tablets enabled value must be true or false; found: {value}"
        ))),
    }
}

fn parse_initial(value: &str) -> Result<u32, Error> {
    value.parse::<u32>().ok().filter(|count| *count <= cluster::TABLETS_MAX).ok_or_else(|| {
        Error::Config(format!("Initial tablets value should be numeric; found {value}"))
    })
}

fn flavor_change() -> Error {
    Error::invalid("Cannot alter replication strategy vnode/tablets flavor")
}

/// What a keyspace with tablets may get. Its copies change one at a time as long as a node of the
/// cluster counts levels by what the keyspace wants, and not by what each tablet has.
fn check_tablets_step(
    before: &[(String, String)],
    after: &[(String, String)],
    given: &[(String, String)],
    context: &Context,
) -> Result<(), Error> {
    if get(before, "class") != get(after, "class") {
        return Err(flavor_change());
    }
    if get(given, FACTOR).is_some() {
        return Err(Error::invalid(
            "'replication_factor' tag is not allowed when executing ALTER KEYSPACE with tablets, \
             please list the DCs explicitly",
        ));
    }
    // *nothing-by-omission*
    let center = |(name, factor): &&(String, String)| name != "class" && copies(factor) != 0;
    let named = |name: &str| get(given, name).is_some();
    if let Some((center, _)) = before.iter().filter(center).find(|(name, _)| !named(name)) {
        return Err(Error::Config(format!(
            "Attempted to implicitly drop replicas in datacenter {center}. If this is the desired \
             behavior, set replication factor to 0 in {center} explicitly."
        )));
    }
    let copies = |options, center| get(options, center).map_or(0, copies);
    let mut centers: Vec<&str> = before.iter().chain(after).map(|(name, _)| &name[..]).collect();
    centers.sort_unstable();
    centers.dedup();
    let steps = centers.into_iter().filter(|name| *name != "class");
    let moved: i64 =
        steps.map(|center| (copies(after, center) - copies(before, center)).abs()).sum();
    if 1 < moved && !context.changes_many {
        return Err(Error::invalid(
            "Only one DC's RF can be changed at a time and not by more than 1",
        ));
    }
    Ok(())
}
