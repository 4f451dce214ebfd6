#![expect(
    clippy::disallowed_types,
    reason = "the one place that wraps the infallibly growing HashTable and leaves its growth out"
)]

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::mem;

use hashbrown::{HashTable, TryReserveError};

use super::FoldState;
use crate::adapters::HostSource;
use crate::error::HostError;
use crate::rejected::Rejected;

/// A hash map in host memory of `A`, whose every growth can be refused.
///
/// A refused call leaves the map as it was and returns key and value. Replacing a value and removing need no memory.
/// The order of iteration is undefined. The default hasher, [`FoldState`], has no protection against chosen keys.
pub struct TryMap<K, V, A: HostSource, S = FoldState> {
    table: HashTable<(K, V), A>,
    hasher: S,
}

impl<K, V, A: HostSource> TryMap<K, V, A> {
    /// An empty map.
    pub const fn new_in(allocator: A) -> Self {
        Self::with_hasher_in(FoldState, allocator)
    }
}

impl<K, V, A: HostSource, S> TryMap<K, V, A, S> {
    /// An empty map, which hashes with `hasher`.
    pub const fn with_hasher_in(hasher: S, allocator: A) -> Self {
        Self { table: HashTable::new_in(allocator), hasher }
    }

    /// The number of keys.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True without keys.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many keys the block has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Bytes of its block; 0 without one.
    #[inline]
    #[must_use]
    pub fn allocation_size(&self) -> usize {
        self.table.allocation_size()
    }

    /// The allocator of the block.
    #[inline]
    pub fn allocator(&self) -> &A {
        self.table.allocator()
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> + Clone {
        self.table.iter().map(|(key, value)| (key, value))
    }

    /// All values.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + Clone {
        self.table.iter().map(|(_, value)| value)
    }

    /// Removes everything; the iterator drops the rest. Keeps the block.
    pub fn drain(&mut self) -> impl ExactSizeIterator<Item = (K, V)> {
        self.table.drain()
    }

    /// Keeps the keys for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.table.retain(|(key, value)| keep(key, value));
    }

    /// Drops all keys and values. Keeps the block.
    pub fn clear(&mut self) {
        if mem::needs_drop::<(K, V)>() {
            // hashbrown's own `clear` would forget those after one that panics.
            self.table.drain().for_each(drop);
        } else {
            self.table.clear();
        }
    }
}

impl<K, V, A: HostSource, S> Drop for TryMap<K, V, A, S> {
    /// hashbrown's own would leak the block where a destructor panics.
    fn drop(&mut self) {
        self.clear();
    }
}

impl<K: Eq + Hash, V, A: HostSource, S: BuildHasher> TryMap<K, V, A, S> {
    /// The value of `key`.
    #[inline]
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.table.find(self.hasher.hash_one(key), |(k, _)| k.borrow() == key).map(|(_, value)| value)
    }

    /// The value of `key`, mutable.
    #[inline]
    #[must_use]
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.table.find_mut(self.hasher.hash_one(key), |(k, _)| k.borrow() == key).map(|(_, value)| value)
    }

    /// True when `key` is there.
    #[inline]
    #[must_use]
    pub fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Sets the value of `key`, and returns the former one. The stored key stays.
    ///
    /// # Errors
    /// For a new key, returned with the value: the allocator's refusal; [`HostError::TooLarge`] above `isize::MAX`
    /// bytes.
    pub fn try_insert(&mut self, key: K, value: V) -> Result<Option<V>, Rejected<(K, V), HostError>> {
        let hash = self.hasher.hash_one(&key);
        if let Some((_, old)) = self.table.find_mut(hash, |(k, _)| *k == key) {
            return Ok(Some(mem::replace(old, value)));
        }
        if let Err(error) = self.try_reserve(1) {
            return Err(Rejected { value: (key, value), error });
        }
        let Self { table, hasher } = self;
        table.insert_unique(hash, (key, value), |(k, _)| hasher.hash_one(k));
        Ok(None)
    }

    /// The value of `key`; for a new key, the one that `make` returns.
    ///
    /// # Errors
    /// As [`try_insert`](TryMap::try_insert), with the key, before `make` is called.
    pub fn try_get_or_insert_with(
        &mut self,
        key: K,
        make: impl FnOnce(&K) -> V,
    ) -> Result<&mut V, Rejected<K, HostError>> {
        let hash = self.hasher.hash_one(&key);
        let Self { table, hasher } = self;
        let table = match table.find_entry(hash, |(k, _)| *k == key) {
            Ok(found) => return Ok(&mut found.into_mut().1),
            Err(absent) => absent.into_table(),
        };
        if let Err(error) = reserve(table, hasher, 1) {
            return Err(Rejected { value: key, error });
        }
        let value = make(&key);
        Ok(&mut table.insert_unique(hash, (key, value), |(k, _)| hasher.hash_one(k)).into_mut().1)
    }

    /// Removes `key` and returns its value.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let found = self.table.find_entry(self.hasher.hash_one(key), |(k, _)| k.borrow() == key).ok()?;
        Some(found.remove().0.1)
    }

    /// Room for `additional` new keys.
    ///
    /// # Errors
    /// As [`try_insert`](TryMap::try_insert).
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), HostError> {
        reserve(&mut self.table, &self.hasher, additional)
    }
}

fn reserve<K: Hash, V, A: HostSource, S: BuildHasher>(
    table: &mut HashTable<(K, V), A>,
    hasher: &S,
    additional: usize,
) -> Result<(), HostError> {
    let outcome = table.try_reserve(additional, |(key, _)| hasher.hash_one(key));
    outcome.map_err(|refused| match refused {
        TryReserveError::AllocError { layout } => table.allocator().refusal(layout),
        TryReserveError::CapacityOverflow => HostError::TooLarge,
    })
}

impl<K: fmt::Debug, V: fmt::Debug, A: HostSource, S> fmt::Debug for TryMap<K, V, A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
