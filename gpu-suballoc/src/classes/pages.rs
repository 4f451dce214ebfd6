//! Transient pages: regions that die together lie side by side, are placed by moving a cursor and freed by counting.
//!
//! ```text
//!   base            cursor              base + size
//!   | A | pad | B | C |       free        |           seats: A, B, C, in that order, in groups of 64
//! ```
//!
//! Nothing in a page is reused before all of it is free; then the cursor goes back to the base. Each region has a seat, which tells a
//! second free from the first even in a full page, and which costs 16 bytes.
//!
//! A region that does not fit into what is left of the open page goes into the next one, and smaller ones still fill up the first, until
//! next to nothing is left of it. Older pages are never filled up: what is in them is to die before.

#![forbid(unsafe_code)]

use super::groups::{Group, Groups, NONE, SEATS};
use super::placing::{Placing, Totals};
use super::seat::{Seat, Sitting};
use super::segments::{Donation, Segments};
use super::types::{Found, GiveError, Given, Lack, Need, Part, Piece, RangeNeed, Spare, Taken};
use crate::range::Memory;

/// Regions may have this part of a page: what is left at its end is small against it.
const LARGEST_PART: u64 = 8;
/// A page is closed when less than this part of it is left.
const CLOSED_PART: u32 = 128;

/// Regions taken from a page that is open: more than can ever be gone.
const OPEN: u32 = u32::MAX;

/// One page, as its owner knows it.
pub(super) struct Page<H> {
    home: Option<H>,
    /// Bytes.
    base: u64,
    /// Regions placed since the page was empty, [`OPEN`] while there may be more, and of these how many are gone.
    taken: u32,
    gone: u32,
    first_group: u32,
    /// The next empty page, or the next header without a page.
    link: u32,
}

/// The pages of one kind of memory. What it tells its user of a page is `H`.
pub(crate) struct Pages<H> {
    granule_log2: u32,
    /// Granules of a page.
    capacity: u32,
    /// Bytes of the largest region.
    largest: u64,
    live: u32,
    used: u64,
    open: Open,
    /// Where goes what is too large for the rest of the open one.
    next: Open,
    headers: Segments<Page<H>>,
    /// Headers made, the first without a page, the first empty page and how many there are, the first group without a page, pages.
    made: u32,
    vacant: u32,
    empty: u32,
    empties: u32,
    spare_groups: u32,
    pages: u32,
}

/// A page that regions are placed into.
#[derive(Clone, Copy)]
struct Open {
    /// Granules.
    base: u64,
    end: u32,
    /// Granules placed, with what alignment cost.
    cursor: u32,
    /// Regions placed.
    taken: u32,
    /// The next seat.
    group: u32,
    slot: u32,
    page: u32,
}

/// A request, in granules.
#[derive(Clone, Copy)]
struct Ask {
    granules: u32,
    /// Granules of alignment less one.
    mask: u64,
    word: u32,
}

/// Where a region was placed.
struct At {
    group: u32,
    slot: u32,
    generation: u32,
    granule: u64,
}

/// What an open page is short of.
enum Short {
    Bytes,
    Seats,
}

/// What is below 2^32 by construction: granules within a page.
#[inline]
const fn low(granules: u64) -> u32 {
    (granules & u32::MAX as u64) as u32
}

impl<H> Page<H> {
    const fn vacant() -> Self {
        Self { home: None, base: 0, taken: 0, gone: 0, first_group: NONE, link: NONE }
    }
}

impl Open {
    /// No page: full.
    const NOTHING: Self = Self { base: 0, end: 0, cursor: 0, taken: 0, group: NONE, slot: 0, page: NONE };

    /// Places a region, if the page has room and seats for it.
    #[inline(always)]
    fn place(&mut self, groups: &Groups, ask: Ask) -> Result<At, Short> {
        let first = ((self.base + u64::from(self.cursor) + ask.mask) & !ask.mask) - self.base;
        let end = first + u64::from(ask.granules);
        if end > u64::from(self.end) {
            return Err(Short::Bytes);
        }
        let group = groups.get(self.group).ok_or(Short::Seats)?;
        let sitting = Sitting { first: low(first), granules: ask.granules, word: ask.word };
        loop {
            let slot = self.slot;
            let seat = group.seat(slot).ok_or(Short::Seats)?;
            self.slot = slot + 1;
            // A seat that is used up is left out from now on.
            let Some(generation) = seat.issue(sitting) else { continue };
            self.cursor = low(end);
            self.taken += 1;
            return Ok(At { group: self.group, slot, generation, granule: self.base + first });
        }
    }
}

impl<H: Copy> Pages<H> {
    /// Without a page. `granule` and `page` are bytes, powers of two; a page has at least 8 granules, and at most 2^30.
    pub(crate) const fn new(granule: u64, page: u64) -> Self {
        let granule_log2 = granule.trailing_zeros();
        let capacity = page >> granule_log2;
        let capacity = if capacity > 1 << 30 { 1 << 30 } else { capacity };
        Self {
            granule_log2,
            capacity: low(capacity),
            largest: (capacity / LARGEST_PART) << granule_log2,
            live: 0,
            used: 0,
            open: Open::NOTHING,
            next: Open::NOTHING,
            headers: Segments::new(),
            made: 0,
            vacant: NONE,
            empty: NONE,
            empties: 0,
            spare_groups: NONE,
            pages: 0,
        }
    }

    const fn page_bytes(&self) -> u64 {
        (self.capacity as u64) << self.granule_log2
    }

    /// Accounts for a region that was placed.
    #[inline(always)]
    fn placed(&mut self, ask: Ask, at: At) -> Taken {
        self.live += 1;
        self.used += u64::from(ask.granules);
        Taken {
            group: at.group,
            slot: at.slot,
            generation: at.generation,
            offset: at.granule << self.granule_log2,
            size: u64::from(ask.granules) << self.granule_log2,
        }
    }

    /// Places a region that the open page was short of, or sees to it that the next attempt gets further.
    #[cold]
    #[inline(never)]
    fn place_anyhow(&mut self, groups: &Groups, ask: Ask, short: Short) -> Result<Option<Taken>, Lack> {
        if self.all_gone(self.open) {
            self.open = self.begin(self.open.page);
            return Ok(None);
        }
        if matches!(short, Short::Seats) {
            return self.seat_more(groups, false).map(|()| None);
        }
        let nearly_full = self.capacity - self.open.cursor.min(self.capacity) <= self.capacity / CLOSED_PART;
        if !nearly_full {
            loop {
                if self.next.page == NONE {
                    self.next = self.open_another()?;
                }
                match self.next.place(groups, ask) {
                    Ok(at) => return Ok(Some(self.placed(ask, at))),
                    Err(Short::Seats) => self.seat_more(groups, true)?,
                    Err(Short::Bytes) if self.all_gone(self.next) => self.next = self.begin(self.next.page),
                    Err(Short::Bytes) => break,
                }
            }
        }
        let next = if self.next.page == NONE { self.open_another()? } else { self.next };
        self.close(self.open);
        self.open = next;
        self.next = Open::NOTHING;
        Ok(None)
    }

    /// Whether a page that is open has none of the regions any more that were placed into it.
    fn all_gone(&self, open: Open) -> bool {
        open.taken > 0 && self.headers.get(open.page).is_some_and(|page| page.gone == open.taken)
    }

    /// Opens a page without a region at its beginning.
    fn begin(&mut self, number: u32) -> Open {
        let Some(page) = self.headers.get_mut(number) else {
            return Open::NOTHING;
        };
        page.taken = OPEN;
        page.gone = 0;
        let base = page.base >> self.granule_log2;
        Open { base, end: self.capacity, cursor: 0, taken: 0, group: page.first_group, slot: 0, page: number }
    }

    /// Gives the open page, or the next one, another group: its own, or one without a page.
    fn seat_more(&mut self, groups: &Groups, next: bool) -> Result<(), Lack> {
        let open = if next { &mut self.next } else { &mut self.open };
        let Some(page) = self.headers.get_mut(open.page) else {
            return Err(Lack::Unfit);
        };
        let last = groups.get(open.group);
        let mut more = last.map_or(page.first_group, Group::chain);
        if more == NONE {
            more = self.spare_groups;
            let Some(group) = groups.get(more) else {
                return Err(groups.another(SEATS).map_or(Lack::Unfit, Lack::Memory));
            };
            self.spare_groups = group.chain();
            group.set_chain(NONE);
            group.set_home(open.page);
            match last {
                Some(last) => last.set_chain(more),
                None => page.first_group = more,
            }
        }
        open.group = more;
        open.slot = 0;
        Ok(())
    }

    /// Opens an empty page.
    fn open_another(&mut self) -> Result<Open, Lack> {
        let number = self.empty;
        let Some(page) = self.headers.get(number) else {
            return Err(self.lacks_page());
        };
        self.empty = page.link;
        self.empties -= 1;
        Ok(self.begin(number))
    }

    /// No region is placed into the page any more: it is empty once as many are gone as were placed.
    fn close(&mut self, open: Open) {
        if let Some(page) = self.headers.get_mut(open.page) {
            page.taken = open.taken;
        }
    }

    fn lacks_page(&self) -> Lack {
        if self.vacant == NONE {
            if self.made >= Segments::<Page<H>>::MOST {
                return Lack::Unfit;
            }
            if let Some(layout) = self.headers.lacks(self.made) {
                return Lack::Memory(Need { layout, part: Part::Headers });
            }
        }
        let alignment = 1 << self.granule_log2;
        Lack::Range(RangeNeed { size: self.page_bytes(), alignment, granules: 0 })
    }

    #[inline]
    fn left(&mut self, number: u32, sitting: Sitting) -> Given {
        self.live -= 1;
        self.used -= u64::from(sitting.granules);
        let mut emptied = false;
        if let Some(page) = self.headers.get_mut(number) {
            page.gone += 1;
            if page.gone == page.taken {
                page.link = self.empty;
                self.empty = number;
                self.empties += 1;
                emptied = true;
            }
        }
        Given { size: u64::from(sitting.granules) << self.granule_log2, word: sitting.word, emptied }
    }

    /// Its seats wait for another page, and so does its header.
    fn dissolve(&mut self, groups: &Groups, number: u32) -> Option<Spare<H>> {
        let vacant = self.vacant;
        let page = self.headers.get_mut(number)?;
        let (home, base, mut group) = (page.home?, page.base, page.first_group);
        *page = Page { link: vacant, ..Page::vacant() };
        self.vacant = number;
        self.pages -= 1;
        while let Some(found) = groups.get(group) {
            let next = found.chain();
            self.keep_group(groups, group);
            group = next;
        }
        Some(Spare { home, base, size: self.page_bytes() })
    }
}

impl<H: Copy> Placing for Pages<H> {
    type Home = H;

    #[inline(always)]
    fn take(&mut self, groups: &Groups, size: u64, alignment: u64, word: u32) -> Result<Taken, Lack> {
        if size.wrapping_sub(1) >= self.largest || alignment > self.largest || !alignment.is_power_of_two() {
            return Err(Lack::Unfit);
        }
        let granules = low(((size - 1) >> self.granule_log2) + 1);
        let ask = Ask { granules, mask: (alignment - 1) >> self.granule_log2, word };
        loop {
            let short = match self.open.place(groups, ask) {
                Ok(at) => return Ok(self.placed(ask, at)),
                Err(short) => short,
            };
            if let Some(taken) = self.place_anyhow(groups, ask, short)? {
                return Ok(taken);
            }
        }
    }

    #[inline]
    fn give(&mut self, groups: &Groups, group: u32, slot: u32, generation: u32, word: u32) -> Result<Given, GiveError> {
        let found = groups.get(group).ok_or(GiveError::Foreign)?;
        let sitting = found.seat(slot).ok_or(GiveError::Foreign)?.give(generation, word)?;
        Ok(self.left(found.home(), sitting))
    }

    fn settle(&mut self, groups: &Groups, group: u32, slot: u32) -> Option<Given> {
        let found = groups.get(group)?;
        let sitting = found.seat(slot).and_then(Seat::settle)?;
        Some(self.left(found.home(), sitting))
    }

    fn find(&self, groups: &Groups, group: u32, slot: u32, generation: u32) -> Result<Found, GiveError> {
        let found = groups.get(group).ok_or(GiveError::Foreign)?;
        let sitting = found.seat(slot).ok_or(GiveError::Foreign)?.sitting(generation)?;
        let base = self.headers.get(found.home()).ok_or(GiveError::Foreign)?.base;
        Ok(Found {
            offset: base + (u64::from(sitting.first) << self.granule_log2),
            size: u64::from(sitting.granules) << self.granule_log2,
            word: sitting.word,
        })
    }

    #[inline]
    fn home(&self, groups: &Groups, group: u32) -> Option<&H> {
        self.headers.get(groups.get(group)?.home())?.home.as_ref()
    }

    fn add(&mut self, _: &Groups, home: H, base: u64, _: RangeNeed) -> Result<u32, Lack> {
        let (number, recycled) = if self.vacant == NONE { (self.made, false) } else { (self.vacant, true) };
        let lack = self.lacks_page();
        let Some(page) = self.headers.get_mut(number) else {
            return Err(lack);
        };
        if recycled {
            self.vacant = page.link;
        } else {
            self.made += 1;
        }
        *page = Page { home: Some(home), base, link: self.empty, ..Page::vacant() };
        self.empty = number;
        self.empties += 1;
        self.pages += 1;
        Ok(number)
    }

    fn spare(&mut self, groups: &Groups, keep: u64) -> Option<Spare<H>> {
        let number = if u64::from(self.empties) * self.page_bytes() > keep {
            let number = self.empty;
            self.empty = self.headers.get(number)?.link;
            self.empties -= 1;
            number
        } else if keep > 0 {
            return None;
        } else if self.headers.get(self.next.page).is_some_and(|page| page.gone == self.next.taken) {
            core::mem::replace(&mut self.next, Open::NOTHING).page
        } else if self.headers.get(self.open.page).is_some_and(|page| page.gone == self.open.taken) {
            core::mem::replace(&mut self.open, Open::NOTHING).page
        } else {
            return None;
        };
        self.dissolve(groups, number)
    }

    fn walk(&self, groups: &Groups, number: u32, see: &mut dyn FnMut(Piece)) {
        let Some(page) = self.headers.get(number) else {
            return;
        };
        let mut at = page.first_group;
        while let Some(group) = groups.get(at) {
            for slot in 0..group.len() {
                let Some((generation, sitting)) = group.seat(slot).and_then(Seat::seated) else { continue };
                see(Piece {
                    group: at,
                    slot,
                    generation,
                    offset: page.base + (u64::from(sitting.first) << self.granule_log2),
                    size: u64::from(sitting.granules) << self.granule_log2,
                    word: sitting.word,
                });
            }
            at = group.chain();
        }
    }

    fn largest(&self) -> u64 {
        self.largest
    }

    fn numbers(&self, _: &Groups) -> u32 {
        self.made
    }

    fn totals(&self) -> Totals {
        let reserved = self.page_bytes() * u64::from(self.pages);
        Totals { live: self.live, used: self.used << self.granule_log2, ranges: self.pages, reserved }
    }

    fn supply_headers(&mut self, donation: Donation) -> Option<Memory> {
        self.headers.supply(donation, Page::vacant)
    }

    fn keep_group(&mut self, groups: &Groups, number: u32) {
        if let Some(group) = groups.get(number) {
            group.set_home(NONE);
            group.set_chain(self.spare_groups);
            self.spare_groups = number;
        }
    }

    fn withdraw(&mut self) -> Option<Memory> {
        self.headers.withdraw()
    }
}
