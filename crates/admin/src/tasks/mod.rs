//! The tasks of operators: what runs long is a task, which can be listed, waited for and aborted.
//!
//! In reading order: `registry` (what tasks there are; pure), [`Tasks`] (runs them), [`Running`]
//! (what a task sees of itself).
//!
//! Invariants
//!  - *all-end*: a task whose work goes away before its end has failed.

mod registry;

use cluster::uuids::random_uuid;
use model::Uuid;
pub(crate) use registry::{ABORTED, About, Job, Progress, Refusal, Registry, State, Task};
use runtime::sync::Notify;
use runtime::task::Scope;
use runtime::time::{timeout, wall_micros};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use storage::{RunningCompaction, Storage};

/// The modules that tasks belong to.
pub(crate) const COMPACTION: &str = "compaction";
pub(crate) const REPAIR: &str = "repair";
pub(crate) const SNAPSHOT: &str = "snapshot";
/// Nodes that join and leave.
pub(crate) const NODE_OPS: &str = "node_ops";

/// What all nodes do for the whole cluster.
pub(crate) const GLOBAL_REQUESTS: &str = "global_topology_requests";

/// Keyspaces that are given tablets.
pub(crate) const CONVERSIONS: &str = "vnodes_to_tablets_migration";

const MODULES: [&str; 6] = [COMPACTION, GLOBAL_REQUESTS, NODE_OPS, REPAIR, SNAPSHOT, CONVERSIONS];

/// What an abort does beside telling the task.
type Stop = Box<dyn Fn()>;

/// The tasks of the node, on shard 0. Stands in `runtime::local`.
pub(crate) struct Tasks {
    registry: RefCell<Registry>,
    stops: RefCell<BTreeMap<Uuid, Stop>>,
    /// Some task has ended.
    ended: Notify,
    scope: Scope,
}

fn now() -> i64 {
    wall_micros().div_euclid(1000)
}

impl Tasks {
    /// Of this shard; made when it is asked for first.
    pub(crate) fn of_shard() -> Rc<Tasks> {
        runtime::local::try_get::<Tasks>().unwrap_or_else(|| {
            let secs = |name: &str, default| 1000 * option_secs(name).unwrap_or(default);
            let ttl = secs("task_ttl_in_seconds", 0);
            let user_ttl = secs("user_task_ttl_in_seconds", 3600);
            let tasks = Rc::new(Tasks {
                registry: RefCell::new(Registry::new(&MODULES, ttl, user_ttl)),
                stops: RefCell::default(),
                ended: Notify::new(),
                scope: Scope::new(),
            });
            runtime::local::set(tasks.clone());
            tasks
        })
    }

    /// What there is now.
    pub(crate) fn registry(&self) -> Ref<'_, Registry> {
        self.registry.borrow_mut().expire(now());
        self.registry.borrow()
    }

    pub(crate) fn change(&self) -> RefMut<'_, Registry> {
        let mut registry = self.registry.borrow_mut();
        registry.expire(now());
        registry
    }

    /// A task that runs from now on, and that whoever asked for it has to end.
    pub(crate) fn begin(
        self: &Rc<Self>,
        module: &str,
        parent: Option<Uuid>,
        about: About,
    ) -> Result<Running, Refusal> {
        let id = random_uuid();
        self.change().create(id, module, parent, about, now())?;
        self.change().start(id, now());
        let module = module.to_owned();
        Ok(Running { tasks: self.clone(), id, module, is_ended: false })
    }

    /// Runs work as a task. It goes on when nobody waits for it any more.
    pub(crate) fn spawn<F, Fut>(
        self: &Rc<Self>,
        module: &str,
        about: About,
        stop: Option<Stop>,
        work: F,
    ) -> Result<Uuid, Refusal>
    where
        F: FnOnce(Rc<Running>) -> Fut + 'static,
        Fut: Future<Output = Result<(), String>> + 'static,
    {
        let running = Rc::new(self.begin(module, None, about)?);
        let id = running.id;
        if let Some(stop) = stop {
            self.stops.borrow_mut().insert(id, stop);
        }
        self.scope.spawn_in(runtime::group::BACKGROUND, async move {
            let result = work(running.clone()).await;
            running.end(result);
        });
        Ok(id)
    }

    /// Ends a task.
    pub(crate) fn end(&self, id: Uuid, result: Result<(), String>) {
        self.stops.borrow_mut().remove(&id);
        self.registry.borrow_mut().end(id, result, now());
        self.ended.notify_all();
    }

    /// Tells a task to end, and what it is doing.
    pub(crate) fn abort(&self, id: Uuid) -> Result<(), Refusal> {
        self.change().abort(id)?;
        if let Some(stop) = self.stops.borrow().get(&id) {
            stop();
        }
        Ok(())
    }

    /// The task as it has ended; `None`: it has not within that time.
    pub(crate) async fn wait(
        &self,
        id: Uuid,
        span: Option<Duration>,
    ) -> Result<Option<Task>, Refusal> {
        self.change().hold(id)?;
        let held = Held { tasks: self, id };
        let ended = async {
            loop {
                let notified = self.ended.notified();
                match self.registry.borrow().get(id) {
                    Some(task) if !task.state.is_final() => {}
                    other => return other.cloned(),
                }
                notified.await;
            }
        };
        let found = match span {
            Some(span) => timeout(span, ended).await.ok(),
            None => Some(ended.await),
        };
        drop(held);
        match found {
            Some(None) => Err(Refusal::Unknown(id)),
            Some(ended) => Ok(ended),
            None => Ok(None),
        }
    }

    /// Has tasks be as far as the compaction jobs that are their work. Whoever shows progress calls
    /// this before.
    pub(crate) async fn look_at_jobs(&self) {
        if !self.registry.borrow().has_jobs() {
            return;
        }
        let asked = runtime::on_all_shards(|| async { jobs_of_shard() }).await;
        let jobs: Vec<Job> = asked.into_iter().flatten().collect();
        self.registry.borrow_mut().look_at_jobs(&jobs);
    }

    /// Does something that nobody waits for.
    pub(crate) fn background(&self, work: impl Future<Output = ()> + 'static) {
        drop(self.scope.spawn_in(runtime::group::BACKGROUND, work));
    }

    /// Ends all tasks.
    pub(crate) async fn stop(&self) {
        self.scope.cancel().await;
    }
}

/// The compaction jobs of this shard.
fn jobs_of_shard() -> Vec<Job> {
    let Some(storage) = runtime::local::try_get::<Storage>() else { return Vec::new() };
    let job = |job: RunningCompaction| Job {
        id: job.id,
        kind: job.kind,
        shard: runtime::shard_id(),
        bytes: job.bytes_in as f64,
        bytes_done: job.bytes_in as f64 * job.done(),
        table_bytes: storage.table_stats(job.table).map_or(0, |stats| stats.sstable_bytes) as f64,
        keyspace: job.keyspace,
        table: job.name,
    };
    storage.running_compactions().into_iter().map(job).collect()
}

fn option_secs(name: &str) -> Option<i64> {
    let shown = cluster::Settings::of_shard().shown();
    shown.into_iter().find(|option| option.name == name)?.value.parse().ok()
}

/// Somebody waits for a task.
struct Held<'t> {
    tasks: &'t Tasks,
    id: Uuid,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.tasks.registry.borrow_mut().release(self.id, now());
    }
}

/// A task that runs, as its work sees it.
pub(crate) struct Running {
    tasks: Rc<Tasks>,
    pub(crate) id: Uuid,
    module: String,
    is_ended: bool,
}

impl Running {
    /// A task below this one.
    pub(crate) fn child(&self, about: About) -> Result<Running, String> {
        let made = self.tasks.begin(&self.module, Some(self.id), about);
        made.map_err(|refusal| refusal.to_string())
    }

    /// An error if it is to end.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.tasks.registry.borrow().get(self.id) {
            Some(task) if !task.is_aborted => Ok(()),
            _ => Err(ABORTED.to_owned()),
        }
    }

    /// Runs work as the whole of this task.
    pub(crate) async fn through<T>(
        mut self,
        work: impl AsyncFnOnce(&Running) -> Result<T, String>,
    ) -> Result<T, String> {
        let result = work(&self).await;
        self.is_ended = true;
        let told = result.as_ref().map(|_| ()).map_err(String::clone);
        self.tasks.end(self.id, told);
        result
    }

    fn end(&self, result: Result<(), String>) {
        self.tasks.end(self.id, result);
    }

    pub(crate) fn note_progress(&self, completed: f64, total: f64) {
        self.tasks.registry.borrow_mut().note_progress(self.id, completed, total);
    }

    /// Says that it has found something wrong with the data.
    pub(crate) fn note_found(&self, what: String) {
        self.tasks.registry.borrow_mut().note_found(self.id, what);
    }

    /// Leaves it to others to end the task.
    pub(crate) fn leave(mut self) -> Uuid {
        self.is_ended = true;
        self.id
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_ended {
            // Without effect on one that has ended.
            self.tasks.end(self.id, Err("it was abandoned".to_owned()));
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Unknown(id) => write!(f, "task with id {id} not found"),
            Refusal::NoModule(name) => write!(f, "module {name} not found"),
            Refusal::NotAbortable(id) => write!(f, "task with id {id} is not abortable"),
            Refusal::Full => f.write_str("too many tasks run: wait until one of them ends"),
        }
    }
}
