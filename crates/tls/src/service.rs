//! Which configuration a service uses now, on each shard; and its change while the node runs.
//!
//! Invariants
//!  - *whole-or-old*: files are used together once all of them can be; until then the old ones are.
//!  - *new-trust-new-sessions*: with new files no session of before is resumed.

use crate::config::{self, Ends, Files};
use crate::options::Options;
use runtime::io::fs;
use rustls::{ClientConfig, ServerConfig};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use stdx::HashMap;

/// The configurations of a shard, by the names of the options they come of. In `runtime::local`.
#[derive(Debug, Default)]
struct Services {
    configs: RefCell<HashMap<&'static str, Ends>>,
}

fn services() -> Rc<Services> {
    runtime::local::try_get::<Services>().unwrap_or_else(|| {
        let services = Rc::new(Services::default());
        runtime::local::set(services.clone());
        services
    })
}

/// What the service of `option` uses now on this shard; `None`: it is not encrypted.
pub fn current(option: &'static str) -> Option<Arc<ServerConfig>> {
    services().configs.borrow().get(option).map(|ends| ends.server.clone())
}

/// By what this shard dials now where `option` is of links between nodes; `None`: it has no TLS.
pub fn dialing(option: &'static str) -> Option<Arc<ClientConfig>> {
    services().configs.borrow().get(option).and_then(|ends| ends.client.clone())
}

/// Keeps the configuration of one service, from shard 0.
#[derive(Debug)]
pub struct Keeper {
    option: &'static str,
    options: Options,
    used: Files,
    /// What was found wrong at the last look, so that it is told once.
    complaint: Option<String>,
}

impl Keeper {
    /// Reads the files of an option and has every shard use them. The error names option, file and
    /// place.
    pub async fn start(option: &'static str, options: Options) -> Result<Keeper, String> {
        let named = |error: String| format!("option {option}: {error}");
        let used = read(&options).await.map_err(named)?;
        give(option, &options, &used).await.map_err(named)?;
        Ok(Keeper { option, options, used, complaint: None })
    }

    /// The option it keeps.
    pub fn option(&self) -> &'static str {
        self.option
    }

    /// Looks at the files, and has every shard use them if they have changed (*whole-or-old*);
    /// whether they had, or why they are not used. A complaint is told once.
    pub async fn look(&mut self) -> Result<bool, Option<String>> {
        let changed = match read(&self.options).await {
            Ok(found) if found == self.used => {
                self.complaint = None;
                return Ok(false);
            }
            Ok(found) => give(self.option, &self.options, &found).await.map(|()| self.used = found),
            Err(error) => Err(error),
        };
        let Err(error) = changed else {
            self.complaint = None;
            return Ok(true);
        };
        let is_new = self.complaint.as_ref() != Some(&error);
        self.complaint = Some(error.clone());
        let option = self.option;
        Err(is_new.then(|| format!("option {option}: {error}; the old files are used")))
    }

    /// What the operator should know of the certificate.
    pub fn warning(&self) -> Option<String> {
        let now = runtime::time::wall_micros() / 1_000_000;
        let warning = config::warning(&self.options, &self.used, now)?;
        Some(format!("option {}: {warning}", self.option))
    }
}

async fn read(options: &Options) -> Result<Files, String> {
    let truststore = match &options.truststore {
        Some(path) => Some(read_file(path).await?),
        None => None,
    };
    let revoked = match &options.revoked {
        Some(path) => Some(read_file(path).await?),
        None => None,
    };
    let certificate = read_file(&options.certificate).await?;
    let key = read_file(&options.keyfile).await?;
    Ok(Files { certificate, key, truststore, revoked })
}

async fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    fs::read_file(path).await.map_err(|error| error.to_string())
}

async fn give(option: &'static str, options: &Options, files: &Files) -> Result<(), String> {
    let (options, files) = (options.clone(), files.clone());
    // *aside*: keys are checked against certificates.
    let ends = runtime::task::compute(move || config::ends(&options, &files)).await?;
    runtime::on_all_shards(move || {
        let ends = ends.clone();
        async move {
            services().configs.borrow_mut().insert(option, ends);
        }
    })
    .await;
    Ok(())
}
