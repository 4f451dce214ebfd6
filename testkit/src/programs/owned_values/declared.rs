//! Foreign memory, with guards and without.

use alloc_core::{Foreign, ForeignKind};

use super::MAX_GUARDS;
use super::model::OwnedModel;
use crate::programs::Bytes;

impl OwnedModel {
    pub(super) fn declare(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let (kind, size) = (
            ForeignKind::ALL[bytes.below(ForeignKind::COUNT)?],
            bytes.size()?,
        );
        if self.guards.len() >= MAX_GUARDS {
            let (at, guard) = self.guards.remove(0);
            drop(guard);
            self.node(at).held -= 1;
        }
        let guard = Foreign::declare(self.nodes[&at].handle(), kind, size)
            .expect("a statement is not refused");
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
            self.guards[which]
                .1
                .set_bytes(size)
                .expect("a statement is not refused");
        }
        Some(true)
    }

    pub(super) fn plain(&mut self, at: usize, bytes: &mut Bytes<'_>) -> Option<bool> {
        let (kind, size) = (
            ForeignKind::ALL[bytes.below(ForeignKind::COUNT)?],
            bytes.size()?,
        );
        let declared = self.nodes[&at].plain[kind.index()];
        let handle = self.nodes[&at].handle();
        if size % 2 == 0 {
            handle
                .declare_foreign(kind, size)
                .expect("a statement is not refused");
            self.node(at).plain[kind.index()] += size as u64;
        } else {
            // Guards' bytes are left to the guards.
            let size = declared.min(size as u64);
            handle
                .subtract_foreign(kind, size as usize)
                .expect("so much is declared");
            self.node(at).plain[kind.index()] -= size;
        }
        Some(true)
    }
}
