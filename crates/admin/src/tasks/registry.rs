//! What tasks there are and how they go on. Pure: callers say what time it is.
//!
//! Invariants
//!  - *bounded*: at most [`TASKS_MAX`] tasks; where one more is wanted, the root that ended first
//!    goes with all that is below it, and if none has ended the new one is refused.
//!  - *folded*: of what is below a task that has ended and has a parent, only what failed is kept,
//!    and what leads to it; what it had done is in the progress of the task.
//!  - *held*: a task that somebody waits for is kept until that one has seen how it ended.
//!  - *as-its-jobs*: a task whose work is compaction jobs is as far as these are, and one that did
//!    not end well stays where it was.

use model::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of all modules at the same time.
pub(crate) const TASKS_MAX: usize = 10_000;
/// Why an aborted task failed.
pub(crate) const ABORTED: &str = "abort requested";

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Created,
    Running,
    Done,
    /// And why.
    Failed(String),
}

impl State {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            State::Created => "created",
            State::Running => "running",
            State::Done => "done",
            State::Failed(_) => "failed",
        }
    }

    pub(crate) fn is_final(&self) -> bool {
        matches!(self, State::Done | State::Failed(_))
    }
}

/// What a task is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// What is done, in words.
    pub(crate) kind: String,
    /// What it is done to: `node`, `keyspace`, `shard`, `table`.
    pub(crate) scope: &'static str,
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) entity: String,
    pub(crate) shard: u16,
    /// Whether it can be aborted.
    pub(crate) abortable: bool,
    /// Whether somebody asked for it: such tasks are kept longer.
    pub(crate) of_user: bool,
    /// What progress counts.
    pub(crate) units: &'static str,
    /// What the storage calls the jobs that are its work; none, of others.
    pub(crate) jobs: &'static [&'static str],
}

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) completed: f64,
    pub(crate) total: f64,
}

/// A compaction job of a shard, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    /// As the storage calls it.
    pub(crate) kind: &'static str,
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) shard: u16,
    /// Of its inputs: all, and done.
    pub(crate) bytes: f64,
    pub(crate) bytes_done: f64,
    /// Of all SSTables of the table on the shard.
    pub(crate) table_bytes: f64,
}

/// The jobs that a task was seen to have.
#[derive(Clone, Debug, Default, PartialEq)]
struct Jobs {
    /// The most that all SSTables of the table had.
    table_bytes: f64,
    /// How much each has, and has done.
    seen: BTreeMap<Uuid, (f64, f64)>,
}

impl Jobs {
    /// What has been done, as a part of one. A job that is not there any more has ended.
    fn look<'j>(&mut self, now: impl Iterator<Item = &'j Job>) -> f64 {
        self.seen.values_mut().for_each(|(bytes, done)| *done = *bytes);
        for job in now {
            self.table_bytes = self.table_bytes.max(job.table_bytes);
            self.seen.insert(job.id, (job.bytes, job.bytes_done));
        }
        let sum = |of: fn(&(f64, f64)) -> f64| self.seen.values().map(of).sum::<f64>();
        let (all, done) = (sum(|one| one.0), sum(|one| one.1));
        done / all.max(self.table_bytes).max(1.0)
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) id: Uuid,
    pub(crate) module: String,
    pub(crate) parent: Option<Uuid>,
    pub(crate) children: Vec<Uuid>,
    pub(crate) sequence: u64,
    pub(crate) about: About,
    pub(crate) state: State,
    /// Milliseconds since 1970.
    pub(crate) created: i64,
    pub(crate) started: Option<i64>,
    pub(crate) ended: Option<i64>,
    /// Whether it is to end.
    pub(crate) is_aborted: bool,
    /// What is wrong with the data, where it has found something; it may be done all the same.
    pub(crate) found: Option<String>,
    own: Progress,
    jobs: Jobs,
    /// Of children that were folded.
    folded: Progress,
    /// Whether it can be asked for by itself.
    listed: bool,
    waiting: usize,
    /// Its place in the order.
    place: u64,
}

/// Why a task is not what was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unknown(Uuid),
    NoModule(String),
    NotAbortable(Uuid),
    Full,
}

/// All tasks.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// With the last number of a task of each shard.
    modules: BTreeMap<String, BTreeMap<u16, u64>>,
    tasks: BTreeMap<Uuid, Task>,
    /// In the order of their creation.
    order: BTreeMap<u64, Uuid>,
    /// Roots that have ended.
    ended: BTreeSet<Uuid>,
    /// So many tasks were created.
    created: u64,
    /// Milliseconds for which tasks are kept that have ended.
    pub(crate) ttl: i64,
    /// The same of those that somebody asked for.
    pub(crate) user_ttl: i64,
}

impl Registry {
    pub(crate) fn new(modules: &[&str], ttl: i64, user_ttl: i64) -> Registry {
        let named = modules.iter().map(|name| ((*name).to_owned(), BTreeMap::new()));
        Registry { modules: named.collect(), ttl, user_ttl, ..Registry::default() }
    }

    pub(crate) fn add_module(&mut self, name: &str) {
        self.modules.entry(name.to_owned()).or_default();
    }

    /// Forgets a module with all its tasks.
    pub(crate) fn remove_module(&mut self, name: &str) {
        self.modules.remove(name);
        let roots: Vec<Uuid> = self.roots(|task| task.module == name);
        roots.into_iter().for_each(|id| self.remove(id));
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// A new task, of a module or below another task, whose number it gets.
    pub(crate) fn create(
        &mut self,
        id: Uuid,
        module: &str,
        parent: Option<Uuid>,
        about: About,
        now: i64,
    ) -> Result<(), Refusal> {
        self.expire(now);
        if TASKS_MAX <= self.tasks.len() {
            let ended = self.ended.iter().filter_map(|id| self.tasks.get(id));
            let first = ended.min_by_key(|task| task.ended).map(|task| task.id);
            let first = first.ok_or(Refusal::Full)?;
            self.remove(first);
        }
        let numbers =
            self.modules.get_mut(module).ok_or_else(|| Refusal::NoModule(module.to_owned()))?;
        let above = match parent {
            Some(parent) => Some(self.tasks.get_mut(&parent).ok_or(Refusal::Unknown(parent))?),
            None => None,
        };
        let (sequence, is_aborted) = match above {
            Some(above) => {
                above.children.push(id);
                (above.sequence, above.is_aborted)
            }
            None => {
                let last = numbers.entry(about.shard).or_default();
                *last += 1;
                (*last, false)
            }
        };
        let task = Task {
            id,
            module: module.to_owned(),
            parent,
            children: Vec::new(),
            sequence,
            about,
            state: State::Created,
            created: now,
            started: None,
            ended: None,
            is_aborted,
            found: None,
            own: Progress { completed: 0.0, total: 1.0 },
            jobs: Jobs::default(),
            folded: Progress::default(),
            listed: true,
            waiting: 0,
            place: self.created,
        };
        self.order.insert(self.created, id);
        self.created += 1;
        self.tasks.insert(id, task);
        Ok(())
    }

    pub(crate) fn start(&mut self, id: Uuid, now: i64) {
        if let Some(task) = self.tasks.get_mut(&id)
            && task.state == State::Created
        {
            (task.state, task.started) = (State::Running, Some(now));
        }
    }

    /// Says how far a task without children is.
    pub(crate) fn note_progress(&mut self, id: Uuid, completed: f64, total: f64) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.own = Progress { completed: completed.min(total), total };
        }
    }

    /// Whether some task runs that is as far as its jobs are.
    pub(crate) fn has_jobs(&self) -> bool {
        self.tasks.values().any(Registry::is_of_jobs)
    }

    fn is_of_jobs(task: &Task) -> bool {
        !task.about.jobs.is_empty() && task.children.is_empty() && !task.state.is_final()
    }

    /// These are all the jobs that run now (*as-its-jobs*).
    pub(crate) fn look_at_jobs(&mut self, jobs: &[Job]) {
        for task in self.tasks.values_mut().filter(|task| Registry::is_of_jobs(task)) {
            let about = &task.about;
            let its = jobs.iter().filter(|job| {
                let is_place = job.shard == about.shard && job.keyspace == about.keyspace;
                is_place && job.table == about.table && about.jobs.contains(&job.kind)
            });
            let part = task.jobs.look(its);
            task.own.completed = (part * task.own.total).clamp(task.own.completed, task.own.total);
        }
    }

    /// Says that a task has found something wrong with the data.
    pub(crate) fn note_found(&mut self, id: Uuid, what: String) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.found = Some(what);
        }
    }

    /// A task has ended. What was below it is folded.
    pub(crate) fn end(&mut self, id: Uuid, result: Result<(), String>, now: i64) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if task.state.is_final() {
            return;
        }
        task.state = match result {
            Ok(()) => State::Done,
            // What it was doing has words of its own for that.
            Err(_) if task.is_aborted => State::Failed(ABORTED.to_owned()),
            Err(why) => State::Failed(why),
        };
        task.ended = Some(now);
        if task.state == State::Done {
            task.own.completed = task.own.total;
        }
        if task.parent.is_some() {
            self.fold(id);
        } else {
            self.ended.insert(id);
        }
        self.expire(now);
    }

    fn fold(&mut self, id: Uuid) {
        let children = self.tasks.get(&id).map(|task| task.children.clone()).unwrap_or_default();
        let (kept, gone): (Vec<Uuid>, Vec<Uuid>) = children.into_iter().partition(|child| {
            self.tasks
                .get(child)
                .is_some_and(|child| child.state != State::Done || !child.children.is_empty())
        });
        let mut folded = Progress::default();
        for child in gone {
            let progress = self.progress(child);
            folded.completed += progress.completed;
            folded.total += progress.total;
            self.remove(child);
        }
        if let Some(task) = self.tasks.get_mut(&id) {
            task.children = kept;
            task.folded.completed += folded.completed;
            task.folded.total += folded.total;
        }
    }

    /// A number for what is done without a task.
    pub(crate) fn next_number(&mut self, module: &str, shard: u16) -> Result<u64, Refusal> {
        let numbers = self.modules.get_mut(module);
        let numbers = numbers.ok_or_else(|| Refusal::NoModule(module.to_owned()))?;
        let last = numbers.entry(shard).or_default();
        *last += 1;
        Ok(*last)
    }

    /// The last number that was given; 0: none was.
    pub(crate) fn last_number(&self, module: &str, shard: u16) -> u64 {
        self.modules.get(module).and_then(|numbers| numbers.get(&shard)).copied().unwrap_or(0)
    }

    /// How far a task is: the sum of what is below it, or what it says itself.
    pub(crate) fn progress(&self, id: Uuid) -> Progress {
        let Some(task) = self.tasks.get(&id) else { return Progress::default() };
        if task.children.is_empty() && task.folded.total == 0.0 {
            return task.own;
        }
        let below = task.children.iter().map(|child| self.progress(*child));
        let sum = below.fold(task.folded, |sum, one| Progress {
            completed: sum.completed + one.completed,
            total: sum.total + one.total,
        });
        // What it is to do may not have begun yet.
        Progress { total: sum.total.max(task.own.total), ..sum }
    }

    /// A task and all below it are to end.
    pub(crate) fn abort(&mut self, id: Uuid) -> Result<(), Refusal> {
        let task = self.asked(id)?;
        if task.state.is_final() {
            return Ok(());
        }
        if !task.about.abortable {
            return Err(Refusal::NotAbortable(id));
        }
        for id in self.below(id) {
            if let Some(task) = self.tasks.get_mut(&id) {
                task.is_aborted = true;
            }
        }
        Ok(())
    }

    /// A task that may be asked for by its id.
    pub(crate) fn asked(&self, id: Uuid) -> Result<&Task, Refusal> {
        self.tasks.get(&id).filter(|task| task.listed).ok_or(Refusal::Unknown(id))
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<&Task> {
        self.tasks.get(&id)
    }

    /// A task and all below it, those above before those below.
    pub(crate) fn below(&self, id: Uuid) -> Vec<Uuid> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(id) = found.get(next) {
            found.extend(self.tasks.get(id).iter().flat_map(|task| &task.children));
            next += 1;
        }
        found
    }

    /// The tasks of a module, in the order of their creation; with `internal` those below others
    /// too.
    pub(crate) fn of_module(&self, name: &str, internal: bool) -> Result<Vec<&Task>, Refusal> {
        if !self.modules.contains_key(name) {
            return Err(Refusal::NoModule(name.to_owned()));
        }
        let all = self.order.values().filter_map(|id| self.tasks.get(id));
        let wanted = |task: &&Task| {
            task.module == name && task.listed && (internal || task.parent.is_none())
        };
        Ok(all.filter(wanted).collect())
    }

    /// Somebody waits for a task, until [`Registry::release`].
    pub(crate) fn hold(&mut self, id: Uuid) -> Result<(), Refusal> {
        self.asked(id)?;
        if let Some(task) = self.tasks.get_mut(&id) {
            task.waiting += 1;
        }
        Ok(())
    }

    pub(crate) fn release(&mut self, id: Uuid, now: i64) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.waiting = task.waiting.saturating_sub(1);
        }
        self.expire(now);
    }

    /// Takes a task from the list. A root goes with all below it; others go with their root.
    pub(crate) fn unlist(&mut self, id: Uuid) -> Result<(), Refusal> {
        if self.asked(id)?.parent.is_none() {
            self.remove(id);
        } else if let Some(task) = self.tasks.get_mut(&id) {
            task.listed = false;
        }
        Ok(())
    }

    /// Forgets the tasks of a module that have ended.
    pub(crate) fn drain(&mut self, name: &str) -> Result<(), Refusal> {
        if !self.modules.contains_key(name) {
            return Err(Refusal::NoModule(name.to_owned()));
        }
        let ended =
            self.roots(|task| task.module == name && task.state.is_final() && task.waiting == 0);
        ended.into_iter().for_each(|id| self.remove(id));
        Ok(())
    }

    /// Forgets the tasks that have ended long enough ago.
    pub(crate) fn expire(&mut self, now: i64) {
        let (ttl, user_ttl) = (self.ttl, self.user_ttl);
        let is_over = |task: &&Task| {
            let span = if task.about.of_user { user_ttl } else { ttl };
            let over = task.ended.is_some_and(|ended| ended.saturating_add(span) <= now);
            over && task.waiting == 0
        };
        let ended = self.ended.iter().filter_map(|id| self.tasks.get(id));
        let over: Vec<Uuid> = ended.filter(is_over).map(|task| task.id).collect();
        over.into_iter().for_each(|id| self.remove(id));
    }

    fn roots(&self, wanted: impl Fn(&Task) -> bool) -> Vec<Uuid> {
        let all = self.tasks.values().filter(|task| task.parent.is_none() && wanted(task));
        all.map(|task| task.id).collect()
    }

    /// Forgets a task and all below it.
    fn remove(&mut self, id: Uuid) {
        let gone = self.below(id);
        for id in &gone {
            if let Some(task) = self.tasks.remove(id) {
                self.order.remove(&task.place);
                self.ended.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
