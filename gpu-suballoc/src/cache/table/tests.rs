use std::alloc::System;
use std::boxed::Box;
use std::vec::Vec;

use alloc_core::FromGlobalAlloc;

use super::*;
use crate::cache::key::ShaderKey;
use crate::cache::ref_records::{self, RefAttempt, RefRecord, RefRecords};
use crate::sync::AtomicU32;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

fn mixed(number: u32) -> u64 {
    u64::from(number)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(17)
        .wrapping_mul(0xD1B5_4A32_D192_ED03)
}

/// A made-up block address for this number; never read.
fn block(number: u32) -> NonNull<ShaderHeader> {
    NonNull::new(core::ptr::without_provenance_mut((number as usize + 1) * 8)).expect("not 0")
}

fn number(block: NonNull<ShaderHeader>) -> u32 {
    (block.addr().get() / 8 - 1) as u32
}

/// The number of the block that a place names.
fn named(place: &BucketPlace) -> Option<u32> {
    NonNull::new(place.load(Acquire)).map(number)
}

fn is_there(tables: &TableList, number: u32) -> bool {
    tables
        .search(mixed(number), |place| {
            (named(place) == Some(number)).then_some(())
        })
        .is_some()
}

fn grown(tables: &TableList, hash_of: fn(u32) -> u64) {
    let fresh = NewTable::new(&SYSTEM, tables.next_size()).expect("memory of the system");
    assert!(
        tables
            .replace(fresh, |block| hash_of(number(block)))
            .is_ok()
    );
}

fn end(mut tables: TableList) {
    while let Some(table) = tables.pop_table() {
        table.free(&SYSTEM);
    }
}

#[test]
fn h68_every_entry_is_found_after_each_growth() {
    let tables = TableList::new();
    assert_eq!(tables.search(mixed(0), named), None);
    let count = if cfg!(miri) { 200 } else { 10_000 };
    for number in 0..count {
        if !tables.has_room(number as usize) {
            grown(&tables, mixed);
            assert!((0..number).all(|there| is_there(&tables, there)));
        }
        assert!(tables.put(mixed(number), block(number)));
    }
    assert!((0..count).all(|there| is_there(&tables, there)));
    end(tables);
}

#[test]
fn who_is_in_an_older_table_finds_nothing_there_and_goes_on_to_the_newer() {
    let tables = TableList::new();
    grown(&tables, mixed);
    assert!(tables.put(mixed(5), block(5)) && is_there(&tables, 5));
    let older = tables.current().expect("one was made");
    let mut looks = 0;
    // The search begins in the older table, which is replaced while the first place is read.
    let found = tables.search(mixed(5), |place| {
        looks += 1;
        if looks == 1 {
            grown(&tables, mixed);
        }
        named(place)
    });
    assert_eq!((found, looks), (Some(5), 2));
    assert_eq!(older.buckets().flat_map(Bucket::blocks).count(), 0);
    end(tables);
}

#[test]
fn h69_misses_stay_short_whatever_came_and_went() {
    const NUMBERS: u32 = if cfg!(miri) { 500 } else { 50_000 };
    let tables = TableList::new();
    grown(&tables, mixed);
    for number in 0..NUMBERS {
        if number >= 40 {
            tables.remove(mixed(number - 40), block(number - 40));
        }
        assert!(tables.put(mixed(number), block(number)));
    }
    for number in NUMBERS - 40..NUMBERS {
        tables.remove(mixed(number), block(number));
    }
    // No bucket keeps an overflow count.
    let table = tables.current().expect("one was made");
    let left: Vec<bool> = table
        .buckets()
        .map(|bucket| bucket.search(HashTag::new(0), &mut |_| None::<()>) == Err(true))
        .collect();
    assert!(!left.contains(&true));
    end(tables);
}

#[test]
fn one_home_for_all_costs_time_and_loses_nothing() {
    const fn same(_: u32) -> u64 {
        7 << 56
    }
    let tables = TableList::new();
    for number in 0..50 {
        if !tables.has_room(number as usize) {
            grown(&tables, same);
        }
        assert!(tables.put(same(number), block(number)));
    }
    let mut all = Vec::new();
    let none = tables.search(same(0), |place| {
        all.extend(named(place));
        None::<()>
    });
    all.sort_unstable();
    assert!(none.is_none() && all.iter().copied().eq(0..50));
    (0..50).for_each(|number| tables.remove(same(number), block(number)));
    assert_eq!(tables.search(same(0), named), None);
    end(tables);
}

fn removed(bucket: &Bucket, sought: HashTag, block: NonNull<ShaderHeader>) -> bool {
    let found = bucket.find(sought, block.as_ptr());
    found.map(OccupiedPlace::clear).is_some()
}

fn found(bucket: &Bucket, hash: u64) -> (Vec<u32>, bool) {
    let mut all = Vec::new();
    let Err(more) = bucket.search(HashTag::new(hash), &mut |place| {
        all.extend(named(place));
        None::<()>
    }) else {
        return (all, false);
    };
    (all, more)
}

#[test]
fn seven_fit_and_each_is_found_by_its_tag_alone() {
    let bucket = Bucket::default();
    let hash = |number: u64| number << 60;
    for number in 0..7 {
        assert!(bucket.put(HashTag::new(hash(number)), block(number as u32)));
    }
    assert!(!bucket.put(HashTag::new(hash(7)), block(7)));
    for number in 0..7 {
        assert_eq!(
            found(&bucket, hash(number)),
            ([number as u32].to_vec(), false)
        );
    }
    assert_eq!(found(&bucket, hash(7)), (Vec::new(), false));
    // A tag of 0 would mean an empty place.
    assert_eq!(found(&bucket, 1 << 56).0, [0]);
    let third = HashTag::new(hash(3));
    assert!(removed(&bucket, third, block(3)) && !removed(&bucket, third, block(3)));
    assert_eq!(found(&bucket, hash(3)).0, []);
    assert!(bucket.put(HashTag::new(hash(7)), block(7)));
    assert_eq!(found(&bucket, hash(7)).0, [7]);
    bucket.retire();
    assert_eq!(found(&bucket, hash(7)).0, []);
}

#[test]
fn equal_hashes_are_all_offered_and_whoever_passed_is_looked_for_further_on() {
    let bucket = Bucket::default();
    assert!(
        bucket.put(HashTag::new(5 << 56), block(1)) && bucket.put(HashTag::new(5 << 56), block(2))
    );
    assert_eq!(found(&bucket, 5 << 56), ([1, 2].to_vec(), false));
    bucket.count_passed();
    assert!(found(&bucket, 5 << 56).1);
    bucket.uncount_passed();
    assert!(!found(&bucket, 5 << 56).1);
    // A saturated count never decreases.
    (0..300).for_each(|_| bucket.count_passed());
    (0..300).for_each(|_| bucket.uncount_passed());
    assert!(found(&bucket, 5 << 56).1 && found(&bucket, 5 << 56).0.len() == 2);
}

/// A new shader lies where a removed one lay. A lookup that read the old shader's place must read the new shader through the new pointer.
/// Only miri can tell the pointers apart.
#[test]
fn what_is_held_is_what_lies_there_now() {
    let front = |low| ShaderHeader {
        key: ShaderKey {
            device: 1,
            low,
            high: 0,
        },
        number: 0,
        touched: AtomicU32::new(0),
    };
    let made = |low| NonNull::from(Box::leak(Box::new(front(low))));
    // SAFETY: created by `made`, freed once.
    let gone = |block: NonNull<ShaderHeader>| drop(unsafe { Box::from_raw(block.as_ptr()) });
    let (records, bucket, sought) = (RefRecords::new(), Bucket::default(), HashTag::new(1 << 56));
    let mut record = RefRecord::default();
    assert!(records.put(0, NonNull::from(&mut record)));
    let mut again = 0;
    for _ in 0..20 {
        let old = made(1);
        assert!(bucket.put(sought, old));
        let place = bucket
            .find(sought, old.as_ptr())
            .expect("just put there")
            .place;
        let word =
            ref_records::publish(&records, records.of(Some(0)), old).expect("a word is free");
        assert!(removed(&bucket, sought, old));
        gone(old);
        let new = made(2);
        assert!(bucket.put(sought, new));
        match ref_records::confirm(word, place, old) {
            RefAttempt::Yes(block, at) if old == new => {
                // SAFETY: it exists until it is freed below.
                assert_eq!(unsafe { block.as_ref() }.key.low, 2);
                // SAFETY: referenced there, released once.
                assert!(!unsafe { ref_records::release(at, block) });
                again += 1;
            }
            RefAttempt::Gone(_) if old != new => assert!(!records.name(old), "it was let go"),
            _ => panic!("held where the place says another, or not held where it says the same"),
        }
        assert!(removed(&bucket, sought, new) && !records.name(new));
        gone(new);
    }
    assert!(again > 0, "memory never came again");
}

/// The writer reads only the home bucket, whose overflow count tells about blocks in later buckets and falls when they are removed.
#[test]
fn h69_a_bucket_says_whether_others_passed_by_and_whether_they_left() {
    let tables = TableList::new();
    grown(&tables, mixed);
    // All have the same home bucket and different tags.
    let hash = |number: u32| u64::from(number + 1) << 56 | 3;
    for number in 0..30 {
        assert!(tables.put(hash(number), block(number)));
    }
    assert!((0..31).all(|number| !tables.is_without(hash(number))));
    for number in 0..30 {
        tables.remove(hash(number), block(number));
    }
    for bucket in 0..FIRST as u64 {
        assert!((0..31).all(|number| tables.is_without(hash(number) ^ 3 ^ bucket)));
    }
    end(tables);
}
