#![forbid(unsafe_code)]

use std::fmt;

use super::one_line;
use crate::report::{BlockSum, CallSites, Cell, DrillDown, LeakFrame};

/// How far down [`Text::depth`](super::Text::depth) may go: commands, size classes, stacks.
pub(super) const MAX_DEPTH: usize = 3;
const MAX_PARTS: usize = 10;
const MAX_FRAMES: usize = 12;
/// The width of names before their numbers are pushed aside.
const NAME: usize = 78;

pub(super) fn write(f: &mut fmt::Formatter<'_>, sites: &CallSites, depth: usize) -> fmt::Result {
    let title = "call sites, bytes as requested";
    writeln!(f, "\n{title:<w$}{:>9}{:>8}{:>9}{:>8}", "live", "blocks", "taken", "blocks", w = NAME + 2)?;
    parts(f, sites, &sites.drill_down(), (1, depth.min(MAX_DEPTH) + 1))
}

fn parts(
    f: &mut fmt::Formatter<'_>,
    sites: &CallSites,
    all: &[DrillDown],
    (level, depth): (usize, usize),
) -> fmt::Result {
    let limit = if level == 1 { all.len() } else { MAX_PARTS };
    for part in all.iter().take(limit) {
        line(f, level, &one_line(&part.label), part.live, part.total)?;
        match part.stack {
            Some(_) => frames(f, sites, part, level)?,
            None if level < depth => parts(f, sites, &part.parts, (level + 1, depth))?,
            None => {}
        }
    }
    let rest = all.get(limit..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&DrillDown) -> BlockSum| rest.iter().fold(BlockSum::default(), |sum, part| sum.plus(of(part)));
    let name = format!("and {} more; --json lists all", rest.len());
    line(f, level, &name, sum(|part| part.live), sum(|part| part.total))
}

fn line(f: &mut fmt::Formatter<'_>, level: usize, name: &str, live: BlockSum, total: BlockSum) -> fmt::Result {
    let name = format!("{:indent$}{name}", "", indent = level * 2);
    writeln!(
        f,
        "{name:<w$} {:>8} {:>7} {:>8} {:>7}",
        Cell::Bytes(live.bytes),
        Cell::Count(live.blocks),
        Cell::Bytes(total.bytes),
        Cell::Count(total.blocks),
        w = NAME + 2
    )
}

fn frames(f: &mut fmt::Formatter<'_>, sites: &CallSites, part: &DrillDown, level: usize) -> fmt::Result {
    let frames = sites.frames_of(part.stack);
    let lines = frames.flat_map(LeakFrame::lines);
    for function in lines.skip(1).take(MAX_FRAMES) {
        writeln!(f, "{:indent$}{}", "", one_line(&function), indent = level * 2 + 2)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ShownSum(BlockSum);

    impl fmt::Display for ShownSum {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            line(f, 1, "name", self.0, self.0)
        }
    }

    #[test]
    fn figures_never_run_together() {
        let most = BlockSum { bytes: u64::MAX, blocks: u64::MAX };
        let line = ShownSum(most).to_string();
        assert_eq!(line.split_whitespace().count(), 1 + 2 * 3, "{line}");
    }
}
