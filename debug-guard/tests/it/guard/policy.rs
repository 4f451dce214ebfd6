//! Which mode a block gets.

use super::*;

#[test]
fn the_first_rule_that_matches_decides() {
    let options = GuardOptions::new(Mode::Cookie)
        .rule(Rule::new(Mode::Off).scope(Scope::Command))
        .rule(Rule::new(Mode::Strict).name("image*"))
        .rule(Rule::new(Mode::Fence).size(1000, 2000));
    let guard = guard(options);
    // SAFETY: the root is closed before `guard` goes.
    let root = unsafe { Context::root(&guard, ContextOptions::new("root").scope(Scope::Object)) }.expect("a root");
    let images = root.child("images").expect("a child");
    let before = guard.stats();
    let list = TryVec::<u8, &Context>::try_with_capacity_in(10, &images).expect("memory");
    let middle = take(&guard, 1500);
    let small = take(&guard, 10);
    let passing = guard.allocate(bytes(1500), Scope::Command).expect("memory");
    let after = guard.stats();
    let more = [after.guarded - before.guarded, after.cookies - before.cookies, after.off - before.off];
    let fenced = if after.back_end == BackEnd::Cookies { [0, 3, 1] } else { [2, 1, 1] };
    assert_eq!(more, fenced);
    drop(list);
    give(&guard, middle, 1500);
    give(&guard, small, 10);
    // SAFETY: a live block of this guard.
    unsafe { guard.deallocate(passing, bytes(1500), Scope::Command) };
    drop(images);
    root.close_root().expect("nothing is left");
    guard.close().expect("nothing is live");
}

/// Requests for which there is no page get cookies, and use no addresses up: there are places for some 400, and two
/// pages beside the large block.
#[test]
fn addresses_without_a_page_serve_again() {
    const LARGE: usize = 510 << 12;
    for mode in [Mode::Fence, Mode::Strict] {
        let guard = guard(GuardOptions::new(mode).pages(1300).max_guarded_bytes(512 << 12));
        if guard.stats().back_end == BackEnd::Cookies {
            return testkit::skip("mprotect", "addresses_without_a_page_serve_again", "no back end");
        }
        let large = take(&guard, LARGE);
        let blocks: Vec<NonNull<u8>> = (0..500).map(|_| take(&guard, 100)).collect();
        assert_eq!((guard.stats().live_guarded, guard.stats().unguarded), (3, 498), "{mode}");
        blocks.into_iter().for_each(|block| give(&guard, block, 100));
        give(&guard, large, LARGE);
        let again: Vec<NonNull<u8>> = (0..20).map(|_| take(&guard, 100)).collect();
        assert_eq!(guard.stats().live_guarded, 20, "{mode}");
        again.into_iter().for_each(|block| give(&guard, block, 100));
        guard.close().expect("nothing is live");
    }
}

/// A request that is chosen, and for which the pages that may be used are too few, passes and holds no place in the
/// pool.
#[test]
fn a_chosen_block_for_which_there_are_no_pages_keeps_no_place_of_the_pool() {
    let sampling = Sampling::one_in(1).slots(1);
    let guard = guard(GuardOptions::new(Mode::Sampled).sampling(sampling).max_guarded_bytes(4 << 12));
    if guard.stats().back_end == BackEnd::Cookies {
        testkit::skip(
            "mprotect",
            "a_chosen_block_for_which_there_are_no_pages_keeps_no_place_of_the_pool",
            "no back end",
        );
        return;
    }
    let large = take(&guard, 16 << 12);
    assert_eq!((guard.stats().live_guarded, guard.stats().off), (0, 1));
    let small = take(&guard, 100);
    assert_eq!((guard.stats().live_guarded, guard.stats().off), (1, 1), "the only place is free");
    give(&guard, take(&guard, 100), 100);
    assert_eq!(guard.stats().off, 2, "the only place is taken");
    give(&guard, large, 16 << 12);
    give(&guard, small, 100);
    guard.close().expect("nothing is live");
}

#[test]
fn what_is_used_up_is_said_once_and_cookies_take_its_place() {
    if BackEnds::probe().best() == BackEnd::Cookies {
        testkit::skip("mprotect", "what_is_used_up_is_said_once_and_cookies_take_its_place", "no back end");
        return;
    }
    for mode in [Mode::Fence, Mode::Strict] {
        let guard = guard(GuardOptions::new(mode).max_guarded_bytes(64 << 12));
        let blocks: Vec<NonNull<u8>> = (0..500).map(|_| take(&guard, 100)).collect();
        let stats = guard.stats();
        assert!(stats.guarded >= 16 && stats.unguarded >= 400, "{mode} {stats}");
        assert_eq!((stats.unguarded, stats.notices), (stats.cookies, 1), "{mode}");
        blocks.into_iter().for_each(|block| give(&guard, block, 100));
        assert_eq!((guard.stats().live_blocks, guard.stats().reports), (0, 0));
        guard.close().expect("nothing is live");
    }
}
