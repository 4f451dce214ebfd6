//! Tests of ids, generations and shared stores.

use super::*;
use crate::range::node_store::CHUNK_NODES;
use crate::range::types::MAX_GENERATION;

#[test]
fn h99_ids_of_nobody_are_refused() {
    let mut core = Core::new(4096, 16);
    assert_eq!(
        core.free(0, 1),
        Err(RangeError::Stale),
        "before there is memory"
    );
    let taken = core.allocate(16);
    for (node, generation) in [
        (0, 0),
        (0, 1),
        (u32::MAX, 1),
        (taken.node, 0),
        (taken.node, taken.generation + 1),
        (1 << 20, 1),
    ] {
        assert_eq!(
            core.free(node, generation),
            Err(RangeError::Stale),
            "{node} {generation}"
        );
        assert!(core.get(node, generation).is_err());
    }
    // A generation 2^30 higher has the same bits after the shift.
    assert_eq!(
        core.free(taken.node, taken.generation + (1 << 30)),
        Err(RangeError::Stale)
    );
    assert!(core.free_allocated(taken).is_empty);
}

#[test]
fn a_node_that_is_reused_refuses_its_first_id_for_ever() {
    let mut core = Core::new(4096, 16);
    let first = core.allocate(16);
    core.free_allocated(first);
    let mut same = 0;
    for _ in 0..MANY {
        let taken = core.allocate(16);
        assert_ne!(
            (taken.node, taken.generation),
            (first.node, first.generation)
        );
        same += u32::from(taken.node == first.node);
        assert_eq!(
            core.free(first.node, first.generation),
            Err(RangeError::Stale)
        );
        core.free_allocated(taken);
    }
    assert!(same > MANY / 2, "the node was hardly reused: {same}");
}

#[test]
fn a_node_is_retired_when_its_generations_are_used_up() {
    let mut core = Core::with_floor(4096, 16, MAX_GENERATION - 2);
    let mut seen = HashSet::new();
    // More allocations than all nodes of a chunk have generations.
    for round in 0..if cfg!(miri) { 60 } else { 1000 } {
        let (low, high) = (core.allocate(16), core.request(16, 1, Fit::High).unwrap());
        for taken in [low, high] {
            assert!(taken.generation <= MAX_GENERATION);
            assert!(
                seen.insert((taken.node, taken.generation)),
                "{taken:?} came twice, in round {round}"
            );
        }
        core.free_allocated(low);
        core.free_allocated(high);
        assert_eq!(core.pieces(), [(0, 4096, false)]);
    }
    // Chunks whose nodes are all retired were freed.
    assert!(core.chunks() <= 3, "{} chunks are kept", core.chunks());
    assert!(core.store.ceiling() > MAX_GENERATION);
    core.dismantle();
    assert!(
        core.store.ceiling() > MAX_GENERATION,
        "also when its memory is gone"
    );
}

#[test]
fn chunks_come_back_and_their_ids_do_not() {
    let mut core = Core::new(1 << 20, 16);
    let many = if cfg!(miri) { 260 } else { 5000 };
    let old: Vec<_> = (0..many).map(|_| core.allocate(16)).collect();
    let most = core.chunks();
    for &taken in &old {
        core.free_allocated(taken);
    }
    assert!(
        core.chunks() <= 2 && most > core.chunks(),
        "{most} chunks, then {}",
        core.chunks()
    );
    for taken in &old {
        assert_eq!(
            core.get(taken.node, taken.generation),
            Err(RangeError::Stale),
            "in a chunk that is gone"
        );
    }
    let new: Vec<_> = (0..many).map(|_| core.allocate(16)).collect();
    for taken in &old {
        assert_eq!(
            core.free(taken.node, taken.generation),
            Err(RangeError::Stale),
            "in a chunk that came anew"
        );
    }
    assert_eq!(core.core.live_count(), many);
    for taken in new {
        core.free_allocated(taken);
    }
}

/// The first chunk replaces freed chunks in the table, but its ids do not become valid for them.
#[test]
fn an_id_of_a_chunk_that_is_gone_is_none_of_the_first_chunk() {
    let mut core = Core::new(1 << 20, 16);
    let many = if cfg!(miri) { 900 } else { 5000 };
    let old: Vec<_> = (0..many).map(|_| core.allocate(16)).collect();
    let most = core.chunks();
    for &taken in &old {
        core.free_allocated(taken);
    }
    assert!(core.chunks() < most, "{most} chunks stay");
    let kept = core.allocate(16);
    let chunks = old.iter().map(|taken| taken.node / CHUNK_NODES).max();
    let mut gone = 0;
    for chunk in 0..=chunks.expect("there were some") {
        let node = chunk * CHUNK_NODES + kept.node % CHUNK_NODES;
        if node == kept.node {
            continue;
        }
        let stale = Err(RangeError::Stale);
        assert_eq!(core.get(node, kept.generation), stale, "chunk {chunk}");
        assert_eq!(
            core.free(node, kept.generation).map(|_| ()),
            Err(RangeError::Stale)
        );
        gone += u32::from(core.store.named(node).generation() == 0);
    }
    assert!(gone as usize >= most - 2, "no node: {gone} of {most}");
    core.free_allocated(kept);
}

#[test]
fn a_store_that_was_dismantled_begins_where_it_ended() {
    let mut core = Core::new(4096, 16);
    let taken = core.allocate(16);
    core.dismantle();
    let again = core.allocate(16);
    assert_eq!(again.node, taken.node);
    assert!(again.generation > taken.generation);
    assert_eq!(
        core.free(taken.node, taken.generation),
        Err(RangeError::Stale)
    );
}

#[test]
fn cores_that_share_a_store_know_their_own_ranges() {
    let mut core = Core::new(4096, 16);
    let mut other = Core::new(8192, 16);
    other.ready(0);
    let mine = core.allocate(16);
    core.ready(8);
    let want = RangeRequest {
        size: 32,
        alignment: 16,
        user_data: 9,
        fit: Fit::Low,
    };
    let (theirs, next) = (
        other
            .core
            .allocate(&core.store, &other.index, &want)
            .unwrap(),
        other
            .core
            .allocate(&core.store, &other.index, &want)
            .unwrap(),
    );
    assert_ne!(mine.node, theirs.node);
    // Each id is that of a live range of the other block.
    assert_eq!(
        core.free(theirs.node, theirs.generation),
        Err(RangeError::Stale)
    );
    assert_eq!(
        core.get(theirs.node, theirs.generation),
        Err(RangeError::Stale)
    );
    assert_eq!(
        core.core
            .set_user_data(&core.store, theirs.node, theirs.generation, 1),
        Err(RangeError::Stale)
    );
    let both = [
        (mine.node, mine.generation),
        (theirs.node, theirs.generation),
    ];
    assert_eq!(
        core.core.free_batch(&core.store, &core.index, &both),
        Err((1, RangeError::Stale))
    );
    assert_eq!(
        other.core.free(
            &core.store,
            &other.index,
            (mine.node, mine.generation),
            None
        ),
        Err(RangeError::Stale)
    );
    assert_eq!(core.get(mine.node, mine.generation).unwrap().user_data, 7);
    // This block reuses the node that the other block frees; the old id stays stale there.
    assert_eq!(
        other.core.free(
            &core.store,
            &other.index,
            (theirs.node, theirs.generation),
            Some(7)
        ),
        Err(RangeError::OtherUserData)
    );
    assert!(
        !other
            .core
            .free(
                &core.store,
                &other.index,
                (theirs.node, theirs.generation),
                Some(9)
            )
            .unwrap()
            .is_empty
    );
    other.core.clear(&core.store, &other.index);
    let memory = other.index.detach_memory();
    assert!(other.back(memory));
    for _ in 0..8 {
        core.allocate(16);
    }
    for stale in [theirs, next] {
        assert_eq!(
            other.core.get(&core.store, stale.node, stale.generation),
            Err(RangeError::Stale)
        );
        assert_eq!(
            core.get(stale.node, stale.generation),
            Err(RangeError::Stale)
        );
    }
    assert_eq!(
        (
            core.core.live_count(),
            other.core.live_count(),
            other.core.free_bytes()
        ),
        (9, 0, 8192)
    );
}
