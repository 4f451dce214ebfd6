//! Transient pages: regions that die together lie side by side, are placed by moving a cursor and freed by counting.
//!
//! ```text
//!   base            cursor              base + size
//!   | A | pad | B | C |       free        |           slots: A, B, C, in that order, in groups of 64
//! ```
//!
//! Nothing in a page is reused before all of it is free; then the cursor returns to the base. Each region has a slot of 16 bytes, which
//! detects a double free even in a full page.
//!
//! A region that does not fit into the rest of the open page is placed in the next one, and smaller ones still fill the first, until
//! almost nothing is left of it. Older pages are never filled: their regions die first.

#![forbid(unsafe_code)]

use super::groups::{MAX_GROUP_SLOTS, NONE, SlotGroups};
use super::segments::Segments;
use super::slot::{SlotExtent, SlotState};
use super::sub_allocator::{ClassTotals, SubAllocator};
use super::types::{
    ClassShortage, FreeError, FreedSlot, HostShortage, HostShortageKind, LiveSlot, RangeShortage,
    SlotAllocation, SlotLocation, SpareRange,
};
use crate::host_block::HostBlock;

/// The largest region is this part of a page, so that the unused end of a page is small.
const MAX_REGION_PART: u64 = 8;
/// A page is closed when less than this part of it is left.
const CLOSED_PART: u32 = 128;

/// `taken` of an open page: more than can ever be freed.
const OPEN: u32 = u32::MAX;

/// One page.
pub(super) struct TransientPage<H> {
    range_ref: Option<H>,
    /// Bytes.
    base: u64,
    /// Regions placed since the page was empty, [`OPEN`] while there may be more, and the freed ones among them.
    taken: u32,
    freed: u32,
    first_group: u32,
    /// The next empty page, or the next header without a page.
    link: u32,
}

/// The pages of one kind of memory. `H` names the range of a page.
pub(crate) struct PageAllocator<H> {
    granule_log2: u32,
    /// Granules of a page.
    capacity: u32,
    /// Bytes of the largest region.
    largest: u64,
    live: u32,
    used: u64,
    open: OpenPage,
    /// For regions that are too large for the rest of the open page.
    next: OpenPage,
    headers: Segments<TransientPage<H>>,
    /// Headers used so far, the first without a page, the first empty page and the number of empty pages, the first group without a page, pages.
    made: u32,
    vacant: u32,
    empty: u32,
    empties: u32,
    spare_groups: u32,
    pages: u32,
}

/// A page that regions are placed into.
#[derive(Clone, Copy)]
struct OpenPage {
    /// Granules.
    base: u64,
    end: u32,
    /// Granules placed, with alignment padding.
    cursor: u32,
    /// Regions placed.
    taken: u32,
    /// The next slot.
    group: u32,
    slot: u32,
    page: u32,
}

/// A request, in granules.
#[derive(Clone, Copy)]
struct PageRequest {
    granules: u32,
    /// Granules of alignment less one.
    mask: u64,
    user_data: u32,
}

/// Where a region was placed.
struct PageSlot {
    group: u32,
    slot: u32,
    generation: u32,
    granule: u64,
}

/// Why an open page cannot place a region.
enum PageShortage {
    Bytes,
    Slots,
}

/// Granules within a page, which are below 2^32 by construction.
#[inline]
const fn low(granules: u64) -> u32 {
    (granules & u32::MAX as u64) as u32
}

impl<H> TransientPage<H> {
    const fn vacant() -> Self {
        Self {
            range_ref: None,
            base: 0,
            taken: 0,
            freed: 0,
            first_group: NONE,
            link: NONE,
        }
    }
}

impl OpenPage {
    /// No page: full.
    const CLOSED: Self = Self {
        base: 0,
        end: 0,
        cursor: 0,
        taken: 0,
        group: NONE,
        slot: 0,
        page: NONE,
    };

    /// Places a region, if the page has room and a slot for it.
    #[inline(always)]
    fn place_in_open_page(
        &mut self,
        groups: &SlotGroups,
        request: PageRequest,
    ) -> Result<PageSlot, PageShortage> {
        let first =
            ((self.base + u64::from(self.cursor) + request.mask) & !request.mask) - self.base;
        let end = first + u64::from(request.granules);
        if end > u64::from(self.end) {
            return Err(PageShortage::Bytes);
        }
        let group = groups.get(self.group).ok_or(PageShortage::Slots)?;
        let extent = SlotExtent {
            first: low(first),
            granules: request.granules,
            user_data: request.user_data,
        };
        loop {
            let slot = self.slot;
            let slot_state = group.slot(slot).ok_or(PageShortage::Slots)?;
            self.slot = slot + 1;
            // A slot without a generation left is skipped.
            let Some(generation) = slot_state.issue(extent) else {
                continue;
            };
            self.cursor = low(end);
            self.taken += 1;
            return Ok(PageSlot {
                group: self.group,
                slot,
                generation,
                granule: self.base + first,
            });
        }
    }
}

impl<H: Copy> PageAllocator<H> {
    /// No pages yet. `granule` and `page` are bytes, powers of two; a page has at least 8 granules, and at most 2^30.
    pub(crate) const fn new(granule: u64, page: u64) -> Self {
        let granule_log2 = granule.trailing_zeros();
        let capacity = page >> granule_log2;
        let capacity = if capacity > 1 << 30 {
            1 << 30
        } else {
            capacity
        };
        Self {
            granule_log2,
            capacity: low(capacity),
            largest: (capacity / MAX_REGION_PART) << granule_log2,
            live: 0,
            used: 0,
            open: OpenPage::CLOSED,
            next: OpenPage::CLOSED,
            headers: Segments::new(),
            made: 0,
            vacant: NONE,
            empty: NONE,
            empties: 0,
            spare_groups: NONE,
            pages: 0,
        }
    }

    /// The number of live regions.
    #[inline]
    pub(crate) const fn live(&self) -> u32 {
        self.live
    }

    const fn page_bytes(&self) -> u64 {
        (self.capacity as u64) << self.granule_log2
    }

    /// Counts a region that was placed.
    #[inline(always)]
    fn count_placed(&mut self, request: PageRequest, at: PageSlot) -> SlotAllocation {
        self.live += 1;
        self.used += u64::from(request.granules);
        SlotAllocation {
            group: at.group,
            slot: at.slot,
            generation: at.generation,
            offset: at.granule << self.granule_log2,
            size: u64::from(request.granules) << self.granule_log2,
        }
    }

    /// Places a region for which the open page has no room, or makes progress for the next attempt.
    #[cold]
    #[inline(never)]
    fn place_slowly(
        &mut self,
        groups: &SlotGroups,
        request: PageRequest,
        shortage: PageShortage,
    ) -> Result<Option<SlotAllocation>, ClassShortage> {
        if self.is_all_freed(self.open) {
            self.open = self.open_empty(self.open.page);
            return Ok(None);
        }
        if matches!(shortage, PageShortage::Slots) {
            return self.add_group(groups, false).map(|()| None);
        }
        let nearly_full =
            self.capacity - self.open.cursor.min(self.capacity) <= self.capacity / CLOSED_PART;
        if !nearly_full {
            loop {
                if self.next.page == NONE {
                    self.next = self.open_another()?;
                }
                match self.next.place_in_open_page(groups, request) {
                    Ok(at) => return Ok(Some(self.count_placed(request, at))),
                    Err(PageShortage::Slots) => self.add_group(groups, true)?,
                    Err(PageShortage::Bytes) if self.is_all_freed(self.next) => {
                        self.next = self.open_empty(self.next.page)
                    }
                    Err(PageShortage::Bytes) => break,
                }
            }
        }
        let next = if self.next.page == NONE {
            self.open_another()?
        } else {
            self.next
        };
        self.close(self.open);
        self.open = next;
        self.next = OpenPage::CLOSED;
        Ok(None)
    }

    /// Whether all regions of an open page were freed.
    fn is_all_freed(&self, open: OpenPage) -> bool {
        open.taken > 0
            && self
                .headers
                .get(open.page)
                .is_some_and(|page| page.freed == open.taken)
    }

    /// Opens an empty page at its base.
    fn open_empty(&mut self, number: u32) -> OpenPage {
        let Some(page) = self.headers.get_mut(number) else {
            return OpenPage::CLOSED;
        };
        page.taken = OPEN;
        page.freed = 0;
        let base = page.base >> self.granule_log2;
        OpenPage {
            base,
            end: self.capacity,
            cursor: 0,
            taken: 0,
            group: page.first_group,
            slot: 0,
            page: number,
        }
    }

    /// Moves the open page, or the next one, on to its next group, or to a group without a page.
    fn add_group(&mut self, groups: &SlotGroups, next: bool) -> Result<(), ClassShortage> {
        let open = if next { self.next } else { self.open };
        let last = groups.get(open.group).ok_or(ClassShortage::Unsupported)?;
        let (mut more, page) = (last.next_group(), open.page);
        if more == NONE {
            more = self.allocate_group(groups, page)?;
            last.set_next_group(more);
        }
        let open = if next { &mut self.next } else { &mut self.open };
        open.group = more;
        open.slot = 0;
        Ok(())
    }

    /// Assigns a group without a page to this one.
    fn allocate_group(&mut self, groups: &SlotGroups, page: u32) -> Result<u32, ClassShortage> {
        let number = self.spare_groups;
        let Some(group) = groups.get(number) else {
            return Err(groups
                .missing_capacity(MAX_GROUP_SLOTS)
                .map_or(ClassShortage::Unsupported, ClassShortage::Memory));
        };
        self.spare_groups = group.next_group();
        group.set_next_group(NONE);
        group.set_container(page);
        Ok(number)
    }

    /// Opens an empty page.
    fn open_another(&mut self) -> Result<OpenPage, ClassShortage> {
        let number = self.empty;
        let Some(page) = self.headers.get(number) else {
            return Err(self.page_shortage());
        };
        self.empty = page.link;
        self.empties -= 1;
        Ok(self.open_empty(number))
    }

    /// Closes a page: it is empty once all regions placed in it are freed.
    fn close(&mut self, open: OpenPage) {
        if let Some(page) = self.headers.get_mut(open.page) {
            page.taken = open.taken;
        }
    }

    fn page_shortage(&self) -> ClassShortage {
        if self.vacant == NONE {
            if self.made >= Segments::<TransientPage<H>>::MAX_LEN {
                return ClassShortage::Unsupported;
            }
            if let Some(layout) = self.headers.missing_capacity(self.made) {
                return ClassShortage::Memory(HostShortage {
                    layout,
                    kind: HostShortageKind::Headers,
                });
            }
        }
        let alignment = 1 << self.granule_log2;
        ClassShortage::Range(RangeShortage {
            size: self.page_bytes(),
            alignment,
            granules: 0,
        })
    }

    #[inline]
    fn slot_freed(&mut self, number: u32, extent: SlotExtent) -> FreedSlot {
        self.live -= 1;
        self.used -= u64::from(extent.granules);
        let mut emptied = false;
        if let Some(page) = self.headers.get_mut(number) {
            page.freed += 1;
            if page.freed == page.taken {
                page.link = self.empty;
                self.empty = number;
                self.empties += 1;
                emptied = true;
            }
        }
        FreedSlot {
            size: u64::from(extent.granules) << self.granule_log2,
            user_data: extent.user_data,
            is_emptied: emptied,
        }
    }

    /// Dissolves an empty page: its slots and its header are reused by another page.
    fn dissolve(&mut self, groups: &SlotGroups, number: u32) -> Option<SpareRange<H>> {
        let vacant = self.vacant;
        let page = self.headers.get_mut(number)?;
        let (range_ref, base, mut group) = (page.range_ref?, page.base, page.first_group);
        *page = TransientPage {
            link: vacant,
            ..TransientPage::vacant()
        };
        self.vacant = number;
        self.pages -= 1;
        while let Some(found) = groups.get(group) {
            let next = found.next_group();
            self.keep_group(groups, group);
            group = next;
        }
        Some(SpareRange {
            range_ref,
            base,
            size: self.page_bytes(),
        })
    }
}

impl<H: Copy> SubAllocator for PageAllocator<H> {
    type RangeRef = H;

    #[inline(always)]
    fn allocate(
        &mut self,
        groups: &SlotGroups,
        size: u64,
        alignment: u64,
        user_data: u32,
    ) -> Result<SlotAllocation, ClassShortage> {
        if size.wrapping_sub(1) >= self.largest
            || alignment > self.largest
            || !alignment.is_power_of_two()
        {
            return Err(ClassShortage::Unsupported);
        }
        let granules = low(((size - 1) >> self.granule_log2) + 1);
        let request = PageRequest {
            granules,
            mask: (alignment - 1) >> self.granule_log2,
            user_data,
        };
        loop {
            let shortage = match self.open.place_in_open_page(groups, request) {
                Ok(at) => return Ok(self.count_placed(request, at)),
                Err(shortage) => shortage,
            };
            if let Some(taken) = self.place_slowly(groups, request, shortage)? {
                return Ok(taken);
            }
        }
    }

    #[inline]
    fn free(
        &mut self,
        groups: &SlotGroups,
        group: u32,
        slot: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<FreedSlot, FreeError> {
        let found = groups.get(group).ok_or(FreeError::Foreign)?;
        let extent = found
            .slot(slot)
            .ok_or(FreeError::Foreign)?
            .free(generation, user_data)?;
        Ok(self.slot_freed(found.container(), extent))
    }

    fn reclaim(&mut self, groups: &SlotGroups, group: u32, slot: u32) -> Option<FreedSlot> {
        let found = groups.get(group)?;
        let extent = found.slot(slot).and_then(SlotState::reclaim)?;
        Some(self.slot_freed(found.container(), extent))
    }

    fn find(
        &self,
        groups: &SlotGroups,
        group: u32,
        slot: u32,
        generation: u32,
    ) -> Result<SlotLocation, FreeError> {
        let found = groups.get(group).ok_or(FreeError::Foreign)?;
        let extent = found
            .slot(slot)
            .ok_or(FreeError::Foreign)?
            .live_extent(generation)?;
        let base = self
            .headers
            .get(found.container())
            .ok_or(FreeError::Foreign)?
            .base;
        Ok(SlotLocation {
            offset: base + (u64::from(extent.first) << self.granule_log2),
            size: u64::from(extent.granules) << self.granule_log2,
            user_data: extent.user_data,
        })
    }

    #[inline]
    fn range_ref(&self, groups: &SlotGroups, group: u32) -> Option<&H> {
        self.headers
            .get(groups.get(group)?.container())?
            .range_ref
            .as_ref()
    }

    fn add(
        &mut self,
        groups: &SlotGroups,
        range_ref: H,
        base: u64,
        _: RangeShortage,
    ) -> Result<u32, ClassShortage> {
        let (number, recycled) = if self.vacant == NONE {
            (self.made, false)
        } else {
            (self.vacant, true)
        };
        if self.headers.get(number).is_none() {
            return Err(self.page_shortage());
        }
        // A page keeps its first group: other threads find the page's regions by that group's number.
        let first_group = self.allocate_group(groups, number)?;
        let page = self
            .headers
            .get_mut(number)
            .ok_or(ClassShortage::Unsupported)?;
        if recycled {
            self.vacant = page.link;
        } else {
            self.made += 1;
        }
        *page = TransientPage {
            range_ref: Some(range_ref),
            base,
            link: self.empty,
            first_group,
            ..TransientPage::vacant()
        };
        self.empty = number;
        self.empties += 1;
        self.pages += 1;
        Ok(number)
    }

    fn first_group(&self, number: u32) -> u32 {
        self.headers
            .get(number)
            .map_or(NONE, |page| page.first_group)
    }

    fn remove_spare(&mut self, groups: &SlotGroups, keep: u64) -> Option<SpareRange<H>> {
        let number = if u64::from(self.empties) * self.page_bytes() > keep {
            let number = self.empty;
            self.empty = self.headers.get(number)?.link;
            self.empties -= 1;
            number
        } else if keep > 0 {
            return None;
        } else if self
            .headers
            .get(self.next.page)
            .is_some_and(|page| page.freed == self.next.taken)
        {
            core::mem::replace(&mut self.next, OpenPage::CLOSED).page
        } else if self
            .headers
            .get(self.open.page)
            .is_some_and(|page| page.freed == self.open.taken)
        {
            core::mem::replace(&mut self.open, OpenPage::CLOSED).page
        } else {
            return None;
        };
        self.dissolve(groups, number)
    }

    fn walk(&self, groups: &SlotGroups, number: u32, visit: &mut dyn FnMut(LiveSlot)) {
        let Some(page) = self.headers.get(number) else {
            return;
        };
        let mut at = page.first_group;
        while let Some(group) = groups.get(at) {
            for slot in 0..group.len() {
                let Some((generation, extent)) = group.slot(slot).and_then(SlotState::current)
                else {
                    continue;
                };
                visit(LiveSlot {
                    group: at,
                    slot,
                    generation,
                    offset: page.base + (u64::from(extent.first) << self.granule_log2),
                    size: u64::from(extent.granules) << self.granule_log2,
                    user_data: extent.user_data,
                });
            }
            at = group.next_group();
        }
    }

    fn max_size(&self) -> u64 {
        self.largest
    }

    fn number_bound(&self, _: &SlotGroups) -> u32 {
        self.made
    }

    fn totals(&self) -> ClassTotals {
        let reserved = self.page_bytes() * u64::from(self.pages);
        ClassTotals {
            live: self.live,
            used_bytes: self.used << self.granule_log2,
            ranges: self.pages,
            reserved_bytes: reserved,
        }
    }

    fn add_headers(&mut self, memory: HostBlock) -> Option<HostBlock> {
        self.headers.grow_with(memory, TransientPage::vacant)
    }

    fn keep_group(&mut self, groups: &SlotGroups, number: u32) {
        if let Some(group) = groups.get(number) {
            group.set_container(NONE);
            group.set_next_group(self.spare_groups);
            self.spare_groups = number;
        }
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.headers.detach_memory()
    }
}
