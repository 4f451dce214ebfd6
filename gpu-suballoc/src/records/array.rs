//! An array in memory that somebody else took for it.

use core::alloc::Layout;
use core::ptr::NonNull;

/// A block that is not needed any more, with the layout it was taken with.
pub(super) type Spare = (NonNull<u8>, Layout);

/// Grows only by being supplied with a larger block; drops nothing.
pub(super) struct Array<T> {
    start: NonNull<T>,
    capacity: u32,
    filled: u32,
}

// SAFETY: the block is referred to by this alone; its elements may be sent.
unsafe impl<T: Send> Send for Array<T> {}

impl<T> Array<T> {
    pub(super) const fn new() -> Self {
        Self { start: NonNull::dangling(), capacity: 0, filled: 0 }
    }

    /// `None` when it is more than can be addressed.
    pub(super) fn layout(capacity: u32) -> Option<Layout> {
        Layout::array::<T>(usize::try_from(capacity).ok()?).ok()
    }

    /// The capacity to be supplied before another element fits.
    pub(super) fn lacks(&self, first: u32, most: u32) -> Option<u32> {
        (self.filled == self.capacity).then(|| self.capacity.saturating_mul(2).clamp(first, most))
    }

    pub(super) const fn len(&self) -> u32 {
        self.filled
    }

    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: `filled` elements are written, and `&self` allows no writer.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.filled as usize) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: `filled` elements are written, and `&mut self` is the one way in.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.filled as usize) }
    }

    /// Gives the element back when the array is full.
    pub(super) fn push(&mut self, element: T) -> Result<(), T> {
        if self.filled == self.capacity {
            return Err(element);
        }
        // SAFETY: `filled < capacity`, hence within the block.
        let place = unsafe { self.start.add(self.filled as usize) };
        // SAFETY: within the block, writable, aligned.
        unsafe { place.write(element) };
        self.filled += 1;
        Ok(())
    }

    /// Takes an element out; the last one takes its place.
    pub(super) fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.as_slice().len().checked_sub(1)?;
        if index > last {
            return None;
        }
        self.as_mut_slice().swap(index, last);
        self.filled -= 1;
        // SAFETY: `last` was within what is written.
        let place = unsafe { self.start.add(last) };
        // SAFETY: it was written, and `filled` says now that it is nobody's, so that it is read out once.
        Some(unsafe { place.read() })
    }

    /// Moves to a larger block; gives back the old one, or `block` itself when it is no larger.
    ///
    /// # Safety
    /// `block` is one of `layout(capacity)` that nothing else refers to.
    pub(super) unsafe fn supply(&mut self, capacity: u32, block: NonNull<u8>) -> Option<Spare> {
        if capacity <= self.capacity {
            return Self::layout(capacity).map(|layout| (block, layout));
        }
        let spare = self.block();
        let new = block.cast::<T>();
        // SAFETY: `filled` elements are written in the old block, and fit the new one, which is larger and another.
        unsafe { new.copy_from_nonoverlapping(self.start, self.filled as usize) };
        self.start = new;
        self.capacity = capacity;
        spare
    }

    fn block(&self) -> Option<Spare> {
        Self::layout(self.capacity).filter(|_| self.capacity > 0).map(|layout| (self.start.cast(), layout))
    }

    /// The block, once; the array is empty then.
    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        let spare = self.block();
        *self = Self::new();
        spare
    }
}
