//! Law 1 (d): what the root's allocator gave out is what the accounts below the root add up to, contexts' own records,
//! labels, arenas and snapshots included. The other side is a witness that shares no code with the accounts.
//!
//! Runs under miri.

use alloc_core::{
    Arena, Budget, Context, ContextHandle, ContextOptions, Scope, Snapshot, TryBox, TryMap, TryString, TryVec,
};
use testkit::{RecordingAllocator, Rng};

/// Something that holds memory of a context.
#[expect(dead_code, reason = "held, never read")]
enum Thing {
    List(TryVec<u64, ContextHandle>),
    Map(TryMap<u32, TryString<ContextHandle>, ContextHandle>),
    Arena(Arena<ContextHandle>),
    Snapshot(Snapshot<ContextHandle>),
    Page(TryBox<[u8; 999], ContextHandle>),
    Context(Context),
}

/// Bytes and blocks that were taken once and then moved: the context they came to took them as well.
type Moved = [(u64, u64); Scope::COUNT];

/// The witness and the accounts agree, scope by scope.
fn assert_sums(root: &Context, witness: &RecordingAllocator, moved: &Moved, step: usize) {
    let accounts = root.subtree_usage();
    for scope in Scope::ALL {
        let (own, seen) = (accounts.scope(scope), witness.scope(scope));
        assert_eq!((own.live_bytes, own.live_blocks), (seen.live_bytes, seen.live_blocks), "{scope} after step {step}");
        let (bytes, blocks) = moved[scope.index()];
        let taken = (seen.total_bytes + bytes, seen.allocations + blocks);
        assert_eq!((own.total_bytes, own.total_blocks), taken, "{scope} after step {step}");
    }
    // The same once more, from the copy that a report is made of.
    let system = alloc_core::Scoped::new(alloc_core::FromGlobalAlloc::SYSTEM, Scope::Command);
    let total = Snapshot::capture(root, system).expect("memory of the system").total().total();
    let seen = witness.total();
    assert_eq!(
        (total.live_bytes, total.live_blocks),
        (seen.live_bytes, seen.live_blocks),
        "snapshot after step {step}"
    );
}

/// Makes something, or nothing where a budget is short.
fn make(rng: &mut Rng, root: &Context, context: &Context) -> Option<Thing> {
    let handle = || context.handle();
    let size = rng.below(3000) as usize;
    Some(match rng.below(7) {
        0 => Thing::List(TryVec::try_with_capacity_in(size, handle()).ok()?),
        1 => {
            let mut map = TryMap::new_in(handle());
            for key in 0..rng.below(20) as u32 {
                map.try_insert(key, TryString::try_from_str_in("a text in the map", handle()).ok()?).ok()?;
            }
            Thing::Map(map)
        }
        2 => {
            let arena = Arena::new_in(handle());
            for _ in 0..rng.below(6) {
                arena.try_alloc_slice_fill_with(size, |at| at as u64).ok()?;
            }
            Thing::Arena(arena)
        }
        3 => Thing::Snapshot(Snapshot::capture(root, handle()).ok()?),
        4 => Thing::Page(TryBox::try_new_in([1; 999], handle()).ok()?),
        5 => Thing::Context(context.child("nested").ok()?),
        _ => {
            let scope = Scope::ALL[rng.below(Scope::COUNT as u64) as usize];
            let options = ContextOptions::new("nested").label("labelled").scope(scope).budget(Budget::limit(100_000));
            Thing::Context(context.child_with(options).ok()?)
        }
    })
}

/// Changes something in place, or moves it to another context.
fn change(rng: &mut Rng, thing: Thing, to: &Context, moved: &mut Moved) -> Thing {
    match thing {
        Thing::List(mut list) => {
            let _ = list.try_reserve(rng.below(500) as usize);
            Thing::List(list)
        }
        Thing::Arena(mut arena) => {
            let _ = arena.scope().try_alloc([0_u64; 700]);
            if rng.below(3) == 0 {
                arena.reset();
            }
            let from = arena.base().id();
            let _ = arena.move_to(to.handle());
            if arena.base().id() != from {
                let (bytes, blocks) = &mut moved[to.scope().index()];
                *bytes += arena.bytes_held() as u64;
                *blocks += arena.chunks_held() as u64;
            }
            Thing::Arena(arena)
        }
        Thing::Map(mut map) => {
            map.retain(|key, _| key % 2 == 0);
            Thing::Map(map)
        }
        Thing::Snapshot(_) | Thing::Page(_) | Thing::Context(_) => thing,
    }
}

/// Answers with the chunks that were moved.
fn run(seed: u64, steps: usize) -> u64 {
    let mut rng = Rng::new(seed);
    let witness = RecordingAllocator::system();
    // SAFETY: closed below.
    let root = unsafe { Context::root(&witness, ContextOptions::new("root").label("of all")) }.expect("a root");
    let mut things: Vec<Thing> = Vec::new();
    let mut moved = Moved::default();
    for step in 0..steps {
        let contexts = || things.iter().filter_map(|thing| if let Thing::Context(c) = thing { Some(c) } else { None });
        let count = contexts().count() as u64;
        let chosen = contexts().nth(rng.below(count + 1) as usize).unwrap_or(&root);
        match rng.below(10) {
            0..6 => things.extend(make(&mut rng, &root, chosen)),
            6..8 if !things.is_empty() => {
                let at = rng.below(things.len() as u64) as usize;
                // Taken out meanwhile, and its context with it, if it is one.
                let thing = things.swap_remove(at);
                let contexts =
                    things.iter().filter_map(|thing| if let Thing::Context(c) = thing { Some(c) } else { None });
                let to = contexts.last().unwrap_or(&root);
                let thing = change(&mut rng, thing, to, &mut moved);
                things.push(thing);
            }
            _ if !things.is_empty() => drop(things.swap_remove(rng.below(things.len() as u64) as usize)),
            _ => {}
        }
        assert_sums(&root, &witness, &moved, step);
    }
    assert!(witness.total().live_blocks > 2, "nothing was live at the end: no test");
    drop(things);
    assert_sums(&root, &witness, &moved, steps);
    root.close_root().expect("nothing is left");
    witness.assert_empty("after the root was closed");
    moved.iter().map(|(_, blocks)| blocks).sum()
}

#[test]
fn the_sum_of_the_accounts_is_what_the_allocator_gave() {
    let (programs, steps) = if cfg!(miri) { (1, 20) } else { (40, 300) };
    let moved: u64 = (0..programs).map(|seed| run(seed, steps)).sum();
    assert!(moved > 0 || cfg!(miri), "no arena was moved");
}

/// Several threads at work, each with contexts of its own and one that all share; compared whenever all have paused.
#[test]
fn the_sums_agree_at_every_pause_of_several_threads() {
    let witness = RecordingAllocator::system();
    // SAFETY: closed below.
    let root = unsafe { Context::root(&witness, ContextOptions::new("root")) }.expect("a root");
    let shared = root.child("shared").expect("a child");
    let (threads, rounds) = if cfg!(miri) { (2, 2) } else { (4, 40) };
    let pause = std::sync::Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (root, shared, pause) = (&root, &shared, &pause);
            scope.spawn(move || {
                let mut rng = Rng::new(thread as u64);
                let own = root.child_with(ContextOptions::new("own").budget(Budget::limit(1 << 20))).expect("a child");
                let mut held = Vec::new();
                for _ in 0..rounds {
                    for _ in 0..10 {
                        let context = if rng.below(2) == 0 { shared } else { &own };
                        held.extend(TryVec::<u8, _>::try_with_capacity_in(
                            1 + rng.below(5000) as usize,
                            context.handle(),
                        ));
                        if rng.below(3) == 0 {
                            held.swap_remove(rng.below(held.len() as u64) as usize);
                        }
                    }
                    pause.wait();
                    pause.wait();
                }
            });
        }
        for round in 0..rounds {
            pause.wait();
            assert_sums(&root, &witness, &Moved::default(), round);
            pause.wait();
        }
    });
    drop(shared);
    assert_sums(&root, &witness, &Moved::default(), rounds);
    root.close_root().expect("nothing is left");
    witness.assert_empty("after the root was closed");
}
