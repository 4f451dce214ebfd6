//! Contexts: the contract rows of ralloc and talloc that the spine answers, and how a node lives and ends.
//!
//! Runs under miri.

mod budgets;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::scene::{SYSTEM, layout, root};
use alloc_core::{
    Allocator, AllocatorTraits, Budget, CloseError, Context, ContextHandle, ContextOptions, HostAllocator, HostError,
    Misuse, Scope, fold_thread, held_state_locks,
};
use allocator_api2::vec::Vec as AVec;

/// A backing that counts, refuses to be called once it is dead, and asserts law 5. What was not given back goes with
/// it.
#[derive(Default)]
struct Mortal {
    dead: AtomicBool,
    blocks: Mutex<BTreeMap<usize, ContextBlock>>,
    live: AtomicU64,
    calls: AtomicU64,
}

struct ContextBlock(NonNull<u8>, Layout);

// SAFETY: only an address; the block is freed by whoever takes this out of the map.
unsafe impl Send for ContextBlock {}

impl Drop for Mortal {
    fn drop(&mut self) {
        for ContextBlock(at, layout) in self.blocks.get_mut().expect("no panic inside").values() {
            // SAFETY: a live block of this allocator, with its layout and scope.
            unsafe { SYSTEM.deallocate(*at, *layout, Scope::Object) };
        }
    }
}

// SAFETY: all blocks are the system's.
unsafe impl HostAllocator for Mortal {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, alloc_core::AllocError> {
        assert!(!self.dead.load(Ordering::SeqCst), "the dead backing was asked for memory");
        assert_eq!(held_state_locks(), 0);
        assert_ne!(layout.size(), 0, "size 0 is never forwarded");
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.live.fetch_add(layout.size() as u64, Ordering::SeqCst);
        let block = SYSTEM.allocate(layout, scope)?;
        self.blocks.lock().expect("no panic inside").insert(block.as_ptr().addr(), ContextBlock(block, layout));
        Ok(block)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        assert!(!self.dead.load(Ordering::SeqCst), "the dead backing was given memory");
        assert_eq!(held_state_locks(), 0);
        self.live.fetch_sub(layout.size() as u64, Ordering::SeqCst);
        let taken = self.blocks.lock().expect("no panic inside").remove(&block.as_ptr().addr());
        assert_eq!(taken.map(|ContextBlock(_, layout)| layout), Some(layout));
        // SAFETY: a live block of this allocator, with its layout and scope.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

#[test]
fn contexts_may_be_used_where_a_panic_is_caught() {
    fn may<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    may::<Context>();
    may::<ContextHandle>();
    may::<ContextOptions<'_>>();
}

#[test]
fn m1_zero_size_allocation_is_dangling_and_uncounted() {
    let root = root();
    let before = root.usage();
    let zero = Layout::from_size_align(0, 64).expect("layout");
    let p = root.try_allocate(zero, Scope::Object).expect("size 0 is never refused");
    assert_eq!(p.as_ptr().addr() % 64, 0);
    // SAFETY: a live block of this allocator, with its layout and scope.
    unsafe { HostAllocator::deallocate(&root, p, zero, Scope::Object) };
    assert_eq!(root.usage(), before);
}

#[test]
fn m2_blocks_are_aligned_as_asked_and_refusal_is_an_error() {
    let root = root();
    for align in [1usize, 2, 8, 16, 64, 4096, 65536] {
        let l = Layout::from_size_align(40, align).expect("layout");
        let p = root.try_allocate(l, Scope::Object).expect("block");
        assert_eq!(p.as_ptr().addr() % align, 0);
        // SAFETY: a live block of this allocator, with its layout and scope.
        unsafe { HostAllocator::deallocate(&root, p, l, Scope::Object) };
        let z = HostAllocator::allocate_zeroed(&root, l, Scope::Object).expect("block");
        assert!(
            // SAFETY: 40 bytes of a live block, written with zeros.
            unsafe { std::slice::from_raw_parts(z.as_ptr(), 40) }.iter().all(|byte| *byte == 0)
        );
        // SAFETY: a live block of this allocator, with its layout and scope.
        unsafe { HostAllocator::deallocate(&root, z, l, Scope::Object) };
    }
    if cfg!(any(miri, target_pointer_width = "32")) {
        // miri itself has no memory for that, and stops; a kernel of 64 bits may give it to a process of 32. `refusals`
        // has it all.
        return;
    }
    let huge = Layout::from_size_align(isize::MAX as usize - 4096, 1).expect("layout");
    assert!(matches!(
        root.try_allocate(huge, Scope::Cache),
        Err(HostError::OutOfHostMemory { scope: Scope::Cache, .. })
    ));
}

/// The siblings that talloc walks for this cost 12 ms at a million (host-contexts, section 2); a factor of 50 between
/// 10 and many thousand siblings leaves room for a busy machine and none for a walk.
#[test]
fn m7_parent_is_known_in_constant_time() {
    let oldest_of = |count: usize| {
        let root = root();
        let siblings: Vec<_> = (0..count).map(|_| root.child("sibling").expect("child")).collect();
        let started = std::time::Instant::now();
        for _ in 0..if cfg!(miri) { 2 } else { 100 } {
            assert_eq!(siblings[0].parent().map(|parent| parent.id()), Some(root.id()));
            assert_eq!(siblings[0].parent(), Some(root.handle()));
        }
        started.elapsed()
    };
    let runs = if cfg!(miri) { 1 } else { 5 };
    let few = (0..runs).map(|_| oldest_of(10)).min().expect("several runs");
    let many = (0..runs).map(|_| oldest_of(if cfg!(miri) { 20 } else { 50_000 })).min().expect("several runs");
    assert!(cfg!(miri) || many < few * 50, "{few:?} with few siblings, {many:?} with many");
}

/// M20, the leak report at the end: a root that is refused tells how much is left, and its tree where.
#[test]
fn m20_what_is_left_at_the_end_is_listed_by_name() {
    let root = root();
    let parent = root.child("parent").expect("child");
    let child = parent.child_with(ContextOptions::new("child").label("of the leak")).expect("child");
    let leaked: AVec<u8, ContextHandle> = AVec::with_capacity_in(1000, child.handle());
    drop((child, parent));
    let refused = root.close_root().expect_err("the vector is there");
    assert_eq!((refused.error.outstanding().bytes, refused.error.outstanding().blocks), (1000, 1));
    let report = refused.value.snapshot().expect("room");
    let left: Vec<_> = report.nodes().iter().filter(|n| n.depth > 0 && n.usage.total().live_bytes == 1000).collect();
    assert_eq!(left.len(), 1, "{report}");
    assert_eq!((left[0].name, report.label(left[0]), left[0].closed), ("child", Some("of the leak"), true));
    drop(report);
    drop(leaked);
    refused.value.close_root().expect("nothing is left");
}

#[test]
fn abandon_then_dropping_everything_never_calls_the_dead_backing() {
    let backing = Mortal::default();
    // SAFETY: the backing outlives the tree, or the tree is abandoned before it dies.
    let root = unsafe { Context::root(&backing, ContextOptions::new("root")) }.expect("root");
    let child = root.child_with(ContextOptions::new("child").label("labelled")).expect("child");
    let mut v: AVec<u64, ContextHandle> = AVec::new_in(child.handle());
    v.extend(0..100);
    let grandchild = child.child("grandchild").expect("child");
    let left = root.abandon();
    assert!(left.blocks >= 1 && left.contexts == 2 && left.handles == 1, "{left:?}");
    backing.dead.store(true, Ordering::SeqCst);
    assert!(matches!(child.try_allocate(layout(8), Scope::Object), Err(HostError::Closed { .. })));
    let handle = child.handle();
    let live = handle.usage().total().live_blocks;
    drop(v);
    assert!(handle.usage().total().live_blocks < live, "frees are still counted");
    drop((grandchild, child, handle));
}

#[test]
fn close_root_is_for_roots() {
    let root = root();
    let child = root.child("child").expect("child");
    let refused = child.close_root().expect_err("not a root");
    assert_eq!(refused.error, CloseError::Misuse(Misuse::NotARoot));
    assert!(!refused.value.is_closed());
}

#[test]
fn a_concurrent_reading_is_never_negative() {
    let root = root();
    let context = root.child("shared").expect("child");
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let rounds = if cfg!(miri) { 20 } else { 20_000 };
                for i in 0..rounds {
                    let l = layout(1 + i % 5000);
                    let p = context.try_allocate(l, Scope::Object).expect("block");
                    // SAFETY: a live block of this allocator, with its layout and scope.
                    unsafe { HostAllocator::deallocate(&context, p, l, Scope::Object) };
                }
                stop.store(true, Ordering::SeqCst);
            });
        }
        while !stop.load(Ordering::SeqCst) {
            let u = context.usage().scope(Scope::Object);
            assert!(u.live_bytes < 1 << 32 && u.live_blocks < 1 << 32, "{u:?}");
        }
    });
    assert_eq!(context.usage().total().live_blocks, 0);
}

#[test]
fn more_contexts_than_entries_stay_exact() {
    let root = root();
    let rounds = if cfg!(miri) { 3 } else { 20u32 };
    let contexts: Vec<_> = (0..if cfg!(miri) { 70 } else { 200 }).map(|_| root.child("many").expect("child")).collect();
    let mut vecs: Vec<AVec<u32, &Context>> = contexts.iter().map(AVec::new_in).collect();
    for round in 0..rounds {
        for v in &mut vecs {
            v.push(round);
        }
    }
    for (c, v) in contexts.iter().zip(&vecs) {
        let u = c.usage().total();
        assert_eq!((u.live_bytes, u.live_blocks), (4 * v.capacity() as u64, 1));
        assert_eq!(u.peak_slack, 0);
        assert_eq!(u.peak_bytes, u.live_bytes);
    }
}

/// Of large blocks, which are folded as they come, and of small ones, whose peak is over when they are.
#[test]
fn the_peak_of_one_thread_is_exact() {
    let root = root();
    for size in [50, 100_000] {
        let c = root.child("c").expect("child");
        let l = layout(size);
        let ps: Vec<_> = (0..5).map(|_| c.try_allocate(l, Scope::Object).expect("block")).collect();
        for p in ps {
            // SAFETY: a live block of this allocator, with its layout and scope.
            unsafe { HostAllocator::deallocate(&c, p, l, Scope::Object) };
        }
        fold_thread();
        let u = c.usage().scope(Scope::Object);
        let peak = 5 * size as u64;
        assert_eq!((u.peak_bytes, u.peak_slack, u.live_bytes), (peak, 0, 0));
    }
}

#[test]
fn grow_zeroed_counts_the_growth_only() {
    let root = root();
    let c = root.child("c").expect("child");
    let p = Allocator::allocate(&&c, layout(64)).expect("block").cast();
    // SAFETY: a live block of this context, with the layout it was last given with.
    let grown = unsafe { Allocator::grow_zeroed(&&c, p, layout(64), layout(4096)) };
    let grown = grown.expect("grown");
    let u = c.usage().total();
    assert_eq!((u.live_bytes, u.live_blocks, u.total_bytes, u.total_blocks), (4096, 1, 4096, 1));
    // SAFETY: the growth was zeroed, and nobody else refers to it.
    let bytes = unsafe { grown.as_ref() };
    assert!(bytes[64..].iter().all(|byte| *byte == 0));
    // SAFETY: a live block of this allocator, with its layout and scope.
    unsafe { Allocator::deallocate(&&c, grown.cast(), layout(4096)) };
}
