//! Law 2: every request of the backing is refused once, in a scripted sequence; each refusal is an answer of NULL or a
//! typed error, nothing is lost, and the sequence ends with nothing live.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::NonNull;

use crate::common::{Driver, assert_filled, fill};
use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault};
use proptest::prelude::*;
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;

/// A backing that refuses by plan, and may want exact alignment.
struct Refuses {
    failing: FailingAllocator<RecordingAllocator>,
    exact: bool,
}

impl Refuses {
    fn new(fault: Fault, exact: bool) -> Self {
        let failing = FailingAllocator::new(RecordingAllocator::system(), fault);
        Self { failing, exact }
    }

    fn witness(&self) -> &RecordingAllocator {
        self.failing.inner()
    }
}

// SAFETY: every call is the inner allocator's own.
unsafe impl HostAllocator for Refuses {
    fn traits(&self) -> AllocatorTraits {
        let mut traits = self.witness().traits();
        traits.exact_alignment = self.exact;
        traits
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.failing.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the inner allocator's.
        unsafe { self.failing.deallocate(block, layout, scope) }
    }
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: this function's contract: the block is the inner allocator's.
        unsafe { self.failing.resize(block, old, new, scope) }
    }
}

/// One step of a random program.
#[derive(Clone, Debug)]
enum Step {
    Alloc { size: usize, log: u32 },
    Realloc { which: usize, size: usize },
    Free { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Sizes around the powers of two.
    let size = || (0_u32..14, -2_i64..3).prop_map(|(bit, off)| ((1_i64 << bit) + off).max(0) as usize);
    let step = prop_oneof![
        3 => (size(), 0_u32..=14).prop_map(|(size, log)| Step::Alloc { size, log }),
        3 => (any::<usize>(), size()).prop_map(|(which, size)| Step::Realloc { which, size }),
        1 => any::<usize>().prop_map(|which| Step::Free { which }),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 12 } else { 80 })
}

struct FallibleBlock {
    at: *mut u8,
    size: usize,
    align: usize,
    seed: u8,
}

/// Runs the steps against a naive model: a list of blocks and what is written in them.
fn against_the_model(steps: &[Step], fault: Fault, exact: bool) {
    let backing = Refuses::new(fault, exact);
    {
        let bridge = pin!(BareBridge::new(&backing));
        let driver = Driver(bridge.as_ref().raw());
        let mut blocks: Vec<FallibleBlock> = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            let refused = backing.failing.refused();
            match *step {
                Step::Alloc { size, log } => {
                    let at = driver.alloc(size, 1 << log, Scope::Object);
                    assert_eq!(at.is_null(), backing.failing.refused() > refused);
                    if !at.is_null() {
                        assert!(at.addr().is_multiple_of(1 << log));
                        fill(at, size, i as u8);
                        blocks.push(FallibleBlock { at, size, align: 1 << log, seed: i as u8 });
                    }
                }
                Step::Realloc { which, size } if !blocks.is_empty() => {
                    let which = which % blocks.len();
                    let at = driver.realloc(blocks[which].at, size, blocks[which].align, Scope::Object);
                    if size == 0 {
                        assert!(at.is_null());
                        blocks.swap_remove(which);
                        continue;
                    }
                    assert_eq!(at.is_null(), backing.failing.refused() > refused);
                    let block = &mut blocks[which];
                    if !at.is_null() {
                        assert!(at.addr().is_multiple_of(block.align));
                        assert_filled(at, block.size.min(size), block.seed);
                        fill(at, size, block.seed);
                        (block.at, block.size) = (at, size);
                    }
                }
                Step::Free { which } if !blocks.is_empty() => {
                    let which = which % blocks.len();
                    driver.free(blocks.swap_remove(which).at);
                }
                Step::Realloc { .. } | Step::Free { .. } => {}
            }
            for block in &blocks {
                assert_filled(block.at, block.size, block.seed);
            }
            assert_eq!(backing.witness().total().live_blocks, blocks.len() as u64);
        }
        blocks.iter().for_each(|block| driver.free(block.at));
        assert_eq!(bridge.counters().faults(), 0);
    }
    backing.witness().assert_empty("after all blocks were freed");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn v16_random_reallocations_over_a_failing_backing_match_the_model(steps in steps(), seed: u64, exact: bool) {
        against_the_model(&steps, Fault::OneIn { requests: 4, seed }, exact);
    }

    #[test]
    fn v12_random_reallocations_keep_their_content(steps in steps(), exact: bool) {
        against_the_model(&steps, Fault::Never, exact);
    }
}
