//! Contexts come and go, and trees of a million blocks under a thousand contexts are built and freed, against the same
//! pattern on the allocator behind, and against talloc where its library is installed.

mod support;

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{Context, ContextOptions, HostAllocator, Scope, Scoped};
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec as VecIn;
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::{pinned, thread_ns};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave};
use support::subject::{LAYOUTS, write};
use support::talloc::Talloc;

const CONTEXTS: usize = 1000;
const OBJECTS: usize = 1000;

fn main() {
    keep_pages();
    let mut report = BenchReport::new("tree", &["case", "raw", "ours", "talloc"]);
    life(&mut report, "system", &SYSTEM);
    life(&mut report, "mimalloc", &MIMALLOC);
    let talloc = Talloc::load("tree");
    build_and_free(&mut report, "system", &SYSTEM, talloc.as_ref());
    build_and_free(&mut report, "mimalloc", &MIMALLOC, None);
    report.print();
}

/// Making a context and ending it; the same with a pair in between. Raw takes and clears a block as large as a context.
fn life<H: HostAllocator + Sync>(report: &mut BenchReport, name: &str, backing: &'static H) {
    let root = &Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    let before = root.usage().total().live_bytes;
    let child = root.child("measured").expect("memory");
    let record = Layout::from_size_align((root.usage().total().live_bytes - before) as usize, 64)
        .expect("small");
    drop(child);
    println!("tree: a context is {} bytes", record.size());
    let rounds = amount(20_000);
    let raw = move |also: &dyn Fn()| {
        let block = backing
            .allocate_zeroed(record, Scope::Object)
            .expect("memory");
        also();
        // SAFETY: just taken with this layout.
        unsafe { backing.deallocate(block, record, Scope::Object) };
    };
    let ours = move |also: &dyn Fn(&Context)| {
        let child = root.child("child").expect("memory");
        also(&child);
    };
    let run = |one: &(dyn Fn() + Sync)| {
        pinned(|| {
            let before = thread_ns();
            for _ in 0..rounds {
                one();
            }
            (thread_ns() - before) as f64 / rounds as f64
        })
    };
    let cases = vec![
        Case::new("raw", || run(&|| raw(&|| ()))),
        Case::new("ours", || run(&|| ours(&|_| ()))),
        Case::new("raw pair", || run(&|| raw(&|| pair(backing)))),
        Case::new("our pair", || run(&|| ours(&|child| pair(child)))),
    ];
    let times: Vec<f64> = interleave(15, cases)
        .into_iter()
        .map(|figures| figures[0])
        .collect();
    for (what, times) in ["create-drop", "create-pair-drop"]
        .into_iter()
        .zip(times.chunks(2))
    {
        let label = format!("{name}-{what}");
        report.row(&label, &[times[0], times[1], f64::NAN]);
        report.ratio(&label, "raw", times[1], times[0]);
        report.ns(&label, times[1]);
    }
}

fn pair(host: &impl HostAllocator) {
    let layout = Layout::new::<[u64; 8]>();
    let block = host.allocate(layout, Scope::Object).expect("memory");
    write(block);
    // SAFETY: just taken with this layout and scope.
    unsafe { host.deallocate(block, layout, Scope::Object) };
}

fn build_and_free<H: HostAllocator + Sync>(
    report: &mut BenchReport,
    name: &str,
    backing: &'static H,
    talloc: Option<&Talloc>,
) {
    let root = &Context::root_static(backing, ContextOptions::new("root")).expect("memory");
    // Boxes of 48 bytes in a vector, as collections do it.
    let boxes = vec![
        Case::several("raw", move || {
            pinned(move || {
                boxed(&vec![(); contexts()], |()| {
                    Scoped::new(backing, Scope::Object)
                })
            })
        }),
        Case::several("ours", move || {
            pinned(move || {
                let (made, contexts) = time(|| children(root));
                let [build, free] = boxed(&contexts, |context| context)[..] else {
                    unreachable!("two figures")
                };
                let (dropped, ()) = time(|| drop(contexts));
                vec![build + made, free + dropped]
            })
        }),
    ];
    let times = interleave(11, boxes);
    for (at, what) in ["build", "free"].into_iter().enumerate() {
        let (label, raw, ours) = (format!("{name}-boxes-{what}"), times[0][at], times[1][at]);
        report.row(&label, &[raw, ours, f64::NAN]);
        report.ratio(&label, "raw", ours, raw);
        report.delta(&label, ours, raw);
    }
    // Blocks of 16..=256 bytes.
    let mut blocks = vec![
        Case::several("raw", move || {
            pinned(move || blocks(&vec![backing; contexts()]))
        }),
        Case::several("ours", move || {
            pinned(move || {
                let (made, contexts) = time(|| children(root));
                let [build, free] = blocks(&contexts.iter().collect::<Vec<_>>())[..] else {
                    unreachable!("two figures")
                };
                let (dropped, ()) = time(|| drop(contexts));
                vec![build + made, free + dropped]
            })
        }),
    ];
    if let Some(talloc) = talloc {
        blocks.push(Case::several("talloc", move || {
            pinned(move || talloc_tree(talloc))
        }));
    }
    let times = interleave(11, blocks);
    for (at, what) in ["build", "free"].into_iter().enumerate() {
        let (label, raw, ours) = (format!("{name}-blocks-{what}"), times[0][at], times[1][at]);
        let talloc = times.get(2).map_or(f64::NAN, |times| times[at]);
        report.row(&label, &[raw, ours, talloc]);
        report.ratio(&label, "raw", ours, raw);
        report.delta(&label, ours, raw);
        if !talloc.is_nan() {
            report.ratio(&label, "talloc", ours, talloc);
        }
    }
}

fn contexts() -> usize {
    amount(CONTEXTS)
}

fn children(root: &Context) -> Vec<Context> {
    (0..contexts())
        .map(|_| root.child("object").expect("memory"))
        .collect()
}

/// ns an object of the tree.
fn time<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let before = thread_ns();
    let made = work();
    (
        (thread_ns() - before) as f64 / (contexts() * OBJECTS) as f64,
        made,
    )
}

fn boxed<'c, C, A: Allocator + Copy>(owners: &'c [C], allocator: impl Fn(&'c C) -> A) -> Vec<f64> {
    let (build, trees) = time(|| {
        let mut trees = Vec::with_capacity(owners.len());
        for owner in owners {
            let allocator = allocator(owner);
            let mut objects = VecIn::new_in(allocator);
            for at in 0..OBJECTS as u64 {
                objects.push(Box::new_in([at; 6], allocator));
            }
            trees.push(objects);
        }
        trees
    });
    let (free, ()) = time(|| drop(trees));
    vec![build, free]
}

fn blocks<H: HostAllocator>(owners: &[&H]) -> Vec<f64> {
    let mut taken: Vec<NonNull<u8>> = Vec::with_capacity(owners.len() * OBJECTS);
    // First touch of the list itself is nobody's cost.
    taken.resize(owners.len() * OBJECTS, NonNull::dangling());
    taken.clear();
    let sizes = || LAYOUTS.iter().cycle().take(OBJECTS);
    let (build, ()) = time(|| {
        for owner in owners {
            for layout in sizes() {
                let block = owner.allocate(*layout, Scope::Object).expect("memory");
                write(block);
                taken.push(block);
            }
        }
    });
    let (free, ()) = time(|| {
        for (owner, taken) in owners.iter().zip(taken.chunks(OBJECTS)) {
            for (block, layout) in taken.iter().zip(sizes()) {
                // SAFETY: taken from this owner with this layout and scope.
                unsafe { owner.deallocate(*block, *layout, Scope::Object) };
            }
        }
    });
    vec![build, free]
}

fn talloc_tree(talloc: &Talloc) -> Vec<f64> {
    let (build, tops) = time(|| {
        let mut tops = Vec::with_capacity(contexts());
        for _ in 0..contexts() {
            let top = talloc.take(None, 0);
            for layout in LAYOUTS.iter().cycle().take(OBJECTS) {
                write(talloc.take(Some(top), layout.size()).at());
            }
            tops.push(top);
        }
        tops
    });
    let (free, ()) = time(|| tops.into_iter().for_each(|top| talloc.free(top)));
    vec![build, free]
}
