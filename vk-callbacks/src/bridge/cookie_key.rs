//! The number and the secret of a bridge.

use core::num::NonZeroU32;

use crate::command::OwnerId;
use crate::header::CookieKey;

/// A fresh number and a secret that differs between bridges and, with address randomisation, between runs.
///
/// The secret detects accidents (a copied header, a pointer of another bridge), not attackers.
pub(crate) fn fresh(place: usize) -> CookieKey {
    of(place, OwnerId::fresh().get())
}

/// The key of the bridge with this place and number.
pub(crate) fn of(place: usize, owner: u32) -> CookieKey {
    let code = (&raw const PLACE).addr() as u64;
    CookieKey {
        secret: mix(place as u64 ^ code.rotate_left(32) ^ u64::from(owner) << 17),
        owner,
    }
}

/// Its address depends on the load address of the program.
static PLACE: u8 = 0;

pub(crate) fn id_of(key: CookieKey) -> OwnerId {
    OwnerId(NonZeroU32::new(key.owner).unwrap_or(NonZeroU32::MIN))
}

/// The finaliser of splitmix64: every input bit reaches every output bit.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
