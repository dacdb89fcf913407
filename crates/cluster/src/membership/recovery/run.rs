//! The command: who is left is asked, and, when it is to be done, the one that has the most asks
//! for promises, begins the next generation, and tells the others.
//!
//! Invariants: those of [`super`], and
//!  - *looks-first*: nothing is promised or begun where the survey says that it cannot be, or has
//!    not to be.
//!  - *again*: one that failed anywhere can be run again, on whichever node.

use super::decide::{Standing, next_number};
use super::form::{Ask, Said};
use super::report::{Report, Survey};
use super::take::{ANSWER_MAX, RUN_MAX};
use crate::membership::Membership;
use crate::uuids::time_uuid_now;
use model::Uuid;
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Rounds of questions about whom the others know.
const ROUNDS_MAX: usize = 4;
/// How often a promise is asked for, where no answer comes.
const TRIES: usize = 3;
/// How long the new generation may take until it works.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether it does: an operator waits, and nobody else.
const SETTLE_LOOK: Duration = Duration::from_millis(50);

/// Looks what a recovery would do that leaves out these nodes, and does it if it is to. From any
/// shard. The error says why there is not even a report.
pub async fn recover(lost: BTreeSet<Uuid>, executes: bool) -> Result<Report, String> {
    runtime::on_shard(0, move || async move {
        let membership = runtime::local::try_get::<Membership>();
        let Some(membership) = membership else {
            return Err("this node takes no part in a group".to_owned());
        };
        membership.look_or_recover(lost, executes).await
    })
    .await
}

/// Waits until this node is no longer one of its cluster, and tells why. On shard 0.
pub async fn expelled() -> String {
    debug_assert!(runtime::shard_id() == 0, "same-everywhere: membership is of shard 0");
    loop {
        let Some(membership) = runtime::local::try_get::<Membership>() else {
            return std::future::pending().await;
        };
        if let Some(why) = membership.expelled.borrow().clone() {
            return why;
        }
        membership.expulsion.notified().await;
    }
}

impl Membership {
    /// How all stand that answer, those among them that are said to be lost.
    async fn survey(&self, named: &BTreeSet<Uuid>) -> Result<BTreeMap<Uuid, Standing>, String> {
        let me = self.cluster.node().host_id;
        let own = self.standing().await?;
        let mut to_ask: BTreeSet<Uuid> = own.known.union(named).copied().collect();
        let mut all = BTreeMap::from([(me, own)]);
        let mut asked = BTreeSet::from([me]);
        for _ in 0..ROUNDS_MAX {
            let now: Vec<Uuid> = to_ask.difference(&asked).copied().collect();
            if now.is_empty() {
                break;
            }
            asked.extend(now.iter().copied());
            let questions = now.iter().map(|it| self.ask_about(*it, &Ask::Look, ANSWER_MAX));
            let answers = join_all(questions).await;
            for (of, said) in now.into_iter().zip(answers) {
                if let Ok(Said { standing, .. }) = said {
                    to_ask.extend(standing.known.iter().copied());
                    all.insert(of, standing);
                }
            }
        }
        debug_assert!(all.contains_key(&me), "asked-now: this node is not there");
        Ok(all)
    }

    async fn look_or_recover(
        &self,
        lost: BTreeSet<Uuid>,
        executes: bool,
    ) -> Result<Report, String> {
        let all = self.survey(&lost).await?;
        let me = self.cluster.node().host_id;
        let survey = Survey { me, all: &all, named: &lost };
        let mut report = survey.report();
        if !executes || report.refused.is_some() {
            return Ok(report);
        }
        if lost.is_empty() && !report.lost.is_empty() {
            report.refused = Some("the nodes that are lost have to be named".to_owned());
            return Ok(report);
        }
        let best = survey.best();
        debug_assert!(!lost.contains(&best), "looks-first: {best} is lost");
        let outcome = match best == me {
            true => self.run_here(lost).await,
            false => {
                let said = self.ask_about(best, &Ask::Run(lost), RUN_MAX).await;
                said.map_err(|error| format!("node {best} was to begin: {error}"))
                    .and_then(|said| said.outcome)
            }
        };
        match outcome {
            Ok(done) => report.done = Some(done),
            Err(why) => report.refused = Some(why),
        }
        Ok(report)
    }

    /// Recovers with this node as the candidate; what was done.
    pub(super) async fn run_here(&self, lost: BTreeSet<Uuid>) -> Result<String, String> {
        let me = self.cluster.node().host_id;
        // *looks-first*, on what this node finds out itself.
        let all = self.survey(&lost).await?;
        let survey = Survey { me, all: &all, named: &lost };
        let report = survey.report();
        if let Some(why) = report.refused {
            return Err(why);
        }
        // Somebody has heard of a generation that this node has not.
        let newest = all.values().map(|it| &it.generation).max_by_key(|it| it.number);
        if let Some(newest) = newest.filter(|it| all[&me].generation.number < it.number) {
            self.hear(newest).await?;
            // Where it has promised a later one, it goes on to one that is later still.
            if self.generation.borrow().number == newest.number {
                let number = newest.number;
                return Err(format!(
                    "generation {number} was begun already, and this node takes it over: look again"
                ));
            }
        }
        let plan = survey.plan(next_number(all.values()));
        if plan.candidate != me {
            return Err(format!("node {} has more: run it there", plan.candidate));
        }
        assert!(!plan.lost.contains(&me), "looks-first: {me} is lost, and the candidate");
        self.promise(&plan).await?;
        let others: Vec<Uuid> = plan.survivors.iter().copied().filter(|it| *it != me).collect();
        let (mut promised, mut refusals) = (BTreeSet::from([me]), BTreeMap::new());
        for _ in 0..TRIES {
            let missing = others.iter().filter(|it| !promised.contains(it)).copied();
            let missing: Vec<Uuid> = missing.collect();
            let ask = Ask::Promise(plan.clone());
            let asked = missing.iter().map(|it| self.ask_about(*it, &ask, ANSWER_MAX));
            for (of, said) in missing.iter().zip(join_all(asked).await) {
                match said {
                    Ok(Said { outcome: Ok(_), .. }) => _ = promised.insert(*of),
                    Ok(Said { outcome: Err(why), .. }) => _ = refusals.insert(*of, why),
                    Err(error) => _ = refusals.insert(*of, error.to_string()),
                }
            }
            if promised.len() == plan.survivors.len() {
                break;
            }
        }
        let begun = plan.begins(&promised, &all[&me], time_uuid_now());
        let begun = begun.map_err(|few| {
            let why: Vec<String> =
                refusals.iter().map(|(of, why)| format!("node {of}: {why}")).collect();
            format!("{few} ({}): run it again", why.join("; "))
        })?;
        let number = begun.number;
        debug_assert!(begun.members.contains(&me), "one-of-a-number: {me} begins for others");
        self.begin(begun.clone(), plan).await?;
        let ask = Ask::Begun(begun);
        let told = join_all(others.iter().map(|it| self.ask_about(*it, &ask, ANSWER_MAX))).await;
        for said in told.into_iter().flatten() {
            self.come_after(said.standing.last_timestamp).await;
        }
        self.settled(number, promised.len()).await
    }

    /// Waits until the new generation works, and tells the topology who is lost.
    async fn settled(&self, number: u64, agreed: usize) -> Result<String, String> {
        let until = Instant::now() + SETTLE_MAX;
        loop {
            let group = self.group.borrow().as_ref().map(|(_, group)| group.clone());
            let left = until - Instant::now();
            if let Some(group) = group
                && group.read_barrier(left.min(Duration::from_secs(1))).await.is_ok()
                && self.lost_to_tell().is_empty()
            {
                return Ok(format!("generation {number} works; {agreed} nodes have agreed on it"));
            }
            if left.is_zero() {
                return Ok(format!(
                    "generation {number} was begun; {agreed} nodes have agreed on it, and so many \
                     have to take it over before it works"
                ));
            }
            sleep(SETTLE_LOOK).await;
        }
    }
}
