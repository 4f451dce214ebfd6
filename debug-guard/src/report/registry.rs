use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::block::{Known, SiteId, StoppedAccess};
use crate::call_sites::{CommandMark, SiteView};
use crate::mode::BackEnd;
use crate::os;
use crate::report::OnReport;

/// All but [`at_exit`](Self::at_exit) is async-signal-safe.
pub(crate) trait ReportingGuard: Sync {
    fn name(&self) -> &'static str;
    fn number(&self) -> u64;
    fn back_end(&self) -> BackEnd;
    fn on_report(&self) -> OnReport;
    fn report_to(&self) -> i32;
    fn json(&self) -> bool;
    /// Approximately the number of its next allocation.
    fn clock(&self) -> u64;
    fn site(&self, id: SiteId) -> Option<SiteView<'_>>;
    fn command(&self) -> Option<CommandMark>;
    /// A fault at an address that the guard covers is this guard's to report.
    fn covers(&self, address: usize) -> bool;
    fn classify_access(&self, address: usize) -> StoppedAccess;
    /// False if a stopped access cannot continue.
    fn land(&self, address: usize) -> bool;
    fn claims(&self, address: usize) -> Option<Known>;
    /// The exit code, if that is to be another.
    fn at_exit(&self) -> Option<i32>;
    /// `lost`: the report could not be written.
    fn reported(&self, lost: bool);
}

/// The pointer is fat, so it fits no atomic.
pub(crate) struct GuardEntry(*const dyn ReportingGuard);

// SAFETY: a guard is `Sync`, and the pointer is only read through.
unsafe impl Sync for GuardEntry {}
// SAFETY: a guard is `Sync`, and the pointer is only read through.
unsafe impl Send for GuardEntry {}

impl GuardEntry {
    pub(crate) const fn new(guard: *const dyn ReportingGuard) -> Self {
        Self(guard)
    }
}

#[derive(Debug)]
#[must_use = "a guard that goes must leave its slot first"]
pub(crate) struct GuardSlotId(usize);

struct GuardSlot {
    /// Null while free.
    entry: AtomicPtr<GuardEntry>,
    readers: AtomicUsize,
}

pub(crate) struct GuardRegistry<const N: usize>([GuardSlot; N]);

pub(crate) static REGISTRY: GuardRegistry<256> = GuardRegistry::new();

impl<const N: usize> GuardRegistry<N> {
    pub(super) const fn new() -> Self {
        Self([const { GuardSlot { entry: AtomicPtr::new(null_mut()), readers: AtomicUsize::new(0) } }; N])
    }

    /// # Safety
    /// `entry` and its guard stay valid and in place until [`leave`](Self::leave) returned true for the slot.
    pub(crate) unsafe fn enter(&self, entry: *const GuardEntry) -> Option<GuardSlotId> {
        let sits = |slot: &GuardSlot| {
            slot.entry.compare_exchange(null_mut(), entry.cast_mut(), Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        self.0.iter().position(sits).map(GuardSlotId)
    }

    /// False if a reader does not finish in time (a thread that a fork left behind, a report's function that closes the guard):
    /// the guard's memory must stay then.
    #[must_use]
    pub(crate) fn leave(&self, slot: &GuardSlotId) -> bool {
        let Some(slot) = self.0.get(slot.0) else {
            return false;
        };
        slot.entry.store(null_mut(), Ordering::SeqCst);
        os::wait_for(|| (slot.readers.load(Ordering::SeqCst) == 0).then_some(())).is_some()
    }

    /// Stops when one guard's answer is `Some`. Async-signal-safe.
    pub(crate) fn query<R>(&self, mut question: impl FnMut(&dyn ReportingGuard) -> Option<R>) -> Option<R> {
        self.0.iter().find_map(|slot| {
            if slot.entry.load(Ordering::Relaxed).is_null() {
                return None;
            }
            slot.readers.fetch_add(1, Ordering::SeqCst);
            let _read = Read(slot);
            let entry = slot.entry.load(Ordering::SeqCst);
            // SAFETY: the contract of `enter`; this reader was counted before the removal.
            let entry = unsafe { entry.as_ref() }?;
            // SAFETY: the guard stays while its entry has readers.
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
