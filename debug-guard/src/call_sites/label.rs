//! The lines of a stack in a profile: owner, command, return addresses. Each is stored once, and numbered.

use core::sync::atomic::{AtomicU32, Ordering};

use super::arena::{ArenaOffset, SiteArena};
use super::trie::{LabelList, NoRoom, Trie};
use crate::block::SiteId;

/// The content of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelKind {
    /// The owner of this site, and its scope.
    Owner(SiteId),
    Command(&'static str),
    /// A return address.
    Frame(usize),
}

/// In the arena.
#[repr(C)]
struct Label {
    hash: u64,
    before: AtomicU32,
    number: AtomicU32,
    line: LabelKind,
}

/// All labels of a profile.
#[derive(Default)]
pub(crate) struct Labels {
    known: Trie,
    all: LabelList,
}

fn at(arena: &SiteArena, place: ArenaOffset) -> Option<&Label> {
    let label = arena.at(place, size_of::<Label>())?.cast::<Label>();
    // SAFETY: the places in these tries and lists are those of labels, which are complete before they are linked and never moved.
    Some(unsafe { label.as_ref() })
}

impl Labels {
    /// Number of blocks.
    pub(crate) fn count(&self) -> u32 {
        self.all.head().1
    }

    /// The number of the label `line` with this hash. A new label is allocated in the arena.
    pub(crate) fn number(
        &self,
        arena: &SiteArena,
        line: LabelKind,
        hash: u64,
        keep: usize,
    ) -> Result<u32, NoRoom> {
        if let Some(label) = self
            .known
            .find(arena, hash)
            .and_then(|place| at(arena, place))
        {
            return Ok(label.number.load(Ordering::Relaxed));
        }
        let (place, new) = arena.allocate(size_of::<Label>(), keep).ok_or(NoRoom)?;
        let label = Label {
            hash,
            before: AtomicU32::new(0),
            number: AtomicU32::new(0),
            line,
        };
        // SAFETY: so many bytes at a multiple of 16 that no other thread knows.
        unsafe { new.cast::<Label>().write(label) };
        let label = at(arena, place).ok_or(NoRoom)?;
        // Numbered before it can be found; if another thread was faster with the same label, this number stays unused.
        self.all.push(place, |before, number| {
            label
                .before
                .store(before.map_or(0, ArenaOffset::raw), Ordering::Relaxed);
            label.number.store(number, Ordering::Relaxed);
        });
        let stands = self.known.insert(arena, hash, place, keep)?;
        Ok(at(arena, stands)
            .ok_or(NoRoom)?
            .number
            .load(Ordering::Relaxed))
    }

    /// The first `count` labels, the last of them first.
    pub(crate) fn for_each(
        &self,
        arena: &SiteArena,
        count: u32,
        tell: &mut dyn FnMut(LabelKind) -> core::fmt::Result,
    ) -> core::fmt::Result {
        let mut next = self.all.head().0;
        while let Some(label) = next.and_then(|place| at(arena, place)) {
            if label.number.load(Ordering::Relaxed) < count {
                tell(label.line)?;
            }
            next = ArenaOffset::from_raw(label.before.load(Ordering::Relaxed));
        }
        Ok(())
    }
}
