//! The rules over a log: what the live checker would have said, as far as the log tells.

#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;

use alloc_core::{HostAllocator, HostError, HostSource, Scope, Scoped, TryVec};

use super::block::Asked;
use super::bracket::Bracket;
use super::engine::{Engine, Who};
use super::found::Found;
use super::options::CheckOptions;
use super::owner::{Making, Owner};
use super::stream::Moving;
use super::table::NoRoom;
use crate::command::{OwnerId, Owners};
use crate::commands::CommandAction;
use crate::error::CallbackError;
use crate::placed::{Memory, SCOPE};
use crate::trace::{Caller, Pointer, Request, Sighting, TraceEvent, TraceReader};

/// Judges a trace by the [rules](crate::Rule), with the same code as the live [`Checker`](crate::Checker).
///
/// Whose callbacks a command was given is read from the owners that the trace declares: the command's owner, and those above it.
/// Which cache or deferred operation it was given beside is not in a trace: the one that is asked is taken for it. Nor is whose callbacks
/// are compatible: what needs that to be known is a suspect.
/// Whether every command was written down is for the caller to say, in [`CheckOptions::coverage`].
///
/// ```
/// use alloc_core::{FromGlobalAlloc, Scope, Scoped};
/// use vk_callbacks::{CheckOptions, FindingKind, Judge, TraceReader};
///
/// let trace = "# steward host trace 2\no,1,0,VkDevice\ne,1,1,vkDeviceWaitIdle\na,1,1,1,64,8,0\nl,1,0\nf,2,1,1\nz,6\n";
/// let system = FromGlobalAlloc::SYSTEM;
/// let mut judge = Judge::new(&system, CheckOptions::default());
/// judge.run(TraceReader::new(trace)?)?;
/// let findings = judge.findings(Scoped::new(&system, Scope::Object))?;
/// let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
/// assert_eq!(said, [
///     "V22/V23: the implementation freed 64 B (scope COMMAND) of the device's allocator, taken in vkDeviceWaitIdle, \
///      on a thread with no bracketed command",
///     "V28: the implementation left 64 B (scope COMMAND) of the device's allocator, taken in vkDeviceWaitIdle, \
///      live when that returned; freed later, outside of any command",
/// ]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Judge<'h, 't> {
    engine: Engine<'h, 't>,
    threads: TryVec<Thread<'h, 't>, Own<'h>>,
    commands: bool,
    limits: &'static [&'static str],
}

type Own<'h> = Scoped<Memory<'h>>;

/// What is known of a thread.
struct Thread<'h, 't> {
    number: u64,
    /// Commands that it is in, the innermost last.
    brackets: TryVec<Bracket<'t>, Own<'h>>,
    /// Reallocations that it is in; `None` for one that is not judged.
    moving: TryVec<Option<Moving<'t>>, Own<'h>>,
    /// The command that it left last.
    left: &'t str,
    /// What that one was making, and nobody has told of yet.
    making: Option<Making>,
    issued: bool,
}

/// Why a trace without commands says nothing about them.
const NO_COMMANDS: &[&str] = &["it has no command: what has to do with commands and threads is not judged"];

impl<'h, 't> Judge<'h, 't> {
    /// A judge who has seen nothing. Takes no memory yet; later about 100 bytes a block that the trace names.
    #[must_use]
    pub fn new(memory: &'h (dyn HostAllocator + Sync), options: CheckOptions) -> Self {
        let threads = TryVec::new_in(Scoped::new(memory, SCOPE));
        Self { engine: Engine::new(memory, options, true), threads, commands: false, limits: &[] }
    }

    /// Judges a whole trace: [`step`](Judge::step) for each event, then [`finish`](Judge::finish).
    ///
    /// # Errors
    /// A line that cannot be read, or no memory. What was found until then is kept.
    pub fn run(&mut self, reader: TraceReader<'t>) -> Result<(), CallbackError> {
        self.limits = reader.format().limits();
        self.engine.knows_strangers = reader.format().capabilities().unknown_pointers;
        for item in reader {
            let (line, event) = item?;
            self.step(line, event)?;
        }
        self.finish();
        Ok(())
    }

    /// Judges one event.
    ///
    /// # Errors
    /// No memory for what must be remembered of it; it can be tried again.
    pub fn step(&mut self, line: u64, event: TraceEvent<'t>) -> Result<(), HostError> {
        match event {
            TraceEvent::Owner { owner, parent, kind } => {
                self.engine.add_owner(Owner::of_log(id(owner), kind, parent))?;
            }
            TraceEvent::Enter { by, command } => self.enter(line, by, command)?,
            TraceEvent::Leave { by, result } => self.leave(line, by, result),
            TraceEvent::Allocate { by, block, asked } => {
                self.suppose(by);
                let (who, owner) = self.who(line, by)?;
                let asked = whole(asked);
                match address(block) {
                    Some(address) => self.engine.answered(&who, owner, asked, address).map_err(|_| self.refusal())?,
                    None => self.engine.refused(&who),
                }
                self.engine.requested(&who, owner, asked);
            }
            TraceEvent::ReallocateBegin { by, old } => {
                self.thread(by.thread)?.moving.try_reserve(1)?;
                let (who, owner) = self.who(line, by)?;
                let moving = address(old).and_then(|old| self.engine.moving(&who, owner, old, None).ok());
                let thread = self.thread(by.thread)?;
                thread.moving.try_push(moving).map_err(|refused| refused.error)?;
            }
            TraceEvent::Reallocate { by, old, new, asked } => self.reallocate(line, by, (old, new), whole(asked))?,
            TraceEvent::Free { by, block } => {
                let (who, owner) = self.who(line, by)?;
                match address(block) {
                    Some(address) => drop(self.engine.released(&who, owner, address)),
                    None => self.engine.freed_null(&who, owner),
                }
            }
            TraceEvent::Notice { by, event, size, kind, scope } => {
                let (who, owner) = self.who(line, by)?;
                self.engine.notified(&who, owner, event, size, kind, scope);
            }
            TraceEvent::Created { by, handle, kind } => {
                let (_, owner) = self.who(line, by)?;
                let number = owner.number();
                self.engine.created(kind, handle, Some(owner).filter(|owner| owner.id.is_some()));
                let thread = self.threads.iter_mut().find(|thread| thread.number == by.thread);
                let last = thread.and_then(|thread| thread.making.take_if(|making| !making.many && making.owner == number));
                last.into_iter().for_each(|making| self.engine.made(making));
            }
            TraceEvent::Destroyed { by, handle, kind } => {
                let (who, owner) = self.who(line, by)?;
                let left = self.threads.iter().find(|thread| thread.number == by.thread).map_or("", |thread| thread.left);
                let command = who.bracket.map_or(left, |bracket| bracket.name);
                self.engine.destroyed(&who, kind, handle, Some(owner).filter(|owner| owner.id.is_some()), command);
            }
            TraceEvent::Seen { by, block, what } => {
                let (who, owner) = self.who(line, by)?;
                match self.engine.asked_for(address(block)) {
                    Some(asked) if what == Sighting::Misaligned => self.engine.misaligned(&who, owner, asked),
                    _ => self.engine.seen(&who, owner, what),
                }
            }
            TraceEvent::Lost { events } => self.lose(events),
            TraceEvent::Phase { .. } => {}
        }
        Ok(())
    }

    /// The trace is over: what is live now is left.
    pub fn finish(&mut self) {
        if !self.commands {
            self.engine.forget_commands();
        }
        self.engine.finish();
    }

    /// What was found until now, by rule and line, in memory of `memory`.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn findings<A: HostSource>(&self, memory: A) -> Result<TryVec<Found<'t>, A>, HostError> {
        self.engine.findings(memory)
    }

    /// What the trace does not tell, and so is not judged, one sentence each.
    pub fn limits(&self) -> impl Iterator<Item = &'static str> {
        let commands = if self.commands { &[] } else { NO_COMMANDS };
        self.limits.iter().chain(commands).copied()
    }

    /// Events that the recorder lost, and observations for which there was no room here or which those events make doubtful.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.engine.lost()
    }

    /// Whatever began may have ended since.
    fn lose(&mut self, events: u64) {
        self.engine.lose_events(events);
        for thread in &mut self.threads {
            thread.brackets.clear();
            thread.moving.clear();
            (thread.left, thread.making) = ("", None);
        }
    }

    fn enter(&mut self, line: u64, by: Caller, command: &'t str) -> Result<(), HostError> {
        let bracket = Bracket::new(command, line, self.given(by.owner), self.engine.coverage());
        let thread = self.thread(by.thread)?;
        let (first, inside) = (!thread.issued, !thread.moving.is_empty());
        thread.brackets.try_push(bracket).map_err(|refused| refused.error)?;
        thread.issued = true;
        let before = thread.making.take();
        self.commands = true;
        before.into_iter().for_each(|making| self.engine.made(making));
        if first {
            self.engine.thread_issues(by.thread);
        }
        if let Some(bracket) = self.innermost(by.thread) {
            self.engine.entered(bracket, line, inside);
        }
        Ok(())
    }

    fn leave(&mut self, line: u64, by: Caller, result: i32) {
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.number == by.thread) else { return };
        let Some(bracket) = thread.brackets.pop() else { return };
        thread.left = bracket.name;
        if let Some(above) = thread.brackets.last() {
            above.nulls.set(above.nulls.get().saturating_add(bracket.nulls.get()));
        }
        bracket.result.set(result);
        let before = bracket.making.get().and_then(|making| thread.making.replace(making));
        before.into_iter().for_each(|making| self.engine.made(making));
        self.engine.left(&bracket, line);
    }

    /// The rule table of `pfnReallocation` (V11 to V17), seen from what was answered.
    fn reallocate(&mut self, line: u64, by: Caller, (old, new): (Pointer, Pointer), asked: Asked) -> Result<(), HostError> {
        self.suppose(by);
        let engine = &self.engine;
        let (who, owner) = self.who(line, by)?;
        // All the memory that the line may need: from here on nothing is refused, so nothing is left half-done.
        let room = engine.blocks.promise().map_err(|NoRoom| self.refusal())?;
        // Its beginning stands before; where it was lost, or the format has none, it begins here.
        let begun = self.threads.iter().find(|thread| thread.number == by.thread);
        let mut begun = begun.and_then(|thread| thread.moving.last().copied());
        // The beginning of another one: that one's end was lost.
        if let Some(Some(other)) = begun.filter(|begun| begun.is_some_and(|block| Some(block.address()) != address(old))) {
            engine.not_moved(&who, owner, other.address(), &other, false);
            begun = None;
        }
        let (old, new) = (address(old), address(new));
        let Some(old) = old else {
            match new {
                Some(new) => engine.answered_in(Some(&room), &who, owner, asked, new).map_err(|_| self.refusal())?,
                None if asked.size > 0 => engine.refused(&who),
                None => {}
            }
            if asked.size > 0 {
                engine.requested(&who, owner, asked);
            }
            drop(room);
            self.end_move(by);
            return Ok(());
        };
        let moving = begun.unwrap_or_else(|| engine.moving(&who, owner, old, None).ok());
        match (moving, new) {
            (Some(before), _) if asked.size == 0 => {
                engine.not_moved(&who, owner, old, &before, false);
                let _ = engine.released(&who, owner, old);
                if let Some(new) = new {
                    engine.zero_answered(&who, owner, asked);
                    engine.answered_in(Some(&room), &who, owner, asked, new).map_err(|_| self.refusal())?;
                }
            }
            (Some(before), Some(new)) => {
                engine.move_asked(&who, owner, &before, asked);
                engine.moved(&who, owner, (old, new), &before, asked.size, &room);
            }
            (Some(before), None) => {
                engine.move_asked(&who, owner, &before, asked);
                engine.not_moved(&who, owner, old, &before, true);
                engine.refused(&who);
            }
            // Told when it began. What came of it is a block all the same.
            (None, Some(new)) => {
                engine.moved_all_the_same(old);
                engine.answered_in(Some(&room), &who, owner, asked, new).map_err(|_| self.refusal())?;
            }
            (None, None) if asked.size == 0 => engine.released_aside(old),
            (None, None) => engine.refused(&who),
        }
        drop(room);
        self.end_move(by);
        Ok(())
    }

    fn end_move(&mut self, by: Caller) {
        if let Some(thread) = self.threads.iter_mut().find(|thread| thread.number == by.thread) {
            thread.moving.pop();
        }
    }

    /// Whose callbacks a command about this owner was given: its own, and those above it.
    fn given(&self, owner: u64) -> Owners {
        let mut owners = Owners::default();
        let mut number = owner;
        // No deeper than objects lie in Vulkan; a trace may well run in a circle.
        for _ in 0..8 {
            let Some(owner) = id(number).and_then(|id| self.engine.owner(id)) else { break };
            match owner.kind {
                "VkInstance" => owners.instance = owner.id,
                "VkDevice" => owners.device = owner.id,
                "VkDeferredOperationKHR" => owners.deferred = owners.deferred.or(owner.id),
                // They have no callbacks of their own.
                "VkQueue" | "VkPhysicalDevice" | "VkCommandBuffer" | "VkDescriptorSet" | "" => {}
                _ => owners.object = owners.object.or(owner.id),
            }
            number = owner.parent;
        }
        owners
    }

    /// A trace names one owner for a command. Where the command may be given a cache or a deferred operation beside, the first one
    /// that is asked is taken for the one that it was given.
    fn suppose(&mut self, by: Caller) {
        let Some(owner) = id(by.owner).and_then(|id| self.engine.owner(id)) else { return };
        let thread = self.threads.iter_mut().find(|thread| thread.number == by.thread);
        let Some(bracket) = thread.and_then(|thread| thread.brackets.last_mut()) else { return };
        let (row, owners) = (bracket.row(), &mut bracket.owners);
        match owner.kind {
            "VkPipelineCache" | "VkValidationCacheEXT" if row.may_allocate.contains(Scope::Cache) && !row.is_of_cache() => {
                owners.cache = owners.cache.or(owner.id);
            }
            // What a join works on is what was deferred.
            "VkPipeline" | "VkAccelerationStructureKHR" | "VkMicromapEXT" if row.action == CommandAction::Join => {
                owners.object = owners.object.or(owner.id);
            }
            "VkDeferredOperationKHR" if row.deferrable => owners.deferred = owners.deferred.or(owner.id),
            _ => {}
        }
    }

    /// Who did what the line says, at whose callbacks. Declares an owner that the trace did not.
    fn who(&self, line: u64, by: Caller) -> Result<(Who<'_, 't>, &Owner<'t>), HostError> {
        let number = id(by.owner).map_or(0, OwnerId::get);
        let owner = match self.engine.numbered(number) {
            Some(owner) => owner,
            None => self.engine.add_owner(Owner::of_log(id(by.owner), "", 0))?,
        };
        let issued = self.threads.iter().any(|thread| thread.number == by.thread && thread.issued);
        let bracket = self.innermost(by.thread);
        Ok((Who { bracket, thread: by.thread, issued, known: by.thread != 0, at: line }, owner))
    }

    fn innermost(&self, thread: u64) -> Option<&Bracket<'t>> {
        self.threads.iter().find(|known| known.number == thread).and_then(|known| known.brackets.last())
    }

    fn thread(&mut self, number: u64) -> Result<&mut Thread<'h, 't>, HostError> {
        let index = match self.threads.iter().position(|thread| thread.number == number) {
            Some(index) => index,
            None => {
                let own = *self.threads.allocator();
                let (brackets, moving) = (TryVec::new_in(own), TryVec::new_in(own));
                let thread = Thread { number, brackets, moving, left: "", making: None, issued: false };
                self.threads.try_push(thread).map_err(|refused| refused.error)?;
                self.threads.len().saturating_sub(1)
            }
        };
        self.threads.get_mut(index).ok_or(HostError::OutOfHostMemory { bytes: 0, scope: Scope::Object })
    }

    #[cold]
    fn refusal(&self) -> HostError {
        self.engine.memory().refusal(core::alloc::Layout::new::<Moving<'t>>(), SCOPE)
    }
}

/// The owner of this number; 0 is nobody.
fn id(number: u64) -> Option<OwnerId> {
    u32::try_from(number).ok().and_then(OwnerId::from_number)
}

/// The number of a block, as an address.
fn address(pointer: Pointer) -> Option<NonZeroU64> {
    match pointer {
        Pointer::Null => None,
        Pointer::Block(number) => NonZeroU64::new(number),
        Pointer::Unknown(number) => NonZeroU64::new(1 << 63 | number),
    }
}

const fn whole(asked: Request) -> Asked {
    Asked { size: asked.size, align: asked.align, scope: asked.scope }
}

impl fmt::Debug for Judge<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("commands", &self.commands).field("lost", &self.lost()).finish_non_exhaustive()
    }
}
