//! Blocks that left quarantine and serve again, and what their records say meanwhile.

use super::super::header_words::HeaderWords;
use super::super::plan::plain;
use super::super::record::Life;
use super::*;

/// Takes and frees blocks until one has left quarantine, to be the next that serves; where it stands.
fn left(keeper: &mut Keeper, size: usize) -> NonNull<u8> {
    let blocks: Vec<_> = (0..40).map(|_| keeper.take(size, 8)).collect();
    blocks.into_iter().for_each(|block| keeper.give_well(block));
    let cookies = &keeper.cookies;
    let last = cookies
        .caches
        .own()
        .and_then(|cache| cache.recycled.last(&cookies.table))
        .expect("one has left");
    NonNull::new(core::ptr::with_exposed_provenance_mut(last.own().0)).expect("a block")
}

/// What the allocator behind is asked for.
fn whole(size: usize) -> u64 {
    plain(size).expect("small").whole.size() as u64
}

fn take(keeper: &Keeper, size: usize, align: usize, scope: Scope, zeroed: bool) -> NonNull<u8> {
    let layout = Layout::from_size_align(size, align).expect("a layout");
    keeper
        .cookies
        .allocate(
            &keeper.memory,
            BlockRequest::new(layout, scope, zeroed),
            false,
            BlockMark::default(),
        )
        .expect("memory")
}

#[test]
fn t32_blocks_that_left_quarantine_serve_whoever_asks_for_as_much() {
    // 57 to 72 bytes are the same to the allocator behind.
    for (size, align, zeroed) in [
        (64, 8, false),
        (57, 1, true),
        (72, 16, false),
        (63, 4, true),
    ] {
        let mut keeper = Keeper::new(8);
        let old = left(&mut keeper, 64);
        // As far as the next user goes it may hold anything.
        (0..64).for_each(|at| poke(old, at, 0xFF));
        let before = keeper.memory.live_bytes();
        let block = take(&keeper, size, align, Scope::Object, zeroed);
        assert_eq!(
            (block, keeper.memory.live_bytes()),
            (old, before),
            "{size} bytes"
        );
        let content = if zeroed { 0 } else { 0xCD };
        assert!(
            (0..size as isize).all(|at| peek(block, at) == content),
            "{size} bytes"
        );
        let known = keeper
            .cookies
            .validate_pointer(block.addr().get())
            .expect("live");
        assert_eq!(
            (known.size, known.align, known.state),
            (size, align, BlockState::Live)
        );
        assert!(keeper.check().is_empty());
        poke(block, size as isize, peek(block, size as isize) ^ 1);
        assert_eq!(
            keeper
                .check()
                .iter()
                .map(|finding| finding.kind)
                .collect::<Vec<_>>(),
            [ReportKind::Overflow]
        );
        keeper.give_well(block);
        // It waits as others do.
        poke(block, 3, 1);
        assert_eq!(
            keeper
                .close()
                .iter()
                .map(|finding| finding.kind)
                .collect::<Vec<_>>(),
            [ReportKind::UseAfterFree]
        );
    }
}

#[test]
fn blocks_that_left_quarantine_serve_nobody_else_and_go() {
    for (size, align, scope) in [
        (64, 8, Scope::Cache),
        (73, 8, Scope::Object),
        (56, 8, Scope::Object),
        (1 << 20, 1, Scope::Object),
    ] {
        let mut keeper = Keeper::new(8);
        let old = left(&mut keeper, 64);
        let others = keeper.memory.live_bytes() - whole(64);
        let block = take(&keeper, size, align, scope, false);
        let last = keeper
            .cookies
            .caches
            .own()
            .and_then(|cache| cache.recycled.last(&keeper.cookies.table));
        assert!(
            last.is_none_or(|last| last.own().0 != old.addr().get()),
            "{size} bytes: it is still there"
        );
        assert_eq!(
            keeper.memory.live_bytes(),
            others + whole(size),
            "{size} bytes: one for the other"
        );
        assert_eq!(
            keeper
                .cookies
                .validate_pointer(block.addr().get())
                .map(|known| known.scope)
                .ok(),
            Some(scope)
        );
        let (given, _) = keeper.give(block);
        assert!(given.freed.is_some() && given.finding.is_none());
        assert!(keeper.close().is_empty());
    }
    // An alignment of its own: not looked at.
    let mut keeper = Keeper::new(8);
    let old = left(&mut keeper, 64);
    let other = take(&keeper, 64, 32, Scope::Object, false);
    assert_ne!(other, old);
    assert_eq!(take(&keeper, 64, 8, Scope::Object, false), old);
    [old, other]
        .into_iter()
        .for_each(|block| keeper.give_well(block));
    assert!(keeper.close().is_empty());
}

#[test]
fn t20_a_block_that_left_quarantine_is_freed_all_the_same() {
    let mut keeper = Keeper::new(8);
    let old = left(&mut keeper, 64);
    let finding = keeper.refused(old.addr().get());
    let block = finding.block.expect("a block");
    assert_eq!(
        (finding.kind, block.state, block.freed.thread),
        (ReportKind::DoubleFree, BlockState::Freed, 5)
    );
    assert!(block.freed.serial > 0, "{block:?}");
    assert_eq!(
        keeper.refused(old.addr().get() + 16).kind,
        ReportKind::InteriorFree
    );
    assert!(keeper.check().is_empty());
    assert!(keeper.close().is_empty());
}

#[test]
fn a_refused_request_leaves_what_left_quarantine_as_it_is() {
    let mut keeper = Keeper::new(8);
    let old = left(&mut keeper, 64);
    keeper.memory.arm(Plan::From(0));
    let layout = Layout::new::<[u64; 8]>();
    let cookies = &keeper.cookies;
    let block = cookies.allocate(
        &keeper.memory,
        BlockRequest::new(layout, Scope::Object, false),
        false,
        BlockMark::default(),
    );
    assert_eq!(block.ok(), Some(old), "nobody had to be asked");
    let refused = cookies.allocate(
        &keeper.memory,
        BlockRequest::new(Layout::new::<[u64; 80]>(), Scope::Object, false),
        false,
        BlockMark::default(),
    );
    assert!(refused.is_err() && keeper.memory.refused() == 1);
    keeper.give_well(old);
    assert!(keeper.check().is_empty());
    assert!(keeper.close().is_empty());
}

#[test]
fn t20_who_freed_is_told_once_it_is_written_down() {
    let keeper = Keeper::new(8);
    keeper.cookies.table.grow(&keeper.memory).expect("memory");
    let mut drawn = None;
    keeper.cookies.table.draw(1, |record| drawn = Some(record));
    let record = drawn.expect("one");
    let mark = |serial| BlockMark {
        site: SiteId(serial as u32),
        thread: 3,
        serial,
    };
    let words = |size, serial| {
        HeaderWords::new(size, 8, Scope::Object, false, mark(serial), record.token())
    };
    assert!(record.read().is_none());
    record.enter(4096, words(64, 1), 1);
    assert!(record.free(4096, mark(2), 8192) && !record.free(4096, mark(3), 0));
    // Another thread may look at it before who frees has come any further: what it finds may be of an earlier life.
    let listed = record.read().expect("freed");
    assert_eq!(
        (
            listed.life,
            listed.known().state,
            listed.known().freed.serial
        ),
        (Life::Freeing, BlockState::Freed, 0)
    );
    record.wait(4096);
    for life in [Life::Waiting, Life::Held] {
        let listed = record.read().expect("freed");
        assert_eq!(
            (
                listed.life,
                listed.known().state,
                listed.known().freed.serial
            ),
            (life, BlockState::MovedTo(8192), 2)
        );
        record.claim();
    }
    record.enter(4096, words(72, 4), 2);
    let listed = record.live().expect("live");
    assert_eq!(
        (
            listed.start,
            listed.words.size(),
            listed.known().allocated.serial
        ),
        (4096, 72, 4)
    );
    assert!(record.free(4096, mark(5), 0));
    record.end();
    assert!(record.read().is_none() && !record.lives(4096) && record.own().0 == 4096);
    assert!(keeper.close().is_empty());
}
