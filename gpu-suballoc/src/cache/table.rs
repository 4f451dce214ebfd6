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

/// In front of the buckets.
#[repr(C, align(64))]
struct TableHeader {
    mask: usize,
    older: AtomicPtr<TableHeader>,
}

/// The newest table and all older ones.
pub(super) struct TableList {
    current: AtomicPtr<TableHeader>,
}

/// A table that nobody reads yet.
pub(super) struct NewTable(NonNull<TableHeader>);

// SAFETY: heads and buckets are made of atomics and of a number that never changes.
unsafe impl Send for TableList {}
// SAFETY: as above.
unsafe impl Sync for TableList {}
// SAFETY: as above; a block that one thread made and another one takes in.
unsafe impl Send for NewTable {}

impl TableList {
    /// None yet: everything is a miss.
    pub(super) const fn new() -> Self {
        Self {
            current: AtomicPtr::new(null_mut()),
        }
    }

    fn current(&self) -> Option<TableRef<'_>> {
        // A table lives as long as this value, which only `pop_table` empties.
        NonNull::new(self.current.load(Acquire)).map(|head| TableRef {
            head,
            lives: PhantomData,
        })
    }

    /// Offers the places of blocks that may have this hash, until `each` says that one is meant. Takes no lock.
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
            // What was moved is in the newer table by now.
            let newer = self.current()?;
            if newer.head == table.head {
                return None;
            }
            table = newer;
        }
    }

    /// True where no block of this hash is in the newest table; false where that takes a [`search`](Self::search) to see. The writer's.
    #[inline(always)]
    pub(super) fn is_without(&self, hash: u64) -> bool {
        self.current()
            .is_none_or(|table| table.bucket(hash as usize).is_without(HashTag::new(hash)))
    }

    /// True where another entry may be put in.
    pub(super) fn has_room(&self, entries: usize) -> bool {
        self.current()
            .is_some_and(|table| entries < max_entries(table.mask()))
    }

    /// How many buckets the next table is to have.
    pub(super) fn next_size(&self) -> usize {
        self.current()
            .map_or(FIRST, |table| (table.mask() + 1).saturating_mul(2))
    }

    /// Puts a block in, which is there for readers when this returns. The writer's, after [`has_room`](Self::has_room).
    pub(super) fn put(&self, hash: u64, block: NonNull<ShaderHeader>) -> bool {
        self.current().is_some_and(|table| table.put(hash, block))
    }

    /// Takes a block out. The writer's.
    pub(super) fn remove(&self, hash: u64, block: NonNull<ShaderHeader>) {
        if let Some(found) = self.find(hash, block) {
            found.remove();
        }
    }

    /// Where a block is. The writer's.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, block: NonNull<ShaderHeader>) -> Option<TablePlace<'_>> {
        self.current()?.find(hash, block)
    }

    /// From now on this one. `hash_of` gives each block's hash. The writer's; gives `fresh` back where it is too small by now.
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

    /// How many buckets suffice for so many entries and one more, where that is less than there are.
    pub(super) fn smaller_size(&self, entries: usize) -> Option<usize> {
        let mut buckets = FIRST;
        while entries >= max_entries(buckets - 1) {
            buckets = buckets.checked_mul(2)?;
        }
        let now = self.current()?.mask() + 1;
        (buckets < now).then_some(buckets)
    }

    /// Moves into a smaller table, of a [`smaller_size`](Self::smaller_size). Nobody else looks.
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

    /// The newest of those that were replaced goes. Nobody else looks.
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

    /// All tables go. Nobody reads any more.
    pub(super) fn pop_table(&mut self) -> Option<NewTable> {
        let newest = NonNull::new(*self.current.get_mut())?;
        // SAFETY: a table of this value; `&mut` says that nobody else looks.
        *self.current.get_mut() = unsafe { newest.as_ref() }.older.load(Relaxed);
        Some(NewTable(newest))
    }
}

/// At most half full.
const fn max_entries(mask: usize) -> usize {
    (mask + 1).saturating_mul(PLACES) / 2
}

/// One of the tables: a pointer to all of its block, which a reference to the head alone would not be.
#[derive(Clone, Copy)]
struct TableRef<'t> {
    head: NonNull<TableHeader>,
    lives: PhantomData<&'t TableHeader>,
}

impl<'t> TableRef<'t> {
    #[inline(always)]
    fn head(self) -> &'t TableHeader {
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
        // Never: half of it is empty. What passed by is noted, which costs a look and no more.
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

/// Where a block is in a table. The writer's, until it changes the table.
pub(super) struct TablePlace<'t> {
    table: TableRef<'t>,
    /// Its home bucket, and how many it passed by on the way from there.
    home: usize,
    passed: usize,
    found: OccupiedPlace<'t>,
}

impl TablePlace<'_> {
    #[inline(always)]
    pub(super) fn place(&self) -> &BucketPlace {
        self.found.place
    }

    /// Takes the block out.
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
    /// An empty table of so many buckets, a power of two.
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
        // SAFETY: made by `new`, read by nobody.
        layout(unsafe { self.0.as_ref() }.mask.wrapping_add(1))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.layout().map_or(0, |layout| layout.size() as u64)
    }

    pub(super) fn free(self, memory: &dyn HostAllocator) {
        if let Some(layout) = self.layout() {
            // SAFETY: taken from the same allocator with this layout and scope.
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
