//! Drawings of all blocks of device memory: free, owned, wrapped, crops, padding.
//!
//! ```text
//!   0                                                  size
//!   | owned |pad|       free        | owned |spent| free |     one strip to scale;
//!       |crop|                                                 another strip of the used part, if that is small
//! ```

#![forbid(unsafe_code)]

use super::areas::unit;
use super::label::{capitalised, cell, fitted, grouped, tick};
use vk_accounts::report::{Defragmentation, DeviceMemory, MemoryBlock, MemoryRange, one_line};

/// Units of a drawing's width.
const WIDTH: f64 = 1000.0;
/// The least width of a shape, so that it stays visible.
const THINNEST: f64 = 1.0;
/// The most shapes of a block that are drawn; data has all.
const SHAPES: usize = 1500;
/// The most blocks that are drawn.
const BLOCKS: usize = 200;
/// The most regions of a block that are listed unfolded.
const SHOWN: usize = 64;
/// The approximate width of a character.
const WIDE: f64 = 8.2;

/// A block.
pub(super) struct Drawn {
    pub(super) title: String,
    pub(super) strips: Vec<Strip>,
    /// The regions in use by offset, since print loses a drawing's names.
    pub(super) regions: Vec<RegionRow>,
    /// The folded rest of them.
    pub(super) folded: Vec<RegionRow>,
    /// Shapes that were omitted.
    pub(super) more: usize,
}

/// A region or a crop.
pub(super) struct RegionRow {
    /// A crop follows its region.
    pub(super) crop: bool,
    pub(super) class: &'static str,
    pub(super) offset: String,
    pub(super) size: String,
    pub(super) padding: String,
    pub(super) placement: String,
    pub(super) name: String,
}

/// A part of a block, to scale.
pub(super) struct Strip {
    pub(super) begin: String,
    pub(super) end: String,
    pub(super) shapes: Vec<Shape>,
}

/// A range, its padding or a crop.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) class: &'static str,
    pub(super) x: String,
    pub(super) width: String,
    /// Its name if it fits.
    pub(super) label: String,
    pub(super) title: String,
    /// It covers its region.
    pub(super) inner: bool,
}

/// The blocks, and how many were omitted.
pub(super) fn blocks(memory: Option<&DeviceMemory>) -> (Vec<Drawn>, usize) {
    let blocks = memory
        .map(|memory| memory.blocks.as_slice())
        .unwrap_or_default();
    (
        blocks.iter().take(BLOCKS).map(drawn).collect(),
        blocks.len().saturating_sub(BLOCKS),
    )
}

/// A defragmentation: the memory before and after.
pub(super) struct Moved {
    pub(super) title: String,
    pub(super) states: [State; 2],
}

/// The memory's division at one moment.
pub(super) struct State {
    pub(super) when: &'static str,
    pub(super) figures: String,
    pub(super) blocks: Vec<Drawn>,
    /// Blocks that were omitted.
    pub(super) more: usize,
}

pub(super) fn moved(of: &Defragmentation) -> Moved {
    let state = |when, memory: &DeviceMemory| {
        let (blocks, more) = blocks(Some(memory));
        State {
            when,
            figures: sentence(&memory.figures()),
            blocks,
            more,
        }
    };
    Moved {
        title: sentence(&of.title()),
        states: [state("Before", &of.before), state("After", &of.after)],
    }
}

/// The lines above the drawings.
pub(super) fn about(memory: &DeviceMemory) -> Vec<String> {
    // The terminal's first two lines.
    memory
        .to_string()
        .lines()
        .filter(|line| !line.is_empty())
        .take(2)
        .map(|line| sentence(line.trim()))
        .collect()
}

/// A line of the terminal as a sentence.
fn sentence(line: &str) -> String {
    capitalised(line) + "."
}

fn drawn(block: &MemoryBlock) -> Drawn {
    let mut strips = vec![strip(block, (0, block.size))];
    if let Some(part) = small_part(block) {
        strips.push(strip(block, part));
    }
    let mut regions: Vec<_> = block
        .ranges
        .iter()
        .filter(|range| range.what == "region")
        .take(SHAPES)
        .flat_map(region_rows)
        .collect();
    let folded = regions.split_off(regions.len().min(SHOWN));
    Drawn {
        title: one_line(&block.title()),
        strips,
        regions,
        folded,
        more: block.ranges.len().saturating_sub(SHAPES),
    }
}

fn region_rows(range: &MemoryRange) -> impl Iterator<Item = RegionRow> {
    let named = |name: &str| match one_line(name) {
        name if name.is_empty() => "without a name".to_owned(),
        name => name,
    };
    let wrapped = range.placement == "wrapped";
    let region = RegionRow {
        crop: false,
        class: if wrapped { "wrapped" } else { "owned" },
        offset: grouped(range.offset),
        size: grouped(range.size.saturating_sub(range.padding)),
        padding: cell(range.padding),
        placement: one_line(&range.placement),
        name: named(&range.name),
    };
    let crops = range.crops.iter().map(move |crop| RegionRow {
        crop: true,
        class: "crop",
        offset: format!("+{}", grouped(crop.offset)),
        size: grouped(crop.size),
        padding: cell(0),
        placement: "crop".to_owned(),
        name: named(&crop.name),
    });
    std::iter::once(region).chain(crops)
}

/// From the first to the last byte in use, if that is less than a quarter of the block.
fn small_part(block: &MemoryBlock) -> Option<(u64, u64)> {
    let used = || block.ranges.iter().filter(|range| !range.is_free());
    let begin = used().map(|range| range.offset).min()?;
    let end = used()
        .map(|range| range.offset.saturating_add(range.size))
        .max()?;
    (end.saturating_sub(begin) < block.size / 4 && end > begin).then_some((begin, end))
}

fn strip(block: &MemoryBlock, (begin, end): (u64, u64)) -> Strip {
    let scale = Scale {
        begin,
        end: end.max(begin.saturating_add(1)),
    };
    let inside = |range: &&MemoryRange| {
        range.offset < end && range.offset.saturating_add(range.size) > begin
    };
    let shapes = block
        .ranges
        .iter()
        .filter(inside)
        .take(SHAPES)
        .flat_map(|range| scale.range(range))
        .collect();
    Strip {
        begin: tick(begin),
        end: tick(end),
        shapes,
    }
}

/// The bytes that the width shows.
struct Scale {
    begin: u64,
    end: u64,
}

impl Scale {
    fn range(&self, range: &MemoryRange) -> Vec<Shape> {
        let class = match (range.what.as_str(), range.placement.as_str()) {
            ("free", _) => "free",
            ("spent", _) => "spent",
            (_, "wrapped") => "wrapped",
            _ => "owned",
        };
        let asked = range.size.saturating_sub(range.padding);
        let name = one_line(&range.name);
        let what = match class {
            "free" => format!(
                "free, {} bytes at {}",
                grouped(range.size),
                grouped(range.offset)
            ),
            "spent" => format!(
                "not for any request, {} bytes at {}",
                grouped(range.size),
                grouped(range.offset)
            ),
            _ => {
                let title = if name.is_empty() {
                    class.to_owned()
                } else {
                    format!("{name}: {class}")
                };
                format!(
                    "{title}, {} bytes at {}, {}",
                    grouped(asked),
                    grouped(range.offset),
                    one_line(&range.placement)
                )
            }
        };
        let mut shapes = vec![self.shape(class, (range.offset, asked), &name, what, false)];
        if range.padding > 0 {
            let at = range.offset.saturating_add(asked);
            let what = format!(
                "padding, {} bytes at {}",
                grouped(range.padding),
                grouped(at)
            );
            shapes.push(self.shape("padding", (at, range.padding), "", what, false));
        }
        shapes.extend(range.crops.iter().map(|crop| {
            let name = one_line(&crop.name);
            let of = if name.is_empty() {
                "crop".to_owned()
            } else {
                format!("{name}: crop")
            };
            let what = format!(
                "{of}, {} bytes at {} of its region",
                grouped(crop.size),
                grouped(crop.offset)
            );
            self.shape(
                "crop",
                (range.offset.saturating_add(crop.offset), crop.size),
                "",
                what,
                true,
            )
        }));
        shapes
    }

    fn shape(
        &self,
        class: &'static str,
        (offset, size): (u64, u64),
        name: &str,
        title: String,
        inner: bool,
    ) -> Shape {
        let (left, right) = (self.at(offset), self.at(offset.saturating_add(size)));
        let width = (right - left).max(THINNEST);
        let label = fitted(name, width - 6.0, WIDE).unwrap_or_default();
        Shape {
            class,
            x: unit(left.min(WIDTH - width)),
            width: unit(width),
            label,
            title,
            inner,
        }
    }

    fn at(&self, offset: u64) -> f64 {
        let (inside, all) = (
            offset.clamp(self.begin, self.end) - self.begin,
            self.end - self.begin,
        );
        WIDTH * (inside as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_accounts::report::MemoryCrop;

    fn range(what: &str, offset: u64, size: u64) -> MemoryRange {
        MemoryRange {
            what: what.into(),
            placement: "general".into(),
            offset,
            size,
            ..MemoryRange::default()
        }
    }

    fn block(size: u64, ranges: Vec<MemoryRange>) -> MemoryBlock {
        MemoryBlock {
            content: "linear".into(),
            size,
            ranges,
            ..MemoryBlock::default()
        }
    }

    fn places(strip: &Strip) -> Vec<(&str, f64, f64)> {
        let number = |text: &str| text.parse::<f64>().expect("a number");
        strip
            .shapes
            .iter()
            .map(|shape| (shape.class, number(&shape.x), number(&shape.width)))
            .collect()
    }

    #[test]
    fn shapes_are_as_long_as_their_bytes_and_lie_where_they_do() {
        let crop = MemoryCrop {
            offset: 100,
            size: 50,
            name: "part".into(),
        };
        let owned = MemoryRange {
            padding: 56,
            name: "vertices".into(),
            crops: vec![crop],
            ..range("region", 256, 256)
        };
        let spent = range("spent", 512, 488);
        let drawn = drawn(&block(1000, vec![range("free", 0, 256), owned, spent]));
        let [strip] = &drawn.strips[..] else {
            panic!("{} strips", drawn.strips.len())
        };
        let expected = [
            ("free", 0.0, 256.0),
            ("owned", 256.0, 200.0),
            ("padding", 456.0, 56.0),
            ("crop", 356.0, 50.0),
            ("spent", 512.0, 488.0),
        ];
        assert_eq!(places(strip), expected);
        assert_eq!(strip.shapes[1].label, "vertices");
        assert!(
            strip.shapes[3]
                .title
                .starts_with("part: crop, 50 bytes at 100"),
            "{:?}",
            strip.shapes[3]
        );
        assert_eq!((strip.begin.as_str(), strip.end.as_str()), ("0", "1000 B"));
    }

    #[test]
    fn a_small_used_part_is_drawn_again_larger() {
        let drawn = drawn(&block(
            1 << 20,
            vec![
                range("free", 0, 4096),
                range("region", 4096, 1024),
                range("free", 5120, (1 << 20) - 5120),
            ],
        ));
        let [whole, part] = &drawn.strips[..] else {
            panic!("{} strips", drawn.strips.len())
        };
        assert_eq!(places(whole).len(), 3);
        assert_eq!(places(part), [("owned", 0.0, 1000.0)]);
        assert_eq!((part.begin.as_str(), part.end.as_str()), ("4 KiB", "5 KiB"));
    }

    #[test]
    fn the_smallest_is_still_seen_and_nothing_leaves_the_drawing() {
        let last = range("region", (1 << 40) - 1, 1);
        let odd = MemoryRange {
            padding: 9,
            ..range("region", u64::MAX, u64::MAX)
        };
        let first = range("region", 0, 1 << 39);
        let drawn = drawn(&block(1 << 40, vec![first, last, odd]));
        for strip in &drawn.strips {
            for (class, x, width) in places(strip) {
                assert!(
                    width >= THINNEST && x >= 0.0 && x + width <= WIDTH + 0.01,
                    "{class} {x} {width}"
                );
            }
        }
        assert!(blocks(None).0.is_empty());
        assert_eq!(
            blocks(Some(&DeviceMemory {
                blocks: vec![block(0, Vec::new()); 201],
                ..DeviceMemory::default()
            }))
            .1,
            1
        );
    }
}
