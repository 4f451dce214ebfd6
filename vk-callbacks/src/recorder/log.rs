//! The log: the records of all threads, in an order that agrees with every order that the program can see.
//!
//! Memory is allocated and freed while no lock is held: a full log gets a chunk that was allocated meanwhile.

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
    /// In order; all but the last one are full.
    chunks: TryVec<Chunk, Own>,
    /// Events that found no memory since the last record.
    lost: usize,
}

type Chunk = TryVec<LogRecord, Own>;

/// The records of a chunk: about 32 KiB.
const CHUNK: usize = 32 * 1024 / size_of::<LogRecord>();
/// The chunks that have room in the list at first.
const FIRST_CHUNKS: usize = 32;

impl<'h> Log<'h> {
    pub(super) fn new(memory: Memory<'h>) -> Self {
        // SAFETY: the lifetime alone changes; the list, which nobody copies the memory from, ends before `'h` does.
        let own = unsafe { mem::transmute::<Memory<'h>, Memory<'static>>(memory) };
        Self {
            memory,
            records: StateMutex::new(Records {
                chunks: TryVec::new_in(Scoped::new(own, SCOPE)),
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
            {
                let mut records = self.records.lock();
                let lost_before = records.lost;
                let record = LogRecord {
                    thread,
                    lost_before,
                    what,
                };
                let chunk = records.chunks.last_mut();
                let open = chunk.filter(|chunk| chunk.len() < CHUNK);
                // Within the reserved room.
                if open.is_some_and(|chunk| chunk.try_push(record).is_ok()) {
                    records.lost = 0;
                    return;
                }
            }
            if !self.make_room() {
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
        (0..).map_while(|index: usize| {
            let records = self.records.lock();
            let chunk = records.chunks.get(index / CHUNK)?;
            chunk.get(index % CHUNK).copied()
        })
    }

    /// Another chunk. False without memory.
    #[cold]
    fn make_room(&self) -> bool {
        // If the memory calls a tap again and again, the events of the innermost call are lost.
        let Some(_nested) = enter_growth() else {
            return false;
        };
        let (own, count, has_place) = {
            let records = self.records.lock();
            let count = records.chunks.len();
            (
                *records.chunks.allocator(),
                count,
                count < records.chunks.capacity(),
            )
        };
        let mut chunk = TryVec::new_in(own);
        let mut longer = TryVec::new_in(own);
        // A panic of the memory must not reach the driver.
        let reserved = fenced(|| {
            chunk.try_reserve_exact(CHUNK)?;
            let places = count.saturating_mul(2).max(FIRST_CHUNKS);
            longer.try_reserve_exact(if has_place { 0 } else { places })
        });
        let is_reserved = matches!(reserved, Ok(Ok(())));
        if is_reserved {
            self.records.lock().add(&mut chunk, &mut longer);
        }
        let _ = fenced(|| drop((chunk, longer)));
        is_reserved
    }
}

impl Records {
    /// Adds the chunk, which has its room, unless another thread made room meanwhile. `longer` becomes the list where it has more places.
    fn add(&mut self, chunk: &mut Chunk, longer: &mut TryVec<Chunk, Own>) {
        if self.chunks.last().is_some_and(|last| last.len() < CHUNK) {
            return;
        }
        let own = *self.chunks.allocator();
        let take = |chunk: &mut Chunk| mem::replace(chunk, TryVec::new_in(own));
        if longer.capacity() > self.chunks.capacity() {
            // Within the reserved room, as below: no memory is requested here.
            for chunk in self.chunks.as_mut_slice() {
                let _ = longer.try_push(take(chunk));
            }
            mem::swap(&mut self.chunks, longer);
        }
        if self.chunks.len() < self.chunks.capacity() {
            let _ = self.chunks.try_push(take(chunk));
        }
    }
}

impl Drop for Log<'_> {
    /// Does nothing, but for the compiler, which keeps the memory longer than the log.
    fn drop(&mut self) {}
}
