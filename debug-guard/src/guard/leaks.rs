//! Leaks are summed by call site. The sums stand in the sites, so a list allocates
//! nothing; the largest 64 are selected at a time.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::serial;
use super::state::GuardState;
use crate::block::{Known, SiteId};
use crate::os;
use crate::report::{self, BlockInfo, Leak};

/// A moment between two allocations of a process. The [`Default`] is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeakMark(u64);

/// The live blocks that were allocated between two marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeakSum {
    /// Call sites with such blocks.
    pub stacks: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

const PICKED: usize = 64;
const LISTED: u64 = 64;

#[derive(Clone, Copy, Default)]
struct LeakGroup {
    site: SiteId,
    blocks: u64,
    bytes: u64,
    example: Option<Known>,
}

impl LeakGroup {
    /// No two are equal.
    fn rank(&self) -> (u64, u32) {
        (self.bytes, self.site.0)
    }
}

impl GuardState {
    /// The present moment, for [`leaks`](Self::leaks).
    pub fn mark(&self) -> LeakMark {
        LeakMark(serial::boundary())
    }

    /// Calls `each` for each call site with live blocks allocated between `from` and `to`, most bytes first, and
    /// returns the sum. Blocks that pass are not known. Allocates nothing; `each` may allocate and free, and a list
    /// that it requests is empty.
    pub fn leaks(&self, from: LeakMark, to: LeakMark, each: &mut dyn FnMut(&Leak<'_>)) -> LeakSum {
        let mut sum = LeakSum::default();
        // Another list may be in progress.
        let Some(mut tally) = self.sites.as_ref().and_then(|sites| sites.tally()) else {
            return sum;
        };
        self.outstanding(from, to, &mut |known| {
            let bytes = known.size as u64;
            sum.blocks = sum.blocks.saturating_add(1);
            sum.bytes = sum.bytes.saturating_add(bytes);
            tally.add(known.allocated.site, bytes);
        });
        let mut below = (u64::MAX, u32::MAX);
        loop {
            let mut picked = [LeakGroup::default(); PICKED];
            tally.for_each(&mut |site, blocks, bytes| {
                let group = LeakGroup { site, blocks, bytes, example: None };
                if blocks != 0 && group.rank() < below {
                    insert(&mut picked, group);
                }
            });
            self.outstanding(from, to, &mut |known| {
                if let Some(group) =
                    picked.iter_mut().find(|group| group.blocks != 0 && group.site == tally.group(known.allocated.site))
                {
                    group.example.get_or_insert(*known);
                }
            });
            for group in picked.iter().filter(|group| group.blocks != 0) {
                below = group.rank();
                self.report_group(group, &mut sum, each);
            }
            if picked.last().is_none_or(|last| last.blocks == 0) {
                break;
            }
        }
        sum
    }

    fn report_group(&self, group: &LeakGroup, sum: &mut LeakSum, each: &mut dyn FnMut(&Leak<'_>)) {
        // The last of them was freed meanwhile.
        let Some(example) = group.example else { return };
        sum.stacks = sum.stacks.saturating_add(1);
        let block = BlockInfo::new(example, |id| self.site(id));
        each(&Leak { block, blocks: group.blocks, bytes: group.bytes });
    }

    fn outstanding(&self, from: LeakMark, to: LeakMark, each: &mut dyn FnMut(&Known)) {
        self.for_each_live(&mut |known| {
            if (from.0..to.0).contains(&known.allocated.serial) {
                each(known);
            }
        });
    }

    /// Begins the list of [`exit_leaks`](crate::GuardOptions::exit_leaks) at `mark`: what the runtime and static
    /// values allocated before is no leak.
    pub fn exit_leaks_from(&self, mark: LeakMark) {
        self.counters.exit_from.store(mark.0, Relaxed);
    }

    /// The process's exit code, unless it is 0.
    pub(super) fn list_outstanding(&self) -> Option<i32> {
        let code = self.options.exit_leaks?;
        let from = LeakMark(self.counters.exit_from.load(Relaxed));
        let to = self.mark();
        let LeakSum { blocks, bytes, stacks } = self.leaks(from, to, &mut |_| ());
        if blocks == 0 {
            return None;
        }
        let shown = stacks.min(LISTED);
        let (s, were) = if blocks == 1 { ("", "was") } else { ("s", "were") };
        let places = if stacks == 1 { "place" } else { "places" };
        report::list(
            self,
            format_args!(
                "{blocks} block{s} with {bytes} bytes {were} not given back; {shown} of {stacks} {places} in the program that asked:"
            ),
            |each| {
                let mut listed = 0;
                self.leaks(from, to, &mut |leak| {
                    if listed < LISTED {
                        each(leak);
                    }
                    listed = listed.saturating_add(1);
                });
            },
        );
        (code != 0).then_some(code)
    }
}

fn insert(picked: &mut [LeakGroup; PICKED], mut group: LeakGroup) {
    for place in picked.iter_mut() {
        if place.blocks == 0 || place.rank() < group.rank() {
            core::mem::swap(place, &mut group);
        }
        if group.blocks == 0 {
            return;
        }
    }
}

pub(super) fn register_list_at_exit() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, SeqCst) {
        os::at_exit(report_at_exit);
    }
}

extern "C" fn report_at_exit() {
    let mut code = None;
    let _: Option<()> = report::REGISTRY.query(|guard| {
        let own = guard.at_exit();
        code = code.or(own);
        None
    });
    if let Some(code) = code {
        os::exit_now(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_order() {
        let mut picked = [LeakGroup::default(); PICKED];
        for n in 0..200_u32 {
            let bytes = u64::from(n * 77 % 200);
            insert(&mut picked, LeakGroup { site: SiteId(n + 1), blocks: 1, bytes, example: None });
        }
        let kept: std::vec::Vec<u64> = picked.iter().map(|group| group.bytes).collect();
        assert_eq!(kept, (136..200).rev().collect::<std::vec::Vec<u64>>());
    }
}
