//! The live checker: what the application holds.

use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::num::NonZeroU64;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::{HostAllocator, HostError, HostSource, Rejected, TryVec};

use super::engine::Engine;
use super::entry::{Checked, Watched, caller_context};
use super::finding::CheckFinding;
use super::handed_out::{Handed, HandedOut};
use super::options::{CheckOptions, CheckedOwner};
use super::owner::CallbackOwner;
use super::owner_usage::OwnerUsage;
use super::table::{Cursor, NoRoom, ShardedTable};
use super::user_data;
use super::watched_entry::{WatchedEntry, identity, key_of};
use crate::command::thread::{Running, ThreadState, is_busy, with_state};
use crate::command::{Command, CommandFrame, Making, OwnerId};
use crate::error::{CallbackError, CallbacksInUse, Function};
use crate::pinned::{SCOPE, allocate_pinned, free_pinned};
use crate::raw::RawCallbacks;

/// Watches callbacks, whosever they are, and says which of the [rules](crate::Rule) were broken by whom.
///
/// A decorator: [`wrap`](Checker::wrap) answers callbacks to hand on instead. Pointers, sizes and alignments go through unchanged;
/// each block has a record of 48 bytes in a table beside, from the memory given to [`Checker::new`]. Its functions are called
/// with none of the checker's locks held. What is refused:
///
/// - a pointer to free or to reallocate that it does not know, or that went already, is reported and **not** passed on;
/// - when there is no memory for a record the request is answered with NULL.
///
/// What it can tell depends on what it is told: commands through [`run`](Checker::run), handles through
/// [`created`](Checker::created) and [`destroyed`](Checker::destroyed). All methods may be called from any thread. Without the feature
/// `std` there are no commands, and no rule that needs them is judged.
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
///     // A driver that asks with an alignment of 3, and forgets the block.
///     // SAFETY: the checker is alive.
///     unsafe { callbacks.pfn_allocation.unwrap()(callbacks.p_user_data, 100, 3, Scope::Command as i32) };
///     // SAFETY: as above.
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
pub struct Checker<'h> {
    /// Ours until we go.
    shared: NonNull<CheckerState<'h>>,
}

// SAFETY: the shared part is reached through shared references only, and is `Sync`.
unsafe impl Send for Checker<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Checker<'_> {}

/// What the checker and its callbacks share; lies in the checker's memory and does not move.
pub(super) struct CheckerState<'h> {
    pub(super) engine: Engine<'h, 'static>,
    watched: ShardedTable<'h, WatchedEntry>,
    handed: AtomicPtr<Handed>,
}

/// Callbacks of which each shard of their table has room from the beginning.
const WATCHED_ROOM: usize = 8;

impl<'h> Checker<'h> {
    /// A checker that has seen nothing. What it knows lies in `memory`, which must not come from callbacks that it watches: about
    /// 30 kB now, more when a request, a command or a handle needs it, never when something is freed.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn new(
        memory: &'h (dyn HostAllocator + Sync),
        options: CheckOptions,
    ) -> Result<Self, CallbackError> {
        Self::of_engine(Engine::new(memory, options, false).frugal()?)
    }

    /// As [`Checker::new`], with `module`, which names the file of the program or library that is calling a callback of this thread, or an
    /// [allocator past them](Checker::freed_elsewhere); an empty name where that is not known. It is called for findings about pointers that
    /// no callback gave or that went past them, with no lock held, and must not call a callback.
    ///
    /// # Errors
    /// As of [`Checker::new`].
    pub fn naming_callers(
        memory: &'h (dyn HostAllocator + Sync),
        options: CheckOptions,
        module: fn() -> &'static str,
    ) -> Result<Self, CallbackError> {
        let mut engine = Engine::new(memory, options, false).frugal()?;
        engine.caller_module = Some(module);
        Self::of_engine(engine)
    }

    fn of_engine(engine: Engine<'h, 'static>) -> Result<Self, CallbackError> {
        let memory = engine.memory();
        let mut watched = ShardedTable::new(memory, false, usize::MAX);
        let layout = Layout::new::<[Option<WatchedEntry>; WATCHED_ROOM]>();
        watched
            .reserve(WATCHED_ROOM)
            .map_err(|NoRoom| memory.refusal(layout, SCOPE))?;
        let handed = AtomicPtr::new(ptr::null_mut());
        Ok(Self {
            shared: allocate_pinned(
                memory,
                CheckerState {
                    engine,
                    watched,
                    handed,
                },
            )?,
        })
    }

    /// Callbacks that watch each call and pass it on to `inner`.
    ///
    /// # Errors
    /// [`CallbackError::MissingFunction`] and [`CallbackError::HalfInternal`], which are findings too (V1 to V4);
    /// [`CallbackError::TooManyOwners`] when 262 144 are watched in this process; the refusal of the checker's memory.
    ///
    /// # Safety
    /// - The functions of `inner` may be called with its user data, from any thread, for as long as those answered may.
    /// - No function that was answered is called while the checker is being closed or dropped. (One that is dropped while
    ///   blocks are live is leaked: then until the checker's memory is gone.)
    pub unsafe fn wrap(
        &self,
        inner: RawCallbacks,
        owner: CheckedOwner,
    ) -> Result<Checked, CallbackError> {
        let engine = &self.shared().engine;
        engine.registered(&CallbackOwner::new(owner, None), &inner);
        complete(&inner)?;
        // The very same callbacks are compatible, whatever they are called: who looks for them does so last, since the memory that is
        // taken before may have called us back, and watched them.
        let of_same = || self.group_of(&inner).filter(|_| owner.group == 0);
        self.watch(inner, || {
            Ok(engine.add_owner(|| CallbackOwner::new(owner, of_same()))?)
        })
    }

    /// Adds an owner whose callbacks come later, each by [`Checker::wrap_for`]: where every object of a kind may bring its own (V5).
    ///
    /// # Errors
    /// The refusal of the checker's memory.
    pub fn add_owner(&self, owner: CheckedOwner) -> Result<(), CallbackError> {
        let engine = &self.shared().engine;
        engine.add_owner(|| CallbackOwner::new(owner, None))?;
        Ok(())
    }

    /// As [`Checker::wrap`], for an owner that is known: all its callbacks are compatible. The very same callbacks are watched once, and
    /// end when they were [retired](Checker::retire) as often as they were wrapped.
    ///
    /// # Errors
    /// As of [`Checker::wrap`]; [`CallbackError::UnknownOwner`].
    ///
    /// # Safety
    /// As of [`Checker::wrap`].
    pub unsafe fn wrap_for(
        &self,
        inner: RawCallbacks,
        owner: OwnerId,
    ) -> Result<Checked, CallbackError> {
        let shared = self.shared();
        let known = shared.engine.owner(owner);
        let known = known.ok_or(CallbackError::UnknownOwner)?;
        shared.engine.registered(known, &inner);
        complete(&inner)?;
        let like = WatchedEntry::new(&inner, known, ptr::null_mut());
        let again = shared.watched.with(&like, WatchedEntry::use_again);
        if let Some(user_data) = again.flatten() {
            return Ok(Checked::new(&inner, user_data));
        }
        self.watch(inner, || Ok(known))
    }

    /// Ends callbacks that were wrapped: their place and record are free for others. Nothing is done for others' callbacks, or a second time.
    ///
    /// # Safety
    /// If they were not wrapped more often than retired, none of their functions is running or will be called, not for a block that is
    /// left either. (A later call finds nobody: it counts as [stray](crate::check::stray_callbacks).)
    pub unsafe fn retire(&self, checked: &Checked) {
        let shared = self.shared();
        let user_data = checked.raw().p_user_data;
        let Some(watched) = user_data::find(user_data) else {
            return;
        };
        let watched = watched.cast::<Watched<'h>>();
        // SAFETY: what the user data leads to is there, which the caller promises nobody ends meanwhile.
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
            // SAFETY: placed in this memory by `watch`; nothing leads to it any more, and the caller promises that nobody is in it.
            let _ = unsafe { free_pinned(shared.engine.memory(), watched) };
        }
    }

    /// Watches `inner` for the owner that `owner` adds or knows, once there is memory for all else.
    fn watch<'s>(
        &'s self,
        inner: RawCallbacks,
        owner: impl FnOnce() -> Result<&'s CallbackOwner<'static>, CallbackError>,
    ) -> Result<Checked, CallbackError> {
        let shared = self.shared();
        let memory = shared.engine.memory();
        let room = shared.watched.promise();
        let room = room.map_err(|NoRoom| memory.refusal(Layout::new::<WatchedEntry>(), SCOPE))?;
        let watched = allocate_pinned(
            memory,
            Watched::new(self.shared, NonNull::dangling(), inner),
        )?;
        let undo = |user_data: Option<*mut c_void>| {
            user_data.into_iter().for_each(user_data::release);
            // SAFETY: placed above, and nobody was given the user data.
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
        // SAFETY: placed above; nobody was given the user data yet.
        unsafe { (*watched.as_ptr()).owner = NonNull::from(owner) };
        let entry = WatchedEntry::new(&inner, owner, user_data);
        let mut other = None;
        // There is room: it was promised.
        let _ = room.put(entry, |there| {
            // Another thread wrapped the same ones meanwhile; or these ended before, and the entry is there still.
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

    /// The group of callbacks that are watched and are these: the same functions with the same user data.
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

    /// Runs `body` as this command, as [`Command::run`] does, and judges it when it has returned (V9, V25, V28).
    ///
    /// The body says what the command answered: [`CommandFrame::returned`].
    pub fn run<R>(&self, command: Command, body: impl FnOnce(&CommandFrame) -> R) -> R {
        let engine = &self.shared().engine;
        engine.make_ready();
        let checker = ptr::from_ref(engine).cast();
        with_state(|thread| {
            if thread.was_early_for(checker) {
                engine.thread_issues(thread.number());
            }
            let above = thread.top();
            // Whoever tells of what a command made does so before the thread's next command.
            remember(thread, engine, None);
            command.run_on(thread, checker, |frame| {
                let bracket = frame.bracket();
                engine.entered(bracket, bracket.serial, frame.entered_in_callback());
                let running = thread.start(checker);
                if let Running::Unplaced = running {
                    engine.running.fetch_add(1, Ordering::Relaxed);
                }
                let _leaving = Leaving {
                    engine,
                    frame,
                    above,
                    thread,
                    running,
                };
                body(frame)
            })
        })
    }

    /// A command has made an object with callbacks of `owner`, or with none (V42 to V44). To be told after each create, once for
    /// each object that came of it, by the thread that ran the command; a handle of 0 is none. Who tells of an instance or a device
    /// tells of all objects below: what such an object holds is not left when its parent goes (V41). When there is no memory for it, it counts as [lost](Checker::lost).
    pub fn created(&self, kind: &'static str, handle: u64, owner: Option<OwnerId>) {
        let engine = &self.shared().engine;
        let owner = owner.and_then(|id| engine.owner(id));
        engine.created(kind, handle, owner);
        report_creation(engine, owner);
    }

    /// `command` has returned, which ended an object with callbacks of `owner`, or with none (V42 to V44).
    ///
    /// When it was the last object that was made with its callbacks, what they still hold is left (V41).
    pub fn destroyed(
        &self,
        kind: &'static str,
        handle: u64,
        owner: Option<OwnerId>,
        command: &'static str,
    ) {
        let engine = &self.shared().engine;
        let who = caller_context();
        if let Some(last) = engine.destroyed(
            &who,
            kind,
            handle,
            owner.and_then(|id| engine.owner(id)),
            command,
        ) {
            engine.left_by(last, &who, command, None);
        }
    }

    /// Another allocator, such as the C library's, is asked to free or to reallocate `block`. Whether that is a live block of callbacks of
    /// an owner that is to be judged: then it is reported (V19), counts as gone, and **must not** be freed, since the allocator did not give
    /// it. Takes no memory, and reads nothing at the address. False inside of callbacks, which free what they like.
    #[must_use]
    pub fn freed_elsewhere(
        &self,
        block: *const c_void,
        is_judged: impl FnOnce(OwnerId) -> bool,
    ) -> bool {
        let Some(address) = NonZeroU64::new(block.addr() as u64).filter(|_| !is_busy()) else {
            return false;
        };
        self.shared()
            .engine
            .freed_elsewhere(caller_context, address, is_judged)
    }

    /// A struct of these callbacks that can be [spoilt](HandedOut::poison) once the command that got it has returned (V6).
    ///
    /// # Errors
    /// The refusal of the checker's memory.
    pub fn hand_out(&self, checked: &Checked) -> Result<HandedOut<'_>, CallbackError> {
        let shared = self.shared();
        Ok(Handed::place(
            shared.engine.memory(),
            &shared.handed,
            *checked.raw(),
        )?)
    }

    /// The end: what is live now is left, internal memory too. What was told already is not told again.
    pub fn finish(&self) {
        self.shared().engine.finish();
    }

    /// What was found until now, by rule and time, in memory of `memory`. Exact when no callback is running.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn findings<A: HostSource>(
        &self,
        memory: A,
    ) -> Result<TryVec<CheckFinding<'static>, A>, HostError> {
        self.shared().engine.findings(memory)
    }

    /// As [`Checker::findings`], and with what [`Checker::finish`] would find now. Nothing is marked as told and the check goes on: this is
    /// for a report in the middle of a run. Looks at all records, and takes some of the checker's memory meanwhile.
    ///
    /// # Errors
    /// The refusal of `memory`, or of the checker's.
    pub fn findings_at_end<A: HostSource>(
        &self,
        memory: A,
    ) -> Result<TryVec<CheckFinding<'static>, A>, HostError> {
        self.shared().engine.findings_at_end(memory)
    }

    /// What came through the callbacks of an owner that is [counted](CheckedOwner::counted); none of any other.
    #[must_use]
    pub fn usage(&self, owner: OwnerId) -> Option<OwnerUsage> {
        self.shared().engine.owner(owner)?.usage()
    }

    /// Observations for which there was no room: about 16 000 different ones are kept, less where memory is refused.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared().engine.lost()
    }

    /// Blocks that are live. Looks at all records.
    #[must_use]
    pub fn live_blocks(&self) -> usize {
        self.shared().engine.blocks.count()
    }

    /// Gives all memory back, when nothing that went through the checker is live.
    ///
    /// # Errors
    /// The checker itself, when a block is live: its free would be called through callbacks that are gone. And when this thread is
    /// inside a callback, which may be one of them.
    pub fn close(self) -> Result<(), Rejected<Self, CallbacksInUse>> {
        match CallbacksInUse::of_blocks(self.live_blocks()) {
            None => Ok(()),
            Some(reason) => Err(Rejected::new(self, reason)),
        }
    }

    /// Gives all memory back, whatever is live: for drivers that leak.
    ///
    /// # Safety
    /// No function of any callbacks that were answered is being called. (Later calls find nobody: they count as
    /// [stray](crate::check::stray_callbacks), and are answered with NULL.)
    pub unsafe fn close_anyway(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the caller's promise; `this` is not dropped again.
        unsafe { this.destroy_shared() }
    }

    fn shared(&self) -> &CheckerState<'h> {
        // SAFETY: placed by `new`, and stays until this checker goes.
        unsafe { self.shared.as_ref() }
    }

    /// # Safety
    /// Called once; nothing reaches the shared part or what is watched afterwards.
    unsafe fn destroy_shared(&self) {
        let memory = self.shared().engine.memory();
        let mut cursor = Cursor::default();
        while let Some(entry) = self.shared().watched.next(&mut cursor, WatchedEntry::end) {
            let user_data = ptr::without_provenance_mut(entry.user_data);
            let watched = user_data::find(user_data).map(<*mut c_void>::cast::<Watched<'h>>);
            user_data::release(user_data);
            if let Some(watched) = watched.and_then(NonNull::new) {
                // SAFETY: forwarded: placed in this memory by `watch`, and nobody is in it.
                let _ = unsafe { free_pinned(memory, watched) };
            }
        }
        // SAFETY: forwarded, as above.
        unsafe { Handed::claim_all(memory, &self.shared().handed) };
        // SAFETY: placed by `new` in this memory, and the caller promises that nothing else reaches it.
        drop(unsafe { free_pinned(memory, self.shared) });
    }
}

/// The functions that must be there (V1 to V4).
const fn complete(raw: &RawCallbacks) -> Result<(), CallbackError> {
    let missing = match raw {
        RawCallbacks {
            pfn_allocation: None,
            ..
        } => Function::Allocation,
        RawCallbacks {
            pfn_reallocation: None,
            ..
        } => Function::Reallocation,
        RawCallbacks { pfn_free: None, .. } => Function::Free,
        _ if raw.pfn_internal_allocation.is_some() != raw.pfn_internal_free.is_some() => {
            return Err(CallbackError::HalfInternal);
        }
        _ => return Ok(()),
    };
    Err(CallbackError::MissingFunction(missing))
}

/// What this thread's last command was making, for this engine; what was before, nobody will tell of.
fn remember(thread: &ThreadState, engine: &Engine<'_, 'static>, making: Option<Making>) {
    let at = ptr::from_ref(engine).cast::<()>();
    let before = thread.swap_making(making.map(|making| (at, making)));
    // Another checker's, which may be gone: there it goes on being made, and nothing is said.
    if let Some((_, before)) = before.filter(|(of, _)| *of == at) {
        engine.object_created(before, None);
    }
}

/// An object was told of: if it is the one that the last command made, that is over.
fn report_creation(engine: &Engine<'_, 'static>, owner: Option<&CallbackOwner<'static>>) {
    with_state(|thread| report_pending(thread, engine, owner));
}

fn report_pending(
    thread: &ThreadState,
    engine: &Engine<'_, 'static>,
    owner: Option<&CallbackOwner<'static>>,
) {
    let pending = thread.swap_making(None);
    let of_it = |of: *const (), making: Making| {
        of == ptr::from_ref(engine).cast()
            && !making.many()
            && owner.is_some_and(|owner| owner.number() == making.owner())
    };
    match pending {
        Some((of, making)) if of_it(of, making) => engine.object_created(making, owner),
        _ => drop(thread.swap_making(pending)),
    }
}

/// Judges the command when its body has returned, or unwinds.
struct Leaving<'a, 'h> {
    engine: &'a Engine<'h, 'static>,
    frame: &'a CommandFrame,
    /// The command that this one was called from.
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
        self.engine.command_left(bracket, bracket.serial, None);
        if let Some(making) = bracket.making.get() {
            remember(self.thread, self.engine, Some(making));
        }
        // A request that was refused below was refused to the outer command, too.
        // SAFETY: null or the frame of a `run` further up this thread's stack, which ends after this one.
        if let Some(above) = unsafe { self.above.as_ref() } {
            let nulls = &above.bracket().nulls;
            nulls.set(nulls.get().saturating_add(bracket.nulls.get()));
        }
    }
}

impl Drop for Checker<'_> {
    fn drop(&mut self) {
        // A driver may hold callbacks that lead here while a block is live, or this is one of them: better a leak than a dangling pointer.
        if self.live_blocks() == 0 && !is_busy() {
            // SAFETY: nothing is live, and who wrapped promised to call nothing from here on.
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
