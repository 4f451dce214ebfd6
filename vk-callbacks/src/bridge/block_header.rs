use core::num::NonZeroU32;
use core::ptr::NonNull;

use alloc_core::Scope;

use super::state::BridgeState;
use crate::command::OwnerId;
use crate::header::{CookieKey, Word0};

impl<A> BridgeState<A> {
    /// # Safety
    /// `base` is a live block of the backing, `pad` is its plan's for it, `word0` describes it.
    #[inline(always)]
    pub(super) unsafe fn write_header(&self, base: NonNull<u8>, pad: usize, word0: Word0) -> *mut u8 {
        // SAFETY: `pad` is at most the layout's size.
        let payload = unsafe { base.add(pad) };
        // SAFETY: `pad >= 16`, so the header lies within the block.
        let first = unsafe { payload.sub(16) };
        // SAFETY: within the block. For small alignments a guard's block is not aligned to 8.
        unsafe { first.cast::<u64>().write_unaligned(word0.0) };
        // SAFETY: the payload lies 16 or more bytes behind the start of the writable block.
        unsafe { write_word1(payload, self.cookie_key.live(payload.addr().get(), word0)) };
        payload.as_ptr()
    }

    /// # Safety
    /// The 16 bytes before `payload` can be read.
    #[inline]
    pub(super) unsafe fn read(&self, payload: NonNull<u8>) -> Option<(Word0, Scope)> {
        // SAFETY: the 16 bytes before it can be read.
        let (word0, word1) = unsafe { read_words(payload) };
        if word1 != self.cookie_key.live(payload.addr().get(), word0) {
            return None;
        }
        Some((word0, word0.scope()?))
    }
}

/// # Safety
/// The 16 bytes before `payload` can be read.
#[inline]
pub(super) unsafe fn read_words(payload: NonNull<u8>) -> (Word0, u64) {
    // Wrapping and unaligned: the pointer may be any pointer.
    let first = payload.as_ptr().wrapping_sub(16).cast::<u64>();
    // SAFETY: within those 16 bytes.
    let word0 = unsafe { first.read_unaligned() };
    // SAFETY: within those 16 bytes.
    let word1 = unsafe { first.wrapping_add(1).read_unaligned() };
    (Word0(word0), word1)
}

/// # Safety
/// `payload` lies 8 or more bytes behind the start of a writable block.
#[inline]
pub(super) unsafe fn write_word1(payload: NonNull<u8>, word1: u64) {
    // SAFETY: the payload lies 8 or more bytes behind the start of the block.
    let second = unsafe { payload.sub(8) };
    // SAFETY: within the writable block.
    unsafe { second.cast::<u64>().write_unaligned(word1) };
}

/// The secret differs between bridges and, with address randomisation, between runs. It detects accidents, not
/// attackers.
pub(crate) fn fresh_key(place: usize) -> CookieKey {
    key_of(place, OwnerId::fresh().get())
}

pub(crate) fn key_of(place: usize, owner: u32) -> CookieKey {
    let code = (&raw const PLACE).addr() as u64;
    CookieKey { secret: mix(place as u64 ^ code.rotate_left(32) ^ u64::from(owner) << 17), owner }
}

/// Its address depends on the load address of the program.
static PLACE: u8 = 0;

pub(crate) fn id_of_key(key: CookieKey) -> OwnerId {
    OwnerId(NonZeroU32::new(key.owner).unwrap_or(NonZeroU32::MIN))
}

/// The finaliser of splitmix64.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
