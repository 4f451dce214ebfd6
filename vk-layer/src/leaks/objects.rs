//! The objects that are alive, by kind and handle.

#![forbid(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloc_core::support::floor_char_boundary;
use alloc_core::{HostError, TryMap, TryString};

use super::origins::Origin;
use crate::record::{Own, own};

/// An object that was created and not destroyed.
pub(crate) struct AliveObject {
    pub(super) origin: &'static Origin,
    /// The size in its create info; 0 where that has none.
    pub(crate) bytes: u64,
    /// Its debug name, if the program gave one.
    pub(crate) name: Option<TryString<Own>>,
    number: u64,
}

/// The index of its kind, and its handle.
type Key = (usize, u64);
impl AliveObject {
    /// Removes it from the counts of its origin.
    fn uncount(&self) {
        self.origin.remove_object(self.bytes);
    }
}

type Shard = TryMap<Key, AliveObject, Own>;

/// The most objects listed of an origin.
const MAX_OLDEST: usize = 4;

/// The oldest objects of each origin, by the origin's address, the oldest first: the number and the key of each.
pub(crate) struct OldestObjects(TryMap<usize, [Option<(u64, Key)>; MAX_OLDEST], Own>);

impl OldestObjects {
    fn add(&mut self, key: Key, object: &AliveObject) -> Result<(), HostError> {
        let origin = ptr::from_ref(object.origin).addr();
        let oldest = self
            .0
            .try_get_or_insert_with(origin, |_| [None; MAX_OLDEST]);
        let oldest = oldest.map_err(|rejected| rejected.error)?;
        let mut next = Some((object.number, key));
        for place in oldest {
            let is_younger = |there: &(u64, Key)| next.is_some_and(|next| next.0 < there.0);
            if place.as_ref().is_none_or(is_younger) {
                std::mem::swap(place, &mut next);
            }
        }
        Ok(())
    }
}

const SHARDS: usize = 16;
/// The most bytes of a debug name that are kept.
const MAX_NAME: usize = 120;

pub(crate) struct ObjectTable {
    shards: [Mutex<Shard>; SHARDS],
    created: AtomicU64,
}

impl ObjectTable {
    pub(super) const fn new() -> Self {
        Self {
            shards: [const { Mutex::new(TryMap::new_in(own())) }; SHARDS],
            created: AtomicU64::new(0),
        }
    }

    /// Adds an object, and counts it in its origin. Of two objects with one handle, which Vulkan allows, only the later one is kept and
    /// counted, until the first end. `false` when there is no memory.
    pub(super) fn insert(&self, key: Key, origin: &'static Origin) -> bool {
        let object = AliveObject {
            origin,
            bytes: 0,
            name: None,
            number: self.created.fetch_add(1, Ordering::Relaxed),
        };
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

    /// The oldest objects of every origin, found in one walk over all objects.
    pub(crate) fn oldest(&self) -> Result<OldestObjects, HostError> {
        let mut oldest = OldestObjects(TryMap::new_in(own()));
        for shard in &self.shards {
            for (key, object) in lock(shard).iter() {
                oldest.add(*key, object)?;
            }
        }
        Ok(oldest)
    }

    /// Calls `each` with copies of the oldest objects of an origin that are still alive, in the order of their creation. Without memory a
    /// copy has no name.
    pub(crate) fn each_oldest(
        &self,
        oldest: &OldestObjects,
        origin: &Origin,
        each: &mut dyn FnMut(u64, &AliveObject),
    ) {
        let first = oldest.0.get(&ptr::from_ref(origin).addr());
        for (number, key) in first.into_iter().flatten().flatten() {
            let copy = self.with(*key, |shard| {
                // Otherwise another object has the handle by now.
                let object = shard.get(key).filter(|object| object.number == *number)?;
                let name = object.name.as_ref();
                Some(AliveObject {
                    name: name.and_then(|name| TryString::try_from_str_in(name, own()).ok()),
                    ..*object
                })
            });
            if let Some(copy) = copy.flatten() {
                each(key.1, &copy);
            }
        }
    }

    /// Under the lock only the system's allocator is called.
    fn with<R>(&self, key: Key, change: impl FnOnce(&mut Shard) -> R) -> Option<R> {
        // Handles are addresses, or small numbers.
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
    use crate::record::new_static;

    fn origins() -> OriginTable {
        let store = StackStore::new(None).and_then(new_static);
        OriginTable::new(store.expect("memory"))
    }

    /// A kind stands for a stack here.
    fn origin(origins: &OriginTable, kind: &'static str) -> &'static Origin {
        let origin = origins.get_or_insert(None, || &[], ("", kind));
        origin.expect("memory")
    }

    #[test]
    fn ly21_objects_that_were_destroyed_are_kept_nowhere() {
        let origins = origins();
        let origin = origin(&origins, "VkBuffer");
        let table = ObjectTable::new();
        let alive = |table: &ObjectTable| -> usize {
            table.shards.iter().map(|shard| lock(shard).len()).sum()
        };
        // Addresses, numbers that count up, and both kinds with the same handles.
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
        let origins = origins();
        let [first, second] = ["VkSampler", "VkImage"].map(|kind| origin(&origins, kind));
        let table = ObjectTable::new();
        let counted =
            || [first, second].map(|origin| (origin.objects().live(), origin.objects().bytes()));
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
            let kinds: Vec<&'static str> = (0..count)
                .map(|number| &*Box::leak(format!("kind {number}").into_boxed_str()))
                .collect();
            let of_kind: Vec<_> = kinds.iter().map(|kind| origin(&origins, kind)).collect();
            for (handle, origin) in (1_u64..).zip(&of_kind) {
                assert!(table.insert((1, handle), origin));
            }
            // Of one there are more than are listed, and some of these are gone, or another object has their handle.
            let first = of_kind[0];
            for handle in (100_000..).take(9) {
                assert!(table.insert((1, handle), first));
            }
            let oldest = table.oldest().expect("memory");
            assert!(table.remove((1, 100_000)).is_some());
            assert!(table.insert((1, 100_001), first));
            let mut handles = Vec::new();
            for origin in &of_kind {
                table.each_oldest(&oldest, origin, &mut |handle, _| {
                    assert!(table.shards.iter().all(|shard| shard.try_lock().is_ok()));
                    handles.push(handle);
                });
            }
            let expected: Vec<_> = [1, 100_002].into_iter().chain(2..=count as u64).collect();
            assert_eq!(handles, expected);
        });
    }
}
