//! A recorder under the root that shares no code with the accounts it checks: one lock, one map of live blocks.

use std::alloc::{Layout, System};
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloc_core::{
    AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, HostError, Notice, PointerStatus, Scope, dangling,
};

/// A host allocator that writes down every call and checks it. Clones share the record.
///
/// Slow and simple on purpose: what it says is the truth that other numbers are compared with.
///
/// # Panics
/// Every method of [`HostAllocator`] panics, with a text that names the block, when the caller breaks a rule: a block
/// that is not live (double free, foreign pointer), another layout or scope than the block was taken with, a call made
/// while a lock that guards a context's state is held; and when the allocator behind does: misaligned, or overlapping a
/// live block.
pub struct RecordingAllocator<A = FromGlobalAlloc<System>> {
    shared: Arc<SharedRecord<A>>,
}

/// What was seen of one scope, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeTally {
    /// Successful requests for a block.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Successful `resize` calls.
    pub resizes: u64,
    /// Bytes now taken.
    pub live_bytes: u64,
    /// Blocks now taken.
    pub live_blocks: u64,
    /// Most bytes ever taken at once.
    pub peak_bytes: u64,
    /// Bytes ever taken; a `resize` adds what the block gains.
    pub total_bytes: u64,
}

struct SharedRecord<A> {
    inner: A,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    live: BTreeMap<usize, RecordedBlock>,
    scopes: [ScopeTally; Scope::COUNT],
    all: ScopeTally,
    refused: u64,
    zero_sized: u64,
    notices: Vec<Notice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordedBlock {
    size: usize,
    align: usize,
    scope: Scope,
}

impl RecordingAllocator {
    /// Over the allocator of the operating system.
    #[must_use]
    pub fn system() -> Self {
        Self::new(FromGlobalAlloc::SYSTEM)
    }
}

impl<A> RecordingAllocator<A> {
    /// Over `inner`.
    pub fn new(inner: A) -> Self {
        Self { shared: Arc::new(SharedRecord { inner, record: Mutex::default() }) }
    }

    /// What was seen of `scope`.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> ScopeTally {
        self.record().scopes[scope.index()]
    }

    /// What was seen of all scopes together. Its peak is that of the sum.
    #[must_use]
    pub fn total(&self) -> ScopeTally {
        self.record().all
    }

    /// Requests that the allocator behind refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.record().refused
    }

    /// Calls for blocks of 0 bytes, which a context never forwards.
    #[must_use]
    pub fn zero_sized(&self) -> u64 {
        self.record().zero_sized
    }

    /// The notices heard, in order.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.record().notices.clone()
    }

    /// Checks that every block was given back.
    ///
    /// # Panics
    /// When one is live; the text lists the first ten and ends with `when`.
    #[track_caller]
    pub fn assert_empty(&self, when: &str) {
        let live: Vec<_> = self.record().live.iter().take(10).map(|(at, block)| format!("{at:#x}: {block}")).collect();
        assert!(live.is_empty(), "blocks not given back {when}:\n{}", live.join("\n"));
    }

    /// The record is left whole by a panic: every change is made after the checks.
    fn record(&self) -> MutexGuard<'_, Record> {
        self.shared.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: HostAllocator> RecordingAllocator<A> {
    fn record_allocation(&self, layout: Layout, scope: Scope, zeroed: bool) -> Result<NonNull<u8>, AllocError> {
        entered("allocate");
        if layout.size() == 0 {
            self.record().zero_sized += 1;
            return Ok(dangling(layout));
        }
        let inner = &self.shared.inner;
        let answer = if zeroed { inner.allocate_zeroed(layout, scope) } else { inner.allocate(layout, scope) };
        let mut record = self.record();
        match answer {
            Ok(block) => {
                record.insert(block, RecordedBlock::new(layout, scope));
                record.tallies(scope, |tally| {
                    tally.allocations += 1;
                    tally.live_blocks += 1;
                    tally.resized(0, layout.size());
                });
            }
            Err(AllocError) => record.refused += 1,
        }
        answer
    }

    /// `call` is the `resize` of `inner` for this very block.
    fn record_resize(
        &self,
        block: NonNull<u8>,
        (old, new): (Layout, Layout),
        scope: Scope,
        call: impl FnOnce(&A) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        // Out of the map before the call: during it the address may already be somebody else's.
        let before = self.record().remove(block, RecordedBlock::new(old, scope));
        let answer = call(&self.shared.inner);
        let mut record = self.record();
        match answer {
            Ok(moved) => {
                record.insert(moved, RecordedBlock::new(new, scope));
                record.tallies(scope, |tally| {
                    tally.resizes += 1;
                    tally.resized(old.size(), new.size());
                });
            }
            Err(AllocError) => {
                record.live.insert(block.as_ptr().addr(), before);
                record.refused += 1;
            }
        }
        answer
    }
}

// SAFETY: blocks are `inner`'s own and go back to it as they came; the record is only written beside. Clones share
// both.
unsafe impl<A: HostAllocator> HostAllocator for RecordingAllocator<A> {
    fn traits(&self) -> AllocatorTraits {
        self.shared.inner.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.record_allocation(layout, scope, false)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.record_allocation(layout, scope, true)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        entered("deallocate");
        if layout.size() == 0 {
            self.record().zero_sized += 1;
            return;
        }
        {
            let mut record = self.record();
            record.remove(block, RecordedBlock::new(layout, scope));
            record.tallies(scope, |tally| {
                tally.frees += 1;
                tally.live_blocks -= 1;
                tally.live_bytes -= layout.size() as u64;
            });
        }
        // SAFETY: the record says that the block is live and has this layout and scope.
        unsafe { self.shared.inner.deallocate(block, layout, scope) };
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        entered("resize");
        if old.size() == 0 {
            return self.record_allocation(new, scope, false);
        }
        if new.size() == 0 {
            // SAFETY: this function's contract.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        self.record_resize(block, (old, new), scope, |inner| {
            // SAFETY: the record says that the block is live and has this layout and scope.
            unsafe { inner.resize(block, old, new, scope) }
        })
    }

    fn notify(&self, notice: Notice) {
        entered("notify");
        self.record().notices.push(notice);
        self.shared.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.shared.inner.refusal(layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.shared.inner.validate_pointer(pointer, front)
    }
}

/// Law 5: no allocator is called while a lock that guards our state is held.
fn entered(call: &str) {
    let held = alloc_core::held_state_locks();
    assert_eq!(held, 0, "{call} was called while {held} locks that guard a context's state are held");
}

impl Record {
    fn insert(&mut self, at: NonNull<u8>, block: RecordedBlock) {
        let start = at.as_ptr().addr();
        assert!(start.is_multiple_of(block.align), "the allocator behind gave {start:#x} for {block}");
        let below = self.live.range(..start).next_back().filter(|(at, below)| **at + below.size > start);
        let above = self.live.range(start..start + block.size).next();
        if let Some((other, its)) = below.or(above) {
            panic!("the allocator behind gave {start:#x} ({block}), which overlaps {other:#x} ({its})");
        }
        self.live.insert(start, block);
    }

    fn remove(&mut self, at: NonNull<u8>, block: RecordedBlock) -> RecordedBlock {
        let start = at.as_ptr().addr();
        match self.live.get(&start) {
            None => panic!("{start:#x} is not live: freed before, or never given ({block})"),
            Some(taken) => assert_eq!(*taken, block, "{start:#x} was taken as {taken}, given back as {block}"),
        }
        self.live.remove(&start).unwrap_or(block)
    }

    fn tallies(&mut self, scope: Scope, change: impl Fn(&mut ScopeTally)) {
        change(&mut self.scopes[scope.index()]);
        change(&mut self.all);
    }
}

impl ScopeTally {
    fn resized(&mut self, old: usize, new: usize) {
        self.live_bytes = self.live_bytes - old as u64 + new as u64;
        self.total_bytes += new.saturating_sub(old) as u64;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }
}

impl RecordedBlock {
    fn new(layout: Layout, scope: Scope) -> Self {
        Self { size: layout.size(), align: layout.align(), scope }
    }
}

impl fmt::Display for RecordedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, alignment {}, scope {}", self.size, self.align, self.scope)
    }
}

impl<A> Clone for RecordingAllocator<A> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<A> fmt::Debug for RecordingAllocator<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingAllocator").field(&self.total()).finish()
    }
}
