//! Chunks that are refused, and what they leave behind.

use super::*;

/// What can be seen of an arena.
fn look(arena: &WitnessArena<'_>) -> (usize, usize, usize) {
    (arena.bytes_held(), arena.bytes_used(), arena.chunks_held())
}

#[test]
fn every_refused_chunk_leaves_the_arena_as_it_was() {
    type Step = fn(&WitnessArena<'_>) -> Result<(), HostError>;
    let steps: [(&str, Step); 7] = [
        ("alloc", |a| Ok(a.try_alloc([1_u64; 8]).map(drop)?)),
        ("layout", |a| a.try_alloc_layout(layout(100, 64)).map(drop)),
        ("own chunk", |a| {
            a.try_alloc_layout(layout(40_000, 8)).map(drop)
        }),
        ("slice_copy", |a| {
            a.try_alloc_slice_copy(&[7_u8; 5000]).map(drop)
        }),
        ("slice_fill", |a| {
            a.try_alloc_slice_fill_with(300, |i| i).map(drop)
        }),
        ("str", |a| a.try_alloc_str("0123456789").map(drop)),
        ("fmt", |a| {
            a.try_alloc_fmt(format_args!("{:>200}", 1)).map(drop)
        }),
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
                    assert_eq!(
                        (look(&arena), w.blocks(), w.bytes()),
                        seen,
                        "{name} in state {state}"
                    );
                    step(&arena).unwrap();
                } else if nth.is_none() {
                    assert_eq!(
                        state, 2,
                        "{name}: all was refused, so where does the block come from?"
                    );
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
        assert!(
            values
                .iter()
                .enumerate()
                .all(|(n, value)| **value == [n as u64; 12])
        );
        assert_eq!(
            (w.blocks(), w.bytes()),
            (arena.chunks_held(), arena.bytes_held())
        );
        drop(arena);
        w.assert_empty();
    }
}

#[test]
fn a_refused_value_comes_back() {
    let w = Witness::limited(100);
    let arena = Arena::new_in(w.source());
    let Rejected { value, error } = arena.try_alloc([7_u8; 200]).unwrap_err();
    assert_eq!(
        (value, error),
        (
            [7; 200],
            HostError::OutOfHostMemory {
                bytes: 224,
                scope: Scope::Object
            }
        )
    );
    // `make` is not called when there is no room for what it makes.
    assert!(
        arena
            .try_alloc_slice_fill_with(200, |_| -> u8 { unreachable!() })
            .is_err()
    );
    arena.try_alloc([7_u8; 64]).unwrap();
}
