//! Writes that bring others with them: table 2 has, of each row of table 1, a row of the same name.

use super::*;
use crate::shard::deriving::{Deriving, Promise};
use crate::{Before, Follower, Following, StorageError, WriteError};
use model::Token;
use mutation::FrozenView;
use reader::LocalFuture;
use runtime::task::join;
use smallvec::{SmallVec, smallvec};
use std::cell::Cell as StdCell;
use stdx::Prng;
use testkit::SimNode;

const PARTITIONS: u64 = 5;

fn table(id: u128) -> TableSchema {
    schema(id, &format!("t{id}"))
}

fn storage() -> Rc<Storage> {
    runtime::local::get::<Storage>()
}

/// Writes to table 2 what is written to table 1: the value that was there before, and the new one.
#[derive(Default)]
struct Mirror {
    calls: StdCell<usize>,
    /// A mistake: the second table is written after the first.
    writes_apart: bool,
    /// Whether it answers at once.
    at_once: bool,
    /// What of that has entered.
    entered: StdCell<usize>,
}

/// What follows from a mutation.
fn mirrored(view: FrozenView<'_>) -> Option<FrozenMutation> {
    let mirrored = table(2);
    let mut copy = MutationBuilder::new(&mirrored, view.key());
    view.rows().for_each(|(clustering, row)| copy.row(clustering, row.bytes()));
    (view.table() == table(1).id).then(|| copy.freeze())
}

impl Deriving for Mirror {
    fn write(
        &self,
        mutations: Vec<FrozenMutation>,
        promise: Promise,
    ) -> LocalFuture<'_, Result<(), WriteError>> {
        self.calls.set(self.calls.get() + 1);
        Box::pin(async move {
            let (mutations, carried): (Vec<_>, Vec<_>) =
                mutations.into_iter().map(FrozenMutation::detach).unzip();
            let mut all = mutations.clone();
            all.extend(mutations.iter().filter_map(|one| mirrored(one.view().unwrap())));
            all.extend(carried.into_iter().flatten());
            if self.writes_apart {
                for one in all {
                    let entered = storage().enter_all(&[one]).await?;
                    storage().keep(entered, promise).await?;
                }
                return Ok(());
            }
            let entered = storage().enter_all(&all).await?;
            storage().keep(entered, promise).await
        })
    }

    fn at_once<'m>(&self, mutation: FrozenView<'m>, _: &Before<'_>) -> Option<Following<'m>> {
        if !self.at_once || self.writes_apart {
            return None;
        }
        let derived = |one: FrozenMutation| Follower::Derived(token_of(&one), one);
        let mut others: SmallVec<_> = mirrored(mutation).into_iter().map(derived).collect();
        let carried = |one: FrozenView<'m>| Follower::Carried(Token::of(one.key()), one.bytes());
        others.extend(mutation.attached().map(carried));
        let alone = mutation.has_attached().then(|| mutation.alone());
        Some(Following { alone, others })
    }

    fn entered(&self, count: usize) {
        self.entered.set(self.entered.get() + count);
    }
}

/// Opens the tables, derives from the first, and finds what each partition of both has.
async fn reopen(writes_apart: bool) -> Vec<[BTreeMap<u32, (i64, Vec<u8>)>; 2]> {
    let storage = open(config()).await;
    storage.replay(Log::Data).await.unwrap();
    storage.set_deriving(table(1).id, true);
    storage.derive_with(Some(Rc::new(Mirror { writes_apart, at_once: true, ..Mirror::default() })));
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        let one = rows(&storage, &table(1), partition).await;
        found.push([one, rows(&storage, &table(2), partition).await]);
    }
    found
}

/// Writes by all ways, and flushes of one table alone, for ever.
async fn live(mut prng: Prng, clock: Rc<StdCell<i64>>) {
    loop {
        let mut next = || {
            clock.set(clock.get() + 1);
            let value = vec![b'.'; prng.below(3_000) as usize];
            let (partition, row) = (prng.below(PARTITIONS), prng.below(4) as u32);
            write(&table(1), partition, row, clock.get(), &value)
        };
        let (one, other) = (next(), next());
        let flushed = prng.between(1, 2) as u128;
        let flush = async {
            if prng.one_in(4) {
                let flushed: Result<(), StorageError> = storage().flush(table(flushed).id).await;
                flushed.unwrap();
            }
        };
        let way = one.0.len() % 3;
        let written = async {
            match way {
                0 => storage().apply(one).await,
                1 => storage().apply_durably(one).await,
                _ => storage().apply_all(vec![one, other]).await,
            }
        };
        join(written, flush).await.0.unwrap();
    }
}

/// Whether after crashes both tables have the same, whatever was flushed before.
fn agree(seed: u64, writes_apart: bool) -> bool {
    let mut prng = Prng::from_seed(seed);
    let mut node = SimNode::new(seed, 1);
    let clock = Rc::new(StdCell::new(0));
    for _ in 0..4 {
        let found = node.run(reopen(writes_apart));
        if found.iter().any(|[one, other]| one != other) {
            return false;
        }
        let (life, clock) = (prng.fork(), clock.clone());
        node.run_a_while(Duration::from_millis(30), live(life, clock));
        node.crash();
    }
    true
}

/// *one-group*: what follows from a write is there when the write is.
fn token_of(mutation: &FrozenMutation) -> Token {
    Token::of(FrozenView::trusted(&mutation.0).unwrap().key())
}

#[test]
fn what_a_write_brings_with_it_survives_with_it() {
    for seed in 0..60 {
        assert!(agree(seed, false), "seed {seed}");
    }
    let apart = (0..60).filter(|seed| !agree(*seed, true)).count();
    assert!(5 < apart, "writes that were apart were found {apart} times");
}

/// What is carried by a write of a table that does not derive goes into its group.
#[test]
fn what_a_write_carries_survives_with_it() {
    let one = |at: i64| write(&table(2), 1, at as u32, at, b"x");
    let other = |at: i64| write(&table(1), 4, at as u32, at, b"y");
    let carries = move |at: i64| one(at).attach(vec![other(at)]);
    let mut node = SimNode::new(7, 1);
    node.run(async move {
        let storage = open(config()).await;
        for refused in [
            storage.apply(carries(1)).await,
            storage.apply_durably(carries(1)).await,
            storage.apply_all(vec![one(1), carries(1)]).await,
        ] {
            assert!(matches!(refused, Err(WriteError::Stopped)), "{refused:?}");
        }
        let mirror = Rc::new(Mirror::default());
        storage.derive_with(Some(mirror.clone()));
        storage.apply(carries(2)).await.unwrap();
        storage.apply_durably(carries(3)).await.unwrap();
        storage.apply_all(vec![one(9), carries(4)]).await.unwrap();
        storage.apply(one(5)).await.unwrap();
        assert_eq!(mirror.calls.get(), 3);
        storage.flush(table(2).id).await.unwrap();
        storage.apply_durably(carries(6)).await.unwrap();
    });
    node.crash();
    node.run(async {
        let storage = open(config()).await;
        storage.replay(Log::Data).await.unwrap();
        let rows_of = async |id, partition| {
            let rows = rows(&storage, &table(id), partition).await;
            rows.into_keys().collect::<Vec<u32>>()
        };
        assert_eq!(rows_of(2, 1).await, [2, 3, 4, 5, 6, 9]);
        assert_eq!(rows_of(1, 4).await, [2, 3, 4, 6]);
    });
}

/// The same where nobody is waited for.
#[test]
fn what_a_write_carries_enters_with_it_at_once() {
    let one = |at: i64| write(&table(2), 1, at as u32, at, b"x");
    let carries = move |at: i64| one(at).attach(vec![write(&table(1), 4, at as u32, at, b"y")]);
    let mut node = SimNode::new(8, 1);
    node.run(async move {
        let storage = open(config()).await;
        let mirror = Rc::new(Mirror { at_once: true, ..Mirror::default() });
        storage.derive_with(Some(mirror.clone()));
        for at in 0..40 {
            storage.apply(carries(at)).await.unwrap();
            storage.apply_all(vec![carries(at)]).await.unwrap();
            storage.apply_durably(carries(at)).await.unwrap();
            storage.apply_durably(one(100 + at)).await.unwrap();
            let with = write(&table(1), 4, 200 + at as u32, at, b"y");
            let with = smallvec![(token_of(&with), with)];
            storage.apply_with(one(200 + at), with).await.unwrap();
        }
        let (calls, entered) = (mirror.calls.get(), mirror.entered.get());
        assert_eq!(calls + entered, 160);
        assert!(20 < entered && 0 < calls, "{entered} at once, {calls} not");
        storage.apply_durably(one(300)).await.unwrap();
    });
    node.crash();
    node.run(async {
        let storage = open(config()).await;
        storage.replay(Log::Data).await.unwrap();
        let keys = async |id, partition| {
            let rows = rows(&storage, &table(id), partition).await;
            rows.into_keys().collect::<Vec<u32>>()
        };
        let all = (0..40).chain(100..140).chain(200..240).chain([300]);
        assert_eq!(keys(2, 1).await, Vec::from_iter(all));
        assert_eq!(keys(1, 4).await, Vec::from_iter((0..40).chain(200..240)));
    });
}

/// *nothing-underived*: no way leads past who derives, and without him there is none.
#[test]
fn all_writes_of_a_table_that_derives_go_by_who_derives() {
    let mut node = SimNode::new(1, 1);
    node.run(async {
        let storage = open(config()).await;
        let mirror = Rc::new(Mirror::default());
        let one = |at: i64| write(&table(1), 1, at as u32, at, b"x");
        let other = |at: i64| write(&table(2), 1, at as u32, at, b"x");
        storage.apply(one(1)).await.unwrap();
        storage.set_deriving(table(1).id, true);
        for refused in [
            storage.apply(one(2)).await,
            storage.apply_durably(one(2)).await,
            storage.apply_all(vec![other(2), one(2)]).await,
        ] {
            assert!(matches!(refused, Err(WriteError::Stopped)), "{refused:?}");
        }
        storage.derive_with(Some(mirror.clone()));
        storage.apply(other(3)).await.unwrap();
        storage.apply_all(vec![other(4), other(5)]).await.unwrap();
        assert_eq!(mirror.calls.get(), 0);
        storage.apply(one(6)).await.unwrap();
        storage.apply_durably(one(7)).await.unwrap();
        storage.apply_all(vec![other(8), one(9)]).await.unwrap();
        assert_eq!(mirror.calls.get(), 3);
        let keys = |rows: BTreeMap<u32, _>| rows.into_keys().collect::<Vec<_>>();
        assert_eq!(keys(rows(&storage, &table(1), 1).await), [1, 6, 7, 9]);
        assert_eq!(keys(rows(&storage, &table(2), 1).await), [3, 4, 5, 6, 7, 8, 9]);
        storage.set_deriving(table(1).id, false);
        storage.apply(one(10)).await.unwrap();
        assert_eq!(mirror.calls.get(), 3);
    });
}

/// What follows is known at once: nobody is called, all of it enters with the write; while somebody
/// has the partition's lock, or waits for it, it goes by who derives (*not-past-a-lock*).
#[test]
fn what_follows_at_once_enters_with_the_write_unless_somebody_derives() {
    let mut node = SimNode::new(1, 1);
    node.run(async {
        let storage = open(config()).await;
        let mirror = Rc::new(Mirror { at_once: true, ..Mirror::default() });
        storage.set_deriving(table(1).id, true);
        storage.derive_with(Some(mirror.clone()));
        let one = |at: i64| write(&table(1), 1, at as u32, at, b"x");
        // At random a write goes the long way all the same.
        for at in 0..40 {
            storage.apply(one(at)).await.unwrap();
            storage.apply_all(vec![one(at)]).await.unwrap();
            storage.apply_durably(one(at)).await.unwrap();
            let both = [rows(&storage, &table(1), 1).await, rows(&storage, &table(2), 1).await];
            assert_eq!(both[0], both[1]);
        }
        let (calls, entered) = (mirror.calls.get(), mirror.entered.get());
        assert_eq!(calls + entered, 120);
        assert!(20 < entered && 0 < calls, "{entered} at once, {calls} not");
        let alone = storage.lock_deriving(table(1).id, &key(1)).await;
        for at in 0..20 {
            storage.apply(one(at)).await.unwrap();
        }
        assert_eq!((mirror.calls.get(), mirror.entered.get()), (calls + 20, entered));
        drop(alone);
        for at in 0..20 {
            storage.apply(one(at)).await.unwrap();
        }
        assert!(entered < mirror.entered.get());
    });
}
