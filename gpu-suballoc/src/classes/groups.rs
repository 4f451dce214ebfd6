//! Groups of up to 64 seats: what ids lead to, from any thread.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::returns::Returned;
use super::seat::{Seat, Sitting};
use super::segments::{Donation, Segments};
use super::types::{GiveError, Need, Part};
use crate::range::Memory;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// The most seats a group has.
pub(super) const SEATS: u32 = 64;
/// No group, no page, no slab.
pub(super) const NONE: u32 = u32::MAX;
/// Groups that an id can name beside the bit that tells pages from slabs.
pub(crate) const GROUPS: u32 = 1 << 19;

/// Some seats, and what leads from them to their page or slab. A group is made once and never goes; it changes hands.
pub(super) struct Group {
    seats: AtomicPtr<Seat>,
    len: AtomicU32,
    /// Of the owner: the page or slab that has the group. Readers elsewhere never ask.
    home: AtomicU32,
    /// Of the owner: the page's next group, or the next group without a home.
    chain: AtomicU32,
    pub(super) returned: Returned,
}

/// All groups of a class. One thread at a time, the owner, adds; any may look up.
pub(crate) struct Groups {
    table: Segments<Group>,
    /// Of the owner: groups with seats.
    made: AtomicU32,
}

impl Group {
    const fn new() -> Self {
        Self {
            seats: AtomicPtr::new(ptr::null_mut()),
            len: AtomicU32::new(0),
            home: AtomicU32::new(NONE),
            chain: AtomicU32::new(NONE),
            returned: Returned::new(),
        }
    }

    #[inline]
    pub(super) fn seat(&self, slot: u32) -> Option<&Seat> {
        // Acquire: the seats were written before their address, and the length before that.
        let seats = NonNull::new(self.seats.load(Ordering::Acquire))?;
        if slot >= self.len.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: below the number of seats that the block was donated for.
        let seat = unsafe { seats.add(slot as usize) };
        // SAFETY: initialised before the address was stored, never moved, gone only with the groups; seats are shared by reference alone.
        Some(unsafe { seat.as_ref() })
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn home(&self) -> u32 {
        self.home.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn chain(&self) -> u32 {
        self.chain.load(Ordering::Relaxed)
    }

    pub(super) fn set_home(&self, home: u32) {
        self.home.store(home, Ordering::Relaxed);
    }

    pub(super) fn set_chain(&self, chain: u32) {
        self.chain.store(chain, Ordering::Relaxed);
    }
}

impl Groups {
    pub(crate) const fn new() -> Self {
        Self { table: Segments::new(), made: AtomicU32::new(0) }
    }

    #[inline]
    pub(super) fn get(&self, group: u32) -> Option<&Group> {
        self.table.get(group)
    }

    #[inline]
    pub(super) fn seat(&self, group: u32, slot: u32) -> Result<&Seat, GiveError> {
        self.get(group).and_then(|found| found.seat(slot)).ok_or(GiveError::Foreign)
    }

    /// Keeps the word `to` with a region, if it was `from`: any thread. Answers with what it was.
    pub(crate) fn set_word(&self, group: u32, slot: u32, generation: u32, from: u32, to: u32) -> Result<u32, GiveError> {
        self.seat(group, slot)?.set_word(generation, from, to)
    }

    /// Whether a region lives that nobody claimed: any thread.
    pub(crate) fn is_live(&self, group: u32, slot: u32, generation: u32) -> bool {
        self.seat(group, slot).is_ok_and(|seat| seat.sitting(generation).is_ok())
    }

    /// Frees a region for the owner to settle: any thread, see [`Seat::claim`].
    pub(crate) fn claim(&self, group: u32, slot: u32, generation: u32, word: u32) -> Result<Sitting, GiveError> {
        self.seat(group, slot)?.claim(generation, word)
    }

    /// How a mailbox finds a group's part.
    pub(crate) fn returned(&self, group: u32) -> Option<&Returned> {
        self.get(group).map(|group| &group.returned)
    }

    /// How many there are.
    pub(super) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// What has to be supplied for another group of `seats`: its header, or else its seats. `None` where there can be no more.
    pub(super) fn another(&self, seats: u32) -> Option<Need> {
        let next = self.made();
        if next >= GROUPS {
            return None;
        }
        if let Some(layout) = self.table.lacks(next) {
            return Some(Need { layout, part: Part::Groups });
        }
        let layout = Layout::array::<Seat>(seats as usize).ok()?;
        Some(Need { layout, part: Part::Seats(seats) })
    }

    /// Adds headers. What is not wanted comes back.
    pub(super) fn supply_headers(&self, donation: Donation) -> Option<Memory> {
        self.table.supply(donation, Group::new)
    }

    /// Adds the seats of another group, and answers with its number; without a header for it the donation comes back.
    pub(super) fn supply_seats(&self, donation: Donation, seats: u32) -> Result<u32, Memory> {
        let number = self.made();
        let fits = number < GROUPS && Layout::array::<Seat>(seats as usize) == Ok(donation.layout());
        let Some(group) = self.get(number).filter(|_| fits) else {
            return Err(donation.back());
        };
        group.len.store(seats, Ordering::Relaxed);
        group.seats.store(donation.fill(Seat::new).as_ptr(), Ordering::Release);
        self.made.store(number + 1, Ordering::Relaxed);
        Ok(number)
    }

    /// Takes a block out, at the end of it all, until there is none.
    pub(crate) fn withdraw(&mut self) -> Option<Memory> {
        while let Some(last) = self.made().checked_sub(1) {
            self.made.store(last, Ordering::Relaxed);
            let Some(group) = self.get(last) else { continue };
            let layout = Layout::array::<Seat>(group.len() as usize);
            let seats = NonNull::new(group.seats.swap(ptr::null_mut(), Ordering::Relaxed));
            if let (Some(seats), Ok(layout)) = (seats, layout) {
                return Some(Memory { block: seats.cast(), layout });
            }
        }
        self.table.withdraw()
    }
}
