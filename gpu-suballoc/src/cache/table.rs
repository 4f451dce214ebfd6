//! The table: buckets in one block, replaced as a whole when it is half full.
//!
//! ```text
//!   current -> [ head | bucket 0 | bucket 1 | ..   2^n ] --older--> [ .. 2^(n-1) ] --older--> ..
//! ```
//! A reader may still be in an older one, so those stay until the cache goes: all of them together are smaller than the newest. Deleting
//! clears places, so nothing is left behind that a later search would have to step over (H69).

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::bucket::{Bucket, SLOTS, Sought};
use crate::sync::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Buckets of the first table.
const FIRST: usize = 16;

/// In front of the buckets.
#[repr(C, align(64))]
struct Head {
    mask: usize,
    older: AtomicPtr<Head>,
}

/// The newest table and all older ones.
pub(super) struct Tables {
    current: AtomicPtr<Head>,
}

/// A table that nobody reads yet.
pub(super) struct Fresh(NonNull<Head>);

// SAFETY: heads and buckets are made of atomics and of a number that never changes.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}
// SAFETY: as above; a block that one thread made and another one takes in.
unsafe impl Send for Fresh {}

impl Tables {
    /// None yet: everything is a miss.
    pub(super) const fn new() -> Self {
        Self { current: AtomicPtr::new(null_mut()) }
    }

    fn current(&self) -> Option<Table<'_>> {
        // A table lives as long as this value, which only `take_all` empties.
        NonNull::new(self.current.load(Acquire)).map(|head| Table { head, lives: PhantomData })
    }

    /// Offers the entries that may have this hash, until `each` says that one is meant. Takes no lock.
    #[inline(always)]
    pub(super) fn search<R>(&self, hash: u64, mut each: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let table = self.current()?;
        let sought = Sought::new(hash);
        let mut place = hash as usize;
        for _ in 0..=table.mask() {
            match table.bucket(place).search(sought, &mut each) {
                Ok(found) => return Some(found),
                Err(false) => return None,
                Err(true) => place = place.wrapping_add(1),
            }
        }
        None
    }

    /// True where another entry may be put in.
    pub(super) fn has_room(&self, entries: usize) -> bool {
        self.current().is_some_and(|table| entries < most(table.mask()))
    }

    /// How many buckets the next table is to have.
    pub(super) fn next_size(&self) -> usize {
        self.current().map_or(FIRST, |table| (table.mask() + 1).saturating_mul(2))
    }

    /// Puts an entry in, which is there for readers when this returns. The writer's, after [`has_room`](Self::has_room).
    pub(super) fn put(&self, hash: u64, entry: u32) -> bool {
        self.current().is_some_and(|table| table.put(hash, entry))
    }

    /// Takes an entry out. The writer's.
    pub(super) fn take(&self, hash: u64, entry: u32) {
        if let Some(table) = self.current() {
            table.take(hash, entry);
        }
    }

    /// From now on this one. `hashes` gives each entry's hash. The writer's; gives `fresh` back where it is too small by now.
    pub(super) fn replace(&self, fresh: Fresh, mut hash_of: impl FnMut(u32) -> Option<u64>) -> Result<(), Fresh> {
        let old = self.current.load(Relaxed);
        let table = Table { head: fresh.0, lives: PhantomData };
        if let Some(older) = self.current() {
            if older.mask() >= table.mask() {
                return Err(fresh);
            }
            for place in 0..=older.mask() {
                for entry in older.bucket(place).entries() {
                    if let Some(hash) = hash_of(entry) {
                        table.put(hash, entry);
                    }
                }
            }
        }
        table.head().older.store(old, Relaxed);
        self.current.store(fresh.0.as_ptr(), Release);
        Ok(())
    }

    /// All tables go. Nobody reads any more.
    pub(super) fn take_all(&mut self) -> Option<Fresh> {
        let newest = NonNull::new(*self.current.get_mut())?;
        // SAFETY: a table of this value; `&mut` says that nobody else looks.
        *self.current.get_mut() = unsafe { newest.as_ref() }.older.load(Relaxed);
        Some(Fresh(newest))
    }
}

/// At most half full.
const fn most(mask: usize) -> usize {
    (mask + 1).saturating_mul(SLOTS) / 2
}

/// One of the tables: a pointer to all of its block, which a reference to the head alone would not be.
#[derive(Clone, Copy)]
struct Table<'t> {
    head: NonNull<Head>,
    lives: PhantomData<&'t Head>,
}

impl<'t> Table<'t> {
    #[inline(always)]
    fn head(self) -> &'t Head {
        // SAFETY: it lives that long.
        unsafe { self.head.as_ref() }
    }

    #[inline(always)]
    fn mask(self) -> usize {
        self.head().mask
    }

    /// The bucket at this number, of which only the lower bits count.
    #[inline(always)]
    fn bucket(self, number: usize) -> &'t Bucket {
        let first = self.head.as_ptr().wrapping_add(1).cast::<Bucket>();
        // SAFETY: `mask + 1` buckets lie behind the head, in one block, zeros at first.
        unsafe { &*first.wrapping_add(number & self.mask()) }
    }

    fn put(self, hash: u64, entry: u32) -> bool {
        let sought = Sought::new(hash);
        let mut place = hash as usize;
        for _ in 0..=self.mask() {
            if self.bucket(place).put(sought, entry) {
                return true;
            }
            self.bucket(place).passed();
            place = place.wrapping_add(1);
        }
        // Never: half of it is empty. What passed by is noted, which costs a look and no more.
        false
    }

    fn take(self, hash: u64, entry: u32) {
        let sought = Sought::new(hash);
        let home = hash as usize;
        let Some(steps) = (0..=self.mask()).find(|steps| self.bucket(home.wrapping_add(*steps)).take(sought, entry)) else {
            return;
        };
        (0..steps).for_each(|step| self.bucket(home.wrapping_add(step)).passed_back());
    }
}

impl Fresh {
    /// An empty table of so many buckets, a power of two.
    pub(super) fn new(memory: &dyn HostAllocator, buckets: usize) -> Result<Self, AllocError> {
        let block = memory.allocate_zeroed(layout(buckets).ok_or(AllocError)?, Scope::Cache)?.cast::<Head>();
        // SAFETY: the block is aligned and large enough for a head.
        unsafe { block.write(Head { mask: buckets.wrapping_sub(1), older: AtomicPtr::new(null_mut()) }) };
        Ok(Self(block))
    }

    pub(super) fn give_back(self, memory: &dyn HostAllocator) {
        // SAFETY: made by `new`, read by nobody.
        let buckets = unsafe { self.0.as_ref() }.mask.wrapping_add(1);
        if let Some(layout) = layout(buckets) {
            // SAFETY: taken from the same allocator with this layout and scope.
            unsafe { memory.deallocate(self.0.cast(), layout, Scope::Cache) };
        }
    }
}

fn layout(buckets: usize) -> Option<Layout> {
    let (both, behind) = Layout::new::<Head>().extend(Layout::array::<Bucket>(buckets).ok()?).ok()?;
    (buckets.is_power_of_two() && behind == size_of::<Head>()).then_some(both)
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::vec::Vec;

    use alloc_core::FromGlobalAlloc;

    use super::*;

    static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

    fn mixed(number: u32) -> u64 {
        u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17).wrapping_mul(0xD1B5_4A32_D192_ED03)
    }

    fn grown(tables: &Tables, hash_of: fn(u32) -> u64) {
        let fresh = Fresh::new(&SYSTEM, tables.next_size()).expect("memory of the system");
        assert!(tables.replace(fresh, |entry| Some(hash_of(entry))).is_ok());
    }

    fn end(mut tables: Tables) {
        while let Some(table) = tables.take_all() {
            table.give_back(&SYSTEM);
        }
    }

    #[test]
    fn h68_every_entry_is_found_after_each_growth() {
        let tables = Tables::new();
        assert_eq!(tables.search(mixed(0), Some), None);
        let count = if cfg!(miri) { 200 } else { 10_000 };
        for number in 0..count {
            if !tables.has_room(number as usize) {
                grown(&tables, mixed);
                assert!((0..number).all(|there| tables.search(mixed(there), |entry| (entry == there).then_some(())).is_some()));
            }
            assert!(tables.put(mixed(number), number));
        }
        assert!((0..count).all(|there| tables.search(mixed(there), |entry| (entry == there).then_some(())).is_some()));
        end(tables);
    }

    #[test]
    fn h69_misses_stay_short_whatever_came_and_went() {
        let tables = Tables::new();
        grown(&tables, mixed);
        for number in 0..50_000_u32 {
            if number >= 40 {
                tables.take(mixed(number - 40), number - 40);
            }
            assert!(tables.put(mixed(number), number));
        }
        for number in 49_960..50_000 {
            tables.take(mixed(number), number);
        }
        // All buckets are as if nothing had ever been in them.
        let table = tables.current().expect("one was made");
        let left: Vec<bool> = (0..=table.mask())
            .map(|place| table.bucket(place).search(Sought::new(0), &mut |_| None::<()>) == Err(true))
            .collect();
        assert!(!left.contains(&true));
        end(tables);
    }

    #[test]
    fn one_home_for_all_costs_time_and_loses_nothing() {
        const fn same(_: u32) -> u64 {
            7 << 32
        }
        let tables = Tables::new();
        for number in 0..50 {
            if !tables.has_room(number as usize) {
                grown(&tables, same);
            }
            assert!(tables.put(same(number), number));
        }
        let mut all = Vec::new();
        let none = tables.search(same(0), |entry| {
            all.push(entry);
            None::<()>
        });
        all.sort_unstable();
        assert!(none.is_none() && all.iter().copied().eq(0..50));
        (0..50).for_each(|number| tables.take(same(number), number));
        assert_eq!(tables.search(same(0), Some), None);
        end(tables);
    }

    fn found(bucket: &Bucket, hash: u64) -> (Vec<u32>, bool) {
        let mut all = Vec::new();
        let Err(more) = bucket.search(Sought::new(hash), &mut |entry| {
            all.push(entry);
            None::<()>
        }) else {
            return (all, false);
        };
        (all, more)
    }

    #[test]
    fn seven_fit_and_each_is_found_by_its_hash_alone() {
        let bucket = Bucket::default();
        let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for number in 0..7 {
            assert!(bucket.put(Sought::new(hash(number)), number as u32));
        }
        assert!(!bucket.put(Sought::new(hash(7)), 7));
        for number in 0..7 {
            assert_eq!(found(&bucket, hash(number)), ([number as u32].to_vec(), false));
        }
        assert_eq!(found(&bucket, hash(7)), (Vec::new(), false));
        assert!(bucket.take(Sought::new(hash(3)), 3) && !bucket.take(Sought::new(hash(3)), 3));
        assert_eq!(found(&bucket, hash(3)).0, []);
        assert!(bucket.put(Sought::new(hash(7)), 7));
        assert_eq!(found(&bucket, hash(7)).0, [7]);
    }

    #[test]
    fn equal_hashes_are_all_offered_and_whoever_passed_is_looked_for_further_on() {
        let bucket = Bucket::default();
        assert!(bucket.put(Sought::new(5 << 40), 1) && bucket.put(Sought::new(5 << 40), 2));
        assert_eq!(found(&bucket, 5 << 40), ([1, 2].to_vec(), false));
        bucket.passed();
        assert!(found(&bucket, 5 << 40).1);
        bucket.passed_back();
        assert!(!found(&bucket, 5 << 40).1);
        // A count that ran over sticks.
        (0..300).for_each(|_| bucket.passed());
        (0..300).for_each(|_| bucket.passed_back());
        assert!(found(&bucket, 5 << 40).1 && found(&bucket, 5 << 40).0.len() == 2);
    }
}
