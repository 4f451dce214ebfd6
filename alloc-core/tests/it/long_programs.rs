//! The op programs of contexts and owned values, on seeds and at random, against their models.

use testkit::programs::{replay, replay_named};

use crate::programs::context_tree::{context_tree, context_tree_reentered, context_tree_text};
use crate::programs::owned_values::{owned_values, owned_values_reentered};

#[test]
fn context_tree_equals_its_model() {
    replay("context_tree", 1000, context_tree);
}

/// Two requests of each program are made on another thread: the first is refused, because of what this thread leases,
/// the second is the same again when that was given back.
#[test]
fn a_context_refuses_early_by_what_another_thread_leases_and_no_more() {
    replay_named("context_tree", |text| {
        let ran = context_tree_text(text);
        assert_eq!(text.lines().filter(|line| line.ends_with("elsewhere")).count(), 2);
        assert_eq!(ran.succeeded + 1, ran.operations, "{ran:?}");
    });
}

#[test]
fn context_tree_equals_its_model_while_the_backing_uses_it() {
    let ran = replay("context_tree", 1000, context_tree_reentered);
    assert!(ran.reentered > ran.operations / 2, "{ran:?}");
}

#[test]
fn owned_values_equal_their_model() {
    replay("owned_values", 1000, owned_values);
}

#[test]
fn owned_values_equal_their_model_while_the_backing_uses_them() {
    let ran = replay("owned_values", 1000, owned_values_reentered);
    assert!(ran.reentered > ran.operations / 2, "{ran:?}");
}
