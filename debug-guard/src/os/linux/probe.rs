//! Each back end tried on a few pages.

use super::lock::STATE;
use super::memory::readable;
use super::{Region, page_size};
use crate::mode::BackEnd;
use crate::os::{OsRefusal, Pages};

/// The refusals, in the order of `BackEnd::ALL`.
pub(crate) fn probe() -> [Option<OsRefusal>; 4] {
    if let Some(known) = STATE.with(|state| state.refusals) {
        return known;
    }
    let found = [
        BackEnd::UserfaultfdMove,
        BackEnd::UserfaultfdCopy,
        BackEnd::GuardMarkers,
        BackEnd::Mprotect,
    ]
    .map(|b| attempt(b).err());
    STATE.with(|state| *state.refusals.get_or_insert(found))
}

/// Tries a page: inaccessible, provided, written, moved or revoked, and inaccessible again.
fn attempt(back_end: BackEnd) -> Result<(), OsRefusal> {
    let ineffective = Err(OsRefusal::Ineffective {
        call: back_end.name(),
    });
    let region = Region::reserve(back_end, 4)?;
    let [from, to] = [region.address_of(1), region.address_of(2)];
    region.provide_zeroed(1, 1)?;
    let word = core::ptr::with_exposed_provenance_mut::<u64>(from);
    if !readable(from) || readable(to) || readable(region.base()) || readable(from + page_size()) {
        return ineffective;
    }
    // SAFETY: provided above, found readable, and not shared.
    unsafe { word.write_volatile(0x5A) };
    if back_end == BackEnd::UserfaultfdMove {
        // SAFETY: the pages are not shared.
        let moved = unsafe { region.pass_on(1, 2) }?;
        if !moved || readable(from) || !readable(to) {
            return ineffective;
        }
        return Ok(());
    }
    // SAFETY: the page is no longer used.
    unsafe { region.revoke(1, 1) }?;
    if readable(from) { ineffective } else { Ok(()) }
}
