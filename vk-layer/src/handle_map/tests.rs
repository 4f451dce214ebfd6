use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;

use super::{HandleMap, NO_KEY, SLOTS, own_slot};

/// Of each chunk how many slots are used.
fn used(map: &HandleMap<()>) -> Vec<usize> {
    let chunks = std::iter::successors(Some(map.first()), |chunk| chunk.following());
    chunks.map(|chunk| chunk.state.used.load(Ordering::Relaxed)).collect()
}

#[test]
fn ly21_slots_of_full_chunks_are_used_again_and_their_count_is_exact() {
    let map = HandleMap::<()>::new();
    let value = NonNull::dangling();
    let full = SLOTS / 4 * 3;
    let keys = || (0..3 * full + 1).map(|number| 16 + number);
    for _ in 0..3 {
        assert!(keys().all(|key| map.insert(key, value)));
        assert_eq!(used(&map), [full, 2 * full, 1]);
        assert!(keys().all(|key| map.get(key) == Some(value)));
        // What was freed in the first chunk is where the next pairs go.
        assert!(map.remove(16).is_some() && map.remove(16).is_none());
        assert!(map.insert(17 * SLOTS, value));
        assert_eq!(used(&map), [full, 2 * full, 1]);
        assert!(map.remove(17 * SLOTS).is_some());
        assert!(keys().skip(1).all(|key| map.remove(key).is_some()));
        assert_eq!(used(&map), [0, 0, 0]);
    }
}

#[test]
fn ly4_a_key_that_is_not_there_is_looked_for_in_few_slots_however_many_keys_there_are() {
    let map = HandleMap::<()>::new();
    let value = NonNull::dangling();
    let looked_at = |key: usize| -> usize {
        let chunks = std::iter::successors(Some(map.first()), |chunk| chunk.following());
        chunks.map(|chunk| chunk.probe(key).count()).sum()
    };
    // Addresses of blocks, as drivers have them for handles.
    let handles = |from: usize| (from..).step_by(0x90).take(50_000);
    for round in 0..4 {
        let here = round * 0x1_0000_0000 + 0x7f00_0000_0010;
        assert!(handles(here).all(|handle| map.insert(handle, value)));
        let strangers = handles(0x5500_0000_0010);
        let slots: usize = strangers.map(looked_at).sum();
        // 9 chunks: two slots in each, where a scan of all looks at more than 60 000.
        assert!(slots < 50_000 * 9 * 5, "{slots}");
        assert_eq!(used(&map).len(), 9);
        assert!(handles(here).all(|handle| map.remove(handle).is_some()));
    }
}

#[test]
fn ly4_objects_with_one_handle_are_all_kept() {
    let map = HandleMap::<()>::new();
    let value = NonNull::dangling();
    assert!((0..1000).all(|_| map.insert(40, value)));
    assert!((0..1000).all(|_| map.remove(40).is_some()));
    assert!(map.remove(40).is_none() && used(&map) == [0, 0, 0]);
    // A neighbour's way is not longer for that.
    let neighbour = (41..).find(|key| own_slot(*key, SLOTS) == own_slot(40, SLOTS) + 1);
    assert_eq!(map.first().probe(neighbour.expect("a key")).count(), 1);
    assert!(map.slots.iter().all(|slot| slot.has(NO_KEY)));
}

#[test]
fn ly4_threads_that_remove_one_key_each_remove_another_record() {
    const ROUNDS: usize = 3000;
    let map = HandleMap::<()>::new();
    let round = Barrier::new(2);
    let remove = |_| {
        round.wait();
        let removed = map.remove(40).map(NonNull::addr);
        round.wait();
        removed
    };
    let record = |address: usize| NonNull::new(std::ptr::without_provenance_mut(address));
    thread::scope(|scope| {
        let other = scope.spawn(|| (0..ROUNDS).map(remove).collect::<Vec<_>>());
        // Two objects with one handle, as Vulkan allows, and in each third round one.
        let mine: Vec<_> = (0..ROUNDS)
            .map(|number| {
                let pair = [16, 32];
                for address in &pair[..1 + usize::from(number % 3 != 0)] {
                    assert!(map.insert(40, record(*address).expect("an address")));
                }
                remove(number)
            })
            .collect();
        let other = other.join().expect("a thread that ends");
        for (number, pair) in mine.into_iter().zip(other).enumerate() {
            let mut pair = [pair.0, pair.1].map(|address| address.map_or(0, usize::from));
            pair.sort_unstable();
            let expected = if number % 3 == 0 { [0, 16] } else { [16, 32] };
            assert_eq!(pair, expected, "round {number}");
        }
    });
    assert!(map.get(40).is_none());
}
