//! The allocator behind a node, flattened: a data pointer and function pointers, so that the hot path makes one indirect call.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::ContextNode;
use crate::allocator_traits::AllocatorTraits;
use crate::error::HostError;
use crate::host::{HostAllocator, Notice, PointerStatus};
use crate::scope::Scope;
use crate::sync::{AtomicPtr, Ordering};

type AllocFn = unsafe fn(*const (), Layout, Scope) -> Result<NonNull<u8>, AllocError>;
type FreeFn = unsafe fn(*const (), NonNull<u8>, Layout, Scope);
type ResizeFn =
    unsafe fn(*const (), NonNull<u8>, Layout, Layout, Scope) -> Result<NonNull<u8>, AllocError>;

/// The functions of one type of allocator.
pub(crate) struct Functions {
    allocate: AllocFn,
    deallocate: FreeFn,
    zeroed: AllocFn,
    resize: ResizeFn,
    notify: unsafe fn(*const (), Notice),
    refusal: unsafe fn(*const (), Layout, Scope) -> HostError,
    traits: unsafe fn(*const ()) -> AllocatorTraits,
    validate_pointer: unsafe fn(*const (), NonNull<u8>, usize) -> PointerStatus,
    /// The type has size 0, so that its address identifies nothing.
    sizeless: bool,
    /// The layout of an allocator with a root's node behind it, see [`root_layout`].
    root_layout: Option<Layout>,
    free_root: unsafe fn(*const (), Layout, Scope),
    type_name: fn() -> &'static str,
}

/// An allocator by address and functions.
#[derive(Clone, Copy)]
pub(crate) struct Backing {
    data: *const (),
    functions: &'static Functions,
}

impl Backing {
    pub(crate) fn of<A: HostAllocator + Sync>(allocator: &A) -> Self {
        Self::at(core::ptr::from_ref(allocator))
    }

    /// Of the allocator at this address.
    pub(super) fn at<A: HostAllocator + Sync>(allocator: *const A) -> Self {
        struct Of<A>(A);
        impl<A: HostAllocator + Sync> Of<A> {
            const FUNCTIONS: Functions = Functions {
                allocate: Self::allocate,
                deallocate: Self::deallocate,
                zeroed: Self::zeroed,
                resize: Self::resize,
                notify: Self::notify,
                refusal: Self::refusal,
                traits: Self::traits,
                validate_pointer: Self::validate_pointer,
                sizeless: size_of::<A>() == 0,
                root_layout: root_layout::<A>(),
                free_root: Self::free_root,
                type_name: core::any::type_name::<A>,
            };

            /// # Safety
            /// `data` is the address of an `A` that lives through the call.
            #[inline]
            unsafe fn at<'a>(data: *const ()) -> &'a A {
                // SAFETY: this function's contract.
                unsafe { &*data.cast::<A>() }
            }
            unsafe fn allocate(
                data: *const (),
                layout: Layout,
                scope: Scope,
            ) -> Result<NonNull<u8>, AllocError> {
                // SAFETY: forwarded.
                unsafe { Self::at(data) }.allocate(layout, scope)
            }
            unsafe fn zeroed(
                data: *const (),
                layout: Layout,
                scope: Scope,
            ) -> Result<NonNull<u8>, AllocError> {
                // SAFETY: forwarded.
                unsafe { Self::at(data) }.allocate_zeroed(layout, scope)
            }
            unsafe fn deallocate(
                data: *const (),
                block: NonNull<u8>,
                layout: Layout,
                scope: Scope,
            ) {
                // SAFETY: forwarded.
                let allocator = unsafe { Self::at(data) };
                // SAFETY: forwarded.
                unsafe { allocator.deallocate(block, layout, scope) }
            }
            unsafe fn resize(
                data: *const (),
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
                scope: Scope,
            ) -> Result<NonNull<u8>, AllocError> {
                // SAFETY: forwarded.
                let allocator = unsafe { Self::at(data) };
                // SAFETY: forwarded.
                unsafe { allocator.resize(block, old, new, scope) }
            }
            /// # Safety
            /// `data` is the address of an `A` at the beginning of a block of its own, with this layout and scope; neither is used after this.
            unsafe fn free_root(data: *const (), layout: Layout, scope: Scope) {
                // SAFETY: the caller's promise; the place is not used after this.
                let allocator = unsafe { data.cast::<A>().read() };
                if let Some(block) = NonNull::new(data.cast_mut().cast::<u8>()) {
                    // SAFETY: the caller's promise; moving an allocator invalidates no block.
                    unsafe { allocator.deallocate(block, layout, scope) };
                }
            }
            unsafe fn notify(data: *const (), notice: Notice) {
                // SAFETY: forwarded.
                unsafe { Self::at(data) }.notify(notice);
            }
            unsafe fn refusal(data: *const (), layout: Layout, scope: Scope) -> HostError {
                // SAFETY: forwarded.
                unsafe { Self::at(data) }.refusal(layout, scope)
            }
            unsafe fn traits(data: *const ()) -> AllocatorTraits {
                // SAFETY: forwarded.
                unsafe { Self::at(data) }.traits()
            }
            unsafe fn validate_pointer(
                data: *const (),
                pointer: NonNull<u8>,
                front: usize,
            ) -> PointerStatus {
                // SAFETY: forwarded.
                unsafe { Self::at(data) }.validate_pointer(pointer, front)
            }
        }
        Self {
            data: allocator.cast(),
            functions: &Of::<A>::FUNCTIONS,
        }
    }
}

/// The functions of an abandoned allocator: they refuse every request, ignore frees and do not use the address.
static ABANDONED: Functions = Functions {
    allocate: |_, _, _| Err(AllocError),
    deallocate: |_, _, _, _| (),
    zeroed: |_, _, _| Err(AllocError),
    resize: |_, block, old, new, _| {
        if new.size() <= old.size() && block.addr().get().is_multiple_of(new.align()) {
            Ok(block)
        } else {
            Err(AllocError)
        }
    },
    notify: |_, _| (),
    refusal: |_, layout, scope| HostError::OutOfHostMemory {
        bytes: layout.size(),
        scope,
    },
    traits: |_| AllocatorTraits::new().never_unwinds(),
    validate_pointer: |_, _, _| PointerStatus::Unknown,
    sizeless: true,
    root_layout: None,
    free_root: |_, _, _| (),
    type_name: || "abandoned",
};

/// An allocator of type `A` and behind it the node of a root that owns it; `None` where that overflows.
pub(super) const fn root_layout<A>() -> Option<Layout> {
    match Layout::new::<A>().extend(ContextNode::LAYOUT) {
        Ok((layout, _)) => Some(layout.pad_to_align()),
        Err(_) => None,
    }
}

/// The offset of the root's node behind its allocator.
pub(super) const fn root_offset<A>() -> usize {
    match Layout::new::<A>().extend(ContextNode::LAYOUT) {
        Ok((_, offset)) => offset,
        Err(_) => 0,
    }
}

/// A node's [`Backing`], which [`Link::abandon`] can cut off while other threads use it.
pub(crate) struct Link {
    data: *const (),
    allocate: AtomicPtr<()>,
    deallocate: AtomicPtr<()>,
    functions: AtomicPtr<Functions>,
    /// The original functions, kept when the link is abandoned.
    original: &'static Functions,
}

// SAFETY: `data` is the address of a `Sync` allocator (see `Backing::of`), used through shared references only.
unsafe impl Send for Link {}
// SAFETY: as above; the other fields are atomics or never written.
unsafe impl Sync for Link {}

impl Link {
    /// # Safety
    /// The allocator behind `backing` lives until the link is no longer used or was abandoned.
    pub(crate) unsafe fn new(backing: Backing) -> Self {
        Self {
            data: backing.data,
            allocate: AtomicPtr::new(backing.functions.allocate as *mut ()),
            deallocate: AtomicPtr::new(backing.functions.deallocate as *mut ()),
            functions: AtomicPtr::new(core::ptr::from_ref(backing.functions).cast_mut()),
            original: backing.functions,
        }
    }

    /// A second link to the same allocator.
    pub(crate) fn inherit(&self) -> Self {
        Self {
            data: self.data,
            allocate: AtomicPtr::new(self.allocate.load(Ordering::Relaxed)),
            deallocate: AtomicPtr::new(self.deallocate.load(Ordering::Relaxed)),
            functions: AtomicPtr::new(self.functions.load(Ordering::Relaxed)),
            original: self.original,
        }
    }

    /// The layout of the allocator and the node of a root that owns it.
    pub(crate) fn root_layout(&self) -> Layout {
        self.original.root_layout.unwrap_or(ContextNode::LAYOUT)
    }

    /// Frees such a block through the allocator in it. An abandoned block stays allocated.
    ///
    /// # Safety
    /// The allocator lies at the beginning of a block of its own with [`root_layout`](Self::root_layout) and this scope; neither is used
    /// after this.
    pub(super) unsafe fn free_root(&self, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { (self.functions().free_root)(self.data, self.root_layout(), scope) }
    }

    /// True when both links have the same allocator, so that a block of one can be freed through the other.
    ///
    /// Two allocators of a type of size 0 are equal. The result may be a false `false` when two crates made the links.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        core::ptr::eq(self.original, other.original)
            && (self.original.sizeless || self.data == other.data)
    }

    /// True when the other link's allocator may be the same, so that it dies with this one. Errs towards true. Does not compare the
    /// functions' addresses, which may differ between crates for one type.
    pub(crate) fn dies_with(&self, other: &Self) -> bool {
        match (self.original.sizeless, other.original.sizeless) {
            (false, false) => self.data == other.data,
            (true, true) => (self.original.type_name)() == (other.original.type_name)(),
            _ => false,
        }
    }

    /// Replaces the functions, so that this link no longer calls the allocator.
    pub(crate) fn abandon(&self) {
        self.allocate
            .store(ABANDONED.allocate as *mut (), Ordering::Relaxed);
        self.deallocate
            .store(ABANDONED.deallocate as *mut (), Ordering::Relaxed);
        self.functions
            .store((&raw const ABANDONED).cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let function = self.allocate.load(Ordering::Relaxed);
        // SAFETY: only `AllocFn`s are ever stored here.
        let function = unsafe { core::mem::transmute::<*mut (), AllocFn>(function) };
        // SAFETY: `data` is the live allocator's address (`Link::new`), or unused by the abandoned function.
        unsafe { function(self.data, layout, scope) }
    }

    /// # Safety
    /// As [`HostAllocator::deallocate`], for a block of this link's allocator.
    #[inline]
    pub(crate) unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        let function = self.deallocate.load(Ordering::Relaxed);
        // SAFETY: only `FreeFn`s are ever stored here.
        let function = unsafe { core::mem::transmute::<*mut (), FreeFn>(function) };
        // SAFETY: `data` as in `allocate`; the block is the caller's promise.
        unsafe { function(self.data, block, layout, scope) }
    }

    fn functions(&self) -> &'static Functions {
        // SAFETY: only addresses of `&'static Functions` are ever stored here.
        unsafe { &*self.functions.load(Ordering::Relaxed) }
    }

    pub(crate) fn zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: `data` as in `allocate`.
        unsafe { (self.functions().zeroed)(self.data, layout, scope) }
    }

    /// # Safety
    /// As [`HostAllocator::resize`].
    pub(crate) unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: `data` as in `allocate`; the block is the caller's promise.
        unsafe { (self.functions().resize)(self.data, block, old, new, scope) }
    }

    pub(crate) fn notify(&self, notice: Notice) {
        // SAFETY: `data` as in `allocate`.
        unsafe { (self.functions().notify)(self.data, notice) }
    }

    pub(crate) fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        // SAFETY: `data` as in `allocate`.
        unsafe { (self.functions().refusal)(self.data, layout, scope) }
    }

    pub(crate) fn traits(&self) -> AllocatorTraits {
        // SAFETY: `data` as in `allocate`.
        unsafe { (self.functions().traits)(self.data) }
    }

    pub(crate) fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        // SAFETY: `data` as in `allocate`.
        unsafe { (self.functions().validate_pointer)(self.data, pointer, front) }
    }
}
