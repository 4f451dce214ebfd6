#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloc_core::support::floor_char_boundary;
use alloc_core::{TryMap, TryString};
use vk_report::report::LeakObject;

use super::origins::Origin;
use crate::record::{Own, own};
use crate::report;

pub(super) struct AliveObject {
    origin: &'static Origin,
    bytes: u64,
    name: Option<TryString<Own>>,
    number: u64,
}

type Key = (usize, u64);
impl AliveObject {
    fn uncount(&self) {
        self.origin.remove_object(self.bytes);
    }
}

type Shard = TryMap<Key, AliveObject, Own>;

const MAX_OLDEST: usize = 4;

/// The key is the place of the origin's record; the objects are in the order of their creation.
pub(crate) type OldestObjects = HashMap<u64, Vec<(u64, LeakObject)>>;

const SHARDS: usize = 16;
const MAX_NAME: usize = 120;

pub(crate) struct ObjectTable {
    shards: [Mutex<Shard>; SHARDS],
    created: AtomicU64,
}

impl ObjectTable {
    pub(super) const fn new() -> Self {
        Self { shards: [const { Mutex::new(TryMap::new_in(own())) }; SHARDS], created: AtomicU64::new(0) }
    }

    /// Of two objects with one handle, which Vulkan allows, only the later one is kept and counted, until the first
    /// end. `false` when there is no memory.
    pub(super) fn insert(&self, key: Key, origin: &'static Origin) -> bool {
        let object = AliveObject { origin, bytes: 0, name: None, number: self.created.fetch_add(1, Ordering::Relaxed) };
        let inserted = self.with(key, |shard| {
            let inserted = shard.try_insert(key, object).ok()?;
            origin.add_object();
            Some(inserted)
        });
        let Some(former) = inserted.flatten() else {
            return false;
        };
        if let Some(former) = former {
            former.uncount();
        }
        true
    }

    pub(super) fn remove(&self, key: Key) -> Option<AliveObject> {
        let removed = self.with(key, |shard| shard.remove(&key))??;
        removed.uncount();
        Some(removed)
    }

    pub(super) fn set_size(&self, key: Key, bytes: u64) {
        self.with(key, |shard| {
            if let Some(object) = shard.get_mut(&key) {
                object.bytes = bytes;
                object.origin.set_object_size(bytes);
            }
        });
    }

    pub(super) fn set_name(&self, key: Key, name: &str) {
        let end = floor_char_boundary(name, MAX_NAME);
        let name = name.get(..end).unwrap_or_default();
        let name = TryString::try_from_str_in(name, own()).ok();
        self.with(key, |shard| {
            if let Some(object) = shard.get_mut(&key) {
                object.name = name;
            }
        });
    }

    pub(crate) fn oldest(&self) -> OldestObjects {
        let mut oldest = OldestObjects::new();
        for shard in &self.shards {
            let Some(shard) = report::part(shard) else {
                continue;
            };
            for ((_, handle), object) in shard.iter() {
                let of_origin = oldest.entry(object.origin.place).or_default();
                let place = of_origin.partition_point(|(number, _)| *number < object.number);
                if place < MAX_OLDEST {
                    let name = object.name.as_ref();
                    let listed = LeakObject {
                        handle: format!("{handle:#x}"),
                        bytes: object.bytes,
                        name: name.map_or("", |name| name.as_str()).to_owned(),
                    };
                    of_origin.truncate(MAX_OLDEST - 1);
                    of_origin.insert(place, (object.number, listed));
                }
            }
        }
        oldest
    }

    /// Under the lock only the system's allocator is called.
    fn with<R>(&self, key: Key, change: impl FnOnce(&mut Shard) -> R) -> Option<R> {
        let number = (key.1 ^ (key.1 >> 7)) as usize % SHARDS;
        let mut shard = lock(self.shards.get(number)?);
        Some(change(&mut shard))
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::origins::{Origin, OriginTable};
    use super::super::store::StackStore;
    use super::{ObjectTable, lock};

    fn origins() -> OriginTable {
        OriginTable::new(StackStore::new_static(None))
    }

    fn origin(origins: &OriginTable, kind: &'static str) -> &'static Origin {
        let origin = origins.get_or_insert(None, || &[], ("", kind));
        origin.expect("memory")
    }

    #[test]
    fn ly21_objects_that_were_destroyed_are_kept_nowhere() {
        let origins = origins();
        let origin = origin(&origins, "VkBuffer");
        let table = ObjectTable::new();
        let alive = |table: &ObjectTable| -> usize { table.shards.iter().map(|shard| lock(shard).len()).sum() };
        let handles = (1..500).flat_map(|number: u64| [number, number << 12]);
        for handle in handles.clone() {
            assert!(table.insert((1, handle), origin) && table.insert((2, handle), origin));
            table.set_name((1, handle), "a name");
        }
        assert_eq!(alive(&table), 4 * 499);
        for handle in handles {
            for kind in [1, 2] {
                let removed = table.remove((kind, handle)).expect("it is there");
                assert_eq!(removed.name.is_some(), kind == 1);
                assert!(table.remove((kind, handle)).is_none());
            }
        }
        assert_eq!(alive(&table), 0);
    }

    #[test]
    fn ly36_two_objects_with_one_handle_are_counted_as_the_one_that_is_kept() {
        let store = StackStore::new_static(None);
        let origins = OriginTable::new(store);
        let kinds = ["VkSampler", "VkImage"];
        let [first, second] = kinds.map(|kind| origin(&origins, kind));
        let table = ObjectTable::new();
        let counted = || {
            let stored = store.stored().leaks.stacks;
            kinds.map(|kind| {
                let mut stacks = stored.iter().map(|stack| (&stack.kind, stack.objects));
                let of_kind = stacks.find(|(of, _)| *of == kind);
                of_kind.map_or((0, 0), |(_, count)| (count.live, count.bytes))
            })
        };
        assert!(table.insert((1, 7), first));
        table.set_size((1, 7), 64);
        assert_eq!(counted(), [(1, 64), (0, 0)]);
        assert!(table.insert((1, 7), second));
        table.set_size((1, 7), 32);
        assert_eq!(counted(), [(0, 0), (1, 32)]);
        assert!(table.remove((1, 7)).is_some() && table.remove((1, 7)).is_none());
        assert_eq!(counted(), [(0, 0); 2]);
    }
    #[test]
    fn ly36_the_oldest_objects_of_each_origin_are_found_in_linear_time() {
        let origins = origins();
        testkit::assert_linear("objects, each with an origin", 500, |count| {
            let table = ObjectTable::new();
            let kinds: Vec<&'static str> =
                (0..count).map(|number| &*Box::leak(format!("kind {number}").into_boxed_str())).collect();
            let of_kind: Vec<_> = kinds.iter().map(|kind| origin(&origins, kind)).collect();
            for (handle, origin) in (1_u64..).zip(&of_kind) {
                assert!(table.insert((1, handle), origin));
            }
            let first = of_kind[0];
            for handle in (100_000..).take(90) {
                assert!(table.insert((1, handle), first));
            }
            let oldest = table.oldest();
            let handles = of_kind.iter().flat_map(|origin| {
                let listed = &oldest[&origin.place];
                listed.iter().map(|(_, object)| object.handle.clone())
            });
            let handles: Vec<_> = handles.collect();
            let first = [1, 100_000, 100_001, 100_002].into_iter();
            let expected = first.chain(2..=count as u64);
            let expected: Vec<_> = expected.map(|handle| format!("{handle:#x}")).collect();
            assert_eq!(handles, expected);
        });
    }
}
