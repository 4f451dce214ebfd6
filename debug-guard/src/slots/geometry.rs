#![forbid(unsafe_code)]

use core::alloc::Layout;

/// A region cut into cells of two pages. The first page of a cell is never provided; one page more closes the last
/// cell.
///
/// ```text
///               G D | G D | G D | .. | G        a block of up to a page: one cell
///                   |     |                      more: a run of cells, the guards within are data, one behind stays
///   page of the run: 0 1     2 3
/// ```
/// The pages of a run that a block needs are provided, and the next one never is. In front is the guard of the run's
/// first cell, or, where an alignment above a page left some out, one of those.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    base: usize,
    page_shift: u32,
    cells: u32,
}

const STRIDE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockPlacement {
    pub(super) start: usize,
    pub(super) page: usize,
    pub(super) pages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) size: usize,
    pub(super) align: usize,
    pub(super) right: bool,
}

impl Shape {
    pub(super) fn new(layout: Layout, right: bool) -> Self {
        Self { size: layout.size(), align: layout.align(), right }
    }
}

impl Geometry {
    pub(super) fn new(base: usize, pages: usize, page_shift: u32) -> Option<Self> {
        let cells = pages.checked_sub(1)? / STRIDE;
        let cells = u32::try_from(cells).ok().filter(|&cells| cells > 0 && cells < u32::MAX)?;
        Some(Self { base, page_shift, cells })
    }

    pub(super) const fn cells(&self) -> u32 {
        self.cells
    }

    pub(super) const fn page_bytes(&self) -> usize {
        1 << self.page_shift
    }

    pub(super) const fn address(&self, page: usize) -> usize {
        self.base.wrapping_add(page << self.page_shift)
    }

    pub(super) const fn page_of(&self, address: usize) -> Option<usize> {
        let page = address.wrapping_sub(self.base) >> self.page_shift;
        if address >= self.base && page <= self.cells as usize * STRIDE { Some(page) } else { None }
    }

    /// The flag: the page is the cell's guard. The region's last page counts as the guard of a further cell.
    pub(super) const fn cell_of(&self, page: usize) -> (u32, bool) {
        ((page / STRIDE) as u32, page.is_multiple_of(STRIDE))
    }

    pub(super) const fn guard_of(&self, cell: u32) -> usize {
        cell as usize * STRIDE
    }

    const fn pages_of(&self, size: usize) -> usize {
        let whole = size >> self.page_shift;
        let rest = size & (self.page_bytes() - 1) != 0;
        if size == 0 { 1 } else { whole + rest as usize }
    }

    /// `None` if no region can hold the block, and for blocks of no bytes aligned above a page, which have no guard
    /// page to stand in.
    pub(super) fn cells_for(&self, shape: Shape) -> Option<u32> {
        let left_out = (shape.align >> self.page_shift).saturating_sub(1);
        if shape.size == 0 && left_out > 0 {
            return None;
        }
        let pages = self.pages_of(shape.size).checked_add(left_out)?.checked_add(1)?;
        let cells = pages.div_ceil(STRIDE);
        u32::try_from(cells).ok().filter(|&cells| cells <= self.cells)
    }

    /// `cell` is the first of the block's run.
    pub(super) const fn place(&self, cell: u32, shape: Shape) -> BlockPlacement {
        let first = self.guard_of(cell) + 1;
        let page_bytes = self.page_bytes();
        let pages = self.pages_of(shape.size);
        let from = self.address(first);
        if shape.align > page_bytes {
            let start = from.wrapping_add(shape.align - 1) & !(shape.align - 1);
            return BlockPlacement { start, page: first + ((start.wrapping_sub(from)) >> self.page_shift), pages };
        }
        let start = if shape.size == 0 {
            // An access on either side of the middle of the guard is stopped too.
            let half = page_bytes / 2;
            from.wrapping_add(page_bytes).wrapping_add(if shape.align <= half { half } else { 0 })
        } else if shape.right {
            from.wrapping_add(((pages << self.page_shift) - shape.size) & !(shape.align - 1))
        } else {
            from
        };
        BlockPlacement { start, page: first, pages }
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;

    const PAGE: usize = 4096;

    fn geometry() -> Geometry {
        Geometry::new(0x7f00_0000_3000, (1 << 16) + 1, 12).expect("cells")
    }

    fn shapes() -> impl Iterator<Item = Shape> {
        let sizes = [0, 1, 7, 61, 64, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 5, 300_000, 1 << 20];
        sizes.into_iter().flat_map(|size| {
            (0..=22).flat_map(move |log| [true, false].map(|right| Shape { size, align: 1 << log, right }))
        })
    }

    #[test]
    fn blocks_are_aligned_and_stay_within_their_run() {
        {
            let g = geometry();
            for shape in shapes() {
                let Some(cells) = g.cells_for(shape) else {
                    assert!(shape.size == 0 && shape.align > PAGE, "{shape:?}");
                    continue;
                };
                for cell in [0, 1, 77] {
                    let place = g.place(cell, shape);
                    assert_eq!(place.start % shape.align, 0, "{shape:?}");
                    assert!(place.page > g.guard_of(cell), "the guard in front is kept: {shape:?}");
                    assert!(
                        place.page + place.pages <= g.guard_of(cell + cells),
                        "the guard behind is kept: {shape:?}"
                    );
                    if shape.size > 0 {
                        assert!(place.start >= g.address(place.page), "{shape:?}");
                        assert!(place.start + shape.size <= g.address(place.page + place.pages), "{shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn right_leaves_less_than_the_alignment_behind_and_left_nothing_in_front() {
        let g = geometry();
        for shape in shapes().filter(|shape| shape.size > 0 && shape.align <= PAGE) {
            let place = g.place(5, shape);
            if shape.right {
                assert!(g.address(place.page + place.pages) - (place.start + shape.size) < shape.align, "{shape:?}");
            } else {
                assert_eq!(place.start, g.address(place.page), "{shape:?}");
            }
        }
    }

    #[test]
    fn a_block_of_no_bytes_stands_in_the_guard_behind_its_cell() {
        let g = geometry();
        for align in [1, 16, 2048, 4096] {
            let place = g.place(3, Shape { size: 0, align, right: true });
            assert_eq!(g.page_of(place.start), Some(g.guard_of(4)));
            assert_eq!(place.start % align, 0);
        }
    }

    #[test]
    fn addresses_find_their_cell() {
        let g = geometry();
        assert_eq!(g.page_of(g.address(0) - 1), None);
        assert_eq!(g.cells(), 1 << 15);
        for cell in [0, 1, 9, g.cells() - 1] {
            assert_eq!(g.page_of(g.address(g.guard_of(cell))).map(|page| g.cell_of(page)), Some((cell, true)));
            assert_eq!(
                g.page_of(g.address(g.guard_of(cell) + 1) + 4095).map(|page| g.cell_of(page)),
                Some((cell, false))
            );
        }
        let last = g.guard_of(g.cells());
        assert_eq!(g.page_of(g.address(last) + 4095), Some(last));
        assert_eq!(g.page_of(g.address(last) + 4096), None);
    }

    #[test]
    fn t31_what_no_region_holds_is_refused_without_wrapping() {
        let g = geometry();
        for size in [1 << 40, isize::MAX as usize, isize::MAX as usize - 4095, usize::MAX] {
            assert_eq!(g.cells_for(Shape { size, align: 1, right: true }), None);
        }
        assert_eq!(g.cells_for(Shape { size: 1, align: 1 << 62, right: true }), None);
        assert_eq!(Geometry::new(0x1000, 2, 12).map(|g| g.cells()), None);
        assert_eq!(Geometry::new(0x1000, 3, 12).map(|g| g.cells()), Some(1));
    }
}
