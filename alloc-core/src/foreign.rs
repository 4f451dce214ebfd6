//! Foreign memory: memory from elsewhere, declared at a context and counted apart from routed memory (`account/foreign`).

#![forbid(unsafe_code)]

use core::fmt;

use crate::account::ForeignKind;
use crate::context::{ContextHandle, ContextNode, ContextRef, FOREIGN};
use crate::error::{HostError, Misuse};
use crate::host::{Notice, NoticeEvent, NoticeKind};

/// Memory allocated elsewhere, declared at a context for as long as this guard lives.
///
/// Some memory cannot be routed: the chunks of an arena over the global allocator, the code that a JIT maps, the heap of an LLVM, a mapped
/// file. A declaration allocates and frees nothing: it adds the bytes to the context's account of foreign memory
/// ([`Usage::foreign`](crate::Usage::foreign)), apart from the routed memory. They are never part of live bytes or of a budget's charge,
/// because no limit could be enforced on them.
///
/// [`Executable`](ForeignKind::Executable) memory alone is forwarded, to the context's allocator, as
/// [`HostAllocator::notify`](crate::HostAllocator::notify) with the context's scope; for a driver this becomes
/// `PFN_vkInternalAllocationNotification` and, when it is freed, `PFN_vkInternalFreeNotification` (Vulkan specification, *Host Memory*: for
/// executable memory only). Each notice of an allocation is followed by a notice of a free of the same size; a change of size is notified
/// as a free of the old size and an allocation of the new one. No lock is held during these calls.
///
/// A closed context counts declarations as an open one does, and lists them as [outstanding](crate::Outstanding::foreign_bytes).
/// Forgetting the guard (`mem::forget`) leaves its bytes declared.
///
/// Thread rules: `Send` and `Sync` where `C` is; any thread may drop it. Needs no memory and no lock.
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
    /// Declares `bytes` bytes. 0 is allowed.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] above `isize::MAX` bytes, or if all declarations together exceed 2^64; nothing is counted.
    pub fn declare(context: C, kind: ForeignKind, bytes: usize) -> Result<Self, HostError> {
        let node = context.context_handle().node();
        node.declare_foreign(kind, bytes)?;
        let declared = Self {
            context,
            kind,
            bytes,
        };
        // Counted and guarded first: if the allocator unwinds, the declaration is withdrawn.
        declared.context.context_handle().node().notify_declared(
            NoticeEvent::Allocated,
            kind,
            bytes,
        );
        Ok(declared)
    }

    /// Changes the declaration to `bytes` bytes.
    ///
    /// # Errors
    /// As [`declare`](Foreign::declare); the declaration is unchanged.
    pub fn set_bytes(&mut self, bytes: usize) -> Result<(), HostError> {
        let node = self.context.context_handle().node();
        node.change_foreign(self.kind, self.bytes, bytes)?;
        let old = core::mem::replace(&mut self.bytes, bytes);
        if old != bytes {
            node.notify_declared(NoticeEvent::Freed, self.kind, old);
            node.notify_declared(NoticeEvent::Allocated, self.kind, bytes);
        }
        Ok(())
    }

    /// The declared bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The kind of memory.
    #[must_use]
    pub const fn kind(&self) -> ForeignKind {
        self.kind
    }

    /// The context of the declaration.
    #[must_use]
    pub const fn context(&self) -> &C {
        &self.context
    }
}

impl<C: ContextRef> Drop for Foreign<C> {
    fn drop(&mut self) {
        let node = self.context.context_handle().node();
        // False if `subtract_foreign` has withdrawn these bytes: then there is nothing to notify either.
        if node.foreign.subtract(self.kind, self.bytes as u64) {
            node.notify_declared(NoticeEvent::Freed, self.kind, self.bytes);
        }
    }
}

impl<C: ContextRef> fmt::Debug for Foreign<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = self.context.context_handle().node().id();
        f.debug_struct("Foreign")
            .field("context", &context)
            .field("kind", &self.kind)
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// For callers that cannot keep a [`Foreign`] guard, such as a C library that calls back with sizes alone.
impl ContextHandle {
    /// Declares `bytes` bytes until they are [withdrawn](ContextHandle::subtract_foreign). When the context ends before that, they are lost
    /// and stay in the sums of its parent.
    ///
    /// # Errors
    /// As [`Foreign::declare`].
    pub fn declare_foreign(&self, kind: ForeignKind, bytes: usize) -> Result<(), HostError> {
        self.node().declare_foreign(kind, bytes)?;
        self.node()
            .notify_declared(NoticeEvent::Allocated, kind, bytes);
        Ok(())
    }

    /// Withdraws `bytes` of the declared bytes.
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

    /// Declares the bytes in the node's counts, and notes that there are some.
    fn count_foreign(&self, kind: ForeignKind, bytes: u64) -> bool {
        self.note(FOREIGN);
        self.foreign.declare(kind, bytes)
    }

    /// Changes a declaration from `old` to `new` bytes. Counts only the difference, so that nothing is ever counted twice.
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

    /// Notifies the allocator of memory for generated code, the only kind that Vulkan has a notification for.
    fn notify_declared(&self, event: NoticeEvent, kind: ForeignKind, bytes: usize) {
        if kind == ForeignKind::Executable && bytes > 0 {
            self.backing().notify(Notice {
                event,
                kind: NoticeKind::Executable,
                bytes,
                scope: self.scope,
            });
        }
    }

    /// Counts a notice from above this context, such as a driver's through its callbacks, and forwards it unchanged.
    pub(crate) fn notify_change(&self, notice: Notice) {
        let (kind, bytes) = match notice.kind {
            NoticeKind::Executable => (ForeignKind::Executable, notice.bytes as u64),
        };
        // An impossible notice (more freed than allocated) is not counted, but forwarded: a checker below may have a rule for it.
        let _counted = match notice.event {
            NoticeEvent::Allocated => self.count_foreign(kind, bytes),
            NoticeEvent::Freed => self.foreign.subtract(kind, bytes),
        };
        self.backing().notify(notice);
    }
}
