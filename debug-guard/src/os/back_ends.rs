//! The back ends that this process can use: each is tried once.

use super::{OsRefusal, system};
use crate::mode::BackEnd;

/// Which back ends this process can use, found by trying each, once.
///
/// The kernel's version does not matter: a page is provided, made inaccessible and provided again.
#[derive(Clone, Copy, Debug)]
pub struct BackEnds {
    /// In the order of [`BackEnd::ALL`]; the last, cookies, is always there.
    refusals: [Option<OsRefusal>; 4],
}

impl BackEnds {
    /// Tries them, or returns the first result. Any thread; allocates only a few pages for a moment, and keeps one descriptor open if
    /// userfaultfd is offered.
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

    /// True if it can be used.
    #[must_use]
    pub fn offers(&self, back_end: BackEnd) -> bool {
        self.refusal(back_end).is_none()
    }

    /// Why it cannot be used; `None` if it can.
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
