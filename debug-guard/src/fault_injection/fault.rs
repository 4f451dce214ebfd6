#![forbid(unsafe_code)]

use core::fmt;
use core::str::FromStr;

use alloc_core::Scope;

/// Which requests are refused.
///
/// `allocate`, `allocate_zeroed` and `resize` are requests, numbered from 0 since the plan was armed; `deallocate` and
/// requests for 0 bytes are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No request is refused; all are counted.
    #[default]
    Never,
    /// The request with this number.
    Nth(u64),
    /// The request with this number and every later one.
    From(u64),
    /// Requests after which more than this many bytes would be live, those from before the plan included.
    LiveBytes(u64),
    /// Of the requests with this scope (numbered apart, from 0) this one and every later one. `Scope(s, 0)` refuses the
    /// scope altogether.
    Scope(Scope, u64),
    /// Of the requests by contexts of this name (numbered apart, from 0) this one and every later one. Over
    /// `vk-callbacks` a context is named after the kind of object, as `VkBuffer`.
    Context(ContextName, u64),
    /// Requests for a block of more than this many bytes, a C bridge's header included.
    SizeAbove(u64),
    /// By chance one request in so many; 0: none. A seed always refuses the same numbers.
    OneIn {
        /// Requests for each refused one, on average.
        requests: u32,
        /// Start of the sequence of decisions.
        seed: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CountedRequest {
    pub(super) number: u64,
    pub(super) number_in_scope: u64,
    /// `None` if no context that the plan is about makes it.
    pub(super) number_in_context: Option<u64>,
    pub(super) scope: Scope,
    pub(super) size: u64,
}

impl Fault {
    pub(super) const fn strikes(self, request: CountedRequest) -> bool {
        match self {
            Self::Never | Self::LiveBytes(_) => false,
            Self::Nth(n) => request.number == n,
            Self::From(n) => request.number >= n,
            Self::Scope(scope, n) => request.scope as u8 == scope as u8 && request.number_in_scope >= n,
            Self::Context(_, n) => matches!(request.number_in_context, Some(number) if number >= n),
            Self::SizeAbove(limit) => request.size > limit,
            Self::OneIn { requests, seed } => match u64::MAX.checked_div(requests as u64) {
                Some(share) => draw(seed, request.number) <= share,
                None => false,
            },
        }
    }

    pub(super) const fn live_limit(self) -> u64 {
        match self {
            Self::LiveBytes(limit) => limit,
            _ => u64::MAX,
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014) of the number alone: which requests fail does not depend on how threads
/// interleave.
const fn draw(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

const MAX_LEN: usize = 63;

/// A name of 1 to 63 bytes. One that ends in `*` stands for all that begin with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContextName {
    length: u8,
    bytes: [u8; MAX_LEN],
}

impl ContextName {
    /// `None` where `name` is empty or too long.
    #[must_use]
    pub const fn new(name: &str) -> Option<Self> {
        let from = name.as_bytes();
        if from.is_empty() || from.len() > MAX_LEN {
            return None;
        }
        let mut bytes = [0; MAX_LEN];
        let (to, _) = bytes.split_at_mut(from.len());
        to.copy_from_slice(from);
        Some(Self { length: from.len() as u8, bytes })
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..usize::from(self.length)).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    pub(super) fn is(&self, name: &str) -> bool {
        crate::guard::name_matches(self.as_str(), name)
    }
}

impl fmt::Debug for ContextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for ContextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text is no [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultError {
    /// The text begins with no plan.
    UnknownPlan,
    /// A number is missing or too large.
    NotANumber,
    /// There is no such scope.
    UnknownScope,
    /// The name of a context is empty or longer than 63 bytes.
    BadContextName,
    /// A chance of one in 0, or in more than 4294967295.
    BadChance,
}

impl core::error::Error for FaultError {}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPlan => {
                "expected nth=N, from=N, live-bytes=N, scope=SCOPE[:N], context=NAME[:N], size>N, one-in=N[,seed=S] \
                 or never"
            }
            Self::NotANumber => "expected one number below 2^64, decimal digits and no unit",
            Self::UnknownScope => "expected command, object, cache, device or instance",
            Self::BadContextName => "expected the name of a context, 1 to 63 bytes; `*` at its end stands for any end",
            Self::BadChance => "expected one in 1 to one in 4294967295",
        })
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    /// Reads `nth=7`, `from=7`, `live-bytes=65536`, `scope=object`, `scope=object:3`, `context=VkBuffer:3`,
    /// `context=VkPipeline*`, `size>4096`, `one-in=1000,seed=7` or `never`. A number or seed that is left out is 0.
    /// Case does not matter, except in the name of a context.
    ///
    /// ```
    /// use alloc_core::Scope;
    /// use debug_guard::{Fault, FaultError};
    ///
    /// assert_eq!("scope=object:3".parse(), Ok(Fault::Scope(Scope::Object, 3)));
    /// assert_eq!("scope=OBJECT:3".parse(), Ok(Fault::Scope(Scope::Object, 3)));
    /// assert_eq!("scope=queue".parse::<Fault>(), Err(FaultError::UnknownScope));
    /// ```
    fn from_str(text: &str) -> Result<Self, FaultError> {
        if text.eq_ignore_ascii_case("never") {
            return Ok(Self::Never);
        }
        if let Some((word, limit)) = text.split_once('>')
            && word.eq_ignore_ascii_case("size")
        {
            return Ok(Self::SizeAbove(number(limit)?));
        }
        let (word, value) = text.split_once('=').ok_or(FaultError::UnknownPlan)?;
        let plans = ["nth", "from", "live-bytes", "scope", "context", "one-in"];
        let plan = plans.into_iter().find(|plan| plan.eq_ignore_ascii_case(word));
        match plan.ok_or(FaultError::UnknownPlan)? {
            "nth" => Ok(Self::Nth(number(value)?)),
            "from" => Ok(Self::From(number(value)?)),
            "live-bytes" => Ok(Self::LiveBytes(number(value)?)),
            "scope" => {
                let (scope, first) = with_first(value)?;
                let scope = Scope::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(scope));
                Ok(Self::Scope(scope.ok_or(FaultError::UnknownScope)?, first))
            }
            "context" => {
                let (name, first) = with_first(value)?;
                Ok(Self::Context(ContextName::new(name).ok_or(FaultError::BadContextName)?, first))
            }
            "one-in" => {
                let (chance, seed) = with_seed(value)?;
                let requests = u32::try_from(chance).ok().filter(|requests| *requests > 0);
                Ok(Self::OneIn { requests: requests.ok_or(FaultError::BadChance)?, seed })
            }
            _ => Err(FaultError::UnknownPlan),
        }
    }
}

impl fmt::Display for Fault {
    /// As [`from_str`](FromStr::from_str) reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Nth(n) => write!(f, "nth={n}"),
            Self::From(n) => write!(f, "from={n}"),
            Self::LiveBytes(n) => write!(f, "live-bytes={n}"),
            Self::Scope(scope, 0) => write!(f, "scope={scope}"),
            Self::Scope(scope, n) => write!(f, "scope={scope}:{n}"),
            // A name with a colon would be read as one with a number.
            Self::Context(name, 0) if !name.as_str().contains(':') => write!(f, "context={name}"),
            Self::Context(name, n) => write!(f, "context={name}:{n}"),
            Self::SizeAbove(n) => write!(f, "size>{n}"),
            Self::OneIn { requests, seed } => write!(f, "one-in={requests},seed={seed}"),
        }
    }
}

/// `parse` alone would read a sign.
fn number(text: &str) -> Result<u64, FaultError> {
    if text.starts_with('+') { Err(FaultError::NotANumber) } else { text.parse().map_err(|_| FaultError::NotANumber) }
}

/// A context's name may have colons: what follows the last counts if it is a number.
fn with_first(text: &str) -> Result<(&str, u64), FaultError> {
    match text.rsplit_once(':') {
        None => Ok((text, 0)),
        Some((what, first)) => Ok((what, number(first)?)),
    }
}

fn with_seed(text: &str) -> Result<(u64, u64), FaultError> {
    match text.split_once(',') {
        None => Ok((number(text)?, 0)),
        Some((chance, seed)) => {
            Ok((number(chance)?, number(seed.strip_prefix("seed=").ok_or(FaultError::UnknownPlan)?)?))
        }
    }
}

#[cfg(test)]
mod name_tests {
    use super::*;

    #[test]
    fn names_of_every_length_come_back() {
        let long = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnop";
        for length in 1..=MAX_LEN {
            let name = ContextName::new(&long[..length]).expect("1 to 63 bytes");
            assert_eq!(name.as_str(), &long[..length]);
        }
        assert_eq!((ContextName::new(""), ContextName::new(&long[..64])), (None, None));
    }

    #[test]
    fn a_name_is_exact_or_a_beginning() {
        let is = |pattern, name| ContextName::new(pattern).expect("a name").is(name);
        assert!(is("VkBuffer", "VkBuffer") && !is("VkBuffer", "VkBufferView") && is("VkBuffer*", "VkBufferView"));
    }
}

#[cfg(test)]
mod text_tests {
    use std::format;
    use std::string::ToString;

    use super::*;

    fn name(text: &str) -> ContextName {
        ContextName::new(text).expect("a name")
    }

    #[test]
    fn every_plan_reads_and_is_written_as_it_reads() {
        for (text, plan) in [
            ("never", Fault::Never),
            ("nth=7", Fault::Nth(7)),
            ("from=18446744073709551615", Fault::From(u64::MAX)),
            ("live-bytes=65536", Fault::LiveBytes(65_536)),
            ("live-bytes=0", Fault::LiveBytes(0)),
            ("scope=object", Fault::Scope(Scope::Object, 0)),
            ("scope=instance:2", Fault::Scope(Scope::Instance, 2)),
            ("context=VkBuffer", Fault::Context(name("VkBuffer"), 0)),
            ("context=Vk*:12", Fault::Context(name("Vk*"), 12)),
            ("context=a:b:0", Fault::Context(name("a:b"), 0)),
            ("size>4096", Fault::SizeAbove(4096)),
            ("one-in=4294967295,seed=7", Fault::OneIn { requests: u32::MAX, seed: 7 }),
            ("one-in=3", Fault::OneIn { requests: 3, seed: 0 }),
        ] {
            assert_eq!(text.parse(), Ok(plan), "{text}");
            assert_eq!(plan.to_string().parse(), Ok(plan), "{plan}");
            let seed = if text == "one-in=3" { ",seed=0" } else { "" };
            assert_eq!(plan.to_string(), format!("{text}{seed}"), "as it was given");
        }
    }

    #[test]
    fn words_are_read_in_any_case_and_names_as_they_are() {
        for text in ["NEVER", "Nth=7", "SIZE>4096", "scope=OBJECT", "Scope=Cache:3", "One-In=20,seed=1"] {
            assert_eq!(text.parse::<Fault>(), text.to_lowercase().parse(), "{text}");
            assert!(text.parse::<Fault>().is_ok(), "{text}");
        }
        assert_ne!("context=vkbuffer".parse::<Fault>(), "context=VkBuffer".parse());
    }

    #[test]
    fn what_is_no_plan_is_refused_with_the_reason() {
        for (text, error) in [
            ("", FaultError::UnknownPlan),
            ("nth", FaultError::UnknownPlan),
            ("size<4", FaultError::UnknownPlan),
            ("first=1", FaultError::UnknownPlan),
            ("one-in=5,sed=1", FaultError::UnknownPlan),
            ("nth=", FaultError::NotANumber),
            ("nth=-1", FaultError::NotANumber),
            ("nth=+1", FaultError::NotANumber),
            ("nth=18446744073709551616", FaultError::NotANumber),
            ("size>4k", FaultError::NotANumber),
            ("scope=object:", FaultError::NotANumber),
            ("one-in=5,seed=x", FaultError::NotANumber),
            ("scope=objekt", FaultError::UnknownScope),
            ("context=", FaultError::BadContextName),
            ("one-in=0", FaultError::BadChance),
            ("one-in=4294967296", FaultError::BadChance),
        ] {
            assert_eq!(text.parse::<Fault>(), Err(error), "{text}");
        }
    }
}
