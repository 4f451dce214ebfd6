//! What binds blocks to a context: where their memory comes from and is freed to.

use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::header::{Block, Plan};
use super::reserve::Reserve;
use super::{Fill, TaggedBlock, tables};
use crate::context::{Context, ContextHandle, ContextOptions};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;
use crate::scope::Scope;
use crate::sync::{AtomicU8, AtomicUsize, Ordering, fence};

/// The owner of a domain: a context whose memory is tagged blocks.
///
/// Dropping it closes the domain: nothing more can be allocated, blocks that live stay valid, and whoever frees the last one ends the
/// domain and its context, on any thread. All blocks are counted in the context, in its default scope, headers included.
///
/// A domain costs its context and one record in it; a block of it costs 32 bytes. Only blocks whose parent is not of their domain, which are
/// mostly the tops of trees, count as references to it, by one atomic operation when they are allocated and when they are freed.
///
/// ```
/// use alloc_core::tagged::{Fill, TaggedDomain};
/// # use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope};
/// # static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("driver"))?;
/// let compiler = TaggedDomain::new(root.child_with(ContextOptions::new("compiler").scope(Scope::Object))?)?;
///
/// let shader = compiler.allocate(0, Fill::Undefined)?;
/// // SAFETY: the shader is live, and this thread's alone.
/// let name = unsafe { shader.allocate(16, Fill::Zeros) }?;
/// // SAFETY: as above.
/// assert_eq!(unsafe { name.parent() }, Some(shader));
///
/// drop(compiler); // closed; it ends with its last block
/// // SAFETY: neither block is used after this.
/// unsafe { shader.free() };
/// root.close_root()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a domain closes it"]
pub struct TaggedDomain {
    record: NonNull<DomainRecord>,
}

// SAFETY: a record is used through atomics, and holds a context, which any thread may use and end.
unsafe impl Send for TaggedDomain {}
// SAFETY: as above.
unsafe impl Sync for TaggedDomain {}

/// What a domain is called in the headers of its blocks. Used again when the domain has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DomainId(u16);

pub(super) struct DomainRecord {
    context: Context,
    number: u16,
    /// Owner, [counted](is_counted) blocks, and domains that fall back to this one.
    references: AtomicUsize,
    fallback: Option<NonNull<DomainRecord>>,
    /// 1: a request was refused since somebody asked.
    refused: AtomicU8,
}

const RECORD: Layout = Layout::new::<DomainRecord>();

impl TaggedDomain {
    /// Makes a domain of `context`, whose record lies in that context's own memory.
    ///
    /// # Errors
    /// The context, with the reason: its refusal, or [`Misuse::TableFull`] when the process has 65 535 domains.
    pub fn new(context: Context) -> Result<Self, Rejected<Context, HostError>> {
        Self::create(context, None)
    }

    /// As [`new`](Self::new), for code that cannot survive a refusal: what the context refuses, `fallback` serves, and
    /// [`reset_refused`](Self::reset_refused) says so afterwards. Blocks below such a block are of the fallback as well.
    ///
    /// The fallback's own fallback is not asked. The fallback lives at least as long as this domain, and serves until either is closed.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_fallback(
        context: Context,
        fallback: &Self,
    ) -> Result<Self, Rejected<Context, HostError>> {
        Self::create(context, Some(fallback.record))
    }

    /// A domain over `bytes` that are set aside now, as one block of `context`: to fall back to, for code that cannot survive a refusal.
    /// About 1 KiB of them is its own record. Blocks are rounded up by less than a half, and used again by blocks of about
    /// the same size. The context cannot be closed before this domain has ended.
    ///
    /// ```
    /// use alloc_core::tagged::{Fill, TaggedDomain};
    /// # use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc};
    /// # static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
    /// let root = Context::root_static(&SYSTEM, ContextOptions::new("device"))?;
    /// let reserve = TaggedDomain::reserve(&root, 64 << 10)?;
    /// let small = root.child_with(ContextOptions::new("pipeline").budget(Budget::exact(300)))?;
    /// let compiler = TaggedDomain::with_fallback(small, &reserve)?;
    ///
    /// let served = compiler.allocate(1000, Fill::Undefined)?;
    /// assert!(compiler.reset_refused(), "the compile succeeded, and must be thrown away");
    /// // SAFETY: not used after this.
    /// unsafe { served.free() };
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The context's refusal; [`HostError::OutOfHostMemory`] also where `bytes` have no room for the record; [`Misuse::TableFull`].
    pub fn reserve(context: &ContextHandle, bytes: usize) -> Result<Self, HostError> {
        let options = ContextOptions::new("reserve").scope(context.scope());
        let root = Context::root_owned(Reserve::new(context, bytes)?, options);
        let root = root.map_err(|rejected| rejected.error)?;
        Self::new(root).map_err(|rejected| rejected.error)
    }

    fn create(
        context: Context,
        fallback: Option<NonNull<DomainRecord>>,
    ) -> Result<Self, Rejected<Context, HostError>> {
        let scope = context.scope();
        let place = match context.try_allocate(RECORD, scope) {
            Ok(place) => place.cast::<DomainRecord>(),
            Err(error) => return Err(Rejected::new(context, error)),
        };
        let Some(number) = tables::add_domain(place) else {
            // SAFETY: just allocated there with this layout and scope.
            unsafe { context.free(place.cast(), RECORD, scope) };
            return Err(Rejected::new(context, HostError::Misuse(Misuse::TableFull)));
        };
        if let Some(fallback) = fallback {
            // SAFETY: the fallback's owner keeps it alive; from here on this domain does.
            unsafe { fallback.as_ref() }.retain();
        }
        let record = DomainRecord {
            context,
            number,
            references: AtomicUsize::new(1),
            fallback,
            refused: AtomicU8::new(0),
        };
        // SAFETY: the block has the record's layout. Its number is nobody's yet: who has none reads no record.
        unsafe { place.write(record) };
        Ok(Self { record: place })
    }

    /// Allocates a block without a parent.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`].
    pub fn allocate(&self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the owner keeps the domain.
        unsafe { self.id().allocate(size, fill) }
    }

    /// What the domain is called.
    #[must_use]
    pub fn id(&self) -> DomainId {
        DomainId(self.record().number)
    }

    /// The context that its blocks are memory of.
    #[must_use]
    pub fn context(&self) -> &ContextHandle {
        &self.record().context
    }

    /// Whether a request was refused, and the fallback asked, since the last call.
    #[must_use]
    pub fn reset_refused(&self) -> bool {
        self.record().refused.swap(0, Ordering::Relaxed) != 0
    }

    /// The owner as an address, for C. [`from_raw`](Self::from_raw) takes it back.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).record.cast()
    }

    /// The owner that [`into_raw`](Self::into_raw) made an address of.
    ///
    /// # Safety
    /// It was, and of all that is made of the address one at most is dropped.
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        Self { record: raw.cast() }
    }

    fn record(&self) -> &DomainRecord {
        // SAFETY: the owner's reference keeps it.
        unsafe { self.record.as_ref() }
    }
}

impl Drop for TaggedDomain {
    fn drop(&mut self) {
        self.record().context.refuse_allocations();
        // SAFETY: the owner's reference, used no more.
        unsafe { release(self.record) };
    }
}

impl fmt::Debug for TaggedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedDomain")
            .field("id", &self.id())
            .field("context", &self.record().context)
            .finish_non_exhaustive()
    }
}

impl DomainId {
    /// Of a live block's header.
    pub(super) const fn of_block(number: u16) -> Self {
        Self(number)
    }

    /// The number itself, never 0.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Allocates a block without a parent.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`].
    ///
    /// # Safety
    /// The domain has an owner or a live block, and keeps it during the call.
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: forwarded.
        let block = unsafe { allocate(self, size, fill) }?;
        retain(block);
        Ok(TaggedBlock::from_payload(block.payload()))
    }
}

/// Whether a block with this parent is a reference to its domain. All others are kept by their parent: it is of the same domain, and lives
/// longer.
pub(super) fn is_counted(block: Block, parent: Option<Block>) -> bool {
    parent.is_none_or(|parent| parent.domain() != block.domain())
}

/// A block becomes [counted](is_counted). The domain lives.
#[cold]
pub(super) fn retain(block: Block) {
    // SAFETY: the block keeps the domain, by itself from here on.
    if let Ok(record) = unsafe { record_of(block.domain()) } {
        record.retain();
    }
}

/// A block is [counted](is_counted) no more: its parent keeps the domain.
pub(super) fn release_kept(block: Block) {
    if let Some(record) = tables::domain(block.domain().0) {
        // SAFETY: the block's reference; the domain lives on.
        unsafe { release(record) };
    }
}

/// A block that is linked nowhere yet, and that nobody has counted.
///
/// # Safety
/// As [`DomainId::allocate`].
#[inline]
pub(super) unsafe fn allocate(
    domain: DomainId,
    size: usize,
    fill: Fill,
) -> Result<Block, HostError> {
    let plan = Plan::new(size)?;
    // SAFETY: forwarded.
    let record = unsafe { record_of(domain) }?;
    match record.allocate(&plan, size, fill) {
        Some(block) => Ok(block),
        None => record.allocate_by_fallback(&plan, size, fill),
    }
}

/// Frees the memory of one block, and gives its reference back if it was [counted](is_counted).
///
/// # Safety
/// The block is live, has no children, is linked nowhere, and is not used after this. One that was not counted was a child of a live block of
/// its domain.
#[inline]
pub(super) unsafe fn free(block: Block, was_counted: bool) {
    let Some(place) = tables::domain(block.domain().0) else {
        return; // a live block's domain is there
    };
    let _reference = was_counted.then(|| Reference(place));
    // SAFETY: entered until its last reference is gone, which is released after this, or the former parent's.
    let record = unsafe { place.as_ref() };
    // SAFETY: the record is the block's domain's.
    unsafe { record.free(block) };
}

/// Whether a request that was refused so may be served by the fallback: a domain that was closed allocates nothing more.
const fn is_for_a_fallback(error: HostError) -> bool {
    !matches!(error, HostError::Closed { .. })
}

/// Whether a request that the block's domain refuses so may be served by another one.
pub(super) fn has_fallback(block: Block, error: HostError) -> bool {
    // SAFETY: the block is one of the domain's.
    let record = unsafe { record_of(block.domain()) };
    is_for_a_fallback(error) && record.is_ok_and(|record| record.fallback.is_some())
}

/// Resizes the memory of a block in place or elsewhere.
///
/// # Errors
/// The context's refusal; the block is as it was.
///
/// # Safety
/// The block is live, and of `old`; `new` has its header at the same place.
pub(super) unsafe fn resize(block: Block, old: &Plan, new: &Plan) -> Result<Block, HostError> {
    // SAFETY: the block is one of the domain's.
    let record = unsafe { record_of(block.domain()) }?;
    let node = record.context.node();
    // SAFETY: the block's memory is of this context, with the layout of its plan and the context's scope.
    let memory = unsafe { node.resize(block.memory(), old.layout, new.layout, record.scope()) };
    let memory = memory.map_err(|_| node.refusal(new.layout, record.scope()))?;
    // SAFETY: that is the memory's layout now.
    Ok(unsafe { new.block(memory) })
}

impl DomainRecord {
    fn scope(&self) -> Scope {
        self.context.scope()
    }

    /// `None` where the context refuses.
    #[inline]
    fn allocate(&self, plan: &Plan, size: usize, fill: Fill) -> Option<Block> {
        let (node, scope) = (self.context.node(), self.scope());
        let memory = match fill {
            Fill::Undefined => node.allocate(plan.layout, scope),
            Fill::Zeros => node.allocate_zeroed(plan.layout, scope),
        };
        let memory = memory.ok()?;
        // SAFETY: that is the memory's layout.
        let block = unsafe { plan.block(memory) };
        // SAFETY: planned for this size, and nobody else's yet.
        unsafe { block.init(size, DomainId(self.number)) };
        Some(block)
    }

    /// What the context has refused.
    #[cold]
    #[inline(never)]
    fn allocate_by_fallback(
        &self,
        plan: &Plan,
        size: usize,
        fill: Fill,
    ) -> Result<Block, HostError> {
        let refusal = |record: &Self| record.context.node().refusal(plan.layout, record.scope());
        let error = refusal(self);
        let Some(fallback) = self.fallback.filter(|_| is_for_a_fallback(error)) else {
            return Err(error);
        };
        self.refused.store(1, Ordering::Relaxed);
        // SAFETY: the domain keeps its fallback.
        let fallback = unsafe { fallback.as_ref() };
        fallback
            .allocate(plan, size, fill)
            .ok_or_else(|| refusal(fallback))
    }

    /// # Safety
    /// As [`free`], for a block of this domain.
    unsafe fn free(&self, block: Block) {
        let Ok(plan) = Plan::new(block.size()) else {
            return; // it was planned when it was allocated
        };
        let (node, scope) = (self.context.node(), self.scope());
        // SAFETY: the block's memory is of this context, with the layout of its plan and the context's scope.
        unsafe { node.deallocate(block.memory(), plan.layout, scope) };
    }

    /// One reference a counted block, which has at least 32 bytes: the count cannot overflow.
    fn retain(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }
}

/// # Safety
/// The domain has an owner or a live block, and keeps it for as long as the record is used.
unsafe fn record_of<'r>(domain: DomainId) -> Result<&'r DomainRecord, HostError> {
    let record = tables::domain(domain.0).ok_or(HostError::Misuse(Misuse::NoDomain))?;
    // SAFETY: entered until the last reference is gone, which is not now.
    Ok(unsafe { record.as_ref() })
}

/// A block's reference on its domain, released also where the allocator unwinds.
struct Reference(NonNull<DomainRecord>);

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: the reference of a block that has just been freed.
        unsafe { release(self.0) };
    }
}

/// Gives a reference back. The last one ends the domain, and perhaps the one that it falls back to, and so on.
///
/// # Safety
/// The caller owns one reference, and does not use the record after this.
unsafe fn release(record: NonNull<DomainRecord>) {
    let mut ending = Some(record);
    while let Some(record) = ending {
        // SAFETY: the reference that is being given back keeps it.
        let references = unsafe { &record.as_ref().references };
        if references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: nobody refers to the record any more.
        ending = unsafe { end(record) };
    }
}

/// Ends a domain and its context. Returns the fallback, whose reference the caller must give back.
///
/// # Safety
/// Nobody refers to the record any more.
#[cold]
unsafe fn end(place: NonNull<DomainRecord>) -> Option<NonNull<DomainRecord>> {
    // SAFETY: written when the domain was made; nobody reads the place after this.
    let record = unsafe { place.read() };
    // Before the memory goes: another domain may have the number from here on.
    tables::remove_domain(record.number);
    // SAFETY: allocated from this context with this layout and scope.
    unsafe { record.context.free(place.cast(), RECORD, record.scope()) };
    record.fallback
}
