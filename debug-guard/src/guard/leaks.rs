//! Leaks: live blocks between two marks, summed by call site, and the list at exit.
//!
//! The sums stand in the sites themselves, so a list allocates nothing; the largest 64 are selected at a time.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use super::serial;
use super::state::GuardState;
use crate::block::{Known, SiteId};
use crate::os;
use crate::report::{self, BlockInfo, Leak};

/// A moment between two allocations of a process. The [`Default`] is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeakMark(u64);

/// The live blocks that were allocated between two marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeakSum {
    /// Call sites.
    pub stacks: u64,
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Sites selected at a time.
const PICKED: usize = 64;
/// Maximum number of stacks in the list at exit.
const LISTED: u64 = 64;

/// The blocks of one site.
#[derive(Clone, Copy, Default)]
struct LeakGroup {
    site: SiteId,
    blocks: u64,
    bytes: u64,
    /// The first block that was seen.
    example: Option<Known>,
}

impl LeakGroup {
    /// Order of the list: most bytes first; no two are equal.
    fn rank(&self) -> (u64, u32) {
        (self.bytes, self.site.0)
    }
}

impl LeakMark {
    pub(super) fn now() -> Self {
        Self(serial::boundary())
    }
}

/// Where the list at exit begins.
#[derive(Default)]
pub(super) struct ExitFrom(AtomicU64);

impl ExitFrom {
    pub(super) fn set(&self, mark: LeakMark) {
        self.0.store(mark.0, Relaxed);
    }

    fn get(&self) -> LeakMark {
        LeakMark(self.0.load(Relaxed))
    }
}

impl GuardState {
    /// Calls `each` for each group of live blocks that were allocated between `from` and `to`.
    pub(super) fn leaks(
        &self,
        from: LeakMark,
        to: LeakMark,
        each: &mut dyn FnMut(&Leak<'_>),
    ) -> LeakSum {
        let mut sum = LeakSum::default();
        // Nothing was recorded, or another list is being made, perhaps by `each` itself.
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
                let group = LeakGroup {
                    site,
                    blocks,
                    bytes,
                    example: None,
                };
                if blocks != 0 && group.rank() < below {
                    insert(&mut picked, group);
                }
            });
            self.outstanding(from, to, &mut |known| {
                if let Some(group) = picked
                    .iter_mut()
                    .find(|group| group.blocks != 0 && group.site == self.site_of(known))
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

    /// 0 if the site is not known.
    fn site_of(&self, known: &Known) -> SiteId {
        let id = known.allocated.site;
        self.site(id).map_or(SiteId::default(), |_| id)
    }

    fn report_group(&self, group: &LeakGroup, sum: &mut LeakSum, each: &mut dyn FnMut(&Leak<'_>)) {
        // None if the last of them was freed meanwhile.
        let Some(example) = group.example else { return };
        sum.stacks = sum.stacks.saturating_add(1);
        let block = BlockInfo::new(example, |id| self.site(id));
        each(&Leak {
            block,
            blocks: group.blocks,
            bytes: group.bytes,
        });
    }

    fn outstanding(&self, from: LeakMark, to: LeakMark, each: &mut dyn FnMut(&Known)) {
        self.for_each_live(&mut |known| {
            if (from.0..to.0).contains(&known.allocated.serial) {
                each(known);
            }
        });
    }

    /// Writes the list at exit, if it is requested and blocks are live. Returns the process's exit code, unless it is 0.
    pub(super) fn list_outstanding(&self) -> Option<i32> {
        let code = self.options.exit_leaks?;
        let (from, to) = (self.counters.exit_from.get(), LeakMark::now());
        let LeakSum {
            blocks,
            bytes,
            stacks,
        } = self.leaks(from, to, &mut |_| ());
        if blocks == 0 {
            return None;
        }
        let shown = stacks.min(LISTED);
        let (s, were) = if blocks == 1 {
            ("", "was")
        } else {
            ("s", "were")
        };
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

/// Inserts `group` among the largest; the smallest is dropped.
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

/// Registers the list at exit, once a process.
pub(super) fn register_list_at_exit() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, SeqCst) {
        os::at_exit(report_at_exit);
    }
}

extern "C" fn report_at_exit() {
    let mut code = None;
    let _: Option<()> = report::query(|guard| {
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
            // 200 different sums, in a scattered order.
            let bytes = u64::from(n * 77 % 200);
            insert(
                &mut picked,
                LeakGroup {
                    site: SiteId(n + 1),
                    blocks: 1,
                    bytes,
                    example: None,
                },
            );
        }
        let kept: std::vec::Vec<u64> = picked.iter().map(|group| group.bytes).collect();
        assert_eq!(kept, (136..200).rev().collect::<std::vec::Vec<u64>>());
    }
}
