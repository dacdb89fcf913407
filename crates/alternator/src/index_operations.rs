//! Indexes and the attributes of keys, as requests name them: those that a new table gets, and
//! those that come and go while it is there; how far they are built.

use crate::error::{Error, Kind};
use crate::index::{self, Keys, Wanted};
use crate::json::Json;
use crate::node::{Caller, Node, changed};
use crate::request::Request;
use crate::table::{Table, key_type_name};
use cluster::centers::{self, IllRacked};
use cluster::{Cluster, Schema, SchemaChange, features};
use model::{Keyspace, TableId, Type};
use replication::coordinator::build;

const NAME_BYTES_MAX: usize = 255;
/// What of an update names an index.
const UPDATES: &str = "GlobalSecondaryIndexUpdates";

/// Names and types of attributes.
pub(crate) fn definitions(request: &Request<'_>) -> Result<Vec<(String, Type)>, Error> {
    let list = request.list("AttributeDefinitions")?.ok_or_else(|| {
        Error::validation(
            "One or more parameter values were invalid: AttributeDefinitions is missing",
        )
    })?;
    let mut found: Vec<(String, Type)> = Vec::new();
    for json in list.elements() {
        let part = Request::of(json, "AttributeDefinitions")?;
        let name = part.need_string("AttributeName")?.into_owned();
        let ty = match &*part.need_string("AttributeType")? {
            "S" => Type::Text,
            "N" => Type::Decimal,
            "B" => Type::Blob,
            other => {
                return Err(Error::validation(format!(
                    "1 validation error detected: Value '{other}' at 'attributeDefinitions. \
                     AttributeType' failed to satisfy constraint: Member must satisfy enum value \
                     set: [B, N, S]"
                )));
            }
        };
        if name.is_empty() || NAME_BYTES_MAX < name.len() {
            return Err(Error::validation(format!(
                "AttributeName of AttributeDefinitions must have a length between 1 and \
                 {NAME_BYTES_MAX}"
            )));
        }
        if found.iter().any(|(known, _)| *known == name) {
            return Err(Error::validation(format!(
                "Cannot have two attributes with the same name: Duplicate attribute: {name}"
            )));
        }
        found.push((name, ty));
    }
    Ok(found)
}

/// The key of a table or of a local index: one attribute of the hash, one of the range at most.
pub(crate) fn keys(request: &Request<'_>, definitions: &[(String, Type)]) -> Result<Keys, Error> {
    let keys = keys_up_to(request, definitions, (1, 1))?;
    match &keys.all[..] {
        [(a, _), (b, _)] if a == b => {
            Err(invalid_keys(&format!("both the HASH and the RANGE key have the same name: {a}")))
        }
        _ => Ok(keys),
    }
}

/// The key of a global index, which may have several attributes of each kind.
fn keys_of_global(request: &Request<'_>, definitions: &[(String, Type)]) -> Result<Keys, Error> {
    let most = (index::HASH_KEYS_MAX, index::RANGE_KEYS_MAX);
    let keys = keys_up_to(request, definitions, most)?;
    let mut names: Vec<&String> = keys.all.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two[0] == two[1]) {
        None => Ok(keys),
        Some(two) => {
            Err(invalid_keys(&format!("two attributes of the key have the same name: {}", two[0])))
        }
    }
}

fn invalid_keys(what: &str) -> Error {
    Error::validation(format!("Invalid KeySchema: {what}"))
}

/// A `KeySchema` with as many attributes of each kind at most.
fn keys_up_to(
    request: &Request<'_>,
    definitions: &[(String, Type)],
    (hash_max, range_max): (usize, usize),
) -> Result<Keys, Error> {
    let list = request.list("KeySchema")?;
    let mut keys = Keys::default();
    for json in list.into_iter().flat_map(|list| list.elements()) {
        let part = Request::of(json, "KeySchema")?;
        let (name, kind) = (part.need_string("AttributeName")?, part.need_string("KeyType")?);
        let ranges = keys.all.len() - keys.hash_count;
        match &*kind {
            "HASH" if 0 < ranges => {
                return Err(invalid_keys(&format!("HASH keys must precede RANGE keys: {name}")));
            }
            "HASH" if keys.hash_count < hash_max => keys.hash_count += 1,
            "RANGE" if keys.hash_count == 0 => {
                return Err(invalid_keys(&format!(
                    "The first KeySchemaElement is not a HASH key type: {name} is RANGE"
                )));
            }
            "RANGE" if ranges < range_max => {}
            "HASH" | "RANGE" => {
                let most = if &*kind == "HASH" { hash_max } else { range_max };
                return Err(invalid_keys(&format!(
                    "it may have {most} {kind} keys, and {} in all: {name} is one too many",
                    hash_max + range_max
                )));
            }
            other => {
                return Err(Error::validation(format!(
                    "1 validation error detected: Value '{other}' at 'keySchema.keyType' failed \
                     to satisfy constraint: Member must satisfy enum value set: [HASH, RANGE]"
                )));
            }
        }
        if NAME_BYTES_MAX < name.len() {
            return Err(Error::validation(format!(
                "AttributeName of KeySchema must have a length between 1 and {NAME_BYTES_MAX}"
            )));
        }
        let known = definitions.iter().find(|(known, _)| *known == name);
        let (_, ty) = known.ok_or_else(|| {
            Error::validation(format!(
                "One or more parameter values were invalid: Some index key attributes are not \
                 defined in AttributeDefinitions: {name}"
            ))
        })?;
        keys.all.push((name.into_owned(), ty.clone()));
    }
    match keys.hash_count {
        0 => Err(invalid_keys("The first KeySchemaElement is not a HASH key type: it is empty")),
        _ => Ok(keys),
    }
}

/// Refuses indexes where not all nodes can have them.
pub(crate) fn check_views(node: &Node) -> Result<(), Error> {
    match node.cluster.topology().allows(features::VIEWS) {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "Not all nodes of the cluster can have indexes ({}): upgrade them first",
            features::VIEWS
        ))),
    }
}

/// Why tables of a keyspace can have no indexes: with tablets, views need a replica in each rack.
fn ill_racked(node: &Node, schema: &Schema, keyspace: &str) -> Option<IllRacked> {
    let data_centers = centers::data_centers(&node.cluster.topology(), node.cluster.node());
    let ill = centers::ill_racked(schema, &data_centers);
    ill.into_iter().find(|ill| ill.keyspace == keyspace)
}

/// A keyspace whose tables can have indexes: without tablets, where those would not do. `is_said`:
/// that it has tablets was asked for.
pub(crate) fn with_indexes(
    node: &Node,
    keyspace: Keyspace,
    is_said: bool,
) -> Result<Keyspace, Error> {
    let change = vec![SchemaChange::CreateKeyspace(keyspace.clone())];
    let next = node.schema().after(change, runtime::time::wall_micros(), 1);
    // A keyspace that is there already is refused when it is made.
    let Ok(next) = next else { return Ok(keyspace) };
    match ill_racked(node, &next, &keyspace.name) {
        None => Ok(keyspace),
        Some(ill) if is_said => Err(no_indexes(&ill)),
        Some(_) => Ok(Keyspace { initial_tablets: None, ..keyspace }),
    }
}

fn no_indexes(ill: &IllRacked) -> Error {
    Error::validation(format!("Indexes are not supported on a table with tablets here: {ill}"))
}

/// The indexes of both kinds that a request lists.
pub(crate) fn indexes(
    request: &Request<'_>,
    (table, keys_of_table): (&str, &[(String, Type)]),
    definitions: &[(String, Type)],
) -> Result<Vec<index::Wanted>, Error> {
    let mut found: Vec<index::Wanted> = Vec::new();
    let lists = [("GlobalSecondaryIndexes", false), ("LocalSecondaryIndexes", true)];
    for (list, is_local) in lists {
        let most = if is_local { index::LOCAL_MAX } else { index::GLOBAL_MAX };
        let Some(json) = request.list(list)? else { continue };
        let all: Vec<Json<'_>> = json.elements().collect();
        if all.is_empty() || most < all.len() {
            return Err(Error::validation(format!(
                "One or more parameter values were invalid: {list} must have between 1 and {most} \
                 indexes, not {}",
                all.len()
            )));
        }
        for json in all {
            let table = (table, keys_of_table);
            let of_index = |part: &Request<'_>| match is_local {
                true => keys(part, definitions),
                false => keys_of_global(part, definitions),
            };
            let index = index::Wanted::of(json, is_local, table, of_index)?;
            if found.iter().any(|known| known.name == index.name) {
                return Err(Error::validation(format!(
                    "One or more parameter values were invalid: Duplicate index name: {}",
                    index.name
                )));
            }
            found.push(index);
        }
    }
    Ok(found)
}

/// The views of a table's indexes that all nodes have built.
pub(crate) async fn built_of(table: &Table) -> Vec<TableId> {
    if table.entry.views.is_empty() {
        return Vec::new();
    }
    let told = build::told_by_all().await;
    let has_all = |view: &&TableId| {
        told.iter().all(|it| it.built.as_ref().is_some_and(|built| built.contains(view)))
    };
    table.entry.views.iter().filter(has_all).copied().collect()
}

/// What is asked for of one global index.
enum Update {
    Create(Wanted),
    Delete(String),
}

/// Makes or removes a global index, if the request asks for one; whether it does. What is there of
/// the table goes into a new one while others use both. The caller may read the one that he makes.
pub(crate) async fn change_indexes(
    node: &Node,
    caller: &Caller,
    (table, request): (&Table, &Request<'_>),
) -> Result<bool, Error> {
    let Some(update) = update_of(table, request)? else { return Ok(false) };
    if let Update::Create(_) = &update {
        node.cluster.formed().await;
        check_views(node)?;
        let keyspace = &table.entry.schema.keyspace;
        if let Some(ill) = ill_racked(node, &node.schema(), keyspace) {
            return Err(no_indexes(&ill));
        }
    }
    let (base, id) = (table.entry.schema.id, Cluster::new_table_id());
    let change = move |schema: &Schema| {
        let gone = || Error::new(Kind::ResourceNotFound, "Requested resource not found: its table");
        let entry = schema.table_by_id(base).ok_or_else(gone)?;
        let known: Vec<_> = index::all(schema, &entry.schema, &entry.views).collect();
        let name = match &update {
            Update::Create(wanted) => &wanted.name,
            Update::Delete(name) => name,
        };
        let found = known.iter().find(|(index, _)| index.name == *name);
        match (&update, found) {
            (Update::Create(_), Some(_)) => Err(Error::validation(format!(
                "Attempting to create an index which already exists: {name} already exists"
            ))),
            (Update::Create(wanted), None) => {
                let globals = known.iter().filter(|(index, _)| !index.is_local).count();
                if index::GLOBAL_MAX <= globals {
                    let most = index::GLOBAL_MAX;
                    return Err(Error::new(
                        Kind::LimitExceeded,
                        format!("a table has {most} global secondary indexes at most: {name}"),
                    ));
                }
                Ok(vec![SchemaChange::CreateTable(wanted.view(&entry.schema, id)?)])
            }
            (Update::Delete(_), Some((index, view))) if !index.is_local => {
                let (keyspace, name) = (view.schema.keyspace.clone(), view.schema.name.clone());
                Ok(vec![SchemaChange::DropTable { keyspace, name }])
            }
            (Update::Delete(_), _) => Err(Error::new(
                Kind::ResourceNotFound,
                format!("Requested resource not found: no global secondary index {name}"),
            )),
        }
    };
    changed(node.cluster.change_schema_for(node.creator(caller), change).await).map(|_| true)
}

fn update_of(table: &Table, request: &Request<'_>) -> Result<Option<Update>, Error> {
    let list = request.list(UPDATES)?;
    let all: Vec<Json<'_>> = list.into_iter().flat_map(|list| list.elements()).collect();
    let json = match &all[..] {
        [] => return Ok(None),
        [one] => *one,
        _ => {
            return Err(Error::new(
                Kind::LimitExceeded,
                "Subscriber limit exceeded: Only 1 online index can be created or deleted \
                 simultaneously per table",
            ));
        }
    };
    let members: Vec<_> = json.members().collect();
    let [(what, json)] = &members[..] else {
        return Err(Error::validation(format!(
            "One or more parameter values were invalid: each GlobalSecondaryIndexUpdate of \
             {UPDATES} must have exactly one of Create and Delete"
        )));
    };
    match &**what {
        "Create" => created(table, request, *json).map(|wanted| Some(Update::Create(wanted))),
        "Delete" => {
            let name = Request::of(*json, "Delete")?.need_string("IndexName")?.into_owned();
            Ok(Some(Update::Delete(name)))
        }
        other => Err(Error::validation(format!(
            "One or more parameter values were invalid: GlobalSecondaryIndexUpdate: {other} is not \
             supported"
        ))),
    }
}

fn created(table: &Table, request: &Request<'_>, json: Json<'_>) -> Result<Wanted, Error> {
    let definitions = definitions(request)?;
    let known = || table.key_columns().iter().chain(&*table.indexed);
    for (name, ty) in &definitions {
        if let Some(column) = known().find(|column| column.name == *name && column.ty != *ty) {
            let (before, after) = (key_type_name(&column.ty), key_type_name(ty));
            return Err(Error::validation(format!(
                "One or more parameter values were invalid: Attributes cannot be redefined: {name} \
                 is of type {before} in a key that is there, and {after} here"
            )));
        }
    }
    let of_table = table.key_columns().iter();
    let of_table: Vec<_> = of_table.map(|it| (it.name.clone(), it.ty.clone())).collect();
    let of_index = |part: &Request<'_>| keys_of_global(part, &definitions);
    let wanted = Wanted::of(json, false, (&table.name, &of_table), of_index)?;
    let is_used = |name: &String| {
        wanted.keys.all.iter().any(|(key, _)| key == name) || known().any(|it| it.name == *name)
    };
    match definitions.iter().find(|(name, _)| !is_used(name)) {
        None => Ok(wanted),
        Some((name, _)) => Err(Error::validation(format!(
            "One or more parameter values were invalid: Some AttributeDefinitions are not used: \
             {name} is no key"
        ))),
    }
}
