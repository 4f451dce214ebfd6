#![forbid(unsafe_code)]

/// The halves of the product, xored: each bit of the result depends on all bits of both words.
#[inline(always)]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}
