//! A plan as text: for command lines and environment variables.

#![forbid(unsafe_code)]

use core::fmt;
use core::str::FromStr;

use alloc_core::Scope;

use super::fault::Fault;
use super::name::ContextName;

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
    /// A chance of one in 0, or in more than a million.
    BadChance,
}

impl core::error::Error for FaultError {}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPlan => {
                "expected nth=N, from=N, live-bytes=N, total-bytes=N, scope=SCOPE[:N], context=NAME[:N], size>N, one-in=N[,seed=S], \
                 per-million=N[,seed=S] or never"
            }
            Self::NotANumber => "expected one number below 2^64, decimal digits and no unit",
            Self::UnknownScope => "expected command, object, cache, device or instance",
            Self::BadContextName => "expected the name of a context, 1 to 63 bytes; `*` at its end stands for any end",
            Self::BadChance => "expected one in 1 to one in 1000000, or at most 1000000 of a million",
        })
    }
}

/// Millionths in one.
const MILLION: u32 = 1_000_000;

impl FromStr for Fault {
    type Err = FaultError;

    /// Reads `nth=7`, `from=7`, `live-bytes=65536`, `total-bytes=65536`, `scope=object`, `scope=object:3`, `context=VkBuffer`,
    /// `context=VkBuffer:3`, `context=VkPipeline*`, `size>4096`, `one-in=1000,seed=7`, `per-million=20,seed=7` or `never`. Where a
    /// number or a seed may be left out it is 0. Case does not matter, except in the name of a context.
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
        let plans = [
            "nth",
            "from",
            "live-bytes",
            "total-bytes",
            "scope",
            "context",
            "one-in",
            "per-million",
        ];
        let plan = plans
            .into_iter()
            .find(|plan| plan.eq_ignore_ascii_case(word));
        match plan.ok_or(FaultError::UnknownPlan)? {
            "nth" => Ok(Self::Nth(number(value)?)),
            "from" => Ok(Self::From(number(value)?)),
            "live-bytes" => Ok(Self::LiveBytes(number(value)?)),
            "total-bytes" => Ok(Self::TotalBytes(number(value)?)),
            "scope" => {
                let (scope, first) = with_first(value)?;
                let scope = Scope::ALL
                    .into_iter()
                    .find(|known| known.name().eq_ignore_ascii_case(scope));
                Ok(Self::Scope(scope.ok_or(FaultError::UnknownScope)?, first))
            }
            "context" => {
                let (name, first) = with_first(value)?;
                Ok(Self::Context(
                    ContextName::new(name).ok_or(FaultError::BadContextName)?,
                    first,
                ))
            }
            "one-in" => {
                let (chance, seed) = with_seed(value)?;
                let one_in = u32::try_from(chance).ok().filter(|n| *n <= MILLION);
                Ok(Self::Probability {
                    per_million: one_in.and_then(share).ok_or(FaultError::BadChance)?,
                    seed,
                })
            }
            "per-million" => {
                let (chance, seed) = with_seed(value)?;
                let per_million = u32::try_from(chance)
                    .ok()
                    .filter(|n| *n <= MILLION)
                    .ok_or(FaultError::BadChance)?;
                Ok(Self::Probability { per_million, seed })
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
            Self::TotalBytes(n) => write!(f, "total-bytes={n}"),
            Self::Scope(scope, 0) => write!(f, "scope={scope}"),
            Self::Scope(scope, n) => write!(f, "scope={scope}:{n}"),
            // A name with a colon would be read as one with a number.
            Self::Context(name, 0) if !name.as_str().contains(':') => write!(f, "context={name}"),
            Self::Context(name, n) => write!(f, "context={name}:{n}"),
            Self::SizeAbove(n) => write!(f, "size>{n}"),
            Self::Probability { per_million, seed } => {
                let one_in = MILLION
                    .saturating_add(*per_million / 2)
                    .checked_div(*per_million)
                    .unwrap_or(0);
                // Of small shares many are nearest to the same.
                let is_exact = one_in <= 1000 || one_in.checked_mul(*per_million) == Some(MILLION);
                match share(one_in) {
                    Some(share) if share == *per_million && is_exact => {
                        write!(f, "one-in={one_in},seed={seed}")
                    }
                    _ => write!(f, "per-million={},seed={seed}", MILLION.min(*per_million)),
                }
            }
        }
    }
}

/// One in so many, in millionths, to the nearest: one in three is 333 333.
const fn share(one_in: u32) -> Option<u32> {
    MILLION.saturating_add(one_in / 2).checked_div(one_in)
}

/// Digits, nothing else: no sign, no space.
fn number(text: &str) -> Result<u64, FaultError> {
    if text.starts_with('+') {
        Err(FaultError::NotANumber)
    } else {
        text.parse().map_err(|_| FaultError::NotANumber)
    }
}

/// `what` or `what:N`. A context's name may have colons of its own: what follows the last counts where it is a number.
fn with_first(text: &str) -> Result<(&str, u64), FaultError> {
    match text.rsplit_once(':') {
        None => Ok((text, 0)),
        Some((what, first)) => Ok((what, number(first)?)),
    }
}

/// `N` or `N,seed=S`.
fn with_seed(text: &str) -> Result<(u64, u64), FaultError> {
    match text.split_once(',') {
        None => Ok((number(text)?, 0)),
        Some((chance, seed)) => Ok((
            number(chance)?,
            number(seed.strip_prefix("seed=").ok_or(FaultError::UnknownPlan)?)?,
        )),
    }
}

#[cfg(test)]
mod tests {
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
            ("total-bytes=0", Fault::TotalBytes(0)),
            ("scope=object", Fault::Scope(Scope::Object, 0)),
            ("scope=instance:2", Fault::Scope(Scope::Instance, 2)),
            ("context=VkBuffer", Fault::Context(name("VkBuffer"), 0)),
            ("context=Vk*:12", Fault::Context(name("Vk*"), 12)),
            ("context=a:b:0", Fault::Context(name("a:b"), 0)),
            ("size>4096", Fault::SizeAbove(4096)),
            (
                "one-in=1000,seed=7",
                Fault::Probability {
                    per_million: 1000,
                    seed: 7,
                },
            ),
            (
                "one-in=3",
                Fault::Probability {
                    per_million: 333_333,
                    seed: 0,
                },
            ),
            (
                "per-million=21,seed=1",
                Fault::Probability {
                    per_million: 21,
                    seed: 1,
                },
            ),
            (
                "per-million=0,seed=1",
                Fault::Probability {
                    per_million: 0,
                    seed: 1,
                },
            ),
        ] {
            assert_eq!(text.parse(), Ok(plan), "{text}");
            assert_eq!(plan.to_string().parse(), Ok(plan), "{plan}");
            // Where no seed was given it says which one there is.
            let seed = if text == "one-in=3" { ",seed=0" } else { "" };
            assert_eq!(plan.to_string(), format!("{text}{seed}"), "as it was given");
        }
    }

    #[test]
    fn words_are_read_in_any_case_and_names_as_they_are() {
        for text in [
            "NEVER",
            "Nth=7",
            "SIZE>4096",
            "scope=OBJECT",
            "Scope=Cache:3",
            "Per-Million=20,seed=1",
        ] {
            assert_eq!(text.parse::<Fault>(), text.to_lowercase().parse(), "{text}");
            assert!(text.parse::<Fault>().is_ok(), "{text}");
        }
        assert_ne!(
            "context=vkbuffer".parse::<Fault>(),
            "context=VkBuffer".parse()
        );
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
            ("one-in=1000001", FaultError::BadChance),
            ("per-million=1000001", FaultError::BadChance),
        ] {
            assert_eq!(text.parse::<Fault>(), Err(error), "{text}");
        }
    }
}
