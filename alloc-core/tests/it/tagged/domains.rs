//! Domains that end with their last block, their fallbacks, and threads.

use std::panic::catch_unwind;
use std::sync::Barrier;

use alloc_core::tagged::{DomainId, Fill, TaggedBlock, TaggedDomain};
use alloc_core::{Budget, ContextOptions, HostError, Misuse, attach_thread};

use testkit::{Child, Rng};

use super::{block, domain, number, root, this};

#[test]
fn a_fallback_serves_what_is_refused_and_outlives_the_domain() {
    let root = root();
    let reserve = domain(&root);
    let small = ContextOptions::new("small").budget(Budget::exact(400));
    let small = TaggedDomain::with_fallback(root.child_with(small).expect("a child"), &reserve);
    let small = small.expect("a domain");
    let (first, large) = (block(&small), small.allocate(1000, Fill::Zeros).expect("served"));
    assert!(small.reset_refused() && !small.reset_refused());
    // SAFETY: both are live.
    unsafe {
        assert_eq!((first.domain(), large.domain()), (small.id(), reserve.id()));
        first.payload().cast::<u64>().write(5);
        let first = first.resize(5000).expect("served elsewhere");
        assert_eq!((number(first), first.domain()), (5, reserve.id()));
        assert!(small.reset_refused());
        drop(reserve);
        drop(small);
        first.free();
        large.free();
    }
    root.close_root().expect("nothing is left");
}

#[test]
fn ca25_a_closed_domain_allocates_nothing_more_from_its_fallback_either() {
    let root = root();
    let reserve = domain(&root);
    let child = root.child("closed").expect("a child");
    let context = child.id();
    let closed = TaggedDomain::with_fallback(child, &reserve).expect("a domain");
    let live = block(&closed);
    drop(closed);
    let refused = Err(HostError::Closed { context });
    // SAFETY: live until it is freed.
    unsafe {
        assert_eq!(live.allocate(8, Fill::Zeros), refused);
        assert_eq!(live.resize(5000), refused);
        assert_eq!(reserve.context().usage().total().live_blocks, 1, "the record");
        live.free();
    }
    drop(reserve);
    root.close_root().expect("nothing is left");
}

#[test]
fn ca11_threads_with_a_tree_each_in_one_domain_count_exactly() {
    let root = root();
    let domain = domain(&root);
    let blocks: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let tops: Vec<usize> = std::thread::scope(|scope| {
        let build = || {
            let top = block(&domain);
            for number in 1..blocks {
                // SAFETY: live, and this thread's.
                let child = unsafe { top.allocate(8, Fill::Undefined) }.expect("a block");
                if number % 3 == 0 {
                    // SAFETY: live, this thread's, and not used again.
                    unsafe { child.free() };
                }
            }
            top.payload().as_ptr().expose_provenance()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let live = blocks - (blocks - 1) / 3;
    assert_eq!(domain.context().usage().total().live_blocks, 4 * live + 1);
    let all = block(&domain);
    for top in tops {
        // SAFETY: handed over by the threads.
        assert!(unsafe { this(std::ptr::with_exposed_provenance_mut(top)).steal(Some(all)) });
    }
    // SAFETY: live, and used no more.
    unsafe { all.free() };
    assert_eq!(domain.context().usage().total().live_blocks, 1);
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// Only blocks whose parent is of another domain are references to theirs: whatever moves them, a domain ends with its
/// last block and not before.
#[test]
fn ca22_ca25_domains_end_in_time_whichever_way_blocks_of_three_are_mixed() {
    let root = root();
    let mut rng = Rng::new(25);
    for _round in 0..if cfg!(miri) { 1 } else { 400 } {
        let reserve = domain(&root);
        let budget = ContextOptions::new("small").budget(Budget::exact(500));
        let small = root.child_with(budget).expect("a child");
        let domains = [domain(&root), domain(&root), TaggedDomain::with_fallback(small, &reserve).expect("a domain")];
        let contexts = domains.each_ref().map(|domain| domain.context().clone());
        let ids = domains.each_ref().map(TaggedDomain::id);
        let mut live: Vec<TaggedBlock> = domains.iter().map(block).collect();
        // SAFETY: all blocks are live until their top is freed.
        unsafe {
            for _ in 0..40 {
                let pick = |rng: &mut Rng| rng.below(live.len() as u64) as usize;
                let (one, two) = (pick(&mut rng), pick(&mut rng));
                match rng.below(5) {
                    0 | 1 => {
                        let new = live[one].allocate(8, Fill::Zeros);
                        live.push(new.expect("memory"));
                    }
                    // Refused where the one lies below the other.
                    2 => _ = live[one].steal(Some(live[two])),
                    3 => _ = live[one].adopt(live[two]),
                    // Larger than the small budget: the block becomes the fallback's, its children do not.
                    _ => live[one] = live[one].resize(16 + one * 40).expect("memory"),
                }
            }
            drop(domains);
            drop(reserve);
            // From now on whoever frees the last block of a domain ends it, and a block that is left must keep it.
            while let Some(first) = live.first().copied() {
                let mut top = first;
                while let Some(parent) = top.parent() {
                    top = parent;
                }
                let is_below =
                    |block: &TaggedBlock| std::iter::successors(Some(*block), |at| at.parent()).any(|at| at == top);
                live.retain(|block| !is_below(block));
                top.free();
                for (context, id) in contexts.iter().zip(ids) {
                    let blocks = live.iter().filter(|block| block.domain() == id).count() as u64;
                    // With the record as long as there are blocks; the fallback's are not these contexts'.
                    let expected = if blocks == 0 { 0 } else { blocks + 1 };
                    let usage = context.usage().total().live_blocks;
                    assert_eq!(usage, expected);
                }
            }
        }
        assert!(contexts.iter().all(|context| context.usage().total().live_blocks == 0));
    }
    root.close_root().expect("all domains have ended");
}

/// In its destructor.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

/// Nothing but the ending domain holds the fallback, whose owner is gone: a destructor of a value gets a refusal from
/// it.
#[test]
fn a_fallback_is_closed_and_still_there_while_the_destructors_of_the_domains_values_run() {
    struct AsksFallback(DomainId);
    impl Drop for AsksFallback {
        fn drop(&mut self) {
            // SAFETY: the domain that falls back to this one is ending and has not ended.
            let refused = unsafe { self.0.allocate(8, Fill::Zeros) };
            assert!(matches!(refused, Err(HostError::Closed { .. })));
        }
    }
    let root = root();
    let fallback = domain(&root);
    let child = root.child("first").expect("a child");
    let first = TaggedDomain::with_fallback(child, &fallback).expect("a domain");
    let value = AsksFallback(fallback.id());
    assert!(first.context().own(value).is_ok());
    let block = block(&first);
    drop((fallback, first));
    // SAFETY: live, and used no more.
    unsafe { block.free() };
    root.close_root().expect("nothing is left");
}

/// The last block of a domain lies within a tree of another one, with blocks below, beside and above it; its end
/// panics. All of the tree goes.
#[test]
fn a_tree_in_which_a_domain_ends_with_a_panic_is_freed_to_its_top() {
    for with_child in [false, true] {
        let root = root();
        let (outer, inner) = (domain(&root), domain(&root));
        let context = outer.context().clone();
        assert!(inner.context().own(PanicsWhenDropped).is_ok());
        let (top, last) = (block(&outer), block(&inner));
        // SAFETY: all are live until the top is freed.
        let freed = unsafe {
            let new = |above: TaggedBlock| above.allocate(8, Fill::Zeros).expect("a block");
            let middle = new(top);
            let (older, _leaf) = (new(middle), new(top));
            new(older);
            assert!(last.steal(Some(middle)));
            new(middle);
            if with_child {
                new(last);
            }
            drop((outer, inner));
            catch_unwind(|| top.free())
        };
        assert!(freed.is_err(), "the value's destructor panics");
        assert_eq!(context.usage().total().live_blocks, 0);
        drop(context);
        root.close_root().expect("nothing is left");
    }
}

/// Two threads free the last two blocks of a domain: whichever comes last ends it, and has seen what the other one did
/// with it.
#[test]
fn a_domain_whose_last_blocks_two_threads_free_at_once_ends_once() {
    for _ in 0..if cfg!(miri) { 2 } else { 200 } {
        let root = root();
        let domain = domain(&root);
        let blocks = [block(&domain), block(&domain)];
        drop(domain);
        let addresses = blocks.map(|block| block.payload().as_ptr().expose_provenance());
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for address in addresses {
                let both = &both;
                scope.spawn(move || {
                    // The thread is known to the accounts, whose locks would order the two.
                    attach_thread();
                    both.wait();
                    let payload = std::ptr::with_exposed_provenance_mut(address);
                    // SAFETY: handed over; used no more.
                    unsafe { this(payload).free() };
                });
            }
        });
        root.close_root().expect("the domain has ended");
    }
}

/// A free number is found wherever it is, also behind number 0, which no domain has. In a process of its own, whose
/// table it fills.
#[test]
#[cfg_attr(miri, ignore = "a process of its own, with 65 535 domains")]
fn a_process_has_room_for_a_domain_as_long_as_one_number_is_free() {
    const NAME: &str = "a_process_has_room_for_a_domain_as_long_as_one_number_is_free";
    if !Child::is_child(NAME) {
        Child::this_test(NAME).run().assert_code(0);
        return;
    }
    let root = root();
    let mut domains: Vec<_> = (0..u16::MAX).map(|_| domain(&root)).collect();
    let last = domains.pop().expect("many");
    let number = last.id();
    drop(last);
    let again = domain(&root);
    assert_eq!(again.id(), number, "the one that is free");
    let refused = TaggedDomain::new(root.child("one too many").expect("memory"));
    let error = refused.map(drop).expect_err("no number is free").error;
    assert_eq!(error, HostError::Misuse(Misuse::TableFull));
    drop((domains, again));
    root.close_root().expect("nothing is left");
}

/// What a domain's context owns goes with the domain. One of those values panics: the domains that it falls back to end
/// all the same.
#[test]
fn a_domain_whose_end_panics_releases_the_one_that_it_falls_back_to() {
    let root = root();
    let last = domain(&root);
    let child = |name| root.child(name).expect("a child");
    let middle = TaggedDomain::with_fallback(child("middle"), &last).expect("a domain");
    let first = TaggedDomain::with_fallback(child("first"), &middle).expect("a domain");
    assert!(first.context().own(PanicsWhenDropped).is_ok());
    let block = block(&first);
    drop((last, middle, first));
    // SAFETY: live, and used no more.
    let freed = catch_unwind(|| unsafe { block.free() });
    assert!(freed.is_err(), "the value's destructor panics");
    root.close_root().expect("nothing is left");
}
