use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use crate::adapters::HostSource;
use crate::error::HostError;
use crate::host::dangling;
use crate::rejected::Rejected;
use crate::unwind::Defer;

/// An owned value in host memory of `A`, freed with the box.
///
/// The block has exactly the value's size; a value of size 0 has none. [`unsize_try_box!`](crate::unsize_try_box) makes
/// trait objects. Calls about the box are associated functions: `TryBox::allocator(&b)`.
pub struct TryBox<T: ?Sized, A: HostSource> {
    /// Invariant: a valid `T` of the box's alone, aligned, in a block of `allocator` with `Layout::for_value`; dangling
    /// where that has size 0.
    value: NonNull<T>,
    allocator: A,
    owns: PhantomData<T>,
}

// SAFETY: the box alone owns the value and its allocator.
unsafe impl<T: ?Sized + Send, A: HostSource + Send> Send for TryBox<T, A> {}
// SAFETY: a shared box only gives out `&T` and `&A`.
unsafe impl<T: ?Sized + Sync, A: HostSource + Sync> Sync for TryBox<T, A> {}
/// Dangling for size 0.
fn allocate_block(allocator: &impl HostSource, layout: Layout) -> Result<NonNull<u8>, HostError> {
    if layout.size() == 0 {
        return Ok(dangling(layout));
    }
    let block = allocator.allocate(layout);
    block.map(NonNull::cast).map_err(|_| allocator.refusal(layout))
}

/// The drop frees the block also where the value's destructor panics.
///
/// # Safety
/// The block is the allocator's, of this layout, or has no size; it is not used after the drop.
unsafe fn free_block(allocator: &impl HostSource, block: NonNull<u8>, layout: Layout) -> Defer<impl FnMut()> {
    Defer(move || {
        if layout.size() != 0 {
            // SAFETY: this function's contract.
            unsafe { allocator.deallocate(block, layout) }
        }
    })
}

impl<T, A: HostSource> TryBox<T, A> {
    /// Moves `value` into a block of `allocator`.
    ///
    /// # Errors
    /// The allocator's refusal, with the value.
    #[inline]
    pub fn try_new_in(value: T, allocator: A) -> Result<Self, Rejected<T, HostError>> {
        match allocate_block(&allocator, Layout::new::<T>()) {
            Ok(block) => {
                let block = block.cast::<T>();
                // SAFETY: a new block of this layout.
                unsafe { block.write(value) };
                // SAFETY: block and value are the box's alone.
                Ok(unsafe { Self::from_raw_in(block, allocator) })
            }
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Returns the value and frees the block.
    #[must_use]
    pub fn into_inner(boxed: Self) -> T {
        let (value, allocator) = Self::into_raw_with_allocator(boxed);
        // SAFETY: the invariant of `value`.
        let _block = unsafe { free_block(&allocator, value.cast(), Layout::new::<T>()) };
        // SAFETY: the invariant of `value`; `_block` frees only the memory.
        unsafe { value.read() }
    }
}

impl<T: ?Sized, A: HostSource> TryBox<T, A> {
    /// The allocator of the value's block.
    #[inline]
    pub const fn allocator(boxed: &Self) -> &A {
        &boxed.allocator
    }

    /// Gives away the value's address and the allocator, for instance to C. Nothing is freed until
    /// [`from_raw_in`](TryBox::from_raw_in) joins them again.
    #[inline]
    #[must_use = "the block leaks unless from_raw_in gets it back"]
    pub fn into_raw_with_allocator(boxed: Self) -> (NonNull<T>, A) {
        let boxed = ManuallyDrop::new(boxed);
        // SAFETY: `boxed` is never used or dropped again.
        let allocator = unsafe { ptr::read(&raw const boxed.allocator) };
        (boxed.value, allocator)
    }

    /// A box around a value that lies in a block of `allocator`.
    ///
    /// # Safety
    /// `value` is a valid `T` that nobody else uses or frees, in a live block of `allocator` (or of what it was cloned
    /// from) of layout `Layout::for_value(value)`; where that has size 0, at any aligned address.
    #[inline]
    #[must_use]
    pub const unsafe fn from_raw_in(value: NonNull<T>, allocator: A) -> Self {
        Self { value, allocator, owns: PhantomData }
    }
}

impl<T: ?Sized, A: HostSource> Drop for TryBox<T, A> {
    #[inline]
    fn drop(&mut self) {
        let layout = Layout::for_value::<T>(self);
        // SAFETY: the invariant of `value`.
        let _block = unsafe { free_block(&self.allocator, self.value.cast(), layout) };
        // SAFETY: the invariant of `value`.
        unsafe { self.value.drop_in_place() }
    }
}

impl<T: ?Sized, A: HostSource> Deref for TryBox<T, A> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the invariant of `value`; `&self` keeps writers away.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized, A: HostSource> DerefMut for TryBox<T, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the invariant of `value`; `&mut self` makes this the only reference.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug, A: HostSource> fmt::Debug for TryBox<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Turns a [`TryBox`] of a type into one of a trait it implements, or of an array into one of a slice: the type of the
/// place decides, as in `let b: TryBox<dyn Trait, _> = unsize_try_box!(b);`. Nothing is allocated.
#[macro_export]
macro_rules! unsize_try_box {
    ($boxed:expr $(,)?) => {{
        let (value, allocator) = $crate::TryBox::into_raw_with_allocator($boxed);
        // Only an unsizing coercion can change this type: there is no cast.
        let value: *mut _ = value.as_ptr();
        // SAFETY: it came from a `NonNull`.
        let value = unsafe { ::core::ptr::NonNull::new_unchecked(value) };
        // SAFETY: an unsized view of the same block, with its size and alignment.
        unsafe { $crate::TryBox::from_raw_in(value, allocator) }
    }};
}
