use super::{OsRefusal, Region, system};
use crate::mode::BackEnd;
use crate::os::lock::{Abandoned, ForkSafeMutex};

/// Which back ends this process can use, found by trying each, once.
#[derive(Clone, Copy, Debug)]
pub struct BackEnds {
    refusals: [Option<OsRefusal>; system::BACK_ENDS.len()],
}

static PROBED: ForkSafeMutex<Probed> = ForkSafeMutex::new(Probed(None));

struct Probed(Option<BackEnds>);

impl BackEnd {
    /// The back ends of this system, the best first.
    pub const ALL: &'static [Self] = &system::BACK_ENDS;
}

impl Abandoned for Probed {
    fn abandoned(&mut self) {
        self.0 = None;
    }
}

impl BackEnds {
    /// Tries the back ends, or returns the first result. Allocates only a few pages for a moment, and keeps one
    /// descriptor open if userfaultfd is offered.
    #[must_use]
    pub fn probe() -> Self {
        let known = PROBED.lock().0;
        known.unwrap_or_else(|| {
            let refusals = system::BACK_ENDS.map(|back_end| attempt(back_end).err());
            *PROBED.lock().0.get_or_insert(Self { refusals })
        })
    }

    pub(crate) fn refusals(self) -> impl Iterator<Item = (BackEnd, OsRefusal)> {
        system::BACK_ENDS.into_iter().filter_map(move |back_end| Some((back_end, self.refusal(back_end)?)))
    }

    /// The best back end that is offered.
    #[must_use]
    pub fn best(&self) -> BackEnd {
        system::BACK_ENDS.into_iter().find(|&back_end| self.offers(back_end)).unwrap_or(BackEnd::Cookies)
    }

    /// True if the back end can be used.
    #[must_use]
    pub fn offers(&self, back_end: BackEnd) -> bool {
        self.refusal(back_end).is_none()
    }

    /// Why the back end cannot be used; `None` if it can.
    #[must_use]
    pub fn refusal(&self, back_end: BackEnd) -> Option<OsRefusal> {
        let mut all = system::BACK_ENDS.into_iter().zip(self.refusals);
        let of_this_system = all.find(|(other, _)| *other == back_end);
        of_this_system.map_or(Some(OsRefusal::Unavailable), |(_, refusal)| refusal)
    }
}

fn attempt(back_end: BackEnd) -> Result<(), OsRefusal> {
    if back_end == BackEnd::Cookies {
        return Ok(());
    }
    let calls = system::page_calls(back_end).ok_or(OsRefusal::Unavailable)?;
    let ineffective = Err(OsRefusal::Ineffective { call: back_end.name() });
    let region = Region::reserve(calls, 4)?;
    let [from, to] = [region.address_of(1), region.address_of(2)];
    // SAFETY: a page of this region, which nothing else uses.
    unsafe { region.provide(1, 1, None) }?;
    let word = core::ptr::with_exposed_provenance_mut::<u64>(from);
    if !system::readable(from)
        || system::readable(to)
        || system::readable(region.base())
        || system::readable(from + region.page_bytes())
    {
        return ineffective;
    }
    // SAFETY: provided above, found readable, and not shared.
    unsafe { word.write_volatile(0x5A) };
    if back_end == BackEnd::UserfaultfdMove {
        // SAFETY: the pages are not shared.
        let moved = unsafe { region.pass_on(1, 2) }?;
        if !moved || system::readable(from) || !system::readable(to) {
            return ineffective;
        }
        return Ok(());
    }
    // SAFETY: the page is no longer used.
    unsafe { region.revoke(1, 1) }?;
    if system::readable(from) { ineffective } else { Ok(()) }
}
