//! Law 2: every request of the backing is refused once, in a scripted sequence; each refusal is an answer of NULL or a typed
//! error, nothing is lost, and the sequence ends with nothing live.

use std::alloc::Layout;
use std::pin::pin;
use std::ptr::NonNull;

use crate::common::{Driver, assert_filled, fill};
use alloc_core::{AllocError, AllocatorTraits, Context, ContextOptions, HostAllocator, Scope};
use debug_guard::{FailingAllocator, Fault};
use proptest::prelude::*;
use testkit::RecordingAllocator;
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::{Bridge, CallbackAllocator, FallbackChain, MultiAlloc, Object};

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
        AllocatorTraits {
            exact_alignment: self.exact,
            ..self.witness().traits()
        }
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

/// A short run of a driver, with both sides. It continues after each refusal and frees everything.
fn script(backing: &Refuses) -> Result<(), String> {
    // SAFETY: closed below.
    let root = unsafe { Context::root(backing, ContextOptions::new("application")) }
        .map_err(|e| e.to_string())?;
    let answer = with_root(&root);
    root.close_root()
        .expect("nothing is left, whatever was refused");
    answer
}

fn with_root(root: &Context) -> Result<(), String> {
    let context = root.child("vulkan").map_err(|e| e.to_string())?;
    let bridge = Bridge::new(context).map_err(|e| e.to_string())?;
    let answer = with_bridge(&bridge);
    assert_eq!(bridge.counters().faults(), 0);
    drop(
        bridge
            .close()
            .expect("nothing is live, whatever was refused"),
    );
    answer
}

fn with_bridge(bridge: &Bridge) -> Result<(), String> {
    let driver = Driver(bridge.raw());
    let mut refused = Ok(());
    let mut null = |what: &str| refused = Err(format!("NULL for {what}"));
    for align in [1, 8, 64, 8192] {
        let block = driver.alloc(100, align, Scope::Object);
        if block.is_null() {
            null("an allocation");
            continue;
        }
        fill(block, 100, 3);
        let grown = driver.realloc(block, 5000, align, Scope::Object);
        let block = if grown.is_null() { block } else { grown };
        assert_filled(block, 100, 3);
        let shrunk = driver.realloc(block, 50, align, Scope::Object);
        if grown.is_null() || shrunk.is_null() {
            null("a reallocation");
        }
        let block = if shrunk.is_null() { block } else { shrunk };
        assert_filled(block, 50, 3);
        driver.free(block);
    }
    // SAFETY: the bridge outlives this function's objects.
    let host = unsafe { CallbackAllocator::from_raw(bridge.callbacks().raw()) }
        .map_err(|e| e.to_string())?;
    let chain = FallbackChain::new(&host).device(Some(&host));
    refused.and(with_chain(&chain))
}

fn with_chain(chain: &FallbackChain<'_>) -> Result<(), String> {
    let mut plan = MultiAlloc::new();
    let numbers = plan.array::<u64>(10).map_err(|e| e.to_string())?;
    let bytes = plan.array::<u8>(10).map_err(|e| e.to_string())?;
    let mut block = plan
        .allocate_zeroed(chain, Scope::Command)
        .map_err(|e| e.to_string())?;
    assert_eq!(
        (block.slice_mut(numbers).len(), block.slice_mut(bytes).len()),
        (10, 10)
    );
    let mut object = Object::create(chain, String::from("value")).map_err(|e| {
        assert_eq!(e.value, "value", "the value comes back");
        e.to_string()
    })?;
    // SAFETY: the same chain throughout.
    let named = unsafe { object.set_name(chain, "first") };
    // SAFETY: the chain that it was created with.
    let renamed = unsafe { object.set_name(chain, "second") };
    assert_eq!(
        object.name(),
        if renamed.is_ok() {
            Some("second")
        } else {
            named.ok().map(|()| "first")
        }
    );
    // SAFETY: the chain that it was created with.
    let value = unsafe { object.destroy(chain) }.map_err(|e| e.to_string())?;
    assert_eq!(value, "value");
    named.and(renamed).map_err(|e| e.to_string())
}

#[test]
fn every_request_refused_once_ends_with_nothing_live() {
    let dry = Refuses::new(Fault::Never, false);
    script(&dry).expect("nothing is refused");
    dry.witness().assert_empty("after the dry run");
    let requests = dry.failing.requests();
    assert!(requests > 15, "the script makes {requests} requests");
    for n in 0..requests {
        let backing = Refuses::new(Fault::Nth(n), false);
        let answer = script(&backing);
        assert_eq!(backing.failing.refused(), 1, "request {n} was made");
        assert!(
            answer.is_err(),
            "request {n} was refused and nobody was told"
        );
        backing
            .witness()
            .assert_empty(&format!("after request {n} was refused"));
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
    let size =
        || (0_u32..14, -2_i64..3).prop_map(|(bit, off)| ((1_i64 << bit) + off).max(0) as usize);
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
                        blocks.push(FallibleBlock {
                            at,
                            size,
                            align: 1 << log,
                            seed: i as u8,
                        });
                    }
                }
                Step::Realloc { which, size } if !blocks.is_empty() => {
                    let which = which % blocks.len();
                    let at =
                        driver.realloc(blocks[which].at, size, blocks[which].align, Scope::Object);
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
    backing
        .witness()
        .assert_empty("after all blocks were freed");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default()
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
