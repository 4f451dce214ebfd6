//! What was live of each kind of object and in each heap over time: the highest of each within stretches, which become
//! twice as long when there are too many. At most 81 KiB.

#![forbid(unsafe_code)]

use alloc_core::TryVec;
use vk_report::report::{CourseRow, Courses};

use crate::chain::MAX_HEAPS;
use crate::commands::{FIRST_ROWS, MAX_KINDS, row};
use crate::record::{Own, own};

/// Live bytes of each kind, then of each heap.
pub(crate) type Live = [u64; MAX_KINDS + MAX_HEAPS];

const MAX_POINTS: usize = 128;

pub(crate) struct Points {
    points: TryVec<(u64, Live), Own>,
    /// Each point stands for so many moments.
    stride: u64,
    moments: u64,
}

impl Points {
    pub(crate) const fn new() -> Self {
        Self { points: TryVec::new_in(own()), stride: 1, moments: 0 }
    }

    /// Without memory the moment is left out.
    pub(crate) fn add(&mut self, at: u64, live: &Live) {
        if self.moments.is_multiple_of(self.stride) {
            if self.points.len() == MAX_POINTS {
                self.halve();
            }
            let _ = self.points.try_push((at, *live));
        } else if let Some((_, last)) = self.points.last_mut() {
            raise(last, live);
        }
        self.moments = self.moments.wrapping_add(1);
    }

    fn halve(&mut self) {
        self.stride = self.stride.saturating_mul(2);
        for pair in self.points.chunks_exact_mut(2) {
            if let [(_, first), (_, second)] = pair {
                raise(first, second);
            }
        }
        let mut is_second = true;
        self.points.retain(|_| {
            is_second = !is_second;
            !is_second
        });
    }

    /// With the present moment, where it is known.
    pub(crate) fn courses(&self, now: Option<(u64, Live)>) -> Courses {
        let points = || self.points.iter().chain(&now);
        let kinds = FIRST_ROWS.iter().map(|index| {
            let name = index.map_or("", |index| row(index).object);
            name.to_owned()
        });
        let heaps = (0..MAX_HEAPS).map(|heap| format!("heap {heap}"));
        let rows = kinds.chain(heaps).enumerate().map(|(place, name)| {
            let live = |(_, live): &(u64, Live)| live.get(place).copied().unwrap_or_default();
            let live_bytes = points().map(live).collect();
            CourseRow { name, live_bytes }
        });
        Courses {
            at: points().map(|point| point.0).collect(),
            rows: rows.filter(|row| row.peak_bytes() != 0).collect(),
        }
    }
}

fn raise(highest: &mut Live, live: &Live) {
    for (highest, live) in highest.iter_mut().zip(live) {
        *highest = (*highest).max(*live);
    }
}

#[cfg(test)]
mod tests {
    use super::{Live, MAX_HEAPS, MAX_KINDS, MAX_POINTS, Points};

    #[test]
    fn ly75_the_highest_of_each_kind_and_heap_stay_in_few_points() {
        const COUNT: u64 = 10_000;
        let mut points = Points::new();
        let live = |at: u64| -> Live {
            let mut live = [0; MAX_KINDS + MAX_HEAPS];
            live[3] = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            live[MAX_KINDS + 1] = if at == 777 { 99 } else { at % 7 };
            live
        };
        for at in 0..COUNT {
            points.add(at, &live(at));
            if at >= MAX_POINTS as u64 && !at.is_multiple_of(199) {
                continue;
            }
            let courses = points.courses(None);
            assert!(at == 0 || courses.at.len() > MAX_POINTS.min(at as usize) / 2);
            if at < MAX_POINTS as u64 {
                assert_eq!(courses.at, (0..=at).collect::<Vec<_>>());
            }
        }
        let courses = points.courses(Some((COUNT, live(3))));
        assert!(courses.at.len() <= MAX_POINTS + 1 && courses.at.is_sorted());
        assert_eq!((courses.at[0], courses.at.last()), (0, Some(&COUNT)));
        let [kind, heap] = &courses.rows[..] else { panic!("{:?}", courses.rows) };
        assert_eq!((&*heap.name, heap.peak_bytes()), ("heap 1", 99));
        let most = (0..COUNT).map(|at| live(at)[3]).max();
        assert!(kind.name.starts_with("Vk") && Some(kind.peak_bytes()) == most);
        assert_eq!(heap.live_bytes.last(), Some(&3), "what is live now");
        for row in &courses.rows {
            assert_eq!(row.live_bytes.len(), courses.at.len());
        }
    }
}
