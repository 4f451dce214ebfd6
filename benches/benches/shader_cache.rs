//! Compiled shaders found, held, read and let go, among 10 to 100 000; asked for in vain; and coming and going: by one
//! thread, and by two. Against maps from a key to an `Arc`: one lock, sixteen locks, dashmap and quick_cache. All hash
//! alike.

mod support;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use alloc_core::{Context, ContextOptions};
use gpu_suballoc::ShaderCache;
use gpu_suballoc::cache::{CacheDevice, CacheLimits, CacheOwner, CompiledShader, ShaderKey};
use support::backing::SYSTEM;
use support::clock::{measure, processors};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave, wanted};

/// Folds what it is given, as the cache does with a key.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xD1B5_4A32_D192_ED03_5895_65CE_7E11_9E35;
        let folded = product as u64 ^ (product >> 64) as u64;
        self.0 = folded ^ folded >> 32;
    }
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

type Folds = BuildHasherDefault<Fold>;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    device: u64,
    id: u64,
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.device.rotate_left(32) ^ self.id);
    }
}

const fn key(id: u64) -> Key {
    Key { device: 1, id }
}

/// What keeps shaders; a shader is a number.
trait Keeps: Sync {
    /// Holds the shader, reads it, lets it go; 0 where it is not there.
    fn uses(&self, id: u64) -> u64;

    /// Puts this one in; takes `old` out, unless a limit does that by itself.
    fn replaces(&self, id: u64, old: u64);
}

struct Ours {
    cache: ShaderCache<u64, ()>,
    owner: CacheOwner<u64, ()>,
    device: CacheDevice,
}

impl Ours {
    fn new(context: &Context, most: u64) -> Self {
        let cache =
            ShaderCache::new(context.handle(), CacheLimits { entries: most, ..CacheLimits::NONE }).expect("memory");
        let device = CacheDevice::new_unique();
        let owner = cache.owner(device, context.handle()).expect("memory");
        Self { cache, owner, device }
    }
}

impl Keeps for Ours {
    #[inline]
    fn uses(&self, id: u64) -> u64 {
        self.cache.get(ShaderKey::kernel(self.device, id)).map_or(0, |held| *held)
    }
    fn replaces(&self, id: u64, _: u64) {
        let made = self
            .owner
            .get_or_compile(ShaderKey::kernel(self.device, id), || Ok(CompiledShader { value: id, bytes: 1 }));
        black_box(made.is_ok());
    }
}

struct OneLock(Mutex<HashMap<Key, Arc<u64>, Folds>>);

impl Keeps for OneLock {
    #[inline]
    fn uses(&self, id: u64) -> u64 {
        let held = self.0.lock().expect("nobody panics").get(&key(id)).cloned();
        held.map_or(0, |held| *held)
    }
    fn replaces(&self, id: u64, old: u64) {
        let mut map = self.0.lock().expect("nobody panics");
        map.insert(key(id), Arc::new(id));
        map.remove(&key(old));
    }
}

struct Sharded([parking_lot::RwLock<HashMap<Key, Arc<u64>, Folds>>; 16]);

impl Sharded {
    #[inline]
    fn of(&self, id: u64) -> &parking_lot::RwLock<HashMap<Key, Arc<u64>, Folds>> {
        let mut hasher = Fold::default();
        key(id).hash(&mut hasher);
        &self.0[(hasher.finish() >> 52) as usize % 16]
    }
}

impl Keeps for Sharded {
    #[inline]
    fn uses(&self, id: u64) -> u64 {
        let held = self.of(id).read().get(&key(id)).cloned();
        held.map_or(0, |held| *held)
    }
    fn replaces(&self, id: u64, old: u64) {
        self.of(id).write().insert(key(id), Arc::new(id));
        self.of(old).write().remove(&key(old));
    }
}

struct Dash(dashmap::DashMap<Key, Arc<u64>, Folds>);

impl Keeps for Dash {
    #[inline]
    fn uses(&self, id: u64) -> u64 {
        let held = self.0.get(&key(id)).map(|there| Arc::clone(&there));
        held.map_or(0, |held| *held)
    }
    fn replaces(&self, id: u64, old: u64) {
        self.0.insert(key(id), Arc::new(id));
        self.0.remove(&key(old));
    }
}

struct Quick(quick_cache::sync::Cache<Key, Arc<u64>, quick_cache::UnitWeighter, Folds>);

impl Quick {
    fn new(most: usize) -> Self {
        Self(quick_cache::sync::Cache::with(
            most,
            most as u64,
            quick_cache::UnitWeighter,
            Folds::default(),
            Default::default(),
        ))
    }
}

impl Keeps for Quick {
    #[inline]
    fn uses(&self, id: u64) -> u64 {
        self.0.get(&key(id)).map_or(0, |held| *held)
    }
    fn replaces(&self, id: u64, _: u64) {
        self.0.insert(key(id), Arc::new(id));
    }
}

/// Ours first. `most` shaders fit into those that have a limit.
fn all(context: &Context, most: u64) -> Vec<(&'static str, Box<dyn Keeps>)> {
    vec![
        ("ours", Box::new(Ours::new(context, most))),
        ("mutex", Box::new(OneLock(Mutex::default()))),
        ("sharded", Box::new(Sharded(Default::default()))),
        ("dashmap", Box::new(Dash(dashmap::DashMap::default()))),
        ("quick_cache", Box::new(Quick::new(most as usize))),
    ]
}

/// Which shaders are asked for.
#[derive(Clone, Copy)]
enum Asks {
    Any(u64),
    /// Nine of ten times one of 64.
    Mostly64(u64),
    Hot,
    /// None of those that are there.
    Missing(u64),
}

impl Asks {
    #[inline(always)]
    fn next(self, random: &mut u64) -> u64 {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let below = |many: u64| ((*random >> 33) * many) >> 31;
        match self {
            Self::Any(many) => below(many) + 1,
            Self::Mostly64(many) => below(if *random >> 20 & 0xFF < 230 { 64 } else { many }) + 1,
            Self::Hot => black_box(3),
            Self::Missing(many) => below(many) + 1 + many,
        }
    }
}

fn asked<K: Keeps + ?Sized>(keeps: &K, asks: Asks, operations: usize) {
    let (mut random, mut sum) = (1, 0_u64);
    for _ in 0..operations {
        sum = sum.wrapping_add(keeps.uses(asks.next(&mut random)));
    }
    black_box(sum);
}

const HEAD: [&str; 6] = ["case", "ours", "mutex", "sharded", "dashmap", "quick_cache"];

fn main() {
    keep_pages();
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("shaders")).expect("memory");
    let mut report = BenchReport::new("shader_cache", &HEAD);
    for (size, many) in [("10", 10_u64), ("1k", 1000), ("10k", 10_000), ("100k", 100_000)] {
        let mut kinds = vec![(format!("hit-{size}"), Asks::Any(many))];
        match many {
            1000 => {
                kinds.push(("hot".to_owned(), Asks::Hot));
                kinds.push(("miss-1k".to_owned(), Asks::Missing(many)));
            }
            100_000 => kinds.push(("hit-100k-mostly-64".to_owned(), Asks::Mostly64(many))),
            _ => {}
        }
        let two = |(label, asks): &(String, Asks)| (format!("{label}-2t"), *asks, 2);
        let both: Vec<_> = kinds.iter().map(two).collect();
        let one = kinds.into_iter().map(|(label, asks)| (label, asks, 1));
        let mut cases: Vec<_> = one.chain(both).collect();
        cases.retain(|(label, _, threads)| wanted(label) && *threads <= processors().len());
        if !cases.is_empty() {
            hits(&mut report, root, many, &cases);
        }
    }
    for threads in [1, 2] {
        if wanted("churn") && threads <= processors().len() {
            churn(&mut report, root, threads);
        }
    }
    report.print();
}

fn hits(report: &mut BenchReport, root: &Context, many: u64, cases: &[(String, Asks, usize)]) {
    // Twice as many fit: quick_cache's shards are not filled evenly.
    let subjects = all(root, many.max(1000) * 2);
    for (_, subject) in &subjects {
        (1..=many).for_each(|id| subject.replaces(id, 0));
        assert!((1..=many).all(|id| subject.uses(id) == id) && subject.uses(many + 1) == 0);
    }
    let mut hot = f64::NAN;
    for (label, asks, threads) in cases {
        let runs = subjects.iter().map(|(name, subject)| {
            let (asks, threads) = (*asks, *threads);
            // Often enough to have met each before it counts.
            let operations = amount(if many > 10_000 { 500_000 } else { 100_000 });
            Case::new(*name, move || measure(threads, operations, |operations| asked(&**subject, asks, operations)))
        });
        let times: Vec<f64> = interleave(11, runs.collect()).into_iter().map(|figures| figures[0]).collect();
        figures(report, label, &times);
        match label.as_str() {
            "hot" => hot = times[0],
            "hot-2t" => report.ratio("hot-2t", "one-thread", times[0], hot),
            "hit-100k" => report.ratio(label, "best-lock", times[0], times[1].min(times[2])),
            _ => {}
        }
    }
}

/// A thousand live; each operation a new one, and an old one goes. Each thread has ids of its own.
fn churn(report: &mut BenchReport, root: &Context, threads: usize) {
    const LIVE: u64 = 1000;
    let each = LIVE / threads as u64;
    let subjects = all(root, LIVE);
    let id = |stream: usize, number: u64| (stream as u64) << 32 | number;
    for (_, subject) in &subjects {
        for stream in 0..threads {
            (1..=each).for_each(|number| subject.replaces(id(stream, number), 0));
        }
    }
    let runs = subjects.iter().map(|(name, subject)| {
        let next: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(each + 1)).collect();
        let turn = AtomicUsize::new(0);
        Case::new(*name, move || {
            measure(threads, amount(50_000), |operations| {
                // All threads are called once, and then once more: a stream is one thread's at a time.
                let stream = turn.fetch_add(1, Relaxed) % threads;
                let first = next[stream].fetch_add(operations as u64, Relaxed);
                for number in first..first + operations as u64 {
                    subject.replaces(id(stream, number), id(stream, number - each));
                }
            })
        })
    });
    let times: Vec<f64> = interleave(11, runs.collect()).into_iter().map(|figures| figures[0]).collect();
    let label = if threads == 1 { "churn-1k" } else { "churn-1k-2t" };
    figures(report, label, &times);
}

fn figures(report: &mut BenchReport, label: &str, times: &[f64]) {
    report.row(label, times);
    report.ns(label, times[0]);
    for (peer, theirs) in HEAD.iter().skip(2).zip(&times[1..]) {
        report.ratio(label, peer, times[0], *theirs);
    }
    // Sharded, dashmap, quick_cache.
    let best = times[2].min(times[3]).min(times[4]);
    report.ratio(label, "best", times[0], best);
}
