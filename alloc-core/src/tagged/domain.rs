//! What binds blocks to a context: where their memory comes from and is freed to.

use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::header::Block;
use super::reserve::Reserve;
use super::{Fill, TaggedBlock, memory, tables};
use crate::context::{Context, ContextHandle, ContextOptions};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;
use crate::scope::Scope;
use crate::sync::{AtomicU8, AtomicUsize, Ordering, fence};
use crate::threads::ThreadTable;

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
    pub(super) context: Context,
    number: u16,
    /// Owner, [counted](is_counted) blocks, and domains that fall back to this one.
    references: AtomicUsize,
    pub(super) fallback: Option<NonNull<DomainRecord>>,
    /// 1: a request was refused since somebody asked.
    pub(super) refused: AtomicU8,
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
        self.record().id()
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
    #[inline]
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
        let block =
            ThreadTable::with(|table| unsafe { memory::allocate(self, table, size, fill) })?;
        retain(block);
        Ok(TaggedBlock::from_payload(block.payload()))
    }
}

/// Whether a block with this parent is a reference to its domain. All others are kept by their parent: it is of the same domain, and lives
/// longer.
#[inline]
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

impl DomainRecord {
    #[inline]
    pub(super) fn id(&self) -> DomainId {
        DomainId(self.number)
    }

    #[inline]
    pub(super) fn scope(&self) -> Scope {
        self.context.scope()
    }

    /// One reference a counted block, which has at least 32 bytes: the count cannot overflow.
    fn retain(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }
}

/// # Safety
/// The domain has an owner or a live block, and keeps it for as long as the record is used.
#[inline]
pub(super) unsafe fn record_of<'r>(domain: DomainId) -> Result<&'r DomainRecord, HostError> {
    let record = tables::domain(domain.0).ok_or(HostError::Misuse(Misuse::NoDomain))?;
    // SAFETY: entered until the last reference is gone, which is not now.
    Ok(unsafe { record.as_ref() })
}

/// A block's reference on its domain, released also where the allocator unwinds.
pub(super) struct Reference(pub(super) NonNull<DomainRecord>);

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
    // SAFETY: forwarded.
    if unsafe { is_last(record) } {
        EndingDomains(Some(record)).run();
    }
}

/// Gives a reference back; true when nobody refers to the record any more, so that it is the caller's to end.
///
/// # Safety
/// As [`release`].
unsafe fn is_last(record: NonNull<DomainRecord>) -> bool {
    // SAFETY: the reference that is being given back keeps it.
    let references = unsafe { &record.as_ref().references };
    if references.fetch_sub(1, Ordering::Release) != 1 {
        return false;
    }
    fence(Ordering::Acquire);
    true
}

/// A domain without references, and after it perhaps the one that it falls back to, and so on: a loop, not recursion.
struct EndingDomains(Option<NonNull<DomainRecord>>);

impl EndingDomains {
    #[cold]
    fn run(&mut self) {
        while let Some(place) = self.0.take() {
            // SAFETY: nobody refers to the record any more, and it is in its place until it is ended here.
            let fallback = unsafe { place.as_ref() }.fallback;
            // Its turn comes also where the end of this one unwinds.
            // SAFETY: the reference of the domain that ends, which asks its fallback for nothing more.
            self.0 = fallback.filter(|fallback| unsafe { is_last(*fallback) });
            // SAFETY: as above.
            unsafe { end(place) };
        }
    }
}

impl Drop for EndingDomains {
    /// After a panic of what a domain's context owned: the rest ends all the same.
    fn drop(&mut self) {
        self.run();
    }
}

/// Ends a domain and its context. The reference on its fallback is the caller's to give back.
///
/// # Safety
/// Nobody refers to the record any more.
unsafe fn end(place: NonNull<DomainRecord>) {
    // SAFETY: written when the domain was made; nobody reads the place after this.
    let record = unsafe { place.read() };
    // Before the memory goes: another domain may have the number from here on.
    tables::remove_domain(record.number);
    // SAFETY: allocated from this context with this layout and scope.
    unsafe { record.context.free(place.cast(), RECORD, record.scope()) };
}
