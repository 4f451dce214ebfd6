//! A vector in one block that the caller allocates, for use under a lock (see `host_memory.rs`).

use crate::host_memory::{GrowableTable, HostBlock};
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

/// It grows at first to `FIRST` entries, then to twice as many, and drops none.
#[derive(Debug)]
pub(crate) struct GrowableVec<T> {
    first: NonNull<T>,
    length: u32,
    capacity: u32,
    entries: PhantomData<T>,
}

// SAFETY: the table owns its entries; nothing else points to its memory.
unsafe impl<T: Send> Send for GrowableVec<T> {}

const FIRST: u32 = 4;

impl<T> GrowableVec<T> {
    pub(crate) const fn new() -> Self {
        Self { first: NonNull::dangling(), length: 0, capacity: 0, entries: PhantomData }
    }

    pub(crate) fn layout(capacity: u32) -> Option<Layout> {
        Layout::array::<T>(capacity as usize).ok()
    }

    pub(crate) fn missing_capacity(&self, more: u32) -> Option<Layout> {
        let wanted = self.length.checked_add(more)?;
        if wanted <= self.capacity {
            return None;
        }
        Self::layout(wanted.max(self.capacity.saturating_mul(2)).max(FIRST))
    }

    /// Returns the old memory, or `block` if it is not larger or has another layout.
    pub(crate) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let layout = block.layout();
        let capacity = layout.size().checked_div(size_of::<T>()).unwrap_or(0);
        let capacity = u32::try_from(capacity).unwrap_or(0);
        if capacity <= self.capacity || Self::layout(capacity) != Some(layout) {
            return Some(block);
        }
        let new = block.into_start().cast::<T>();
        // SAFETY: both hold at least `length` entries and are aligned for them; live blocks are disjoint.
        unsafe { new.copy_from_nonoverlapping(self.first, self.length as usize) };
        let old = self.memory();
        self.first = new;
        self.capacity = capacity;
        old
    }

    fn memory(&self) -> Option<HostBlock> {
        let layout = Self::layout(self.capacity).filter(|layout| layout.size() > 0)?;
        // SAFETY: `grow_with` received it with this layout. Both callers forget it in the same call.
        Some(unsafe { HostBlock::new(self.first.cast(), layout) })
    }

    /// The entries are forgotten.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        let memory = self.memory();
        *self = Self::new();
        memory
    }

    pub(crate) fn push(&mut self, entry: T) -> Result<(), T> {
        if self.length == self.capacity {
            return Err(entry);
        }
        // SAFETY: `length < capacity`, so the place is within the memory.
        let place = unsafe { self.first.add(self.length as usize) };
        // SAFETY: the place is the table's, aligned, and holds no entry.
        unsafe { place.write(entry) };
        self.length += 1;
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the place is within the memory.
        let place = unsafe { self.first.add(self.length as usize) };
        // SAFETY: it holds an entry, which is the table's no longer.
        Some(unsafe { place.read() })
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let behind = self.as_mut_slice().get_mut(index..)?;
        if behind.is_empty() {
            return None;
        }
        behind.rotate_left(1);
        self.pop()
    }

    #[inline]
    pub(crate) const fn as_slice(&self) -> &[T] {
        // SAFETY: the first `length` places hold entries; dangling only where there are none.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.length as usize) }
    }

    #[inline]
    pub(crate) const fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: the first `length` places hold entries, and `&mut self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.length as usize) }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.as_slice().get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.as_mut_slice().get_mut(index as usize)
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.length
    }

    #[inline]
    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.capacity as u64 * size_of::<T>() as u64
    }
}

// Entries in chunks that never move, found by number.
//
// ```text
//   number = chunk * N + place      chunks: | chunk 0 | chunk 1 | ..  (one block; a longer one replaces it)      chunk: N entries
// ```

/// It drops no entry. `N` is a power of two.
#[derive(Debug)]
pub(crate) struct Chunked<T, const N: usize> {
    chunks: GrowableVec<NonNull<T>>,
}

// SAFETY: only the table refers to the chunks.
unsafe impl<T: Send, const N: usize> Send for Chunked<T, N> {}

impl<T, const N: usize> Chunked<T, N> {
    const CHUNK: Layout = Layout::new::<[T; N]>();

    pub(crate) const fn new() -> Self {
        Self { chunks: GrowableVec::new() }
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.chunks.len() * N as u32
    }

    #[inline]
    fn place(&self, number: u32) -> Option<NonNull<T>> {
        let chunk = *self.chunks.get(number / N as u32)?;
        // SAFETY: a chunk has `N` entries.
        Some(unsafe { chunk.add(number as usize % N) })
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        // SAFETY: `grow_with` wrote each entry of a chunk; `&self` allows no exclusive reference.
        self.place(number).map(|entry| unsafe { entry.as_ref() })
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        // SAFETY: `grow_with` wrote each entry of a chunk; `&mut self` is exclusive.
        self.place(number).map(|mut entry| unsafe { entry.as_mut() })
    }

    pub(crate) fn missing(&self) -> Layout {
        self.chunks.missing_capacity(1).unwrap_or(Self::CHUNK)
    }

    pub(crate) fn grow_with(&mut self, block: HostBlock, mut entry: impl FnMut(u32) -> T) -> Option<HostBlock> {
        if block.layout() != Self::CHUNK || self.chunks.missing_capacity(1).is_some() {
            return self.chunks.grow_with(block);
        }
        let chunk = block.into_start().cast::<T>();
        let first = self.len();
        for number in 0..N as u32 {
            // SAFETY: a chunk has `N` entries.
            let place = unsafe { chunk.add(number as usize) };
            // SAFETY: within the chunk, which nothing else refers to, and aligned.
            unsafe { place.write(entry(first + number)) };
        }
        let pushed = self.chunks.push(chunk);
        debug_assert!(pushed.is_ok(), "there is room");
        None
    }

    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        match self.chunks.pop() {
            // SAFETY: `grow_with` received the chunk with this layout; nothing refers to it any more.
            Some(chunk) => Some(unsafe { HostBlock::new(chunk.cast(), Self::CHUNK) }),
            None => self.chunks.detach_memory(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.chunks.len()) * Self::CHUNK.size() as u64 + self.chunks.memory_bytes()
    }
}

/// Any address is safe.
#[inline(always)]
pub(crate) fn prefetch<T>(there: *const T) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which no address makes fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(there.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse", not(miri))))]
    let _ = there;
}

// Numbered slots, each spare, reserved, or filled.

const NONE: u32 = u32::MAX;

/// In reserve it has one slot.
pub(crate) struct Slots<T> {
    slots: GrowableVec<Slot<T>>,
    spare: u32,
    filled: u32,
    limit: u32,
}

struct Slot<T> {
    next: u32,
    content: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) const fn up_to(limit: u32) -> Self {
        Self { slots: GrowableVec::new(), spare: NONE, filled: 0, limit }
    }

    pub(crate) const fn filled(&self) -> u32 {
        self.filled
    }

    pub(crate) const fn len(&self) -> u32 {
        self.slots.len()
    }

    pub(crate) const fn change_limit(&mut self, by: i32) {
        self.limit = self.limit.saturating_add_signed(by);
    }

    pub(crate) fn reserve(&mut self) -> Option<u32> {
        let number = self.spare;
        if let Some(slot) = self.slots.get(number) {
            self.spare = slot.next;
            return Some(number);
        }
        let number = self.slots.len();
        let new = Slot { next: NONE, content: None };
        (number < self.limit && self.slots.push(new).is_ok()).then_some(number)
    }

    pub(crate) fn fill(&mut self, number: u32, content: T) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.content = Some(content);
            self.filled += 1;
        }
    }

    pub(crate) fn unreserve(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.next = self.spare;
            self.spare = number;
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number)?.content.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number)?.content.as_mut()
    }

    pub(crate) fn remove_if(&mut self, number: u32, is_removable: impl FnOnce(&mut T) -> bool) -> Option<T> {
        let content = self.slots.get_mut(number)?.content.take_if(is_removable)?;
        self.filled -= 1;
        self.unreserve(number);
        Some(content)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.slots.as_slice()).filter_map(|(number, slot)| Some((number, slot.content.as_ref()?)))
    }
}

impl<T> GrowableTable for Slots<T> {
    fn missing(&self) -> Option<Layout> {
        self.slots.missing_capacity(1).filter(|_| self.spare == NONE && self.slots.len() < self.limit)
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.slots.grow_with(block)
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.spare = NONE;
        self.slots.detach_memory()
    }
}
