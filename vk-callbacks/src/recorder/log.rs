//! The log: the records of all threads, in an order that agrees with every order that the program can see.
//!
//! Memory is allocated and freed while no lock is held: a full log gets a chunk that was allocated meanwhile.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use core::{mem, ptr};

use alloc_core::support::StateMutex;
use alloc_core::{HostAllocator, Scoped, TryVec};

use super::RecorderState;
use crate::command::thread::{enter_callback, enter_growth, thread_number};
use crate::fence::fenced;
use crate::pinned::{Memory, SCOPE};
use crate::raw::{RawCallbacks, RawNotice, RawRequest};
use crate::sink::CallbackSink;
use crate::trace::{Caller, Pointer, Sighting, TraceEvent};

pub(super) struct Log<'h> {
    memory: Memory<'h>,
    records: StateMutex<Records>,
    stopped: AtomicBool,
}

/// Behind a lock the lifetime of the memory would make every recorder invariant.
type Own = Scoped<&'static (dyn HostAllocator + Sync)>;

struct Records {
    /// In order; all but the last one are full.
    chunks: TryVec<Chunk, Own>,
    lost: usize,
}

type Chunk = TryVec<LogRecord, Own>;

const CHUNK: usize = 32 * 1024 / size_of::<LogRecord>();
const FIRST_CHUNKS: usize = 32;

impl<'h> Log<'h> {
    pub(super) fn new(memory: Memory<'h>) -> Self {
        // SAFETY: the lifetime alone changes; the list, which nobody copies the memory from, ends before `'h` does.
        let own = unsafe { mem::transmute::<Memory<'h>, Memory<'static>>(memory) };
        Self {
            memory,
            records: StateMutex::new(Records { chunks: TryVec::new_in(Scoped::new(own, SCOPE)), lost: 0 }),
            stopped: AtomicBool::new(false),
        }
    }

    pub(super) const fn memory(&self) -> Memory<'h> {
        self.memory
    }

    pub(super) fn lost(&self) -> usize {
        self.records.lock().lost
    }

    pub(super) fn append(&self, event: TraceEvent<'static>) {
        self.append_move(event, 0);
    }

    fn append_move(&self, event: TraceEvent<'static>, ticket: usize) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        loop {
            {
                let mut records = self.records.lock();
                let lost_before = records.lost;
                let record = LogRecord { event, lost_before, ticket };
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

    pub(super) fn records(&self) -> impl Iterator<Item = LogRecord> {
        (0..).map_while(|index: usize| {
            let records = self.records.lock();
            let chunk = records.chunks.get(index / CHUNK)?;
            chunk.get(index % CHUNK).copied()
        })
    }

    #[cold]
    fn make_room(&self) -> bool {
        // The events of the innermost call are lost.
        let Some(_nested) = enter_growth() else {
            return false;
        };
        let (own, count, has_place) = {
            let records = self.records.lock();
            let count = records.chunks.len();
            (*records.chunks.allocator(), count, count < records.chunks.capacity())
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
        // Each alone: a second panic while one unwinds ends the process.
        let _ = fenced(|| drop(chunk));
        let _ = fenced(|| drop(longer));
        is_reserved
    }
}

impl Records {
    /// `longer` becomes the list where it has more places.
    fn add(&mut self, chunk: &mut Chunk, longer: &mut TryVec<Chunk, Own>) {
        if self.chunks.last().is_some_and(|last| last.len() < CHUNK) {
            return;
        }
        let own = *self.chunks.allocator();
        let take = |chunk: &mut Chunk| mem::replace(chunk, TryVec::new_in(own));
        if longer.capacity() > self.chunks.capacity() {
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
    /// Each chunk alone: a second panic while one unwinds ends the process.
    fn drop(&mut self) {
        let records = self.records.get_mut();
        while let Some(chunk) = records.chunks.pop() {
            let _ = fenced(|| drop(chunk));
        }
    }
}

/// Each pointer in it is NULL, or its address as an unknown one: nothing is accessed through it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRecord {
    pub(super) event: TraceEvent<'static>,
    pub(super) lost_before: usize,
    /// Connects the end of a reallocation with its beginning.
    pub(super) ticket: usize,
}

pub(super) fn by(owner: u64) -> Caller {
    Caller { thread: thread_number(), owner }
}

fn address(block: *mut c_void) -> Pointer {
    match block.addr() {
        0 => Pointer::Null,
        at => Pointer::Unknown(at as u64),
    }
}

/// Callbacks of [`Recorder::tap`](crate::Recorder::tap), to pass to Vulkan instead of the inner ones.
///
/// A copy is as good as the original. Valid until the recorder ends.
#[derive(Clone, Copy, Debug)]
pub struct Tap {
    raw: RawCallbacks,
}

impl Tap {
    /// The C struct. A function that was NULL in the original is NULL here; the two notifications are always there.
    #[must_use]
    pub const fn raw(&self) -> &RawCallbacks {
        &self.raw
    }
}

/// It lies in the recorder's memory until the recorder ends.
pub(super) struct TapState<'h> {
    pub(super) shared: *const RecorderState<'h>,
    pub(super) inner: RawCallbacks,
    pub(super) owner: u64,
    pub(super) live: AtomicIsize,
}

impl<'h> TapState<'h> {
    pub(super) fn tap(&self) -> Tap {
        let all = RawCallbacks::of_sink::<Self>(ptr::from_ref(self).cast_mut().cast());
        Tap {
            raw: RawCallbacks {
                pfn_internal_allocation: all.pfn_internal_allocation,
                pfn_internal_free: all.pfn_internal_free,
                ..all.only_those_of(&self.inner)
            },
        }
    }

    fn shared(&self) -> &RecorderState<'h> {
        // SAFETY: the shared part lives as long as a tap may be called: both end with the recorder.
        unsafe { &*self.shared }
    }

    fn record(&self, event: TraceEvent<'static>) {
        self.shared().log.append(event);
    }

    fn answered(&self, blocks: isize) {
        self.live.fetch_add(blocks, Ordering::Relaxed);
    }

    fn check_alignment(&self, block: *mut c_void, align: usize) {
        if align.is_power_of_two() && !block.addr().is_multiple_of(align) {
            self.record(TraceEvent::Seen { by: by(self.owner), block: address(block), what: Sighting::Misaligned });
        }
    }
}

impl CallbackSink for TapState<'_> {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        let _inside = enter_callback();
        // SAFETY: the same call, with the user data of these callbacks.
        let block = unsafe { self.inner.allocation(request) };
        if !block.is_null() {
            self.answered(1);
        }
        self.record(TraceEvent::Allocate { by: by(self.owner), block: address(block), asked: request.into() });
        self.check_alignment(block, request.align);
        block
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let _inside = enter_callback();
        let (by, old) = (by(self.owner), address(original));
        let ticket = self.shared().next_ticket();
        let log = &self.shared().log;
        log.append_move(TraceEvent::ReallocateBegin { by, old }, ticket);
        // SAFETY: the same call, with the user data of these callbacks.
        let block = unsafe { self.inner.reallocation(original, request) };
        // The old block was freed if it moved into the new one, or size 0 freed it (V14).
        let came = isize::from(!block.is_null());
        let went = isize::from(!original.is_null() && (request.size == 0 || !block.is_null()));
        self.answered(came.saturating_sub(went));
        let moved = TraceEvent::Reallocate { by, old, new: address(block), asked: request.into() };
        log.append_move(moved, ticket);
        // Of a reallocated block, the alignment may differ from the original request (V15).
        if original.is_null() {
            self.check_alignment(block, request.align);
        }
        block
    }

    unsafe fn free(&self, block: *mut c_void) {
        let _inside = enter_callback();
        if !block.is_null() {
            self.answered(-1);
        }
        self.record(TraceEvent::Free { by: by(self.owner), block: address(block) });
        // SAFETY: the same call, with the user data of these callbacks.
        unsafe { self.inner.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        let _inside = enter_callback();
        self.record(TraceEvent::Notice {
            by: by(self.owner),
            event: notice.event,
            size: notice.size as u64,
            kind: notice.kind,
            scope: notice.scope,
        });
        // SAFETY: the same call, with the user data of these callbacks.
        unsafe { self.inner.notification(notice) }
    }
}
