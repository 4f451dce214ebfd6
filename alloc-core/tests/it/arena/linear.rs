//! Row M11: what `linear` arenas of ralloc promise.

use super::*;

#[test]
fn m11_linear_blocks_lie_together_and_go_together() {
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    assert_eq!((w.requests(), arena.bytes_held()), (0, 0), "an arena that nobody used takes nothing");
    let (a, b) = (arena.try_alloc(1_u64).unwrap(), arena.try_alloc(2_u64).unwrap());
    assert_eq!(std::ptr::from_mut(b).addr() - std::ptr::from_mut(a).addr(), 8, "no header between blocks");
    assert_eq!((*a, *b), (1, 2));
    let text = arena.try_alloc_str("héllo").unwrap();
    text.make_ascii_uppercase();
    assert_eq!(text, "HéLLO");
    assert_eq!(arena.try_alloc_slice_copy(&[1_u16, 2, 3]).unwrap(), &[1, 2, 3]);
    assert_eq!(arena.try_alloc_slice_fill_with(4, |i| i * i).unwrap(), &[0, 1, 4, 9]);
    assert_eq!(arena.try_alloc_with(|| arena.try_alloc(7_u8).map(|n| *n)).unwrap().as_ref().unwrap(), &7);
    assert_eq!(arena.try_alloc_fmt(format_args!("{}-{:03}", "x", 5)).unwrap(), "x-005");
    assert_eq!(arena.try_alloc_fmt(format_args!("")).unwrap(), "");
    assert_eq!((w.blocks(), w.bytes()), (1, arena.bytes_held()));
    assert_eq!(w.bytes(), 1024 - 32, "the first chunk leaves room for the headers behind it");
    drop(arena);
    w.assert_empty();
}

#[test]
fn m11_linear_element_of_size_zero_is_no_division_by_zero() {
    let w = Witness::limited(0);
    let arena = Arena::new_in(w.source());
    assert_eq!(arena.try_alloc_slice_fill_with(1000, |_| ()).map(|units| units.len()), Ok(1000));
    arena.try_alloc(()).unwrap();
    assert_eq!(arena.try_alloc_slice_copy::<u64>(&[]).unwrap(), &[0_u64; 0]);
    for align in [1, 8, 64, 4096] {
        let nothing = arena.try_alloc_layout(layout(0, align)).unwrap();
        assert_eq!(nothing.addr().get() % align, 0);
    }
    assert_eq!(w.requests(), 0);
}

#[test]
fn m11_linear_sizes_are_not_cut_to_32_bits() {
    let w = Witness::limited(1 << 20);
    let arena = Arena::new_in(w.source());
    // 4 GiB + 16 cut to 32 bits is 16 and would fit.
    #[cfg(target_pointer_width = "64")]
    {
        let error = arena.try_alloc_layout(layout((1 << 32) + 16, 8)).unwrap_err();
        assert!(matches!(error, HostError::OutOfHostMemory { bytes, .. } if bytes >= (1 << 32) + 16), "{error:?}");
        let error = arena.try_alloc_slice_fill_with((1 << 32) + 16, |_| 0_u8).unwrap_err();
        assert!(error.is_out_of_host_memory());
    }
    let overflow = arena.try_alloc_slice_fill_with(usize::MAX / 8 + 3, |_| 0_u64);
    assert_eq!(overflow.unwrap_err(), HostError::TooLarge);
    let huge = layout(isize::MAX as usize & !63, 64);
    assert_eq!(arena.try_alloc_layout(huge), Err(HostError::TooLarge));
    assert_eq!((&arena).refusal(huge), HostError::TooLarge);
    assert_eq!(arena.bytes_held(), 0);
}

#[test]
fn m11_linear_growth_leaves_no_budget_unused() {
    for (limit, size, least) in
        [(100_000, 100, 85), (100_000, 1000, 85), (10_000, 100, 85), (1_000_000, 100, 93), (1_000_000, 30_000, 95)]
    {
        let w = Witness::limited(limit);
        if cfg!(miri) && limit > 10_000 {
            continue;
        }
        let arena = Arena::new_in(w.source());
        let mut objects = 0;
        while arena.try_alloc_layout(layout(size, 1)).is_ok() {
            objects += 1;
        }
        let percent = objects * size * 100 / limit;
        assert!((least..=100).contains(&percent), "{objects} objects of {size} B: {percent} % of {limit}");
        // A refusal is final only as long as the limit stands.
        w.set_limit(None);
        arena.try_alloc_layout(layout(size, 1)).unwrap();
        drop(arena);
        w.assert_empty();
    }
}

#[test]
fn m11_linear_is_stolen_whole() {
    let w = &Witness::new();
    // SAFETY: the root is closed at the end, before the witness goes.
    let root = unsafe { Context::root(w, ContextOptions::new("root")) }.unwrap();
    let (from, to) = (root.child("from").unwrap(), root.child("to").unwrap());
    let before = (from.usage().total(), to.usage().total());
    let mut arena = Arena::new_in(from.handle());
    let kept: Vec<NonNull<u64>> = (0..3000).map(|n| NonNull::from(arena.try_alloc(n).unwrap())).collect();
    arena.try_alloc_slice_fill_with(20_000, |_| 1_u8).unwrap();
    let held = (arena.bytes_held() as u64, arena.chunks_held() as u64);
    assert!(held.1 >= 3 && from.usage().total().live_bytes == before.0.live_bytes + held.0);
    let (requests, live) = (w.requests(), w.blocks());

    arena.move_to(to.handle()).unwrap();
    assert_eq!((w.requests(), w.blocks()), (requests, live), "nothing was copied");
    assert_eq!(from.usage().total().live_bytes, before.0.live_bytes);
    assert_eq!(from.usage().total().live_blocks, before.0.live_blocks);
    assert_eq!(to.usage().total().live_bytes, before.1.live_bytes + held.0);
    assert_eq!(to.usage().total().live_blocks, before.1.live_blocks + held.1);
    drop(from);
    for (n, value) in kept.iter().enumerate() {
        // SAFETY: the arena holds all its blocks still, where they were.
        assert_eq!(unsafe { value.read() }, n as u64);
    }
    drop(arena);
    assert_eq!(to.usage().total().live_blocks, before.1.live_blocks);
    drop(to);
    root.close_root().unwrap();
    w.assert_empty();
}
