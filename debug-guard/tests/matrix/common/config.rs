//! Modes, places and back ends that a row runs under.

use debug_guard::{BackEnd, BackEnds, Mode, Placement};

/// One guard's mode, where its blocks stand, what the kernel lends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) placement: Placement,
    /// None for modes that need none.
    pub(crate) back_end: Option<BackEnd>,
}

/// Which configurations a row speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct On(u8);

const PLACES: [(Mode, Placement); 4] = [
    (Mode::Fence, Placement::Right),
    (Mode::Fence, Placement::Left),
    (Mode::Strict, Placement::Right),
    (Mode::Strict, Placement::Left),
];

impl On {
    pub(crate) const FENCE_RIGHT: Self = Self(1);
    pub(crate) const STRICT_RIGHT: Self = Self(4);
    pub(crate) const COOKIE: Self = Self(16);
    /// G-right and G-left of the contract.
    pub(crate) const RIGHT: Self = Self(1 | 4);
    pub(crate) const LEFT: Self = Self(2 | 8);
    pub(crate) const FENCE: Self = Self(1 | 2);
    pub(crate) const STRICT: Self = Self(4 | 8);
    pub(crate) const PAGES: Self = Self(15);
    pub(crate) const ALL: Self = Self(31);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, bit: usize) -> bool {
        self.0 >> bit & 1 == 1
    }

    /// All that this kernel offers.
    pub(crate) fn configs(self) -> Vec<Config> {
        let mut configs = Vec::new();
        for back_end in lent().filter(|back_end| BackEnds::probe().offers(*back_end)) {
            for (_, (mode, placement)) in PLACES.into_iter().enumerate().filter(|(bit, _)| self.has(*bit)) {
                configs.push(Config { mode, placement, back_end: Some(back_end) });
            }
        }
        if self.has(4) {
            configs.push(Config { mode: Mode::Cookie, placement: Placement::Right, back_end: None });
        }
        configs
    }

    /// Says which back ends this kernel does not offer, and fails where they were required.
    pub(crate) fn skip_the_rest(self, test: &str) {
        if !PLACES.into_iter().enumerate().any(|(bit, _)| self.has(bit)) {
            return;
        }
        skip_what_is_not_offered(test);
    }
}

/// Says which back ends this kernel does not offer; fails where they were required.
pub(crate) fn skip_what_is_not_offered(test: &str) {
    if super::row::is_child() {
        return;
    }
    for back_end in lent() {
        if let Some(refusal) = BackEnds::probe().refusal(back_end) {
            testkit::skip(required_as(back_end), test, &format!("{back_end}: {refusal}"));
        }
    }
}

/// The back ends of this system that make pages untouchable.
pub(crate) fn lent() -> impl Iterator<Item = BackEnd> + Clone {
    let all = BackEnd::ALL.iter().copied();
    all.filter(|back_end| *back_end != BackEnd::Cookies)
}

/// What `STEWARD_REQUIRE` calls it.
fn required_as(back_end: BackEnd) -> &'static str {
    match back_end {
        BackEnd::UserfaultfdMove | BackEnd::UserfaultfdCopy => "uffd",
        BackEnd::GuardMarkers => "guard-markers",
        other => other.name(),
    }
}

impl Config {
    pub(crate) fn name(self) -> String {
        let place = match self.placement {
            Placement::Right => "right",
            Placement::Left => "left",
            _ => "alternate",
        };
        format!("{}.{place}.{}", self.mode, self.back_end.map_or("none", BackEnd::name))
    }

    /// The configuration of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let modes = [Mode::Off, Mode::Sampled, Mode::Cookie, Mode::Fence, Mode::Strict];
        let places = [Placement::Right, Placement::Left, Placement::Alternate];
        let back_ends = lent().map(Some).chain([None]);
        let all = modes.into_iter().flat_map(|mode| places.map(|placement| (mode, placement)));
        let all =
            all.flat_map(|(mode, placement)| back_ends.clone().map(move |back_end| Self { mode, placement, back_end }));
        all.into_iter().find(|config| config.name() == name)
    }

    /// Blocks have pages of their own.
    pub(crate) fn has_pages(self) -> bool {
        !matches!(self.mode, Mode::Off | Mode::Cookie)
    }

    pub(crate) fn is_right(self) -> bool {
        self.placement == Placement::Right
    }
}
