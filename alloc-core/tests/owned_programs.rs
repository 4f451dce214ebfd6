//! Short programs of owned values, arenas' values and declarations, where miri can watch them; testkit's own tests run long ones.
//!
//! Runs under miri.

use testkit::Rng;
use testkit::programs::{Ran, owned_values};

#[test]
fn short_programs_of_owned_values_equal_their_model() {
    let mut all = Ran::default();
    for seed in 0..if cfg!(miri) { 1 } else { 200 } {
        all.add(owned_values(&Rng::new(seed).bytes(160)));
    }
    // One alone need not have done everything; each is compared with the model all the same.
    if !cfg!(miri) {
        all.assert_meaningful();
    }
}
