//! Reads a shard's pages from any thread: they are atomics that the shard's thread writes.

#![forbid(unsafe_code)]

use super::shard_pages::ShardPages;
use super::shards::Shards;
use crate::id::{NO_RECORD, RegionPlaceKind};
use crate::pool::{SHARD_PAGE, WalkItem};

/// The first bit of the shard's number in the user data of a range.
const NUMBER: u32 = 20;

impl Shards {
    /// The user data of the range of a page or slab; `group` is its first group, as in ids.
    pub(crate) const fn word_of(shard_pages: u16, group: u32) -> u32 {
        SHARD_PAGE | (shard_pages as u32) << NUMBER | group
    }

    /// Visits the regions and holes of a shard's page or slab, in order; they tile its range. Exact while the shard is not used; otherwise
    /// concurrent changes may or may not be seen.
    pub(crate) fn walk_page(
        &self,
        user_data: u32,
        offset: u64,
        size: u64,
        visit: &mut dyn FnMut(WalkItem),
    ) {
        let mut tiles = Tiles {
            end: offset,
            whole: offset.saturating_add(size),
        };
        let mut within = RegionPlaceKind::Transient;
        if let Some(named) = user_data.checked_sub(SHARD_PAGE) {
            let (number, first) = (named >> NUMBER, named & ((1 << NUMBER) - 1));
            within = Self::class_of(first);
            if let Some(shard_pages) = self.pages(number) {
                shard_pages.walk_page(first, offset, &mut tiles, within, visit);
            }
        }
        if let Some(rest) = tiles.rest() {
            visit(WalkItem::Free {
                offset: tiles.end,
                size: rest,
                within,
            });
        }
    }
}

impl ShardPages {
    fn walk_page(
        &self,
        first: u32,
        offset: u64,
        tiles: &mut Tiles,
        within: RegionPlaceKind,
        visit: &mut dyn FnMut(WalkItem),
    ) {
        let (groups, number) = self.groups_of(first);
        let slab = within == RegionPlaceKind::Slab;
        groups.each_live(number, &mut |group, slot, generation, extent| {
            let start = offset.saturating_add(u64::from(extent.first) * self.granule);
            let (end, size) = (tiles.end, u64::from(extent.granules) * self.granule);
            let Some(gap) = tiles.put(start, size) else {
                return;
            };
            if gap > 0 {
                visit(WalkItem::Free {
                    offset: end,
                    size: gap,
                    within,
                });
            }
            visit(WalkItem::Region {
                at: self.region_slot(Shards::place_of(group, slab), slot, generation),
                offset: start,
                size,
                asked: size,
                alignment: 0,
                user_data: NO_RECORD,
            });
        });
    }
}

/// The position of a walk in a page, and the page's end.
struct Tiles {
    end: u64,
    whole: u64,
}

impl Tiles {
    /// Advances over a region. Returns the bytes between it and the one before. `None` for one that does not fit, because its page was emptied
    /// and reused meanwhile: the regions visited before were freed.
    fn put(&mut self, start: u64, size: u64) -> Option<u64> {
        let next = start.checked_add(size).filter(|next| *next <= self.whole)?;
        let gap = start.checked_sub(self.end)?;
        self.end = next;
        Some(gap)
    }

    /// Bytes behind the last one.
    fn rest(&self) -> Option<u64> {
        self.whole.checked_sub(self.end).filter(|rest| *rest > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Tiles;

    #[test]
    fn regions_of_an_internal_page_that_overlap_are_not_both_shown() {
        let mut tiles = Tiles {
            end: 1000,
            whole: 2000,
        };
        assert_eq!(tiles.put(1000, 100), Some(0));
        assert_eq!(tiles.put(1099, 100), None, "it begins in the one before");
        assert_eq!(
            tiles.put(1000, 50),
            None,
            "it lies where the one before does"
        );
        assert_eq!(tiles.put(1200, 100), Some(100));
        assert_eq!(tiles.put(1950, 51), None, "past the end");
        assert_eq!(tiles.put(u64::MAX, 2), None);
        assert_eq!((tiles.end, tiles.rest()), (1300, Some(700)));
        assert_eq!((tiles.put(1300, 700), tiles.rest()), (Some(0), None));
    }
}
