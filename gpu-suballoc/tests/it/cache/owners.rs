//! In whose memory entries lie: H74, H75.

use super::*;

#[test]
fn h74_h75_an_entry_lies_in_its_owners_memory_whoever_runs_and_drops_it() {
    cache_scene!(contexts, counts, cache);
    let device = CacheDevice::new_unique();
    let a = own(&cache, device, &contexts.a);
    let b = own(&cache, device, &contexts.b);
    drop(get(&a, &counts, 1));
    let [of_a, of_b, _] = contexts.bytes();
    assert!(of_a > 0 && of_b == 0);
    // B runs A's: nothing of B's is in it.
    let by_b = get(&b, &counts, 1);
    assert_eq!(contexts.bytes()[..2], [of_a, 0]);
    drop(a);
    assert_eq!(contexts.bytes()[..2], [of_a, 0], "B still runs it");
    thread::scope(|threads| {
        threads.spawn(move || drop(by_b));
    });
    assert_eq!(contexts.bytes()[..2], [0, 0], "given back to A's, by B, on another thread");
    assert_eq!(counts.now(), (1, 0));
}
