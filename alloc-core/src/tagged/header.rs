//! ```text
//!  -16  size, where a block has 4 GiB or more (HUGE)
//!    0  link     the parent; where the block has children: the newest of them
//!    8  next     the next older sibling
//!   16  prev     the next newer sibling; of the newest: its parent's own parent
//!   24  size u32
//!   28  bits u16: PARENT, HUGE, DYING, MARKED, then 12 bits, the number of the destructor
//!   30  domain u16; 0: these 8 bytes are a slot's (see `slot`), and the links in front of them are not there
//!   32  payload, aligned to 16
//! ```
//! The newest child needs no flag: its parent's link points at it.

use core::alloc::Layout;
use core::cell::Cell;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{NonNull, null_mut};

use super::TaggedDestructor;
use super::domain::{DomainId, DomainRecord};
use crate::error::HostError;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

pub(super) const PARENT: u16 = 1;
const HUGE: u16 = 2;
/// On the path from the freed top to the block that is freed next.
pub(super) const DYING: u16 = 4;
/// The colour of a collector's sweep.
pub(super) const MARKED: u16 = 8;
pub(super) const DESTRUCTOR_SHIFT: u32 = 4;

const ALIGN: usize = 16;
const HEADER_SIZE: usize = size_of::<Header>();
const HUGE_SIZE: usize = 16;

#[repr(C, align(16))]
pub(super) struct Header {
    pub(super) link: Cell<Option<Block>>,
    pub(super) next: Cell<Option<Block>>,
    pub(super) prev: Cell<Option<Block>>,
    rest: [MaybeUninit<u8>; REST],
    tail: Tail,
}

const REST: usize = 3 * (size_of::<u64>() - size_of::<Option<Block>>());

const _: () = assert!(HEADER_SIZE == 32 && size_of::<Tail>() == 8);
const _: () = assert!(offset_of!(Header, tail) == HEADER_SIZE - size_of::<Tail>());

#[repr(C)]
pub(super) struct Tail {
    pub(super) size: Cell<u32>,
    pub(super) bits: Cell<u16>,
    domain: u16,
}

impl Tail {
    pub(super) const fn of_slot(word: u32, bits: u16) -> Self {
        Self { size: Cell::new(word), bits: Cell::new(bits), domain: 0 }
    }
}

/// The address of a live block's header, with provenance over all of its memory.
///
/// Invariant: the block is live, and one thread at a time uses its tree; no `Block` is kept beyond the free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Block(NonNull<Header>);

#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    pub(super) front: usize,
}

impl Plan {
    #[inline]
    pub(super) fn new(size: usize) -> Result<Self, HostError> {
        match u32::try_from(size) {
            Ok(small) => Self::with_front(small as usize, 0),
            Err(_) => Self::huge(size),
        }
    }

    #[cold]
    fn huge(size: usize) -> Result<Self, HostError> {
        Self::with_front(size, HUGE_SIZE)
    }

    #[inline]
    fn with_front(size: usize, front: usize) -> Result<Self, HostError> {
        let whole =
            size.checked_add(HEADER_SIZE).and_then(|whole| whole.checked_add(front)).ok_or(HostError::TooLarge)?;
        let layout = Layout::from_size_align(whole, ALIGN).map_err(|_| HostError::TooLarge)?;
        Ok(Self { layout, front })
    }

    /// # Safety
    /// `memory` has this plan's layout.
    #[inline]
    pub(super) unsafe fn block(&self, memory: NonNull<u8>) -> Block {
        // SAFETY: the front is less than the layout's size.
        Block(unsafe { memory.add(self.front) }.cast())
    }
}

impl Block {
    /// # Safety
    /// The block is that of the plan for `size`, in memory without other use.
    #[inline]
    pub(super) unsafe fn init(self, size: usize, domain: DomainId) {
        let small = u32::try_from(size);
        let header = Header {
            link: Cell::new(None),
            next: Cell::new(None),
            prev: Cell::new(None),
            rest: [MaybeUninit::uninit(); REST],
            tail: Tail { size: Cell::new(small.unwrap_or(0)), bits: Cell::new(0), domain: domain.get() },
        };
        // SAFETY: this function's contract.
        unsafe { self.0.write(header) };
        if small.is_err() {
            // SAFETY: this function's contract.
            unsafe { self.set_size(size) };
        }
    }

    /// # Safety
    /// The block's memory has the layout and the front of the plan for `size`.
    pub(super) unsafe fn set_size(self, size: usize) {
        if let Ok(small) = u32::try_from(size) {
            self.tail().size.set(small);
            self.clear(HUGE);
        } else {
            self.set(HUGE);
            // SAFETY: a huge block has 16 bytes in front of its header.
            let place = unsafe { self.0.cast::<u8>().sub(HUGE_SIZE) };
            // SAFETY: the block's own bytes, aligned to 16.
            unsafe { place.cast::<usize>().write(size) };
        }
    }

    #[inline]
    pub(super) fn header<'b>(self) -> &'b Header {
        // SAFETY: the type's invariant; headers are only reached through cells.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(super) fn tail<'b>(self) -> &'b Tail {
        // SAFETY: the tail lies in front of the payload.
        let tail = unsafe { self.0.cast::<u8>().add(HEADER_SIZE - size_of::<Tail>()) };
        // SAFETY: the type's invariant; tails are only reached through cells.
        unsafe { tail.cast::<Tail>().as_ref() }
    }

    /// Of a slot nothing but its tail and its payload may be touched.
    #[inline]
    pub(super) fn is_slot(self) -> bool {
        self.tail().domain == 0
    }

    /// # Safety
    /// `payload` is a block's or slot's payload, with its header or tail in front.
    #[inline]
    pub(super) const unsafe fn of_payload(payload: NonNull<u8>) -> Self {
        // A slot's header is never read, but begins in the slab's own memory.
        // SAFETY: this function's contract.
        Self(unsafe { payload.sub(HEADER_SIZE) }.cast())
    }

    #[inline]
    pub(super) fn size(self) -> usize {
        if self.has(HUGE) { self.huge_size() } else { self.tail().size.get() as usize }
    }

    #[cold]
    fn huge_size(self) -> usize {
        // SAFETY: a huge block has 16 bytes in front of its header.
        let place = unsafe { self.0.cast::<u8>().sub(HUGE_SIZE) };
        // SAFETY: written when the size was set.
        unsafe { place.cast::<usize>().read() }
    }

    /// # Safety
    /// `plan` is the block's.
    #[inline]
    pub(super) unsafe fn memory(self, plan: &Plan) -> NonNull<u8> {
        // SAFETY: this function's contract: the bytes in front are the block's.
        unsafe { self.0.cast::<u8>().sub(plan.front) }
    }

    #[inline]
    pub(super) fn payload(self) -> NonNull<u8> {
        // SAFETY: behind the header is the payload, or the block's end.
        unsafe { self.0.cast::<u8>().add(HEADER_SIZE) }
    }

    #[inline]
    pub(super) fn has(self, bits: u16) -> bool {
        self.tail().bits.get() & bits != 0
    }

    #[inline]
    pub(super) fn set(self, bits: u16) {
        let cell = &self.tail().bits;
        cell.set(cell.get() | bits);
    }

    #[inline]
    pub(super) fn clear(self, bits: u16) {
        let cell = &self.tail().bits;
        cell.set(cell.get() & !bits);
    }

    #[inline]
    pub(super) fn colour(self) -> u16 {
        self.tail().bits.get() & MARKED
    }

    #[inline]
    pub(super) fn set_colour(self, colour: u16) {
        let cell = &self.tail().bits;
        cell.set(cell.get() & !MARKED | colour);
    }

    #[inline]
    pub(super) fn domain(self) -> DomainId {
        DomainId(self.tail().domain)
    }

    /// `from` will be replaced by this block.
    pub(super) fn copy_links(self, from: Self) {
        let (to, from) = (self.header(), from.header());
        to.link.set(from.link.get());
        to.next.set(from.next.get());
        to.prev.set(from.prev.get());
        to.tail.bits.set(to.tail.bits.get() & HUGE | from.tail.bits.get() & !HUGE);
    }

    #[inline]
    pub(super) fn destructor_number(self) -> u16 {
        self.tail().bits.get() >> DESTRUCTOR_SHIFT
    }

    /// A block with a collector's number has no destructor.
    #[inline]
    pub(super) fn is_plain_leaf(self) -> bool {
        let bits = self.tail().bits.get();
        bits & PARENT == 0 && matches!(bits >> DESTRUCTOR_SHIFT, 0 | SLAB | COLLECTED)
    }

    #[inline]
    pub(super) fn is_collected(self) -> bool {
        self.destructor_number() == COLLECTED
    }

    pub(super) fn set_destructor_number(self, number: u16) {
        let cell = &self.tail().bits;
        let flags = cell.get() & ((1 << DESTRUCTOR_SHIFT) - 1);
        cell.set(flags | number << DESTRUCTOR_SHIFT);
    }
}

const DOMAIN_COUNT: usize = 1 << 16;
const DESTRUCTOR_COUNT: usize = 1 << 12;

/// By number; 0 stays null.
static DOMAINS: [AtomicPtr<DomainRecord>; DOMAIN_COUNT] = [const { AtomicPtr::new(null_mut()) }; DOMAIN_COUNT];

/// No function has this destructor number or the next two: it marks blocks that a collector frees.
pub(super) const COLLECTED: u16 = 4095;

/// A collector with slabs.
pub(super) const COLLECTOR: u16 = 4094;

/// A slab.
pub(super) const SLAB: u16 = 4093;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Entries are never cleared: a function of an unloaded library costs a slot.
static DESTRUCTORS: [AtomicPtr<()>; DESTRUCTOR_COUNT] = [const { AtomicPtr::new(null_mut()) }; DESTRUCTOR_COUNT];

pub(super) fn add_domain(record: NonNull<DomainRecord>) -> Option<u16> {
    (0..DOMAIN_COUNT).find_map(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) as u16;
        let slot = slot(number)?;
        slot.compare_exchange(null_mut(), record.as_ptr(), Ordering::Release, Ordering::Relaxed).ok().map(|_| number)
    })
}

pub(super) fn remove_domain(number: u16) {
    if let Some(slot) = slot(number) {
        slot.store(null_mut(), Ordering::Release);
    }
}

#[inline]
pub(super) fn domain(number: u16) -> Option<NonNull<DomainRecord>> {
    NonNull::new(slot(number)?.load(Ordering::Acquire))
}

#[inline]
fn slot(number: u16) -> Option<&'static AtomicPtr<DomainRecord>> {
    DOMAINS.get(usize::from(number)).filter(|_| number != 0)
}

pub(super) fn number_of_destructor(destructor: TaggedDestructor) -> Option<u16> {
    let function = destructor as *mut ();
    let first = (function.addr() >> 4) % DESTRUCTOR_COUNT;
    let (before, from) = DESTRUCTORS.split_at_checked(first)?;
    let places = (first..).zip(from).chain((0..).zip(before));
    let is_free = |number: usize| (1..usize::from(SLAB)).contains(&number);
    for (number, slot) in places.filter(|(number, _)| is_free(*number)) {
        let present = match slot.load(Ordering::Acquire) {
            free if free.is_null() => slot
                .compare_exchange(free, function, Ordering::Release, Ordering::Acquire)
                .map_or_else(|other| other, |_| function),
            other => other,
        };
        if present == function {
            return u16::try_from(number).ok();
        }
    }
    None
}

pub(super) fn destructor(number: u16) -> Option<TaggedDestructor> {
    let function = DESTRUCTORS.get(usize::from(number))?.load(Ordering::Acquire);
    if function.is_null() {
        return None;
    }
    // SAFETY: only `TaggedDestructor`s are ever stored there.
    Some(unsafe { core::mem::transmute::<*mut (), TaggedDestructor>(function) })
}
