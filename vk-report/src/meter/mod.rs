//! The client of the meter of the C library's heap. The struct is that of `steward/meter.rs`. Without a preloaded
//! meter, the normal case, these functions do nothing.

mod callbacks;
mod coverage;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, compiler_fence};

use serde::{Deserialize, Serialize};

pub use callbacks::{CountingCallbacks, RequestedBytes};
pub use coverage::CallbackCoverage;

/// The activity of a thread: the cell to which the meter adds its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ThreadActivity {
    /// Unknown: a thread that never issued a command, so the driver's own. Every thread begins so.
    NeverIssued = 0,
    /// The application's own work, outside of commands.
    Application = 1,
    /// A Vulkan command that this thread called.
    InCommand = 2,
    /// A callback that the driver called, on whatever thread.
    InCallback = 3,
}

/// The counts of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct MeteredBytes {
    /// Requests that were granted: malloc and its kin; a reallocation counts as a request for the new size.
    pub calls: u64,
    /// Their requested bytes.
    pub bytes: u64,
    /// Bytes mapped with `mmap`.
    pub mapped: u64,
}

impl MeteredBytes {
    fn less(self, before: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            bytes: self.bytes.saturating_sub(before.bytes),
            mapped: self.mapped.saturating_sub(before.mapped),
        }
    }
}

const CELLS: usize = 4;

/// The four cells, over all threads, those that ended included. Exact when no thread allocates meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cells([MeteredBytes; CELLS]);

impl Cells {
    /// The cell of threads that do this.
    #[must_use]
    pub const fn of(&self, doing: ThreadActivity) -> MeteredBytes {
        let [never, application, command, callback] = self.0;
        match doing {
            ThreadActivity::NeverIssued => never,
            ThreadActivity::Application => application,
            ThreadActivity::InCommand => command,
            ThreadActivity::InCallback => callback,
        }
    }

    /// All four together.
    #[must_use]
    pub fn sum(&self) -> MeteredBytes {
        self.0.iter().fold(MeteredBytes::default(), |sum, cell| MeteredBytes {
            calls: sum.calls.saturating_add(cell.calls),
            bytes: sum.bytes.saturating_add(cell.bytes),
            mapped: sum.mapped.saturating_add(cell.mapped),
        })
    }

    /// What was added since `before` was read.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let (mut now, [a, b, c, d]) = (self.0, before.0);
        for (cell, before) in now.iter_mut().zip([a, b, c, d]) {
            *cell = cell.less(before);
        }
        Self(now)
    }
}

/// As the meter declares it.
#[repr(C)]
struct MeterTable {
    version: u32,
    doing: extern "C" fn() -> *mut u8,
    read: unsafe extern "C" fn(*mut MeteredBytes),
    judge_frees: extern "C" fn(FreeJudge),
}

/// Returns whether the C library must not free or reallocate a block, because it did not allocate it. It is called on
/// any thread, and must not panic.
pub type FreeJudge = extern "C" fn(*mut std::ffi::c_void) -> bool;

fn table() -> Option<&'static MeterTable> {
    // Not a cell of `std`, in which the child of a fork may wait for a thread that it does not have. All lookups find
    // the same.
    static TABLE: AtomicPtr<MeterTable> = AtomicPtr::new(ptr::null_mut());
    static IS_LOOKED_UP: AtomicBool = AtomicBool::new(false);
    if !IS_LOOKED_UP.load(Ordering::Acquire) {
        let found = look_up().map_or(ptr::null(), ptr::from_ref);
        TABLE.store(found.cast_mut(), Ordering::Relaxed);
        IS_LOOKED_UP.store(true, Ordering::Release);
    }
    // SAFETY: null, or what `look_up` answered.
    unsafe { TABLE.load(Ordering::Relaxed).as_ref() }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn look_up() -> Option<&'static MeterTable> {
    const VERSION: u32 = 2;
    let process = libloading::os::unix::Library::this();
    // SAFETY: no other library has this name. Its version is checked before another member is read.
    let table = unsafe { process.get::<*const MeterTable>(c"steward_meter") }.ok()?;
    // SAFETY: a static of a library that was preloaded, and so is never unloaded.
    let table = unsafe { table.into_raw().cast::<MeterTable>().as_ref() }?;
    (table.version == VERSION).then_some(table)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn look_up() -> Option<&'static MeterTable> {
    None
}

/// Whether the meter was preloaded into this process.
#[must_use]
pub fn is_there() -> bool {
    table().is_some()
}

/// The sums of all threads until now; `None` without a meter.
#[must_use]
pub fn read() -> Option<Cells> {
    let table = table()?;
    let mut cells = Cells::default();
    // SAFETY: room for as many cells as version 2 writes.
    unsafe { (table.read)(cells.0.as_mut_ptr()) };
    Some(cells)
}

/// `judge` sees each block that the C library is to free or reallocate within commands, or on threads that never issued
/// one. A block that it rejects is not freed, and its reallocation is refused. False without a meter.
pub fn judge_frees(judge: FreeJudge) -> bool {
    let Some(table) = table() else { return false };
    (table.judge_frees)(judge);
    true
}

/// Counts this thread's allocations outside of commands as the application's. A thread that calls a command need not
/// call this; a thread that does neither counts as the driver's. Within a command or a callback it has no effect.
pub fn this_thread_is_application() {
    let Some(table) = table() else { return };
    let before = set_activity(table, ThreadActivity::Application as u8);
    if before != ThreadActivity::NeverIssued as u8 {
        set_activity(table, before);
    }
}

/// Runs `call`; the thread's allocations meanwhile count in that cell. Calls may nest. A thread that leaves its first
/// command is the application's from then on.
pub fn during<R>(doing: ThreadActivity, call: impl FnOnce() -> R) -> R {
    let Some(table) = table() else { return call() };
    let before = set_activity(table, doing as u8);
    let issued = doing == ThreadActivity::InCommand && before == ThreadActivity::NeverIssued as u8;
    let _back = RestoreActivity { table, before: if issued { ThreadActivity::Application as u8 } else { before } };
    call()
}

struct RestoreActivity {
    table: &'static MeterTable,
    before: u8,
}

impl Drop for RestoreActivity {
    fn drop(&mut self) {
        set_activity(self.table, self.before);
    }
}

fn set_activity(table: &MeterTable, doing: u8) -> u8 {
    let byte = (table.doing)();
    // Compilers, which know that `malloc` does not read this byte, must not move an allocation across the store.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: this thread's own byte, which only it reads and writes, as long as the thread lives.
    let before = unsafe { byte.read_volatile() };
    // SAFETY: this thread's own byte.
    unsafe { byte.write_volatile(doing) };
    compiler_fence(Ordering::SeqCst);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_meter_nothing_is_read_and_calls_run_all_the_same() {
        assert!(!is_there() && read().is_none());
        this_thread_is_application();
        assert_eq!(during(ThreadActivity::InCommand, || during(ThreadActivity::InCallback, || 7)), 7);
    }

    #[test]
    fn what_was_there_before_is_taken_off_cell_by_cell() {
        let taken = |n: u64| MeteredBytes { calls: n, bytes: 10 * n, mapped: 100 * n };
        let (before, now) = (Cells([1, 2, 3, 4].map(taken)), Cells([1, 4, 8, 16].map(taken)));
        let since = now.since(&before);
        let all = [
            ThreadActivity::NeverIssued,
            ThreadActivity::Application,
            ThreadActivity::InCommand,
            ThreadActivity::InCallback,
        ];
        assert_eq!(all.map(|doing| since.of(doing)), [0, 2, 5, 12].map(taken));
    }
}
