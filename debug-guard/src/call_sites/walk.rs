//! Follows the chain of frame pointers up a stack.
//!
//! ```text
//!   frame pointer --> | caller's frame pointer | return address |   .. locals ..   | caller's caller's | return address | ..
//!                                \__________________________________________________^
//!   sp                                                                                     the mark of the command        top
//! ```
//! Code that uses the register for something else ends the chain, or leads it astray: each step must go up, stay
//! below the end of the stack and stand at a multiple of 16, as the calling conventions of x86-64 and AArch64 have
//! it. The end of another stack (a fiber's, a coroutine's) is not known, and memory above it may be unmapped at any
//! time: there each word is read without a fault. A chain that is led astray may skip callers: each address must
//! follow a call.
//!
//! The *stack rule* of the SAFETY comments: of the thread's own stack, every word from the stack pointer up to `top`
//! can be read.

use super::thread_stack;
use super::thread_stack::Registers;
use crate::os;

pub(super) const MAX_FRAMES: usize = 32;
const ALIGN: usize = 16;
const WORD: usize = size_of::<usize>();
const LOWEST_CODE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At the frame of the command, or at the thread's first.
    Reached,
    Short,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// 0: all frames.
    pub(super) mark: usize,
    pub(super) top: usize,
    /// The stack rule holds up to `top`.
    own: bool,
}

impl Bounds {
    /// # Safety
    /// The stack rule holds up to `top`.
    #[inline(always)]
    pub(super) const unsafe fn own(top: usize) -> Self {
        Self { mark: 0, top, own: true }
    }

    pub(super) const fn other(top: usize) -> Self {
        Self { mark: 0, top, own: false }
    }

    #[inline(always)]
    pub(super) const fn up_to(self, mark: usize) -> Self {
        Self { mark, ..self }
    }
}

#[derive(Clone, Copy)]
pub(super) struct WalkStart {
    pub(super) from: Registers,
    pub(super) bounds: Bounds,
}

impl WalkStart {
    /// True if each of `frames` stands so many words above the stack pointer. False on another stack than the thread's
    /// own: each read there may be a system call.
    ///
    /// # Safety
    /// No slot is above the last one.
    #[inline]
    pub(super) unsafe fn stands(&self, frames: &[usize], slots: &[u32]) -> bool {
        let WalkStart { from, bounds } = *self;
        let room = bounds.top.wrapping_sub(from.stack) / WORD;
        if !bounds.own || slots.last().is_none_or(|last| *last as usize >= room) {
            return false;
        }
        frames.iter().zip(slots).all(|(frame, slot)| {
            // SAFETY: the stack rule: a whole number of words above the stack pointer, and below `top`.
            *frame == unsafe { word(from.stack.wrapping_add(*slot as usize * WORD)) }
        })
    }
}

/// A number that no stack reaches where the place is not known.
pub(super) fn slot_of(at: usize, stack: usize) -> u32 {
    let bytes = Some(at.wrapping_sub(stack)).filter(|bytes| bytes.is_multiple_of(WORD));
    bytes.and_then(|bytes| u32::try_from(bytes / WORD).ok()).unwrap_or(u32::MAX)
}

/// Writes the chain's return addresses, innermost first, and to `slots` where they stand above the stack pointer.
pub(super) fn frames(start: WalkStart, frames: &mut [usize], slots: &mut [u32]) -> (usize, End) {
    let WalkStart { from, bounds } = start;
    let mut count = 0;
    let (mut to, mut slots) = (frames.iter_mut(), slots.iter_mut());
    let tell = |at: usize, back| {
        if let Some(slot) = slots.next() {
            *slot = slot_of(at, from.stack);
        }
        match to.next() {
            Some(place) => {
                *place = back;
                count += 1;
                true
            }
            None => false,
        }
    };
    // SAFETY: the stack rule: `chain` reads words below the top.
    let own = |at| Some(unsafe { word(at) });
    let end = if bounds.own { chain(from, bounds, own, tell) } else { chain(from, bounds, caught, tell) };
    (count, end)
}

/// Passes each return address and its place to `tell`, innermost first, until that has no room. `read` gets addresses
/// at or above `from.stack` and below `bounds.top`.
#[inline(always)]
fn chain(
    from: Registers,
    bounds: Bounds,
    read: impl Fn(usize) -> Option<usize>,
    mut tell: impl FnMut(usize, usize) -> bool,
) -> End {
    let mut frame = from.frame;
    let mut lowest = from.stack;
    let Some(last) = bounds.top.checked_sub(2 * WORD) else {
        return End::Short;
    };
    if bounds.mark != 0 && frame > bounds.mark {
        return End::Short; // the frame of a caller of the command
    }
    for _ in 0..MAX_FRAMES {
        if frame < lowest || frame > last || !frame.is_multiple_of(ALIGN) {
            return End::Short;
        }
        let at = frame.wrapping_add(WORD);
        let (Some(next), Some(back)) = (read(frame), read(at)) else {
            return End::Short;
        };
        if back < LOWEST_CODE {
            return if bounds.mark == 0 && back == 0 && next == 0 { End::Reached } else { End::Short };
        }
        if !tell(at, back) {
            return End::Short;
        }
        if bounds.mark != 0 {
            if next > bounds.mark && next <= last && next.is_multiple_of(ALIGN) {
                return End::Reached;
            }
        } else if next == 0 {
            return End::Reached;
        }
        lowest = at.wrapping_add(WORD);
        frame = next;
    }
    End::Short
}

/// # Safety
/// A multiple of the word's size within the stack rule.
#[inline(always)]
unsafe fn word(at: usize) -> usize {
    // SAFETY: the stack rule; volatile, because the compiler knows nothing of other frames.
    unsafe { core::ptr::with_exposed_provenance::<usize>(at).read_volatile() }
}

#[cold]
#[inline(never)]
fn caught(at: usize) -> Option<usize> {
    os::read_u64(at).map(|word| word as usize)
}

pub(super) fn count_calls(frames: &[usize]) -> usize {
    frames.iter().take_while(|back| returns_to(**back)).count()
}

fn returns_to(back: usize) -> bool {
    let Some(before) = back.checked_sub(8) else {
        return false;
    };
    os::read_u64_by_kernel(before).is_some_and(|bytes| follows_call(bytes.to_le_bytes()))
}

/// `call rel32` (E8 and four bytes), or `call r/m64` (FF, whose second byte has 2 in its middle, and none to five
/// bytes more).
#[cfg(target_arch = "x86_64")]
fn follows_call(bytes: [u8; 8]) -> bool {
    let [_, b7, b6, b5, b4, b3, b2, b1] = bytes;
    let indirect = |first: u8, second: u8| first == 0xff && second & 0x38 == 0x10;
    b5 == 0xe8 || indirect(b2, b1) || indirect(b3, b2) || indirect(b4, b3) || indirect(b6, b5) || indirect(b7, b6)
}

/// `bl`, or `blr` with or without authentication.
#[cfg(not(target_arch = "x86_64"))]
fn follows_call(bytes: [u8; 8]) -> bool {
    let [_, _, _, _, code @ ..] = bytes;
    let code = u32::from_le_bytes(code);
    code >> 26 == 0b10_0101 || code & 0xfeff_f000 == 0xd63f_0000
}

const NEAR: usize = 2;
/// The stack's depth distinguishes further calls. Only within a page: threads' stacks begin at the same position of a
/// page.
const DEPTH: usize = 0xFFF;

/// A hash of the size and of the calls of the function that this is inlined into. Allocates nothing; a few
/// nanoseconds.
#[inline(always)]
pub(crate) fn call_site(size: usize) -> usize {
    let from = thread_stack::read_registers();
    let start = size ^ (from.stack & DEPTH).rotate_left(20);
    if from.stack == 0 {
        return start;
    }
    let bounds = thread_stack::with(|local| local.bounds(from.stack));
    let mut near = [0; NEAR];
    frames(WalkStart { from, bounds }, &mut near, &mut []);
    let mix = |site: usize, back: &usize| site.rotate_left(usize::BITS / 3) ^ back;
    near.iter().fold(start, mix)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const BASE: usize = 0x7000_0000;

    /// A stack of words, read through a check that nothing else is.
    fn walk(words: &[usize], frame: usize, mark: usize) -> (Vec<usize>, End) {
        let top = BASE + words.len() * WORD;
        let read = |at: usize| {
            assert!(at >= BASE && at < top && at.is_multiple_of(WORD), "{at:#x} is not the stack's");
            Some(words[(at - BASE) / WORD])
        };
        let mut all = Vec::new();
        let end = chain(Registers { stack: BASE, frame }, Bounds::other(top).up_to(mark), read, |_, back| {
            all.push(back);
            true
        });
        (all, end)
    }

    const fn at(word: usize) -> usize {
        BASE + word * WORD
    }

    const A: usize = 0x5555_0001;
    const B: usize = 0x5555_0002;
    const C: usize = 0x5555_0003;

    #[test]
    fn a_chain_is_followed_to_its_end_or_to_the_command() {
        let words = [at(4), A, 7, 7, at(8), B, 7, 7, 0, C, 7, 7];
        assert_eq!(walk(&words, at(0), 0), (Vec::from([A, B, C]), End::Reached));
        assert_eq!(walk(&words, at(0), at(7)), (Vec::from([A, B]), End::Reached));
        assert_eq!(walk(&words, at(0), at(3)), (Vec::from([A]), End::Reached));
        assert_eq!(walk(&words, at(8), at(3)), (Vec::new(), End::Short));
        let none = [at(4), A, 7, 7, 0, 0, 7, 7];
        assert_eq!(walk(&none, at(0), 0), (Vec::from([A]), End::Reached));
    }

    #[test]
    fn whatever_stands_in_the_register_nothing_else_is_read() {
        let words = [at(4), A, 7, 7, usize::MAX - 15, B, 7, 7, 0, C];
        assert_eq!(walk(&words, at(0), at(9)), (Vec::from([A, B]), End::Short));
        for frame in
            [0, 1, 8, 16, BASE - 16, at(1), at(10), at(9), at(8) + 4, usize::MAX, usize::MAX - 15, isize::MAX as usize]
        {
            let (all, end) = walk(&words, frame, at(9));
            assert!(all.is_empty() && end == End::Short || frame == at(8), "{frame:#x}: {all:x?}");
        }
        for next in [at(0), BASE - 16, at(2) + 8] {
            assert_eq!(walk(&[7, 7, next, A, 7, 7], at(2), at(5)), (Vec::from([A]), End::Short));
        }
        assert_eq!(walk(&[at(2), 12, 0, A], at(0), at(3)), (Vec::new(), End::Short));
    }

    #[test]
    fn a_chain_ends_where_a_word_cannot_be_read() {
        let words = [at(4), A, 7, 7, at(8), B, 7, 7, 0, C];
        for (gone, frames) in [(0, &[][..]), (1, &[]), (4, &[A]), (5, &[A]), (8, &[A, B]), (9, &[A, B])] {
            let mut all = Vec::new();
            let read = |address| (address != at(gone)).then(|| words[(address - BASE) / WORD]);
            let end = chain(Registers { stack: BASE, frame: at(0) }, Bounds::other(at(10)), read, |_, back| {
                all.push(back);
                true
            });
            assert_eq!((&all[..], end), (frames, End::Short), "word {gone}");
        }
    }

    #[test]
    fn every_word_that_can_stand_there_is_survived() {
        let mut seed = 1u64;
        let mut reached = 0;
        for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let words: Vec<usize> = (0..64)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let pick = (seed >> 33) as usize;
                    match pick % 5 {
                        0 => 0,
                        1 => pick,
                        _ => (BASE + pick % (70 * WORD)) & !7,
                    }
                })
                .collect();
            let (all, end) = walk(&words, at(0), at(40));
            assert!(all.len() <= MAX_FRAMES);
            reached += usize::from(end == End::Reached);
        }
        assert!(reached > 0, "some of them did lead somewhere");
    }

    #[test]
    fn long_chains_are_cut() {
        let mut words: Vec<usize> = (0..100).flat_map(|n| [at(2 * n + 2), A]).collect();
        words.push(0);
        words.push(0);
        let (all, end) = walk(&words, at(0), 0);
        assert_eq!((all.len(), end), (MAX_FRAMES, End::Short));
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod call_tests {
    use super::*;

    #[test]
    fn calls_are_told_from_other_code() {
        let ends = |code: &[u8]| {
            let mut bytes = [0x90; 8];
            bytes[8 - code.len()..].copy_from_slice(code);
            follows_call(bytes)
        };
        for call in [
            &[0xe8, 1, 2, 3, 4][..],         // call f
            &[0xff, 0xd0],                   // call rax
            &[0x41, 0xff, 0xd3],             // call r11
            &[0xff, 0x10],                   // call [rax]
            &[0xff, 0x50, 0x18],             // call [rax+24]
            &[0xff, 0x54, 0x24, 0x08],       // call [rsp+8]
            &[0xff, 0x15, 1, 2, 3, 4],       // call [rip+x]
            &[0xff, 0x94, 0xc8, 1, 2, 3, 4], // call [rax+rcx*8+x]
        ] {
            assert!(ends(call), "{call:x?}");
        }
        for other in
            [&[0xe9, 1, 2, 3, 4][..], &[0xff, 0xe0], &[0xff, 0x25, 1, 2, 3, 4], &[0x48, 0x89, 0xe5], &[0xc3], &[]]
        {
            assert!(!ends(other), "{other:x?}");
        }
    }

    #[test]
    fn no_address_is_too_strange_to_ask_of() {
        for address in [0, 1, 7, 8, 4096, usize::MAX, usize::MAX - 7, isize::MAX as usize, 1 << 47] {
            assert!(!returns_to(address), "{address:#x}");
        }
    }
}

#[cfg(all(test, not(miri)))]
mod caller_hash_tests {
    use std::hint::black_box;

    use super::*;

    #[inline(never)]
    fn through(calls: usize, size: usize) -> usize {
        let site = if calls == 0 { call_site(size) } else { through(calls - 1, size) };
        black_box(site)
    }

    #[test]
    fn a_place_stays_the_same_and_others_differ() {
        if !super::super::system::REGISTERS_KNOWN {
            return;
        }
        let all: std::vec::Vec<[usize; 3]> = (0..5).map(|_| [through(0, 64), through(1, 64), through(0, 65)]).collect();
        assert!(all.iter().all(|sites| *sites == all[0]), "{all:x?}");
        let [here, deeper, larger] = all[0];
        assert!(here != deeper && here != larger && deeper != larger, "{all:x?}");
    }
}
