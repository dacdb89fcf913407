//! Repairs, as the REST API asks for them.

use admin::{Handed, RepairJob, Repairs, Verified, ViewJob, Wanted};
use cluster::Settings;
use cluster::settings::Live;
use model::{TableId, Token};
use replication::Coordinator;
use replication::coordinator::verify;
use replication::repair::{self, How, Watch};
use std::cell::RefCell;
use std::rc::Rc;

/// Whether old deletions count as forgotten.
const FORGETS: &str = "enable_tombstone_gc_for_streaming_and_repair";

/// The replicas of this node.
pub(crate) struct Replicas {
    forgets: Live<bool>,
}

impl Replicas {
    pub(crate) fn new() -> Replicas {
        Replicas { forgets: Settings::of_shard().register(FORGETS, false, |_| Ok(())) }
    }
}

/// One of them that is repaired.
struct Job {
    wanted: RefCell<repair::Wanted>,
    watch: Rc<Watch>,
}

impl Repairs for Replicas {
    fn job(&self, wanted: Wanted) -> Rc<dyn RepairJob> {
        let tokens = |part: (i64, i64)| (Token(part.0), Token(part.1));
        let wanted = repair::Wanted {
            tables: wanted.tables,
            is_primary: wanted.is_primary,
            is_everywhere: wanted.is_everywhere,
            within: wanted.within.into_iter().map(tokens).collect(),
            holding: wanted.holding.into_iter().map(Token).collect(),
            among: wanted.among,
            without: wanted.without,
            is_small: wanted.is_small,
            at_once: wanted.at_once,
            how: How { forgets: self.forgets.get(), is_full: wanted.is_full, ..How::default() },
        };
        Rc::new(Job { wanted: RefCell::new(wanted), watch: Rc::default() })
    }

    fn verification(&self, view: TableId, mends: bool) -> Rc<dyn ViewJob> {
        Rc::new(Verification { view, mends, watch: Rc::default() })
    }
}

impl RepairJob for Job {
    fn run(&self) -> Handed<Result<(), String>> {
        let (wanted, watch) = (self.wanted.take(), self.watch.clone());
        Box::pin(async move {
            match runtime::local::try_get::<Coordinator>() {
                Some(coordinator) => coordinator.repair(wanted, watch).await,
                None => Err("the node stops".to_owned()),
            }
        })
    }

    fn progress(&self) -> (u64, u64) {
        (self.watch.done.get(), self.watch.ranges.get())
    }

    fn summary(&self) -> String {
        let done = self.watch.figures.get();
        format!(
            "{} of {} ranges, {} of them known to agree, {} rounds; {} rows compared, {} hashes, \
             {} rows fetched, {} written here, {} sent; {} bytes sent, {} received",
            self.watch.done.get(),
            self.watch.ranges.get(),
            done.known,
            done.rounds,
            done.compared,
            done.hashes,
            done.fetched,
            done.written,
            done.sent,
            done.bytes_sent,
            done.bytes_received
        )
    }

    fn end(&self) {
        self.watch.end();
    }
}

/// A view that is compared with its table.
struct Verification {
    view: TableId,
    mends: bool,
    watch: Rc<verify::Watch>,
}

impl RepairJob for Verification {
    fn run(&self) -> Handed<Result<(), String>> {
        let (view, mends, watch) = (self.view, self.mends, self.watch.clone());
        Box::pin(async move { verify::verify(view, mends, watch).await })
    }

    fn progress(&self) -> (u64, u64) {
        (self.watch.done.get(), self.watch.all.get())
    }

    fn summary(&self) -> String {
        let Verified { derived, missing, seen, ghosts, mended, unknown } = self.told();
        format!(
            "of {derived} rows that follow from the table {missing} were missing or different, of \
             {seen} rows of the view the table lacks {ghosts}; {mended} were mended, {unknown} \
             could not be looked at"
        )
    }

    fn end(&self) {
        self.watch.end();
    }
}

impl ViewJob for Verification {
    fn told(&self) -> Verified {
        let verify::Figures { derived, missing, seen, ghosts, mended, unknown } =
            self.watch.figures.get();
        Verified { derived, missing, seen, ghosts, mended, unknown }
    }
}
