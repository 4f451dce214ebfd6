//! A block with the calls that allocated and freed it, as reports and lists show it.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::{ContextId, Scope};

use super::address_position::AddressPosition;
use crate::block::{BlockMark, BlockPhase, Known, SiteId};
use crate::call_sites::SiteView;
use crate::mode::Mode;

/// A block as its caller sees it: behind a C bridge that is the block behind the bridge's header.
#[derive(Clone, Copy)]
pub struct BlockInfo<'a> {
    known: Known,
    allocated: Actor<'a>,
    freed: Actor<'a>,
}

/// What a block's life has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockState {
    /// It is live.
    Live,
    /// It was freed.
    Freed,
    /// A reallocation gave it back; the content went to this address.
    MovedTo(usize),
}

/// One event of a block: its allocation, its free, or an access.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    pub(super) thread: u32,
    pub(super) serial: u64,
    pub(super) context: Option<ContextId>,
    pub(super) owner: &'a str,
    pub(super) label: Option<&'a str>,
    pub(super) command: Option<&'static str>,
    /// Known of who does something now only: sites are told apart by the command, not by its number.
    pub(super) command_serial: Option<u64>,
    /// Bytes in front of the block that are a C bridge's.
    pub(super) front: usize,
    pub(super) stack: Stack<'a>,
}

/// Where a thread was: return addresses, innermost first. Where an instruction was stopped, the first is its own address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack<'a> {
    /// The addresses.
    pub frames: &'a [usize],
    /// Whether it reaches the command's own frame, or the stack's end.
    pub whole: bool,
}

impl<'a> BlockInfo<'a> {
    /// `known`, with its sites looked up.
    pub(crate) fn new(known: Known, site: impl Fn(SiteId) -> Option<SiteView<'a>>) -> Self {
        let deed = |mark: BlockMark| Actor::new(mark, site(mark.site));
        Self {
            allocated: deed(known.allocated),
            freed: deed(known.freed),
            known,
        }
    }

    /// Bytes in front that are a C bridge's.
    pub(super) fn front(&self) -> usize {
        self.allocated.front.min(self.known.size)
    }

    /// Address of its first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.known.start.wrapping_add(self.front())
    }

    /// In bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.known.size.saturating_sub(self.front())
    }

    /// In bytes; of the whole block, where a bridge's header stands in front.
    #[must_use]
    pub fn align(&self) -> usize {
        self.known.align
    }

    /// Vulkan's lifetime of it.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.known.scope
    }

    /// Live, freed, moved.
    #[must_use]
    pub fn state(&self) -> BlockState {
        match self.known.state {
            BlockPhase::Live => BlockState::Live,
            BlockPhase::Freed => BlockState::Freed,
            BlockPhase::Moved(to) => BlockState::MovedTo(to.wrapping_add(self.front())),
        }
    }

    /// How it is guarded.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.known.mode
    }

    /// The call that allocated it.
    #[must_use]
    pub fn allocated(&self) -> Actor<'a> {
        self.allocated
    }

    /// The call that freed it.
    #[must_use]
    pub fn freed(&self) -> Option<Actor<'a>> {
        (self.known.state != BlockPhase::Live).then_some(self.freed)
    }

    /// The position of `address` relative to it.
    #[must_use]
    pub fn place_of(&self, address: usize) -> AddressPosition {
        AddressPosition::of(address, self.address(), self.size())
    }
}

impl<'a> Actor<'a> {
    fn new(mark: BlockMark, site: Option<SiteView<'a>>) -> Self {
        Self {
            thread: mark.thread,
            serial: mark.serial,
            context: site.and_then(|site| site.context),
            owner: site.map_or("", |site| site.name),
            label: site.and_then(|site| site.label),
            command: site.and_then(|site| site.command),
            command_serial: None,
            front: site.map_or(0, |site| site.front as usize),
            stack: site.map_or(Stack::default(), |site| Stack {
                frames: site.frames,
                whole: site.whole,
            }),
        }
    }

    /// The operating system's number of the thread; 0 where it was not written down.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// When: a number that grows with the allocations of the process's guards, exact for one thread.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The context that asked; `None` where none did or it was not written down.
    #[must_use]
    pub fn context(&self) -> Option<ContextId> {
        self.context
    }

    /// The name of that context; "" without one.
    #[must_use]
    pub fn owner(&self) -> &'a str {
        self.owner
    }

    /// The label of that context.
    #[must_use]
    pub fn label(&self) -> Option<&'a str> {
        self.label
    }

    /// The Vulkan command that the thread was in.
    #[must_use]
    pub fn command(&self) -> Option<&'static str> {
        self.command
    }

    /// That command's number, where it is still known: of who does something now, not of who did something then.
    #[must_use]
    pub fn command_serial(&self) -> Option<u64> {
        self.command_serial
    }

    /// Where the thread was.
    #[must_use]
    pub fn stack(&self) -> Stack<'a> {
        self.stack
    }
}

impl fmt::Debug for BlockInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockInfo")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("size", &self.size())
            .field("align", &self.align())
            .field("scope", &self.scope())
            .field("state", &self.state())
            .field("owner", &self.allocated.owner())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Actor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("thread", &self.thread)
            .field("serial", &self.serial)
            .field("owner", &self.owner())
            .field("command", &self.command())
            .finish_non_exhaustive()
    }
}
