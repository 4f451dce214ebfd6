//! Foreign memory: memory from elsewhere, declared at a context and counted apart from routed memory.
//!
//! The counts in a node: a few atomics by kind. Declarations are rare, so all threads share them and nothing needs folding.
//!
//! ```text
//!         executable               heap                     mapping
//!    0    live  peak  total   24   live  peak  total   48   live  peak  total      declared here
//!   72    total  lost         88   total  lost        104   total  lost            children that are gone
//! ```

#![forbid(unsafe_code)]

use core::fmt;

use crate::context::{ContextHandle, ContextNode, ContextRef, FOREIGN};
use crate::error::{HostError, Misuse};
use crate::host::{Notice, NoticeEvent, NoticeKind};
use crate::sync::{AtomicU64, Ordering, Relaxed as _};

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

    /// As [`ForeignCells::declare`](ForeignCells::declare), noted.
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

/// See the file's head.
#[derive(Default)]
pub(crate) struct ForeignCells {
    own: [Own; ForeignKind::COUNT],
    /// Written under the root's tree lock.
    gone: [Gone; ForeignKind::COUNT],
}

#[derive(Default)]
struct Own {
    live: AtomicU64,
    peak: AtomicU64,
    total: AtomicU64,
}

#[derive(Default)]
struct Gone {
    total: AtomicU64,
    lost: AtomicU64,
}

impl ForeignCells {
    fn own(&self, kind: ForeignKind) -> &Own {
        let [executable, heap, mapping] = &self.own;
        match kind {
            ForeignKind::Executable => executable,
            ForeignKind::Heap => heap,
            ForeignKind::Mapping => mapping,
        }
    }

    /// Adds declared bytes. False, and nothing counted, if the sum exceeds 2^64.
    fn declare(&self, kind: ForeignKind, bytes: u64) -> bool {
        let own = self.own(kind);
        let more = |live: u64| live.checked_add(bytes);
        let Ok(before) = own
            .live
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        else {
            return false;
        };
        own.peak
            .fetch_max(before.saturating_add(bytes), Ordering::Relaxed);
        let _ = own
            .total
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
                Some(total.saturating_add(bytes))
            });
        true
    }

    /// Subtracts withdrawn bytes. False, and nothing counted, if fewer are declared.
    pub(super) fn subtract(&self, kind: ForeignKind, bytes: u64) -> bool {
        let less = |live: u64| live.checked_sub(bytes);
        self.own(kind)
            .live
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    /// The declarations of this context. During another thread's declaration the peak and total may lag, but are at least the live bytes.
    pub(crate) fn usage(&self) -> [ForeignUsage; ForeignKind::COUNT] {
        self.own.each_ref().map(|own| {
            let live_bytes = own.live.get();
            let peak_bytes = own.peak.get().max(live_bytes);
            ForeignUsage {
                live_bytes,
                peak_bytes,
                total_bytes: own.total.get().max(peak_bytes),
            }
        })
    }

    /// The sums of ended children; live bytes are lost, because they can no longer be withdrawn.
    pub(crate) fn gone(&self) -> [ForeignUsage; ForeignKind::COUNT] {
        self.gone.each_ref().map(|gone| ForeignUsage {
            live_bytes: gone.lost.get(),
            peak_bytes: 0,
            total_bytes: gone.total.get(),
        })
    }

    /// Adds the sums of an ending child. The tree lock is held.
    pub(crate) fn inherit(&self, child: &Self) {
        for ((gone, own), below) in self.gone.iter().zip(child.usage()).zip(child.gone()) {
            let sum = own.plus(&below);
            for (cell, by) in [(&gone.total, sum.total_bytes), (&gone.lost, sum.live_bytes)] {
                cell.set(cell.get().saturating_add(by));
            }
        }
    }
}

/// The kind of foreign memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ForeignKind {
    /// Memory for generated code: `VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE`.
    Executable,
    /// Blocks of another heap: of the global allocator, an arena over it, a library that brings its own.
    Heap,
    /// Pages from the operating system: files, shared memory, anonymous mappings.
    Mapping,
}

impl ForeignKind {
    /// The number of kinds.
    pub const COUNT: usize = 3;

    /// All kinds.
    pub const ALL: [Self; Self::COUNT] = [Self::Executable, Self::Heap, Self::Mapping];

    /// `executable`, `heap` or `mapping`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Heap => "heap",
            Self::Mapping => "mapping",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ForeignKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Bytes of one kind that were declared at a context, see [`Foreign`]. Nothing can verify a declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignUsage {
    /// Bytes declared and not yet withdrawn.
    pub live_bytes: u64,
    /// The most bytes that were declared at once, exact. Of several contexts together: the sum of the peaks of those that still
    /// exist, an upper bound for these.
    pub peak_bytes: u64,
    /// All bytes ever declared; a declaration that grows adds its growth.
    pub total_bytes: u64,
}

impl ForeignUsage {
    /// True when nothing was ever declared.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live_bytes == 0 && self.peak_bytes == 0 && self.total_bytes == 0
    }

    /// Both together. Peaks add up to an upper bound.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            live_bytes: self.live_bytes.saturating_add(other.live_bytes),
            peak_bytes: self.peak_bytes.saturating_add(other.peak_bytes),
            total_bytes: self.total_bytes.saturating_add(other.total_bytes),
        }
    }

    /// This less a part that was there all the time.
    pub(crate) const fn without(&self, constant: &Self) -> Self {
        let bytes = constant.live_bytes;
        Self {
            live_bytes: self.live_bytes.saturating_sub(bytes),
            peak_bytes: self.peak_bytes.saturating_sub(bytes),
            total_bytes: self.total_bytes.saturating_sub(bytes),
        }
    }
}
