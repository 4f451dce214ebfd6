//! A bumpalo arena: its chunks come from the global allocator, whoever uses it, so all that can be done is to say how much.
#![expect(
    clippy::mut_from_ref,
    reason = "every call makes a new block, which nobody else can reach"
)]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use bumpalo::{AllocErr, Bump};

use super::ForeignKind;
use crate::adapters::HostSource;
use crate::context::ContextRef;
use crate::error::HostError;
use crate::rejected::Rejected;

/// A [`bumpalo::Bump`] whose chunks are declared at a context as [`ForeignKind::Heap`].
///
/// bumpalo takes its chunks from the global allocator and can be told no other: they are *not* routed through the context, no
/// budget holds them, and its allocator never hears of them. [`Arena`](crate::Arena) is the routed one. This type is for code
/// that has to use bumpalo, and makes the context's account say what that costs: at any moment outside of a call, the
/// declaration equals [`bytes_held`](ForeignBump::bytes_held), what the global allocator gave, to the byte. That is why the `Bump`
/// itself is not given out. `&ForeignBump` is an [`Allocator`], so collections can live in it.
///
/// Values are never dropped, so those with a destructor are refused when compiled, as an `Arena`'s `try_alloc` does.
///
/// Thread rules: one thread at a time (`Send` where `C` is, never `Sync`). Dropping gives the chunks back and withdraws them.
///
/// ```
/// use alloc_core::{Context, ContextOptions, ForeignBump, ForeignKind, FromGlobalAlloc};
/// # static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("compiler"))?;
/// let bump = ForeignBump::new_in(&root);
/// bump.set_allocation_limit(Some(100_000));
/// let name = bump.try_alloc_str("not routed, but known")?;
/// assert_eq!(name.len(), 21);
/// assert_eq!(root.usage().foreign(ForeignKind::Heap).live_bytes, bump.bytes_held() as u64);
/// assert!(bump.try_alloc([0_u8; 200_000]).is_err());
/// # drop(bump);
/// # root.close_root()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ForeignBump<C: ContextRef> {
    /// Dropped before the declaration: bytes are withdrawn once they are back.
    bump: Bump,
    declared: Declared<C>,
}

struct Declared<C: ContextRef> {
    context: C,
    bytes: Cell<usize>,
    /// `Bump::allocated_bytes` when last looked at: it is O(1) and changes whenever a chunk is taken.
    seen: Cell<usize>,
}

impl<C: ContextRef> ForeignBump<C> {
    /// A bump that declares its chunks at `context`; has none yet.
    pub fn new_in(context: C) -> Self {
        Self {
            bump: Bump::new(),
            declared: Declared {
                context,
                bytes: Cell::new(0),
                seen: Cell::new(0),
            },
        }
    }

    /// With a first chunk for at least `bytes` bytes.
    ///
    /// # Errors
    /// [`HostError::OutOfHostMemory`] when the global allocator refuses it.
    pub fn try_with_capacity_in(bytes: usize, context: C) -> Result<Self, HostError> {
        let mut made = Self::new_in(context);
        made.bump = Bump::try_with_capacity(bytes).map_err(|AllocErr| made.refused(bytes))?;
        made.declare_growth();
        Ok(made)
    }

    /// A block of `layout`, its content undefined.
    ///
    /// # Errors
    /// [`HostError::OutOfHostMemory`] when the global allocator or the [limit](ForeignBump::set_allocation_limit) refuses a chunk.
    #[inline]
    pub fn try_alloc_layout(&self, layout: Layout) -> Result<NonNull<u8>, HostError> {
        self.counted(|bump| bump.try_alloc_layout(layout))
            .map_err(|AllocErr| self.refused(layout.size()))
    }

    /// Moves `value` into the bump. `T` has no destructor.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](ForeignBump::try_alloc_layout), with the value.
    #[inline]
    pub fn try_alloc<T>(&self, value: T) -> Result<&mut T, Rejected<T, HostError>> {
        const { BumpNoDestructor::<T>::CHECK };
        match self.try_alloc_layout(Layout::new::<T>()) {
            Ok(block) => {
                let mut block = block.cast::<T>();
                // SAFETY: a new block of this size and alignment.
                unsafe { block.write(value) };
                // SAFETY: just written; new, so nobody else refers to it; it stays until `&mut` or the end of the bump.
                Ok(unsafe { block.as_mut() })
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// A copy of a slice.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](ForeignBump::try_alloc_layout).
    pub fn try_alloc_slice_copy<T: Copy>(&self, source: &[T]) -> Result<&mut [T], HostError> {
        self.counted(|bump| bump.try_alloc_slice_copy(source))
            .map_err(|AllocErr| self.refused(size_of_val(source)))
    }

    /// A slice of `len` elements; `make` gives the one at each index. `T` has no destructor.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] when `len` elements exceed `isize::MAX` bytes; as
    /// [`try_alloc_layout`](ForeignBump::try_alloc_layout). `make` is not called then.
    pub fn try_alloc_slice_fill_with<T>(
        &self,
        len: usize,
        make: impl FnMut(usize) -> T,
    ) -> Result<&mut [T], HostError> {
        const { BumpNoDestructor::<T>::CHECK };
        let layout = Layout::array::<T>(len).map_err(|_| HostError::TooLarge)?;
        self.counted(|bump| bump.try_alloc_slice_fill_with(len, make))
            .map_err(|AllocErr| self.refused(layout.size()))
    }

    /// A copy of a text.
    ///
    /// # Errors
    /// As [`try_alloc_layout`](ForeignBump::try_alloc_layout).
    pub fn try_alloc_str(&self, text: &str) -> Result<&mut str, HostError> {
        self.counted(|bump| bump.try_alloc_str(text))
            .map_err(|AllocErr| self.refused(text.len()))
    }

    /// Ends all blocks. The newest chunk stays, the others go back to the global allocator and are withdrawn.
    pub fn reset(&mut self) {
        self.bump.reset();
        self.declare_growth();
    }

    /// Bytes that the bump holds of the global allocator: all chunks with their bookkeeping. O(chunks).
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.bump.allocated_bytes_including_metadata()
    }

    /// Bytes of chunks, without their bookkeeping, that the bump may hold; `None` is no limit.
    #[must_use]
    pub fn allocation_limit(&self) -> Option<usize> {
        self.bump.allocation_limit()
    }

    /// Sets the limit. What is held already stays.
    pub fn set_allocation_limit(&self, bytes: Option<usize>) {
        self.bump.set_allocation_limit(bytes);
    }

    /// Where the chunks are declared.
    #[must_use]
    pub const fn context(&self) -> &C {
        &self.declared.context
    }

    /// Runs a call that may take chunks, and brings the declaration up to date behind it, also when the call unwinds.
    #[inline]
    fn counted<'b, R>(&'b self, call: impl FnOnce(&'b Bump) -> R) -> R {
        struct Behind<'b, C: ContextRef>(&'b ForeignBump<C>);
        impl<C: ContextRef> Drop for Behind<'_, C> {
            #[inline]
            fn drop(&mut self) {
                if self.0.bump.allocated_bytes() != self.0.declared.seen.get() {
                    self.0.declare_growth();
                }
            }
        }
        let _behind = Behind(self);
        call(&self.bump)
    }

    #[cold]
    fn declare_growth(&self) {
        let (declared, held) = (&self.declared, self.bytes_held());
        declared.seen.set(self.bump.allocated_bytes());
        // Refused only where others have declared all of 2^64: then the last figure stays, and goes with the bump.
        if declared
            .context
            .sealed_node()
            .0
            .change_foreign(ForeignKind::Heap, declared.bytes.get(), held)
            .is_ok()
        {
            declared.bytes.set(held);
        }
    }

    #[cold]
    fn refused(&self, bytes: usize) -> HostError {
        HostError::OutOfHostMemory {
            bytes,
            scope: self.declared.context.sealed_node().0.scope,
        }
    }
}

/// Refuses types with a destructor when the caller is compiled.
struct BumpNoDestructor<T>(T);

impl<T> BumpNoDestructor<T> {
    const CHECK: () = assert!(
        !core::mem::needs_drop::<T>(),
        "a bump drops nothing: keep values with a destructor elsewhere"
    );
}

impl<C: ContextRef> Drop for Declared<C> {
    fn drop(&mut self) {
        self.context
            .sealed_node()
            .0
            .foreign
            .subtract(ForeignKind::Heap, self.bytes.get() as u64);
    }
}

// SAFETY: every call is answered by `&Bump`, which keeps the trait's promises until the bump is reset or dropped; both need it
// without a borrow.
unsafe impl<C: ContextRef> Allocator for &ForeignBump<C> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.counted(|bump| Allocator::allocate(&bump, layout))
    }
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: forwarded.
        self.counted(|bump| unsafe { Allocator::deallocate(&bump, block, layout) });
    }
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: forwarded.
        self.counted(|bump| unsafe { Allocator::grow(&bump, block, old, new) })
    }
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: forwarded.
        self.counted(|bump| unsafe { Allocator::shrink(&bump, block, old, new) })
    }
}

impl<C: ContextRef> HostSource for &ForeignBump<C> {
    fn refusal(&self, layout: Layout) -> HostError {
        self.refused(layout.size())
    }
}

impl<C: ContextRef> fmt::Debug for ForeignBump<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignBump")
            .field("bytes_held", &self.bytes_held())
            .finish_non_exhaustive()
    }
}
