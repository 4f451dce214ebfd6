//! An object of the fake driver, in the application's memory.

use core::ptr::NonNull;

use alloc_core::NoticeEvent;

use crate::chain::{FakeBlock, FakeChain, OutOfMemory};
use crate::host::{Host, PassedCallbacks};
use crate::kind::FakeKind;
use vk_callbacks::raw::INTERNAL_EXECUTABLE;

/// The maximum parts of an object.
const PARTS: usize = 3;

/// The object behind a handle.
pub(crate) struct FakeObject {
    pub(crate) kind: FakeKind,
    /// The `pAllocator` of its `vkCreate*`, by value; the pool's for a pool's child (V34).
    pub(crate) own: Option<Host>,
    /// The `pAllocator` of its `vkCreate*`, as passed. A correct driver does not keep it.
    pub(crate) passed: PassedCallbacks,
    state: FakeBlock,
    parts: [Option<FakeBlock>; PARTS],
    /// Of a pool: the newest child. Of a child: the next older one.
    next: Option<Handle>,
    /// The recorded commands of a command buffer.
    pub(crate) recorded: Option<FakeBlock>,
}

/// A handle: never 0, and not used again after its object was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(NonNull<FakeObject>);

// SAFETY: objects are used by one thread at a time, as Vulkan requires of the program (external synchronisation).
unsafe impl Send for Handle {}
// SAFETY: objects are used by one thread at a time (external synchronisation).
unsafe impl Sync for Handle {}

impl Handle {
    pub(crate) fn number(self) -> u64 {
        self.0.addr().get() as u64
    }

    pub(crate) fn get(&self) -> &FakeObject {
        // SAFETY: a handle is of the live object that `create` wrote; the program destroys each once.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn get_mut(&mut self) -> &mut FakeObject {
        // SAFETY: a handle is of a live object, which the program uses on one thread at a time.
        unsafe { self.0.as_mut() }
    }

    /// Allocates all memory of an object; frees it if a part is refused.
    pub(crate) fn create(chain: &FakeChain, kind: FakeKind, given: PassedCallbacks) -> Result<Self, OutOfMemory> {
        let scope = kind.scope();
        let state = chain.allocate(size_of::<FakeObject>(), align_of::<FakeObject>(), scope)?;
        let own = given.copy().or(chain.object);
        let object = FakeObject { kind, own, passed: given, state, parts: [None; PARTS], next: None, recorded: None };
        let at = state.at.cast::<FakeObject>();
        // SAFETY: a new block of the size and alignment of a `FakeObject`.
        unsafe { at.write(object) };
        let mut handle = Self(at);
        for ((size, align), part) in kind.parts().iter().zip(&mut handle.get_mut().parts) {
            match chain.allocate(*size, *align, scope) {
                Ok(block) => *part = Some(block),
                Err(refused) => {
                    handle.free_memory(chain);
                    return Err(refused);
                }
            }
        }
        handle.notify(chain, NoticeEvent::Allocated);
        Ok(handle)
    }

    /// Frees all memory of an object.
    pub(crate) fn destroy(self, chain: &FakeChain) {
        self.notify(chain, NoticeEvent::Freed);
        self.free_memory(chain);
    }

    fn free_memory(mut self, chain: &FakeChain) {
        let object = self.get_mut();
        let recorded = object.recorded.take();
        for part in object.parts.iter_mut().rev().filter_map(Option::take).chain(recorded) {
            chain.free(part);
        }
        let state = object.state;
        chain.free(state);
    }

    /// Drops the last part without a free: a leak.
    pub(crate) fn forget_a_part(&mut self) {
        if let Some(part) = self.get_mut().parts.iter_mut().rev().find(|part| part.is_some()) {
            *part = None;
        }
    }

    /// Grows the first part by half, and shrinks it again.
    pub(crate) fn resize_a_part(&mut self, chain: &FakeChain) -> Result<(), OutOfMemory> {
        let Some(part) = self.get_mut().parts.iter_mut().flatten().next() else {
            return Ok(());
        };
        let size = part.size;
        chain.resize(part, size + size / 2)?;
        chain.resize(part, size)
    }

    fn notify(self, chain: &FakeChain, event: NoticeEvent) {
        let (kind, scope) = (self.get().kind, self.get().kind.scope());
        if let (1.., Some((_, host))) = (kind.executable(), chain.most_specific(scope)) {
            host.notify(event, kind.executable(), INTERNAL_EXECUTABLE, scope);
        }
    }

    /// Adds a child to its pool.
    pub(crate) fn adopt(&mut self, mut child: Self) {
        child.get_mut().next = self.get_mut().next.replace(child);
    }

    /// The pool's newest child.
    pub(crate) fn child(&self) -> Option<Self> {
        self.get().next
    }

    /// Removes the pool's newest child.
    pub(crate) fn release_child(&mut self) -> Option<Self> {
        let mut child = self.get().next?;
        self.get_mut().next = child.get_mut().next.take();
        Some(child)
    }
}
