//! Records of regions whose place has no room for a record's number: those of a shard, whose tables nobody else may touch.
//!
//! A chained hash table through the records themselves, and in front of it a filter that answers "certainly none" by one
//! relaxed load: the only thing that an ordinary free of such a region pays.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use super::array::{Array, Spare};
use super::record::{Key, NIL, Record, Root};
use super::table::Table;

/// How many records each of 256 sets of keys has.
pub(super) struct Filter([AtomicU32; 256]);

impl Filter {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 256])
    }

    fn cell(&self, key: Key) -> Option<&AtomicU32> {
        self.0.get((hash(key) >> 24) as usize)
    }

    pub(super) fn may_have(&self, key: Key) -> bool {
        self.cell(key).is_some_and(|count| count.load(Ordering::Relaxed) != 0)
    }

    /// Before the record is there.
    pub(super) fn add(&self, key: Key) {
        if let Some(count) = self.cell(key) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// After it is gone.
    pub(super) fn remove(&self, key: Key) {
        if let Some(count) = self.cell(key) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Buckets of record numbers.
pub(super) struct Index {
    buckets: Array<u32>,
    count: u32,
}

impl Index {
    const FIRST: u32 = 64;
    const MOST: u32 = 1 << 24;

    pub(super) const fn new() -> Self {
        Self { buckets: Array::new(), count: 0 }
    }

    /// The capacity to be supplied before another key goes in; past [`Index::MOST`] chains become longer instead.
    pub(super) fn lacks(&self) -> Option<u32> {
        let capacity = self.buckets.capacity();
        (self.count >= capacity && capacity < Self::MOST).then(|| (capacity * 2).max(Self::FIRST))
    }

    pub(super) fn array(&mut self) -> &mut Array<u32> {
        &mut self.buckets
    }

    /// After another block was supplied: spreads what there is over it.
    pub(super) fn spread(&mut self, table: &mut Table) {
        let old = self.buckets.len();
        while self.buckets.push(NIL).is_ok() {}
        for bucket in 0..old {
            let mut number = self.replace(bucket, NIL);
            while let Some(Record::Root(root)) = table.get_mut(number) {
                let next = root.next;
                self.link(number, root);
                number = next;
            }
        }
    }

    pub(super) fn insert(&mut self, number: u32, table: &mut Table) {
        if let Some(Record::Root(root)) = table.get_mut(number) {
            self.link(number, root);
            self.count += 1;
        }
    }

    pub(super) fn find(&self, key: Key, table: &Table) -> Option<u32> {
        let mut number = *self.buckets.as_slice().get(self.bucket(key) as usize)?;
        while let Some(Record::Root(root)) = table.get(number) {
            if root.key == key {
                return Some(number);
            }
            number = root.next;
        }
        None
    }

    pub(super) fn remove(&mut self, key: Key, table: &mut Table) {
        let bucket = self.bucket(key);
        let mut number = self.replace(bucket, NIL);
        while let Some(Record::Root(root)) = table.get_mut(number) {
            let next = root.next;
            if root.key == key {
                root.next = NIL;
                self.count -= 1;
            } else {
                self.link(number, root);
            }
            number = next;
        }
    }

    fn link(&mut self, number: u32, root: &mut Root) {
        root.next = self.replace(self.bucket(root.key), number);
    }

    /// Buckets are a power of two.
    fn bucket(&self, key: Key) -> u32 {
        hash(key) & self.buckets.len().wrapping_sub(1)
    }

    fn replace(&mut self, bucket: u32, number: u32) -> u32 {
        self.buckets.as_mut_slice().get_mut(bucket as usize).map_or(NIL, |head| core::mem::replace(head, number))
    }

    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        self.buckets.dismantle()
    }
}

fn hash(key: Key) -> u32 {
    let place = u64::from(key.place) << 32 | u64::from(key.slot);
    let mixed = (place ^ u64::from(key.generation).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}
