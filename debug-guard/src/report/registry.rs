//! The table of living guards, for the signal handler and for blocks of other guards.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::block::{Accused, Known, SiteId};
use crate::call_sites::CommandMark;
use crate::call_sites::SiteView;
use crate::mode::BackEnd;
use crate::os;
use crate::report::OnReport;

/// What reports ask of a guard. All but [`at_exit`](Self::at_exit) is async-signal-safe and takes no lock that an allocation may hold.
pub(crate) trait ReportingGuard: Sync {
    /// As [`GuardOptions::name`](crate::GuardOptions::name) said.
    fn name(&self) -> &'static str;
    /// As [`Fault::owner`](crate::block::GuardFinding::owner) tells it.
    fn number(&self) -> u64;
    /// What its pages are made untouchable with.
    fn back_end(&self) -> BackEnd;
    fn on_report(&self) -> OnReport;
    /// Where reports are written to.
    fn report_to(&self) -> i32;
    /// Whether a line of JSON is written behind each text.
    fn json(&self) -> bool;
    /// The number that its next allocation will have, or one near it.
    fn clock(&self) -> u64;
    fn site(&self, id: SiteId) -> Option<SiteView<'_>>;
    /// The command that the present thread is in.
    fn command(&self) -> Option<CommandMark>;
    /// True for addresses that the guard reserved: a fault there is this guard's to report.
    fn covers(&self, address: usize) -> bool;
    /// What is wrong with an access to an address that it covers.
    fn accused(&self, address: usize) -> Accused;
    /// Makes an address that it covers accessible, so that a stopped access continues. False if it cannot.
    fn land(&self, address: usize) -> bool;
    /// The block that begins at `address`, if this guard made it.
    fn claims(&self, address: usize) -> Option<Known>;
    /// Writes the leak list at the end of the process, if the options request it. The process's exit code, if that is to be another.
    fn at_exit(&self) -> Option<i32>;
    /// Hears that a report was made, or (`lost`) that one had to be left out.
    fn reported(&self, lost: bool);
}

/// Where a guard is: stands, pinned, beside it, since a fat pointer fits no atomic.
pub(crate) struct GuardEntry(*const dyn ReportingGuard);

// SAFETY: a guard is `Sync`, and the pointer is only ever read through.
unsafe impl Sync for GuardEntry {}
// SAFETY: as above.
unsafe impl Send for GuardEntry {}

impl GuardEntry {
    pub(crate) const fn new(guard: *const dyn ReportingGuard) -> Self {
        Self(guard)
    }
}

/// A place in the registry, for as long as a guard lives.
#[derive(Debug)]
#[must_use = "a guard that goes must leave its seat first"]
pub(crate) struct SeatId(usize);

struct GuardSeat {
    /// Null while the entry is free.
    entry: AtomicPtr<GuardEntry>,
    /// How many look at it right now.
    readers: AtomicUsize,
}

/// Places for `N` guards.
pub(super) struct GuardRegistry<const N: usize>([GuardSeat; N]);

/// The process's guards.
static SEATS: GuardRegistry<256> = GuardRegistry::new();

/// How often a closing guard checks for the last reader before it gives up: about a second.
const PATIENCE: usize = 10_000;

/// Registers the guard of `entry`. `None` if the table is full.
///
/// # Safety
/// `entry` and the guard it names stay valid and where they are until [`leave`] answered true for the seat.
pub(crate) unsafe fn enter(entry: *const GuardEntry) -> Option<SeatId> {
    // SAFETY: the caller's promise.
    unsafe { SEATS.enter(entry) }
}

/// From now on the guard is not asked any more. False where somebody who looked at it does not come back (a thread that a fork left
/// behind, a report's function that closes the guard): its memory must then stay.
#[must_use]
pub(crate) fn leave(seat: &SeatId) -> bool {
    SEATS.leave(seat, PATIENCE)
}

/// Asks one guard after the other until one gives an answer. Async-signal-safe.
pub(crate) fn query<R>(question: impl FnMut(&dyn ReportingGuard) -> Option<R>) -> Option<R> {
    SEATS.query(question)
}

impl<const N: usize> GuardRegistry<N> {
    pub(super) const fn new() -> Self {
        Self(
            [const {
                GuardSeat {
                    entry: AtomicPtr::new(null_mut()),
                    readers: AtomicUsize::new(0),
                }
            }; N],
        )
    }

    /// # Safety
    /// As [`enter`].
    pub(super) unsafe fn enter(&self, entry: *const GuardEntry) -> Option<SeatId> {
        let sits = |seat: &GuardSeat| {
            seat.entry
                .compare_exchange(
                    null_mut(),
                    entry.cast_mut(),
                    Ordering::SeqCst,
                    Ordering::Relaxed,
                )
                .is_ok()
        };
        self.0.iter().position(sits).map(SeatId)
    }

    pub(super) fn leave(&self, seat: &SeatId, patience: usize) -> bool {
        let Some(seat) = self.0.get(seat.0) else {
            return false;
        };
        seat.entry.store(null_mut(), Ordering::SeqCst);
        (0..patience).any(|_| {
            let alone = seat.readers.load(Ordering::SeqCst) == 0;
            if !alone {
                os::pause();
            }
            alone
        })
    }

    pub(super) fn query<R>(
        &self,
        mut question: impl FnMut(&dyn ReportingGuard) -> Option<R>,
    ) -> Option<R> {
        self.0.iter().find_map(|seat| {
            if seat.entry.load(Ordering::Relaxed).is_null() {
                return None;
            }
            seat.readers.fetch_add(1, Ordering::SeqCst);
            let _read = Read(seat);
            let entry = seat.entry.load(Ordering::SeqCst);
            // SAFETY: where it is not null, this reader was counted before it could be taken away: whoever does that waits.
            let entry = unsafe { entry.as_ref() }?;
            // SAFETY: as its entry, the guard stays while somebody reads.
            question(unsafe { &*entry.0 })
        })
    }
}

/// Counts a reader out, also where a question unwinds.
struct Read<'a>(&'a GuardSeat);

impl Drop for Read<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::SeqCst);
    }
}
