#![forbid(unsafe_code)]

use core::fmt;
use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A device's unique number. Vulkan may reuse a handle's value for another device; this number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheDevice(u64);

impl CacheDevice {
    /// Creates the number of a new device.
    #[must_use]
    pub fn new_unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // The top bit is the kind of key; no process creates 2^63 devices.
        Self(NEXT.fetch_add(1, Relaxed) & (HASHED - 1))
    }
}

/// A shader of a device. A kernel's number and a content hash are never equal, whatever their bits.
///
/// ```text
///   device 63 | kind 1      low 64      high 64        kind: 0 a number (high is 0), 1 a hash of 128 bits
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShaderKey {
    pub(super) device: u64,
    pub(super) low: u64,
    pub(super) high: u64,
}

/// The word is mixed already: it has selected the shard.
impl Hash for ShaderKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.mixed());
    }
}

pub(super) type KeyState = BuildHasherDefault<KeyHasher>;

#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, _: &[u8]) {}

    #[inline]
    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

const HASHED: u64 = 1 << 63;

impl ShaderKey {
    /// A kernel that the program numbered.
    #[must_use]
    pub const fn kernel(device: CacheDevice, id: u64) -> Self {
        Self { device: device.0, low: id, high: 0 }
    }

    /// A kernel identified by the content that it is compiled from.
    #[must_use]
    pub const fn content(device: CacheDevice, hash: ContentHash) -> Self {
        Self { device: device.0 | HASHED, low: hash.0 as u64, high: (hash.0 >> 64) as u64 }
    }

    pub(super) const fn is_hashed(self) -> bool {
        self.device & HASHED != 0
    }

    /// The device.
    #[must_use]
    pub const fn device(self) -> CacheDevice {
        CacheDevice(self.device & (HASHED - 1))
    }

    /// Every bit depends on both numbers, so neighbouring numbers do not collide.
    #[inline(always)]
    pub(super) const fn mixed(self) -> u64 {
        fold(self.low ^ ODD.wrapping_mul(self.device), self.high ^ 0x8EBC_6AF0_9C88_C6E3)
    }
}

/// 128-bit hash of a shader's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(u128);

impl ContentHash {
    /// Hashes these bytes: the first 128 bits of BLAKE3.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let mut first = [0; 16];
        for (to, from) in first.iter_mut().zip(blake3::hash(content).as_bytes()) {
            *to = *from;
        }
        Self(u128::from_le_bytes(first))
    }

    /// A hash from elsewhere. It must be as strong: two contents with the same hash are one shader.
    #[must_use]
    pub const fn from_raw(raw: u128) -> Self {
        Self(raw)
    }

    /// The bits.
    #[must_use]
    pub const fn as_raw(self) -> u128 {
        self.0
    }
}

impl fmt::Display for ShaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.device & HASHED == 0 {
            write!(f, "kernel {} of device {}", self.low, self.device)
        } else {
            write!(f, "content {:016x}{:016x} of device {}", self.high, self.low, self.device & (HASHED - 1))
        }
    }
}

impl fmt::Debug for ShaderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The lower bits of a product grow linearly with its factors: consecutive numbers would collide.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    let folded = product as u64 ^ (product >> 64) as u64;
    folded ^ folded >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn h58_neighbours_in_device_and_number_do_not_meet() {
        let devices: Vec<CacheDevice> = (0..32).map(|_| CacheDevice::new_unique()).collect();
        let all: HashSet<u64> =
            devices.iter().flat_map(|device| (0..1000).map(|id| ShaderKey::kernel(*device, id).mixed())).collect();
        assert_eq!(all.len(), 32_000);
        for bit in 0..64 {
            let set = all.iter().filter(|hash| *hash >> bit & 1 != 0).count();
            assert!((14_000..18_000).contains(&set), "bit {bit}: {set}");
        }
    }

    #[test]
    fn h58_numbers_in_a_row_spread_over_the_buckets() {
        for stride in [1, 2, 10, 64, 256, 4096, 65_536, 1 << 32] {
            let beyond: usize = (0..16)
                .map(|_| {
                    let device = CacheDevice::new_unique();
                    let mut buckets = [0_usize; 512];
                    for number in 0..1000 {
                        let hash = ShaderKey::kernel(device, number * stride).mixed();
                        buckets[hash as usize % 512] += 1;
                    }
                    buckets.iter().map(|many| many.saturating_sub(7)).sum::<usize>()
                })
                .sum();
            // A random hash puts one key of a thousand beyond its bucket.
            assert!(beyond <= 16 * 10, "stride {stride}: {beyond} of 16 000");
        }
    }

    #[test]
    fn a_number_and_a_hash_are_two_keys() {
        let device = CacheDevice::new_unique();
        let (number, hash) = (ShaderKey::kernel(device, 5), ShaderKey::content(device, ContentHash::from_raw(5)));
        assert_ne!(number, hash);
        assert_eq!((number.device(), hash.device()), (device, device));
        assert!(number.to_string().starts_with("kernel 5 of device "));
        assert!(hash.to_string().starts_with("content 00000000000000000000000000000005 of device "));
    }

    #[test]
    fn a_content_hash_is_blake3s() {
        // The test vector of the empty input: af1349b9f5f9a1a6a0404dea36dcc949...
        assert_eq!(ContentHash::of(b"").as_raw().to_le_bytes()[..4], [0xaf, 0x13, 0x49, 0xb9]);
        assert_ne!(ContentHash::of(b"a"), ContentHash::of(b"b"));
    }
}
