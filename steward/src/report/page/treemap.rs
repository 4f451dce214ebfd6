#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::squarify::{Rect, squarify};
use vk_report::report::ContextRow;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) row: usize,
    pub(super) scope: Scope,
    pub(super) bytes: u64,
    pub(super) rect: Rect,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Treemap {
    pub(super) parts: Vec<Part>,
    pub(super) groups: Vec<(usize, Rect)>,
    pub(super) bytes: u64,
}

/// A group is as large as its children.
pub(super) fn treemap(rows: &[ContextRow], wanted: impl Fn(&ContextRow) -> bool, into: Rect) -> Treemap {
    let parents = parents(rows);
    let own: Vec<u64> =
        rows.iter().map(|row| if row.group || !wanted(row) { 0 } else { row.live_by_scope.sum() }).collect();
    let mut weights = own.clone();
    for index in (0..rows.len()).rev() {
        if let Some(parent) = parents[index] {
            weights[parent] = weights[parent].saturating_add(weights[index]);
        }
    }
    // Children by parent; those without a parent under the last index.
    let mut children = vec![Vec::new(); rows.len() + 1];
    for (index, parent) in parents.iter().enumerate() {
        children[parent.unwrap_or(rows.len())].push(index);
    }
    let mut rects = vec![Rect::default(); rows.len()];
    let mut map = Treemap { bytes: own.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)), ..Treemap::default() };
    lay(&children[rows.len()], &weights, into, &mut rects);
    for (index, row) in rows.iter().enumerate() {
        let rect = rects[index];
        if row.group && weights[index] > 0 && row.depth > 0 {
            map.groups.push((index, rect));
        }
        let below: Vec<u64> = children[index].iter().map(|child| weights[*child]).chain([own[index]]).collect();
        let laid = squarify(&below, rect);
        for (child, rect) in children[index].iter().zip(&laid) {
            rects[*child] = *rect;
        }
        if own[index] > 0 {
            map.parts.extend(by_scope(index, row, laid.last().copied().unwrap_or_default()));
        }
    }
    map
}

fn lay(children: &[usize], weights: &[u64], into: Rect, rects: &mut [Rect]) {
    let below: Vec<u64> = children.iter().map(|child| weights[*child]).collect();
    for (child, rect) in children.iter().zip(squarify(&below, into)) {
        rects[*child] = rect;
    }
}

fn by_scope(index: usize, row: &ContextRow, rect: Rect) -> impl Iterator<Item = Part> {
    let held = Scope::ALL.map(|scope| row.live_by_scope.get(scope));
    let rects = squarify(&held, rect);
    let parts = Scope::ALL.into_iter().zip(held).zip(rects);
    parts.filter(|((_, bytes), _)| *bytes > 0).map(move |((scope, bytes), rect)| Part {
        row: index,
        scope,
        bytes,
        rect,
    })
}

/// The parent of each row: the nearest row before it with less depth.
fn parents(rows: &[ContextRow]) -> Vec<Option<usize>> {
    let mut above: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        while above.last().is_some_and(|last| rows[*last].depth >= row.depth) {
            above.pop();
        }
        parents.push(above.last().copied());
        above.push(index);
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::super::squarify::tests::check;
    use super::{Rect, treemap};
    use vk_report::report::{ByScope, ContextRow};

    const INTO: Rect = Rect { x: 0.0, y: 0.0, w: 1000.0, h: 400.0 };

    fn row(name: &str, depth: usize, object: u64, cache: u64) -> ContextRow {
        let live_by_scope = ByScope { object, cache, ..ByScope::default() };
        ContextRow { name: name.into(), depth, live_by_scope, live_bytes: object + cache, ..ContextRow::default() }
    }

    fn rows() -> Vec<ContextRow> {
        let mut rows = vec![
            ContextRow::group("top", 0),
            row("a", 1, 600, 0),
            ContextRow::group("below", 1),
            row("b", 2, 100, 200),
            row("c", 2, 0, 0),
            row("d", 2, 1, 99),
        ];
        ContextRow::sum_groups(&mut rows);
        rows
    }

    #[test]
    fn parts_have_the_area_of_their_bytes_and_lie_in_their_group() {
        let map = treemap(&rows(), |_| true, INTO);
        let found: Vec<_> = map.parts.iter().map(|part| (part.row, part.bytes)).collect();
        assert_eq!(found, [(1, 600), (3, 100), (3, 200), (5, 1), (5, 99)]);
        assert_eq!(map.bytes, 1000);
        let (weights, rects): (Vec<_>, Vec<_>) = map.parts.iter().map(|part| (part.bytes, part.rect)).unzip();
        check(&weights, &rects, INTO);
        let (group, rect) = map.groups[0];
        assert_eq!((map.groups.len(), group), (1, 2));
        let (weights, rects): (Vec<_>, Vec<_>) = map.parts[1..].iter().map(|part| (part.bytes, part.rect)).unzip();
        check(&weights, &rects, rect);
    }

    #[test]
    fn a_context_that_holds_something_itself_lies_beside_what_is_below_it() {
        let rows =
            [row("top", 0, 50, 0), row("below", 1, 25, 0), row("below that", 9, 25, 0), row("beside", 0, 100, 0)];
        let map = treemap(&rows, |_| true, INTO);
        let (weights, rects): (Vec<_>, Vec<_>) = map.parts.iter().map(|part| (part.bytes, part.rect)).unzip();
        assert_eq!(weights, [50, 25, 25, 100]);
        check(&weights, &rects, INTO);
    }

    #[test]
    fn only_what_is_wanted_is_drawn_and_nothing_of_nothing() {
        let map = treemap(&rows(), |row| row.live_bytes < 300, INTO);
        assert_eq!((map.bytes, map.parts.len(), map.parts[0].row), (100, 2, 5));
        for rows in [&[][..], &[row("a", 0, 0, 0)], &[ContextRow::group("top", 7)]] {
            assert_eq!(treemap(rows, |_| true, INTO), super::Treemap::default());
        }
        let most = [row("a", 0, u64::MAX, 0), row("b", 0, 0, u64::MAX)];
        assert_eq!(treemap(&most, |_| true, INTO).bytes, u64::MAX);
    }
}
