//! The header in front of a payload, and what can be asked of one block.
//!
//! ```text
//!  -16  size, where a block has 4 GiB or more (HUGE)
//!    0  link     the parent; where the block has children: the newest of them
//!    8  next     the next older sibling
//!   16  prev     the next newer sibling; of the newest: its parent's own parent
//!   24  size u32
//!   28  bits u16: PARENT, HUGE, DYING, MARKED, then 12 bits, the number of the destructor
//!   30  domain u16
//!   32  payload, aligned to 16
//! ```
//! The newest child needs no flag: its parent's link points at it.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::domain::DomainId;
use super::{Fill, TaggedDestructor, domain, resize, tables, tree, walk};
use crate::error::{HostError, Misuse};

/// `link` is the newest child, not the parent.
pub(super) const PARENT: u16 = 1;
/// The size stands in front of the header.
const HUGE: u16 = 2;
/// Being freed: on the way from the top of what is freed to the block that is freed next.
pub(super) const DYING: u16 = 4;
/// The colour of a garbage collector's sweep; see `gc`.
pub(super) const MARKED: u16 = 8;
const DESTRUCTOR_SHIFT: u32 = 4;

const ALIGN: usize = 16;
const HEADER_SIZE: usize = size_of::<Header>();
/// In front of a huge block's header: the size, padded.
const HUGE_SIZE: usize = 16;

/// See the file's head.
#[repr(C, align(16))]
pub(super) struct Header {
    pub(super) link: Cell<Option<Block>>,
    pub(super) next: Cell<Option<Block>>,
    pub(super) prev: Cell<Option<Block>>,
    size: Cell<u32>,
    bits: Cell<u16>,
    domain: u16,
}

const _: () = assert!(HEADER_SIZE == 32);

/// The address of a live block's header, with the right to all of its memory.
///
/// Whoever makes one promises that the block is live; nothing here keeps one beyond the free of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Block(NonNull<Header>);

/// Where a payload of some size lies in its memory.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    /// Bytes before the header.
    front: usize,
}

impl Plan {
    pub(super) fn new(size: usize) -> Result<Self, HostError> {
        let front = if u32::try_from(size).is_ok() {
            0
        } else {
            HUGE_SIZE
        };
        let whole = size
            .checked_add(HEADER_SIZE)
            .and_then(|whole| whole.checked_add(front))
            .ok_or(HostError::TooLarge)?;
        let layout = Layout::from_size_align(whole, ALIGN).map_err(|_| HostError::TooLarge)?;
        Ok(Self { layout, front })
    }

    /// True when headers of both stand at the same place of their memory.
    pub(super) const fn is_alike(&self, other: &Self) -> bool {
        self.front == other.front
    }

    /// The block in `memory`, whose header is yet to be written.
    ///
    /// # Safety
    /// `memory` has this plan's layout.
    pub(super) unsafe fn block(&self, memory: NonNull<u8>) -> Block {
        // SAFETY: the front is less than the layout's size.
        Block(unsafe { memory.add(self.front) }.cast())
    }
}

impl Block {
    /// Writes the header of a new block without parent and children.
    ///
    /// # Safety
    /// The block is the one of `plan` for `size` in memory that is nobody else's.
    pub(super) unsafe fn init(self, size: usize, domain: DomainId) {
        let header = Header {
            link: Cell::new(None),
            next: Cell::new(None),
            prev: Cell::new(None),
            size: Cell::new(0),
            bits: Cell::new(0),
            domain: domain.get(),
        };
        // SAFETY: the caller's memory has room for a header here, aligned to 16.
        unsafe { self.0.write(header) };
        // SAFETY: forwarded.
        unsafe { self.set_size(size) };
    }

    /// # Safety
    /// The block's memory has the layout and the front of the plan for `size`.
    pub(super) unsafe fn set_size(self, size: usize) {
        let header = self.header();
        if let Ok(small) = u32::try_from(size) {
            header.size.set(small);
            header.bits.set(header.bits.get() & !HUGE);
        } else {
            header.bits.set(header.bits.get() | HUGE);
            // SAFETY: a huge block has 16 bytes in front of its header.
            let place = unsafe { self.0.cast::<u8>().sub(HUGE_SIZE) };
            // SAFETY: those bytes are the block's own, aligned to 16.
            unsafe { place.cast::<usize>().write(size) };
        }
    }

    pub(super) fn header<'b>(self) -> &'b Header {
        // SAFETY: a live block's header (see the type), which is only reached through cells, by one thread at a time.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn size(self) -> usize {
        if !self.has(HUGE) {
            return self.header().size.get() as usize;
        }
        // SAFETY: a huge block has 16 bytes in front of its header.
        let place = unsafe { self.0.cast::<u8>().sub(HUGE_SIZE) };
        // SAFETY: written when the size was set.
        unsafe { place.cast::<usize>().read() }
    }

    /// Where all of the block's memory begins.
    pub(super) fn memory(self) -> NonNull<u8> {
        let front = if self.has(HUGE) { HUGE_SIZE } else { 0 };
        // SAFETY: that many bytes in front of the header are the block's own.
        unsafe { self.0.cast::<u8>().sub(front) }
    }

    pub(super) fn payload(self) -> NonNull<u8> {
        // SAFETY: the header is the block's own; behind it is the payload, or the block's end.
        unsafe { self.0.cast::<u8>().add(HEADER_SIZE) }
    }

    pub(super) fn has(self, bits: u16) -> bool {
        self.header().bits.get() & bits != 0
    }

    pub(super) fn set(self, bits: u16) {
        let cell = &self.header().bits;
        cell.set(cell.get() | bits);
    }

    pub(super) fn clear(self, bits: u16) {
        let cell = &self.header().bits;
        cell.set(cell.get() & !bits);
    }

    pub(super) fn domain(self) -> DomainId {
        DomainId::of_block(self.header().domain)
    }

    /// Links, flags and destructor of `from`, whose place this block will have.
    pub(super) fn copy_links(self, from: Self) {
        let (to, from) = (self.header(), from.header());
        to.link.set(from.link.get());
        to.next.set(from.next.get());
        to.prev.set(from.prev.get());
        to.bits.set(to.bits.get() & HUGE | from.bits.get() & !HUGE);
    }

    pub(super) fn destructor_number(self) -> u16 {
        self.header().bits.get() >> DESTRUCTOR_SHIFT
    }

    /// Whether a garbage collector frees the block.
    pub(super) fn is_collected(self) -> bool {
        self.destructor_number() == tables::COLLECTED
    }

    pub(super) fn set_destructor_number(self, number: u16) {
        let cell = &self.header().bits;
        let flags = cell.get() & ((1 << DESTRUCTOR_SHIFT) - 1);
        cell.set(flags | number << DESTRUCTOR_SHIFT);
    }
}

/// A live block, by the address of its payload: aligned to 16, and good as long as the block is.
///
/// 8 bytes, freely copied, so it may outlive its block: every use is unsafe.
///
/// Threads: a tree of blocks is one thread's at a time, and may be handed to another one. Different trees of a domain may be used by
/// different threads at once. An allocator behind the domain that calls back while it allocates, resizes or frees may use any tree but the
/// one that is being changed.
///
/// # Safety of all its functions
/// The block is live and was allocated here, and so are all other blocks that are passed; no other thread uses their trees meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct TaggedBlock(NonNull<u8>);

impl TaggedBlock {
    /// The block whose payload this is.
    #[must_use]
    pub const fn from_payload(payload: NonNull<u8>) -> Self {
        Self(payload)
    }

    /// The payload.
    #[must_use]
    pub const fn payload(self) -> NonNull<u8> {
        self.0
    }

    /// Allocates a block of `size` bytes below this one, in this one's domain. It is the newest child.
    ///
    /// # Errors
    /// [`HostError`] of the domain's context; [`HostError::TooLarge`] where size and header overflow.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<Self, HostError> {
        // SAFETY: forwarded.
        let parent = unsafe { self.block() };
        // SAFETY: the parent lives, and so does its domain.
        let new = unsafe { domain::allocate(parent.domain(), size, fill) }?;
        tree::add_child(parent, new);
        Ok(Self(new.payload()))
    }

    /// Resizes the payload, keeping what fits. The block keeps its place, its parent and its children, and may move.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`Misuse::Dying`] from within a destructor, for a block that is being freed. The block is as it was.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn resize(self, size: usize) -> Result<Self, HostError> {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        if block.has(DYING) {
            return Err(HostError::Misuse(Misuse::Dying));
        }
        // SAFETY: forwarded.
        unsafe { resize::resize(block, size) }.map(|block| Self(block.payload()))
    }

    /// Frees the block and all below it: children before their parents, newer ones before older. Takes no memory and does not recurse.
    /// Nothing happens to a block that is being freed already.
    ///
    /// # Safety
    /// See the type. None of the blocks is used after this, and their destructors keep to [`TaggedDestructor`].
    pub unsafe fn free(self) {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        if !block.has(DYING) {
            // SAFETY: forwarded.
            unsafe { walk::free(block) };
        }
    }

    /// Moves the block, with all below it, below `parent`, as the newest child; without one it has no parent any more. Returns false, and
    /// changes nothing, where `parent` lies in the block's own subtree or the block is being freed.
    ///
    /// O(1) for a block without children, else O(depth of `parent`).
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn steal(self, parent: Option<Self>) -> bool {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        // SAFETY: forwarded.
        let parent = parent.map(|parent| unsafe { parent.block() });
        tree::steal(block, parent)
    }

    /// Moves all children of `from` to this block, in their order, before its own. Returns false, and changes nothing, where this block
    /// is `from` or lies below it, or `from` is being freed.
    ///
    /// O(children of `from` + depth of this block).
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn adopt(self, from: Self) -> bool {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        // SAFETY: forwarded.
        let from = unsafe { from.block() };
        tree::adopt(block, from)
    }

    /// The block above. O(1).
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn parent(self) -> Option<Self> {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        tree::parent(block).map(|parent| Self(parent.payload()))
    }

    /// Bytes of the payload, as they were asked for.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn size(self) -> usize {
        // SAFETY: forwarded.
        unsafe { self.block() }.size()
    }

    /// The domain that the block was allocated in.
    ///
    /// # Safety
    /// See the type.
    #[must_use]
    pub unsafe fn domain(self) -> DomainId {
        // SAFETY: forwarded.
        unsafe { self.block() }.domain()
    }

    /// Sets, exchanges or removes what is called when the block is freed.
    ///
    /// # Errors
    /// [`Misuse::TableFull`] when the process has 4 094 other destructors; the former one stays. [`Misuse::Dying`] from within a
    /// destructor, for a block that is being freed: a destructor that set itself again would be called without end. [`Misuse::Held`] for a
    /// block that a [collector](super::GcBlocks) frees.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn set_destructor(
        self,
        destructor: Option<TaggedDestructor>,
    ) -> Result<(), HostError> {
        // SAFETY: forwarded.
        let block = unsafe { self.block() };
        if block.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        if destructor.is_some() && block.has(DYING) {
            return Err(HostError::Misuse(Misuse::Dying));
        }
        let number = match destructor {
            Some(destructor) => tables::number_of_destructor(destructor)
                .ok_or(HostError::Misuse(Misuse::TableFull))?,
            None => 0,
        };
        block.set_destructor_number(number);
        Ok(())
    }

    /// # Safety
    /// See the type.
    pub(super) unsafe fn block(self) -> Block {
        // SAFETY: a payload has its header in front of it.
        Block(unsafe { self.0.sub(HEADER_SIZE) }.cast())
    }
}
