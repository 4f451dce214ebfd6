//! One value (or slice, or trait object) in a block of its own.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use super::TryVec;
use crate::adapters::HostSource;
use crate::error::HostError;
use crate::host::dangling;
use crate::rejected::Rejected;

/// An owned value in host memory of `A`, freed with the box.
///
/// Nothing stands in front of the value: the block has exactly its size. A value of size 0 takes no block, asks the
/// allocator for nothing and gives it nothing back. [`unsize_try_box!`](crate::unsize_try_box) makes trait objects.
///
/// As with `Box`, calls that are not about the value itself are associated functions: `TryBox::allocator(&b)`.
pub struct TryBox<T: ?Sized, A: HostSource> {
    /// Aligned; the block of `Layout::for_value`, or dangling where that has size 0.
    value: NonNull<T>,
    allocator: A,
    owns: PhantomData<T>,
}

// SAFETY: the box is the only owner of the value and of its allocator handle.
unsafe impl<T: ?Sized + Send, A: HostSource + Send> Send for TryBox<T, A> {}
// SAFETY: a shared box only gives out `&T` and `&A`.
unsafe impl<T: ?Sized + Sync, A: HostSource + Sync> Sync for TryBox<T, A> {}
/// A block for `layout`, or a dangling pointer for size 0.
fn allocate_block(allocator: &impl HostSource, layout: Layout) -> Result<NonNull<u8>, HostError> {
    if layout.size() == 0 {
        return Ok(dangling(layout));
    }
    let block = allocator.allocate(layout);
    block
        .map(NonNull::cast)
        .map_err(|_| allocator.refusal(layout))
}

/// Frees the block when the value is gone, be it by a panic of its destructor.
struct UninitBlock<'a, A: HostSource> {
    start: NonNull<u8>,
    layout: Layout,
    allocator: &'a A,
}

impl<A: HostSource> Drop for UninitBlock<'_, A> {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: the block was the box's own, of this allocator and with this layout (see `TryBox::value`), and the box is gone.
            unsafe { self.allocator.deallocate(self.start, self.layout) }
        }
    }
}

impl<T, A: HostSource> TryBox<T, A> {
    /// Moves `value` into a block of `allocator`.
    ///
    /// # Errors
    /// The allocator's refusal, with the value.
    #[inline]
    pub fn try_new_in(value: T, allocator: A) -> Result<Self, Rejected<T, HostError>> {
        match Self::try_new_uninit_in(allocator) {
            Ok(empty) => Ok(TryBox::write(empty, value)),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// A block for a `T` that is still to be written.
    ///
    /// # Errors
    /// The allocator's refusal.
    #[inline]
    pub fn try_new_uninit_in(allocator: A) -> Result<TryBox<MaybeUninit<T>, A>, HostError> {
        let value = allocate_block(&allocator, Layout::new::<T>())?.cast();
        Ok(TryBox {
            value,
            allocator,
            owns: PhantomData,
        })
    }

    /// Takes the value out and frees the block.
    #[must_use]
    pub fn into_inner(boxed: Self) -> T {
        let (value, allocator) = Self::into_raw_with_allocator(boxed);
        let _block = UninitBlock {
            start: value.cast(),
            layout: Layout::new::<T>(),
            allocator: &allocator,
        };
        // SAFETY: the box owned an initialised value, which is read once; `_block` frees its memory only.
        unsafe { value.read() }
    }
}

impl<T, A: HostSource> TryBox<MaybeUninit<T>, A> {
    /// Writes the value.
    #[inline]
    pub fn write(mut boxed: Self, value: T) -> TryBox<T, A> {
        MaybeUninit::write(&mut boxed, value);
        let (value, allocator) = Self::into_raw_with_allocator(boxed);
        TryBox {
            value: value.cast(),
            allocator,
            owns: PhantomData,
        }
    }
}

impl<T, A: HostSource> TryBox<[T], A> {
    /// Clones `slice` into a block of its own.
    ///
    /// # Errors
    /// The allocator's refusal.
    pub fn try_from_slice_in(slice: &[T], allocator: A) -> Result<Self, HostError>
    where
        T: Clone,
    {
        let vec = TryVec::try_from_slice_in(slice, allocator)?;
        let (first, len, _, allocator) = vec.into_raw_parts_with_allocator();
        // SAFETY: `len` elements in a block of exactly their size, since a vector of so many was asked for.
        Ok(unsafe { Self::from_raw_in(NonNull::slice_from_raw_parts(first, len), allocator) })
    }
}

impl<T: ?Sized, A: HostSource> TryBox<T, A> {
    /// Whose memory the value lies in.
    #[inline]
    pub const fn allocator(boxed: &Self) -> &A {
        &boxed.allocator
    }

    /// Gives the value's address and the allocator away, for instance to C. Nothing is freed until
    /// [`from_raw_in`](TryBox::from_raw_in) puts them together again.
    #[inline]
    #[must_use = "the block leaks unless from_raw_in gets it back"]
    pub fn into_raw_with_allocator(boxed: Self) -> (NonNull<T>, A) {
        let boxed = ManuallyDrop::new(boxed);
        // SAFETY: `boxed` is never used or dropped again, so the handle is moved out, not copied.
        let allocator = unsafe { ptr::read(&raw const boxed.allocator) };
        (boxed.value, allocator)
    }

    /// A box around a value that lies in a block of `allocator`.
    ///
    /// # Safety
    /// `value` owns a valid `T`, in a live block of `allocator` (or of what it was cloned from) of layout
    /// `Layout::for_value(value)`; where that has size 0 any aligned address will do. Nobody else uses or frees it.
    #[inline]
    pub const unsafe fn from_raw_in(value: NonNull<T>, allocator: A) -> Self {
        Self {
            value,
            allocator,
            owns: PhantomData,
        }
    }
}

impl<T: ?Sized, A: HostSource> Drop for TryBox<T, A> {
    #[inline]
    fn drop(&mut self) {
        let _block = UninitBlock {
            start: self.value.cast(),
            layout: Layout::for_value::<T>(self),
            allocator: &self.allocator,
        };
        // SAFETY: the box owns the value, and nobody can reach it after this.
        unsafe { self.value.drop_in_place() }
    }
}

impl<T: ?Sized, A: HostSource> Deref for TryBox<T, A> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: valid and aligned as long as the box lives; `&self` keeps writers away.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized, A: HostSource> DerefMut for TryBox<T, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug, A: HostSource> fmt::Debug for TryBox<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + PartialEq, A: HostSource, B: HostSource> PartialEq<TryBox<T, B>> for TryBox<T, A> {
    fn eq(&self, other: &TryBox<T, B>) -> bool {
        **self == **other
    }
}

impl<T: ?Sized + Eq, A: HostSource> Eq for TryBox<T, A> {}

/// Turns a [`TryBox`] of a type into one of a trait it implements, or of an array into one of a slice.
///
/// What it becomes is what the place asks for: `let b: TryBox<dyn Trait, _> = unsize_try_box!(b);`. Nothing is allocated.
/// (A plain conversion needs a language feature that is not stable.)
#[macro_export]
macro_rules! unsize_try_box {
    ($boxed:expr $(,)?) => {{
        let (value, allocator) = $crate::TryBox::into_raw_with_allocator($boxed);
        // Only an unsizing coercion can change this type: there is no cast, and `_` is filled in by the place's type.
        let value: *mut _ = value.as_ptr();
        // SAFETY: it came from a `NonNull`.
        let value = unsafe { ::core::ptr::NonNull::new_unchecked(value) };
        // SAFETY: the same value in the same block; an unsized view has the same size and alignment.
        unsafe { $crate::TryBox::from_raw_in(value, allocator) }
    }};
}
