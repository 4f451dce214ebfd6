//! Collectors with slabs: random use against a model, what is refused, and memory that comes back.

use std::ptr::NonNull;

use alloc_core::tagged::{Fill, GcBlocks, TaggedBlock, TaggedDomain};
use alloc_core::{HostError, Misuse};
use testkit::Rng;

use super::{block, domain, note, root};

const HELD: HostError = HostError::Misuse(Misuse::Held);

fn collector(domain: &TaggedDomain) -> GcBlocks {
    let block = domain.allocate(GcBlocks::BLOCK_SIZE, Fill::Undefined).expect("a block");
    // SAFETY: new, and of that size.
    unsafe { GcBlocks::init(block) }
}

struct Collected {
    block: TaggedBlock,
    size: usize,
    fill: u8,
    marked: bool,
}

impl Collected {
    /// The bytes, whose address is aligned, are what was written.
    fn check(&self, collector: GcBlocks) {
        // SAFETY: live, of this size.
        unsafe {
            assert_eq!(self.block.size(), self.size);
            assert_eq!(self.block.parent(), Some(collector.block()));
            let bytes = NonNull::slice_from_raw_parts(self.block.payload(), self.size);
            assert!(bytes.as_ref().iter().all(|byte| *byte == self.fill));
        }
        assert!(self.block.payload().addr().get().is_multiple_of(16));
    }
}

#[test]
fn ca19_a_sweep_frees_slots_as_a_model_says_and_keeps_what_the_others_hold() {
    let root = root();
    let domain = domain(&root);
    let collector = collector(&domain);
    let mut rng = Rng::new(10);
    let mut live: Vec<Collected> = Vec::new();
    let mut most = 0;
    for step in 0..if cfg!(miri) { 200_u32 } else { 60_000 } {
        let fill = step as u8;
        // SAFETY: blocks are used while they are live.
        unsafe {
            match rng.below(if step % 5000 < 2500 { 16 } else { 32 }) {
                0..=9 => {
                    // Some are too large for a slot.
                    let largest = if rng.below(8) == 0 { 700 } else { 90 };
                    let size = rng.below(largest) as usize;
                    let zeros = rng.below(2) == 0;
                    let kind = if zeros { Fill::Zeros } else { Fill::Undefined };
                    let block = collector.allocate(size, kind).expect("memory");
                    let bytes = NonNull::slice_from_raw_parts(block.payload(), size);
                    assert!(!zeros || bytes.as_ref().iter().all(|byte| *byte == 0));
                    block.payload().write_bytes(fill, size);
                    let marked = false;
                    live.push(Collected { block, size, fill, marked });
                }
                10 if rng.below(100) == 0 => {
                    assert!(collector.begin_sweep());
                    for collected in &mut live {
                        collected.marked = rng.below(3) > 0;
                        if collected.marked {
                            collector.mark(collected.block);
                        }
                    }
                    let block = collector.allocate(24, Fill::Zeros).expect("memory");
                    collector.end_sweep();
                    live.retain(|collected| collected.marked);
                    let (size, fill, marked) = (24, 0, false);
                    live.push(Collected { block, size, fill, marked });
                    live.iter().for_each(|collected| collected.check(collector));
                }
                _ if !live.is_empty() => {
                    let dead = live.swap_remove(rng.below(live.len() as u64) as usize);
                    dead.check(collector);
                    dead.block.free();
                }
                _ => (),
            }
        }
        most = most.max(domain.context().usage().total().live_bytes);
    }
    live.iter().for_each(|collected| collected.check(collector));
    // SAFETY: none is used after this.
    unsafe {
        assert!(collector.begin_sweep());
        collector.end_sweep();
        // The newest slab starts anew, all others are gone.
        assert_eq!(domain.context().usage().total().live_blocks, 3);
        assert!(domain.context().usage().total().live_bytes < most.min(40_000));
        collector.block().free();
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// 40 bytes, as an instruction of a compiler has: 48 in a slab, where a block of its own takes 72 and what the C
/// library adds.
#[test]
fn a_slot_costs_eight_bytes_and_slabs_grow_to_32_kib() {
    let root = root();
    let domain = domain(&root);
    let collector = collector(&domain);
    let total = || domain.context().usage().total();
    let bytes = || total().live_bytes;
    let (before, blocks) = (bytes(), total().live_blocks);
    let (count, mut first) = (if cfg!(miri) { 2000 } else { 20_000 }, 0);
    for number in 0..count {
        // SAFETY: the collector is live.
        unsafe { collector.allocate(40, Fill::Undefined) }.expect("memory");
        if number == 0 {
            first = bytes() - before;
        }
    }
    assert!((3000..=4096).contains(&first), "{first}");
    let each = (bytes() - before) / count;
    // What the last slab has left counts as well: the more, the fewer blocks there are.
    let most = if cfg!(miri) { 66 } else { 52 };
    assert!((48..most).contains(&each), "{each}");
    // Of 4 KiB it would be 240.
    let slabs = total().live_blocks - blocks;
    assert!(slabs <= count * 48 / (32 << 10) + 5, "{slabs}");
    // SAFETY: not used after this.
    unsafe { collector.block().free() };
    drop(domain);
    root.close_root().expect("nothing is left");
}

#[test]
fn what_a_slot_is_not_asked_for_is_refused() {
    let root = root();
    let domain = domain(&root);
    let (collector, other) = (collector(&domain), block(&domain));
    // SAFETY: blocks are used while they are live.
    unsafe {
        let slot = collector.allocate(8, Fill::Zeros).expect("memory");
        let large = collector.allocate(513, Fill::Zeros).expect("memory");
        assert_eq!((slot.domain(), large.domain()), (domain.id(), domain.id()));
        assert_eq!(large.parent(), Some(collector.block()));
        assert_eq!(slot.allocate(8, Fill::Zeros), Err(HELD));
        assert_eq!(slot.resize(4), Err(HELD));
        assert_eq!(slot.set_destructor(Some(note)), Err(HELD));
        assert!(!slot.steal(Some(other)) && !other.steal(Some(slot)) && !slot.steal(None));
        assert!(!slot.adopt(other) && !other.adopt(slot));
        assert_eq!((slot.newest_child(), slot.next_older()), (None, None));
        let inner = GcBlocks::new(slot);
        assert_eq!(inner.allocate(8, Fill::Zeros), Err(HELD));
        assert!(!inner.begin_sweep());
        inner.end_sweep();
        // The collector's own: its memory is the lists.
        assert_eq!(collector.block().resize(5000), Err(HELD));
        assert_eq!(collector.block().set_destructor(Some(note)), Err(HELD));
        assert!(!other.adopt(collector.block()));
        assert!(collector.block().steal(Some(other)));
        assert_eq!(slot.parent(), Some(collector.block()));
        // Freed twice, it is still once in its list.
        let kept = collector.allocate(8, Fill::Zeros).expect("memory");
        slot.free();
        slot.free();
        let [again, new] = [(); 2].map(|()| collector.allocate(8, Fill::Zeros).expect("memory"));
        assert!(again == slot && new != slot && kept != new);
        other.free();
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// Who walks over a collector's children, and frees, moves or changes each, does that to no slab.
#[test]
fn a_slab_is_no_child_that_anybody_finds() {
    let root = root();
    let domain = domain(&root);
    let collector = collector(&domain);
    // SAFETY: blocks are used while they are live.
    unsafe {
        let older = collector.block().allocate(8, Fill::Zeros).expect("memory");
        let slot = collector.allocate(40, Fill::Zeros).expect("memory");
        let large = collector.allocate(600, Fill::Zeros).expect("memory");
        // Slabs newer and older than these.
        for _ in 0..400 {
            collector.allocate(40, Fill::Undefined).expect("memory");
        }
        assert_eq!(collector.block().newest_child(), Some(large));
        assert_eq!(large.next_older(), Some(older));
        assert_eq!(older.next_older(), None);
        while let Some(child) = collector.block().newest_child() {
            child.free();
        }
        let new = collector.allocate(40, Fill::Zeros).expect("memory");
        assert!(new != slot && slot.parent() == Some(collector.block()));
        collector.block().free();
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// From a destructor below a collector that is being freed: its slabs may be gone already.
#[test]
fn a_dying_collector_allocates_no_slots() {
    thread_local!(static COLLECTOR: std::cell::Cell<Option<(GcBlocks, TaggedBlock)>> =
        const { std::cell::Cell::new(None) });
    unsafe extern "C" fn use_the_collector(_: *mut std::ffi::c_void) {
        let (collector, slot) = COLLECTOR.take().expect("set by the test");
        // SAFETY: the collector is dying, and the slot's slab, which is older than the block with the destructor, is
        // still there.
        unsafe {
            slot.free();
            let refused = collector.allocate(8, Fill::Zeros);
            assert_eq!(refused, Err(HostError::Misuse(Misuse::Dying)));
            collector.end_sweep();
        }
    }
    let root = root();
    let domain = domain(&root);
    let collector = collector(&domain);
    // SAFETY: blocks are used while they are live.
    unsafe {
        let slot = collector.allocate(8, Fill::Zeros).expect("memory");
        let child = collector.block().allocate(8, Fill::Zeros).expect("memory");
        child.set_destructor(Some(use_the_collector)).expect("one function");
        COLLECTOR.set(Some((collector, slot)));
        collector.block().free();
        assert!(COLLECTOR.take().is_none(), "it ran");
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}
