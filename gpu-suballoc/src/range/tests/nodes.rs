//! Tests of ids and shared stores.

use super::*;

#[test]
fn h99_ids_of_nobody_are_refused() {
    let mut core = Core::new(4096, 16);
    let id = |node, serial| RangeId { node, serial };
    assert_eq!(
        core.free(id(0, 1)),
        Err(RangeError::Stale),
        "before there is memory"
    );
    let RangeId { node, serial } = core.allocate(16).id;
    for wrong in [
        id(0, 0),
        id(0, 1),
        id(u32::MAX, 1),
        id(node, 0),
        id(node, serial + 1),
        // The same bits above or below.
        id(node, serial + (1 << 30)),
        id(node, serial + (1 << 32)),
        id(node, serial + (1 << 62)),
        id(node + CHUNK_NODES as u32, serial),
        id(1 << 20, 1),
    ] {
        assert_eq!(core.free(wrong), Err(RangeError::Stale), "{wrong:?}");
        assert!(core.get(wrong).is_err());
    }
    assert!(core.free(id(node, serial)).unwrap().is_empty);
}

#[test]
fn a_node_that_is_reused_refuses_its_first_id_for_ever() {
    let mut core = Core::new(4096, 16);
    let first = core.allocate(16).id;
    core.free(first).unwrap();
    let mut same = 0;
    for _ in 0..MANY {
        let taken = core.allocate(16).id;
        assert_ne!(taken, first);
        same += u32::from(taken.node == first.node);
        assert_eq!(core.free(first), Err(RangeError::Stale));
        core.free(taken).unwrap();
    }
    assert!(same > MANY / 2, "the node was hardly reused: {same}");
}

#[test]
fn ids_stay_stale_when_the_memory_of_their_nodes_is_gone() {
    let mut core = Core::new(1 << 20, 16);
    let many = if cfg!(miri) { 260 } else { 5000 };
    let old: Vec<_> = (0..many).map(|_| core.allocate(16).id).collect();
    assert!(core.store.is_large());
    core.dismantle();
    let is_stale = |core: &Core| old.iter().all(|id| core.get(*id) == Err(RangeError::Stale));
    assert!(is_stale(&core), "without memory");
    let new: Vec<_> = (0..many).map(|_| core.allocate(16)).collect();
    assert!(is_stale(&core), "in nodes that are live again");
    assert_eq!(core.core.live_count(), many);
    for taken in new {
        core.free_allocated(taken);
    }
}

#[test]
fn cores_that_share_a_store_know_their_own_ranges() {
    let mut core = Core::new(4096, 16);
    let ranges = |number| RangeAllocator::new(8192, 16).unwrap().numbered(number);
    let mut blocks = [ranges(1), ranges(2)];
    core.index.admit(512);
    core.ready(32);
    let want = |user_data| RangeRequest {
        size: 32,
        asked: 32,
        alignment: 16,
        user_data,
        fit: Fit::Low,
        is_optimal: false,
    };
    let Core { store, index, .. } = &core;
    let mut other = FreeIndex::new(1);
    other.admit(512);
    let layout = other.missing().unwrap();
    // SAFETY: the layout's size is not 0.
    let memory = NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
    // SAFETY: new, and of this layout.
    let memory = unsafe { HostBlock::new(memory, layout) };
    assert!(other.grow_with(memory).is_none());
    let indices = [index, &other];
    let mut nodes = Vec::new();
    for (number, (block, index)) in (10..).zip(blocks.iter_mut().zip(indices)) {
        let taken = block.allocate(store, index, &want(number)).unwrap();
        assert_eq!(taken.id, block.id_in_pool(taken.id.node));
        nodes.push(taken.id.node);
    }
    // The node of one block is none of the other's.
    let strange = blocks[0].id_in_pool(nodes[1]);
    assert_eq!(blocks[0].get(store, strange), Err(RangeError::Stale));
    assert_eq!(
        blocks[0].set_user_data(store, strange, 1),
        Err(RangeError::Stale)
    );
    assert_eq!(
        blocks[0].free(store, index, strange, None),
        Err(RangeError::Stale)
    );
    let mine = blocks[0].id_in_pool(nodes[0]);
    assert_eq!(blocks[0].get(store, mine).unwrap().user_data, 10);
    assert_eq!(
        blocks[0].free(store, index, mine, Some(11)),
        Err(RangeError::OtherUserData)
    );
    assert!(
        blocks[0]
            .free(store, index, mine, Some(10))
            .unwrap()
            .is_empty
    );
    for (block, index) in blocks.iter_mut().zip(indices) {
        block.clear(store, index);
    }
    let back = other.detach_memory().unwrap();
    // SAFETY: allocated above, and no longer used.
    unsafe { std::alloc::dealloc(back.into_start().as_ptr(), layout) };
}
