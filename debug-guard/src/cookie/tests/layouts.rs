//! Sizes, alignments, zeros, and frees with another layout.

use super::*;

#[test]
fn blocks_of_every_size_and_alignment_come_and_go() {
    let mut keeper = Keeper::new(64);
    let sizes: &[usize] = if cfg!(miri) {
        &[0, 1, 24, 61]
    } else {
        &[0, 1, 7, 8, 9, 15, 16, 17, 24, 61, 64, 100, 4096, 5000]
    };
    for &size in sizes {
        for align in [1, 2, 8, 16, 32, 64, 256, 4096] {
            let block = keeper.take(size, align);
            assert!((0..size).all(|at| peek(block, at as isize) == 0xCD));
            let known = keeper
                .cookies
                .validate_pointer(block.addr().get())
                .expect("live");
            assert_eq!(
                (known.size, known.align, known.scope, known.mode),
                (size, align, Scope::Object, Mode::Cookie)
            );
            assert_eq!(
                (known.allocated.serial, known.allocated.thread),
                (keeper.serial, 5)
            );
            for at in 0..size {
                poke(block, at as isize, at as u8);
            }
            assert!(keeper.check().is_empty());
            keeper.give_well(block);
            assert!((0..size).all(|at| peek(block, at as isize) == 0xDD));
        }
    }
    assert!(keeper.check().is_empty());
    assert!(keeper.close().is_empty());
}

#[test]
fn t32_zeroed_blocks_are_zero() {
    let mut keeper = Keeper::new(0);
    for _ in 0..50 {
        let layout = Layout::from_size_align(77, 1).expect("a layout");
        let block = keeper
            .cookies
            .allocate(
                &keeper.memory,
                BlockRequest::new(layout, Scope::Cache, true),
                false,
                BlockMark::default(),
            )
            .expect("memory");
        assert!((0..77).all(|at| peek(block, at) == 0));
        for at in 0..77 {
            poke(block, at, 0xFF);
        }
        keeper.give_well(block);
    }
    assert!(keeper.close().is_empty());
}

#[test]
fn t28_t29_a_free_with_another_layout_or_scope_is_told_and_the_block_goes() {
    let mut keeper = Keeper::new(64);
    let layout = |size, align| Layout::from_size_align(size, align).ok();
    for (layout, scope, kind) in [
        (
            layout(72, 8),
            Some(Scope::Object),
            Some(ReportKind::SizeMismatch),
        ),
        (
            layout(64, 16),
            Some(Scope::Object),
            Some(ReportKind::AlignmentMismatch),
        ),
        (
            layout(64, 8),
            Some(Scope::Device),
            Some(ReportKind::ScopeMismatch),
        ),
        (layout(64, 8), Some(Scope::Object), None),
        (layout(64, 8), None, None),
        (None, None, None),
    ] {
        let at = keeper.take(64, 8).addr().get();
        let (given, late) = keeper.give_as(at, layout, scope, None);
        assert_eq!(
            given.freed,
            Some(Freed {
                size: 64,
                mode: Mode::Cookie
            })
        );
        assert_eq!(given.finding.map(|finding| finding.kind), kind);
        assert_eq!(
            given
                .finding
                .and_then(|finding| finding.block)
                .map(|known| known.start),
            kind.map(|_| at)
        );
        assert!(late.is_empty());
        assert_eq!(keeper.refused(at).kind, ReportKind::DoubleFree);
    }
    assert!(keeper.close().is_empty());
}
