//! The *domain rule* of the SAFETY comments: a record is in the table, and stays in place, until its last reference is
//! released; the owner, each counted block, and a domain that falls back to it have one, and a block that is not
//! counted has a parent of the same domain.

use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::header::{Block, Plan};
use super::reserve::Reserve;
use super::{Fill, TaggedBlock, header, tree};
use crate::context::{Context, ContextHandle, ContextOptions};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;
use crate::scope::Scope;
use crate::sync::{AtomicU8, AtomicUsize, Ordering, Relaxed as _};
use crate::threads::ThreadTable;

/// The owner of a domain: a context whose memory is tagged blocks.
///
/// Dropping it closes the domain: nothing more can be allocated, live blocks stay valid, and freeing the last one, on
/// any thread, ends the domain and its context. All blocks are counted in the context, in its default scope, headers
/// included.
///
/// A block costs 32 bytes. Only one without a parent of the same domain costs atomic operations.
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
/// // SAFETY: both blocks are live.
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

// SAFETY: records change through atomics; any thread may end the context.
unsafe impl Send for TaggedDomain {}
// SAFETY: a shared owner reads atomics and a context, which is `Sync`.
unsafe impl Sync for TaggedDomain {}

/// The number of a domain in the headers of its blocks, which other domains may get after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct DomainId(pub(super) u16);

pub(super) struct DomainRecord {
    context: Context,
    number: u16,
    /// Counted blocks, the owner, and domains that fall back to this one have one each.
    references: AtomicUsize,
    fallback: Option<NonNull<DomainRecord>>,
    refused: AtomicU8,
}

const RECORD: Layout = Layout::new::<DomainRecord>();

impl TaggedDomain {
    /// Creates a domain of `context`, with its record in the context's own memory.
    ///
    /// # Errors
    /// The context, with its refusal, or [`Misuse::TableFull`] with 65 535 domains in the process.
    pub fn new(context: Context) -> Result<Self, Rejected<Context, HostError>> {
        Self::create(context, None)
    }

    /// As [`new`](Self::new), for code that cannot survive a refusal: `fallback` serves what the context refuses, and
    /// [`reset_refused`](Self::reset_refused) reports it afterwards. Blocks below such a block belong to the fallback
    /// as well. It lives at least as long as this domain, and serves until either is closed; its own fallback is not
    /// used.
    pub fn with_fallback(context: Context, fallback: &Self) -> Result<Self, Rejected<Context, HostError>> {
        Self::create(context, Some(fallback.record))
    }

    /// Creates a domain over `bytes`, which are reserved now as one block of `context`: a fallback for code that cannot
    /// survive a refusal. The domain's records take about 1 KiB of them; block sizes are rounded up by less than a
    /// half; freed memory serves blocks of about the same size. The context cannot be closed before this domain has
    /// ended.
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
    /// The context's refusal; [`HostError::OutOfHostMemory`] also if `bytes` has no room for the records;
    /// [`Misuse::TableFull`].
    pub fn reserve(context: &ContextHandle, bytes: usize) -> Result<Self, HostError> {
        let options = ContextOptions::new("reserve").scope(context.scope());
        let root = Context::root_owned(Reserve::new(context, bytes)?, options);
        let root = root.map_err(|rejected| rejected.error)?;
        Self::new(root).map_err(|rejected| rejected.error)
    }

    fn create(context: Context, fallback: Option<NonNull<DomainRecord>>) -> Result<Self, Rejected<Context, HostError>> {
        let scope = context.scope();
        let place = match context.try_allocate(RECORD, scope) {
            Ok(place) => place.cast::<DomainRecord>(),
            Err(error) => return Err(Rejected::new(context, error)),
        };
        let Some(number) = header::add_domain(place) else {
            // SAFETY: just allocated there with this layout and scope.
            unsafe { context.free(place.cast(), RECORD, scope) };
            return Err(Rejected::new(context, HostError::Misuse(Misuse::TableFull)));
        };
        if let Some(fallback) = fallback {
            // SAFETY: the domain rule: the fallback's owner.
            unsafe { fallback.as_ref() }.retain();
        }
        let record =
            DomainRecord { context, number, references: AtomicUsize::new(1), fallback, refused: AtomicU8::new(0) };
        // SAFETY: the block has the record's layout. No block has its number yet.
        unsafe { place.write(record) };
        Ok(Self { record: place })
    }

    /// Allocates a block without a parent.
    pub fn allocate(&self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the owner keeps the domain.
        unsafe { self.id().allocate(size, fill) }
    }

    /// The domain's number.
    #[must_use]
    pub fn id(&self) -> DomainId {
        self.record().id()
    }

    /// The context that the blocks' memory comes from.
    #[must_use]
    pub fn context(&self) -> &ContextHandle {
        &self.record().context
    }

    /// Whether the context refused a request, and the fallback was used, since the last call.
    #[must_use]
    pub fn reset_refused(&self) -> bool {
        self.record().refused.swap(0, Ordering::Relaxed) != 0
    }

    /// Converts the owner into an address, for C. [`from_raw`](Self::from_raw) converts it back.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).record.cast()
    }

    /// Converts an address from [`into_raw`](Self::into_raw) back into the owner.
    ///
    /// # Safety
    /// `raw` comes from `into_raw`, and at most one of the owners made from it is dropped.
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        Self { record: raw.cast() }
    }

    fn record(&self) -> &DomainRecord {
        // SAFETY: the domain rule.
        unsafe { self.record.as_ref() }
    }
}

impl Drop for TaggedDomain {
    fn drop(&mut self) {
        crate::context::tree::close(self.record().context.node());
        // SAFETY: the owner's reference.
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
    /// The domain has an owner or a live block throughout the call.
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: this function's contract.
        let block = ThreadTable::with(|table| unsafe { allocate(self, table, size, fill) })?;
        retain(block);
        Ok(TaggedBlock::from_payload(block.payload()))
    }
}

#[inline]
pub(super) fn is_counted(block: Block, parent: Option<Block>) -> bool {
    parent.is_none_or(|parent| parent.domain() != block.domain())
}

/// The block becomes [counted](is_counted); its domain is live.
#[cold]
pub(super) fn retain(block: Block) {
    // SAFETY: the domain rule.
    if let Ok(record) = unsafe { record_of(block.domain()) } {
        record.retain();
    }
}

/// The block is no longer [counted](is_counted): its parent keeps the domain.
pub(super) fn release_kept(block: Block) {
    if let Some(record) = header::domain(block.domain().0) {
        // SAFETY: the block's reference; the domain lives on.
        unsafe { release(record) };
    }
}

impl DomainRecord {
    #[inline]
    fn id(&self) -> DomainId {
        DomainId(self.number)
    }

    #[inline]
    fn scope(&self) -> Scope {
        self.context.scope()
    }

    /// A counted block has at least 32 bytes, so the count cannot overflow.
    fn retain(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }
}

/// # Safety
/// The domain has an owner or a live block while the record is used.
#[inline]
unsafe fn record_of<'r>(domain: DomainId) -> Result<&'r DomainRecord, HostError> {
    let record = header::domain(domain.0).ok_or(HostError::Misuse(Misuse::NoDomain))?;
    // SAFETY: the domain rule.
    Ok(unsafe { record.as_ref() })
}

/// Released also where the allocator or a destructor unwinds.
struct Reference(NonNull<DomainRecord>);

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: this value's reference.
        unsafe { release(self.0) };
    }
}

/// # Safety
/// The caller owns a reference, and does not use the record after this.
unsafe fn release(record: NonNull<DomainRecord>) {
    // SAFETY: this function's contract.
    if unsafe { is_last(record) } {
        // SAFETY: the last reference was just released.
        unsafe { end_all(record) };
    }
}

/// True for the last one: then the caller must end the domain.
///
/// # Safety
/// As [`release`].
unsafe fn is_last(record: NonNull<DomainRecord>) -> bool {
    // SAFETY: the domain rule.
    let references = unsafe { &record.as_ref().references };
    if references.fetch_sub(1, Ordering::Release) != 1 {
        return false;
    }
    // A load, and not a fence, which the thread sanitizer does not see.
    references.load(Ordering::Acquire);
    true
}

/// Ends fallbacks without references in a loop, not recursion. A fallback lives until the destructors of the domain's
/// values have run.
///
/// # Safety
/// The record has no reference.
#[cold]
unsafe fn end_all(mut record: NonNull<DomainRecord>) {
    loop {
        // SAFETY: the record stays in place until it is ended below.
        let fallback = unsafe { record.as_ref() }.fallback.map(Reference);
        // SAFETY: the last reference was just released.
        unsafe { end(record) };
        let Some(fallback) = fallback else { return };
        let fallback = ManuallyDrop::new(fallback).0;
        // SAFETY: the ended domain's reference.
        if !unsafe { is_last(fallback) } {
            return;
        }
        record = fallback;
    }
}

/// The caller releases the reference on its fallback.
///
/// # Safety
/// The record has no reference.
unsafe fn end(place: NonNull<DomainRecord>) {
    // SAFETY: written when the domain was created.
    let record = unsafe { place.read() };
    // Another domain may get the number from here on.
    header::remove_domain(record.number);
    // SAFETY: allocated from this context with this layout and scope.
    unsafe { record.context.free(place.cast(), RECORD, record.scope()) };
}

/// Allocates a block, neither linked nor counted.
///
/// # Safety
/// As [`DomainId::allocate`].
#[inline(always)]
pub(super) unsafe fn allocate(
    domain: DomainId,
    table: ThreadTable<'_>,
    size: usize,
    fill: Fill,
) -> Result<Block, HostError> {
    if u32::try_from(size).is_err() || fill == Fill::Zeros {
        // SAFETY: this function's contract.
        return unsafe { allocate_otherwise(domain, size, fill) };
    }
    let plan = Plan::new(size)?;
    // SAFETY: this function's contract.
    let record = unsafe { record_of(domain) }?;
    let (node, scope) = (record.context.node(), record.scope());
    let Ok(memory) = node.allocate_on(table, plan.layout, scope) else {
        return record.allocate_by_fallback(size, fill);
    };
    // SAFETY: the memory has this layout.
    let block = unsafe { plan.block(memory) };
    // SAFETY: planned for this size, and new.
    unsafe { block.init(size, record.id()) };
    Ok(block)
}

/// # Safety
/// As [`DomainId::allocate`].
#[inline(never)]
unsafe fn allocate_otherwise(domain: DomainId, size: usize, fill: Fill) -> Result<Block, HostError> {
    let plan = Plan::new(size)?;
    // SAFETY: this function's contract.
    let record = unsafe { record_of(domain) }?;
    match record.allocate(&plan, size, fill) {
        Some(block) => Ok(block),
        None => record.allocate_by_fallback(size, fill),
    }
}

/// Releases the block's reference if it was [counted](is_counted).
///
/// # Safety
/// The block is live, without children, unlinked, and not used after this. If it was not counted, its former parent is
/// a live block of its domain.
pub(super) unsafe fn free(block: Block, was_counted: bool, table: ThreadTable<'_>) {
    let Some(place) = header::domain(block.domain().get()) else {
        return; // a live block's domain is there
    };
    let _reference = was_counted.then(|| Reference(place));
    // SAFETY: the domain rule: this block's reference, or its former parent's.
    let record = unsafe { place.as_ref() };
    // SAFETY: the block's own domain.
    unsafe { record.free(block, table) };
}

/// # Safety
/// The block is live; its children are used no more.
pub(super) unsafe fn free_leaves(above: Block, table: ThreadTable<'_>) {
    // SAFETY: the domain rule.
    let Ok(record) = (unsafe { record_of(above.domain()) }) else {
        return; // a live block's domain is there
    };
    while let Some(child) = tree::newest_child(above).filter(|child| child.is_plain_leaf()) {
        tree::remove_newest(above, child);
        if is_counted(child, Some(above)) {
            // SAFETY: a leaf, no longer linked.
            unsafe { free(child, true, table) };
        } else {
            // SAFETY: a leaf of the parent's domain, no longer linked.
            unsafe { record.free(child, table) };
        }
    }
}

/// A closed domain allocates nothing more, not even from its fallback.
const fn is_for_a_fallback(error: HostError) -> bool {
    !matches!(error, HostError::Closed { .. })
}

pub(super) fn has_fallback(block: Block, error: HostError) -> bool {
    // SAFETY: the domain rule.
    let record = unsafe { record_of(block.domain()) };
    is_for_a_fallback(error) && record.is_ok_and(|record| record.fallback.is_some())
}

/// A refusal leaves the block as it was.
///
/// # Safety
/// The block is live, with the plan `old`; `new` has its header at the same place.
pub(super) unsafe fn resize(block: Block, old: &Plan, new: &Plan) -> Result<Block, HostError> {
    // SAFETY: the domain rule.
    let record = unsafe { record_of(block.domain()) }?;
    let node = record.context.node();
    // SAFETY: this function's contract.
    let memory = unsafe { block.memory(old) };
    // SAFETY: the context's memory, with the plan's layout and the context's scope.
    let memory = unsafe { node.resize(memory, old.layout, new.layout, record.scope()) };
    let memory = memory.map_err(|_| node.refusal(new.layout, record.scope()))?;
    // SAFETY: the memory has this layout now.
    Ok(unsafe { new.block(memory) })
}

impl DomainRecord {
    #[inline]
    fn allocate(&self, plan: &Plan, size: usize, fill: Fill) -> Option<Block> {
        let (node, scope) = (self.context.node(), self.scope());
        let memory = match fill {
            Fill::Undefined => node.allocate(plan.layout, scope),
            Fill::Zeros => node.allocate_zeroed(plan.layout, scope),
        };
        let memory = memory.ok()?;
        // SAFETY: the memory has this layout.
        let block = unsafe { plan.block(memory) };
        // SAFETY: planned for this size, and new.
        unsafe { block.init(size, self.id()) };
        Some(block)
    }

    #[cold]
    #[inline(never)]
    fn allocate_by_fallback(&self, size: usize, fill: Fill) -> Result<Block, HostError> {
        let plan = Plan::new(size)?;
        let refusal = |record: &Self| record.context.node().refusal(plan.layout, record.scope());
        let error = refusal(self);
        let Some(fallback) = self.fallback.filter(|_| is_for_a_fallback(error)) else {
            return Err(error);
        };
        self.refused.set(1);
        // SAFETY: the domain rule.
        let fallback = unsafe { fallback.as_ref() };
        fallback.allocate(&plan, size, fill).ok_or_else(|| refusal(fallback))
    }

    /// # Safety
    /// As [`free`], for a block of this domain.
    #[inline]
    unsafe fn free(&self, block: Block, table: ThreadTable<'_>) {
        let Ok(plan) = Plan::new(block.size()) else {
            return; // it was planned when it was allocated
        };
        let (node, scope) = (self.context.node(), self.scope());
        // SAFETY: the plan for its size.
        let memory = unsafe { block.memory(&plan) };
        // SAFETY: the context's memory, with the plan's layout and the context's scope.
        unsafe { node.deallocate_on(table, memory, plan.layout, scope) };
    }
}
