//! Remembered stacks, which are recognised the next time and not walked again.
//!
//! ```text
//!   sp                slot 0            slot 1                                       slot n-1        the command's mark
//!   |                 | back into f |   | back into g |          ..                  | back into c |      |
//!   |<--------------------------- depth: part of the key, beside the requester -------------------------->|
//! ```
//! A trail says which return addresses were at which places of the stack. If all are there again, at the same depth, it is the same stack.
//! The comparison is a few independent loads, without frame pointers or unwind tables. A trail may cover only the part of the stack that
//! could be walked. It then proves nothing about the frames above.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use super::arena::{ArenaOffset, SiteArena};
use super::trie::Trie;
use super::walk::WalkStart;

#[repr(C)]
struct UnwindTrail {
    /// Hash of requester and depth.
    hash: u64,
    /// Another stack with the same hash.
    next: AtomicU32,
    site: u32,
    steps: u32,
    /// The highest slot.
    reach: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Step {
    /// Bytes above the stack pointer.
    slot: u32,
    /// The lower half of the return address.
    low: u32,
}

/// Remembered stacks with the same hash; others are walked each time.
const MAX_ALIKE: usize = 256;

fn steps(arena: &SiteArena, place: ArenaOffset, hash: u64) -> Option<(&UnwindTrail, &[Step])> {
    let at: NonNull<UnwindTrail> = arena.at(place, size_of::<UnwindTrail>())?.cast();
    // SAFETY: places in the trie of trails are those of trails, which are complete before they are linked.
    let trail: &UnwindTrail = unsafe { at.as_ref() };
    if trail.hash != hash {
        return None;
    }
    // SAFETY: its steps stand behind it.
    let first = unsafe { at.add(1) }.cast::<Step>();
    // SAFETY: so many, by `remember`, never written again.
    Some((trail, unsafe {
        core::slice::from_raw_parts(first.as_ptr(), usize::try_from(trail.steps).ok()?)
    }))
}

impl UnwindTrail {
    /// True when each word is at its place again.
    #[inline(always)]
    fn matches_stack(&self, steps: &[Step], start: WalkStart) -> bool {
        let (stack, bounds) = (start.from.stack, start.bounds);
        // A trail may continue above the command's mark, beyond the end of this stack.
        (self.reach as usize) < bounds.top.wrapping_sub(stack)
            && bounds.all(
                steps,
                |step| stack.wrapping_add(step.slot as usize),
                |step, word| word as u32 ^ step.low,
            )
    }
}

/// The site of the trail at `place`, if the stack is that trail's.
///
/// # Safety
/// `place` is a trail's; the bounds of `start` are those of its stack pointer.
#[inline]
pub(super) unsafe fn follow(
    arena: &SiteArena,
    place: ArenaOffset,
    hash: u64,
    start: WalkStart,
) -> Option<u32> {
    let (trail, steps) = steps(arena, place, hash)?;
    trail.matches_stack(steps, start).then_some(trail.site)
}

/// The trail with this hash that the stack is, and its site.
///
/// # Safety
/// The bounds of `start` are those of its stack pointer.
pub(super) unsafe fn find(
    trie: &Trie,
    arena: &SiteArena,
    hash: u64,
    start: WalkStart,
) -> Option<(ArenaOffset, u32)> {
    let mut place = trie.find(arena, hash)?;
    for _ in 0..MAX_ALIKE {
        let (trail, steps) = steps(arena, place, hash)?;
        if trail.matches_stack(steps, start) {
            return Some((place, trail.site));
        }
        place = ArenaOffset::from_raw(trail.next.load(Ordering::Acquire))?;
    }
    None
}

/// Stores a trail. `None` without room, or if there are too many with the same hash.
pub(super) fn remember(
    trie: &Trie,
    arena: &SiteArena,
    hash: u64,
    (frames, slots): (&[usize], &[u32]),
    site: u32,
    keep: usize,
) -> Option<ArenaOffset> {
    let bytes =
        size_of::<UnwindTrail>().checked_add(size_of::<Step>().checked_mul(frames.len())?)?;
    let mut alike = 0_usize;
    let mut last = trie.find(arena, hash);
    while let Some(place) = last {
        alike = alike.wrapping_add(1);
        last = ArenaOffset::from_raw(steps(arena, place, hash)?.0.next.load(Ordering::Acquire));
    }
    if alike >= MAX_ALIKE {
        return None;
    }
    let reach = slots.iter().copied().max()?;
    let (place, at) = arena.allocate(bytes, keep)?;
    let trail = UnwindTrail {
        hash,
        next: AtomicU32::new(0),
        site,
        steps: u32::try_from(frames.len()).ok()?,
        reach,
    };
    let to: NonNull<UnwindTrail> = at.cast();
    // SAFETY: `bytes` bytes at a multiple of 16 that no other thread knows.
    unsafe { to.write(trail) };
    // SAFETY: the steps stand behind the trail, within `bytes`.
    let mut step = unsafe { to.add(1) }.cast::<Step>();
    for (frame, slot) in frames.iter().zip(slots) {
        // SAFETY: as above.
        unsafe {
            step.write(Step {
                slot: *slot,
                low: *frame as u32,
            })
        };
        // SAFETY: one step further is still within, or just behind the last.
        step = unsafe { step.add(1) };
    }
    let mut stands = trie.insert(arena, hash, place, keep).ok()?;
    while stands != place {
        // Not the first of its hash: at the end of that one's list.
        let next = &steps(arena, stands, hash)?.0.next;
        match next.compare_exchange(0, place.raw(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(other) => stands = ArenaOffset::from_raw(other)?,
        }
    }
    Some(place)
}
