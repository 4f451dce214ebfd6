//! Lists of a log's blocks by owner and by command. A scan of all blocks at the end of each object or command would take quadratic
//! time.
//!
//! ```text
//!   links    [block 7] [block 8] [block 9] ..     one for each block that was given, 16 bytes
//!               ^  ^----------------+ |           of one owner, the newest first: the head is in the owner
//!               +--------+------------+           of one command, the newest first: the heads lie in a map, by serial
//! ```

#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use alloc_core::{HostError, Scoped, TryMap, TryVec};

use crate::keyed_hash::HashKey;
use crate::pinned::{Memory, SCOPE};

pub(super) struct BlockLists<'h> {
    links: TryVec<Link, Own<'h>>,
    /// By the serial numbers of running commands.
    commands: TryMap<u64, Head, Own<'h>, HashKey>,
}

type Own<'h> = Scoped<Memory<'h>>;

/// The index of a link plus 1; 0 for none.
type Head = u32;

#[derive(Clone, Copy)]
struct Link {
    block: NonZeroU64,
    of_owner: Head,
    of_command: Head,
}

impl<'h> BlockLists<'h> {
    pub(super) fn new(memory: Memory<'h>) -> Self {
        let own = Scoped::new(memory, SCOPE);
        Self {
            links: TryVec::new_in(own),
            commands: TryMap::with_hasher_in(HashKey::fresh(), own),
        }
    }

    /// A command begins.
    pub(super) fn begin_command(&mut self, serial: u64) -> Result<(), HostError> {
        self.commands.try_insert(serial, 0)?;
        Ok(())
    }

    /// A command ends. Returns its blocks, and others of it that were moved.
    pub(super) fn end_command(&mut self, serial: u64) -> impl Iterator<Item = NonZeroU64> {
        let head = self.commands.remove(&serial).unwrap_or(0);
        self.follow(head, |link| link.of_command)
    }

    /// All running commands may have ended.
    pub(super) fn end_all_commands(&mut self) {
        self.commands.clear();
    }

    /// Reserves room for one more block.
    pub(super) fn reserve(&mut self) -> Result<(), HostError> {
        self.links.try_reserve(1)
    }

    /// The block of the reserved room was refused: frees the room if it is the first.
    pub(super) fn release_reserved(&mut self) {
        if self.links.is_empty() {
            self.links = TryVec::new_in(*self.links.allocator());
        }
    }

    /// Adds a block, whose room is reserved, to the list of its owner and to that of its running command. False if there are too
    /// many.
    pub(super) fn add(
        &mut self,
        block: NonZeroU64,
        owner: Option<&AtomicU32>,
        serial: u64,
    ) -> bool {
        let head = u32::try_from(self.links.len())
            .ok()
            .and_then(|place| place.checked_add(1));
        let Some(head) = head else { return false };
        let of_owner = owner.map_or(0, |owner| owner.swap(head, Relaxed));
        let of_command = self
            .commands
            .get_mut(&serial)
            .map_or(0, |command| core::mem::replace(command, head));
        self.links
            .try_push(Link {
                block,
                of_owner,
                of_command,
            })
            .is_ok()
    }

    /// The blocks of an owner.
    pub(super) fn of_owner(&self, owner: &AtomicU32) -> impl Iterator<Item = NonZeroU64> {
        self.follow(owner.load(Relaxed), |link| link.of_owner)
    }

    /// Removes the blocks from an owner's list that `keep` rejects.
    pub(super) fn retain(&mut self, owner: &AtomicU32, mut keep: impl FnMut(NonZeroU64) -> bool) {
        let mut next = owner.swap(0, Relaxed);
        while let Some(link) = place(next).and_then(|place| self.links.get_mut(place)) {
            let behind = link.of_owner;
            if keep(link.block) {
                link.of_owner = owner.swap(next, Relaxed);
            }
            next = behind;
        }
    }

    fn follow(&self, head: Head, link: impl Fn(&Link) -> Head) -> impl Iterator<Item = NonZeroU64> {
        let mut next = head;
        core::iter::from_fn(move || {
            let here = self.links.get(place(next)?)?;
            next = link(here);
            Some(here.block)
        })
    }
}

fn place(head: Head) -> Option<usize> {
    usize::try_from(head.checked_sub(1)?).ok()
}
