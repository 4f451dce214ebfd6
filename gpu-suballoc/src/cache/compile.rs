//! A miss: one thread compiles, with no lock held; who asks for the same meanwhile waits for it.
//!
//! ```text
//!   find --miss--> begin (lock) --+-> live by now: held
//!                                 +-> needs room: got outside of the lock, and again
//!                                 +-> under way: join, wait
//!                                 +-> lead: memory for the payload -> compile -> succeed | fail;  dropped: retry
//! ```
//! Everything that can be refused is asked for before the compile: what was compiled is always kept (H61).

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use alloc_core::{AllocError, Handle, HostAllocator, HostError, Scope, TryBox};

use super::block::{Keeps, Kept, Room, Stored};
use super::entry::Front;
use super::error::CacheError;
use super::flight::{DONE, FAILED, FLYING, Flight, RETRY};
use super::hold::Hold;
use super::key::ShaderKey;
use super::owner;
use super::release::Going;
use super::segments::NONE;
use super::state::{Core, Found, Writer};
use super::table::Fresh;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::threads;

/// What a compiler made.
#[derive(Clone, Copy, Debug)]
pub struct Compiled<P> {
    /// The shader.
    pub value: P,
    /// How many bytes it counts against the cache's limit: host and device memory, as far as the compiler knows.
    pub bytes: u64,
}

/// Who asks, for what.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) key: ShaderKey,
    pub(super) content: Option<&'a [u8]>,
    pub(super) owner: u32,
    pub(super) memory: &'a Handle,
}

enum Begun<'c, 'a, P: Send + Sync, E: Copy + Send + Sync> {
    Live(Found),
    Join(u32, &'c Flight<E>),
    Lead(Lead<'c, 'a, P, E>),
    Need(Need),
}

#[derive(Clone, Copy)]
enum Need {
    Entries,
    Flights,
    Table { buckets: usize },
}

impl<P: Send + Sync, E: Copy + Send + Sync> Core<P, E> {
    /// A hold of the shader, compiled by this thread or another one if it was not there.
    #[cold]
    pub(super) fn compile(
        &self,
        asked: Asked<'_>,
        compile: impl FnOnce() -> Result<Compiled<P>, E>,
    ) -> Result<Found, CacheError<E>> {
        loop {
            match self.begin(asked)? {
                Begun::Live(found) => return Ok(found),
                Begun::Need(need) => self.supply(need)?,
                Begun::Lead(lead) => return lead.fly(compile),
                Begun::Join(number, flight) => {
                    if let Some(found) = self.join(number, flight, asked)? {
                        return Ok(found);
                    }
                }
            }
        }
    }

    fn begin<'c, 'a>(&'c self, asked: Asked<'a>) -> Result<Begun<'c, 'a, P, E>, CacheError<E>> {
        let Asked { key, owner, .. } = asked;
        let mut writer = self.writer.lock();
        if let Some(found) = self.live(&writer, key, asked.content) {
            return Ok(Begun::Live(found));
        }
        let me = threads::number();
        let mut number = writer.flying;
        while let Some(flight) = self.flights.get(number) {
            if flight.key() == key {
                if me != 0 && self.lands_after(number, me) {
                    return Err(CacheError::Recursive);
                }
                self.waits(&writer, me, number);
                flight.users.store(flight.users.load(Relaxed).wrapping_add(1), Relaxed);
                writer.joined = writer.joined.wrapping_add(1);
                return Ok(Begun::Join(number, flight));
            }
            number = flight.link.load(Relaxed);
        }
        let (entry, flight) = (writer.free_entry, writer.free_flight);
        let (Some(free), Some(flies)) = (self.entries.get(entry), self.flights.get(flight)) else {
            return Ok(Begun::Need(if entry == NONE { Need::Entries } else { Need::Flights }));
        };
        if !self.tables.has_room(usize::try_from(writer.live.saturating_add(writer.leads)).unwrap_or(usize::MAX)) {
            return Ok(Begun::Need(Need::Table { buckets: self.tables.next_size() }));
        }
        writer.free_entry = free.link.load(Relaxed);
        writer.free_flight = flies.link.load(Relaxed);
        flies.link.store(writer.flying, Relaxed);
        writer.flying = flight;
        writer.leads = writer.leads.wrapping_add(1);
        if let Some(slot) = self.owners.get(owner) {
            slot.bound.store(slot.bound.load(Relaxed).wrapping_add(1), Relaxed);
        }
        flies.begin(key, me, owner);
        Ok(Begun::Lead(Lead { core: self, flight: (flight, flies), entry: (entry, free), asked }))
    }

    /// True where this flight lands only after one that the thread `me` leads: it is its own, or its leader waits for another thread's that
    /// waits, and so on, for one of its own. With the lock.
    fn lands_after(&self, mut number: u32, me: u64) -> bool {
        while let Some(flight) = self.flights.get(number).filter(|flight| flight.state.load(Relaxed) == FLYING) {
            if flight.leader.load(Relaxed) == me {
                return true;
            }
            number = flight.waits.load(Relaxed);
        }
        false
    }

    /// The thread `me` waits for this flight, and so does what it leads; or, with `NONE`, it does no more. With the lock.
    fn waits(&self, writer: &Writer, me: u64, flight: u32) {
        let mut number = writer.flying;
        while let Some(led) = self.flights.get(number) {
            if led.leader.load(Relaxed) == me {
                led.waits.store(flight, Relaxed);
            }
            number = led.link.load(Relaxed);
        }
    }

    /// Gets what was missing, outside of the lock.
    fn supply(&self, need: Need) -> Result<(), HostError> {
        let memory = &self.memory;
        let refused = |bytes| move |AllocError| memory.refusal(bytes, Scope::Cache);
        match need {
            Need::Entries => {
                let chunk = self.entries.chunk(memory).map_err(refused(Layout::new::<[Kept; 64]>()))?;
                let mut writer = self.writer.lock();
                let added = self.entries.add(chunk);
                if let Ok(numbers) = &added {
                    numbers.clone().rev().for_each(|number| self.push_entry(&mut writer, number));
                }
                drop(writer);
                added.map_or_else(|chunk| chunk.give_back(memory), drop);
            }
            Need::Flights => {
                let chunk = self.flights.chunk(memory).map_err(refused(Layout::new::<[Flight<E>; 64]>()))?;
                let mut writer = self.writer.lock();
                let added = self.flights.add(chunk);
                if let Ok(numbers) = &added {
                    numbers.clone().rev().for_each(|number| self.push_flight(&mut writer, number));
                }
                drop(writer);
                added.map_or_else(|chunk| chunk.give_back(memory), drop);
            }
            Need::Table { buckets } => {
                let bytes = Layout::array::<[u64; 8]>(buckets).unwrap_or(Layout::new::<[u64; 8]>());
                let fresh = Fresh::new(memory, buckets).map_err(refused(bytes))?;
                let writer = self.writer.lock();
                // SAFETY: what the newest table names is live while the lock is held.
                let replaced = self.tables.replace(fresh, |block| unsafe { block.as_ref() }.key.hash());
                drop(writer);
                if let Err(fresh) = replaced {
                    fresh.give_back(memory);
                }
            }
        }
        Ok(())
    }

    fn push_flight(&self, writer: &mut Writer, number: u32) {
        if let Some(flight) = self.flights.get(number) {
            flight.link.store(writer.free_flight, Relaxed);
            writer.free_flight = number;
        }
    }

    /// Waits for a flight, of which this thread is a user. `None`: ask again.
    fn join(&self, number: u32, flight: &Flight<E>, asked: Asked<'_>) -> Result<Option<Found>, CacheError<E>> {
        threads::wait_while(&flight.state, FLYING);
        let (state, entry, error) = (flight.state.load(Acquire), flight.entry.load(Relaxed), flight.error());
        let mut writer = self.writer.lock();
        self.waits(&writer, threads::number(), NONE);
        self.leave(&mut writer, flight, number);
        drop(writer);
        match (state, error) {
            (FAILED, Some(error)) => Err(CacheError::Compile(error)),
            (DONE, _) => {
                let Some(block) = self.entries.get(entry).and_then(|entry| entry.block()) else { return Ok(None) };
                // A hold was counted for this thread.
                let found = Found { block, at: None };
                // SAFETY: it is held.
                if unsafe { self.is_meant(block, asked.key, asked.content) } {
                    return Ok(Some(found));
                }
                // The same key, and another shader.
                drop(Hold::new(self, found));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// A user less; the last one gives the flight back.
    fn leave(&self, writer: &mut Writer, flight: &Flight<E>, number: u32) {
        let users = flight.users.load(Relaxed).wrapping_sub(1);
        flight.users.store(users, Relaxed);
        if users == 0 {
            self.push_flight(writer, number);
        }
    }

    /// The flight is over. With the lock; true where somebody waits, who is to be woken afterwards: nobody joins any more.
    fn land(&self, writer: &mut Writer, (number, flight): (u32, &Flight<E>), state: u32) -> bool {
        let waited_for = flight.users.load(Relaxed) > 1;
        let after = flight.link.load(Relaxed);
        if writer.flying == number {
            writer.flying = after;
        } else {
            let mut there = writer.flying;
            while let Some(before) = self.flights.get(there) {
                there = before.link.load(Relaxed);
                if there == number {
                    before.link.store(after, Relaxed);
                    break;
                }
            }
        }
        writer.leads = writer.leads.wrapping_sub(1);
        flight.state.store(state, Release);
        self.leave(writer, flight, number);
        waited_for
    }
}

/// The one who compiles. Dropped without a result, by a panic or for want of memory, it lets another one try.
struct Lead<'c, 'a, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c Core<P, E>,
    flight: (u32, &'c Flight<E>),
    entry: (u32, &'c Kept),
    asked: Asked<'a>,
}

impl<'c, P: Send + Sync, E: Copy + Send + Sync> Lead<'c, '_, P, E> {
    fn fly(self, compile: impl FnOnce() -> Result<Compiled<P>, E>) -> Result<Found, CacheError<E>> {
        let Asked { content, memory, .. } = self.asked;
        let room = Room::<P>::new(memory)?;
        let content = content.map(|content| TryBox::try_from_slice_in(content, memory.clone())).transpose()?;
        match compile() {
            Ok(Compiled { value, bytes }) => {
                let (number, entry) = self.entry;
                // Old, until it is found again: what is used once does not drive out what is used all the time.
                let touched = AtomicU32::new(self.core.epoch.load(Relaxed).wrapping_sub(2));
                let front = Front { key: self.asked.key, number, touched };
                // SAFETY: it is free, and reserved for this.
                unsafe { entry.put(Keeps { memory: memory.clone(), content }) };
                Ok(self.succeed(room.fill(Stored { front, value }), bytes))
            }
            Err(error) => {
                self.fail(error);
                Err(CacheError::Compile(error))
            }
        }
    }

    /// The entry is there, held once for each user of the flight. Takes no memory.
    fn succeed(self, block: NonNull<Front>, bytes: u64) -> Found {
        let Self { core, flight, entry: (number, entry), asked: Asked { key, owner, .. } } = *ManuallyDrop::new(self);
        let mut writer = core.writer.lock();
        let released = flight.1.released.load(Relaxed) != 0;
        entry.make(block, owner, bytes, flight.1.users.load(Relaxed), !released);
        writer.bytes = writer.bytes.wrapping_add(bytes);
        writer.compiled = writer.compiled.wrapping_add(1);
        if let Some(slot) = core.owners.get(owner) {
            owner::add(&slot.bytes, bytes);
            owner::add(&slot.compiled, 1);
            owner::add(if released { &slot.zombies } else { &slot.entries }, 1);
            if !released {
                core.push(slot.first.load(Relaxed), entry, number);
                slot.first.store(number, Relaxed);
            }
        }
        if released {
            writer.dead = writer.dead.wrapping_add(1);
            core.keep_dead(&mut writer, entry, number);
        } else {
            writer.live = writer.live.wrapping_add(1);
            core.tables.put(key.hash(), block);
        }
        flight.1.entry.store(number, Relaxed);
        let waited_for = core.land(&mut writer, flight, DONE);
        let mut going = Going::new();
        core.take_over_limits(&mut writer, &mut going);
        drop(writer);
        if waited_for {
            threads::wake(&flight.1.state);
        }
        // Somebody's destructor may unwind: this thread's hold is let go then.
        let found = Found { block, at: None };
        let hold = Hold::new(core, found);
        core.gone(going);
        core::mem::forget(hold);
        found
    }

    fn fail(self, error: E) {
        let this = ManuallyDrop::new(self);
        this.flight.1.set_error(error);
        this.give_up(FAILED);
    }

    fn give_up(&self, state: u32) {
        let core = self.core;
        let mut writer = core.writer.lock();
        if state == FAILED {
            writer.failed = writer.failed.wrapping_add(1);
        }
        core.push_entry(&mut writer, self.entry.0);
        core.unbind(&mut writer, self.asked.owner);
        let waited_for = core.land(&mut writer, self.flight, state);
        drop(writer);
        if waited_for {
            threads::wake(&self.flight.1.state);
        }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for Lead<'_, '_, P, E> {
    fn drop(&mut self) {
        self.give_up(RETRY);
    }
}
