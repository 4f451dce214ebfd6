//! The replay itself.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{
    HostAllocator as _, HostError, HostSource, Notice, NoticeEvent, NoticeKind, TryMap, TryVec,
};

use super::block::{ReplayedBlock, TracedBlock, TracedRequest, layout, scope};
use super::target::{ReplayFinding, ReplayTarget, Totals};
use crate::error::CallbackError;
use crate::keyed_hash::HashKey;
use crate::trace::{Caller, Pointer, Request, TraceEvent, TraceReader};

/// A replay of a trace into the allocators of a [`ReplayTarget`], with totals.
///
/// `A` is the memory of the replay's map of blocks, about 150 bytes for each block of the trace. Dropping a replay frees all its
/// blocks, so an incomplete trace leaves nothing behind.
///
/// ```
/// use std::alloc::System;
/// use alloc_core::{FromGlobalAlloc, Scope, Scoped};
/// use vk_callbacks::{Replay, TraceReader};
/// use vk_callbacks::replay::OneSink;
///
/// let trace = "# steward host trace 2\na,1,0,1,160,8,1\na,1,0,2,40,8,1\nf,1,0,1\nz,4\n";
/// let system = FromGlobalAlloc::SYSTEM;
/// let mut replay = Replay::new(Scoped::new(&system, Scope::Object));
/// let totals = replay.run(TraceReader::new(trace)?, &mut OneSink(&system))?;
/// assert_eq!((totals.allocations, totals.frees, totals.all().peak_bytes), (2, 1, 200));
/// assert_eq!((totals.all().live_blocks, totals.scope(Scope::Object).live_bytes, totals.findings), (1, 40, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay<'t, T: ReplayTarget, A: HostSource + Clone> {
    blocks: TryMap<Pointer, TracedBlock<T::Sink>, A, HashKey>,
    memory: A,
    totals: Totals,
    phase: Option<&'t str>,
}

impl<'t, T: ReplayTarget, A: HostSource + Clone> Replay<'t, T, A> {
    /// A new replay. Allocates nothing yet.
    #[must_use]
    pub fn new(memory: A) -> Self {
        // The trace chooses the numbers.
        let blocks = TryMap::with_hasher_in(HashKey::fresh(), memory.clone());
        Self {
            blocks,
            memory,
            totals: Totals::default(),
            phase: None,
        }
    }

    /// Replays a whole trace: [`step`](Replay::step) for each event, then [`finish`](Replay::finish).
    ///
    /// # Errors
    /// A line that cannot be read, or no memory for the map of blocks. [`Replay::totals`] has the counts so far.
    pub fn run(
        &mut self,
        reader: TraceReader<'t>,
        target: &mut T,
    ) -> Result<Totals, CallbackError> {
        for item in reader {
            let (line, event) = item?;
            self.step(line, event, target)?;
        }
        Ok(self.finish(target)?)
    }

    /// Replays one event.
    ///
    /// # Errors
    /// No memory for the map of blocks; nothing was done, and the step can be repeated.
    pub fn step(
        &mut self,
        line: u64,
        event: TraceEvent<'t>,
        target: &mut T,
    ) -> Result<(), HostError> {
        match event {
            TraceEvent::Owner {
                owner,
                parent,
                kind,
            } => {
                count(&mut self.totals.owners);
                target.owner(owner, parent, kind);
            }
            TraceEvent::Phase { name } => {
                self.end_phase(target);
                self.totals.begin_phase();
                self.phase = Some(name);
                target.phase_begin(name, &self.totals);
            }
            TraceEvent::Enter { .. } => count(&mut self.totals.commands),
            TraceEvent::Leave { result, .. } => {
                if result < 0 {
                    count(&mut self.totals.failed_commands);
                }
            }
            TraceEvent::Allocate { by, block, asked } => {
                self.blocks.try_reserve(1)?;
                count(&mut self.totals.allocations);
                self.totals.allocate_bytes = self.totals.allocate_bytes.saturating_add(asked.size);
                if asked.size == 0 {
                    count(&mut self.totals.zero_sizes);
                }
                self.allocate(TracedRequest { line, by, asked }, block, target)?;
            }
            TraceEvent::ReallocateBegin { .. } => count(&mut self.totals.reallocations_begun),
            TraceEvent::Reallocate {
                by,
                old,
                new,
                asked,
            } => {
                self.blocks.try_reserve(1)?;
                count(&mut self.totals.reallocations);
                self.totals.reallocate_bytes =
                    self.totals.reallocate_bytes.saturating_add(asked.size);
                self.reallocate(TracedRequest { line, by, asked }, (old, new), target)?;
            }
            TraceEvent::Free { by, block } => {
                count(&mut self.totals.frees);
                self.free(by, block);
            }
            TraceEvent::Notice {
                by,
                event,
                size,
                kind,
                scope,
            } => {
                self.notice(by, event, (size, kind, scope), target);
            }
            TraceEvent::Created { .. } | TraceEvent::Destroyed { .. } | TraceEvent::Seen { .. } => {
            }
            TraceEvent::Lost { events } => {
                self.totals.lost = self.totals.lost.saturating_add(events);
                self.report(line, ReplayFinding::Lost { events }, target);
            }
        }
        Ok(())
    }

    /// Ends the replay: the last phase ends, each live block is a finding, and all blocks are freed.
    ///
    /// The returned totals include the live blocks.
    ///
    /// # Errors
    /// No memory to list the live blocks in order; nothing was done.
    pub fn finish(&mut self, target: &mut T) -> Result<Totals, HostError> {
        let mut live = TryVec::new_in(self.memory.clone());
        for (pointer, block) in self.blocks.iter() {
            live.try_push((*pointer, block.request))?;
        }
        live.sort_unstable_by_key(|(pointer, request)| (request.line, *pointer));
        self.end_phase(target);
        self.phase = None;
        for (block, TracedRequest { line, by, asked }) in live.iter().copied() {
            let owner = by.owner;
            let left = ReplayFinding::StillLive {
                block,
                owner,
                asked,
            };
            self.report(line, left, target);
        }
        self.blocks.clear();
        Ok(self.totals)
    }

    /// The totals so far.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    fn end_phase(&mut self, target: &mut T) {
        if let Some(phase) = self.phase {
            target.phase_end(phase, &self.totals);
        }
    }

    fn report(&mut self, line: u64, finding: ReplayFinding, target: &mut T) {
        count(&mut self.totals.findings);
        target.finding(line, finding);
    }

    /// A block was allocated, or NULL was answered. The map has room for one more.
    fn allocate(
        &mut self,
        request: TracedRequest,
        block: Pointer,
        target: &mut T,
    ) -> Result<(), HostError> {
        if block == Pointer::Null {
            count(&mut self.totals.null_answers);
            return Ok(());
        }
        let counted = self.countable(&request, block, target);
        let mut held = None;
        if let (Some(layout), Some(scope)) = (layout(request.asked), scope(request.asked)) {
            held = ReplayedBlock::allocate(target.sink(request.by.owner), layout, scope);
            if held.is_none() {
                self.report_refusal(&request, block, target);
            }
        }
        let traced = TracedBlock {
            request,
            counted,
            held,
        };
        self.put(block, traced)
    }

    /// The bytes of a request to count.
    fn countable(&mut self, request: &TracedRequest, block: Pointer, target: &mut T) -> u64 {
        let TracedRequest { line, asked, .. } = *request;
        // With alignment 1 the size alone decides.
        let size = asked.size;
        if layout(Request { align: 1, ..asked }).is_some() && self.totals.holds(size) {
            return size;
        }
        self.report(line, ReplayFinding::ImpossibleSize { block, size }, target);
        0
    }

    /// Puts a block into the map, which has room, and counts it.
    fn put(&mut self, pointer: Pointer, block: TracedBlock<T::Sink>) -> Result<(), HostError> {
        let (scope, counted) = (block.scope(), block.counted);
        let before = self.blocks.try_insert(pointer, block)?;
        // A block that is returned while it is live was freed, and the trace does not say where.
        if let Some(before) = before {
            self.totals.remove(before.scope(), before.counted);
        }
        self.totals.add(scope, counted);
        Ok(())
    }

    /// Removes a live block from the map. Counts a pointer that is not live.
    fn remove(&mut self, pointer: Pointer) -> Option<TracedBlock<T::Sink>> {
        let Some(block) = self.blocks.remove(&pointer) else {
            count(&mut self.totals.not_live);
            return None;
        };
        self.totals.remove(block.scope(), block.counted);
        Some(block)
    }

    fn free(&mut self, by: Caller, block: Pointer) {
        if block == Pointer::Null {
            return count(&mut self.totals.null_frees);
        }
        if let Some(gone) = self.remove(block) {
            self.count_other(by, gone.request.by);
        }
    }

    fn count_other(&mut self, by: Caller, allocated_by: Caller) {
        if by.thread != allocated_by.thread {
            count(&mut self.totals.other_thread_frees);
        }
        if by.owner != allocated_by.owner {
            count(&mut self.totals.other_owner_frees);
        }
    }

    /// `pfnReallocation` answered (V11 to V17).
    fn reallocate(
        &mut self,
        request: TracedRequest,
        (old, new): (Pointer, Pointer),
        target: &mut T,
    ) -> Result<(), HostError> {
        if request.asked.size == 0 {
            // Frees; NULL and size 0 do nothing.
            if old != Pointer::Null {
                self.free(request.by, old);
            }
            if new == Pointer::Null {
                return Ok(());
            }
        } else if old != Pointer::Null && new != Pointer::Null {
            if let Some(block) = self.remove(old) {
                return self.resize(&request, new, block, target);
            }
        } else if old != Pointer::Null && !self.blocks.contains_key(&old) {
            // The reallocation failed: the old block should stay.
            count(&mut self.totals.not_live);
        }
        self.allocate(request, new, target)
    }

    /// The old block becomes the new one, with its own alignment and scope.
    fn resize(
        &mut self,
        request: &TracedRequest,
        new: Pointer,
        mut block: TracedBlock<T::Sink>,
        target: &mut T,
    ) -> Result<(), HostError> {
        let size = request.asked.size;
        block.request.asked.size = size;
        block.counted = self.countable(request, new, target);
        if let Some(held) = block.held.take() {
            block.held = usize::try_from(size)
                .ok()
                .and_then(|size| held.resize(size));
            if block.held.is_none() {
                self.report_refusal(request, new, target);
            }
        }
        self.put(new, block)
    }

    fn report_refusal(&mut self, request: &TracedRequest, block: Pointer, target: &mut T) {
        let size = request.asked.size;
        let finding = ReplayFinding::SinkRefused { block, size };
        self.report(request.line, finding, target);
    }

    fn notice(
        &mut self,
        by: Caller,
        event: NoticeEvent,
        (size, kind, raw): (u64, i32, i32),
        target: &mut T,
    ) {
        count(match event {
            NoticeEvent::Allocated => &mut self.totals.internal_allocations,
            NoticeEvent::Freed => &mut self.totals.internal_frees,
        });
        // Unknown types and scopes are not counted.
        let scope = scope(Request {
            scope: raw,
            ..Request::default()
        });
        let Some(scope) = scope.filter(|_| kind == crate::raw::INTERNAL_EXECUTABLE) else {
            return;
        };
        match event {
            NoticeEvent::Allocated => self.totals.add_internal(scope, size),
            NoticeEvent::Freed if self.totals.remove_internal(scope, size) => {}
            NoticeEvent::Freed => return,
        }
        if let Ok(bytes) = usize::try_from(size) {
            target.sink(by.owner).notify(Notice {
                event,
                kind: NoticeKind::Executable,
                bytes,
                scope,
            });
        }
    }
}

fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

impl<T: ReplayTarget, A: HostSource + Clone> fmt::Debug for Replay<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("totals", &self.totals)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
