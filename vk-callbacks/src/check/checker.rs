use core::cell::Cell;
use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::num::NonZeroU64;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering;

use alloc_core::support::watch_forks;
use alloc_core::{HostAllocator, HostError, HostSource, Rejected, TryVec};

use super::engine::{CallbackCall, Engine};
use super::entry::{Checked, Handed, HandedOut, Watched, caller_context};
use super::finding::CheckFinding;
use super::owner::{CallbackOwner, CheckOptions, CheckedOwner, OwnerUsage};
use super::records::{WatchedEntry, identity, key_of};
use super::table::{Cursor, ShardedTable};
use super::user_data;
use crate::command::thread::{Running, ThreadState, is_busy, with_state};
use crate::command::{Command, CommandFrame, Creation, OwnerId};
use crate::driver::CallbackAllocator;
use crate::error::{CallbackError, CallbacksInUse};
use crate::pinned::{PinnedList, allocate_pinned, free_pinned};
use crate::raw::RawCallbacks;

/// A checker of any callbacks: it reports broken [rules](crate::Rule), and who broke them.
///
/// [`wrap`](Checker::wrap) returns the callbacks to pass to Vulkan instead. Pointers, sizes and alignments pass
/// unchanged; each block has a record of 64 bytes in the memory of [`Checker::new`]. The inner functions are called
/// while the checker holds no lock. Two calls are refused:
///
/// - a free or reallocation of an unknown or freed pointer is reported and **not** passed on. One of another owner's
///   block is reported and passed on to that owner's callbacks; between owners [without callbacks of their
///   own](Checker::add_owner) it is passed on as it came, and otherwise not at all;
/// - a request without memory for its record is answered with NULL.
///
/// The checker needs to know commands ([`run`](Checker::run)) and handles ([`created`](Checker::created),
/// [`destroyed`](Checker::destroyed)). Without the feature `std` there are no commands, and rules that need them are
/// not checked.
///
/// A block should pass one wrapper only.
///
/// ```
/// use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope, Scoped};
/// use vk_callbacks::{Bridge, CheckOptions, Checker, Command, Owners};
/// use vk_callbacks::check::{CheckedOwner, FindingKind};
/// use vk_callbacks::command::BracketCoverage;
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
/// let bridge = Bridge::new(root.child("buffers")?)?;
///
/// let checker = Checker::new(&SYSTEM, CheckOptions::default())?;
/// // SAFETY: the bridge outlives the checker's use.
/// let checked = unsafe { checker.wrap(bridge.raw(), CheckedOwner::new(bridge.owner(), "VkBuffer")) }?;
/// let callbacks = *checked.raw(); // to vkCreateBuffer as pAllocator
///
/// let owners = Owners { object: Some(bridge.owner()), ..Owners::default() };
/// # #[cfg(feature = "std")]
/// checker.run(Command::new("vkCreateBuffer", owners, BracketCoverage::Complete), |frame| {
///     // A driver that requests an alignment of 3, and forgets the block.
///     // SAFETY: the checker is alive.
///     unsafe { callbacks.pfn_allocation.unwrap()(callbacks.p_user_data, 100, 3, Scope::Command as i32) };
///     // SAFETY: the checker is alive here, too.
///     let block = unsafe { callbacks.pfn_allocation.unwrap()(callbacks.p_user_data, 100, 8, Scope::Command as i32) };
/// #   let _ = block;
///     frame.returned(0);
/// });
/// # #[cfg(feature = "std")]
/// # {
/// let findings = checker.findings(Scoped::new(&SYSTEM, Scope::Object))?;
/// let kinds: Vec<_> = findings.iter().map(|found| found.kind).collect();
/// assert_eq!(kinds, [FindingKind::BadAlignment, FindingKind::CommandBlockLeft]);
/// # }
/// # drop(unsafe { checker.close_anyway() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("validation"))]
pub struct Checker<'h> {
    /// Owned.
    shared: NonNull<CheckerState<'h>>,
}

// SAFETY: only shared references reach the shared part, which is `Sync`.
unsafe impl Send for Checker<'_> {}
// SAFETY: only shared references reach the shared part, which is `Sync`.
unsafe impl Sync for Checker<'_> {}

/// It is pinned in the checker's memory.
pub(super) struct CheckerState<'h> {
    pub(super) engine: Engine<'h, 'static>,
    watched: ShardedTable<'h, WatchedEntry>,
    handed: PinnedList<'h, Handed>,
}

const WATCHED_ROOM: usize = 7;

impl<'h> Checker<'h> {
    /// The records lie in `memory`, which must not come from callbacks that the checker watches: about 30 kB now, more
    /// for requests, commands and handles, never for a free.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn new(memory: &'h (dyn HostAllocator + Sync), options: CheckOptions) -> Result<Self, CallbackError> {
        Self::of_engine(Engine::new(memory, options, false))
    }

    /// As [`Checker::new`], with `module`, which names the file of the program or library that calls a callback of this
    /// thread; empty if unknown. The checker calls it for findings about unknown pointers and frees past the callbacks,
    /// while it holds no lock. It must not call a callback.
    pub fn naming_callers(
        memory: &'h (dyn HostAllocator + Sync),
        options: CheckOptions,
        module: fn() -> &'static str,
    ) -> Result<Self, CallbackError> {
        let mut engine = Engine::new(memory, options, false);
        engine.caller_module = Some(module);
        Self::of_engine(engine)
    }

    fn of_engine(engine: Engine<'h, 'static>) -> Result<Self, CallbackError> {
        watch_forks();
        let engine = engine.with_reserved_rows()?;
        let memory = engine.memory();
        let mut watched = ShardedTable::new(memory, false, usize::MAX);
        watched.reserve(WATCHED_ROOM)?;
        let handed = PinnedList::new(memory);
        Ok(Self { shared: allocate_pinned(memory, CheckerState { engine, watched, handed })? })
    }

    /// Returns callbacks that check each call and pass it on to `inner`.
    ///
    /// # Errors
    /// [`CallbackError::MissingFunction`] and [`CallbackError::HalfInternal`], which are findings too (V1 to V4);
    /// [`CallbackError::TooManyOwners`] if 262 144 are watched in this process; the refusal of the checker's memory.
    ///
    /// # Safety
    /// - The functions of `inner` may be called with its user data, from any thread, as long as the returned functions
    ///   may.
    /// - No returned function is called while the checker is closed or dropped. (A checker that is dropped while blocks
    ///   are live is leaked: then until the checker's memory ends.)
    pub unsafe fn wrap(&self, inner: RawCallbacks, owner: CheckedOwner) -> Result<Checked, CallbackError> {
        let engine = &self.shared().engine;
        engine.registered(&CallbackOwner::new(owner, None), &inner);
        check_complete(&inner)?;
        // They are looked up last, because an allocation before may call back and watch them.
        let of_same = || self.group_of(&inner).filter(|_| owner.group == 0);
        let new = Cell::new(None);
        let checked = self.watch(inner, || {
            let owner = engine.add_owner(|| CallbackOwner::new(owner, of_same()))?;
            new.set(Some(owner));
            Ok(owner)
        })?;
        if let Some(owner) = new.get() {
            owner.set_user_data(checked.raw().p_user_data.addr());
        }
        Ok(checked)
    }

    /// Adds an owner whose callbacks come later, each by [`Checker::wrap_for`]: for kinds whose objects have callbacks
    /// of their own (V5).
    ///
    /// # Errors
    /// The refusal of the checker's memory.
    pub fn add_owner(&self, owner: CheckedOwner) -> Result<(), CallbackError> {
        let engine = &self.shared().engine;
        engine.add_owner(|| CallbackOwner::new(owner, None))?;
        Ok(())
    }

    /// As [`Checker::wrap`], for an added owner: all its callbacks are compatible. Identical callbacks are watched
    /// once, until they were [retired](Checker::retire) as often as they were wrapped.
    ///
    /// # Errors
    /// [`CallbackError::UnknownOwner`], and those of [`Checker::wrap`].
    ///
    /// # Safety
    /// As of [`Checker::wrap`].
    pub unsafe fn wrap_for(&self, inner: RawCallbacks, owner: OwnerId) -> Result<Checked, CallbackError> {
        let shared = self.shared();
        let known = shared.engine.owner(owner);
        let known = known.ok_or(CallbackError::UnknownOwner)?;
        shared.engine.registered(known, &inner);
        check_complete(&inner)?;
        let like = WatchedEntry::new(&inner, known, ptr::null_mut());
        let again = shared.watched.with(&like, WatchedEntry::use_again);
        if let Some(user_data) = again.flatten() {
            return Ok(Checked::new(&inner, user_data));
        }
        self.watch(inner, || Ok(known))
    }

    /// Ends wrapped callbacks and frees their record. Does nothing for callbacks of another checker, or a second time.
    ///
    /// # Safety
    /// Unless they were wrapped more often than retired, none of their functions is running or will be called, not even
    /// for a leftover block, which a driver might also free through other callbacks of the checker if they are those of
    /// [`wrap`](Checker::wrap). (A later call counts as [stray](crate::check::stray_callbacks).)
    pub unsafe fn retire(&self, checked: &Checked) {
        let shared = self.shared();
        let user_data = checked.raw().p_user_data;
        let Some(watched) = user_data::find(user_data) else {
            return;
        };
        let watched = watched.cast::<Watched<'h>>();
        // SAFETY: the user data leads to a live value, which no other thread retires meanwhile.
        let entry = unsafe { &*watched }.entry(user_data);
        let ended = shared.watched.with(&entry, |there| {
            let ours = there.user_data == entry.user_data && there.uses > 0;
            there.uses = there.uses.saturating_sub(u32::from(ours));
            ours && there.uses == 0
        });
        if ended == Some(true)
            && let Some(watched) = NonNull::new(watched)
        {
            user_data::release(user_data);
            // SAFETY: placed in this memory by `watch`, and nothing leads to it any more.
            let _ = unsafe { free_pinned(shared.engine.memory(), watched) };
        }
    }

    /// `owner` is called after all other allocations.
    fn watch<'s>(
        &'s self,
        inner: RawCallbacks,
        owner: impl FnOnce() -> Result<&'s CallbackOwner<'static>, CallbackError>,
    ) -> Result<Checked, CallbackError> {
        let shared = self.shared();
        let memory = shared.engine.memory();
        let room = shared.watched.promise()?;
        let watched = allocate_pinned(memory, Watched::new(self.shared, NonNull::dangling(), inner))?;
        let undo = |user_data: Option<*mut c_void>| {
            user_data.into_iter().for_each(user_data::release);
            // SAFETY: placed above, and the user data was not returned.
            let _ = unsafe { free_pinned(memory, watched) };
        };
        let Some(user_data) = user_data::claim(watched.as_ptr().cast()) else {
            undo(None);
            return Err(CallbackError::TooManyOwners);
        };
        let owner = match owner() {
            Ok(owner) => owner,
            Err(error) => {
                undo(Some(user_data));
                return Err(error);
            }
        };
        // SAFETY: placed above; the user data was not returned yet.
        unsafe { (*watched.as_ptr()).owner = NonNull::from(owner) };
        let entry = WatchedEntry::new(&inner, owner, user_data);
        let mut other = None;
        room.put(entry, |there| {
            // Another thread wrapped identical ones meanwhile, or they ended before.
            other = there.use_again();
            if other.is_none() {
                *there = entry;
            }
        });
        if other.is_some() {
            undo(Some(user_data));
        }
        Ok(Checked::new(&inner, other.unwrap_or(user_data.addr())))
    }

    fn group_of(&self, raw: &RawCallbacks) -> Option<u64> {
        let identity = identity(raw);
        let mut group = None;
        self.shared().watched.among(key_of(&identity), |entry| {
            let same = entry.uses > 0 && entry.identity == identity;
            group = same.then_some(entry.group);
            same
        });
        group
    }

    /// Runs `body` as this command, as [`Command::run`] does, and checks it when it returned (V9, V25, V28). The body
    /// reports the result by [`CommandFrame::returned`].
    pub fn run<R>(&self, command: Command, body: impl FnOnce(&CommandFrame) -> R) -> R {
        let engine = &self.shared().engine;
        engine.make_ready();
        let checker = ptr::from_ref(engine).cast();
        with_state(|thread| {
            if thread.was_early_for(checker) {
                engine.thread_issues(thread.number());
            }
            let above = thread.top();
            // The object of a command is reported before the thread's next command.
            remember(thread, engine, None);
            command.run_on(thread, checker, |frame| {
                let bracket = frame.bracket();
                engine.command_begins(bracket, bracket.serial, frame.entered_in_callback());
                let running = thread.start(checker);
                if let Running::Unplaced = running {
                    engine.running.fetch_add(1, Ordering::Relaxed);
                }
                let _leaving = Leaving { engine, frame, above, thread, running };
                body(frame)
            })
        })
    }

    /// A command created an object with callbacks of `owner`, or with none (V42 to V44). Call it for each object, on
    /// the thread of the command; a handle of 0 is no object. If an instance or a device is reported, so must be all
    /// objects below (V41). Without memory for a record, the object counts as [lost](Checker::lost).
    pub fn created(&self, kind: &'static str, handle: u64, owner: Option<OwnerId>) {
        let engine = &self.shared().engine;
        let owner = owner.and_then(|id| engine.owner(id));
        engine.created(kind, handle, owner);
        with_state(|thread| {
            // If it is the object of the thread's last command, that one is complete.
            let pending = thread.swap_creation(None);
            let of_it = |of: *const (), creation: Creation| {
                of == ptr::from_ref(engine).cast()
                    && !creation.many()
                    && owner.is_some_and(|owner| owner.number() == creation.owner())
            };
            match pending {
                Some((of, creation)) if of_it(of, creation) => engine.object_created(creation, owner),
                _ => drop(thread.swap_creation(pending)),
            }
        });
    }

    /// `command` destroyed an object with callbacks of `owner`, or with none, and returned (V42 to V44).
    ///
    /// If it was the last object of its callbacks, their live blocks are leftovers (V41).
    pub fn destroyed(&self, kind: &'static str, handle: u64, owner: Option<OwnerId>, command: &'static str) {
        let engine = &self.shared().engine;
        let caller = caller_context();
        let owner = owner.and_then(|id| engine.owner(id));
        if let Some(owner) = engine.destroyed(&caller, kind, handle, owner, command) {
            let call = CallbackCall { caller, owner, callbacks: 0 };
            engine.report_left_by(&call, command, None);
        }
    }

    /// Another allocator, such as the C library's, is called to free or reallocate `block`. True if that is a live
    /// block of an owner that `is_judged` accepts: it was reported (V19), counts as freed, and **must not** be freed
    /// there. Allocates nothing, and reads nothing at the address. False inside of callbacks.
    #[must_use]
    pub fn freed_elsewhere(&self, block: *const c_void, is_judged: impl FnOnce(OwnerId) -> bool) -> bool {
        let Some(address) = NonZeroU64::new(block.addr() as u64).filter(|_| !is_busy()) else {
            return false;
        };
        self.shared().engine.freed_elsewhere(caller_context, address, is_judged)
    }

    /// Returns a struct of these callbacks that can be [poisoned](HandedOut::poison) after its command returned (V6).
    ///
    /// # Errors
    /// The refusal of the checker's memory.
    pub fn hand_out(&self, checked: &Checked) -> Result<HandedOut<'_>, CallbackError> {
        let handed = || Handed::new(*checked.raw());
        Ok(HandedOut(self.shared().handed.push(handed)?))
    }

    /// The end of the check: live blocks and internal memory are leftovers. Reported ones are not reported again.
    pub fn finish(&self) {
        self.shared().engine.finish();
    }

    /// The findings so far, by rule and time, in memory of `memory`. Exact while no callback runs and no thread begins
    /// its first command.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn findings<A: HostSource>(&self, memory: A) -> Result<TryVec<CheckFinding<'static>, A>, HostError> {
        self.shared().engine.findings(memory)
    }

    /// As [`Checker::findings`], with the findings of a [`Checker::finish`] now: for a report during a run. Reads all
    /// records, and uses some of the checker's memory meanwhile.
    pub fn findings_at_end<A: HostSource>(&self, memory: A) -> Result<TryVec<CheckFinding<'static>, A>, HostError> {
        self.shared().engine.findings_at_end(memory)
    }

    /// The usage of an owner that is [counted](CheckedOwner::counted); none for any other.
    #[must_use]
    pub fn usage(&self, owner: OwnerId) -> Option<OwnerUsage> {
        self.shared().engine.owner(owner)?.usage()
    }

    /// The number of observations without room: about 14 000 different ones are kept, fewer if memory is refused.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared().engine.lost()
    }

    /// The number of live blocks. Reads all records.
    #[must_use]
    pub fn live_blocks(&self) -> usize {
        self.shared().engine.blocks.count()
    }

    /// Frees all memory, unless a block that passed the checker is live.
    ///
    /// # Errors
    /// The checker itself, if a block is live or this thread is inside a callback.
    pub fn close(self) -> Result<(), Rejected<Self, CallbacksInUse>> {
        match CallbacksInUse::of_blocks(self.live_blocks()) {
            None => Ok(()),
            Some(reason) => Err(Rejected::new(self, reason)),
        }
    }

    /// Frees all memory, whatever is live: for drivers that leak.
    ///
    /// # Safety
    /// No returned function is running. (Later calls count as [stray](crate::check::stray_callbacks), and are answered
    /// with NULL.)
    pub unsafe fn close_anyway(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: no returned function is running.
        unsafe { this.destroy_shared() }
    }

    fn shared(&self) -> &CheckerState<'h> {
        // SAFETY: placed by `new`, and stays until this checker ends.
        unsafe { self.shared.as_ref() }
    }

    /// # Safety
    /// Called once; nothing reaches the shared part or the watched callbacks afterwards.
    unsafe fn destroy_shared(&self) {
        let memory = self.shared().engine.memory();
        let mut cursor = Cursor::default();
        while let Some(entry) = self.shared().watched.next(&mut cursor, WatchedEntry::end) {
            let user_data = ptr::without_provenance_mut(entry.user_data);
            let watched = user_data::find(user_data).map(<*mut c_void>::cast::<Watched<'h>>);
            user_data::release(user_data);
            if let Some(watched) = watched.and_then(NonNull::new) {
                // SAFETY: placed in this memory by `watch`; no function of it runs.
                let _ = unsafe { free_pinned(memory, watched) };
            }
        }
        // SAFETY: placed by `new` in this memory, and nothing else reaches it.
        drop(unsafe { free_pinned(memory, self.shared) });
    }
}

fn check_complete(raw: &RawCallbacks) -> Result<(), CallbackError> {
    // SAFETY: no function is called.
    unsafe { CallbackAllocator::from_raw(raw) }.map(drop)
}

/// The previous one will not be reported any more.
fn remember(thread: &ThreadState, engine: &Engine<'_, 'static>, creation: Option<Creation>) {
    let at = ptr::from_ref(engine).cast::<()>();
    let before = thread.swap_creation(creation.map(|creation| (at, creation)));
    // Another checker's, which may have ended: there the object stays in creation.
    if let Some((_, before)) = before.filter(|(of, _)| *of == at) {
        engine.object_created(before, None);
    }
}

struct Leaving<'a, 'h> {
    engine: &'a Engine<'h, 'static>,
    frame: &'a CommandFrame,
    above: *const CommandFrame,
    thread: &'a ThreadState,
    running: Running,
}

impl Drop for Leaving<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        let bracket = self.frame.bracket();
        match self.running {
            Running::Placed(place) => place.store(ptr::null_mut(), Ordering::Relaxed),
            Running::Nested => {}
            Running::Unplaced => drop(self.engine.running.fetch_sub(1, Ordering::Relaxed)),
        }
        self.engine.command_returned(bracket, bracket.serial, None);
        if let Some(creation) = bracket.creation.get() {
            remember(self.thread, self.engine, Some(creation));
        }
        // A refused request of the inner command is one of the outer command, too.
        // SAFETY: null or the frame of a `run` further up this thread's stack, which ends after this one.
        if let Some(above) = unsafe { self.above.as_ref() } {
            let nulls = &above.bracket().nulls;
            nulls.set(nulls.get().saturating_add(bracket.nulls.get()));
        }
    }
}

impl Drop for Checker<'_> {
    fn drop(&mut self) {
        // Better a leak than a dangling pointer: the driver may still call the callbacks.
        if self.live_blocks() == 0 && !is_busy() {
            // SAFETY: nothing is live, and `wrap` requires that no function is called from here on.
            unsafe { self.destroy_shared() }
        }
    }
}

impl fmt::Debug for Checker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker")
            .field("live_blocks", &self.live_blocks())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}
