//! Checking and mending SSTables.

use super::upkeep::targets;
use crate::arguments::{KEYSPACE, Opt, TABLES};
use crate::entry::Entry;
use crate::failure::{Done, Failure, wrong};
use crate::session::{Parameters, Session, of_tables};

pub(super) const COMMANDS: &[Entry] = &[Entry {
    name: "scrub",
    about: "Validate or scrub the SSTables of tables",
    options: OPTIONS,
    places: &[KEYSPACE, TABLES],
    run: |session| Box::pin(scrub(session)),
}];

const OPTIONS: &[Opt] = &[
    Opt::text("mode", &["-m"], "ABORT, SKIP, SEGREGATE or VALIDATE"),
    Opt::text("quarantine-mode", &["-q"], "INCLUDE, EXCLUDE or ONLY what is in quarantine"),
    Opt::flag("no-snapshot", &["-ns"], "Take no snapshot first"),
    Opt::flag("skip-corrupted", &["-s"], "The same as --mode SKIP"),
    Opt::flag("drop-unfixable-sstables", &[], "Remove what cannot be mended; with SEGREGATE"),
    Opt::truth("quarantine-invalid-sstables", &[], "Put what is invalid aside; with VALIDATE"),
    Opt::flag("reinsert-overflowed-ttl", &["-r"], "Ignored"),
    Opt::text("jobs", &["-j"], "Ignored: the node decides"),
    Opt::flag("no-validate", &["-n"], "Ignored"),
];

/// How a scrub ended, as numbers of the API.
const ABORTED: u64 = 1;
const INVALID: u64 = 3;

async fn scrub(session: &mut Session) -> Done {
    let (keyspaces, tables) = targets(session).await?;
    let chosen = parameters(session)?;
    // One that fails does not keep the others from it.
    let mut failed = None;
    for keyspace in keyspaces {
        let mut parameters = of_tables("cf", &tables);
        parameters.extend(chosen.iter().cloned());
        let ended =
            session.get_with("/storage_service/keyspace_scrub", &[&keyspace], parameters).await?;
        match ended.as_u64() {
            Some(ABORTED) => failed = failed.or(Some("scrub failed: aborted")),
            Some(INVALID) => failed = failed.or(Some("scrub failed: there are invalid sstables")),
            _ => {}
        }
    }
    failed.map_or(Ok(()), |what| Err(Failure::Operation(what.to_string())))
}

fn parameters(session: &Session) -> Result<Parameters<'static>, Failure> {
    let given = &session.given;
    let mut parameters = Vec::new();
    let mode = match (given.text("mode"), given.flag("skip-corrupted")) {
        (Some(_), true) => return wrong("cannot use --skip-corrupted when --mode is used"),
        (None, true) => Some("SKIP"),
        (mode, false) => mode,
    };
    if let Some(mode) = mode {
        parameters.push(("scrub_mode", mode.to_string()));
    }
    if let Some(quarantine) = given.text("quarantine-mode") {
        parameters.push(("quarantine_mode", quarantine.to_string()));
    }
    if given.flag("no-snapshot") {
        parameters.push(("disable_snapshot", "true".to_string()));
    }
    if given.flag("drop-unfixable-sstables") {
        if mode != Some("SEGREGATE") {
            return wrong("--drop-unfixable-sstables is only valid with --mode=SEGREGATE");
        }
        parameters.push(("drop_unfixable_sstables", "true".to_string()));
    }
    if let Some(truth) = given.text("quarantine-invalid-sstables") {
        if mode != Some("VALIDATE") {
            return wrong("--quarantine-invalid-sstables is only valid with --mode=VALIDATE");
        }
        parameters.push(("quarantine_invalid_sstables", truth.to_string()));
    }
    Ok(parameters)
}
