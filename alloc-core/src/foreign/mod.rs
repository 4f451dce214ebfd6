//! Memory that no allocator of ours was asked for: declared at a context, counted apart, never passed off as routed.

#[cfg(feature = "bumpalo")]
mod bump;
mod cells;
mod usage;

use core::fmt;

#[cfg(feature = "bumpalo")]
pub use bump::ForeignBump;
pub(crate) use cells::ForeignCells;
pub use usage::{ForeignKind, ForeignUsage};

use crate::context::{ContextHandle, ContextNode, ContextRef};
use crate::error::{HostError, Misuse};
use crate::host::{Notice, NoticeEvent, NoticeKind};

/// Memory taken elsewhere, declared at a context for as long as this guard lives.
///
/// Some memory cannot be routed: the chunks of an arena that knows the global allocator only, the code a JIT maps, the heap
/// of an LLVM, a mapped file. Declaring it takes nothing and gives nothing: it states what was taken, so that it stands in the
/// context's account ([`Usage::foreign`](crate::Usage::foreign)), beside the routed memory and apart from it. It is never part
/// of live bytes or of a budget's charge: a limit that nothing can enforce would be a pretence.
///
/// [`Executable`](ForeignKind::Executable) memory alone is forwarded, to the context's allocator, as
/// [`HostAllocator::notify`](crate::HostAllocator::notify) with the context's scope; for a driver this becomes
/// `PFN_vkInternalAllocationNotification` and, when it is given back, `PFN_vkInternalFreeNotification` (Vulkan specification,
/// *Host Memory*: for executable memory only). Each notice of memory taken is followed by one of the same size given back; a
/// change of size is told as giving back the old and taking the new. The allocator is called without any lock held.
///
/// A fact is not refused: a closed context counts as an open one does, and lists what is still declared as
/// [outstanding](crate::Outstanding::foreign_bytes). Forgetting the guard leaves its bytes declared.
///
/// Thread rules: `Send` and `Sync` where `C` is; any thread may drop it. Takes no memory and no lock.
///
/// ```
/// use alloc_core::{Context, ContextOptions, Foreign, ForeignKind, FromGlobalAlloc};
/// # static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("compiler"))?;
/// let routed = root.usage().total();
///
/// let mut code = Foreign::declare(&root, ForeignKind::Executable, 65_536)?;
/// code.set_bytes(131_072)?; // the JIT has mapped more
/// assert_eq!(root.usage().foreign(ForeignKind::Executable).live_bytes, 131_072);
/// assert_eq!(root.usage().total(), routed);
///
/// drop(code); // the JIT has unmapped all of it
/// assert_eq!(root.usage().foreign(ForeignKind::Executable).live_bytes, 0);
/// # root.close_root()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "what is declared is taken back when this is dropped"]
pub struct Foreign<C: ContextRef> {
    context: C,
    kind: ForeignKind,
    bytes: usize,
}

impl<C: ContextRef> Foreign<C> {
    /// Declares that `bytes` bytes were taken elsewhere. 0 bytes are fine: there may be more later.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] above `isize::MAX` bytes, or where all that is declared exceeds 2^64; nothing is counted.
    pub fn declare(context: C, kind: ForeignKind, bytes: usize) -> Result<Self, HostError> {
        let node = context.sealed_node().0;
        node.declare_foreign(kind, bytes)?;
        let declared = Self {
            context,
            kind,
            bytes,
        };
        // Counted and guarded first: should the allocator unwind, all of it is taken back.
        declared
            .context
            .sealed_node()
            .0
            .notify_declared(NoticeEvent::Allocated, kind, bytes);
        Ok(declared)
    }

    /// From now on it is `bytes` bytes, more or fewer than before.
    ///
    /// # Errors
    /// As [`declare`](Foreign::declare); what was declared stays.
    pub fn set_bytes(&mut self, bytes: usize) -> Result<(), HostError> {
        let node = self.context.sealed_node().0;
        node.change_foreign(self.kind, self.bytes, bytes)?;
        let old = core::mem::replace(&mut self.bytes, bytes);
        if old != bytes {
            node.notify_declared(NoticeEvent::Freed, self.kind, old);
            node.notify_declared(NoticeEvent::Allocated, self.kind, bytes);
        }
        Ok(())
    }

    /// How many bytes are declared.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What kind of memory it is.
    #[must_use]
    pub const fn kind(&self) -> ForeignKind {
        self.kind
    }

    /// Where it is declared.
    #[must_use]
    pub const fn context(&self) -> &C {
        &self.context
    }
}

impl<C: ContextRef> Drop for Foreign<C> {
    fn drop(&mut self) {
        let node = self.context.sealed_node().0;
        // Not there any more when somebody withdrew what was not theirs: then there is nothing to tell either.
        if node.foreign.subtract(self.kind, self.bytes as u64) {
            node.notify_declared(NoticeEvent::Freed, self.kind, self.bytes);
        }
    }
}

impl<C: ContextRef> fmt::Debug for Foreign<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = self.context.sealed_node().0.id();
        f.debug_struct("Foreign")
            .field("context", &context)
            .field("kind", &self.kind)
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// For those who cannot keep a [`Foreign`] guard: a C library that calls back with sizes alone, for one.
impl ContextHandle {
    /// Declares that `bytes` bytes were taken elsewhere. They stay declared until they are
    /// [withdrawn](ContextHandle::subtract_foreign), also beyond the context's own end: then they are lost and on record above it.
    ///
    /// # Errors
    /// As [`Foreign::declare`].
    pub fn declare_foreign(&self, kind: ForeignKind, bytes: usize) -> Result<(), HostError> {
        self.node().declare_foreign(kind, bytes)?;
        self.node()
            .notify_declared(NoticeEvent::Allocated, kind, bytes);
        Ok(())
    }

    /// Declares that `bytes` bytes of those declared were given back.
    ///
    /// # Errors
    /// [`Misuse::NotDeclared`] when fewer bytes of this kind are declared here; nothing is counted.
    pub fn subtract_foreign(&self, kind: ForeignKind, bytes: usize) -> Result<(), HostError> {
        if !self.node().foreign.subtract(kind, bytes as u64) {
            return Err(HostError::Misuse(Misuse::NotDeclared));
        }
        self.node().notify_declared(NoticeEvent::Freed, kind, bytes);
        Ok(())
    }
}

impl ContextNode {
    fn declare_foreign(&self, kind: ForeignKind, bytes: usize) -> Result<(), HostError> {
        if isize::try_from(bytes).is_err() || !self.count_foreign(kind, bytes as u64) {
            return Err(HostError::TooLarge);
        }
        Ok(())
    }

    /// As [`ForeignCells::declare`](cells::ForeignCells::declare), noted.
    fn count_foreign(&self, kind: ForeignKind, bytes: u64) -> bool {
        self.note_foreign();
        self.foreign.declare(kind, bytes)
    }

    /// Counts that what was `old` bytes is `new` bytes now. Only the difference: nothing is counted twice at any moment.
    fn change_foreign(&self, kind: ForeignKind, old: usize, new: usize) -> Result<(), HostError> {
        match new.checked_sub(old) {
            Some(_) if isize::try_from(new).is_err() => Err(HostError::TooLarge),
            Some(more) => self.declare_foreign(kind, more),
            None => {
                self.foreign.subtract(kind, old.saturating_sub(new) as u64);
                Ok(())
            }
        }
    }

    /// Lets the allocator know of memory for generated code, the only kind that Vulkan wants to hear of.
    fn notify_declared(&self, event: NoticeEvent, kind: ForeignKind, bytes: usize) {
        if kind == ForeignKind::Executable && bytes > 0 {
            self.backing.notify(Notice {
                event,
                kind: NoticeKind::Executable,
                bytes,
                scope: self.scope,
            });
        }
    }

    /// Counts what somebody above this context, such as a driver through its callbacks, has to say, and passes it on as it is.
    pub(crate) fn notify_change(&self, notice: Notice) {
        let (kind, bytes) = match notice.kind {
            NoticeKind::Executable => (ForeignKind::Executable, notice.bytes as u64),
        };
        // What cannot be true (more given back than there is) is not counted, but passed on: others may have rules for that.
        let _counted = match notice.event {
            NoticeEvent::Allocated => self.count_foreign(kind, bytes),
            NoticeEvent::Freed => self.foreign.subtract(kind, bytes),
        };
        self.backing.notify(notice);
    }
}
