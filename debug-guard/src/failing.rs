//! The decorator that refuses what a [`Fault`] says.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use alloc_core::{AllocError, HostAllocator, HostError, Notice, Scope, Vetted, dangling};

use crate::fault::{Fault, Request};

/// A host allocator that refuses on purpose and forwards the rest to the allocator behind it.
///
/// It keeps no memory of its own and adds no byte to a block. Size 0 passes: it is answered with
/// [`dangling`], never counted and never refused. A block given before the plan changed may be freed
/// after.
///
/// # Threads
/// `Sync` where `A` is. The limits in bytes are never exceeded at any instant, and exactly one request has the number of
/// [`Fault::Nth`]. [`arm`](Self::arm) and [`disarm`](Self::disarm) are meant for moments when no other thread is asking: a
/// request under way may be judged by parts of the old plan and of the new.
pub struct FailingAllocator<A> {
    inner: A,
    plan: Plan,
    requests: AtomicU64,
    in_scope: PerScope,
    refused: AtomicU64,
    live: AtomicU64,
    total: AtomicU64,
    /// The latest refusal came from the plan, not from `inner`.
    ours: AtomicBool,
}

impl<A> FailingAllocator<A> {
    /// Wraps `inner`, armed with `fault` ([`Fault::Never`] only counts).
    pub const fn new(inner: A, fault: Fault) -> Self {
        Self {
            inner,
            plan: Plan::new(fault),
            requests: AtomicU64::new(0),
            in_scope: PerScope::new(),
            refused: AtomicU64::new(0),
            live: AtomicU64::new(0),
            total: AtomicU64::new(0),
            ours: AtomicBool::new(false),
        }
    }

    /// Replaces the plan. Requests, refusals and total bytes are counted from 0 again; live bytes stay.
    pub fn arm(&self, fault: Fault) {
        self.plan.store(Fault::Never);
        for counter in [&self.requests, &self.refused, &self.total].into_iter().chain(self.in_scope.all()) {
            counter.store(0, Relaxed);
        }
        self.plan.store(fault);
    }

    /// Refuses nothing from now on. The counts go on as they are.
    pub fn disarm(&self) {
        self.plan.store(Fault::Never);
    }

    /// Requests since the plan was armed, refused ones included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Requests that the plan refused since it was armed. Refusals of the allocator behind are not among them.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Bytes given and not yet freed.
    pub fn live_bytes(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Bytes given since the plan was armed.
    pub fn total_bytes(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The allocator behind.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// Counts a request for `bytes` more and asks the plan. On `Ok` the bytes are charged; a refusal of the inner allocator undoes that.
    fn admit(&self, bytes: u64, scope: Scope) -> Result<(), AllocError> {
        let fault = self.plan.load();
        let request = Request {
            number: self.requests.fetch_add(1, Relaxed),
            number_in_scope: self.in_scope.of(scope).fetch_add(1, Relaxed),
            scope,
        };
        if fault.strikes(request) || !charge(&self.live, bytes, fault.live_limit()) {
            return self.refuse();
        }
        if !charge(&self.total, bytes, fault.total_limit()) {
            self.live.fetch_sub(bytes, Relaxed);
            return self.refuse();
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self) -> Result<(), AllocError> {
        self.refused.fetch_add(1, Relaxed);
        self.ours.store(true, Relaxed);
        Err(AllocError)
    }

    /// Passes on what `inner` answered; where it refused, takes the charge of `bytes` back.
    fn settle(&self, answer: Result<NonNull<u8>, AllocError>, bytes: u64) -> Result<NonNull<u8>, AllocError> {
        if answer.is_err() {
            self.live.fetch_sub(bytes, Relaxed);
            self.total.fetch_sub(bytes, Relaxed);
            self.ours.store(false, Relaxed);
        }
        answer
    }
}

/// Adds `bytes` to `sum` unless that would exceed `limit`; false when it would. Checked and added in one step: a request that
/// is too large never makes another one fail that would have fitted.
fn charge(sum: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let fits = |now: u64| now.checked_add(bytes).filter(|after| bytes == 0 || *after <= limit);
    sum.fetch_update(Relaxed, Relaxed, fits).is_ok()
}

// SAFETY: blocks come from `inner` and go back to it with the layout and scope they were given with; size 0, which `inner` never
// sees, is answered with a dangling pointer here. A refused grow or shrink has not touched the block.
unsafe impl<A: HostAllocator> HostAllocator for FailingAllocator<A> {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let bytes = layout.size() as u64;
        self.admit(bytes, scope)?;
        self.settle(self.inner.allocate(layout, scope), bytes)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let bytes = layout.size() as u64;
        self.admit(bytes, scope)?;
        self.settle(self.inner.allocate_zeroed(layout, scope), bytes)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
            unsafe { self.inner.deallocate(block, layout, scope) };
            self.live.fetch_sub(layout.size() as u64, Relaxed);
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        let more = new.size().saturating_sub(old.size()) as u64;
        self.admit(more, scope)?;
        // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
        let answer = unsafe { self.inner.grow(block, old, new, scope) };
        self.settle(answer, more)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if new.size() == 0 {
            // SAFETY: the caller's promise. Shrinking to nothing frees, and freeing is never refused.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        self.admit(0, scope)?;
        // SAFETY: the caller's promise; a block of a size above 0 came from `inner`.
        let answer = unsafe { self.inner.shrink(block, old, new, scope) };
        if answer.is_ok() {
            self.live.fetch_sub(old.size().saturating_sub(new.size()) as u64, Relaxed);
        }
        self.settle(answer, 0)
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn may_unwind(&self) -> bool {
        self.inner.may_unwind()
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        if self.ours.load(Relaxed) {
            HostError::OutOfHostMemory { bytes: layout.size(), scope }
        } else {
            self.inner.refusal(layout, scope)
        }
    }

    fn exact_alignment(&self) -> bool {
        self.inner.exact_alignment()
    }

    fn wants_origin(&self) -> bool {
        self.inner.wants_origin()
    }

    fn vet(&self, pointer: NonNull<u8>, front: usize) -> Vetted {
        self.inner.vet(pointer, front)
    }
}

impl<A> fmt::Debug for FailingAllocator<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingAllocator")
            .field("fault", &self.plan.load())
            .field("requests", &self.requests())
            .field("refused", &self.refused())
            .field("live_bytes", &self.live_bytes())
            .field("total_bytes", &self.total_bytes())
            .finish_non_exhaustive()
    }
}

/// A [`Fault`] that can be replaced through `&self`.
struct Plan {
    kind: AtomicU8,
    /// Scope number, or millionths.
    small: AtomicU32,
    /// Request number, bytes, or seed.
    large: AtomicU64,
}

impl Plan {
    const fn new(fault: Fault) -> Self {
        let (kind, small, large) = encode(fault);
        Self { kind: AtomicU8::new(kind), small: AtomicU32::new(small), large: AtomicU64::new(large) }
    }

    fn store(&self, fault: Fault) {
        let (kind, small, large) = encode(fault);
        self.small.store(small, Relaxed);
        self.large.store(large, Relaxed);
        self.kind.store(kind, Relaxed);
    }

    fn load(&self) -> Fault {
        let (small, large) = (self.small.load(Relaxed), self.large.load(Relaxed));
        match self.kind.load(Relaxed) {
            1 => Fault::Nth(large),
            2 => Fault::From(large),
            3 => Fault::LiveBytes(large),
            4 => Fault::TotalBytes(large),
            5 => Scope::from_raw(small).map_or(Fault::Never, |scope| Fault::Scope(scope, large)),
            6 => Fault::Probability { per_million: small, seed: large },
            _ => Fault::Never,
        }
    }
}

const fn encode(fault: Fault) -> (u8, u32, u64) {
    match fault {
        Fault::Never => (0, 0, 0),
        Fault::Nth(n) => (1, 0, n),
        Fault::From(n) => (2, 0, n),
        Fault::LiveBytes(n) => (3, 0, n),
        Fault::TotalBytes(n) => (4, 0, n),
        Fault::Scope(scope, n) => (5, scope.as_raw(), n),
        Fault::Probability { per_million, seed } => (6, per_million, seed),
    }
}

/// One counter a scope, found without indexing.
struct PerScope {
    command: AtomicU64,
    object: AtomicU64,
    cache: AtomicU64,
    device: AtomicU64,
    instance: AtomicU64,
}

impl PerScope {
    const fn new() -> Self {
        Self {
            command: AtomicU64::new(0),
            object: AtomicU64::new(0),
            cache: AtomicU64::new(0),
            device: AtomicU64::new(0),
            instance: AtomicU64::new(0),
        }
    }

    const fn of(&self, scope: Scope) -> &AtomicU64 {
        match scope {
            Scope::Command => &self.command,
            Scope::Object => &self.object,
            Scope::Cache => &self.cache,
            Scope::Device => &self.device,
            Scope::Instance => &self.instance,
        }
    }

    fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        Scope::ALL.into_iter().map(|scope| self.of(scope))
    }
}
