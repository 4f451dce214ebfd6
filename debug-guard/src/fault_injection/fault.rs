//! The plan of a [`FailingAllocator`](crate::FailingAllocator): which requests are refused. Pure arithmetic.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::name::ContextName;

/// Which requests are refused.
///
/// Requests are numbered from 0, from the moment the plan was armed. `allocate`, `allocate_zeroed` and `resize` are
/// requests; `deallocate` and requests for 0 bytes are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// None. Requests are counted all the same.
    #[default]
    Never,
    /// The request with this number, and no other.
    Nth(u64),
    /// The request with this number and every later one.
    From(u64),
    /// Every request after which more than this many bytes would be live. Bytes that were live when the plan was armed count.
    LiveBytes(u64),
    /// Every request after which more than this many bytes would have been given since the plan was armed, whether they were
    /// freed meanwhile or not. A `resize` gives what the block gains.
    TotalBytes(u64),
    /// Of the requests with this scope (numbered apart, from 0) the one with this number and every later one.
    /// `Scope(s, 0)` refuses the scope altogether.
    Scope(Scope, u64),
    /// Of the requests that contexts of this name make (numbered apart, from 0) the one with this number and every later one. Over
    /// `vk-callbacks` a context is named after the kind of object, as `VkBuffer`.
    Context(ContextName, u64),
    /// Every request for a block of more than this many bytes; those that a C bridge puts in front count.
    SizeAbove(u64),
    /// Each request with this chance, in millionths (1 000 000 and above: always). The same seed refuses the same numbers.
    Probability {
        /// Millionths.
        per_million: u32,
        /// Start of the sequence of decisions.
        seed: u64,
    },
}

/// A request as the plan sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedRequest {
    /// Number among all requests since the plan was armed.
    pub(super) number: u64,
    /// Number among those of its scope.
    pub(super) number_in_scope: u64,
    /// Number among those of the contexts that the plan is about; `None` for others.
    pub(super) number_in_context: Option<u64>,
    /// Its scope.
    pub(super) scope: Scope,
    /// The size that the block is to have.
    pub(super) size: u64,
}

impl Fault {
    /// True when the plan refuses `request` for its number, name or size. The limits in bytes are checked with the sums.
    pub(super) const fn strikes(self, request: CountedRequest) -> bool {
        match self {
            Self::Never | Self::LiveBytes(_) | Self::TotalBytes(_) => false,
            Self::Nth(n) => request.number == n,
            Self::From(n) => request.number >= n,
            Self::Scope(scope, n) => {
                request.scope as u8 == scope as u8 && request.number_in_scope >= n
            }
            Self::Context(_, n) => matches!(request.number_in_context, Some(number) if number >= n),
            Self::SizeAbove(limit) => request.size > limit,
            Self::Probability { per_million, seed } => draw(seed, request.number) < per_million,
        }
    }

    /// Maximum live bytes.
    pub(super) const fn live_limit(self) -> u64 {
        match self {
            Self::LiveBytes(limit) => limit,
            _ => u64::MAX,
        }
    }

    /// Maximum bytes in all.
    pub(super) const fn total_limit(self) -> u64 {
        match self {
            Self::TotalBytes(limit) => limit,
            _ => u64::MAX,
        }
    }
}

/// A number in `0..1_000_000` for the request `number`, evenly spread (SplitMix64: Steele, Lea, Flood 2014). It depends on
/// nothing else, so which requests fail does not depend on how threads interleave between two numbers.
const fn draw(seed: u64, number: u64) -> u32 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    // The high half of z times a million lies below a million.
    ((z as u128 * 1_000_000) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> CountedRequest {
        let number_in_context = number.is_multiple_of(2).then_some(number / 2);
        CountedRequest {
            number,
            number_in_scope: number / 2,
            number_in_context,
            scope: Scope::Cache,
            size: 10 * number,
        }
    }

    fn struck(fault: Fault) -> std::vec::Vec<u64> {
        (0..6).filter(|n| fault.strikes(request(*n))).collect()
    }

    #[test]
    fn each_plan_strikes_what_it_says() {
        assert_eq!(struck(Fault::Never), [0_u64; 0]);
        assert_eq!(struck(Fault::Nth(2)), [2]);
        assert_eq!(struck(Fault::From(4)), [4, 5]);
        assert_eq!(struck(Fault::Scope(Scope::Cache, 2)), [4, 5]);
        assert_eq!(struck(Fault::Scope(Scope::Object, 0)), [0_u64; 0]);
        let name = ContextName::new("any").expect("a name");
        assert_eq!(struck(Fault::Context(name, 1)), [2, 4]);
        assert_eq!(struck(Fault::SizeAbove(30)), [4, 5]);
        assert_eq!(
            struck(Fault::LiveBytes(0)),
            [0_u64; 0],
            "bytes are not judged by number"
        );
    }

    #[test]
    fn chance_is_even_and_repeatable() {
        let count = |per_million, seed| {
            (0..100_000)
                .filter(|n| Fault::Probability { per_million, seed }.strikes(request(*n)))
                .count()
        };
        assert_eq!(count(0, 1), 0);
        assert_eq!(count(1_000_000, 1), 100_000);
        assert_eq!(count(u32::MAX, 1), 100_000);
        assert!((9_500..10_500).contains(&count(100_000, 1)));
        assert_eq!(count(100_000, 7), count(100_000, 7));
        assert_ne!(
            struck(Fault::Probability {
                per_million: 500_000,
                seed: 1
            }),
            struck(Fault::Probability {
                per_million: 500_000,
                seed: 3
            })
        );
    }
}
