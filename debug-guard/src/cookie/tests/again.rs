//! Blocks that left quarantine and serve again, and what their records say meanwhile.

use super::super::quarantine::Quarantine;
use super::*;

/// Takes and frees blocks until one has left quarantine, to be the next that serves; where it stands.
fn left(keeper: &mut Keeper, size: usize) -> NonNull<u8> {
    let count = if cfg!(miri) { 12 } else { 40 };
    let blocks: Vec<_> = (0..count).map(|_| keeper.take(size, 8)).collect();
    blocks.into_iter().for_each(|block| keeper.give_well(block));
    let cookies = &keeper.cookies;
    let number = Quarantine::number_of_thread(5);
    let spare = cookies.quarantine.shard(number).lock().spare;
    let record = cookies.table.record(spare).expect("one has left");
    NonNull::new(core::ptr::with_exposed_provenance_mut(record.own().0)).expect("a block")
}

fn take(keeper: &Keeper, size: usize, align: usize, scope: Scope, zeroed: bool) -> NonNull<u8> {
    let layout = Layout::from_size_align(size, align).expect("a layout");
    keeper
        .cookies
        .allocate(
            &keeper.memory,
            BlockRequest::new(layout, scope, zeroed),
            false,
            BlockMark { thread: 5, ..BlockMark::default() },
        )
        .expect("memory")
}

#[test]
fn t32_blocks_that_left_quarantine_serve_whoever_asks_for_as_much() {
    // 57 to 72 bytes are the same to the allocator behind.
    let all = [(57, 1, true), (64, 8, false), (72, 16, false), (63, 4, true)];
    for (size, align, zeroed) in all.into_iter().take(if cfg!(miri) { 1 } else { 4 }) {
        let mut keeper = Keeper::new(8);
        let old = left(&mut keeper, 64);
        // As far as the next user goes it may hold anything.
        (0..64).for_each(|at| poke(old, at, 0xFF));
        let before = keeper.memory.live_bytes();
        let block = take(&keeper, size, align, Scope::Object, zeroed);
        assert_eq!((block, keeper.memory.live_bytes()), (old, before), "{size} bytes");
        let content = if zeroed { 0 } else { 0xCD };
        assert!((0..size as isize).all(|at| peek(block, at) == content), "{size} bytes");
        let known = keeper.cookies.validate_pointer(block.addr().get()).expect("live");
        assert_eq!((known.size, known.align, known.state), (size, align, BlockState::Live));
        assert!(keeper.check().is_empty());
        poke(block, size as isize, peek(block, size as isize) ^ 1);
        assert_eq!(keeper.check().iter().map(|finding| finding.kind).collect::<Vec<_>>(), [ReportKind::Overflow]);
        keeper.give_well(block);
        // It waits as others do.
        poke(block, 3, 1);
        assert_eq!(keeper.close().iter().map(|finding| finding.kind).collect::<Vec<_>>(), [ReportKind::UseAfterFree]);
    }
}

/// The allocator behind would get it back with a layout or a scope that it was not allocated with.
#[test]
fn a_block_that_left_quarantine_serves_no_other_size_alignment_scope_or_thread() {
    let mut keeper = Keeper::new(8);
    let old = left(&mut keeper, 64);
    let object = Scope::Object;
    let others = [
        (56, 8, object, 5, false),
        (73, 8, object, 5, false),
        (64, 32, object, 5, false),
        (64, 64, object, 5, false),
        (64, 8, Scope::Command, 5, false),
        (64, 8, Scope::Instance, 5, false),
        (64, 8, object, 6, false),
        (64, 8, object, 5, true),
    ];
    let mut live = Vec::new();
    for (size, align, scope, thread, header_only) in others {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        let before = keeper.memory.live_bytes();
        let block = keeper.cookies.allocate(
            &keeper.memory,
            BlockRequest::new(layout, scope, false),
            header_only,
            BlockMark { thread, ..BlockMark::default() },
        );
        let block = block.expect("memory");
        assert_ne!(block, old, "{size} {align} {scope:?} {thread} {header_only}");
        assert!(keeper.memory.live_bytes() >= before + size as u64);
        live.push(block);
    }
    assert_eq!(take(&keeper, 64, 8, object, false), old);
    live.push(old);
    // Nothing is what the spare was mistaken for: none is served twice.
    let next = take(&keeper, 64, 8, object, false);
    assert!(!live.contains(&next));
    live.push(next);
    live.into_iter().for_each(|block| keeper.give_well(block));
    assert!(keeper.check().is_empty());
    assert!(keeper.close().is_empty());
}
