//! Misses: one thread compiles, without the lock; other threads that request the same shader wait for it.
//!
//! ```text
//!   find --miss--> begin (lock) --+-> live by now: acquire
//!                                 +-> lacks capacity: allocate without the lock, retry
//!                                 +-> in flight: join, wait
//!                                 +-> lead: allocate the payload -> compile -> succeed | fail;  dropped: retry
//! ```
//! All memory is allocated before the compile: a compiled shader is always kept (H61).

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use alloc_core::{AllocError, ContextHandle, HostAllocator, HostError, Scope, TryBox};

use super::block::{DetailedEntry, ReservedBlock, ShaderContent, StoredPayload};
use super::entry::ShaderHeader;
use super::error::CacheError;
use super::in_flight_compile::{DONE, FAILED, InFlightCompile, RETRY, RUNNING};
use super::key::ShaderKey;
use super::owner::{self, OwnerSlot};
use super::release::DestroyList;
use super::segments::NONE;
use super::shader_ref::ShaderRef;
use super::state::{CacheCore, HeldShader, WriterState};
use super::table::NewTable;
use super::wait_cycles::Wait;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::threads;

/// What a compiler returns.
#[derive(Clone, Copy, Debug)]
pub struct CompiledShader<P> {
    /// The shader.
    pub value: P,
    /// Bytes that count against the cache's limit: host and device memory, as far as the compiler knows. Bytes that would raise the cache's
    /// sum above 2^64 - 1 are not counted.
    pub bytes: u64,
}

/// A request of an owner for a shader.
pub(super) struct CompileRequest<'a> {
    pub(super) key: ShaderKey,
    pub(super) content: Option<&'a [u8]>,
    pub(super) owner: u32,
    pub(super) memory: &'a ContextHandle,
}

enum CompileStart<'c, 'a, P: Send + Sync, E: Copy + Send + Sync> {
    Live(HeldShader),
    Join,
    Lead(CompileLeader<'c, 'a, P, E>),
    Need(CacheShortage),
}

#[derive(Clone, Copy)]
enum CacheShortage {
    Entries,
    Compiles,
    Table { buckets: usize },
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    /// A reference to the shader, compiled by this thread or another one if it was missing.
    #[cold]
    pub(super) fn compile(
        &self,
        asked: &CompileRequest<'_>,
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<HeldShader, CacheError<E>> {
        loop {
            match self.begin(asked) {
                CompileStart::Live(found) => return Ok(found),
                CompileStart::Need(need) => self.grow_with(need)?,
                CompileStart::Lead(lead) => return lead.run(compile),
                CompileStart::Join => {
                    if let Some(found) = self.join(asked)? {
                        return Ok(found);
                    }
                }
            }
        }
    }

    fn begin<'c, 'a>(&'c self, asked: &'a CompileRequest<'a>) -> CompileStart<'c, 'a, P, E> {
        let &CompileRequest { key, owner, .. } = asked;
        let mut writer = self.writer.lock();
        if !self.tables.is_without(key.hash())
            && let Some(found) = self.live(&writer, key, asked.content)
        {
            return CompileStart::Live(found);
        }
        if self.in_flight(&writer, key).is_some() {
            return CompileStart::Join;
        }
        let (entry, flight) = (writer.free_entry, writer.free_compile);
        let (Some(free), Some(flies), Some(slot)) = (
            self.entries.get(entry),
            self.compiles.get(flight),
            self.owners.get(owner),
        ) else {
            return CompileStart::Need(if entry == NONE {
                CacheShortage::Entries
            } else {
                CacheShortage::Compiles
            });
        };
        if !self.tables.has_room(
            usize::try_from(writer.live.saturating_add(writer.leads)).unwrap_or(usize::MAX),
        ) {
            return CompileStart::Need(CacheShortage::Table {
                buckets: self.tables.next_size(),
            });
        }
        writer.free_entry = free.link.load(Relaxed);
        writer.free_compile = flies.link.load(Relaxed);
        flies.link.store(writer.running, Relaxed);
        writer.running = flight;
        writer.leads = writer.leads.wrapping_add(1);
        slot.bind();
        let spare = slot.remove_spare();
        flies.begin(key, threads::number(), owner);
        drop(writer);
        CompileStart::Lead(CompileLeader {
            core: self,
            in_flight: (flight, flies),
            entry: (entry, free),
            owner: slot,
            room: spare.map(|block| ReservedBlock::of_spare(block, asked.memory)),
            request: asked,
        })
    }

    /// The compile of this key in flight, if there is one. Requires the lock.
    fn in_flight(
        &self,
        writer: &WriterState,
        key: ShaderKey,
    ) -> Option<(u32, &InFlightCompile<E>)> {
        let mut number = writer.running;
        while let Some(flight) = self.compiles.get(number) {
            if flight.key() == key {
                return Some((number, flight));
            }
            number = flight.link.load(Relaxed);
        }
        None
    }

    /// Allocates what was missing, without the lock.
    #[cold]
    fn grow_with(&self, need: CacheShortage) -> Result<(), HostError> {
        let memory = &self.memory;
        let refused = |bytes| move |AllocError| memory.refusal(bytes, Scope::Cache);
        match need {
            CacheShortage::Entries => {
                let chunk = self
                    .entries
                    .chunk(memory)
                    .map_err(refused(Layout::new::<[DetailedEntry; 64]>()))?;
                let mut writer = self.writer.lock();
                let added = self.entries.add(chunk);
                if let Ok(numbers) = &added {
                    numbers
                        .clone()
                        .rev()
                        .for_each(|number| self.push_entry(&mut writer, number));
                }
                drop(writer);
                added.map_or_else(|chunk| chunk.free(memory), drop);
            }
            CacheShortage::Compiles => {
                let chunk = self
                    .compiles
                    .chunk(memory)
                    .map_err(refused(Layout::new::<[InFlightCompile<E>; 64]>()))?;
                let mut writer = self.writer.lock();
                let added = self.compiles.add(chunk);
                if let Ok(numbers) = &added {
                    for number in numbers.clone().rev() {
                        if let Some(flight) = self.compiles.get(number) {
                            Self::push_free_compile(&mut writer, flight, number);
                        }
                    }
                }
                drop(writer);
                added.map_or_else(|chunk| chunk.free(memory), drop);
            }
            CacheShortage::Table { buckets } => {
                let bytes = Layout::array::<[u64; 8]>(buckets).unwrap_or(Layout::new::<[u64; 8]>());
                let fresh = NewTable::new(memory, buckets).map_err(refused(bytes))?;
                let writer = self.writer.lock();
                // SAFETY: blocks in the newest table are live while the lock is held.
                let replaced = self
                    .tables
                    .replace(fresh, |block| unsafe { block.as_ref() }.key.hash());
                drop(writer);
                if let Err(fresh) = replaced {
                    fresh.free(memory);
                }
            }
        }
        Ok(())
    }

    fn push_free_compile(writer: &mut WriterState, flight: &InFlightCompile<E>, number: u32) {
        flight.link.store(writer.free_compile, Relaxed);
        writer.free_compile = number;
    }

    /// Waits for the compile of this key in flight. `None`: the caller must try again.
    #[cold]
    fn join(&self, asked: &CompileRequest<'_>) -> Result<Option<HeldShader>, CacheError<E>> {
        let wait = Wait::new();
        let mut writer = self.writer.lock();
        let Some((number, flight)) = self.in_flight(&writer, asked.key) else {
            return Ok(None);
        };
        let (me, leader) = (threads::number(), flight.leader.load(Relaxed));
        // SAFETY: `wait` is this thread's own, on its stack; the thread waits for nothing here, and ends `wait` below, before it leaves the
        // compile, which is not reused until then.
        if me != 0 && !unsafe { wait.begin(me, leader, &flight.state) } {
            return Err(CacheError::Recursive);
        }
        flight
            .users
            .store(flight.users.load(Relaxed).wrapping_add(1), Relaxed);
        writer.joined = writer.joined.wrapping_add(1);
        drop(writer);
        threads::wait_while(&flight.state, RUNNING);
        wait.end();
        let (state, entry, error) = (
            flight.state.load(Acquire),
            flight.entry.load(Relaxed),
            flight.error(),
        );
        let mut writer = self.writer.lock();
        Self::leave(&mut writer, flight, number);
        drop(writer);
        match (state, error) {
            (FAILED, Some(error)) => Err(CacheError::Compile(error)),
            (DONE, _) => {
                let Some(block) = self.entries.get(entry).and_then(|entry| entry.block()) else {
                    return Ok(None);
                };
                // A reference was counted for this thread.
                let found = HeldShader { block, slot: None };
                // SAFETY: the shader is referenced.
                if unsafe { self.matches(block, asked.key, asked.content) } {
                    return Ok(Some(found));
                }
                // The key is the same, the content is not.
                drop(ShaderRef::new(self, found));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Removes a user; the last one frees the compile.
    fn leave(writer: &mut WriterState, flight: &InFlightCompile<E>, number: u32) {
        let users = flight.users.load(Relaxed).wrapping_sub(1);
        flight.users.store(users, Relaxed);
        if users == 0 {
            Self::push_free_compile(writer, flight, number);
        }
    }

    /// Ends a compile. True if threads wait, which the caller must wake afterwards; no more can join. Requires the lock.
    fn finish_compile(
        &self,
        writer: &mut WriterState,
        (number, flight): (u32, &InFlightCompile<E>),
        state: u32,
    ) -> bool {
        let waited_for = flight.users.load(Relaxed) > 1;
        let after = flight.link.load(Relaxed);
        if writer.running == number {
            writer.running = after;
        } else {
            let mut there = writer.running;
            while let Some(before) = self.compiles.get(there) {
                there = before.link.load(Relaxed);
                if there == number {
                    before.link.store(after, Relaxed);
                    break;
                }
            }
        }
        writer.leads = writer.leads.wrapping_sub(1);
        flight.state.store(state, Release);
        Self::leave(writer, flight, number);
        waited_for
    }
}

/// The compiling thread's state. Dropped without a result, by a panic or because memory is missing, it lets a waiting thread compile.
struct CompileLeader<'c, 'a, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c CacheCore<P, E>,
    in_flight: (u32, &'c InFlightCompile<E>),
    entry: (u32, &'c DetailedEntry),
    owner: &'c OwnerSlot,
    /// The owner's spare block, until it is used.
    room: Option<ReservedBlock<'a, P>>,
    request: &'a CompileRequest<'a>,
}

impl<'c, P: Send + Sync, E: Copy + Send + Sync> CompileLeader<'c, '_, P, E> {
    fn run(
        mut self,
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<HeldShader, CacheError<E>> {
        let &CompileRequest {
            content, memory, ..
        } = self.request;
        // A closed context refuses, even if its owner has a spare block.
        let room = match self.room.take() {
            Some(room) if !memory.is_closed() => room,
            _ => ReservedBlock::new(memory)?,
        };
        let content = match content {
            Some(content) => copy_content(content, memory)?,
            None => None,
        };
        match compile() {
            Ok(CompiledShader { value, bytes }) => {
                let (number, entry) = self.entry;
                // Old until the next hit, so that shaders used once do not evict those used often.
                let touched = AtomicU32::new(self.core.epoch.load(Relaxed).wrapping_sub(2));
                let front = ShaderHeader {
                    key: self.request.key,
                    number,
                    touched,
                };
                // SAFETY: the entry is free, and reserved for this shader.
                unsafe { entry.set_content(content) };
                Ok(self.succeed(room.fill(StoredPayload { front, value }), bytes))
            }
            Err(error) => {
                self.fail(error);
                Err(CacheError::Compile(error))
            }
        }
    }

    /// Fills the entry, with one reference for each user of the compile. Allocates nothing.
    fn succeed(self, block: NonNull<ShaderHeader>, bytes: u64) -> HeldShader {
        let Self {
            core,
            in_flight: flight,
            entry: (number, entry),
            owner: slot,
            request: &CompileRequest { key, owner, .. },
            ..
        } = *ManuallyDrop::new(self);
        let mut writer = core.writer.lock();
        // A compiler may return any number: only bytes that the sum can hold are counted.
        let bytes = bytes.min(u64::MAX - writer.bytes);
        let released = flight.1.released.load(Relaxed) != 0;
        entry.fill(block, owner, bytes, flight.1.users.load(Relaxed), !released);
        writer.bytes = writer.bytes.wrapping_add(bytes);
        writer.compiled = writer.compiled.wrapping_add(1);
        owner::add(&slot.bytes, bytes);
        owner::add(&slot.compiled, 1);
        if released {
            owner::add(&slot.zombies, 1);
            writer.dead = writer.dead.wrapping_add(1);
            core.list_dead(&mut writer, entry, number);
        } else {
            owner::add(&slot.entries, 1);
            core.link(slot.first.load(Relaxed), entry, number);
            slot.first.store(number, Relaxed);
            writer.live = writer.live.wrapping_add(1);
            core.tables.put(key.hash(), block);
        }
        flight.1.entry.store(number, Relaxed);
        let waited_for = core.finish_compile(&mut writer, flight, DONE);
        let mut going = DestroyList::new();
        let mut moved = None;
        core.evict_over_limits(&mut writer, &mut going, Some((owner, slot)), &mut moved);
        drop(writer);
        if waited_for {
            threads::wake(&flight.1.state);
        }
        // Another shader's destructor may unwind: then this thread's reference is released.
        let found = HeldShader { block, slot: None };
        let hold = ShaderRef::new(core, found);
        core.destroy_after(&mut moved, going);
        core::mem::forget(hold);
        found
    }

    fn fail(self, error: E) {
        let this = ManuallyDrop::new(self);
        this.in_flight.1.set_error(error);
        this.abandon(FAILED);
    }

    fn abandon(&self, state: u32) {
        let core = self.core;
        let mut writer = core.writer.lock();
        if state == FAILED {
            writer.failed = writer.failed.wrapping_add(1);
        }
        core.push_entry(&mut writer, self.entry.0);
        self.owner.unbind();
        let unused = core.free_owner(&mut writer, self.request.owner);
        let waited_for = core.finish_compile(&mut writer, self.in_flight, state);
        drop(writer);
        drop(unused);
        if waited_for {
            threads::wake(&self.in_flight.1.state);
        }
    }
}

#[cold]
fn copy_content(content: &[u8], memory: &ContextHandle) -> Result<ShaderContent, HostError> {
    TryBox::try_from_slice_in(content, memory.clone()).map(Some)
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for CompileLeader<'_, '_, P, E> {
    fn drop(&mut self) {
        self.abandon(RETRY);
    }
}
