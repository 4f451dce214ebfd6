//! Foreign memory, with guards and by notices.

use alloc_core::{Foreign, ForeignKind, HostAllocator, Notice, NoticeEvent};

use super::MAX_GUARDS;
use super::model::OwnedModel;
use testkit::programs::Bytes;

impl OwnedModel {
    pub(super) fn declare(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let (kind, size) = (ForeignKind::ALL[bytes.below(ForeignKind::COUNT)?], bytes.size()?);
        if self.guards.len() >= MAX_GUARDS {
            let (at, guard) = self.guards.remove(0);
            drop(guard);
            self.node(at).held -= 1;
        }
        let guard = Foreign::declare(&self.nodes[&at].handle(), kind, size).expect("a statement is not refused");
        self.node(at).held += 1;
        self.guards.push((at, guard));
        Some(true)
    }

    pub(super) fn change(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let (which, size) = (bytes.below(MAX_GUARDS)?, bytes.size()?);
        let Some(which) = which.checked_rem(self.guards.len()) else {
            return Some(false);
        };
        if size % 5 == 4 {
            let (at, guard) = self.guards.remove(which);
            drop(guard);
            self.node(at).held -= 1;
        } else {
            self.guards[which].1.set_bytes(size).expect("a statement is not refused");
        }
        Some(true)
    }

    /// A notice from above, as a driver's through its callbacks.
    pub(super) fn notice(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let size = bytes.size()?;
        let noticed = &mut self.node(at).plain[ForeignKind::Executable.index()];
        let (event, bytes) = if size % 2 == 0 {
            *noticed += size as u64;
            (NoticeEvent::Allocated, size)
        } else {
            // Guards' bytes are left to the guards.
            let size = (*noticed).min(size as u64);
            *noticed -= size;
            (NoticeEvent::Freed, size as usize)
        };
        let handle = self.nodes[&at].handle();
        handle.notify(Notice { event, bytes, scope: handle.scope() });
        Some(true)
    }
}
