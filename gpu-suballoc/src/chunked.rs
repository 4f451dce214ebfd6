//! Entries in chunks that never move, found by number.
//!
//! ```text
//!   number = chunk * N + place      chunks: | chunk 0 | chunk 1 | ..  (one block; a longer one replaces it)      chunk: N entries
//! ```

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::growable_vec::GrowableVec;
use crate::host_memory::HostBlock;

/// Drops no entry. `N` is a power of two.
#[derive(Debug)]
pub(crate) struct Chunked<T, const N: usize> {
    chunks: GrowableVec<NonNull<T>>,
}

// SAFETY: only the table refers to the chunks.
unsafe impl<T: Send, const N: usize> Send for Chunked<T, N> {}

impl<T, const N: usize> Chunked<T, N> {
    const CHUNK: Layout = Layout::new::<[T; N]>();

    pub(crate) const fn new() -> Self {
        Self {
            chunks: GrowableVec::new(),
        }
    }

    /// The number of entries.
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
        self.place(number)
            .map(|mut entry| unsafe { entry.as_mut() })
    }

    /// What to allocate next, so that there is one more chunk in the end.
    pub(crate) fn missing(&self) -> Layout {
        self.chunks.missing_capacity(1).unwrap_or(Self::CHUNK)
    }

    /// Grows into a block of the layout that is [missing](Self::missing), and calls `entry` for each number of a new chunk. Returns the memory to free.
    pub(crate) fn grow_with(
        &mut self,
        block: HostBlock,
        mut entry: impl FnMut(u32) -> T,
    ) -> Option<HostBlock> {
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

    /// Detaches one block of memory at each call, until `None`.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        match self.chunks.pop() {
            // SAFETY: `grow_with` received the chunk with this layout; nothing refers to it any more.
            Some(chunk) => Some(unsafe { HostBlock::new(chunk.cast(), Self::CHUNK) }),
            None => self.chunks.detach_memory(),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.chunks.len()) * Self::CHUNK.size() as u64 + self.chunks.memory_bytes()
    }
}
