#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use crate::guard::{GuardOptions, Sampling};
use crate::mode::Mode;

/// The mode of a guard that treats all blocks alike, also as text.
///
/// ```
/// use debug_guard::{GuardChoice, Mode};
///
/// let choice: GuardChoice = "sampled=500".parse()?;
/// assert_eq!((choice.mode(), choice.to_string().as_str()), (Mode::Sampled, "sampled=500"));
/// assert_eq!(choice.options().check(), Ok(()));
/// # Ok::<(), debug_guard::ChoiceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardChoice {
    /// [`Mode::Fence`].
    Fence,
    /// [`Mode::Strict`].
    Strict,
    /// [`Mode::Cookie`].
    Cookie,
    /// [`Mode::Sampled`]: one block in this many, in the long run.
    Sampled(NonZeroU32),
}

/// Why a text is no [`GuardChoice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChoiceError {
    /// There is no such mode.
    UnknownMode,
    /// No number from 1 to 2^32 - 1 after `sampled=`.
    NoShare,
}

impl core::error::Error for ChoiceError {}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownMode => "expected fence, strict, cookie, sampled or sampled=N",
            Self::NoShare => {
                "expected sampled=N, N from 1 to 4294967295: in the long run one block in N of each call site is fenced"
            }
        })
    }
}

const USUAL_SHARE: NonZeroU32 = NonZeroU32::new(1000).unwrap();

impl GuardChoice {
    /// The mode of the guard.
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self {
            Self::Fence => Mode::Fence,
            Self::Strict => Mode::Strict,
            Self::Cookie => Mode::Cookie,
            Self::Sampled(_) => Mode::Sampled,
        }
    }

    /// Options of a guard in this mode.
    pub const fn options(self) -> GuardOptions {
        let options = GuardOptions::new(self.mode());
        match self {
            Self::Sampled(share) => options.sampling(Sampling::one_in(share.get())),
            _ => options,
        }
    }
}

impl FromStr for GuardChoice {
    type Err = ChoiceError;

    /// Case does not matter.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let words = [
            ("fence", Self::Fence),
            ("strict", Self::Strict),
            ("cookie", Self::Cookie),
            ("sampled", Self::Sampled(USUAL_SHARE)),
        ];
        let named = words.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        if let Some((_, choice)) = named {
            return Ok(choice);
        }
        let share = text.split_once('=').filter(|(word, _)| word.eq_ignore_ascii_case("sampled"));
        let (_, share) = share.ok_or(ChoiceError::UnknownMode)?;
        share
            .parse()
            .ok()
            .filter(|_| share.bytes().all(|byte| byte.is_ascii_digit()))
            .map(Self::Sampled)
            .ok_or(ChoiceError::NoShare)
    }
}

impl fmt::Display for GuardChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode().name())?;
        if let Self::Sampled(share) = self { write!(f, "={share}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn every_choice_is_read_as_it_is_written() {
        for text in ["fence", "strict", "cookie", "sampled=1", "sampled=4294967295"] {
            let choice: GuardChoice = text.parse().expect(text);
            assert_eq!(choice.to_string(), text);
            assert_eq!(choice.options().check(), Ok(()));
        }
        assert_eq!("Sampled".parse(), Ok(GuardChoice::Sampled(USUAL_SHARE)));
        assert_eq!("STRICT".parse(), Ok(GuardChoice::Strict));
    }

    #[test]
    fn other_words_are_refused_with_the_right_ones() {
        for text in ["", "fenced", "off", "fence=2", "sampled:5", "guard"] {
            assert_eq!(text.parse::<GuardChoice>(), Err(ChoiceError::UnknownMode), "{text}");
        }
        for text in
            ["sampled=", "sampled=0", "sampled=-1", "sampled=+1", "sampled=4294967296", "sampled=x", "sampled=1 "]
        {
            assert_eq!(text.parse::<GuardChoice>(), Err(ChoiceError::NoShare), "{text}");
        }
    }
}
