//! What this process can use: every back end tried once.

use super::{OsRefusal, system};
use crate::mode::BackEnd;

/// Which back ends this process can use, found by trying each, once.
///
/// Nothing is believed of a kernel's version: a page is taken, made untouchable and asked for again.
#[derive(Clone, Copy, Debug)]
pub struct BackEnds {
    /// In the order of [`BackEnd::ALL`]; the last, cookies, is always there.
    refusals: [Option<OsRefusal>; 4],
}

impl BackEnds {
    /// Tries them, or tells what came of it the first time. Any thread; takes no memory but a few pages for a moment, and keeps one
    /// descriptor open where userfaultfd is offered.
    #[must_use]
    pub fn probe() -> Self {
        Self {
            refusals: system::probe(),
        }
    }

    /// The back ends that cannot be used, the best first, each with the reason.
    pub(crate) fn refusals(self) -> impl Iterator<Item = (BackEnd, OsRefusal)> {
        BackEnd::ALL
            .into_iter()
            .filter_map(move |back_end| Some((back_end, self.refusal(back_end)?)))
    }

    /// The best that is offered.
    #[must_use]
    pub fn best(&self) -> BackEnd {
        BackEnd::ALL
            .into_iter()
            .find(|&back_end| self.offers(back_end))
            .unwrap_or(BackEnd::Cookies)
    }

    /// True where it can be used.
    #[must_use]
    pub fn offers(&self, back_end: BackEnd) -> bool {
        self.refusal(back_end).is_none()
    }

    /// Why it cannot be used; `None` where it can.
    #[must_use]
    pub fn refusal(&self, back_end: BackEnd) -> Option<OsRefusal> {
        let [first, second, third, fourth] = self.refusals;
        match back_end {
            BackEnd::UserfaultfdMove => first,
            BackEnd::UserfaultfdCopy => second,
            BackEnd::GuardMarkers => third,
            BackEnd::Mprotect => fourth,
            BackEnd::Cookies => None,
        }
    }
}
