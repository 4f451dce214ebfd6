//! What it costs to look at a tree of 100 to 100 000 contexts: the sum over a subtree, against talloc's walk over as many blocks;
//! a snapshot, taken and given back; the snapshot as JSON. ns a context.

mod support;

use std::alloc::Layout;
use std::fmt;
use std::hint::black_box;
use std::ptr::NonNull;

use alloc_core::{Context, ContextOptions, HostAllocator, HostSource, Scope, Scoped, Snapshot};
use support::backing::SYSTEM;
use support::clock::{pinned, thread_ns};
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{Case, amount, interleave};
use support::talloc::{Chunk, Talloc};

const SIZES: [usize; 4] = [100, 1000, 10_000, 100_000];
/// Children of each node.
const FAN: usize = 10;
const BLOCK: Layout = Layout::new::<[u64; 8]>();

fn main() {
    keep_pages();
    let mut report = BenchReport::new(
        "snapshot",
        &["contexts", "sum", "talloc's sum", "take", "json"],
    );
    let talloc = Talloc::load("snapshot");
    for size in SIZES.map(|size| if size > 1000 { amount(size) } else { size }) {
        let tree = Tree::new(size);
        let peer = talloc.as_ref().map(|talloc| (talloc, chunks(talloc, size)));
        let top = &tree.contexts[0];
        let system = Scoped::new(&SYSTEM, Scope::Command);
        let taken = Snapshot::capture(top, system).expect("memory");
        assert_eq!(
            (taken.nodes().len(), taken.total().total().live_bytes),
            (size, top.subtree_usage().total().live_bytes)
        );
        let looks = (amount(1_000_000) / size).max(1);
        let each = |look: &(dyn Fn() + Sync)| {
            pinned(|| {
                let begin = thread_ns();
                for _ in 0..looks {
                    look();
                }
                (thread_ns() - begin) as f64 / (looks * size) as f64
            })
        };
        let taken = &Shared(taken);
        let mut cases = vec![
            Case::new("sum", || {
                each(&|| assert_ne!(black_box(top.subtree_usage().total().live_bytes), 0))
            }),
            Case::new("take", || {
                each(&|| drop(black_box(Snapshot::capture(top, system).expect("memory"))))
            }),
            Case::new("json", || each(&|| taken.write())),
        ];
        if let Some((talloc, chunks)) = &peer {
            let top = chunks[0];
            cases.push(Case::new("talloc", move || {
                each(&|| assert_ne!(black_box(talloc.total_size(top)), 0))
            }));
        }
        let times: Vec<f64> = interleave(11, cases)
            .into_iter()
            .map(|figures| figures[0])
            .collect();
        let talloc = times.get(3).copied().unwrap_or(f64::NAN);
        report.row(&size.to_string(), &[times[0], talloc, times[1], times[2]]);
        if !talloc.is_nan() {
            report.ratio(&format!("sum-{size}"), "talloc", times[0], talloc);
        }
        report.ns(&format!("sum-{size}"), times[0]);
        report.ns(&format!("take-{size}"), times[1]);
        report.ns(&format!("json-{size}"), times[2]);
        if let Some((talloc, chunks)) = peer {
            talloc.free(chunks[0]);
        }
    }
    report.print();
}

/// What only one thread at a time looks at.
struct Shared<T>(T);

// SAFETY: the rounds run one after the other, each on a thread that is joined before the next begins.
unsafe impl<T> Sync for Shared<T> {}

impl<A: HostSource> Shared<Snapshot<A>> {
    fn write(&self) {
        let mut sink = SnapshotSink(0);
        self.0.write_json(&mut sink).expect("the sink takes all");
        assert_ne!(black_box(sink.0), 0);
    }
}

struct SnapshotSink(usize);

impl fmt::Write for SnapshotSink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// Contexts with a block of 64 bytes each, [`FAN`] below each one.
struct Tree {
    contexts: Vec<Context>,
    blocks: Vec<NonNull<u8>>,
}

impl Tree {
    fn new(size: usize) -> Self {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("root").scope(Scope::Object))
            .expect("memory");
        let mut contexts = vec![root];
        for at in 1..size {
            contexts.push(contexts[(at - 1) / FAN].child("context").expect("memory"));
        }
        let blocks = contexts.iter().map(|context| {
            HostAllocator::allocate(&context, BLOCK, Scope::Object).expect("memory")
        });
        Self {
            blocks: blocks.collect(),
            contexts,
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for (context, block) in self.contexts.iter().zip(&self.blocks) {
            // SAFETY: taken from this context with this layout and scope.
            unsafe { HostAllocator::deallocate(&context, *block, BLOCK, Scope::Object) };
        }
        // Children before their parents.
        while self.contexts.pop().is_some() {}
    }
}

fn chunks(talloc: &Talloc, size: usize) -> Vec<Chunk> {
    let mut chunks = vec![talloc.take(None, BLOCK.size())];
    for at in 1..size {
        chunks.push(talloc.take(Some(chunks[(at - 1) / FAN]), BLOCK.size()));
    }
    chunks
}
