#![forbid(unsafe_code)]

use alloc_core::{ContextId, Scope};

use super::guard_report::AddressPosition;
use crate::block::{BlockMark, BlockState, Known, SiteId};
use crate::call_sites::SiteView;
use crate::mode::Mode;
use crate::modules::{self, Module};

/// A block as its caller sees it: behind a C bridge, the bytes after the bridge's header.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BlockInfo<'a> {
    /// The address of the block's first byte.
    pub address: usize,
    /// In bytes.
    pub size: usize,
    /// In bytes; of the whole block, with a bridge's header.
    pub align: usize,
    /// The block's lifetime in Vulkan's terms.
    pub scope: Scope,
    /// Live, freed or moved.
    pub state: BlockState,
    /// The block's mode.
    pub mode: Mode,
    /// The call that allocated the block.
    pub allocated: Actor<'a>,
    /// The call that freed the block.
    pub freed: Option<Actor<'a>>,
    pub(super) front: usize,
}

/// One event of a block: its allocation, its free, or an access.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Actor<'a> {
    /// The operating system's number of the thread; 0 if it was not recorded.
    pub thread: u32,
    /// A number that grows with the allocations of the process's guards; exact within one thread.
    pub serial: u64,
    /// The requesting context; `None` without one, or if it was not recorded.
    pub context: Option<ContextId>,
    /// The name of that context; "" without one.
    pub owner: &'a str,
    /// The context's label.
    pub label: Option<&'a str>,
    /// The Vulkan command that the thread was in.
    pub command: Option<&'static str>,
    /// Known only for the reporting call: call sites record the command, not its number.
    pub command_serial: Option<u64>,
    /// The thread's stack.
    pub stack: Stack<'a>,
    pub(super) front: usize,
}

/// A thread's call stack: return addresses, innermost first. If an instruction was stopped, its own address comes
/// first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack<'a> {
    /// Return addresses.
    pub frames: &'a [usize],
    /// Whether the stack reaches the command's own frame, or the stack's end.
    pub whole: bool,
    /// 0 if the modules were not noted.
    pub(super) modules: u16,
}

impl<'a> BlockInfo<'a> {
    pub(crate) fn new(known: Known, site: impl Fn(SiteId) -> Option<SiteView<'a>>) -> Self {
        let actor = |mark: BlockMark| Actor::new(mark, site(mark.site));
        let allocated = actor(known.allocated);
        let front = allocated.front.min(known.size);
        Self {
            address: known.start.wrapping_add(front),
            size: known.size.saturating_sub(front),
            align: known.align,
            scope: known.scope,
            state: match known.state {
                BlockState::MovedTo(to) => BlockState::MovedTo(to.wrapping_add(front)),
                state => state,
            },
            mode: known.mode,
            allocated,
            freed: (known.state != BlockState::Live).then(|| actor(known.freed)),
            front,
        }
    }

    /// The position of `address` relative to the block.
    #[must_use]
    pub const fn place_of(&self, address: usize) -> AddressPosition {
        AddressPosition::of(address, self.address, self.size)
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
            stack: site.map_or(Stack::default(), Stack::of),
        }
    }
}

impl<'a> Stack<'a> {
    /// The file that a frame lies in, as mapped when the stack was recorded. `None` for code that is no file's.
    #[must_use]
    pub fn module(&self, frame: usize) -> Option<Module<'static>> {
        modules::find(frame, self.modules)
    }

    pub(crate) const fn of(site: SiteView<'a>) -> Self {
        Self { frames: site.frames, whole: site.whole, modules: site.modules }
    }
}
