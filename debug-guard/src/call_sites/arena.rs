//! The memory of a depot: chunks that double, allocated from the front and freed only at the end.
//!
//! ```text
//!   place    0          64 KiB               192 KiB                                448 KiB
//!            | chunk 0  | chunk 1            | chunk 2                              | chunk 3, not there yet
//!            |xxxxxxxxxx|xxxxxxxxxxxxxxxx....|......................................|
//!                                        ^ next       the room ahead is for frees   ^ capacity
//! ```
//! An object has one [`ArenaOffset`] as long as the arena lives, so readers, also in a signal handler, need no lock.

use core::alloc::Layout;
use core::num::NonZeroU32;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use alloc_core::{AllocError, HostAllocator, Scope};

/// Bytes of the first chunk.
const FIRST: usize = 64 * 1024;
/// Maximum number of chunks: 2 GiB in all, less one `FIRST`.
const CHUNKS: usize = 15;
/// The alignment of all objects.
const UNIT: usize = 16;

/// A position in the arena, in units of 16 bytes, so that a block's record needs 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaOffset(NonZeroU32);

impl ArenaOffset {
    pub(crate) fn from_raw(raw: u32) -> Option<Self> {
        NonZeroU32::new(raw).map(Self)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0.get()
    }
}

pub(crate) struct SiteArena {
    chunks: [AtomicPtr<u8>; CHUNKS],
    /// The first unused byte.
    next: AtomicUsize,
    /// The first byte beyond the chunks.
    capacity: AtomicUsize,
    limit: usize,
}

/// The beginning of chunk `k`.
const fn start_of(k: usize) -> usize {
    FIRST.wrapping_mul((1 << k) - 1)
}

const fn chunk_of(at: usize) -> usize {
    (at / FIRST).wrapping_add(1).ilog2() as usize
}

fn layout_of(k: usize) -> Option<Layout> {
    Layout::from_size_align(FIRST.checked_shl(u32::try_from(k).ok()?)?, 64).ok()
}

impl SiteArena {
    /// With its first chunk, and growing to about `limit` bytes.
    pub(crate) fn new(memory: &dyn HostAllocator, limit: usize) -> Result<Self, AllocError> {
        let arena = Self {
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            next: AtomicUsize::new(UNIT), // place 0 means none
            capacity: AtomicUsize::new(0),
            limit: limit.max(FIRST),
        };
        if arena.grow(memory) {
            Ok(arena)
        } else {
            Err(AllocError)
        }
    }

    /// Bytes allocated from the allocator behind.
    pub(crate) fn bytes(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Bytes left without growing; the end of a chunk may be skipped in between.
    pub(crate) fn room(&self) -> usize {
        self.capacity
            .load(Ordering::Acquire)
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Adds a chunk. False if it is refused.
    #[cold]
    pub(crate) fn grow(&self, memory: &dyn HostAllocator) -> bool {
        let capacity = self.capacity.load(Ordering::Acquire);
        let k = chunk_of(capacity);
        let (Some(slot), Some(layout)) = (self.chunks.get(k), layout_of(k)) else {
            return false;
        };
        if start_of(k).saturating_add(layout.size()) > self.limit.max(FIRST) {
            return false;
        }
        let Ok(chunk) = memory.allocate_zeroed(layout, Scope::Instance) else {
            return false;
        };
        if slot
            .compare_exchange(
                null_mut(),
                chunk.as_ptr(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_err()
        {
            // Another thread was faster; its chunk is room too.
            // SAFETY: allocated just above with this layout and scope, and no other thread knows it.
            unsafe { memory.deallocate(chunk, layout, Scope::Instance) };
        }
        self.capacity
            .fetch_max(start_of(k.wrapping_add(1)), Ordering::AcqRel);
        true
    }

    /// `bytes` zeroed bytes at a multiple of 16, if `keep` bytes are left beyond them. Calls no allocator.
    pub(crate) fn allocate(&self, bytes: usize, keep: usize) -> Option<(ArenaOffset, NonNull<u8>)> {
        let bytes = bytes.checked_next_multiple_of(UNIT)?;
        if bytes > FIRST {
            return None;
        }
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let end = start_of(chunk_of(next).wrapping_add(1));
            let at = if next.checked_add(bytes)? <= end {
                next
            } else {
                end
            };
            let after = at.checked_add(bytes)?;
            if after.checked_add(keep)? > self.capacity.load(Ordering::Acquire) {
                return None;
            }
            match self
                .next
                .compare_exchange_weak(next, after, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => {
                    let place = ArenaOffset::from_raw(u32::try_from(at / UNIT).ok()?)?;
                    return Some((place, self.at(place, bytes)?));
                }
                Err(now) => next = now,
            }
        }
    }

    /// The address of `place`, if `bytes` allocated bytes stand there.
    pub(crate) fn at(&self, place: ArenaOffset, bytes: usize) -> Option<NonNull<u8>> {
        let at = (place.raw() as usize).checked_mul(UNIT)?;
        let end = at.checked_add(bytes)?;
        if end > self.next.load(Ordering::Acquire) {
            return None;
        }
        let k = chunk_of(at);
        if end > start_of(k.wrapping_add(1)) {
            return None;
        }
        let chunk = NonNull::new(self.chunks.get(k)?.load(Ordering::Acquire))?;
        // SAFETY: the chunk begins at `start_of(k)` and holds all up to `start_of(k + 1)`, between which `at` lies.
        Some(unsafe { chunk.add(at.wrapping_sub(start_of(k))) })
    }

    /// Frees everything.
    pub(crate) fn close(&mut self, memory: &dyn HostAllocator) {
        for (k, slot) in self.chunks.iter_mut().enumerate() {
            let chunk = core::mem::replace(slot.get_mut(), null_mut());
            if let (Some(chunk), Some(layout)) = (NonNull::new(chunk), layout_of(k)) {
                // SAFETY: `grow` allocated it with this layout and scope; `&mut self`: there are no readers.
                unsafe { memory.deallocate(chunk, layout, Scope::Instance) };
            }
        }
        *self.capacity.get_mut() = 0;
        *self.next.get_mut() = UNIT;
    }
}

#[cfg(test)]
mod tests {
    use alloc_core::FromGlobalAlloc;

    use super::*;
    use crate::{FailingAllocator, Fault};

    #[test]
    fn chunks_follow_each_other() {
        assert_eq!(
            (start_of(0), start_of(1), start_of(2), start_of(3)),
            (0, FIRST, 3 * FIRST, 7 * FIRST)
        );
        for k in 0..CHUNKS {
            assert_eq!(chunk_of(start_of(k)), k);
            assert_eq!(chunk_of(start_of(k + 1) - 1), k);
        }
    }

    #[test]
    fn what_is_taken_is_zero_apart_and_comes_back() {
        let memory = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
        let mut arena = SiteArena::new(&memory, 1 << 20).unwrap();
        let mut all = std::vec::Vec::new();
        for n in 0..if cfg!(miri) { 300 } else { 9000_usize } {
            let bytes = 16 + n % 80;
            let got = loop {
                match arena.allocate(bytes, 1024) {
                    Some(got) => break Some(got),
                    None if arena.grow(&memory) => {}
                    None => break None,
                }
            };
            let Some((place, p)) = got else { break };
            assert_eq!(arena.at(place, bytes), Some(p));
            for i in 0..bytes {
                // SAFETY: `bytes` bytes of it are ours.
                let byte = unsafe { p.add(i) };
                // SAFETY: as above.
                assert_eq!(unsafe { byte.read() }, 0);
                // SAFETY: as above.
                unsafe { byte.write(n as u8) };
            }
            all.push((p.as_ptr().addr(), bytes));
        }
        assert!(arena.bytes() <= 1 << 20, "{}", arena.bytes());
        assert!(cfg!(miri) || arena.bytes() > 1 << 18, "{}", arena.bytes());
        assert!(
            arena.room() >= 1024,
            "the room that was to be kept is there"
        );
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        assert_eq!(memory.live_bytes(), arena.bytes() as u64);
        arena.close(&memory);
        assert_eq!(memory.live_bytes(), 0);
    }

    #[test]
    fn a_refusal_leaves_nothing() {
        let memory = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::From(0));
        assert!(SiteArena::new(&memory, 0).is_err());
        memory.disarm();
        let mut arena = SiteArena::new(&memory, 1 << 20).unwrap();
        memory.arm(Fault::From(0));
        assert!(!arena.grow(&memory));
        assert!(
            arena.allocate(FIRST - UNIT, 0).is_some(),
            "what was there can be had"
        );
        assert!(arena.allocate(UNIT, 0).is_none());
        memory.disarm();
        arena.close(&memory);
        assert_eq!(memory.live_bytes(), 0);
    }

    #[test]
    fn a_place_that_was_not_handed_out_is_nowhere() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut arena = SiteArena::new(&memory, 0).unwrap();
        let (place, _) = arena.allocate(32, 0).unwrap();
        assert!(arena.at(place, 32).is_some());
        assert!(arena.at(place, 48).is_none());
        for raw in [place.raw() + 2, 4096, 1 << 20, u32::MAX] {
            assert!(
                arena.at(ArenaOffset::from_raw(raw).unwrap(), 16).is_none(),
                "{raw}"
            );
        }
        arena.close(&memory);
    }
}
