//! The memory of a depot: allocated from the front, freed only at the end.
//!
//! ```text
//!   |xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx....................................|
//!                                     ^ next    the room ahead is for frees   ^ capacity of the segments
//! ```

use core::num::NonZeroU32;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use alloc_core::{AllocError, HostAllocator};

use crate::segments::{FIRST, Segments};

const UNIT: usize = 16;

/// Places 0 and 1 are no site and the anonymous one.
const START: usize = 2 * UNIT;

/// A position in the arena, in units of 16 bytes, so that a block's record needs 32 bits.
pub(crate) type ArenaOffset = NonZeroU32;

pub(crate) struct SiteArena {
    segments: Segments,
    next: AtomicUsize,
    limit: usize,
    patience: AtomicU32,
}

/// Requests that pass after a refusal before more memory is requested.
const PATIENCE: u32 = 64;

impl SiteArena {
    pub(crate) fn new(memory: &dyn HostAllocator, limit: usize) -> Result<Self, AllocError> {
        let segments = Segments::new();
        segments.grow(0, memory)?;
        Ok(Self { segments, next: AtomicUsize::new(START), limit, patience: AtomicU32::new(0) })
    }

    /// Bytes left without growing; the end of a segment may be skipped in between.
    pub(crate) fn room(&self) -> usize {
        self.segments.capacity().saturating_sub(self.next.load(Relaxed))
    }

    #[cold]
    pub(crate) fn grow(&self, bytes: usize, memory: &dyn HostAllocator) {
        let less = |left: u32| left.checked_sub(1);
        if self.patience.fetch_update(Relaxed, Relaxed, less).is_ok() {
            return;
        }
        loop {
            let seen = self.segments.capacity();
            if self.room() >= bytes || Segments::end_at(seen) > self.limit {
                return;
            }
            if self.segments.grow(seen, memory).is_err() {
                return self.patience.store(PATIENCE, Relaxed);
            }
        }
    }

    /// Zeroed bytes at a multiple of 16, if `keep` bytes are left beyond them. Calls no allocator.
    pub(crate) fn allocate(&self, bytes: usize, keep: usize) -> Option<(ArenaOffset, NonNull<u8>)> {
        let bytes = bytes.checked_next_multiple_of(UNIT)?;
        if bytes > FIRST {
            return None;
        }
        let mut next = self.next.load(Relaxed);
        loop {
            let end = Segments::end_at(next);
            let at = if next.checked_add(bytes)? <= end { next } else { end };
            let after = at.checked_add(bytes)?;
            if after.checked_add(keep)? > self.segments.capacity() {
                return None;
            }
            match self.next.compare_exchange_weak(next, after, AcqRel, Relaxed) {
                Ok(_) => {
                    let place = ArenaOffset::new(u32::try_from(at / UNIT).ok()?)?;
                    return Some((place, self.at(place, bytes)?));
                }
                Err(now) => next = now,
            }
        }
    }

    pub(crate) fn at(&self, place: ArenaOffset, bytes: usize) -> Option<NonNull<u8>> {
        let at = (place.get() as usize).checked_mul(UNIT)?;
        if at < START || at.checked_add(bytes)? > self.next.load(Acquire) {
            return None;
        }
        self.segments.at(at, bytes)
    }

    pub(crate) fn close(&mut self, memory: &dyn HostAllocator) {
        // SAFETY: `&mut self` excludes readers; `memory` is that of `grow`.
        unsafe { self.segments.close(memory) };
        *self.next.get_mut() = START;
    }
}

#[cfg(test)]
impl SiteArena {
    pub(crate) fn bytes(&self) -> usize {
        self.segments.capacity()
    }
}

#[cfg(test)]
mod tests {
    use alloc_core::FromGlobalAlloc;

    use super::*;
    use crate::{FailingAllocator, Fault};

    fn grows(arena: &SiteArena, memory: &dyn HostAllocator) -> bool {
        let before = arena.bytes();
        arena.grow(arena.room() + 1, memory);
        arena.bytes() > before
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
                    None if grows(&arena, &memory) => {}
                    None => break None,
                }
            };
            let Some((place, p)) = got else { break };
            assert_eq!(arena.at(place, bytes), Some(p));
            for i in 0..bytes {
                // SAFETY: `bytes` bytes of it are ours.
                let byte = unsafe { p.add(i) };
                // SAFETY: one of those bytes.
                assert_eq!(unsafe { byte.read() }, 0);
                // SAFETY: one of those bytes.
                unsafe { byte.write(n as u8) };
            }
            all.push((p.as_ptr().addr(), bytes));
        }
        assert!(arena.bytes() <= 1 << 20, "{}", arena.bytes());
        assert!(cfg!(miri) || arena.bytes() > 1 << 18, "{}", arena.bytes());
        assert!(arena.room() >= 1024, "the room that was to be kept is there");
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
        assert!(!grows(&arena, &memory));
        assert!(arena.allocate(FIRST - START, 0).is_some(), "what was there can be had");
        assert!(arena.allocate(UNIT, 0).is_none());
        for _ in 0..PATIENCE {
            assert!(!grows(&arena, &memory));
        }
        assert_eq!(memory.requests(), 1, "it is not asked at each request");
        memory.disarm();
        assert!(grows(&arena, &memory), "but asked again");
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
        for raw in [place.get() + 2, 4096, 1 << 20, u32::MAX] {
            assert!(arena.at(ArenaOffset::new(raw).unwrap(), 16).is_none(), "{raw}");
        }
        arena.close(&memory);
    }
}
