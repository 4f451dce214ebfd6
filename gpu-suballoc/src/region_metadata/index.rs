//! An index of the records of shards' regions: only the shard's thread may write a record's number at their place.
//!
//! A hash table whose chains run through the records, and a filter in front of it: a free of a region without a record costs one
//! relaxed load.

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::sync::atomic::{AtomicU32, Ordering};

use super::record::{RegionRecord, RootRecord};
use super::table::RecordTable;
use crate::growable_vec::GrowableVec;
use crate::id::{NO_RECORD, RegionSlot};

/// The number of records in each of 256 sets of keys.
pub(super) struct KeyFilter([AtomicU32; 256]);

impl KeyFilter {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 256])
    }

    fn cell(&self, key: RegionSlot) -> Option<&AtomicU32> {
        self.0.get((hash(key) >> 24) as usize)
    }

    pub(super) fn may_have(&self, key: RegionSlot) -> bool {
        self.cell(key)
            .is_some_and(|count| count.load(Ordering::Relaxed) != 0)
    }

    /// Call it before the record is inserted.
    pub(super) fn add(&self, key: RegionSlot) {
        if let Some(count) = self.cell(key) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Call it after the record is removed.
    pub(super) fn remove(&self, key: RegionSlot) {
        if let Some(count) = self.cell(key) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Buckets of record numbers.
pub(super) struct RecordIndex {
    pub(super) buckets: GrowableVec<u32>,
    count: u32,
}

impl RecordIndex {
    const FIRST: u32 = 64;
    const MAX_BUCKETS: u32 = 1 << 24;

    pub(super) const fn new() -> Self {
        Self {
            buckets: GrowableVec::new(),
            count: 0,
        }
    }

    /// What to allocate before the next insertion; past [`RecordIndex::MAX_BUCKETS`] chains become longer instead.
    pub(super) fn missing_capacity(&self) -> Option<Layout> {
        let capacity = self.buckets.capacity();
        if self.count < capacity || capacity >= Self::MAX_BUCKETS {
            return None;
        }
        GrowableVec::<u32>::layout((capacity * 2).max(Self::FIRST))
    }

    /// Distributes the records over the new block.
    pub(super) fn spread(&mut self, table: &mut RecordTable) {
        let old = self.buckets.len();
        while self.buckets.push(NO_RECORD).is_ok() {}
        for bucket in 0..old {
            let mut number = self.replace(bucket, NO_RECORD);
            while let Some(RegionRecord::Root(root)) = table.get_mut(number) {
                let next = root.next;
                self.link(number, root);
                number = next;
            }
        }
    }

    pub(super) fn insert(&mut self, number: u32, table: &mut RecordTable) {
        if let Some(RegionRecord::Root(root)) = table.get_mut(number) {
            self.link(number, root);
            self.count += 1;
        }
    }

    pub(super) fn find(&self, key: RegionSlot, table: &RecordTable) -> Option<u32> {
        let mut number = *self.buckets.as_slice().get(self.bucket(key) as usize)?;
        while let Some(RegionRecord::Root(root)) = table.get(number) {
            if root.key == key {
                return Some(number);
            }
            number = root.next;
        }
        None
    }

    pub(super) fn remove(&mut self, key: RegionSlot, table: &mut RecordTable) {
        let bucket = self.bucket(key);
        let mut number = self.replace(bucket, NO_RECORD);
        while let Some(RegionRecord::Root(root)) = table.get_mut(number) {
            let next = root.next;
            if root.key == key {
                root.next = NO_RECORD;
                self.count -= 1;
            } else {
                self.link(number, root);
            }
            number = next;
        }
    }

    fn link(&mut self, number: u32, root: &mut RootRecord) {
        root.next = self.replace(self.bucket(root.key), number);
    }

    /// Buckets are a power of two.
    fn bucket(&self, key: RegionSlot) -> u32 {
        hash(key) & self.buckets.len().wrapping_sub(1)
    }

    fn replace(&mut self, bucket: u32, number: u32) -> u32 {
        self.buckets
            .as_mut_slice()
            .get_mut(bucket as usize)
            .map_or(NO_RECORD, |head| core::mem::replace(head, number))
    }
}

fn hash(key: RegionSlot) -> u32 {
    let place = u64::from(key.place.as_raw()) << 32 | u64::from(key.slot);
    let mixed =
        (place ^ u64::from(key.generation).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}
