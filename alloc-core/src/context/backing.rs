//! The allocator behind a node: a pointer to a trait object.

use core::alloc::Layout;
use core::any::TypeId;
use core::marker::PhantomData;
use core::mem::transmute;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::ContextNode;
use crate::host::AllocatorTraits;
use crate::host::HostAllocator;
use crate::scope::Scope;

/// An allocator as any thread may call it.
pub(crate) type DynAllocator = dyn HostAllocator + Sync;

/// The address and type of an allocator.
///
/// Invariant: the allocator lives for as long as a node that was not abandoned has the backing. [`Context::root`](super::Context::root) and
/// [`ContextOptions::allocator`](super::ContextOptions::allocator) ask their callers for that.
#[derive(Clone, Copy)]
pub(crate) struct Backing {
    allocator: NonNull<DynAllocator>,
    /// Reads nothing of the allocator, which may be gone.
    allocator_type: fn() -> AllocatorType,
}

// As `&A` and a pointer to functions would be: an allocator whose method unwinds is as its author left it.
impl core::panic::UnwindSafe for Backing {}
impl core::panic::RefUnwindSafe for Backing {}

/// What a node must know of its allocator's type.
struct AllocatorType {
    id: TypeId,
    /// Of size 0, so that its address identifies nothing.
    is_sizeless: bool,
    root_layout: Layout,
    free_root: unsafe fn(NonNull<u8>, Scope),
}

impl Backing {
    pub(crate) fn of<A: HostAllocator + Sync>(allocator: &A) -> Self {
        Self::at(NonNull::from(allocator))
    }

    /// Of the allocator at this address.
    pub(super) fn at<A: HostAllocator + Sync>(allocator: NonNull<A>) -> Self {
        let allocator: NonNull<dyn HostAllocator + Sync + '_> = allocator;
        Self {
            // SAFETY: names another lifetime, and changes nothing else. How long the allocator lives is the type's invariant.
            allocator: unsafe {
                transmute::<NonNull<dyn HostAllocator + Sync + '_>, NonNull<DynAllocator>>(
                    allocator,
                )
            },
            allocator_type: AllocatorType::of::<A>,
        }
    }

    /// # Safety
    /// The allocator lives while the result is used: no node that has it was abandoned.
    #[inline]
    pub(super) unsafe fn get<'a>(self) -> &'a DynAllocator {
        // SAFETY: this function's contract.
        unsafe { self.allocator.as_ref() }
    }

    /// Frees a root's block through the allocator in it.
    ///
    /// # Safety
    /// The allocator lies at the beginning of a block of its own with [`root_layout`] and this scope; neither is used after this.
    pub(super) unsafe fn free_root(self, scope: Scope) {
        // SAFETY: this function's contract.
        unsafe { (self.allocator_type().free_root)(self.addr(), scope) };
    }

    /// The layout of the allocator and the node of a root that owns it.
    pub(super) fn root_layout(self) -> Layout {
        self.allocator_type().root_layout
    }

    fn allocator_type(self) -> AllocatorType {
        (self.allocator_type)()
    }

    /// True when both are the same allocator, so that a block of one can be freed through the other. Two allocators of a type of size 0 are
    /// equal.
    pub(super) fn is_same(self, other: Self) -> bool {
        let (mine, theirs) = (self.allocator_type(), other.allocator_type());
        mine.id == theirs.id && (mine.is_sizeless || self.addr() == other.addr())
    }

    /// True when the other allocator may be the same, or a part of it, so that it dies with this one.
    pub(super) fn dies_with(self, other: Self) -> bool {
        let (mine, theirs) = (self.allocator_type(), other.allocator_type());
        match (mine.is_sizeless, theirs.is_sizeless) {
            (false, false) => self.addr() == other.addr(),
            _ => mine.id == theirs.id,
        }
    }

    fn addr(self) -> NonNull<u8> {
        self.allocator.cast()
    }
}

impl AllocatorType {
    fn of<A: HostAllocator>() -> Self {
        Self {
            id: type_id::<A>(),
            is_sizeless: size_of::<A>() == 0,
            root_layout: root_layout::<A>().map_or(ContextNode::LAYOUT, |(layout, _)| layout),
            free_root: free_root::<A>,
        }
    }
}

/// Tells types apart, whatever their lifetimes; [`TypeId::of`] does so for those without.
fn type_id<A>() -> TypeId {
    trait OfType {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<A> OfType for PhantomData<A> {
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<A>()
        }
    }
    let of: &dyn OfType = &PhantomData::<A>;
    // SAFETY: names another lifetime, and changes nothing else; `id` reads nothing of an `A`.
    unsafe { transmute::<&dyn OfType, &(dyn OfType + 'static)>(of) }.id()
}

/// The layout of an allocator of type `A` with the node of a root behind it, and the node's offset; `None` where that overflows.
pub(super) fn root_layout<A>() -> Option<(Layout, usize)> {
    let (layout, offset) = Layout::new::<A>().extend(ContextNode::LAYOUT).ok()?;
    Some((layout.pad_to_align(), offset))
}

/// # Safety
/// `block` begins with an `A`, and has the layout of [`root_layout`], allocated from that `A` in this scope; neither is used after this.
unsafe fn free_root<A: HostAllocator>(block: NonNull<u8>, scope: Scope) {
    // SAFETY: the block begins with it (this function's contract), and it is not used there again.
    let allocator = unsafe { block.cast::<A>().read() };
    if let Some((layout, _)) = root_layout::<A>() {
        // SAFETY: this function's contract; moving an allocator invalidates no block.
        unsafe { allocator.deallocate(block, layout, scope) };
    }
}

/// The allocator of a node that was cut off from its own: it refuses every request and ignores frees.
pub(super) struct Abandoned;

// SAFETY: it gives no block out; a block that shrinks stays where it is.
unsafe impl HostAllocator for Abandoned {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }
    fn allocate(&self, _: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        Err(AllocError)
    }
    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout, _: Scope) {}
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        _: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if new.size() <= old.size() && block.addr().get().is_multiple_of(new.align()) {
            Ok(block)
        } else {
            Err(AllocError)
        }
    }
}
