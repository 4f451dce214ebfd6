//! A map by 64-bit hashes, without locks: sixteen ways a level, which are only filled. It grows by one small node at a time.
//!
//! ```text
//!   root [ . . L . N . . ]          L  a leaf: the place of a thing that begins with its hash (8 bytes)
//!                  |                N  a node: the place of 16 more, chosen by the next 4 bits
//!             node [ . L L . ]      .  nothing yet
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::arena::{ArenaOffset, SiteArena};

const WAYS: usize = 16;
/// Set in a slot that leads to a node. Places have fewer bits.
const NODE: u32 = 1 << 31;

type Ways = [AtomicU32; WAYS];

#[derive(Default)]
pub(crate) struct Trie {
    root: Ways,
}

/// There is no room for a node.
#[derive(Debug)]
pub(crate) struct NoRoom;

fn way(ways: &Ways, hash: u64, level: u32) -> Option<&AtomicU32> {
    let way = hash.checked_shr(level.checked_mul(4)?)? & 15;
    ways.get(usize::try_from(way).ok()?)
}

fn node(arena: &SiteArena, slot: u32) -> Option<&Ways> {
    let node = arena.at(ArenaOffset::from_raw(slot & !NODE)?, size_of::<Ways>())?;
    // SAFETY: a slot with the mark leads to what `split` put there: 16 atomic words that live as long as the arena.
    Some(unsafe { node.cast::<Ways>().as_ref() })
}

fn hash_at(arena: &SiteArena, slot: u32) -> Option<u64> {
    let leaf = arena.at(ArenaOffset::from_raw(slot)?, size_of::<u64>())?;
    // SAFETY: a leaf begins with its hash, which was written before the leaf was linked, and never again.
    Some(unsafe { leaf.cast::<u64>().read() })
}

impl Trie {
    /// The leaf with this hash.
    #[inline]
    pub(crate) fn find(&self, arena: &SiteArena, hash: u64) -> Option<ArenaOffset> {
        let mut ways = &self.root;
        let mut level = 0;
        loop {
            let slot = way(ways, hash, level)?.load(Ordering::Acquire);
            if slot & NODE == 0 {
                return ArenaOffset::from_raw(slot).filter(|_| hash_at(arena, slot) == Some(hash));
            }
            ways = node(arena, slot)?;
            level = level.wrapping_add(1);
        }
    }

    /// Links `leaf`, which begins with `hash`. Returns the linked leaf: `leaf`, or another one that was faster.
    pub(crate) fn insert(
        &self,
        arena: &SiteArena,
        hash: u64,
        leaf: ArenaOffset,
        keep: usize,
    ) -> Result<ArenaOffset, NoRoom> {
        let mut ways = &self.root;
        let mut level = 0;
        loop {
            let at = way(ways, hash, level).ok_or(NoRoom)?;
            let slot = at.load(Ordering::Acquire);
            if slot & NODE != 0 {
                ways = node(arena, slot).ok_or(NoRoom)?;
                level = level.wrapping_add(1);
                continue;
            }
            let new = match ArenaOffset::from_raw(slot) {
                None => leaf.raw(),
                Some(there) => {
                    let other = hash_at(arena, slot).ok_or(NoRoom)?;
                    if other == hash {
                        return Ok(there);
                    }
                    split(arena, slot, other, level.wrapping_add(1), keep)?
                }
            };
            // Where it fails another thread was here, and the node, if it was one, stays unused: 64 bytes, rarely.
            let _ = at.compare_exchange(slot, new, Ordering::AcqRel, Ordering::Relaxed);
            if new == leaf.raw() && at.load(Ordering::Acquire) == new {
                return Ok(leaf);
            }
        }
    }
}

/// A node in which the leaf in `slot` stands where its hash says.
fn split(arena: &SiteArena, slot: u32, hash: u64, level: u32, keep: usize) -> Result<u32, NoRoom> {
    let (place, new) = arena.allocate(size_of::<Ways>(), keep).ok_or(NoRoom)?;
    // SAFETY: 64 zeroed bytes, aligned to 16, that no other thread knows; zero is an empty way.
    let ways = unsafe { new.cast::<Ways>().as_ref() };
    way(ways, hash, level)
        .ok_or(NoRoom)?
        .store(slot, Ordering::Relaxed);
    Ok(place.raw() | NODE)
}

/// A list of leaves, newest first: pushed at the front, never taken from.
#[derive(Debug, Default)]
pub(crate) struct LabelList(AtomicU64);

impl LabelList {
    /// The newest, and how many there are.
    pub(crate) fn head(&self) -> (Option<ArenaOffset>, u32) {
        let word = self.0.load(Ordering::Acquire);
        (ArenaOffset::from_raw(word as u32), (word >> 32) as u32)
    }

    /// Pushes `new`; `link` gets the leaf before and the number of `new`, counted from 0, and writes both into `new`.
    pub(crate) fn push(&self, new: ArenaOffset, link: impl Fn(Option<ArenaOffset>, u32)) {
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let count = (word >> 32) as u32;
                link(ArenaOffset::from_raw(word as u32), count);
                Some(u64::from(count.wrapping_add(1)) << 32 | u64::from(new.raw()))
            });
    }
}

#[cfg(test)]
mod tests {
    use alloc_core::{FromGlobalAlloc, HostAllocator};
    use std::collections::HashMap;

    use super::*;

    fn leaf(arena: &SiteArena, memory: &dyn HostAllocator, hash: u64) -> ArenaOffset {
        let (place, p) = loop {
            match arena.allocate(16, 4096) {
                Some(got) => break got,
                None => assert!(arena.grow(memory)),
            }
        };
        // SAFETY: 16 bytes of our own.
        unsafe { p.cast::<u64>().write(hash) };
        place
    }

    #[test]
    fn finds_what_was_put_in_and_nothing_else() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut arena = SiteArena::new(&memory, 1 << 24).unwrap();
        let trie = Trie::default();
        let mut all = HashMap::new();
        let mut seed = 1u64;
        for n in 0..if cfg!(miri) { 200 } else { 20_000u64 } {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Some differ in the last bits only, some in the first.
            let hash = match n % 3 {
                0 => n,
                1 => n << 50,
                _ => seed,
            };
            assert_eq!(trie.find(&arena, hash), all.get(&hash).copied());
            let place = leaf(&arena, &memory, hash);
            let stands = trie.insert(&arena, hash, place, 0).unwrap();
            assert_eq!(stands, *all.entry(hash).or_insert(place));
        }
        for (hash, place) in &all {
            assert_eq!(trie.find(&arena, *hash), Some(*place));
            assert_eq!(
                trie.find(&arena, hash ^ 1 << 63 ^ 1 << 20),
                all.get(&(hash ^ 1 << 63 ^ 1 << 20)).copied()
            );
        }
        arena.close(&memory);
    }

    #[test]
    fn threads_agree_on_who_was_first() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut arena = SiteArena::new(&memory, 1 << 24).unwrap();
        let trie = Trie::default();
        let hashes = if cfg!(miri) { 60 } else { 4000u64 };
        let all: std::vec::Vec<std::vec::Vec<ArenaOffset>> = std::thread::scope(|scope| {
            let each = || {
                (0..hashes)
                    .map(|n| {
                        let hash = super::super::hash::mix(0, n % (hashes / 2));
                        trie.insert(
                            &arena,
                            hash,
                            leaf(&arena, &FromGlobalAlloc::SYSTEM, hash),
                            0,
                        )
                        .unwrap()
                    })
                    .collect()
            };
            let threads: std::vec::Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(all.windows(2).all(|two| two[0] == two[1]));
        arena.close(&memory);
    }
}
