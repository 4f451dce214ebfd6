//! Values that contexts and arenas own, against boxes in a vector on the allocator behind, and against talloc where its library is
//! installed. A million values of 48 bytes under a thousand owners.
//!
//! `plain` values need no destructor; `drop` ones have one. `end`: the owner ends, and all it has goes with it. `destroy`: one by
//! one, in the order in which they were made. `use`: a look at the value.

mod support;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{
    Arena, Context, ContextHandle, ContextOptions, HostAllocator, Owned, Scope, Scoped,
};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec as VecIn;
use blink_alloc::Blink;
use bumpalo::Bump;
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::{pinned, thread_ns};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave};
use support::talloc::{Chunk, Talloc};

const OWNERS: usize = 1000;
const VALUES: usize = 1000;

type Plain = [u64; 6];

/// As large as [`Plain`], with something to do when it goes.
struct Dropped(Plain);

static GONE: AtomicU64 = AtomicU64::new(0);

impl Drop for Dropped {
    #[inline]
    fn drop(&mut self) {
        // A load and a store, no more: what counts is that it must be called.
        GONE.store(
            GONE.load(Ordering::Relaxed).wrapping_add(self.0[0]),
            Ordering::Relaxed,
        );
    }
}

/// A value of the benches.
trait Value: Send + 'static {
    fn new(at: u64) -> Self;
    fn first(&self) -> u64;
}

impl Value for Plain {
    #[inline]
    fn new(at: u64) -> Self {
        [at; 6]
    }
    #[inline]
    fn first(&self) -> u64 {
        self[0]
    }
}

impl Value for Dropped {
    #[inline]
    fn new(at: u64) -> Self {
        Self([at; 6])
    }
    #[inline]
    fn first(&self) -> u64 {
        self.0[0]
    }
}

fn main() {
    keep_pages();
    let mut report = BenchReport::new("owned", &["case", "box", "ours", "talloc"]);
    let talloc = Talloc::load("owned");
    values::<Plain, _>(&mut report, "system-plain", &SYSTEM, talloc.as_ref());
    values::<Dropped, _>(&mut report, "system-drop", &SYSTEM, None);
    values::<Plain, _>(&mut report, "mimalloc-plain", &MIMALLOC, None);
    values::<Dropped, _>(&mut report, "mimalloc-drop", &MIMALLOC, None);
    steal(&mut report, talloc.as_ref());
    report.print();
    arenas();
}

fn owners() -> usize {
    amount(OWNERS)
}

/// ns a value.
fn time<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let before = thread_ns();
    let made = work();
    (
        (thread_ns() - before) as f64 / (owners() * VALUES) as f64,
        made,
    )
}

/// Built, looked at, and ended with their owners or destroyed one by one.
fn values<V: Value + Sync, H: HostAllocator + Sync>(
    report: &mut BenchReport,
    name: &str,
    backing: &'static H,
    talloc: Option<&Talloc>,
) {
    let root = &Context::root_static(backing, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let mut cases = vec![
        Case::several("box", move || pinned(move || boxed::<V, H>(backing))),
        Case::several("ours", move || pinned(move || owned::<V>(root))),
    ];
    if let Some(talloc) = talloc {
        cases.push(Case::several("talloc", move || {
            pinned(move || talloc_values(talloc))
        }));
    }
    let times = interleave(11, cases);
    for (at, what) in ["build", "end", "destroy", "use"].into_iter().enumerate() {
        let (label, boxed, ours) = (format!("{name}-{what}"), times[0][at], times[1][at]);
        let talloc = times.get(2).map_or(f64::NAN, |times| times[at]);
        report.row(&label, &[boxed, ours, talloc]);
        report.ratio(&label, "box", ours, boxed);
        report.delta(&label, ours, boxed);
        if !talloc.is_nan() {
            report.ratio(&label, "talloc", ours, talloc);
        }
    }
}

fn boxed<V: Value, H: HostAllocator>(backing: &'static H) -> Vec<f64> {
    let host = Scoped::new(backing, Scope::Object);
    let build = || {
        let mut all = Vec::with_capacity(owners());
        for _ in 0..owners() {
            let mut values = VecIn::new_in(host);
            for at in 0..VALUES as u64 {
                values.push(Box::new_in(V::new(at), host));
            }
            all.push(values);
        }
        all
    };
    let (built, all) = time(build);
    let (used, _) = time(|| {
        all.iter()
            .flatten()
            .fold(0, |sum, value| sum + black_box(value.first()))
    });
    let (ended, ()) = time(|| drop(all));
    let all = build();
    let (destroyed, ()) = time(|| {
        all.into_iter()
            .for_each(|values| values.into_iter().for_each(drop))
    });
    vec![built, ended, destroyed, used]
}

fn owned<V: Value + Sync>(root: &Context) -> Vec<f64> {
    let (built, all) = time(|| build(root, |_: Owned<V>| ()));
    let (ended, ()) = time(|| drop(all));
    let mut ids = Vec::with_capacity(owners() * VALUES);
    let all = build(root, |id: Owned<V>| ids.push(id));
    let (used, _) = time(|| {
        let mut sum = 0;
        for (context, ids) in all.iter().zip(ids.chunks(VALUES)) {
            for id in ids {
                sum += black_box(context.get(*id).expect("it is there").first());
            }
        }
        sum
    });
    let (destroyed, ()) = time(|| {
        for (context, ids) in all.iter().zip(ids.chunks(VALUES)) {
            for id in ids {
                context.destroy(*id).expect("it is there");
            }
        }
    });
    drop(all);
    vec![built, ended, destroyed, used]
}

/// The contexts keep the values; who wants to reach one keeps its id as well.
fn build<V: Value>(root: &Context, mut keep: impl FnMut(Owned<V>)) -> Vec<Context> {
    let mut all = Vec::with_capacity(owners());
    for _ in 0..owners() {
        let context = root.child("owner").expect("memory");
        for at in 0..VALUES as u64 {
            keep(
                context
                    .own(V::new(at))
                    .map_err(|refused| refused.error)
                    .expect("memory"),
            );
        }
        all.push(context);
    }
    all
}

fn talloc_values(talloc: &Talloc) -> Vec<f64> {
    let build = |chunks: &mut Vec<Chunk>| {
        let mut all = Vec::with_capacity(owners());
        for _ in 0..owners() {
            let top = talloc.take(None, 0);
            for at in 0..VALUES as u64 {
                let chunk = talloc.take(Some(top), size_of::<Plain>());
                // SAFETY: a new block of this size; talloc aligns to 16.
                unsafe { chunk.at().cast::<Plain>().write(Plain::new(at)) };
                chunks.push(chunk);
            }
            all.push(top);
        }
        all
    };
    let mut chunks = Vec::with_capacity(owners() * VALUES);
    let (built, all) = time(|| build(&mut chunks));
    let (used, _) = time(|| {
        chunks.iter().fold(0, |sum, chunk| {
            // SAFETY: each chunk was written by `build`.
            sum + black_box(unsafe { chunk.at().cast::<Plain>().as_ref() }[0])
        })
    });
    let (ended, ()) = time(|| all.into_iter().for_each(|top| talloc.free(top)));
    chunks.clear();
    let all = build(&mut chunks);
    let (destroyed, ()) = time(|| chunks.iter().for_each(|chunk| talloc.free(*chunk)));
    all.into_iter().for_each(|top| talloc.free(top));
    vec![built, ended, destroyed, used]
}

/// A thousand values, each from one context to another and back.
fn steal(report: &mut BenchReport, talloc: Option<&Talloc>) {
    let rounds = amount(1000);
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let each = |ns: u64| ns as f64 / (rounds * VALUES * 2) as f64;
    let mut cases = vec![Case::new("ours", || {
        pinned(|| {
            let [one, two] = ["one", "two"].map(|name| root.child(name).expect("memory"));
            let own = |at| {
                one.own(Plain::new(at))
                    .map_err(|refused| refused.error)
                    .expect("memory")
            };
            let mut ids: Vec<_> = (0..VALUES as u64).map(own).collect();
            let mut round = || {
                for (to, from) in [(&two, &one), (&one, &two)] {
                    for id in &mut ids {
                        *id = to.steal(from, *id).expect("it is there");
                    }
                }
            };
            round();
            let before = thread_ns();
            (0..rounds).for_each(|_| round());
            each(thread_ns() - before)
        })
    })];
    if let Some(talloc) = talloc {
        cases.push(Case::new("talloc", || {
            pinned(|| {
                let [one, two] = [(); 2].map(|()| talloc.take(None, 0));
                let chunks: Vec<_> = (0..VALUES)
                    .map(|_| talloc.take(Some(one), size_of::<Plain>()))
                    .collect();
                let before = thread_ns();
                for _ in 0..rounds {
                    for to in [two, one] {
                        chunks.iter().for_each(|chunk| talloc.steal(to, *chunk));
                    }
                }
                let taken = each(thread_ns() - before);
                talloc.free(one);
                talloc.free(two);
                taken
            })
        }));
    }
    let times: Vec<f64> = interleave(15, cases)
        .into_iter()
        .map(|figures| figures[0])
        .collect();
    let theirs = times.get(1).copied().unwrap_or(f64::NAN);
    report.row("system-steal", &[f64::NAN, times[0], theirs]);
    report.ns("system-steal", times[0]);
    if !theirs.is_nan() {
        report.ratio("system-steal", "talloc", times[0], theirs);
    }
}

/// Values with a destructor in arenas: ours and blink-alloc's keep a list of them; a bumpalo needs boxes in a vector.
fn arenas() {
    let mut report = BenchReport::new(
        "owned-arena",
        &["case", "ours", "blink-alloc", "bumpalo and boxes"],
    );
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let cases = vec![
        Case::several("ours", move || {
            pinned(move || {
                built_and_dropped(|| {
                    let arena: Arena<ContextHandle> = Arena::new_in(root.handle());
                    for at in 0..VALUES as u64 {
                        arena
                            .try_own(Dropped::new(at))
                            .map_err(|refused| refused.error)
                            .expect("memory");
                    }
                    arena
                })
            })
        }),
        Case::several("blink-alloc", || {
            pinned(|| {
                built_and_dropped(|| {
                    let arena = Blink::new();
                    for at in 0..VALUES as u64 {
                        arena.put(Dropped::new(at));
                    }
                    arena
                })
            })
        }),
        Case::several("bumpalo", || {
            pinned(|| {
                built_and_dropped(|| {
                    // The arena must be older than what lies in it.
                    let arena: &'static Bump =
                        std::boxed::Box::leak(std::boxed::Box::new(Bump::new()));
                    let mut values = Vec::new();
                    for at in 0..VALUES as u64 {
                        values.push(Box::new_in(Dropped::new(at), arena));
                    }
                    Boxes { values, arena }
                })
            })
        }),
    ];
    let times = interleave(11, cases);
    for (at, what) in ["build", "drop"].into_iter().enumerate() {
        let row: Vec<f64> = times.iter().map(|figures| figures[at]).collect();
        report.row(what, &row);
        report.ns(what, row[0]);
        report.ratio(what, "blink-alloc", row[0], row[1]);
        report.ratio(what, "bumpalo", row[0], row[2]);
    }
    report.print();
}

struct Boxes {
    values: Vec<Box<Dropped, &'static Bump>>,
    arena: &'static Bump,
}

impl Drop for Boxes {
    fn drop(&mut self) {
        self.values.clear();
        // SAFETY: leaked by the one who made this, and nothing in it is used any more.
        drop(unsafe { std::boxed::Box::from_raw(std::ptr::from_ref(self.arena).cast_mut()) });
    }
}

/// ns a value: to build all arenas, and to drop them.
fn built_and_dropped<L>(make: impl Fn() -> L) -> Vec<f64> {
    let (built, made) = time(|| (0..owners()).map(|_| make()).collect::<Vec<_>>());
    let before = GONE.load(Ordering::Relaxed);
    let (dropped, ()) = time(|| drop(made));
    assert_ne!(
        GONE.load(Ordering::Relaxed),
        before,
        "their destructors ran"
    );
    vec![built, dropped]
}
