//! What errors say: one of a thing is called one.

use crate::scene::root;
use alloc_core::{CloseError, Context, Rejected, TryVec};

#[test]
fn one_of_a_thing_has_no_plural() {
    let root = root();
    let refused =
        |root: Context| -> Rejected<Context, CloseError> { root.close_root().expect_err("something is left") };
    let mut one = TryVec::<u8, _>::new_in(root.handle());
    one.try_reserve_exact(1).expect("memory");
    let left = refused(root);
    assert_eq!(left.error.outstanding().to_string(), "1 byte in 1 block, 0 contexts, 1 handle outstanding");
    let mut two = TryVec::<u8, _>::new_in(left.value.handle());
    two.try_reserve_exact(1).expect("memory");
    let left = refused(left.value);
    assert_eq!(left.error.outstanding().to_string(), "2 bytes in 2 blocks, 0 contexts, 2 handles outstanding");
    drop((one, two));
    left.value.close_root().expect("nothing is left");
}
