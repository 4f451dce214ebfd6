//! `TryMap`.

use std::cell::RefCell;

use alloc_core::{ContextHandle, FoldState, HostError, TryMap};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing, takes};

type Map = TryMap<u32, u32, ContextHandle>;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["TryMap::try_insert"], "into an empty one", |s, g| {
            changed(s, g, TryMap::new_in(g.context().handle()), |map| {
                Ok(map.try_insert(1, 1).map(drop)?)
            });
        }),
        takes(&["TryMap::try_insert"], "", |s, g| {
            full(s, g, |map| Ok(map.try_insert(1000, 1).map(drop)?))
        }),
        takes(&["TryMap::try_get_or_insert_with"], "", |s, g| {
            full(s, g, |map| {
                Ok(map.try_get_or_insert_with(1000, |key| *key).map(drop)?)
            });
        }),
        takes(&["TryMap::try_get_or_try_insert_with"], "", |s, g| {
            full(s, g, |map| {
                map.try_get_or_try_insert_with(1000, |key| Ok::<_, HostError>(*key))
                    .map(drop)
            });
        }),
        takes(&["TryMap::try_reserve"], "", |s, g| {
            full(s, g, |map| map.try_reserve(1))
        }),
        takes(&["TryMap::try_shrink_to_fit"], "", |s, g| {
            let mut map = filled(g);
            map.retain(|key, _| *key == 0);
            changed(s, g, map, TryMap::try_shrink_to_fit);
        }),
        takes(&["TryMap::try_clone"], "", |s, g| {
            let map = filled(g);
            assert_eq!(
                s.attempt(|| g.picture(), || map.try_clone()).len(),
                map.len()
            );
        }),
        nothing(
            &[
                "TryMap::new_in",
                "TryMap::with_hasher_in",
                "TryMap::allocation_size",
                "TryMap::allocator",
                "TryMap::capacity",
                "TryMap::clear",
                "TryMap::contains_key",
                "TryMap::drain",
                "TryMap::get",
                "TryMap::get_mut",
                "TryMap::is_empty",
                "TryMap::iter",
                "TryMap::iter_mut",
                "TryMap::keys",
                "TryMap::len",
                "TryMap::remove",
                "TryMap::remove_entry",
                "TryMap::retain",
                "TryMap::values",
                "TryMap::values_mut",
            ],
            "they read, or remove within the table",
            within_the_table::<S>,
        ),
    ]
}

/// A map without room for one more.
fn filled(ground: &Ground) -> Map {
    let mut map = TryMap::new_in(ground.context().handle());
    map.try_reserve(20).expect("refused nothing");
    for key in 0.. {
        if map.len() == map.capacity() {
            break;
        }
        map.try_insert(key, key * 2).expect("there is room");
    }
    map
}

fn changed<S: Stage>(
    stage: &S,
    ground: &Ground,
    map: Map,
    mut change: impl FnMut(&mut Map) -> Result<(), HostError>,
) {
    let map = RefCell::new(map);
    stage.attempt(
        || {
            let map = map.borrow();
            let sum = map
                .iter()
                .map(|(key, value)| u64::from(*key) + u64::from(*value))
                .sum::<u64>();
            (map.len(), map.capacity(), sum, ground.picture())
        },
        || change(&mut map.borrow_mut()),
    );
}

fn full<S: Stage>(
    stage: &S,
    ground: &Ground,
    change: impl FnMut(&mut Map) -> Result<(), HostError>,
) {
    changed(stage, ground, filled(ground), change);
}

fn within_the_table<S: Stage>(stage: &S, ground: &Ground) {
    let mut map = filled(ground);
    let (len, capacity) = (map.len(), map.capacity());
    stage.attempt_plainly(|| {
        let empty = TryMap::<u8, u8, _>::new_in(ground.context());
        assert_eq!((empty.is_empty(), empty.allocation_size()), (true, 0));
        assert!(map.allocation_size() > capacity * size_of::<(u32, u32)>());
        assert!(TryMap::<u8, u8, _>::with_hasher_in(FoldState, ground.context()).is_empty());
        assert_eq!(
            (map.get(&3), map.contains_key(&3), map.allocator().id()),
            (Some(&6), true, ground.context().id())
        );
        map.get_mut(&3).into_iter().for_each(|value| *value += 1);
        map.values_mut().for_each(|value| *value += 1);
        map.iter_mut().for_each(|(_, value)| *value -= 1);
        assert_eq!(
            (map.iter().count(), map.keys().count(), map.values().count()),
            (len, len, len)
        );
        assert_eq!(
            (map.remove(&3), map.remove_entry(&4), map.remove(&3)),
            (Some(7), Some((4, 8)), None)
        );
        map.retain(|key, _| key % 2 == 0);
        assert!(Sink::debug(&map) > 0);
        map.drain().take(2).for_each(drop);
        map.clear();
        assert_eq!((map.len(), map.capacity()), (0, capacity));
    });
}
