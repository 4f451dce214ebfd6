//! The log: the records of all threads, in an order that agrees with every order that the program can see.
//!
//! Memory is allocated and freed while no lock is held: a full log is moved into room that was allocated meanwhile.

use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};

use alloc_core::support::StateMutex;
use alloc_core::{HostAllocator, Scoped, TryVec};

use super::record::{LogEvent, LogRecord};
use crate::command::thread::enter_growth;
use crate::fence::fenced;
use crate::pinned::{Memory, SCOPE};

pub(super) struct Log<'h> {
    memory: Memory<'h>,
    records: StateMutex<Records>,
    stopped: AtomicBool,
}

/// The lifetime of the memory is that of the log, which has it: behind a lock it would make every recorder invariant.
type Own = Scoped<&'static (dyn HostAllocator + Sync)>;

struct Records {
    list: TryVec<LogRecord, Own>,
    /// Events that found no memory since the last record.
    lost: usize,
}

/// The records that have room at first: about 32 KiB.
const FIRST_RECORDS: usize = 32 * 1024 / size_of::<LogRecord>();

impl<'h> Log<'h> {
    pub(super) fn new(memory: Memory<'h>) -> Self {
        // SAFETY: the lifetime alone changes; the list, which nobody copies the memory from, ends before `'h` does.
        let own = unsafe { mem::transmute::<Memory<'h>, Memory<'static>>(memory) };
        Self {
            memory,
            records: StateMutex::new(Records {
                list: TryVec::new_in(Scoped::new(own, SCOPE)),
                lost: 0,
            }),
            stopped: AtomicBool::new(false),
        }
    }

    pub(super) const fn memory(&self) -> Memory<'h> {
        self.memory
    }

    /// Events lost since the last record.
    pub(super) fn lost(&self) -> usize {
        self.records.lock().lost
    }

    /// Records an event of this thread, or counts it as lost.
    pub(super) fn append(&self, what: LogEvent) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let thread = crate::command::thread::thread_number();
        loop {
            let full = {
                let mut records = self.records.lock();
                let record = LogRecord {
                    thread,
                    lost_before: records.lost,
                    what,
                };
                if records.has_room() && records.list.try_push(record).is_ok() {
                    records.lost = 0;
                    return;
                }
                records.list.len()
            };
            if !self.make_room(full) {
                let mut records = self.records.lock();
                records.lost = records.lost.saturating_add(1);
                return;
            }
        }
    }

    /// From here on nothing is recorded or allocated.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The records in order.
    pub(super) fn records(&self) -> impl Iterator<Item = LogRecord> {
        (0..).map_while(|index: usize| self.records.lock().list.get(index).copied())
    }

    /// Room for more than `full` records, twice as many. False without memory.
    #[cold]
    fn make_room(&self, full: usize) -> bool {
        // If the memory calls a tap again and again, the events of the innermost call are lost.
        let Some(_nested) = enter_growth() else {
            return false;
        };
        let mut fresh = TryVec::new_in(*self.records.lock().list.allocator());
        let room = full.saturating_mul(2).max(FIRST_RECORDS);
        // A panic of the memory must not reach the driver.
        if !matches!(fenced(|| fresh.try_reserve_exact(room)), Ok(Ok(()))) {
            return false;
        }
        let mut records = self.records.lock();
        // Another thread may have made room meanwhile, or used more.
        if !records.has_room() && records.list.len() < room {
            // Within the reserved room: no memory is requested here.
            let _ = fresh.try_extend_from_slice(&records.list);
            mem::swap(&mut records.list, &mut fresh);
        }
        drop(records);
        let _ = fenced(|| drop(fresh));
        true
    }
}

impl Records {
    fn has_room(&self) -> bool {
        self.list.len() < self.list.capacity()
    }
}

impl Drop for Log<'_> {
    /// Does nothing, but for the compiler, which keeps the memory longer than the log.
    fn drop(&mut self) {}
}
