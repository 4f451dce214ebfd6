//! A million objects in a thousand arenas: ours, each over a child context, and three peers. Pages stay with the
//! process.
//!
//! `hot` is a loop that fills one arena with a hundred objects and empties it.

mod support;

use std::alloc::Layout;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use alloc_core::{Arena, Context, ContextOptions};
use blink_alloc::BlinkAlloc;
use bump_scope::traits::BumpAllocatorTyped;
use bumpalo::Bump;
use support::backing::SYSTEM;
use support::clock::{pinned, thread_ns};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave};
use support::subject::{LAYOUTS, write};

const OBJECTS: usize = 1000;
const SAME: [Layout; 31] = [Layout::new::<[u64; 8]>(); 31];
const PEERS: [&str; 3] = ["bumpalo", "blink-alloc", "bump-scope"];

/// An arena as this bench sees it.
trait Linear: Sized {
    fn take(&self, layout: Layout) -> NonNull<u8>;
    /// Forgets all objects and keeps memory for the next ones.
    fn empty(&mut self);
}

impl Linear for Arena<&Context> {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        self.try_alloc_layout(layout).expect("memory")
    }
    fn empty(&mut self) {
        self.reset();
    }
}

/// An arena and the context below it, made and ended together.
struct OurArena {
    arena: ManuallyDrop<Arena<&'static Context>>,
    context: *mut Context,
}

impl OurArena {
    fn new(root: &Context) -> Self {
        let context = root.child("arena").expect("memory");
        let context = Box::into_raw(Box::new(context));
        // SAFETY: the box lives until `drop`, which ends the arena first.
        let base = unsafe { &*context };
        Self { arena: ManuallyDrop::new(Arena::new_in(base)), context }
    }
}

impl Drop for OurArena {
    fn drop(&mut self) {
        // SAFETY: dropped here only, and not used again.
        unsafe { ManuallyDrop::drop(&mut self.arena) };
        // SAFETY: made by `new`; the arena, which borrowed it, is gone.
        drop(unsafe { Box::from_raw(self.context) });
    }
}

impl Linear for OurArena {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        self.arena.take(layout)
    }
    fn empty(&mut self) {
        self.arena.empty();
    }
}

impl Linear for Bump {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        self.try_alloc_layout(layout).expect("memory")
    }
    fn empty(&mut self) {
        self.reset();
    }
}

impl Linear for BlinkAlloc {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        self.allocate(layout).expect("memory").cast()
    }
    fn empty(&mut self) {
        self.reset();
    }
}

impl Linear for bump_scope::Bump {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        self.try_allocate_layout(layout).expect("memory")
    }
    fn empty(&mut self) {
        self.reset();
    }
}

fn main() {
    keep_pages();
    let mut report = BenchReport::new("arena", &["case", "ours", "bumpalo", "blink-alloc", "bump-scope"]);
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("memory");
    for (name, layouts) in [("64", &SAME), ("16-256", &LAYOUTS)] {
        let cases = vec![
            Case::several("ours", move || trees(layouts, || OurArena::new(root))),
            Case::several("bumpalo", move || trees(layouts, Bump::new)),
            Case::several("blink-alloc", move || trees(layouts, BlinkAlloc::new)),
            Case::several("bump-scope", move || trees(layouts, || bump_scope::Bump::try_new().expect("memory"))),
        ];
        let times = interleave(15, cases);
        for (at, what) in ["build", "drop"].into_iter().enumerate() {
            figures(
                &mut report,
                &format!("{name}-{what}"),
                &times.iter().map(|figures| figures[at]).collect::<Vec<_>>(),
            );
        }
        let cases = vec![
            Case::new("ours", move || hot(layouts, || OurArena::new(root))),
            Case::new("bumpalo", move || hot(layouts, Bump::new)),
            Case::new("blink-alloc", move || hot(layouts, BlinkAlloc::new)),
            Case::new("bump-scope", move || hot(layouts, || bump_scope::Bump::try_new().expect("memory"))),
        ];
        let times: Vec<f64> = interleave(15, cases).into_iter().map(|figures| figures[0]).collect();
        figures(&mut report, &format!("{name}-hot"), &times);
    }
    report.print();
}

fn figures(report: &mut BenchReport, label: &str, times: &[f64]) {
    report.row(label, times);
    report.ns(label, times[0]);
    for (peer, theirs) in PEERS.into_iter().zip(&times[1..]) {
        report.ratio(label, peer, times[0], *theirs);
    }
}

#[inline]
fn fill<L: Linear>(arena: &L, layouts: &[Layout; 31], objects: usize) {
    let some = |layouts: &[Layout]| layouts.iter().for_each(|layout| write(arena.take(*layout)));
    for _ in 0..objects / layouts.len() {
        some(layouts);
    }
    some(&layouts[..objects % layouts.len()]);
}

/// ns an object: to build all arenas, and to drop them.
fn trees<L: Linear>(layouts: &'static [Layout; 31], make: impl Fn() -> L + Sync) -> Vec<f64> {
    let arenas = amount(1000);
    pinned(|| {
        let layouts = black_box(layouts);
        let begin = thread_ns();
        let mut made: Vec<L> = Vec::with_capacity(arenas);
        for _ in 0..arenas {
            let arena = make();
            fill(&arena, layouts, OBJECTS);
            made.push(arena);
        }
        let built = thread_ns();
        drop(made);
        let dropped = thread_ns();
        let each = |ns: u64| ns as f64 / (arenas * OBJECTS) as f64;
        vec![each(built - begin), each(dropped - built)]
    })
}

/// ns an object: a hundred, then empty, in memory that is in the nearest cache.
fn hot<L: Linear>(layouts: &'static [Layout; 31], make: impl Fn() -> L + Sync) -> f64 {
    let rounds = amount(5000);
    pinned(|| {
        let layouts = black_box(layouts);
        let mut arena = make();
        let mut round = || {
            fill(&arena, layouts, 100);
            arena.empty();
        };
        for _ in 0..20 {
            round();
        }
        let begin = thread_ns();
        for _ in 0..rounds {
            round();
        }
        (thread_ns() - begin) as f64 / (rounds * 100) as f64
    })
}
