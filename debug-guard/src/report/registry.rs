//! The table of living guards, for the signal handler and for blocks of other guards.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::block::{Accused, Known, SiteId};
use crate::call_sites::CommandMark;
use crate::call_sites::SiteView;
use crate::mode::BackEnd;
use crate::os;
use crate::report::OnReport;

/// A guard as reports use it. All but [`at_exit`](Self::at_exit) is async-signal-safe and acquires no lock that an allocation may hold.
pub(crate) trait ReportingGuard: Sync {
    /// The name of [`GuardOptions::name`](crate::GuardOptions::name).
    fn name(&self) -> &'static str;
    /// The number in [`GuardFinding::owner`](crate::block::GuardFinding::owner).
    fn number(&self) -> u64;
    /// The back end of its pages.
    fn back_end(&self) -> BackEnd;
    fn on_report(&self) -> OnReport;
    /// The descriptor for reports.
    fn report_to(&self) -> i32;
    /// Whether a line of JSON follows each text.
    fn json(&self) -> bool;
    /// The number of its next allocation, approximately.
    fn clock(&self) -> u64;
    fn site(&self, id: SiteId) -> Option<SiteView<'_>>;
    /// The command that the calling thread is in.
    fn command(&self) -> Option<CommandMark>;
    /// True for addresses that the guard reserved: a fault there is this guard's to report.
    fn covers(&self, address: usize) -> bool;
    /// Classifies an access to an address that it covers.
    fn accused(&self, address: usize) -> Accused;
    /// Makes an address that it covers accessible, so that a stopped access continues. False if it cannot.
    fn land(&self, address: usize) -> bool;
    /// The block of this guard that begins at `address`, live or freed.
    fn claims(&self, address: usize) -> Option<Known>;
    /// Writes the leak list at the end of the process, if the options request it. The process's exit code, if that is to be another.
    fn at_exit(&self) -> Option<i32>;
    /// Counts a report, or (`lost`) one that could not be written.
    fn reported(&self, lost: bool);
}

/// A pinned pointer to a guard: a fat pointer fits no atomic.
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

/// A guard's slot in the registry.
#[derive(Debug)]
#[must_use = "a guard that goes must leave its slot first"]
pub(crate) struct GuardSlotId(usize);

struct GuardSlot {
    /// Null while the entry is free.
    entry: AtomicPtr<GuardEntry>,
    /// Number of readers at this moment.
    readers: AtomicUsize,
}

/// Slots for `N` guards.
pub(super) struct GuardRegistry<const N: usize>([GuardSlot; N]);

/// The process's guards.
static REGISTRY: GuardRegistry<256> = GuardRegistry::new();

/// How often a closing guard checks for the last reader before it gives up: about a second.
const PATIENCE: usize = 10_000;

/// Registers the guard of `entry`. `None` if the table is full.
///
/// # Safety
/// `entry` and the guard it names stay valid and where they are until [`leave`] answered true for the slot.
pub(crate) unsafe fn enter(entry: *const GuardEntry) -> Option<GuardSlotId> {
    // SAFETY: the caller's promise.
    unsafe { REGISTRY.enter(entry) }
}

/// Removes the guard. False if a reader does not finish (a thread that a fork left behind, a report's function that closes the guard):
/// then the guard's memory must stay.
#[must_use]
pub(crate) fn leave(slot: &GuardSlotId) -> bool {
    REGISTRY.leave(slot, PATIENCE)
}

/// Calls `question` for one guard after the other, until one returns `Some`. Async-signal-safe.
pub(crate) fn query<R>(question: impl FnMut(&dyn ReportingGuard) -> Option<R>) -> Option<R> {
    REGISTRY.query(question)
}

impl<const N: usize> GuardRegistry<N> {
    pub(super) const fn new() -> Self {
        Self(
            [const {
                GuardSlot {
                    entry: AtomicPtr::new(null_mut()),
                    readers: AtomicUsize::new(0),
                }
            }; N],
        )
    }

    /// # Safety
    /// As [`enter`].
    pub(super) unsafe fn enter(&self, entry: *const GuardEntry) -> Option<GuardSlotId> {
        let sits = |slot: &GuardSlot| {
            slot.entry
                .compare_exchange(
                    null_mut(),
                    entry.cast_mut(),
                    Ordering::SeqCst,
                    Ordering::Relaxed,
                )
                .is_ok()
        };
        self.0.iter().position(sits).map(GuardSlotId)
    }

    pub(super) fn leave(&self, slot: &GuardSlotId, patience: usize) -> bool {
        let Some(slot) = self.0.get(slot.0) else {
            return false;
        };
        slot.entry.store(null_mut(), Ordering::SeqCst);
        (0..patience).any(|_| {
            let alone = slot.readers.load(Ordering::SeqCst) == 0;
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
        self.0.iter().find_map(|slot| {
            if slot.entry.load(Ordering::Relaxed).is_null() {
                return None;
            }
            slot.readers.fetch_add(1, Ordering::SeqCst);
            let _read = Read(slot);
            let entry = slot.entry.load(Ordering::SeqCst);
            // SAFETY: if it is not null, this reader was counted before the entry could be removed, and its removal waits.
            let entry = unsafe { entry.as_ref() }?;
            // SAFETY: as its entry, the guard stays while it has readers.
            question(unsafe { &*entry.0 })
        })
    }
}

/// Uncounts a reader, also if a question unwinds.
struct Read<'a>(&'a GuardSlot);

impl Drop for Read<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::SeqCst);
    }
}
