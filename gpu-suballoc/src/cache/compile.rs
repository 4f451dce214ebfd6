//! ```text
//!   find --miss--> lock --+-> live by now: reference it
//!                         +-> no room in the index: grow it without the lock, try again
//!                         +-> in flight: join, wait for the outcome; none: try again
//!                         '-> lead: allocate the entry -> compile -> succeed | fail;  dropped: others try again
//! ```
//! All memory is allocated before the compile: a compiled shader is always kept (H61).

use super::entry::{CacheEntry, EntryRoom, ShaderRef};
use super::key::ShaderKey;
use super::owner::{CacheOwner, Owner};
use super::shader_cache::CacheError;
use super::shard::{Shard, ShardGuard};
use crate::sync::Ordering::Acquire;
use crate::sync::{AtomicU32, StateMutex};
use crate::waiting;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

pub(super) const RUNNING: u32 = 0;
const ENDED: u32 = 1;

/// What a compiler returns.
#[derive(Clone, Copy, Debug)]
pub struct CompiledShader<P> {
    /// The shader.
    pub value: P,
    /// Host and device memory that count against the cache's limit.
    pub bytes: u64,
}

type Outcome<P, E> = Result<NonNull<CacheEntry<P>>, E>;

/// It lies on the compiling thread's stack. Its cells are used under the shard's lock.
pub(super) struct Compile<P, E> {
    pub(super) key: ShaderKey,
    pub(super) owner: *const Owner,
    leader: u64,
    /// Its device was released: no other thread may find the shader.
    pub(super) is_released: Cell<bool>,
    waiting: Cell<Option<NonNull<Waiter<P, E>>>>,
    pub(super) next: Cell<Option<NonNull<Self>>>,
}

/// It lies on the waiting thread's stack. Its cells are used under the shard's lock until the compile has ended.
struct Waiter<P, E> {
    wait: Wait,
    /// `None` if the compiling thread unwound, or lacked memory.
    outcome: Cell<Option<Outcome<P, E>>>,
    next: Cell<Option<NonNull<Self>>>,
}

impl<P, E> Compile<P, E> {
    fn waiters(&self) -> impl Iterator<Item = &Waiter<P, E>> {
        // SAFETY: threads in the list wait until the compile has ended, and then for the lock.
        let waiter = |at: Option<NonNull<Waiter<P, E>>>| at.map(|at| unsafe { at.as_ref() });
        core::iter::successors(waiter(self.waiting.get()), move |at| waiter(at.next.get()))
    }
}

impl<P, E: Copy> CacheOwner<P, E> {
    /// The shader: found, or compiled by this thread, or by another thread that already compiles it.
    ///
    /// `compile` runs at most once, without a lock; it may request other shaders. If it unwinds, a waiting thread
    /// compiles.
    ///
    /// # Errors
    /// [`CacheError::Compile`], from this thread or the one that it waited for; [`CacheError::Host`] before anything is
    /// compiled; [`CacheError::Recursive`]; [`CacheError::OtherDevice`].
    pub fn get_or_compile(
        &self,
        key: ShaderKey,
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<ShaderRef<'_, P, E>, CacheError<E>> {
        if key.device() != self.device() {
            return Err(CacheError::OtherDevice);
        }
        if let Some(found) = self.cache.get(key) {
            return Ok(found);
        }
        let core = self.cache.core();
        let shard = core.shard(key);
        let flight = Compile {
            key,
            owner: &raw const *self.owner,
            leader: waiting::number(),
            is_released: Cell::new(false),
            waiting: Cell::new(None),
            next: Cell::new(None),
        };
        loop {
            let locked = shard.lock();
            if let Some(found) = locked.find(key) {
                return Ok(self.cache.reference(found));
            }
            let running = locked.compiles().find(|running| running.key == key);
            if let Some(running) = running.map(NonNull::from) {
                if let Some(found) = self.join(shard, locked, running)? {
                    return Ok(found);
                }
            } else if locked.has_room() {
                let leader = Leader::begin(self, shard, locked, &flight);
                return leader.run(compile);
            } else {
                drop(locked);
                core.grow(shard)?;
            }
        }
    }

    fn join(
        &self,
        shard: &StateMutex<Shard<P, E>>,
        mut locked: ShardGuard<'_, P, E>,
        running: NonNull<Compile<P, E>>,
    ) -> Result<Option<ShaderRef<'_, P, E>>, CacheError<E>> {
        let waiter = Waiter { wait: Wait::new(), outcome: Cell::new(None), next: Cell::new(None) };
        let me = waiting::number();
        // SAFETY: in the list, under the lock.
        let joined = unsafe { running.as_ref() };
        // SAFETY: `waiter` stays on this stack, and its wait ends below.
        if me != 0 && !unsafe { waiter.wait.begin(me, joined.leader) } {
            return Err(CacheError::Recursive);
        }
        let next = joined.waiting.replace(Some(NonNull::from(&waiter)));
        waiter.next.set(next);
        locked.stats.joined += 1;
        drop(locked);
        waiting::wait_while(&waiter.wait.state, RUNNING);
        waiter.wait.end();
        // The compiling thread no longer uses `waiter` once it releases the lock.
        drop(shard.lock());
        match waiter.outcome.take() {
            Some(Ok(entry)) => Ok(Some(ShaderRef::new(&self.cache, entry))),
            Some(Err(error)) => Err(CacheError::Compile(error)),
            None => Ok(None),
        }
    }
}

/// Dropped without a result, it lets a waiting thread compile.
struct Leader<'o, 'f, P, E: Copy> {
    owner: &'o CacheOwner<P, E>,
    shard: &'o StateMutex<Shard<P, E>>,
    flight: &'f Compile<P, E>,
}

impl<'o, 'f, P, E: Copy> Leader<'o, 'f, P, E> {
    fn begin(
        owner: &'o CacheOwner<P, E>,
        shard: &'o StateMutex<Shard<P, E>>,
        mut locked: ShardGuard<'_, P, E>,
        flight: &'f Compile<P, E>,
    ) -> Self {
        locked.stats.compiling += 1;
        let next = locked.compiles.replace(NonNull::from(flight));
        flight.next.set(next);
        Self { owner, shard, flight }
    }

    fn run(self, compile: impl FnOnce() -> Result<CompiledShader<P>, E>) -> Result<ShaderRef<'o, P, E>, CacheError<E>> {
        let room = EntryRoom::new(self.owner.memory())?;
        match compile() {
            Ok(compiled) => Ok(self.succeed(room, compiled)),
            Err(error) => {
                let mut shard = self.shard.lock();
                shard.stats.failed += 1;
                self.finish(shard, Some(Err(error)));
                Err(CacheError::Compile(error))
            }
        }
    }

    fn succeed(
        self,
        room: EntryRoom<'_, P>,
        CompiledShader { value, bytes }: CompiledShader<P>,
    ) -> ShaderRef<'o, P, E> {
        let (cache, owner) = (&self.owner.cache, &self.owner.owner);
        let core = cache.core();
        let bytes = core.count_bytes(bytes);
        owner.compiled.fetch_add(1, Relaxed);
        let mut shard = self.shard.lock();
        let references = 1 + self.flight.waiters().count() as u64;
        let is_dead = self.flight.is_released.get();
        let entry = room.fill(CacheEntry::new(self.flight.key, (value, bytes), owner.clone(), (references, is_dead)));
        shard.add(entry);
        shard.stats.compiled += 1;
        core.entries.fetch_add(u64::from(!is_dead), SeqCst);
        self.finish(shard, Some(Ok(entry)));
        let compiled = ShaderRef::new(cache, entry);
        core.evict();
        compiled
    }

    fn finish(self, shard: ShardGuard<'_, P, E>, outcome: Option<Outcome<P, E>>) {
        ManuallyDrop::new(self).end(shard, outcome);
    }

    fn end(&self, mut shard: ShardGuard<'_, P, E>, outcome: Option<Outcome<P, E>>) {
        let (this, next) = (NonNull::from(self.flight), self.flight.next.get());
        let before = shard.compiles().find(|before| before.next.get() == Some(this));
        match before {
            Some(before) => before.next.set(next),
            None => shard.compiles = next,
        }
        shard.stats.compiling -= 1;
        let mut at = self.flight.waiting.get();
        // SAFETY: a thread in the list waits until its state changes, and then for the lock.
        while let Some(waiter) = at.map(|at| unsafe { at.as_ref() }) {
            at = waiter.next.get();
            waiter.outcome.set(outcome);
            waiter.wait.state.store(ENDED, Release);
            waiting::wake(&waiter.wait.state);
        }
    }
}

impl<P, E: Copy> Drop for Leader<'_, '_, P, E> {
    fn drop(&mut self) {
        self.end(self.shard.lock(), None);
    }
}

// Which threads wait for which compiles, in all caches. The call that would close a cycle fails.
//
// ```text
//   thread 1: compiles A, waits for B  -->  led by thread 2: compiles B, waits for A  -->  led by thread 1
// ```

/// Acquired while a cache's lock may be held, never the other way round.
static WAITING: StateMutex<List> = StateMutex::new(List(None));

struct List(Option<NonNull<Wait>>);

// SAFETY: its nodes are accessed only under its lock, and removed before they are dropped.
unsafe impl Send for List {}

pub(super) struct Wait {
    state: AtomicU32,
    /// The thread is 0 if none waits. Like `next` both are accessed only under the list's lock.
    thread: Cell<u64>,
    leader: Cell<u64>,
    next: Cell<Option<NonNull<Wait>>>,
}

impl Wait {
    pub(super) const fn new() -> Self {
        Self { state: AtomicU32::new(RUNNING), thread: Cell::new(0), leader: Cell::new(0), next: Cell::new(None) }
    }

    /// False, and nothing changed, if `leader` is this thread or waits for it.
    ///
    /// # Safety
    /// It must not be waiting, and must be neither moved nor forgotten before it is [ended](Self::end) or dropped.
    pub(super) unsafe fn begin(&self, thread: u64, leader: u64) -> bool {
        let mut list = WAITING.lock();
        let mut after = leader;
        while after != thread {
            let Some(next) = list.leader_of(after) else {
                self.thread.set(thread);
                self.leader.set(leader);
                self.next.set(list.0);
                list.0 = Some(NonNull::from(self));
                return true;
            };
            after = next;
        }
        false
    }

    pub(super) fn end(&self) {
        let mut list = WAITING.lock();
        if self.thread.replace(0) == 0 {
            return;
        }
        let (this, next) = (NonNull::from(self), self.next.take());
        if list.0 == Some(this) {
            list.0 = next;
        } else if let Some(before) = list.find(|wait| wait.next.get() == Some(this)) {
            before.next.set(next);
        }
    }

    /// A thread does not count once the compile has ended, even if it has not woken yet.
    fn is_for(&self, thread: u64) -> bool {
        self.thread.get() == thread && self.state.load(Acquire) == RUNNING
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.end();
    }
}

impl List {
    fn find(&self, is: impl Fn(&Wait) -> bool) -> Option<&Wait> {
        let mut at = self.0;
        while let Some(there) = at {
            // SAFETY: in the list, so not dropped yet: `end` removes it, under this lock.
            let wait = unsafe { there.as_ref() };
            if is(wait) {
                return Some(wait);
            }
            at = wait.next.get();
        }
        None
    }

    fn leader_of(&self, thread: u64) -> Option<u64> {
        self.find(|wait| wait.is_for(thread)).map(|wait| wait.leader.get())
    }
}

#[cfg(test)]
mod wait_cycles_tests {
    use super::*;
    use crate::sync::Ordering::Release;

    const FROM: u64 = 1 << 60;

    #[test]
    fn whoever_would_close_a_circle_is_told_and_one_that_has_landed_is_none() {
        let waits = [const { Wait::new() }; 4];
        // SAFETY: none is moved; each is ended or dropped.
        let begin =
            |thread: usize, leader: usize| unsafe { waits[thread].begin(FROM + thread as u64, FROM + leader as u64) };
        assert!(!begin(0, 0), "it leads what it asks for");
        assert!(begin(0, 1) && begin(1, 2) && begin(2, 3));
        assert!(!begin(3, 0) && !begin(3, 2) && !begin(3, 3));
        waits[1].state.store(ENDED, Release);
        assert!(begin(3, 0), "1 does not wait for 2 any more, though it has not noticed");
        waits[3].end();
        waits[1].end();
        waits[1].state.store(RUNNING, Release);
        assert!(begin(3, 1), "and 1 waits for nobody");
        waits.iter().for_each(Wait::end);
        waits.iter().for_each(Wait::end);
        assert!(begin(3, 0), "nobody waits");
    }
}
