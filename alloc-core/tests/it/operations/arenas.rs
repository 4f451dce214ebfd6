//! `Arena`.

use std::alloc::Layout;

use alloc_core::{Arena, ContextHandle, HostError, TryVec};
use testkit::{MemoryUse, Sink, Stage};

use super::{Ground, Operation, nothing, takes};

/// Why a single refusal is no error to an arena.
const SMALLER: &str = "a chunk that is refused is asked for smaller, down to what the block needs";

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(
            &["Arena::try_alloc_layout"],
            "with a chunk of its own",
            |s, g| {
                used(s, g, |arena| {
                    arena
                        .try_alloc_layout(Layout::new::<[u64; 3000]>())
                        .map(drop)
                });
            },
        ),
        smaller(
            &["Arena::try_alloc_layout"],
            "in the second chunk",
            |s, g| {
                used(s, g, |arena| {
                    arena
                        .try_alloc_layout(Layout::new::<[u64; 300]>())
                        .map(drop)
                });
            },
        ),
        smaller(&["Arena::try_alloc_layout"], "aligned to a page", |s, g| {
            first(s, g, |arena| {
                arena
                    .try_alloc_layout(Layout::from_size_align(9, 4096).expect("a layout"))
                    .map(drop)
            });
        }),
        smaller(&["Arena::try_alloc"], "", |s, g| {
            first(s, g, |arena| Ok(arena.try_alloc(7_u64).map(drop)?))
        }),
        smaller(&["Arena::try_alloc_with"], "", |s, g| {
            first(s, g, |arena| arena.try_alloc_with(|| 7_u64).map(drop))
        }),
        smaller(&["Arena::try_alloc_try_with"], "", |s, g| {
            first(s, g, |arena| {
                arena
                    .try_alloc_try_with(|| Ok::<_, HostError>(7_u64))
                    .map(drop)
            })
        }),
        smaller(&["Arena::try_own_try_with"], "", |s, g| {
            first(s, g, |arena| {
                arena
                    .try_own_try_with(|| Ok::<_, HostError>(Noisy([7; 300])))
                    .map(drop)
            })
        }),
        smaller(&["Arena::try_alloc_slice_copy"], "", |s, g| {
            first(s, g, |arena| {
                arena.try_alloc_slice_copy(&[1_u32, 2, 3]).map(drop)
            });
        }),
        smaller(&["Arena::try_alloc_slice_fill_with"], "", |s, g| {
            used(s, g, |arena| {
                arena.try_alloc_slice_fill_with(300, |at| at).map(drop)
            });
        }),
        smaller(&["Arena::try_alloc_str"], "", |s, g| {
            first(s, g, |arena| arena.try_alloc_str("a text").map(drop))
        }),
        smaller(&["Arena::try_alloc_fmt"], "", |s, g| {
            first(s, g, |arena| {
                arena.try_alloc_fmt(format_args!("{:030}", 1)).map(drop)
            });
        }),
        smaller(&["Arena::new_in"], "below a collection", |s, g| {
            first(s, g, |arena| {
                TryVec::try_from_slice_in(&[1_u64; 20], arena).map(drop)
            });
        }),
        smaller(
            &["Arena::try_own"],
            "of a value with a destructor",
            |s, g| {
                first(s, g, |arena| Ok(arena.try_own(Noisy([7; 3])).map(drop)?));
            },
        ),
        smaller(&["Arena::try_own"], "of one without", |s, g| {
            used(s, g, |arena| Ok(arena.try_own([7_u64; 200]).map(drop)?))
        }),
        smaller(&["Arena::try_own_with"], "", |s, g| {
            used(s, g, |arena| {
                arena.try_own_with(|| Noisy([7; 300])).map(drop)
            })
        }),
        nothing(
            &["Arena::move_to"],
            "the charge moves, the chunks stay",
            moved::<S>,
        ),
        nothing(
            &[
                "Arena::base",
                "Arena::bytes_held",
                "Arena::bytes_used",
                "Arena::chunks_held",
                "Arena::scope",
                "ArenaScope::scope",
                "Arena::reset",
                "Arena::release",
                "Arena::release_spare",
            ],
            "they read, or give back",
            giving_back::<S>,
        ),
    ]
}

fn smaller<S: Stage>(
    names: &'static [&'static str],
    how: &'static str,
    body: fn(&S, &Ground),
) -> Operation<S> {
    Operation {
        names,
        how,
        takes: MemoryUse::MemoryOrLess(SMALLER),
        body,
    }
}

/// A value that an arena has to drop. Forgotten or dropped twice, it would not read the same.
struct Noisy<const N: usize>([u64; N]);

impl<const N: usize> Drop for Noisy<N> {
    fn drop(&mut self) {
        assert_eq!(std::mem::take(&mut self.0[0]), 7);
    }
}

/// The arena's first block.
fn first<S: Stage>(
    stage: &S,
    ground: &Ground,
    take: impl FnMut(&Arena<ContextHandle>) -> Result<(), HostError>,
) {
    taken(
        stage,
        ground,
        &Arena::new_in(ground.context().handle()),
        take,
    );
}

/// A block that the current chunk, which is in use, has no room for.
fn used<S: Stage>(
    stage: &S,
    ground: &Ground,
    take: impl FnMut(&Arena<ContextHandle>) -> Result<(), HostError>,
) {
    let arena = Arena::new_in(ground.context().handle());
    arena.try_alloc([0_u64; 400]).expect("refused nothing");
    taken(stage, ground, &arena, take);
    assert_eq!(arena.chunks_held(), 2);
}

fn taken<S: Stage>(
    stage: &S,
    ground: &Ground,
    arena: &Arena<ContextHandle>,
    mut take: impl FnMut(&Arena<ContextHandle>) -> Result<(), HostError>,
) {
    stage.attempt(
        || {
            (
                arena.bytes_held(),
                arena.bytes_used(),
                arena.chunks_held(),
                ground.picture(),
            )
        },
        || take(arena),
    );
}

fn moved<S: Stage>(stage: &S, ground: &Ground) {
    let arena = Arena::new_in(ground.context().handle());
    arena.try_alloc([0_u64; 400]).expect("refused nothing");
    arena.try_alloc([0_u64; 4000]).expect("refused nothing");
    let other = ground.context().child("other").expect("refused nothing");
    let mut arena = Some(arena);
    let arena = stage.attempt_plainly(|| {
        let held = ground.context().usage().total().live_bytes;
        let arena = arena
            .take()
            .expect("made above")
            .move_to(other.handle())
            .expect("the same allocator and scope");
        assert_eq!(
            held - ground.context().usage().total().live_bytes,
            arena.bytes_held() as u64
        );
        arena
    });
    drop((arena, other));
}

fn giving_back<S: Stage>(stage: &S, ground: &Ground) {
    let mut arena = Arena::new_in(ground.context());
    // A spare chunk and one in use.
    arena.try_alloc([0_u64; 400]).expect("refused nothing");
    arena
        .scope()
        .try_alloc([0_u64; 600])
        .expect("refused nothing");
    stage.attempt_plainly(|| {
        assert!(
            arena.bytes_used() >= 3200 && arena.bytes_held() >= 8000 && arena.chunks_held() == 2
        );
        {
            let mut outer = arena.scope();
            outer.try_alloc(1_u64).expect("there is room");
            outer.scope().try_alloc(2_u64).expect("there is room");
        }
        arena.release_spare();
        assert_eq!(
            (arena.chunks_held(), arena.base().id()),
            (1, ground.context().id())
        );
        arena.reset();
        assert_eq!((arena.bytes_used(), arena.chunks_held()), (0, 1));
        assert!(Sink::debug(&arena) > 0);
        arena.release();
        assert_eq!(arena.bytes_held(), 0);
    });
}
