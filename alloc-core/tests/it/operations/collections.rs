//! `TryVec`, `TryBox`, `TryMap`, `TryString`.

use std::fmt::{Debug, Write};

use alloc_core::{ContextHandle, FoldState, HostError, TryBox, TryMap, TryString, TryVec, unsize_try_box};
use testkit::{Sink, Stage};

use super::Ground;

type Array = TryVec<u32, ContextHandle>;
type Map = TryMap<u32, u32, ContextHandle>;
type Text = TryString<ContextHandle>;
type Change<V> = fn(&mut V) -> Result<(), HostError>;

/// An array without spare room.
fn full<S: Stage>(g: &Ground<'_, S>) -> Array {
    TryVec::try_from_slice_in(&[5, 6, 7], g.handle()).expect("refused nothing")
}

fn see(array: &Array) -> (u64, usize, usize) {
    let weighed = array.iter().zip(1..).map(|(element, at)| u64::from(*element) * at);
    (weighed.sum(), array.len(), array.capacity())
}

pub(super) fn arrays<S: Stage>(g: &Ground<'_, S>) {
    let changes: [Change<Array>; 5] = [
        |array| Ok(array.try_push(1)?),
        |array| array.try_reserve(1),
        |array| array.try_reserve_exact(3),
        |array| array.try_extend_from_slice(&[1; 9]),
        |array| array.try_resize(50, 3),
    ];
    for change in changes {
        g.change(full(g), see, change);
    }
    g.change(TryVec::new_in(g.handle()), see, |array| array.try_push(1));
    g.change(TryVec::new_in(g.context()), |array| array.len(), |array| array.try_push("over a borrow"));
    let mut array = g.step(|| TryVec::try_with_capacity_in(20, g.handle()));
    g.without_memory(|| {
        array.try_extend_from_slice(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).expect("there is room");
        array.retain(|n| *n != 0);
        let out = (array.pop(), array.swap_remove(0), array.swap_remove(99));
        assert_eq!(out, (Some(9), Some(1), None));
        array.truncate(3);
        array.as_mut_slice().reverse();
        let seen = (array.as_slice().len(), array.capacity(), array.allocator().id());
        assert_eq!(seen, (3, 20, g.context().id()));
        assert!(Sink::debug(&array) > 0);
        array.clear();
    });
}

pub(super) fn boxes<S: Stage>(g: &Ground<'_, S>) {
    let first = g.step(|| {
        TryBox::try_new_in([1_u64, 2, 3], g.handle()).map_err(|refused| {
            assert_eq!(refused.value, [1, 2, 3], "the value comes back");
            refused.error
        })
    });
    let second = g.step(|| TryBox::try_new_in(5_u64, g.handle()).map_err(HostError::from));
    g.without_memory(|| {
        let (value, allocator) = TryBox::into_raw_with_allocator(first);
        // SAFETY: just taken apart.
        let first = unsafe { TryBox::from_raw_in(value, allocator) };
        assert_eq!(TryBox::into_inner(first), [1, 2, 3]);
        assert_eq!((*second, TryBox::allocator(&second).id()), (5, g.context().id()));
        let second: TryBox<dyn Debug, ContextHandle> = unsize_try_box!(second);
        assert!(Sink::debug(&second) > 0);
    });
}

pub(super) fn maps<S: Stage>(g: &Ground<'_, S>) {
    // One without room for another key.
    let full = || {
        let mut map = Map::new_in(g.handle());
        map.try_reserve(20).expect("refused nothing");
        for key in 0..map.capacity() as u32 {
            map.try_insert(key, key * 2).expect("there is room");
        }
        map
    };
    let see = |map: &Map| {
        (map.len(), map.capacity(), map.iter().map(|(key, value)| u64::from(*key) + u64::from(*value)).sum::<u64>())
    };
    let changes: [Change<Map>; 3] = [
        |map| Ok(map.try_insert(1000, 1).map(drop)?),
        |map| Ok(map.try_get_or_insert_with(1000, |key| *key).map(drop)?),
        |map| map.try_reserve(1),
    ];
    for change in changes {
        g.change(full(), see, change);
    }
    g.change(Map::new_in(g.handle()), see, |map| map.try_insert(1, 1).map(drop));
    let mut map = full();
    let (len, capacity) = (map.len(), map.capacity());
    g.without_memory(|| {
        assert!(map.allocation_size() > capacity * size_of::<(u32, u32)>());
        assert!(TryMap::<u8, u8, _>::with_hasher_in(FoldState, g.context()).is_empty());
        assert_eq!((map.get(&3), map.contains_key(&3), map.allocator().id()), (Some(&6), true, g.context().id()));
        map.get_mut(&3).into_iter().for_each(|value| *value += 1);
        assert_eq!(map.iter().count(), len);
        assert_eq!((map.remove(&3), map.remove(&3)), (Some(7), None));
        map.retain(|key, _| key % 2 == 0);
        assert!(Sink::debug(&map) > 0);
        map.drain().take(2).for_each(drop);
        map.clear();
        assert_eq!((map.len(), map.capacity()), (0, capacity));
    });
}

pub(super) fn texts<S: Stage>(g: &Ground<'_, S>) {
    let full = || Text::try_from_str_in("full", g.handle());
    let changes: [Change<Text>; 5] = [
        |text| text.try_push_str("more"),
        |text| text.try_push('\u{20ac}'),
        |text| text.try_reserve(1),
        |text| text.try_write_fmt(format_args!("{:0100}{}", 1, "end")),
        |text| text.write_char('x').map_err(|_| HostError::TooLarge),
    ];
    for change in changes {
        let see = |text: &Text| (text.as_str() == "full", text.capacity());
        let text = g.change(full().expect("refused nothing"), see, change);
        assert!(text.starts_with("full"));
    }
    g.step(|| Text::try_with_capacity_in(10, g.handle()));
    let mut text = g.step(full);
    g.without_memory(|| {
        assert_eq!(TryString::new_in(g.context()).as_str(), "");
        text.truncate(3);
        assert_eq!((text.as_str(), text.allocator().id()), ("ful", g.context().id()));
    });
    g.without_memory(|| {
        text.clear();
        assert!(text.is_empty());
        assert_eq!(text.into_bytes().capacity(), 4);
    });
}
