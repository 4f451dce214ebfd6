//! Sizes, alignments, zeros, and frees with another layout.

use super::*;

#[test]
fn blocks_of_every_size_and_alignment_come_and_go() {
    let mut keeper = Keeper::new(64);
    let sizes: &[usize] =
        if cfg!(miri) { &[0, 1, 24, 61] } else { &[0, 1, 7, 8, 9, 15, 16, 17, 24, 61, 64, 100, 4096, 5000] };
    for &size in sizes {
        for align in [1, 2, 8, 16, 32, 64, 256, 4096] {
            let block = keeper.take(size, align);
            assert!((0..size).all(|at| peek(block, at as isize) == 0xCD));
            let known = keeper.cookies.validate_pointer(block.addr().get()).expect("live");
            assert_eq!((known.size, known.align, known.scope, known.mode), (size, align, Scope::Object, Mode::Cookie));
            assert_eq!((known.allocated.serial, known.allocated.thread), (keeper.serial, 5));
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
