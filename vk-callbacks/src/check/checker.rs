//! The live checker: what the application holds.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicPtr;

use alloc_core::{HostAllocator, HostError, HostSource, TryVec};

use super::engine::Engine;
use super::entry::{Checked, Watched, who_calls};
use super::found::Found;
use super::handed::{Handed, HandedOut};
use super::options::{CheckOptions, CheckedOwner};
use super::owner::{Making, Owner};
use super::slots;
use crate::command::{Command, Frame, OwnerId};
use crate::error::{CallbackError, Function};
use crate::placed::{place, take_back};
use crate::raw::RawCallbacks;
use crate::thread;

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
/// use vk_callbacks::{Bridge, CheckOptions, CheckedOwner, Checker, Command, Coverage, FindingKind, Owners};
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
/// checker.run(Command::new("vkCreateBuffer", owners, Coverage::Complete), |frame| {
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
    shared: NonNull<Shared<'h>>,
}

// SAFETY: the shared part is reached through shared references only, and is `Sync`.
unsafe impl Send for Checker<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Checker<'_> {}

/// What the checker and its callbacks share; lies in the checker's memory and does not move.
pub(super) struct Shared<'h> {
    pub(super) engine: Engine<'h, 'static>,
    watched: AtomicPtr<Watched<'h>>,
    handed: AtomicPtr<Handed>,
}

/// A checker that was not closed, because blocks that passed through it are live.
#[derive(Debug)]
pub struct CheckerInUse<'h> {
    /// The checker, as it was.
    pub checker: Checker<'h>,
    /// How many blocks.
    pub live_blocks: usize,
}

impl fmt::Display for CheckerInUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.live_blocks {
            1 => f.write_str("1 block that passed the checker is live: destroy its object first, then close again"),
            blocks => {
                write!(f, "{blocks} blocks that passed the checker are live: destroy their objects first, then close again")
            }
        }
    }
}

impl core::error::Error for CheckerInUse<'_> {}

impl<'h> Checker<'h> {
    /// A checker that has seen nothing. What it knows lies in `memory`, which must not come from callbacks that it watches: about
    /// 20 kB now, more when a request, a command or a handle needs it, never when something is freed.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn new(memory: &'h (dyn HostAllocator + Sync), options: CheckOptions) -> Result<Self, CallbackError> {
        let engine = Engine::new(memory, options, false).frugal()?;
        let (watched, handed) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Ok(Self { shared: place(memory, Shared { engine, watched, handed })? })
    }

    /// Callbacks that watch each call and pass it on to `inner`.
    ///
    /// # Errors
    /// [`CallbackError::MissingFunction`] and [`CallbackError::HalfInternal`], which are findings too (V1 to V4);
    /// [`CallbackError::TooManyOwners`] when 4096 are watched in this process; the refusal of the checker's memory.
    ///
    /// # Safety
    /// - The functions of `inner` may be called with its user data, from any thread, for as long as those answered may.
    /// - No function that was answered is called while the checker is being closed or dropped. (One that is dropped while
    ///   blocks are live is leaked: then until the checker's memory is gone.)
    pub unsafe fn wrap(&self, inner: RawCallbacks, owner: CheckedOwner) -> Result<Checked, CallbackError> {
        let shared = self.shared();
        // The very same callbacks are compatible, whatever they are called.
        let known = Watched::group_of(&shared.watched, &inner).filter(|_| owner.group == 0);
        let owner = Owner::new(owner, known);
        shared.engine.registered(&owner, &inner);
        complete(&inner)?;
        let watched = place(shared.engine.memory(), Watched::new(self.shared, inner))?;
        let enlisted = slots::claim(watched.as_ptr().cast()).ok_or(CallbackError::TooManyOwners).and_then(|user_data| {
            // SAFETY: placed above; until it is in the list only this thread knows it.
            unsafe { Watched::enlist(watched, &shared.watched, user_data, owner) }
        });
        if enlisted.is_err() {
            // SAFETY: placed above, and in no list.
            let _ = unsafe { take_back(shared.engine.memory(), watched) };
        }
        enlisted
    }

    /// Runs `body` as this command, as [`Command::run`] does, and judges it when it has returned (V9, V25, V28).
    ///
    /// The body says what the command answered: [`Frame::returned`].
    pub fn run<R>(&self, command: Command, body: impl FnOnce(&Frame) -> R) -> R {
        let engine = &self.shared().engine;
        engine.make_ready();
        if thread::was_early_for(ptr::from_ref(engine).cast()) {
            engine.thread_issues(thread::thread_number());
        }
        let above = thread::top();
        // Whoever tells of what a command made does so before the thread's next command.
        remember(engine, None);
        command.run_for(ptr::from_ref(engine).cast(), |frame| {
            let info = frame.info();
            engine.entered(frame.bracket(), info.serial, info.entered_in_callback);
            let _leaving = Leaving { engine, frame, above };
            body(frame)
        })
    }

    /// A command has made an object with callbacks of `owner`, or with none (V42 to V44). To be told after each create, once for
    /// each object that came of it, by the thread that ran the command; a handle of 0 is none. Who tells of an instance or a device
    /// tells of all objects below: what such an object holds is not left when its parent goes (V41). When there is no memory for it, it counts as [lost](Checker::lost).
    pub fn created(&self, kind: &'static str, handle: u64, owner: Option<OwnerId>) {
        let engine = &self.shared().engine;
        let owner = owner.and_then(|id| engine.owner(id));
        engine.created(kind, handle, owner);
        told(engine, owner);
    }

    /// `command` has returned, which ended an object with callbacks of `owner`, or with none (V42 to V44).
    ///
    /// When it was the last object that was made with its callbacks, what they still hold is left (V41).
    pub fn destroyed(&self, kind: &'static str, handle: u64, owner: Option<OwnerId>, command: &'static str) {
        let engine = &self.shared().engine;
        engine.destroyed(&who_calls(), kind, handle, owner.and_then(|id| engine.owner(id)), command);
    }

    /// A struct of these callbacks that can be [spoilt](HandedOut::poison) once the command that got it has returned (V6).
    ///
    /// # Errors
    /// The refusal of the checker's memory.
    pub fn hand_out(&self, checked: &Checked) -> Result<HandedOut<'_>, CallbackError> {
        let shared = self.shared();
        Ok(Handed::place(shared.engine.memory(), &shared.handed, *checked.raw())?)
    }

    /// The end: what is live now is left, internal memory too. What was told already is not told again.
    pub fn finish(&self) {
        self.shared().engine.finish();
    }

    /// What was found until now, by rule and time, in memory of `memory`. Exact when no callback is running.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn findings<A: HostSource>(&self, memory: A) -> Result<TryVec<Found<'static>, A>, HostError> {
        self.shared().engine.findings(memory)
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
    /// The checker itself, when a block is live: its free would be called through callbacks that are gone.
    pub fn close(self) -> Result<(), CheckerInUse<'h>> {
        match self.live_blocks() {
            0 => Ok(()),
            live_blocks => Err(CheckerInUse { checker: self, live_blocks }),
        }
    }

    /// Gives all memory back, whatever is live: for drivers that leak.
    ///
    /// # Safety
    /// No function of any callbacks that were answered is being called. (Later calls find nobody: they count as
    /// [stray](crate::stray_callbacks), and are answered with NULL.)
    pub unsafe fn close_anyway(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the caller's promise; `this` is not dropped again.
        unsafe { this.dismantle() }
    }

    fn shared(&self) -> &Shared<'h> {
        // SAFETY: placed by `new`, and stays until this checker goes.
        unsafe { self.shared.as_ref() }
    }

    /// # Safety
    /// Called once; nothing reaches the shared part or what is watched afterwards.
    unsafe fn dismantle(&self) {
        let memory = self.shared().engine.memory();
        // SAFETY: forwarded: the list's entries were placed in this memory, and nobody is in one.
        unsafe { Watched::take_all(memory, &self.shared().watched) };
        // SAFETY: forwarded, as above.
        unsafe { Handed::take_all(memory, &self.shared().handed) };
        // SAFETY: placed by `new` in this memory, and the caller promises that nothing else reaches it.
        drop(unsafe { take_back(memory, self.shared) });
    }
}

/// The functions that must be there (V1 to V4).
const fn complete(raw: &RawCallbacks) -> Result<(), CallbackError> {
    let missing = match raw {
        RawCallbacks { pfn_allocation: None, .. } => Function::Allocation,
        RawCallbacks { pfn_reallocation: None, .. } => Function::Reallocation,
        RawCallbacks { pfn_free: None, .. } => Function::Free,
        _ if raw.pfn_internal_allocation.is_some() != raw.pfn_internal_free.is_some() => return Err(CallbackError::HalfInternal),
        _ => return Ok(()),
    };
    Err(CallbackError::MissingFunction(missing))
}

/// What this thread's last command was making, for this engine; what was before, nobody will tell of.
fn remember(engine: &Engine<'_, 'static>, making: Option<Making>) {
    let at = ptr::from_ref(engine).cast::<()>();
    let before = thread::swap_making(making.map(|making| (at, making)));
    // Another checker's, which may be gone: there it goes on being made, and nothing is said.
    if let Some((_, before)) = before.filter(|(of, _)| *of == at) {
        engine.made(before);
    }
}

/// An object was told of: if it is the one that the last command made, that is over.
fn told(engine: &Engine<'_, 'static>, owner: Option<&Owner<'static>>) {
    let pending = thread::swap_making(None);
    let of_it = |of: *const (), making: Making| {
        of == ptr::from_ref(engine).cast() && !making.many && owner.is_some_and(|owner| owner.number() == making.owner)
    };
    match pending {
        Some((of, making)) if of_it(of, making) => engine.made(making),
        _ => drop(thread::swap_making(pending)),
    }
}

/// Judges the command when its body has returned, or unwinds.
struct Leaving<'a, 'h> {
    engine: &'a Engine<'h, 'static>,
    frame: &'a Frame,
    /// The command that this one was called from.
    above: *const Frame,
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        let bracket = self.frame.bracket();
        self.engine.left(bracket, bracket.serial);
        if let Some(making) = bracket.making.get() {
            remember(self.engine, Some(making));
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
        // A driver may hold callbacks that lead here while a block is live: better a leak than a dangling pointer.
        if self.live_blocks() == 0 {
            // SAFETY: nothing is live, and who wrapped promised to call nothing from here on.
            unsafe { self.dismantle() }
        }
    }
}

impl fmt::Debug for Checker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").field("live_blocks", &self.live_blocks()).field("lost", &self.lost()).finish_non_exhaustive()
    }
}
