//! Chunks that are refused, and what they leave behind.

use super::*;

/// What can be seen of an arena.
fn look(arena: &WitnessArena<'_>) -> (usize, usize, usize) {
    (arena.bytes_held(), arena.bytes_used(), arena.chunks_held())
}

#[test]
fn every_refused_chunk_leaves_the_arena_as_it_was() {
    type Step = fn(&WitnessArena<'_>) -> Result<(), HostError>;
    let steps: [(&str, Step); 8] = [
        ("alloc", |a| Ok(a.try_alloc([1_u64; 8]).map(drop)?)),
        ("alloc_with", |a| a.try_alloc_with(|| [1_u64; 8]).map(drop)),
        ("layout", |a| a.try_alloc_layout(layout(100, 64)).map(drop)),
        ("own chunk", |a| a.try_alloc_layout(layout(40_000, 8)).map(drop)),
        ("slice_copy", |a| a.try_alloc_slice_copy(&[7_u8; 5000]).map(drop)),
        ("slice_fill", |a| a.try_alloc_slice_fill_with(300, |i| i).map(drop)),
        ("str", |a| a.try_alloc_str("0123456789").map(drop)),
        ("fmt", |a| a.try_alloc_fmt(format_args!("{:>200}", 1)).map(drop)),
    ];
    /// Nothing at all; one full chunk; a spare alone.
    fn build(state: u8, w: &Witness) -> WitnessArena<'_> {
        let mut arena = Arena::new_in(w.source());
        match state {
            0 => {}
            1 => drop(arena.try_alloc_layout(layout(1024 - 32 - 16, 8)).unwrap()),
            _ => drop(arena.scope().try_alloc(0_u64).map(|n| *n)),
        }
        arena
    }
    let w = Witness::new();
    for (name, step) in steps {
        for state in 0..3 {
            // Only the nth try is refused, or (the last round) all are.
            for nth in (0..if cfg!(miri) { 2 } else { 10 }).map(Some).chain([None]) {
                let arena = build(state, &w);
                let seen = (look(&arena), w.blocks(), w.bytes());
                match nth {
                    Some(nth) => w.refuse_in(nth),
                    None => w.set_limit(Some(0)),
                }
                let outcome = step(&arena);
                w.disarm();
                w.set_limit(None);
                if let Err(error) = outcome {
                    assert!(error.is_out_of_host_memory(), "{name}: {error:?}");
                    assert_eq!((look(&arena), w.blocks(), w.bytes()), seen, "{name} in state {state}");
                    step(&arena).unwrap();
                } else if nth.is_none() {
                    assert_eq!(state, 2, "{name}: all was refused, so where does the block come from?");
                }
                drop(arena);
                w.assert_empty();
            }
        }
    }
}

#[test]
fn the_ith_refused_chunk_costs_nothing_but_that_chunk() {
    for refused in 0..if cfg!(miri) { 3 } else { 12 } {
        let w = Witness::new();
        let arena = Arena::new_in(w.source());
        w.refuse_in(refused);
        let mut values = Vec::new();
        for n in 0..if cfg!(miri) { 200 } else { 4000_u64 } {
            // One refusal is survived by a smaller chunk.
            values.push(arena.try_alloc([n; 12]).unwrap());
        }
        assert_eq!(w.disarm(), w.requests() <= refused);
        assert!(values.iter().enumerate().all(|(n, value)| **value == [n as u64; 12]));
        assert_eq!((w.blocks(), w.bytes()), (arena.chunks_held(), arena.bytes_held()));
        drop(arena);
        w.assert_empty();
    }
}

#[test]
fn nothing_is_made_where_there_is_no_room_for_it() {
    let w = Witness::limited(100);
    let arena = Arena::new_in(w.source());
    let one = arena.try_alloc_with(|| -> [u8; 200] { unreachable!("there is no room") });
    assert!(one.is_err());
    let many = arena.try_alloc_slice_fill_with(200, |_| -> u8 { unreachable!("there is no room") });
    assert!(many.is_err());
}

/// By an error and by a panic; of small blocks, of such that need a new chunk, and of such that get a chunk of their
/// own.
#[test]
fn m11_an_initialiser_that_fails_gives_its_place_back() {
    testkit::silence_panics("an initialiser");
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    arena.try_alloc(1_u8).unwrap();
    fn fails<T>(arena: &Arena<impl HostSource>, make: impl Fn() -> T + Copy) {
        let used = arena.bytes_used();
        for _ in 0..if cfg!(miri) { 3 } else { 100 } {
            let refused = arena.try_alloc_try_with(|| {
                let _ = make();
                Err::<[T; 2], _>(HostError::TooLarge)
            });
            assert_eq!(refused.err(), Some(HostError::TooLarge));
            let unwound = |call: &dyn Fn()| {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
            };
            unwound(&|| _ = arena.try_alloc_with(|| -> T { panic!("an initialiser") }));
            unwound(&|| _ = arena.try_alloc_slice_fill_with(9, |_| -> T { panic!("an initialiser") }));
            unwound(&|| _ = arena.try_own_with(|| -> String { panic!("an initialiser") }));
        }
        assert_eq!(arena.bytes_used(), used);
    }
    fails(&arena, || [0_u8; 100]);
    fails(&arena, || [0_u8; 700]);
    fails(&arena, || [0_u8; 20_000]);
    assert_eq!(arena.chunks_held(), 2, "and a spare one");
    assert_eq!(*arena.try_alloc(3_u8).unwrap(), 3);
    // What it allocated itself stays, and so does its place.
    let used = arena.bytes_used();
    let refused = arena.try_alloc_try_with(|| {
        arena.try_alloc(7_u64)?;
        Err::<u64, HostError>(HostError::TooLarge)
    });
    assert!(refused.is_err() && arena.bytes_used() > used);
    assert_eq!(*arena.try_alloc_try_with(|| Ok::<_, HostError>(5)).unwrap(), 5);
}

/// Chunks that lie one behind the other, the first full up to its end.
#[test]
fn a_value_without_size_that_fails_ends_no_neighbouring_chunk() {
    struct Adjacent;

    const ROOM: usize = 1 << 16;
    #[repr(align(16))]
    struct Room(UnsafeCell<[u8; ROOM]>);
    // SAFETY: each part is given out once.
    unsafe impl Sync for Room {}
    static MEMORY: Room = Room(UnsafeCell::new([0; ROOM]));
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    static FREED: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: each block is a part of its own, aligned because all sizes are multiples of 16.
    unsafe impl GlobalAlloc for Adjacent {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            assert!(layout.align() <= 16);
            let at = GIVEN.fetch_add(layout.size().next_multiple_of(16), Ordering::Relaxed);
            assert!(at + layout.size() <= ROOM);
            MEMORY.0.get().cast::<u8>().wrapping_add(at)
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {
            FREED.fetch_add(1, Ordering::Relaxed);
        }
    }

    // SAFETY: it has no state of its own.
    let base = unsafe { FromGlobalAlloc::new(Adjacent) };
    let mut arena = Arena::new_in(Scoped::new(base, Scope::Command));
    arena.try_alloc(1_u64).expect("room");
    // The chunk stays, and is empty.
    arena.reset();
    let length = if cfg!(miri) { 17_000 } else { 20_000 };
    let large = arena.try_alloc_slice_fill_with(length, |_| 7_u8);
    let large = large.expect("room in a chunk of its own");
    let refused = arena.try_alloc_try_with(|| Err::<(), _>(HostError::TooLarge));
    assert_eq!(refused, Err(HostError::TooLarge));
    assert_eq!(FREED.load(Ordering::Relaxed), 0, "what is in use stays");
    assert!(large.iter().all(|byte| *byte == 7));
}
