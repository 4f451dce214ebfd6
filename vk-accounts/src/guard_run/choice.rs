//! `--guard=..`: the modes of a guard, as a command line names them.

#![forbid(unsafe_code)]

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use debug_guard::{BackEnd, GuardOptions, Mode, Sampling};

/// How the blocks of a run are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardChoice {
    /// [`Mode::Fence`].
    Fence,
    /// [`Mode::Strict`].
    Strict,
    /// [`Mode::Cookie`].
    Cookie,
    /// [`Mode::Sampled`]: in the long run one block in so many.
    Sampled(NonZeroU32),
}

/// Why a text is no [`GuardChoice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// There is no such mode.
    #[error("expected fence, strict, cookie, sampled or sampled=N")]
    UnknownMode,
    /// Behind `sampled=` stands no number from 1 to 2^32 - 1.
    #[error(
        "expected sampled=N, N from 1 to 4294967295: in the long run one block in N of each call site is fenced"
    )]
    NoShare,
}

/// One in so many, where a command line does not say.
const USUAL_SHARE: NonZeroU32 = NonZeroU32::new(1000).unwrap();

impl GuardChoice {
    /// Its mode.
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self {
            Self::Fence => Mode::Fence,
            Self::Strict => Mode::Strict,
            Self::Cookie => Mode::Cookie,
            Self::Sampled(_) => Mode::Sampled,
        }
    }

    pub(super) const fn options(self) -> GuardOptions {
        let options = GuardOptions::new(self.mode());
        match self {
            Self::Sampled(share) => options.sampling(Sampling::one_in(share.get())),
            _ => options,
        }
    }
}

impl FromStr for GuardChoice {
    type Err = ChoiceError;

    /// In any case, as the names of drivers.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        match text.to_ascii_lowercase().as_str() {
            "fence" => Ok(Self::Fence),
            "strict" => Ok(Self::Strict),
            "cookie" => Ok(Self::Cookie),
            "sampled" => Ok(Self::Sampled(USUAL_SHARE)),
            other => {
                let share = other
                    .strip_prefix("sampled=")
                    .ok_or(ChoiceError::UnknownMode)?;
                let digits = share.bytes().all(|byte| byte.is_ascii_digit());
                share
                    .parse()
                    .ok()
                    .filter(|_| digits)
                    .map(Self::Sampled)
                    .ok_or(ChoiceError::NoShare)
            }
        }
    }
}

impl fmt::Display for GuardChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode().name())?;
        if let Self::Sampled(share) = self {
            write!(f, "={share}")
        } else {
            Ok(())
        }
    }
}

/// What a command line, or a setting, names: with it alone pages are made untouchable.
///
/// # Errors
/// What is expected instead.
pub fn parse_back_end(text: &str) -> Result<BackEnd, String> {
    // Cookies are what remains, and never asked for.
    let all = BackEnd::ALL
        .into_iter()
        .filter(|back_end| *back_end != BackEnd::Cookies);
    let named = all.clone().find(|back_end| back_end.name() == text);
    named.ok_or_else(|| {
        format!(
            "expected {}",
            all.map(BackEnd::name).collect::<Vec<_>>().join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_read_as_it_is_written() {
        for text in [
            "fence",
            "strict",
            "cookie",
            "sampled=1",
            "sampled=4294967295",
        ] {
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
            assert_eq!(
                text.parse::<GuardChoice>(),
                Err(ChoiceError::UnknownMode),
                "{text}"
            );
        }
        for text in [
            "sampled=",
            "sampled=0",
            "sampled=-1",
            "sampled=+1",
            "sampled=4294967296",
            "sampled=x",
            "sampled=1 ",
        ] {
            assert_eq!(
                text.parse::<GuardChoice>(),
                Err(ChoiceError::NoShare),
                "{text}"
            );
        }
    }
}
