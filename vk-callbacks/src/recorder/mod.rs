//! The recorder: callbacks around callbacks, and a log of their calls.
//!
//! ```text
//!  driver --> Tap --> the application's own callbacks
//!              |
//!              +--> Log (records with addresses) --write--> Names --> trace format 2 (numbers)
//! ```

mod log;
mod names;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

use alloc_core::support::watch_forks;
use alloc_core::{HostAllocator, Rejected, Scoped};

use crate::command::thread::is_busy;
use crate::error::{CallbackError, CallbacksInUse};
use crate::pinned::{PinnedList, SCOPE, allocate_pinned, free_pinned};
use crate::raw::RawCallbacks;
use crate::trace::{Pointer, Sighting, TraceEvent, TraceWriter};
pub use log::Tap;
use log::{Log, TapState, by};
use names::Names;

/// A recorder of all calls of any callbacks, which writes a trace of format 2.
///
/// Calls pass unchanged on the driver's threads. The log lies in the memory of [`Recorder::new`], 100 to 200 bytes a
/// call; if that is refused, the event is counted as lost, and the trace says so.
///
/// A block should pass one tap only: two taps of one recorder record each call twice.
///
/// ```
/// use std::alloc::System;
/// use alloc_core::FromGlobalAlloc;
/// use vk_callbacks::{Recorder, TraceReader};
///
/// let memory = FromGlobalAlloc::SYSTEM;
/// let recorder = Recorder::new(&memory)?;
/// recorder.owner(1, 0, "VkInstance");
/// recorder.enter("vkCreateInstance");
/// // .. here the driver is called, with the callbacks of a tap ..
/// recorder.leave(0);
/// let mut trace = String::new();
/// let written = recorder.write("an example", &mut trace)?;
/// assert_eq!((written.events, written.lost), (3, 0));
/// assert_eq!(TraceReader::new(&trace)?.count(), 3);
/// recorder.close().map_err(|rejected| rejected.to_string())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder<'h> {
    /// Owned.
    shared: NonNull<RecorderState<'h>>,
}

// SAFETY: only shared references reach the shared part, which is `Sync`.
unsafe impl Send for Recorder<'_> {}
// SAFETY: only shared references reach the shared part, which is `Sync`.
unsafe impl Sync for Recorder<'_> {}

/// It is pinned in the recorder's memory.
struct RecorderState<'h> {
    log: Log<'h>,
    tickets: AtomicUsize,
    taps: PinnedList<'h, TapState<'h>>,
}

/// The result of [`Recorder::write`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Lines, header and end marker included.
    pub lines: u64,
    /// Recorded events.
    pub events: u64,
    /// Events that were lost for lack of memory.
    pub lost: u64,
}

impl<'h> Recorder<'h> {
    /// A recorder with an empty log in `memory`.
    ///
    /// `memory` must not come from callbacks that this recorder taps: it would record itself without end.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn new(memory: &'h (dyn HostAllocator + Sync)) -> Result<Self, CallbackError> {
        watch_forks();
        let shared = allocate_pinned(
            memory,
            RecorderState { log: Log::new(memory), tickets: AtomicUsize::new(0), taps: PinnedList::new(memory) },
        )?;
        Ok(Self { shared })
    }

    /// Returns callbacks that record each call as the owner's and pass it on to `inner`.
    ///
    /// The caller chooses the number of the owner, from 1; [`Recorder::owner`] declares it in the trace.
    ///
    /// # Errors
    /// The refusal of the recorder's memory.
    ///
    /// # Safety
    /// - The functions of `inner` may be called with its user data, from any thread, as long as those of the tap may.
    /// - No function of the tap is called after the recorder was closed or dropped. (A recorder that is dropped while
    ///   blocks are live is leaked: then until the recorder's memory ends.)
    pub unsafe fn tap(&self, owner: u64, inner: RawCallbacks) -> Result<Tap, CallbackError> {
        let shared = self.shared();
        let state = shared.taps.push(|| TapState { shared, inner, owner, live: AtomicIsize::new(0) })?;
        Sighting::missing_fact(&inner).for_each(|what| self.seen(owner, what));
        Ok(state.tap())
    }

    /// Declares that `owner` is a `kind` (`VkBuffer`) below `parent`, 0 for none.
    pub fn owner(&self, owner: u64, parent: u64, kind: &'static str) {
        self.shared().log.append(TraceEvent::Owner { owner, parent, kind });
    }

    /// A command created an object with callbacks of the owner, or with none: 0.
    pub fn created(&self, owner: u64, handle: u64, kind: &'static str) {
        let by = by(owner);
        let created = TraceEvent::Created { by, handle, kind };
        self.shared().log.append(created);
    }

    /// The last command of this thread destroyed an object with callbacks of the owner, or with none: 0.
    pub fn destroyed(&self, owner: u64, handle: u64, kind: &'static str) {
        let by = by(owner);
        let destroyed = TraceEvent::Destroyed { by, handle, kind };
        self.shared().log.append(destroyed);
    }

    /// An observation that no call shows. Taps record their own observations.
    pub fn seen(&self, owner: u64, what: Sighting) {
        self.shared().log.append(TraceEvent::Seen { by: by(owner), block: Pointer::Null, what });
    }

    /// A phase of the program begins.
    pub fn phase(&self, name: &'static str) {
        self.shared().log.append(TraceEvent::Phase { name });
    }

    /// This thread enters a command. Commands nest; each needs its [`leave`](Recorder::leave).
    pub fn enter(&self, command: &'static str) {
        self.enter_for(0, command);
    }

    /// This thread enters a command on the owner.
    pub fn enter_for(&self, owner: u64, command: &'static str) {
        let by = by(owner);
        self.shared().log.append(TraceEvent::Enter { by, command });
    }

    /// This thread's innermost command returned this `VkResult`; 0 for commands that return nothing.
    pub fn leave(&self, result: i32) {
        let by = by(0);
        self.shared().log.append(TraceEvent::Leave { by, result });
    }

    /// Allocated blocks less freed ones, as far as taps can know. Exact when quiet.
    #[must_use]
    pub fn live_blocks(&self) -> usize {
        let taps = self.shared().taps.iter();
        let sum = taps.fold(0_isize, |sum, tap| sum.saturating_add(tap.live.load(Ordering::Relaxed)));
        usize::try_from(sum).unwrap_or(0)
    }

    /// Writes the log as a trace of format 2. Allocates memory for the numbers of blocks, about 24 bytes an address.
    ///
    /// May be called while callbacks arrive, and more than once: the trace ends with the events of before the call.
    ///
    /// # Errors
    /// [`CallbackError::Output`] if `out` fails; the refusal of the recorder's memory. The log is unchanged.
    pub fn write<W: fmt::Write + ?Sized>(&self, driver: &str, out: &mut W) -> Result<Written, CallbackError> {
        let log = &self.shared().log;
        // Calls of `out` may be recorded, too: they belong to the next trace, or this one would never end.
        let count = log.records().count();
        let mut names = Names::new(Scoped::new(log.memory(), SCOPE));
        let mut writer = TraceWriter::new(out, driver).map_err(output)?;
        let mut written = Written::default();
        for record in log.records().take(count) {
            written.lost_here(record.lost_before, &mut writer)?;
            writer.event(&names.event(&record)?).map_err(output)?;
            written.events = written.events.saturating_add(1);
        }
        written.lost_here(log.lost(), &mut writer)?;
        written.lines = writer.finish().map_err(output)?;
        Ok(written)
    }

    /// Frees all memory, unless a block that passed a tap is live.
    ///
    /// # Errors
    /// The recorder itself, if a block is live or this thread is inside a callback.
    pub fn close(self) -> Result<(), Rejected<Self, CallbacksInUse>> {
        match CallbacksInUse::of_blocks(self.live_blocks()) {
            None => Ok(()),
            Some(reason) => Err(Rejected::new(self, reason)),
        }
    }

    /// Frees all memory, whatever is live: for drivers that leak.
    ///
    /// # Safety
    /// No function of any tap is being called or will be.
    pub unsafe fn close_anyway(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: no function of a tap is called now or later.
        unsafe { this.destroy_shared() }
    }

    fn shared(&self) -> &RecorderState<'h> {
        // SAFETY: placed by `new`, and stays until this recorder ends.
        unsafe { self.shared.as_ref() }
    }

    /// # Safety
    /// Called once; nothing reaches the shared part or a tap afterwards.
    unsafe fn destroy_shared(&self) {
        let memory = self.shared().log.memory();
        // SAFETY: placed by `new` in this memory; nothing reaches it or its taps, as this function requires.
        drop(unsafe { free_pinned(memory, self.shared) });
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        if self.live_blocks() > 0 || is_busy() {
            // The driver may still call the callbacks: better a leak than a dangling pointer.
            self.shared().log.stop();
            return;
        }
        // SAFETY: nothing is live, and `tap` requires that no function is called from here on.
        unsafe { self.destroy_shared() }
    }
}

impl RecorderState<'_> {
    fn next_ticket(&self) -> usize {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

impl Written {
    fn lost_here<W: fmt::Write + ?Sized>(
        &mut self,
        lost: usize,
        writer: &mut TraceWriter<'_, W>,
    ) -> Result<(), CallbackError> {
        if lost == 0 {
            return Ok(());
        }
        let events = lost as u64;
        self.lost = self.lost.saturating_add(events);
        writer.event(&TraceEvent::Lost { events }).map_err(output)
    }
}

const fn output(_: fmt::Error) -> CallbackError {
    CallbackError::Output
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("live_blocks", &self.live_blocks()).finish_non_exhaustive()
    }
}
