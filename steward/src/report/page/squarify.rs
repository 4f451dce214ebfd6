//! Rectangles for weights: the squarified treemap of Bruls, Huizing and van Wijk (2000).
//!
//! Rows of weights lie along the shorter side of the remaining area. A row grows as long as its rectangles get no
//! thinner.
//!
//! ```text
//!  +--------+-----+      weights 6 6 4 3 2 2 1 in 6 x 4: 6 and 6 fill a column,
//!  |   6    | 4   |      4 and 3 a row of what is left, and so on
//!  |        +-----+
//!  +--------+ 3 ..|
//!  |   6    |     |
//!  +--------+-----+
//! ```

#![forbid(unsafe_code)]

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) w: f64,
    pub(super) h: f64,
}

impl Rect {
    pub(super) fn area(&self) -> f64 {
        self.w * self.h
    }
}

/// Areas are proportional to weights and fill `into`; a weight of 0 has an empty rectangle.
pub(super) fn squarify(weights: &[u64], into: Rect) -> Vec<Rect> {
    let mut rects = vec![Rect { w: 0.0, h: 0.0, ..into }; weights.len()];
    let total: f64 = weights.iter().map(|weight| *weight as f64).sum();
    if total <= 0.0 || into.area() <= 0.0 {
        return rects;
    }
    let scale = into.area() / total;
    let mut order: Vec<usize> = (0..weights.len()).filter(|index| weights[*index] > 0).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(weights[*index]), *index));
    let areas: Vec<(usize, f64)> = order.into_iter().map(|index| (index, weights[index] as f64 * scale)).collect();
    let (mut rest, mut left) = (areas.as_slice(), into);
    while !rest.is_empty() {
        let (row, behind) = rest.split_at(row_length(rest, left.w.min(left.h)));
        // The last row takes all that rounding left.
        left = lay(row, left, behind.is_empty(), &mut rects);
        rest = behind;
    }
    rects
}

fn row_length(areas: &[(usize, f64)], side: f64) -> usize {
    let largest = areas[0].1;
    let thinnest =
        |smallest: f64, sum: f64| (side * side * largest / (sum * sum)).max(sum * sum / (side * side * smallest));
    let (mut sum, mut worst) = (largest, thinnest(largest, largest));
    for (count, (_, area)) in areas.iter().enumerate().skip(1) {
        let longer = thinnest(*area, sum + area);
        if longer > worst {
            return count;
        }
        (sum, worst) = (sum + area, longer);
    }
    areas.len()
}

fn lay(row: &[(usize, f64)], left: Rect, last: bool, rects: &mut [Rect]) -> Rect {
    let sum: f64 = row.iter().map(|(_, area)| area).sum();
    let upright = left.w >= left.h;
    let (side, room) = if upright { (left.h, left.w) } else { (left.w, left.h) };
    let thick = if last { room } else { (sum / side).min(room) };
    let mut before = 0.0;
    for (index, area) in row {
        let (from, to) = (side * (before / sum), side * ((before + area) / sum));
        before += area;
        rects[*index] = match upright {
            true => Rect { x: left.x, y: left.y + from, w: thick, h: to - from },
            false => Rect { x: left.x + from, y: left.y, w: to - from, h: thick },
        };
    }
    match upright {
        true => Rect { x: left.x + thick, w: (left.w - thick).max(0.0), ..left },
        false => Rect { y: left.y + thick, h: (left.h - thick).max(0.0), ..left },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Rect, squarify};

    const INTO: Rect = Rect { x: 10.0, y: 20.0, w: 1000.0, h: 420.0 };

    pub(in super::super) fn check(weights: &[u64], rects: &[Rect], into: Rect) {
        assert_eq!(rects.len(), weights.len());
        let total: f64 = weights.iter().map(|weight| *weight as f64).sum();
        let close = 1e-6 * into.area().max(1.0);
        for (weight, rect) in weights.iter().zip(rects) {
            let expected = if total > 0.0 { into.area() * *weight as f64 / total } else { 0.0 };
            assert!((rect.area() - expected).abs() <= close, "{weight} of {weights:?}: {rect:?}, not {expected}");
            let (right, bottom) = (rect.x + rect.w, rect.y + rect.h);
            assert!(rect.x >= into.x - 1e-6 && right <= into.x + into.w + 1e-6, "{rect:?}");
            assert!(rect.y >= into.y - 1e-6 && bottom <= into.y + into.h + 1e-6, "{rect:?}");
            assert!(rect.w >= 0.0 && rect.h >= 0.0 && rect.area().is_finite());
        }
        for (at, one) in rects.iter().enumerate() {
            for two in &rects[at + 1..] {
                let w = (one.x + one.w).min(two.x + two.w) - one.x.max(two.x);
                let h = (one.y + one.h).min(two.y + two.h) - one.y.max(two.y);
                assert!(w.max(0.0) * h.max(0.0) <= close, "{one:?} and {two:?} overlap");
            }
        }
    }

    #[test]
    fn weights_of_all_kinds_fill_the_rectangle() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for count in 0..40 {
            for bits in [1, 4, 20, 63] {
                let weights: Vec<u64> = (0..count).map(|_| next() >> (64 - bits)).collect();
                check(&weights, &squarify(&weights, INTO), INTO);
            }
        }
        for weights in [&[u64::MAX, 1, u64::MAX][..], &[0, 0], &[0, 7], &[1; 100], &[1 << 60, 1 << 40, 1 << 20, 1]] {
            check(weights, &squarify(weights, INTO), INTO);
        }
    }

    #[test]
    fn without_room_nothing_has_an_area() {
        for into in [Rect::default(), Rect { w: 5.0, ..Rect::default() }] {
            assert!(squarify(&[1, 2], into).iter().all(|rect| rect.area() == 0.0));
        }
    }

    #[test]
    fn rectangles_are_nearly_square() {
        let into = Rect { x: 0.0, y: 0.0, w: 6.0, h: 4.0 };
        let rects = squarify(&[6, 6, 4, 3, 2, 2, 1], into);
        assert_eq!(rects[0], Rect { x: 0.0, y: 0.0, w: 3.0, h: 2.0 });
        assert_eq!(rects[1], Rect { x: 0.0, y: 2.0, w: 3.0, h: 2.0 });
        for rect in &rects {
            assert!((rect.w / rect.h).max(rect.h / rect.w) < 3.0, "{rect:?}");
        }
        let even = squarify(&[1; 24], into);
        assert!(even.iter().all(|rect| (rect.w / rect.h).max(rect.h / rect.w) < 1.6), "{even:?}");
    }
}
