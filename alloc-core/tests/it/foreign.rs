//! Memory taken elsewhere: declared, counted apart, never passed off as routed.
//!
//! Runs under miri.

use std::alloc::System;
use std::sync::mpsc;
use std::thread;

use crate::scene::{charged, limited};
use alloc_core::{
    Budget, Context, ContextHandle, ContextOptions, Foreign, ForeignKind, ForeignUsage, FromGlobalAlloc, HostAllocator,
    HostError, Notice, NoticeEvent, Scope, Scoped, Snapshot, Usage,
};
use testkit::RecordingAllocator;

type Host = RecordingAllocator<FromGlobalAlloc<System>>;

fn root(witness: &Host) -> Context {
    // SAFETY: every test ends its tree before the witness.
    unsafe { Context::root(witness, ContextOptions::new("root").scope(Scope::Device)) }.expect("memory")
}

fn live(context: &ContextHandle, kind: ForeignKind) -> u64 {
    context.usage().foreign(kind).live_bytes
}

fn close(root: Context) {
    root.close_root().expect("nothing is left");
}

/// Counted apart, in no routed column and no charge; totals outlive the context.
#[test]
fn m44_what_cannot_be_routed_is_reported_apart_and_not_passed_off_as_routed() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let compiler = limited(&root, Budget::exact(10_000));
    let routed = (compiler.usage().total(), charged(&compiler));
    let heap = |context: &ContextHandle| {
        let heap = context.subtree_usage().foreign(ForeignKind::Heap);
        (heap.live_bytes, heap.peak_bytes, heap.total_bytes)
    };
    // An LLVM takes five times the budget, from nobody who could refuse it.
    let mut llvm = Foreign::declare(&compiler, ForeignKind::Heap, 50_000).expect("a statement");
    llvm.set_bytes(70_000).expect("a statement");
    llvm.set_bytes(20_000).expect("a statement");
    assert_eq!((compiler.usage().total(), charged(&compiler)), routed);
    assert_eq!(heap(&compiler), (20_000, 70_000, 70_000));
    assert_eq!((heap(&root), root.usage().foreign_total()), (heap(&compiler), ForeignUsage::default()));
    drop(llvm);
    assert_eq!(heap(&compiler), (0, 70_000, 70_000));
    drop(compiler);
    assert_eq!(heap(&root).2, 70_000);
    close(root);
}

/// V21: notices only inform, so one that never came does not keep anything open.
#[test]
fn v21_a_notice_that_is_missing_does_not_keep_a_root_open() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    root.notify(notice(NoticeEvent::Allocated, 4096, Scope::Device));
    assert_eq!(live(&root, ForeignKind::Executable), 4096);
    close(root);
    witness.assert_empty("after the root was closed");
}

fn notice(event: NoticeEvent, bytes: usize, scope: Scope) -> Notice {
    Notice { event, bytes, scope }
}

#[test]
fn v20_of_foreign_memory_only_executable_is_notified_and_each_notice_is_balanced() {
    use NoticeEvent::{Allocated, Freed};
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let jit = root.child_with(ContextOptions::new("jit").scope(Scope::Object)).expect("memory");
    for kind in [ForeignKind::Heap, ForeignKind::Mapping] {
        let mut declared = Foreign::declare(&jit, kind, 100).expect("a statement");
        declared.set_bytes(200).expect("a statement");
        drop(declared);
    }
    assert_eq!(witness.notices(), [], "Vulkan knows of executable memory alone");

    let mut code = Foreign::declare(&jit, ForeignKind::Executable, 4096).expect("a statement");
    code.set_bytes(4096).expect("no change");
    code.set_bytes(8192).expect("a statement");
    code.set_bytes(0).expect("a statement");
    code.set_bytes(64).expect("a statement");
    thread::spawn(move || drop(code)).join().expect("no panic");
    let told = [(Allocated, 4096), (Freed, 4096), (Allocated, 8192), (Freed, 8192), (Allocated, 64), (Freed, 64)];
    assert_eq!(witness.notices(), told.map(|(event, bytes)| notice(event, bytes, Scope::Object)));
    drop(jit);
    close(root);
}

#[test]
fn v20_notices_from_above_are_counted_and_passed_on_as_they_are() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let driver = root.child("driver").expect("memory");
    // As the callbacks of a driver would: a context is a host allocator too.
    let above: &dyn HostAllocator = &&driver;
    above.notify(notice(NoticeEvent::Allocated, 4096, Scope::Instance));
    assert_eq!(live(&driver, ForeignKind::Executable), 4096);
    above.notify(notice(NoticeEvent::Freed, 5000, Scope::Instance));
    assert_eq!(live(&driver, ForeignKind::Executable), 4096, "more than there is was not given back");
    above.notify(notice(NoticeEvent::Freed, 4096, Scope::Instance));
    assert_eq!(live(&driver, ForeignKind::Executable), 0);
    assert_eq!(witness.notices().len(), 3);
    drop(driver);
    close(root);
}

#[test]
fn sums_over_2_to_64_are_refused_and_change_nothing() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let most = isize::MAX as usize;
    let two = [(); 2].map(|()| Foreign::declare(&root, ForeignKind::Heap, most).expect("it fits"));
    let before = root.usage();
    if usize::BITS == 64 {
        assert_eq!(Foreign::declare(&root, ForeignKind::Heap, most).map(drop), Err(HostError::TooLarge));
    }
    assert_eq!(root.usage(), before);
    let third = Foreign::declare(&root, ForeignKind::Mapping, most).expect("kinds are apart");
    assert_eq!(root.usage().foreign_total().live_bytes, 3_u64.saturating_mul(most as u64));
    drop((two, third));
    assert_eq!(root.usage().foreign_total().live_bytes, 0);
    close(root);
}

/// Declarations that threads make, change, hand over and drop: exact when quiet, and never below 0 or over the peak
/// meanwhile.
#[test]
fn foreign_counts_are_exact_across_threads() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let rounds = if cfg!(miri) { 5 } else { 2000 };
    let (give, take) = mpsc::channel::<Foreign>();
    thread::scope(|threads| {
        let root = &root;
        for number in 1..=2 {
            let give = give.clone();
            threads.spawn(move || {
                for round in 0..rounds {
                    let bytes = number * 100 + round % 7;
                    let mut made = Foreign::declare(root, ForeignKind::Heap, bytes).expect("a statement");
                    made.set_bytes(bytes + 50).expect("a statement");
                    give.send(made).expect("the receiver waits");
                }
            });
        }
        drop(give);
        threads.spawn(move || {
            for declared in take {
                let seen = root.usage().foreign(ForeignKind::Heap);
                assert!(seen.live_bytes >= declared.bytes() as u64 && seen.peak_bytes >= seen.live_bytes, "{seen:?}");
                assert!(seen.total_bytes >= seen.peak_bytes, "{seen:?}");
            }
        });
    });
    let quiet = root.usage().foreign(ForeignKind::Heap);
    let total: usize = (1..=2).flat_map(|number| (0..rounds).map(move |round| number * 100 + round % 7 + 50)).sum();
    assert_eq!((quiet.live_bytes, quiet.total_bytes), (0, total as u64));
    assert!(quiet.peak_bytes > 0 && quiet.peak_bytes <= total as u64);
    close(root);
}

#[test]
fn a_snapshot_has_columns_for_each_kind() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let system = Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Command);
    let plain = Snapshot::capture(&root, system).expect("memory").to_string();
    assert!(!plain.contains("elsewhere"), "nothing is said where there is nothing: {plain}");

    let llvm = root.child_with(ContextOptions::new("llvm").label("of the JIT")).expect("memory");
    let gone = root.child("gone").expect("memory");
    drop(Foreign::declare(&gone, ForeignKind::Mapping, 17).expect("a statement"));
    drop(gone);
    let mut heap = Foreign::declare(&llvm, ForeignKind::Heap, 123_456).expect("a statement");
    heap.set_bytes(1000).expect("a statement");
    let code = Foreign::declare(&llvm, ForeignKind::Executable, 777).expect("a statement");

    let snapshot = Snapshot::capture(&root, system).expect("memory");
    assert_eq!(snapshot.nodes()[1].usage, llvm.usage());
    assert_eq!(snapshot.total().foreign_total().live_bytes, 1777);
    assert_eq!(snapshot.total().foreign(ForeignKind::Mapping).total_bytes, 17);
    let table = snapshot.to_string();
    let rows: Vec<Vec<&str>> =
        table.lines().skip_while(|line| !line.starts_with("taken elsewhere")).map(words).collect();
    assert_eq!(rows[1], ["llvm", "of", "the", "JIT", "executable", "777", "B", "777", "B", "777", "B"]);
    assert_eq!(rows[2], ["llvm", "of", "the", "JIT", "heap", "1000", "B", "120", "KiB", "120", "KiB"]);
    assert_eq!(rows.len(), 3);

    let mut text = String::new();
    snapshot.write_json(&mut text).expect("a String takes all");
    let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(json[1]["foreign"]["heap"]["peak_bytes"], 123_456);
    assert_eq!(json[0]["foreign_gone"]["mapping"]["total_bytes"], 17);
    drop((heap, code));
    drop(llvm);
    close(root);
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn usage_adds_and_subtracts_what_is_foreign() {
    let witness = RecordingAllocator::system();
    let root = root(&witness);
    let mut declared = Foreign::declare(&root, ForeignKind::Heap, 10).expect("declared");
    let constant = root.usage();
    declared.set_bytes(30).expect("declared");
    let heap = |usage: Usage| {
        let heap = usage.foreign(ForeignKind::Heap);
        [heap.live_bytes, heap.peak_bytes, heap.total_bytes]
    };
    assert_eq!(heap(root.usage().without(&constant)), [20; 3]);
    assert_eq!(heap(root.usage().plus(&constant)), [40; 3]);
    drop(declared);
    close(root);
}
