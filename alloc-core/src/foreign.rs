#![forbid(unsafe_code)]

use core::fmt;

use crate::account::ForeignKind;
use crate::context::{ContextHandle, ContextNode, FOREIGN};
use crate::error::HostError;
use crate::host::{Notice, NoticeEvent};

/// Memory allocated elsewhere, declared at a context for as long as this guard lives.
///
/// Some memory cannot be routed: the code of a JIT, the heap of an LLVM, a mapped file. A declaration adds the bytes to
/// the context's foreign memory ([`Usage::foreign`](crate::Usage::foreign)). They are never part of live bytes or of a
/// budget's charge, because no limit could be enforced on them.
///
/// [`Executable`](ForeignKind::Executable) memory alone is forwarded to the context's allocator, as
/// [`HostAllocator::notify`](crate::HostAllocator::notify) with the context's scope; for a driver this becomes
/// `PFN_vkInternalAllocationNotification` and `PFN_vkInternalFreeNotification` (Vulkan specification, *Host Memory*). A
/// change of size is a free and an allocation. Each notice of an allocation is followed by one of a free of the same
/// size. No lock is held during these calls.
///
/// A closed context counts declarations as well, as [outstanding](crate::Outstanding::foreign_bytes). Forgetting the
/// guard (`mem::forget`) leaves its bytes declared, and keeps the root from closing.
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
#[doc(alias("VkInternalAllocationType"))]
pub struct Foreign {
    context: ContextHandle,
    kind: ForeignKind,
    bytes: usize,
}

impl Foreign {
    /// Declares memory; 0 bytes are allowed.
    ///
    /// # Errors
    /// [`HostError::TooLarge`] above `isize::MAX` bytes, or if all declarations exceed 2^64 together.
    pub fn declare(context: &ContextHandle, kind: ForeignKind, bytes: usize) -> Result<Self, HostError> {
        context.node().declare_foreign(kind, bytes)?;
        let declared = Self { context: context.clone(), kind, bytes };
        // The declaration is withdrawn if the allocator unwinds.
        context.node().notify_declared(NoticeEvent::Allocated, kind, bytes);
        Ok(declared)
    }

    /// Changes the declaration to `bytes` bytes.
    ///
    /// # Errors
    /// As [`declare`](Foreign::declare); the declaration is unchanged.
    pub fn set_bytes(&mut self, bytes: usize) -> Result<(), HostError> {
        let node = self.context.node();
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
    pub const fn context(&self) -> &ContextHandle {
        &self.context
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let node = self.context.node();
        // Notices may have withdrawn these bytes.
        if node.foreign.subtract(self.kind, self.bytes as u64) {
            node.notify_declared(NoticeEvent::Freed, self.kind, self.bytes);
        }
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign")
            .field("context", &self.context.id())
            .field("kind", &self.kind)
            .field("bytes", &self.bytes)
            .finish()
    }
}

impl ContextNode {
    fn declare_foreign(&self, kind: ForeignKind, bytes: usize) -> Result<(), HostError> {
        if isize::try_from(bytes).is_err() || !self.count_foreign(kind, bytes as u64) {
            return Err(HostError::TooLarge);
        }
        Ok(())
    }

    fn count_foreign(&self, kind: ForeignKind, bytes: u64) -> bool {
        self.note(FOREIGN);
        self.foreign.declare(kind, bytes)
    }

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

    /// Vulkan has a notification only for memory for generated code.
    fn notify_declared(&self, event: NoticeEvent, kind: ForeignKind, bytes: usize) {
        if kind == ForeignKind::Executable && bytes > 0 {
            self.backing().notify(Notice { event, bytes, scope: self.scope });
        }
    }

    pub(crate) fn notify_change(&self, notice: Notice) {
        let (kind, bytes) = (ForeignKind::Executable, notice.bytes as u64);
        // A checker below may have a rule for an impossible notice (more freed than allocated).
        let _counted = match notice.event {
            NoticeEvent::Allocated => self.count_foreign(kind, bytes),
            NoticeEvent::Freed => self.foreign.subtract(kind, bytes),
        };
        self.backing().notify(notice);
    }
}
