use core::alloc::Layout;
use core::any::TypeId;
use core::fmt;
use core::marker::PhantomData;
use core::mem::transmute;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::ContextNode;
use crate::host::{AllocatorTraits, HostAllocator};
use crate::scope::Scope;

pub(crate) type DynAllocator = dyn HostAllocator + Sync;

/// Invariant: the allocator lives while a node that was not abandoned has the backing.
#[derive(Clone, Copy)]
pub(crate) struct Backing {
    allocator: NonNull<DynAllocator>,
    /// Reads nothing of the allocator, which may be gone.
    allocator_type: fn() -> AllocatorType,
}

// `&A` and a pointer to functions would be: an allocator whose method unwinds is as its author left it.
impl core::panic::UnwindSafe for Backing {}
impl core::panic::RefUnwindSafe for Backing {}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backing")
    }
}

struct AllocatorType {
    id: TypeId,
    /// The address of a value of size 0 identifies nothing.
    is_sizeless: bool,
    root_layout: Layout,
    free_root: unsafe fn(NonNull<u8>, Scope),
}

impl Backing {
    pub(crate) fn of<A: HostAllocator + Sync>(allocator: &A) -> Self {
        Self::at(NonNull::from(allocator))
    }

    pub(super) fn at<A: HostAllocator + Sync>(allocator: NonNull<A>) -> Self {
        let allocator: NonNull<dyn HostAllocator + Sync + '_> = allocator;
        Self {
            // SAFETY: changes only the lifetime; the type's invariant.
            allocator: unsafe { transmute::<NonNull<dyn HostAllocator + Sync + '_>, NonNull<DynAllocator>>(allocator) },
            allocator_type: AllocatorType::of::<A>,
        }
    }

    /// # Safety
    /// The invariant of the type holds while the result is used.
    #[inline]
    pub(super) unsafe fn get<'a>(self) -> &'a DynAllocator {
        // SAFETY: this function's contract.
        unsafe { self.allocator.as_ref() }
    }

    /// # Safety
    /// The allocator lies at the beginning of a block of its own, with [`root_layout`] and this scope; neither is used
    /// after this.
    pub(super) unsafe fn free_root(self, scope: Scope) {
        // SAFETY: this function's contract.
        unsafe { (self.allocator_type().free_root)(self.addr(), scope) };
    }

    pub(super) fn root_layout(self) -> Layout {
        self.allocator_type().root_layout
    }

    fn allocator_type(self) -> AllocatorType {
        (self.allocator_type)()
    }

    /// Two allocators of a type of size 0 are equal.
    pub(super) fn is_same(self, other: Self) -> bool {
        let (mine, theirs) = (self.allocator_type(), other.allocator_type());
        mine.id == theirs.id && (mine.is_sizeless || self.addr() == other.addr())
    }

    /// True when the other may be this one or a part of it.
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

/// [`TypeId::of`] accepts only types without lifetimes.
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
    // SAFETY: changes only the lifetime; `id` reads nothing of an `A`.
    unsafe { transmute::<&dyn OfType, &(dyn OfType + 'static)>(of) }.id()
}

pub(super) fn root_layout<A>() -> Option<(Layout, usize)> {
    let (layout, offset) = Layout::new::<A>().extend(ContextNode::LAYOUT).ok()?;
    Some((layout.pad_to_align(), offset))
}

/// # Safety
/// `block` begins with an `A`, and was allocated from it with [`root_layout`] in this scope; neither is used after
/// this.
unsafe fn free_root<A: HostAllocator>(block: NonNull<u8>, scope: Scope) {
    // SAFETY: this function's contract; the place is not used again.
    let allocator = unsafe { block.cast::<A>().read() };
    if let Some((layout, _)) = root_layout::<A>() {
        // SAFETY: this function's contract; moving an allocator invalidates no block.
        unsafe { allocator.deallocate(block, layout, scope) };
    }
}

pub(super) struct Abandoned;

// SAFETY: it gives no block out; one that shrinks stays in place.
unsafe impl HostAllocator for Abandoned {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }
    fn allocate(&self, _: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        Err(AllocError)
    }
    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout, _: Scope) {}
    unsafe fn resize(&self, block: NonNull<u8>, old: Layout, new: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        if new.size() <= old.size() && block.addr().get().is_multiple_of(new.align()) {
            Ok(block)
        } else {
            Err(AllocError)
        }
    }
}
