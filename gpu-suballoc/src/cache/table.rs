//! The table: buckets in one block, replaced as a whole when it is half full.
//!
//! ```text
//!   current -> [ head | bucket 0 | bucket 1 | ..   2^n ] --older--> [ .. 2^(n-1) ] --older--> ..
//! ```
//! A thread may still read an older table, and references may name its places. The cache therefore keeps old tables until it is dropped:
//! together they are smaller than the newest. Their places are empty, so a lookup that finds nothing there continues in a newer table.
//! Deleting clears places, and leaves nothing that a later search must skip (H69).

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::bucket::{Bucket, BucketPlace, HashTag, OccupiedPlace, PLACES};
use super::entry::ShaderHeader;
use crate::sync::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Buckets of the first table.
const FIRST: usize = 16;

/// Precedes the buckets.
#[repr(C, align(64))]
struct TableHeader {
    mask: usize,
    older: AtomicPtr<TableHeader>,
}

pub(super) struct TableList {
    current: AtomicPtr<TableHeader>,
}

/// A table that no thread reads yet.
pub(super) struct NewTable(NonNull<TableHeader>);

// SAFETY: heads and buckets consist of atomics and a constant number.
unsafe impl Send for TableList {}
// SAFETY: as above.
unsafe impl Sync for TableList {}
// SAFETY: as above; one thread may create the block and another insert it.
unsafe impl Send for NewTable {}

impl TableList {
    /// No table yet: every lookup misses.
    pub(super) const fn new() -> Self {
        Self {
            current: AtomicPtr::new(null_mut()),
        }
    }

    fn current(&self) -> Option<TableRef<'_>> {
        // A table lives as long as this value; only `pop_table` and `pop_older` remove tables, by `&mut`.
        NonNull::new(self.current.load(Acquire)).map(|head| TableRef {
            head,
            lives: PhantomData,
        })
    }

    /// Calls `each` with the places that may have this hash, until it returns a result. Acquires no lock.
    #[inline(always)]
    pub(super) fn search<R>(
        &self,
        hash: u64,
        mut each: impl FnMut(&BucketPlace) -> Option<R>,
    ) -> Option<R> {
        let mut table = self.current()?;
        loop {
            if let Some(found) = table.search(hash, &mut each) {
                return Some(found);
            }
            // Moved blocks are in the newer table by now.
            let newer = self.current()?;
            if newer.head == table.head {
                return None;
            }
            table = newer;
        }
    }

    /// True if no block of this hash is in the newest table; false if only a [`search`](Self::search) can tell. Requires the lock.
    #[inline(always)]
    pub(super) fn is_without(&self, hash: u64) -> bool {
        self.current()
            .is_none_or(|table| table.bucket(hash as usize).is_without(HashTag::new(hash)))
    }

    /// True if one entry more than `entries` fits.
    pub(super) fn has_room(&self, entries: usize) -> bool {
        self.current()
            .is_some_and(|table| entries < max_entries(table.mask()))
    }

    /// Number of buckets of the next table.
    pub(super) fn next_size(&self) -> usize {
        self.current()
            .map_or(FIRST, |table| (table.mask() + 1).saturating_mul(2))
    }

    /// Puts a block in; readers find it when this returns. Requires the lock, and [`has_room`](Self::has_room).
    pub(super) fn put(&self, hash: u64, block: NonNull<ShaderHeader>) -> bool {
        self.current().is_some_and(|table| table.put(hash, block))
    }

    /// Removes a block. Requires the lock.
    pub(super) fn remove(&self, hash: u64, block: NonNull<ShaderHeader>) {
        if let Some(found) = self.find(hash, block) {
            found.remove();
        }
    }

    /// The place of a block. Requires the lock.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, block: NonNull<ShaderHeader>) -> Option<TablePlace<'_>> {
        self.current()?.find(hash, block)
    }

    /// Makes `fresh` the newest table and moves all blocks to it; `hash_of` returns a block's hash. `Err` with `fresh` if it is not larger
    /// than the present table. Requires the lock.
    pub(super) fn replace(
        &self,
        fresh: NewTable,
        mut hash_of: impl FnMut(NonNull<ShaderHeader>) -> u64,
    ) -> Result<(), NewTable> {
        let old = self.current.load(Relaxed);
        let table = TableRef {
            head: fresh.0,
            lives: PhantomData,
        };
        let older = self.current();
        if let Some(older) = older {
            if older.mask() >= table.mask() {
                return Err(fresh);
            }
            older.buckets().flat_map(Bucket::blocks).for_each(|block| {
                table.put(hash_of(block), block);
            });
        }
        table.head().older.store(old, Relaxed);
        self.current.store(fresh.0.as_ptr(), Release);
        if let Some(older) = older {
            older.buckets().for_each(Bucket::retire);
        }
        Ok(())
    }

    /// Number of buckets for one entry more than `entries`, if smaller than the present number.
    pub(super) fn smaller_size(&self, entries: usize) -> Option<usize> {
        let mut buckets = FIRST;
        while entries >= max_entries(buckets - 1) {
            buckets = buckets.checked_mul(2)?;
        }
        let now = self.current()?.mask() + 1;
        (buckets < now).then_some(buckets)
    }

    /// Moves all blocks into a smaller table, of a [`smaller_size`](Self::smaller_size). `&mut` excludes readers.
    pub(super) fn shrink(
        &mut self,
        fresh: NewTable,
        mut hash_of: impl FnMut(NonNull<ShaderHeader>) -> u64,
    ) {
        let table = TableRef {
            head: fresh.0,
            lives: PhantomData,
        };
        if let Some(old) = self.current() {
            old.buckets().flat_map(Bucket::blocks).for_each(|block| {
                table.put(hash_of(block), block);
            });
        }
        table.head().older.store(*self.current.get_mut(), Relaxed);
        *self.current.get_mut() = fresh.0.as_ptr();
    }

    /// Removes the newest of the replaced tables. `&mut` excludes readers.
    pub(super) fn pop_older(&mut self) -> Option<NewTable> {
        let newest = self.current()?;
        let older = NonNull::new(newest.head().older.load(Relaxed))?;
        let before = TableRef {
            head: older,
            lives: PhantomData,
        };
        let rest = before.head().older.load(Relaxed);
        newest.head().older.store(rest, Relaxed);
        Some(NewTable(older))
    }

    /// Removes the newest table. `&mut` excludes readers.
    pub(super) fn pop_table(&mut self) -> Option<NewTable> {
        let newest = NonNull::new(*self.current.get_mut())?;
        // SAFETY: a table of this value; `&mut` excludes other threads.
        *self.current.get_mut() = unsafe { newest.as_ref() }.older.load(Relaxed);
        Some(NewTable(newest))
    }
}

/// At most half full.
const fn max_entries(mask: usize) -> usize {
    (mask + 1).saturating_mul(PLACES) / 2
}

/// A pointer to a table's whole block; a reference to the head would cover the head alone.
#[derive(Clone, Copy)]
struct TableRef<'t> {
    head: NonNull<TableHeader>,
    lives: PhantomData<&'t TableHeader>,
}

impl<'t> TableRef<'t> {
    #[inline(always)]
    fn head(self) -> &'t TableHeader {
        // SAFETY: the table lives for `'t`.
        unsafe { self.head.as_ref() }
    }

    #[inline(always)]
    fn mask(self) -> usize {
        self.head().mask
    }

    /// The bucket of this number modulo the number of buckets.
    #[inline(always)]
    fn bucket(self, number: usize) -> &'t Bucket {
        let first = self.head.as_ptr().wrapping_add(1).cast::<Bucket>();
        // SAFETY: `mask + 1` buckets follow the head in its block; they were zeros at first.
        unsafe { &*first.wrapping_add(number & self.mask()) }
    }

    fn buckets(self) -> impl Iterator<Item = &'t Bucket> {
        (0..=self.mask()).map(move |number| self.bucket(number))
    }

    #[inline(always)]
    fn search<R>(self, hash: u64, each: &mut impl FnMut(&BucketPlace) -> Option<R>) -> Option<R> {
        let sought = HashTag::new(hash);
        let (mut number, mut left) = (hash as usize, self.mask());
        loop {
            match self.bucket(number).search(sought, each) {
                Ok(found) => return Some(found),
                Err(true) if left > 0 => {}
                Err(_) => return None,
            }
            number = number.wrapping_add(1);
            left -= 1;
        }
    }

    fn put(self, hash: u64, block: NonNull<ShaderHeader>) -> bool {
        let sought = HashTag::new(hash);
        let mut number = hash as usize;
        for _ in 0..=self.mask() {
            if self.bucket(number).put(sought, block) {
                return true;
            }
            self.bucket(number).count_passed();
            number = number.wrapping_add(1);
        }
        // Never: half of the table is empty. The overflow counts stay, and cost readers only time.
        false
    }

    #[inline(always)]
    fn find(self, hash: u64, block: NonNull<ShaderHeader>) -> Option<TablePlace<'t>> {
        let (sought, home) = (HashTag::new(hash), hash as usize);
        let mut passed = 0;
        while passed <= self.mask() {
            let bucket = self.bucket(home.wrapping_add(passed));
            if let Some(found) = bucket.find(sought, block.as_ptr()) {
                return Some(TablePlace {
                    table: self,
                    home,
                    passed,
                    found,
                });
            }
            passed += 1;
        }
        None
    }
}

/// A block's place in a table. Valid until the writer changes the table.
pub(super) struct TablePlace<'t> {
    table: TableRef<'t>,
    /// The home bucket, and the number of buckets from there that the block overflowed.
    home: usize,
    passed: usize,
    found: OccupiedPlace<'t>,
}

impl TablePlace<'_> {
    #[inline(always)]
    pub(super) fn place(&self) -> &BucketPlace {
        self.found.place
    }

    /// Removes the block.
    #[inline(always)]
    pub(super) fn remove(self) {
        self.found.clear();
        for step in 0..self.passed {
            self.table
                .bucket(self.home.wrapping_add(step))
                .uncount_passed();
        }
    }
}

impl NewTable {
    /// Creates an empty table; `buckets` is a power of two.
    pub(super) fn new(memory: &dyn HostAllocator, buckets: usize) -> Result<Self, AllocError> {
        let block = memory
            .allocate_zeroed(layout(buckets).ok_or(AllocError)?, Scope::Cache)?
            .cast::<TableHeader>();
        // SAFETY: the block is aligned and large enough for a head.
        unsafe {
            block.write(TableHeader {
                mask: buckets.wrapping_sub(1),
                older: AtomicPtr::new(null_mut()),
            })
        };
        Ok(Self(block))
    }

    fn layout(&self) -> Option<Layout> {
        // SAFETY: created by `new`; no other thread reads it.
        layout(unsafe { self.0.as_ref() }.mask.wrapping_add(1))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.layout().map_or(0, |layout| layout.size() as u64)
    }

    pub(super) fn free(self, memory: &dyn HostAllocator) {
        if let Some(layout) = self.layout() {
            // SAFETY: allocated by the same allocator with this layout and scope.
            unsafe { memory.deallocate(self.0.cast(), layout, Scope::Cache) };
        }
    }
}

fn layout(buckets: usize) -> Option<Layout> {
    let (both, behind) = Layout::new::<TableHeader>()
        .extend(Layout::array::<Bucket>(buckets).ok()?)
        .ok()?;
    (buckets.is_power_of_two() && behind == size_of::<TableHeader>()).then_some(both)
}

#[cfg(test)]
mod tests;
