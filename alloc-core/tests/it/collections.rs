//! The fallible collections: what they do, what they refuse, what a refusal leaves behind.

use std::collections::HashMap;
use std::fmt;

use crate::witness::Witness;
use alloc_core::{HostError, Scope, TryBox, TryMap, TryString, TryVec};
use proptest::prelude::*;

#[test]
fn m9_array_size_overflow_is_an_error() {
    let w = Witness::new();
    let s = || w.source();
    // usize::MAX / 8 + 1 eights wrap to 0; 4 GiB + 16 bytes become 16 where a size is cut to 32 bits.
    for len in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 8, isize::MAX as usize / 8 + 1] {
        assert_eq!(TryVec::<u64, _>::try_with_capacity_in(len, s()).unwrap_err(), HostError::TooLarge, "{len}");
        let mut v = TryVec::<u64, _>::new_in(s());
        v.try_push(1).unwrap();
        assert_eq!(v.try_reserve(len), Err(HostError::TooLarge));
        assert_eq!(v.try_reserve_exact(len), Err(HostError::TooLarge));
        assert_eq!(v.try_resize(len, 2), Err(HostError::TooLarge));
        assert_eq!(v, [1]);
        let mut m = TryMap::<u64, u64, _>::new_in(s());
        assert_eq!(m.try_reserve(len), Err(HostError::TooLarge));
    }
    assert_eq!(TryString::try_with_capacity_in(usize::MAX, s()).unwrap_err(), HostError::TooLarge);
    w.assert_empty();
    // A size that no 32-bit count could hold is asked for in full, and its refusal says so.
    if let Some(bytes) = 16_usize.checked_add(1_usize.checked_shl(32).unwrap_or(usize::MAX)) {
        let w = Witness::limited(1 << 20);
        let error = TryVec::<u8, _>::try_with_capacity_in(bytes, w.source()).unwrap_err();
        let scope = Scope::Object;
        assert_eq!(error, HostError::OutOfHostMemory { bytes, scope });
    }
    // Elements of size 0 need no memory, however many.
    let w = Witness::limited(0);
    let mut v = TryVec::<(), _>::new_in(w.source());
    v.try_resize(1000, ()).unwrap();
    assert_eq!(v.len(), 1000);
    assert_eq!(w.requests(), 0);
}

#[test]
fn a_value_taken_out_of_a_box_leaves_no_block() {
    let w = Witness::new();
    let b = TryBox::try_new_in(7_u64, w.source()).unwrap();
    assert_eq!((TryBox::into_inner(b), w.blocks()), (7, 0));
}

#[test]
fn a_box_of_size_zero_asks_nobody() {
    let w = Witness::limited(0);
    let b = TryBox::try_new_in([0_u64; 0], w.source()).unwrap();
    assert_eq!(b.as_ptr().addr() % align_of::<u64>(), 0);
    drop(b);
    let () = TryBox::into_inner(TryBox::try_new_in((), w.source()).unwrap());
    assert_eq!(w.requests(), 0);
}

#[test]
fn replacing_and_removing_take_no_memory() {
    let w = Witness::new();
    let mut map = TryMap::<u32, &str, _>::new_in(w.source());
    map.try_insert(0, "old").unwrap();
    w.set_limit(Some(0));
    assert_eq!(map.try_insert(0, "new").unwrap(), Some("old"));
    let there = map.try_get_or_insert_with(0, |_| unreachable!("it is there"));
    assert_eq!(there.unwrap(), &mut "new");
    assert_eq!((map.remove(&0), map.remove(&0)), (Some("new"), None));
}

#[test]
fn a_refused_format_keeps_its_reason_even_when_the_value_swallows_it() {
    struct Swallows;
    impl fmt::Display for Swallows {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let _ = f.write_str("0123456789abcdef");
            f.write_str("behind the gap")
        }
    }
    let w = Witness::new();
    let mut t = TryString::try_with_capacity_in(8, w.source()).unwrap();
    t.try_push_str("text").unwrap();
    w.refuse_in(0);
    assert!(t.try_write_fmt(format_args!("{Swallows}")).is_err_and(HostError::is_out_of_host_memory));
    assert_eq!(t.as_str(), "text");
    t.try_write_fmt(format_args!("{Swallows}")).unwrap();
    assert_eq!(t.as_str(), "text0123456789abcdefbehind the gap");
}

#[test]
fn text_is_text() {
    use std::fmt::Write as _;
    let w = Witness::new();
    let mut t = TryString::try_from_str_in("a, é, z", w.source()).unwrap();
    assert_eq!(t.capacity(), 8);
    t.truncate(4);
    assert_eq!(t.as_str(), "a, ", "the é stood across the cut");
    write!(t, "{}", 5).unwrap();
    assert_eq!(t, *"a, 5");
    assert_eq!(format!("{t:>6}|{t:?}"), "  a, 5|\"a, 5\"");
    assert_eq!(t.into_bytes().as_slice(), b"a, 5");
}

#[derive(Clone, Debug)]
enum VecOp {
    Push(u16),
    SwapRemove(usize),
    Pop,
    Extend(Vec<u16>),
    Resize(usize),
    Truncate(usize),
    Retain(u16),
    MapInsert(u16, u16),
    MapRemove(u16),
    Refuse(usize),
}

fn op() -> impl Strategy<Value = VecOp> {
    let at = || 0..40_usize;
    let key = || 0..60_u16;
    prop_oneof![
        4 => any::<u16>().prop_map(VecOp::Push),
        1 => at().prop_map(VecOp::SwapRemove),
        1 => Just(VecOp::Pop),
        2 => prop::collection::vec(any::<u16>(), 0..20).prop_map(VecOp::Extend),
        1 => at().prop_map(VecOp::Resize),
        1 => at().prop_map(VecOp::Truncate),
        1 => (2..5_u16).prop_map(VecOp::Retain),
        6 => (key(), any::<u16>()).prop_map(|(k, v)| VecOp::MapInsert(k, v)),
        3 => key().prop_map(VecOp::MapRemove),
        2 => (0..2_usize).prop_map(VecOp::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The same program on the crate's collections and on std's. A refused step must change nothing.
    #[test]
    fn collections_agree_with_the_standard_ones(program in prop::collection::vec(op(), 1..120)) {
        let w = Witness::new();
        let (mut vec, mut model) = (TryVec::new_in(w.source()), Vec::new());
        let (mut map, mut map_model) = (TryMap::new_in(w.source()), HashMap::new());
        for op in program {
            match op {
                VecOp::Push(n) => if vec.try_push(n).is_ok() { model.push(n) },
                VecOp::SwapRemove(i) => prop_assert_eq!(vec.swap_remove(i), (i < model.len()).then(|| model.swap_remove(i))),
                VecOp::Pop => prop_assert_eq!(vec.pop(), model.pop()),
                VecOp::Extend(more) => if vec.try_extend_from_slice(&more).is_ok() { model.extend(more) },
                VecOp::Resize(len) => if vec.try_resize(len, 5).is_ok() { model.resize(len, 5) },
                VecOp::Truncate(len) => { vec.truncate(len); model.truncate(len) }
                VecOp::Retain(n) => { vec.retain(|e| *e % n != 0); model.retain(|e| e % n != 0) }
                VecOp::MapInsert(k, v) => if let Ok(old) = map.try_insert(k, v) {
                    prop_assert_eq!(old, map_model.insert(k, v));
                } else {
                    prop_assert!(!map_model.contains_key(&k), "replacing takes no memory");
                },
                VecOp::MapRemove(k) => prop_assert_eq!(map.remove(&k), map_model.remove(&k)),
                VecOp::Refuse(nth) => w.refuse_in(nth),
            }
            prop_assert_eq!(&*vec, &*model);
            prop_assert_eq!(map.len(), map_model.len());
            prop_assert!(map.iter().all(|(k, v)| map_model.get(k) == Some(v)));
            prop_assert!(w.blocks() <= 2);
        }
        drop((vec, map));
        prop_assert_eq!((w.blocks(), w.bytes()), (0, 0));
    }
}
