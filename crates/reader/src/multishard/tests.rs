use super::*;
use crate::testing::{self, Evicted, Model, now};
use crate::{EvictableSource, OpenSource, VecSource};
use mutation::{FrozenMutation, testing as rows};
use proptest::prelude::*;
use std::cell::RefCell;

/// A shard over what it has of some mutations. Its source rests between visits, or is given up.
struct LocalShard {
    model: Rc<Model>,
    one_in: u64,
    resting: Rc<RefCell<Option<Evicted>>>,
    at: Rc<RefCell<Option<Place>>>,
}

impl LocalShard {
    fn open(&self, place: &Place) -> Evicted {
        let order = Rc::new(rows::schema().order);
        let model = self.model.clone();
        let open: OpenSource = Box::new(move |scope, slice| {
            let all = model.fragments(&rows::read_all().partitions);
            let source = VecSource::new(&rows::schema().order, all, slice);
            Ok(testing::narrow(Box::new(source), scope))
        });
        Evicted::new(EvictableSource::at(order, place.clone(), open), 1, self.one_in)
    }
}

impl ShardReader for LocalShard {
    fn visit(&self, place: &Place, bytes_max: usize) -> VisitFuture {
        let sent = wire::SendPlace::from(place);
        let place = Place::from(&sent);
        assert_eq!(wire::SendPlace::from(&place), sent);
        let kept = self.resting.borrow_mut().take();
        let same = self.at.borrow().as_ref() == Some(&place);
        let source = kept.filter(|_| same).unwrap_or_else(|| self.open(&place));
        let (resting, at) = (self.resting.clone(), self.at.clone());
        Box::pin(async move {
            let (mut source, mut place, mut waited) = (source, place, false);
            poll_fn(|_| {
                waited = !waited;
                if waited { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            let mut out = Vec::new();
            let (mut bytes, mut at_end) = (0, false);
            while bytes < bytes_max {
                let before = out.len();
                let budget = Budget { fragments_max: 3, bytes_max: bytes_max - bytes };
                source.fill(budget, &mut out).await?;
                at_end = out.len() == before;
                if at_end {
                    break;
                }
                bytes += out[before..].iter().map(Fragment::size_bytes).sum::<usize>();
            }
            place.advance(&out);
            *at.borrow_mut() = Some(place);
            *resting.borrow_mut() = Some(source);
            let mut encoded = Vec::new();
            out.iter().for_each(|fragment| wire::encode(fragment, &mut encoded));
            let decoded = wire::decode(&encoded).unwrap();
            assert_eq!(decoded, out);
            Ok(Visited { fragments: decoded, at_end })
        })
    }
}

fn multishard(
    mutations: &[FrozenMutation],
    slice: &Slice,
    (tablets, shards, one_in): (u32, u16, u64),
    options: MultishardOptions,
) -> Box<dyn Source> {
    let map = Rc::new(TabletMap::tablets(tablets, shards));
    let readers = (0..shards).map(|shard| -> Box<dyn ShardReader> {
        let mine = mutations.iter().filter(|mutation| {
            let key = mutation.view().unwrap();
            map.shard_of(Token::of(key.key())) == shard
        });
        let mine: Vec<_> = mine.cloned().collect();
        let model = Rc::new(Model::of(&mine));
        let (resting, at) = (Rc::default(), Rc::default());
        Box::new(LocalShard { model, one_in, resting, at })
    });
    let PartitionScope::Range { start, end } = testing::everything() else { unreachable!() };
    let readers = readers.collect();
    Box::new(MultishardSource::new(map.clone(), (start, end), slice.clone(), readers, options))
}

#[test]
fn a_source_over_shards_is_like_any_other() {
    let ahead = ReadAhead::NextShard;
    let buffered = |bytes| MultishardOptions { demand: Demand::Buffer(bytes), read_ahead: ahead };
    let check = |shape, options, cases| {
        now(testing::conformance(cases, async |all, slice| multishard(all, slice, shape, options)));
    };
    check((1, 1, u64::MAX), MultishardOptions::EXACT, 20);
    check((8, 3, u64::MAX), MultishardOptions::EXACT, 60);
    check((8, 3, 2), MultishardOptions::EXACT, 60);
    check((64, 4, u64::MAX), buffered(1), 60);
    check((64, 4, 2), buffered(700), 60);
    check((5, 2, 1), buffered(1 << 20), 20);
}

proptest! {
    #[test]
    fn damaged_fragments_never_panic(bytes: Vec<u8>) {
        let _ = wire::decode(&bytes);
    }
}
