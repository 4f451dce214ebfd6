//! Contexts used by several threads at once, against the witness below and a ledger beside: whenever all threads pause,
//! every number is right, after frees on other threads and after threads that ended.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

use alloc_core::{Budget, Context, ContextOptions, HostAllocator, Scope};
use testkit::{RecordingAllocator, Rng};

const THREADS: u64 = 4;
/// Each ends in a quiet point; its threads end with it.
const ROUNDS: u64 = 120;
const OPERATIONS: u64 = 120;
const CONTEXTS: usize = 10;

/// A block, and where it came from. Any thread may free it.
struct HeldBlock {
    start: NonNull<u8>,
    layout: Layout,
    scope: Scope,
    context: usize,
    thread: u64,
}

// SAFETY: memory may be used and freed on any thread.
unsafe impl Send for HeldBlock {}

/// What one context and scope must say: adds and subtracts, nothing else.
#[derive(Default)]
struct Line {
    live_bytes: AtomicI64,
    live_blocks: AtomicI64,
    total_bytes: AtomicU64,
    total_blocks: AtomicU64,
}

#[derive(Default)]
struct Ledger {
    lines: [[Line; Scope::COUNT]; CONTEXTS],
    frees_elsewhere: AtomicU64,
    resizes: AtomicU64,
}

struct Shared<'w> {
    root: Context,
    contexts: Vec<Context>,
    witness: &'w RecordingAllocator,
    ledger: Ledger,
    pool: Mutex<Vec<HeldBlock>>,
}

impl Ledger {
    fn change(&self, block: &HeldBlock, blocks: i64, bytes: i64) {
        let line = &self.lines[block.context][block.scope.index()];
        line.live_bytes.fetch_add(bytes, Relaxed);
        line.live_blocks.fetch_add(blocks, Relaxed);
        line.total_bytes.fetch_add(bytes.max(0) as u64, Relaxed);
        line.total_blocks.fetch_add(blocks.max(0) as u64, Relaxed);
    }
}

impl Shared<'_> {
    fn put(&self, block: HeldBlock) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }

    fn take(&self, rng: &mut Rng) -> Option<HeldBlock> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.is_empty() {
            return None;
        }
        let at = rng.below(pool.len() as u64) as usize;
        Some(pool.swap_remove(at))
    }

    fn operate(&self, rng: &mut Rng, thread: u64) {
        match rng.below(8) {
            0..4 => {
                let most = if rng.below(50) == 0 { 1 << 20 } else { 600 };
                let size = 1 + rng.below(most) as usize;
                let layout = Layout::from_size_align(size, 1 << rng.below(8)).expect("a small alignment");
                let scope = Scope::ALL[rng.below(Scope::COUNT as u64) as usize];
                let context = rng.below(CONTEXTS as u64) as usize;
                let start = HostAllocator::allocate(&self.contexts[context], layout, scope).expect("there is memory");
                let block = HeldBlock { start, layout, scope, context, thread };
                self.ledger.change(&block, 1, size as i64);
                self.put(block);
            }
            4 => {
                let Some(mut block) = self.take(rng) else {
                    return;
                };
                let (old, size) = (block.layout, 1 + rng.below(900) as usize);
                let new = Layout::from_size_align(size, old.align()).expect("a small alignment");
                let context = &self.contexts[block.context];
                // SAFETY: a live block of this context with this layout and scope.
                block.start = unsafe { HostAllocator::resize(context, block.start, old, new, block.scope) }
                    .expect("there is memory");
                block.layout = new;
                self.ledger.change(&block, 0, size as i64 - old.size() as i64);
                self.ledger.resizes.fetch_add(1, Relaxed);
                self.put(block);
            }
            _ => {
                let Some(block) = self.take(rng) else { return };
                self.free(&block);
                self.ledger.frees_elsewhere.fetch_add(u64::from(block.thread != thread), Relaxed);
            }
        }
    }

    fn free(&self, block: &HeldBlock) {
        // SAFETY: a live block of this context with this layout and scope; it was taken out of the pool.
        unsafe { HostAllocator::deallocate(&self.contexts[block.context], block.start, block.layout, block.scope) };
        self.ledger.change(block, -1, -(block.layout.size() as i64));
    }

    /// No thread runs: every context says what the ledger does, and all of them together what the witness does.
    fn compare(&self, base: &[alloc_core::Usage], when: &str) {
        for (context, (lines, base)) in self.contexts.iter().zip(self.ledger.lines.iter().zip(base)) {
            let usage = context.usage().without(base);
            for (scope, line) in Scope::ALL.into_iter().zip(lines) {
                let own = usage.scope(scope);
                let own = (own.live_bytes as i64, own.live_blocks as i64, own.total_bytes, own.total_blocks);
                let [bytes, blocks] = [&line.live_bytes, &line.live_blocks].map(|number| number.load(Relaxed));
                let [all_bytes, all_blocks] =
                    [&line.total_bytes, &line.total_blocks].map(|number| number.load(Relaxed));
                assert_eq!(own, (bytes, blocks, all_bytes, all_blocks), "{}, scope {scope}, {when}", context.name());
            }
        }
        let tree = self.root.subtree_usage();
        for scope in Scope::ALL {
            let (own, seen) = (tree.scope(scope), self.witness.scope(scope));
            let own = [own.live_bytes, own.live_blocks, own.total_bytes, own.total_blocks];
            let seen = [seen.live_bytes, seen.live_blocks, seen.total_bytes, seen.allocations];
            assert_eq!(own, seen, "the tree and the witness, scope {scope}, {when}");
        }
    }
}

#[test]
fn every_number_is_right_at_every_quiet_point() {
    for budget in [None, Some(Budget::limit(1 << 40)), Some(Budget::exact(1 << 40))] {
        let witness = RecordingAllocator::system();
        let options = ContextOptions::new("root");
        let options = if let Some(budget) = budget { options.budget(budget) } else { options };
        // SAFETY: the witness outlives the root, which is closed below.
        let root = unsafe { Context::root(&witness, options) }.expect("there is memory");
        // A tree three deep: each context hangs below the one at half its number.
        let mut contexts: Vec<Context> = Vec::new();
        for index in 0..CONTEXTS {
            let above = if index < 2 { &root } else { &contexts[index / 2] };
            let child = above.child("child").expect("there is memory");
            contexts.push(child);
        }
        // A parent holds the records of its children from here on.
        let base: Vec<_> = contexts.iter().map(|context| context.usage()).collect();
        let shared = Shared { root, contexts, witness: &witness, ledger: Ledger::default(), pool: Mutex::default() };
        let mut live_points = 0;
        for round in 0..ROUNDS {
            thread::scope(|scope| {
                for number in 0..THREADS {
                    let shared = &shared;
                    let thread = round * THREADS + number;
                    scope.spawn(move || {
                        let mut rng = Rng::new(thread.wrapping_mul(0x5851_F42D_4C95_7F2D));
                        (0..OPERATIONS).for_each(|_| shared.operate(&mut rng, thread));
                    });
                }
            });
            shared.compare(&base, &format!("budget {budget:?}, round {round}"));
            live_points += u32::from(!shared.pool.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
        }
        assert!(live_points >= 100, "{live_points} quiet points with live blocks");
        let elsewhere = shared.ledger.frees_elsewhere.load(Relaxed);
        assert!(elsewhere > 1000 && shared.ledger.resizes.load(Relaxed) > 1000, "{elsewhere} frees by other threads");
        while let Some(block) = shared.take(&mut Rng::new(1)) {
            shared.free(&block);
        }
        shared.compare(&base, "at the end");
        let Shared { root, mut contexts, .. } = shared;
        while contexts.pop().is_some() {}
        root.close_root().expect("everything was given back");
        witness.assert_empty("after the root was closed");
    }
}
