//! Short programs of contexts, owned values, arenas' values and declarations, where miri can watch them;
//! `long_programs.rs` runs long ones.
//!
//! Runs under miri.

use testkit::Rng;
use testkit::programs::Ran;

use crate::programs::owned_values::{owned_values, owned_values_reentered};

#[test]
#[cfg(not(miri))]
fn m1_m2_m20_m21_m23_short_programs_of_contexts_equal_their_model() {
    run(crate::programs::context_tree::context_tree);
}

#[test]
fn m3_m4_m5_m6_m11_m23_m44_v20_short_programs_of_owned_values_equal_their_model() {
    run(owned_values);
}

/// The backing uses contexts and arenas in the middle of their operations.
#[test]
fn short_programs_of_owned_values_equal_their_model_while_the_backing_reenters_them() {
    let all = run(owned_values_reentered);
    assert!(all.reentered > 0);
}

fn run(program: fn(&[u8]) -> Ran) -> Ran {
    let mut all = Ran::default();
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        all.add(program(&Rng::new(seed).bytes(160)));
    }
    // One alone need not have done everything; each is compared with the model all the same.
    if !cfg!(miri) {
        all.assert_meaningful();
    }
    all
}
