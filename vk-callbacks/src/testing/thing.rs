//! An object of the fake driver; its state lies in the application's memory, as all the rest of it.

use core::ptr::NonNull;

use alloc_core::NoticeEvent;

use super::chain::{Block, Chain, OutOfMemory};
use super::host::{Given, Host};
use super::kind::FakeKind;
use crate::raw::INTERNAL_EXECUTABLE;

/// The most parts an object has.
const PARTS: usize = 3;

/// What a handle points at.
pub(super) struct Thing {
    pub(super) kind: FakeKind,
    /// What its `vkCreate*` got, by value; of a pool's child what the pool got (V34).
    pub(super) own: Option<Host>,
    /// What its `vkCreate*` got, as it was passed. A correct driver has no use for it.
    pub(super) given: Given,
    state: Block,
    parts: [Option<Block>; PARTS],
    /// Of a pool: the child made last. Of a child: the one made before it.
    next: Option<Handle>,
    /// What a command buffer recorded.
    pub(super) recorded: Option<Block>,
}

/// A handle: never 0, and not used again after its object was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle(NonNull<Thing>);

// SAFETY: objects are used by one thread at a time, as Vulkan asks of the program (external synchronisation).
unsafe impl Send for Handle {}
// SAFETY: as for `Send`.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn number(self) -> u64 {
        self.0.addr().get() as u64
    }

    pub(super) fn get(&self) -> &Thing {
        // SAFETY: a handle leads to the live object that `make` wrote; the program destroys each once.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn get_mut(&mut self) -> &mut Thing {
        // SAFETY: as in `get`; the program uses an object on one thread at a time.
        unsafe { self.0.as_mut() }
    }

    /// Takes all the memory of an object; what was taken goes back when a part of it is refused.
    pub(super) fn make(chain: &Chain, kind: FakeKind, given: Given) -> Result<Self, OutOfMemory> {
        let scope = kind.scope();
        let state = chain.take(size_of::<Thing>(), align_of::<Thing>(), scope)?;
        let own = given.copy().or(chain.object);
        let thing = Thing { kind, own, given, state, parts: [None; PARTS], next: None, recorded: None };
        let at = state.at.cast::<Thing>();
        // SAFETY: a block of the size and alignment of a `Thing`, just taken.
        unsafe { at.write(thing) };
        let mut handle = Self(at);
        for ((size, align), part) in kind.parts().iter().zip(&mut handle.get_mut().parts) {
            match chain.take(*size, *align, scope) {
                Ok(block) => *part = Some(block),
                Err(refused) => {
                    handle.give_memory_back(chain);
                    return Err(refused);
                }
            }
        }
        handle.notify(chain, NoticeEvent::Allocated);
        Ok(handle)
    }

    /// Gives all the memory of an object back.
    pub(super) fn unmake(self, chain: &Chain) {
        self.notify(chain, NoticeEvent::Freed);
        self.give_memory_back(chain);
    }

    fn give_memory_back(mut self, chain: &Chain) {
        let thing = self.get_mut();
        let recorded = thing.recorded.take();
        for part in thing.parts.iter_mut().rev().filter_map(Option::take).chain(recorded) {
            chain.give_back(part);
        }
        let state = thing.state;
        chain.give_back(state);
    }

    /// Drops the last part without giving it back: a leak.
    pub(super) fn forget_a_part(&mut self) {
        if let Some(part) = self.get_mut().parts.iter_mut().rev().find(|part| part.is_some()) {
            *part = None;
        }
    }

    /// Makes the first part half as large again, and small again.
    pub(super) fn resize_a_part(&mut self, chain: &Chain) -> Result<(), OutOfMemory> {
        let Some(part) = self.get_mut().parts.iter_mut().flatten().next() else { return Ok(()) };
        let size = part.size;
        chain.resize(part, size + size / 2)?;
        chain.resize(part, size)
    }

    fn notify(self, chain: &Chain, event: NoticeEvent) {
        let (kind, scope) = (self.get().kind, self.get().kind.scope());
        if let (1.., Some((_, host))) = (kind.executable(), chain.most_specific(scope)) {
            host.notify(event, kind.executable(), INTERNAL_EXECUTABLE, scope);
        }
    }

    /// Puts a child into its pool.
    pub(super) fn adopt(&mut self, mut child: Self) {
        child.get_mut().next = self.get_mut().next.replace(child);
    }

    /// The pool's youngest child.
    pub(super) fn child(&self) -> Option<Self> {
        self.get().next
    }

    /// Takes the pool's youngest child out.
    pub(super) fn release_child(&mut self) -> Option<Self> {
        let mut child = self.get().next?;
        self.get_mut().next = child.get_mut().next.take();
        Some(child)
    }
}
