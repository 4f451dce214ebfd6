//! The log: a list of chunks that any thread appends to, without a lock.
//!
//! ```text
//!  first --> LogChunk { next, reserved, slots } --> LogChunk { .. } --> null
//!                                                  ^
//!  last -------------------------------------------+   (may lag one behind; the next append moves it on)
//! ```
//!
//! A thread reserves a slot by incrementing `reserved`, writes it, and marks it ready. If the last chunk is full it allocates a new
//! one from the recorder's memory, with no lock held, and links it; the loser of a race frees its chunk. So the order of slots agrees
//! with every order that the program can see: if one append ended before another began, its slot comes first. Chunks stay until the
//! log ends.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::record::{LogEvent, LogRecord};
use crate::command::thread::enter_growth;
use crate::fence::fenced;
use crate::pinned::{Memory, SCOPE};

pub(super) struct Log<'h> {
    memory: Memory<'h>,
    first: AtomicPtr<LogChunk>,
    last: AtomicPtr<LogChunk>,
    /// Events that found no memory since the last record.
    lost: AtomicUsize,
    stopped: AtomicBool,
}

/// Slots a chunk: about 32 KiB.
const SLOTS: usize = (32 * 1024 - 64) / size_of::<LogSlot>();

/// All zeros is a valid, empty chunk.
#[repr(C)]
struct LogChunk {
    next: AtomicPtr<LogChunk>,
    /// Reserved slots; may exceed `SLOTS` a little.
    reserved: AtomicUsize,
    slots: [LogSlot; SLOTS],
}

#[repr(C)]
struct LogSlot {
    ready: AtomicBool,
    record: UnsafeCell<MaybeUninit<LogRecord>>,
}

// SAFETY: `record` is written once, by the thread that reserved the slot, before `ready` is set with release, and read only after
// `ready` was seen with acquire. A `LogRecord` is plain data.
unsafe impl Sync for LogSlot {}

impl<'h> Log<'h> {
    pub(super) const fn new(memory: Memory<'h>) -> Self {
        Self {
            memory,
            first: AtomicPtr::new(ptr::null_mut()),
            last: AtomicPtr::new(ptr::null_mut()),
            lost: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    pub(super) const fn memory(&self) -> Memory<'h> {
        self.memory
    }

    /// Events lost since the last record.
    pub(super) fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records an event of this thread, or counts it as lost.
    pub(super) fn append(&self, what: LogEvent) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let thread = crate::command::thread::thread_number();
        match self.slot() {
            Some(slot) => slot.write(LogRecord {
                thread,
                lost_before: self.reset_lost(),
                what,
            }),
            None => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// From here on nothing is recorded or allocated.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The records in order, up to the first that is not ready.
    pub(super) fn records(&self) -> impl Iterator<Item = LogRecord> {
        let mut chunk = self.first.load(Ordering::Acquire);
        let mut index = 0;
        core::iter::from_fn(move || {
            // SAFETY: null or a chunk of this log, which is borrowed as long as the iterator.
            let mut here = unsafe { chunk.as_ref() }?;
            if index == SLOTS {
                chunk = here.next.load(Ordering::Acquire);
                index = 0;
                // SAFETY: as above.
                here = unsafe { chunk.as_ref() }?;
            }
            let record = here.slots.get(index)?.read()?;
            index = index.saturating_add(1);
            Some(record)
        })
    }

    fn reset_lost(&self) -> usize {
        match self.lost.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.lost.swap(0, Ordering::Relaxed),
        }
    }

    /// A slot for this thread alone; none without memory.
    fn slot(&self) -> Option<&LogSlot> {
        loop {
            let last = self.last.load(Ordering::Acquire);
            // SAFETY: null or a chunk of this log, which stays until the log ends.
            let link = match unsafe { last.as_ref() } {
                None => &self.first,
                Some(chunk) => match chunk.reserve() {
                    Some(slot) => return Some(slot),
                    None => &chunk.next,
                },
            };
            let next = match NonNull::new(link.load(Ordering::Acquire)) {
                Some(next) => next,
                None => self.extend(link)?,
            };
            // A failure means that another thread moved it on; it never moves back.
            let _ = self.last.compare_exchange(
                last,
                next.as_ptr(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Links a new chunk, or returns the one that another thread linked.
    #[cold]
    fn extend(&self, link: &AtomicPtr<LogChunk>) -> Option<NonNull<LogChunk>> {
        // If the memory calls a tap again and again, the events of the innermost call are lost.
        let _nested = enter_growth()?;
        // Zeroed memory is an empty chunk. A panic of the memory must not reach the driver.
        let memory = fenced(|| {
            self.memory
                .allocate_zeroed(Layout::new::<LogChunk>(), SCOPE)
        })
        .ok()?;
        let fresh = memory.ok()?.cast::<LogChunk>();
        match link.compare_exchange(
            ptr::null_mut(),
            fresh.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => Some(fresh),
            Err(other) => {
                // Even after a panic here the chunk is not used: it is freed or leaked.
                // SAFETY: allocated above with this layout and scope, and no other thread has seen it.
                let _ = fenced(|| unsafe {
                    self.memory
                        .deallocate(fresh.cast(), Layout::new::<LogChunk>(), SCOPE)
                });
                NonNull::new(other)
            }
        }
    }
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        let mut next = NonNull::new(*self.first.get_mut());
        while let Some(chunk) = next {
            // SAFETY: a chunk of this log, which is not shared any more.
            next = NonNull::new(unsafe { chunk.as_ref() }.next.load(Ordering::Acquire));
            // SAFETY: allocated from this memory with this layout and scope; nothing points to it any more.
            unsafe {
                self.memory
                    .deallocate(chunk.cast(), Layout::new::<LogChunk>(), SCOPE)
            };
        }
    }
}

impl LogChunk {
    fn reserve(&self) -> Option<&LogSlot> {
        // The load first keeps the counter from growing while there is no memory for another chunk.
        if self.reserved.load(Ordering::Relaxed) >= SLOTS {
            return None;
        }
        self.slots
            .get(self.reserved.fetch_add(1, Ordering::Relaxed))
    }
}

impl LogSlot {
    /// Called once, by the thread that reserved the slot.
    fn write(&self, record: LogRecord) {
        // SAFETY: the cell's memory is valid, and no other thread writes it, or reads it before `ready`.
        unsafe { self.record.get().write(MaybeUninit::new(record)) };
        self.ready.store(true, Ordering::Release);
    }

    fn read(&self) -> Option<LogRecord> {
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: ready: the cell was written and will not be written again.
        let record = unsafe { self.record.get().read() };
        // SAFETY: a whole record was written.
        Some(unsafe { record.assume_init() })
    }
}
