//! Hit ratios: the arena with its clock beside a plain LRU of the same bytes, on one trace.

use super::arena;
use memory::{Age, Arena, Handle};
use stdx::{HashMap, Prng};

/// Keys that the trace is of, each with an object of 100 to 1000 bytes.
const KEYS: u64 = 200_000;
const READS: u64 = 3_000_000;
/// A scan reads this many keys once, which nobody reads again.
const SCAN: u64 = 50_000;

/// Bytes of the object of a key.
fn len_of(key: u64) -> usize {
    100 + (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % 900
}

/// Keys with probability as 1 / rank^exponent, by a table of the sums.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=KEYS).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    fn next(&self, prng: &mut Prng) -> u64 {
        let total = self.sums[self.sums.len() - 1];
        let point = (prng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * total;
        let rank = self.sums.partition_point(|&sum| sum < point) as u64;
        // Neighbours in rank are not neighbours in key.
        rank.wrapping_mul(0x9e37_79b9) % KEYS
    }
}

trait Cache {
    /// Whether the key is there; it is afterwards.
    fn read(&mut self, key: u64) -> bool;
}

/// The arena, with the owner's part as small as it can be.
struct Clock {
    arena: Arena,
    handles: HashMap<u64, Handle>,
    /// Of keys that went from probation, how many insertions ago, if ghosts are kept.
    ghosts: Option<HashMap<u64, u64>>,
    inserted: u64,
}

impl Clock {
    fn new(limit: usize, ghosts: bool) -> Clock {
        Clock {
            arena: arena(limit),
            handles: HashMap::default(),
            ghosts: ghosts.then(HashMap::default),
            inserted: 0,
        }
    }

    fn reclaim(&mut self) {
        let mut victim = self.arena.victim().expect("full");
        while let Some((handle, verdict)) = self.arena.next(&mut victim) {
            if verdict == memory::Verdict::Keep {
                self.arena.relocate(handle);
                continue;
            }
            let key = self.arena.get(handle)[..8].try_into().expect("eight bytes");
            let key = u64::from_ne_bytes(key);
            self.handles.remove(&key);
            self.arena.free(handle);
            if victim.age() == Age::Probation
                && let Some(ghosts) = &mut self.ghosts
            {
                ghosts.insert(key, self.inserted);
            }
        }
        self.arena.release(victim);
        // A ghost lives as long as the cache has objects.
        let (inserted, objects) = (self.inserted, self.arena.objects() as u64);
        if let Some(ghosts) = &mut self.ghosts
            && ghosts.len() as u64 > 2 * objects
        {
            ghosts.retain(|_, &mut since| inserted - since <= objects);
        }
    }
}

impl Cache for Clock {
    fn read(&mut self, key: u64) -> bool {
        if let Some(&handle) = self.handles.get(&key) {
            self.arena.touch(handle);
            return true;
        }
        self.inserted += 1;
        let objects = self.arena.objects() as u64;
        let ghost = self.ghosts.as_mut().and_then(|ghosts| ghosts.remove(&key));
        let again = ghost.is_some_and(|since| self.inserted - since <= objects);
        let age = if again { Age::Main } else { Age::Probation };
        let handle = loop {
            match self.arena.allocate(age, 0, len_of(key)) {
                Some(handle) => break handle,
                None => self.reclaim(),
            }
        };
        self.arena.get_mut(handle)[..8].copy_from_slice(&key.to_ne_bytes());
        self.handles.insert(key, handle);
        false
    }
}

/// Plain LRU that pays for each object what the arena does, and wastes nothing else.
struct Lru {
    limit: usize,
    bytes: usize,
    now: u64,
    used: HashMap<u64, u64>,
    order: std::collections::BTreeMap<u64, u64>,
}

impl Lru {
    fn new(limit: usize) -> Lru {
        let (used, order) = Default::default();
        Lru { limit, bytes: 0, now: 0, used, order }
    }
}

impl Cache for Lru {
    fn read(&mut self, key: u64) -> bool {
        self.now += 1;
        let before = self.used.insert(key, self.now);
        self.order.insert(self.now, key);
        if let Some(before) = before {
            self.order.remove(&before);
            return true;
        }
        self.bytes += len_of(key) + 16;
        while self.bytes > self.limit {
            let (_, key) = self.order.pop_first().expect("what has bytes has a place");
            self.used.remove(&key);
            self.bytes -= len_of(key) + 16;
        }
        false
    }
}

/// Percent of reads of the trace that hit, in its second half; scans begin so many reads apart.
fn ratio(cache: &mut dyn Cache, zipf: &Zipf, scan_every: Option<u64>) -> f64 {
    let mut prng = Prng::from_seed(1);
    let mut hits = 0;
    let mut scanned = KEYS;
    for read in 0..READS {
        hits += u64::from(cache.read(zipf.next(&mut prng)) && read >= READS / 2);
        // A scan runs beside the other reads, one key after each.
        if scan_every.is_some_and(|every| read % every < SCAN) {
            cache.read(scanned);
            scanned += 1;
        }
    }
    hits as f64 * 100.0 / (READS / 2) as f64
}

pub(crate) fn hits() {
    let total: usize = (0..KEYS).map(|key| len_of(key) + 16).sum();
    println!("exponent, cache of all bytes, scans: LRU, clock, clock with ghosts");
    for exponent in [0.7, 0.99] {
        let zipf = Zipf::new(exponent);
        for percent in [2, 10, 30] {
            let limit = total / 100 * percent;
            for scan_every in [None, Some(250_000)] {
                let lru = ratio(&mut Lru::new(limit), &zipf, scan_every);
                let clock = ratio(&mut Clock::new(limit, false), &zipf, scan_every);
                let ghosts = ratio(&mut Clock::new(limit, true), &zipf, scan_every);
                let scans = if scan_every.is_some() { "with" } else { "without" };
                println!("{exponent}, {percent} %, {scans}: {lru:.1} {clock:.1} {ghosts:.1}");
            }
        }
    }
}
