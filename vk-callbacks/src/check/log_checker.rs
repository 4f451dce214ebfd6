#![forbid(unsafe_code)]

mod lines;

use core::num::NonZeroU64;
use core::{fmt, mem};

use alloc_core::{HostAllocator, HostError, HostSource, Scope, Scoped, TryMap, TryVec};

use super::call_rules::Moving;
use super::engine::{CallbackCall, CallerContext, Engine};
use super::finding::CheckFinding;
use super::owner::{CallbackOwner, CheckOptions};
use super::records::BlockRequest;
use crate::command::{Bracket, Creation, OwnerId, Owners};
use crate::commands::CommandAction;
use crate::error::CallbackError;
use crate::keyed_hash::HashKey;
use crate::pinned::{Memory, SCOPE};
use crate::trace::{Caller, Pointer, Request, Sighting, TraceEvent, TraceReader};

/// A checker of a trace: the [rules](crate::Rule), applied by the code of the live [`Checker`](crate::Checker).
///
/// The allocators of a command are those of its owner and of the owners above; the first cache or deferred operation
/// that is called is assumed to be the command's. Findings that depend on compatible callbacks are suspects.
/// [`CheckOptions::coverage`] says whether every command was recorded.
///
/// ```
/// use alloc_core::{FromGlobalAlloc, Scope, Scoped};
/// use vk_callbacks::{CheckOptions, Judge, TraceReader};
/// use vk_callbacks::check::FindingKind;
///
/// let trace = "# steward host trace 2\no,1,0,VkDevice\ne,1,1,vkDeviceWaitIdle\na,1,1,1,64,8,0\nl,1,0\nf,2,1,1\nz,6\n";
/// let system = FromGlobalAlloc::SYSTEM;
/// let mut judge = Judge::new(&system, CheckOptions::default());
/// judge.run(TraceReader::new(trace)?)?;
/// let findings = judge.findings(Scoped::new(&system, Scope::Object))?;
/// let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
/// assert_eq!(said, [
///     "V22/V23: the implementation freed 64 B (scope COMMAND) of the device's allocator, taken in vkDeviceWaitIdle, \
///      on a thread that was not seen to call Vulkan",
///     "V28: the implementation left 64 B (scope COMMAND) of the device's allocator, taken in vkDeviceWaitIdle, \
///      live when that returned; freed later, outside of any command",
/// ]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Judge<'h, 't> {
    engine: Engine<'h, 't>,
    threads: TryMap<u64, Thread<'h, 't>, Own<'h>, HashKey>,
    /// The blocks of each owner, and those of scope command of each running command: a scan of all blocks would take
    /// quadratic time.
    by_owner: BlockLists<'h>,
    by_command: BlockLists<'h>,
    /// The number of losses so far. A command or reallocation that began before the last one may have ended.
    losses: u64,
    commands: bool,
}

type Own<'h> = Scoped<Memory<'h>>;

type BlockLists<'h> = TryMap<u64, TryVec<NonZeroU64, Own<'h>>, Own<'h>, HashKey>;

struct Thread<'h, 't> {
    /// The number of losses at its last line.
    losses: u64,
    /// Its running commands, the innermost last.
    brackets: TryVec<Bracket<'t>, Own<'h>>,
    /// Its running reallocations; `None` for one that is not checked.
    moving: TryVec<Option<Moving<'t>>, Own<'h>>,
    last_command: &'t str,
    creation: Option<Creation>,
    issued: bool,
}

impl Thread<'_, '_> {
    fn forget_before(&mut self, losses: u64) {
        if self.losses != losses {
            self.brackets.clear();
            self.moving.clear();
            (self.last_command, self.creation, self.losses) = ("", None, losses);
        }
    }
}

/// Further declarations of one owner are ignored and counted as lost.
const MAX_DECLARATIONS: usize = 16;

const NO_COMMANDS: &str = "it has no command: what has to do with commands and threads is not judged";

impl<'h, 't> Judge<'h, 't> {
    /// A new judge. Allocates nothing yet; later about 130 bytes for each block of the trace.
    #[must_use]
    pub fn new(memory: &'h (dyn HostAllocator + Sync), options: CheckOptions) -> Self {
        let own = Scoped::new(memory, SCOPE);
        Self {
            engine: Engine::new(memory, options, true),
            threads: TryMap::with_hasher_in(HashKey::fresh(), own),
            by_owner: TryMap::with_hasher_in(HashKey::fresh(), own),
            by_command: TryMap::with_hasher_in(HashKey::fresh(), own),
            losses: 0,
            commands: false,
        }
    }

    /// Checks a whole trace: [`step`](Judge::step) for each event, then [`finish`](Judge::finish).
    ///
    /// # Errors
    /// A line that cannot be read, or no memory. The findings so far are kept.
    pub fn run(&mut self, reader: TraceReader<'t>) -> Result<(), CallbackError> {
        for item in reader {
            let (line, event) = item?;
            self.step(line, event)?;
        }
        self.finish();
        Ok(())
    }

    /// Checks one event.
    ///
    /// # Errors
    /// No memory for its records; the step can be repeated.
    pub fn step(&mut self, line: u64, event: TraceEvent<'t>) -> Result<(), HostError> {
        match event {
            TraceEvent::Owner { owner, parent, kind } => {
                // Each declaration adds an owner to the group.
                let number = id(owner).map(OwnerId::get);
                if number.is_some_and(|number| self.engine.declarations(number) >= MAX_DECLARATIONS) {
                    self.engine.lose_one();
                } else {
                    self.engine.add_owner(|| CallbackOwner::of_log(id(owner), kind, parent))?;
                }
            }
            TraceEvent::Enter { by, command } => self.enter(line, by, command)?,
            TraceEvent::Leave { by, result } => self.leave(line, by, result),
            TraceEvent::Allocate { by, block, asked } => {
                self.assume_owners(by);
                let done = self.allocated(line, by, block, block_request(asked));
                done.inspect_err(|_| self.release_room())?;
            }
            TraceEvent::ReallocateBegin { by, old } => {
                self.thread(by.thread)?.moving.try_reserve(1)?;
                let call = self.call(line, by)?;
                let moving = address(old).and_then(|old| self.engine.moving(&call, old, None));
                self.thread(by.thread)?.moving.try_push(moving)?;
            }
            TraceEvent::Reallocate { by, old, new, asked } => {
                self.assume_owners(by);
                let done = self.reallocated(line, by, (old, new), block_request(asked));
                done.inspect_err(|_| self.release_room())?;
            }
            TraceEvent::Free { by, block } => {
                let call = self.call(line, by)?;
                match address(block) {
                    Some(address) => drop(self.engine.released(&call, address)),
                    None => self.engine.freed_null(&call),
                }
            }
            TraceEvent::Notice { by, event, size, kind, scope } => {
                self.engine.notified(&self.call(line, by)?, event, size, kind, scope);
            }
            TraceEvent::Created { by, handle, kind } => {
                let owner = self.call(line, by)?.owner;
                let number = owner.number();
                self.engine.created(kind, handle, Some(owner).filter(|owner| owner.id.is_some()));
                let thread = self.known(by.thread);
                let last = thread.and_then(|thread| {
                    thread.creation.take_if(|creation| !creation.many() && creation.owner() == number)
                });
                self.object_created(last);
            }
            TraceEvent::Destroyed { by, handle, kind } => {
                let CallbackCall { caller, owner, .. } = self.call(line, by)?;
                let last = self.current(by.thread);
                let last = last.map_or("", |thread| thread.last_command);
                let command = caller.bracket.map_or(last, |bracket| bracket.name);
                let owner = Some(owner).filter(|owner| owner.id.is_some());
                let last = self.engine.destroyed(&caller, kind, handle, owner, command);
                let last = last.filter(|last| last.has_no_objects()).map(CallbackOwner::number);
                if let Some(number) = last {
                    self.owner_ended(line, by, number, command)?;
                }
            }
            TraceEvent::Seen { by, block, what } => {
                let call = self.call(line, by)?;
                match self.engine.request_of(address(block)) {
                    Some(request) if what == Sighting::Misaligned => self.engine.misaligned(&call, request),
                    _ => self.engine.seen(&call, what),
                }
            }
            TraceEvent::Lost { events } => self.lose(events),
            TraceEvent::Phase { .. } => {}
        }
        Ok(())
    }

    /// The end of the trace: live blocks are leftovers.
    pub fn finish(&mut self) {
        if !self.commands {
            self.engine.forget_commands();
        }
        self.engine.finish();
    }

    /// The findings so far, by rule and line, in memory of `memory`.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn findings<A: HostSource>(&self, memory: A) -> Result<TryVec<CheckFinding<'t>, A>, HostError> {
        self.engine.findings(memory)
    }

    /// What the trace does not show and is not checked, one sentence each.
    pub fn limits(&self) -> impl Iterator<Item = &'static str> {
        (!self.commands).then_some(NO_COMMANDS).into_iter()
    }

    /// The number of events that the recorder lost, and of observations without room or made doubtful by lost events.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.engine.lost()
    }

    fn lose(&mut self, events: u64) {
        self.engine.lose_events(events);
        self.losses = self.losses.saturating_add(1);
        self.by_command.clear();
    }

    fn owner_ended(&mut self, line: u64, by: Caller, number: u32, command: &'t str) -> Result<(), HostError> {
        let own = *self.threads.allocator();
        let held = self.by_owner.get_mut(&number.into());
        let mut held = held.map_or(TryVec::new_in(own), |held| mem::replace(held, TryVec::new_in(own)));
        let caller = self.call(line, by)?.caller;
        if let Some(owner) = self.engine.numbered(number) {
            let call = CallbackCall { caller, owner, callbacks: 0 };
            self.engine.report_left_by(&call, command, Some(&mut held.iter().copied()));
        }
        // Each of the others is gone, or was reported now.
        held.retain(|block| self.engine.is_moving(*block));
        if let Some(there) = self.by_owner.get_mut(&number.into()) {
            *there = held;
        }
        Ok(())
    }

    fn owners_above(&self, owner: u64) -> Owners {
        let mut owners = Owners::default();
        let mut number = owner;
        // No deeper than Vulkan's objects; a trace may have a cycle.
        for _ in 0..8 {
            let Some(owner) = id(number).and_then(|id| self.engine.owner(id)) else {
                break;
            };
            match owner.kind {
                "VkInstance" => owners.instance = owner.id,
                "VkDevice" => owners.device = owner.id,
                "VkDeferredOperationKHR" => owners.deferred = owners.deferred.or(owner.id),
                // These have no callbacks of their own.
                "VkQueue" | "VkPhysicalDevice" | "VkCommandBuffer" | "VkDescriptorSet" | "" => {}
                _ => owners.object = owners.object.or(owner.id),
            }
            number = owner.parent;
        }
        owners
    }

    fn assume_owners(&mut self, by: Caller) {
        let Some(owner) = id(by.owner).and_then(|id| self.engine.owner(id)) else {
            return;
        };
        // As `known`: the engine is borrowed.
        let thread = self.threads.get_mut(&by.thread).filter(|thread| thread.losses == self.losses);
        let Some(bracket) = thread.and_then(|thread| thread.brackets.last_mut()) else {
            return;
        };
        let (row, owners) = (bracket.row(), &mut bracket.owners);
        match owner.kind {
            "VkPipelineCache" | "VkValidationCacheEXT"
                if row.may_allocate.contains(Scope::Cache) && !row.is_of_cache() =>
            {
                owners.cache = owners.cache.or(owner.id);
            }
            // A join works on the deferred object.
            "VkPipeline" | "VkAccelerationStructureKHR" | "VkMicromapEXT" if row.action == CommandAction::Join => {
                owners.object = owners.object.or(owner.id);
            }
            "VkDeferredOperationKHR" if row.deferrable => owners.deferred = owners.deferred.or(owner.id),
            _ => {}
        }
    }

    /// Declares an owner that the trace did not declare.
    fn call(&self, line: u64, by: Caller) -> Result<CallbackCall<'_, 't>, HostError> {
        let number = id(by.owner).map_or(0, OwnerId::get);
        let owner = match self.engine.numbered(number) {
            Some(owner) => owner,
            None => self.engine.add_owner(|| CallbackOwner::of_log(id(by.owner), "", 0))?,
        };
        let issued = self.has_issued(by.thread);
        let caller = CallerContext {
            bracket: self.innermost(by.thread),
            thread: by.thread,
            issued,
            known: by.thread != 0,
            at: line,
        };
        Ok(CallbackCall { caller, owner, callbacks: 0 })
    }

    fn object_created(&self, creation: Option<Creation>) {
        if let Some(creation) = creation {
            self.engine.object_created(creation, None);
        }
    }

    fn has_issued(&self, thread: u64) -> bool {
        self.threads.get(&thread).is_some_and(|thread| thread.issued)
    }

    fn innermost(&self, thread: u64) -> Option<&Bracket<'t>> {
        self.current(thread).and_then(|known| known.brackets.last())
    }

    /// The thread, unless events were lost since its last line.
    fn current(&self, thread: u64) -> Option<&Thread<'h, 't>> {
        self.threads.get(&thread).filter(|thread| thread.losses == self.losses)
    }

    /// The thread, without what it began before the last loss.
    fn known(&mut self, thread: u64) -> Option<&mut Thread<'h, 't>> {
        let thread = self.threads.get_mut(&thread)?;
        thread.forget_before(self.losses);
        Some(thread)
    }

    fn thread(&mut self, number: u64) -> Result<&mut Thread<'h, 't>, HostError> {
        let (own, losses) = (*self.threads.allocator(), self.losses);
        let fresh = |_: &u64| Thread {
            losses,
            brackets: TryVec::new_in(own),
            moving: TryVec::new_in(own),
            last_command: "",
            creation: None,
            issued: false,
        };
        let thread = self.threads.try_get_or_insert_with(number, fresh)?;
        thread.forget_before(losses);
        Ok(thread)
    }
}

fn id(number: u64) -> Option<OwnerId> {
    u32::try_from(number).ok().and_then(OwnerId::from_number)
}

fn address(pointer: Pointer) -> Option<NonZeroU64> {
    match pointer {
        Pointer::Null => None,
        Pointer::Block(number) => NonZeroU64::new(number),
        Pointer::Unknown(number) => NonZeroU64::new(1 << 63 | number),
    }
}

const fn block_request(asked: Request) -> BlockRequest {
    BlockRequest { size: asked.size, align: asked.align, scope: asked.scope }
}

impl fmt::Debug for Judge<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("commands", &self.commands).field("lost", &self.lost()).finish_non_exhaustive()
    }
}
