//! The fallible collections: what they do, what they refuse, what a refusal leaves behind.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

use crate::witness::Witness;
use alloc_core::{
    HostAllocator, HostError, Misuse, Rejected, Scope, Scoped, TryBox, TryMap, TryString, TryVec,
    unsize_try_box,
};
use proptest::prelude::*;

type Source<'w> = Scoped<&'w Witness>;

fn refused(bytes: usize) -> HostError {
    HostError::OutOfHostMemory {
        bytes,
        scope: Scope::Object,
    }
}

/// Runs `operation` on a fresh state with no refusal, then with the first, second, ... request refused, until a run needs no
/// request that could be refused. A refused run must leave the state as it was, the witness's books too, and the next try succeed.
fn sweep<'w, S: 'w, R>(
    witness: &'w Witness,
    fresh: impl Fn(Source<'w>) -> S,
    look: impl Fn(&S) -> R,
    operation: impl Fn(&mut S) -> Result<(), HostError>,
) where
    R: PartialEq + fmt::Debug,
{
    let mut refusals = 0;
    loop {
        let mut state = fresh(witness.source());
        let before = (look(&state), witness.blocks(), witness.bytes());
        witness.refuse_in(refusals);
        let outcome = operation(&mut state);
        if witness.disarm() {
            assert_eq!(outcome, Ok(()), "no request was refused");
            break;
        }
        let error = outcome.expect_err("a request was refused");
        assert!(
            matches!(error, HostError::OutOfHostMemory { bytes: 1.., .. }),
            "{error:?}"
        );
        assert_eq!(
            (look(&state), witness.blocks(), witness.bytes()),
            before,
            "refusal {refusals} left a trace"
        );
        assert_eq!(operation(&mut state), Ok(()), "the next try");
        drop(state);
        witness.assert_empty();
        refusals += 1;
    }
    assert!(
        refusals > 0,
        "the operation never asked for memory: nothing was tested"
    );
    witness.assert_empty();
}

fn numbers(source: Source<'_>) -> TryVec<u32, Source<'_>> {
    TryVec::try_from_slice_in(&[1, 2, 3], source).unwrap()
}

#[test]
fn every_refused_growth_of_an_array_leaves_it_as_it_was() {
    let w = &Witness::new();
    let look = |v: &TryVec<u32, Source<'_>>| (v.to_vec(), v.capacity());
    sweep(w, numbers, look, |v| Ok(v.try_push(4)?));
    sweep(w, numbers, look, |v| Ok(v.try_insert(1, 4)?));
    sweep(w, numbers, look, |v| v.try_reserve(1));
    sweep(w, numbers, look, |v| v.try_reserve_exact(5));
    sweep(w, numbers, look, |v| v.try_extend_from_slice(&[4, 5]));
    sweep(w, numbers, |v| v.to_vec(), |v| v.try_resize(9, 7));
    sweep(w, numbers, look, |v| v.try_resize_with(9, || 7));
    sweep(w, numbers, look, |v| v.try_clone().map(drop));
    let roomy = |s| {
        let mut v = numbers(s);
        v.try_reserve_exact(9).unwrap();
        v
    };
    sweep(w, roomy, look, TryVec::try_shrink_to_fit);
    sweep(w, roomy, look, |v| v.try_shrink_to(5));
    fn pair(s: Source<'_>) -> [TryVec<u32, Source<'_>>; 2] {
        [numbers(s), numbers(s)]
    }
    sweep(
        w,
        pair,
        |[a, b]| (a.to_vec(), b.to_vec()),
        |[a, b]| a.try_append(b),
    );
}

#[test]
fn a_refused_iterator_is_rolled_back() {
    let w = Witness::new();
    let mut v = numbers(w.source());
    v.try_reserve_exact(2).unwrap();
    w.refuse_in(0);
    // Two elements fit before the block is full. `filter` hides the number that will come.
    let error = v.try_extend((0..9).filter(|_| true)).unwrap_err();
    assert!(error.is_out_of_host_memory());
    assert_eq!(v, [1, 2, 3]);
    v.try_extend((0..9).filter(|_| true)).unwrap();
    assert_eq!(v.len(), 12);
}

#[test]
fn a_refused_value_comes_back() {
    let w = Witness::limited(0);
    let text = Rc::new("mine");
    let mut v = TryVec::new_in(w.source());
    let Rejected { value, error } = v.try_push(Rc::clone(&text)).unwrap_err();
    assert!(Rc::ptr_eq(&value, &text));
    assert_eq!(error, refused(4 * size_of::<Rc<&str>>()));
    let Rejected { value, .. } = TryBox::try_new_in(value, w.source()).unwrap_err();
    let mut m = TryMap::new_in(w.source());
    let Rejected {
        value: (key, value),
        error,
    } = m.try_insert("key", value).unwrap_err();
    assert!(error.is_out_of_host_memory());
    assert_eq!((key, Rc::strong_count(&value)), ("key", 2));
    let Rejected { value: key, .. } = m
        .try_get_or_insert_with("key", |_| unreachable!())
        .unwrap_err();
    assert_eq!(key, "key");
    assert!(
        format!("{}", m.try_insert(key, value).unwrap_err())
            .starts_with("the host allocator refused")
    );
    assert_eq!(w.requests(), 5);
}

#[test]
fn m9_array_size_overflow_is_an_error() {
    let w = Witness::new();
    let s = || w.source();
    // usize::MAX / 8 + 1 eights wrap to 0; 4 GiB + 16 bytes become 16 where a size is cut to 32 bits.
    for len in [
        usize::MAX,
        usize::MAX / 8 + 1,
        usize::MAX / 8,
        isize::MAX as usize / 8 + 1,
    ] {
        assert_eq!(
            TryVec::<u64, _>::try_with_capacity_in(len, s()).unwrap_err(),
            HostError::TooLarge,
            "{len}"
        );
        assert_eq!(
            TryVec::try_from_elem_in(1_u64, len, s()).unwrap_err(),
            HostError::TooLarge
        );
        assert_eq!(
            TryBox::<[u64], _>::try_new_uninit_slice_in(len, s()).unwrap_err(),
            HostError::TooLarge
        );
        assert_eq!(
            TryBox::<[u64], _>::try_new_zeroed_slice_in(len, s()).unwrap_err(),
            HostError::TooLarge
        );
        let mut v = TryVec::<u64, _>::new_in(s());
        v.try_push(1).unwrap();
        assert_eq!(v.try_reserve(len), Err(HostError::TooLarge));
        assert_eq!(v.try_reserve_exact(len), Err(HostError::TooLarge));
        assert_eq!(v.try_resize(len, 2), Err(HostError::TooLarge));
        assert_eq!(v, [1]);
        let mut m = TryMap::<u64, u64, _>::new_in(s());
        assert_eq!(m.try_reserve(len), Err(HostError::TooLarge));
    }
    assert_eq!(
        TryString::try_with_capacity_in(usize::MAX, s()).unwrap_err(),
        HostError::TooLarge
    );
    w.assert_empty();
    // A size that no 32-bit count could hold is asked for in full, and its refusal says so.
    #[cfg(target_pointer_width = "64")]
    {
        let w = Witness::limited(1 << 20);
        let len = (1_usize << 32) + 16;
        let error = TryVec::<u8, _>::try_with_capacity_in(len, w.source()).unwrap_err();
        assert_eq!(error, refused(len));
        let error = TryBox::<[u8], _>::try_new_uninit_slice_in(len, w.source()).unwrap_err();
        assert_eq!(error, refused(len));
    }
    // Elements of size 0 need no memory, however many.
    let w = Witness::limited(0);
    assert_eq!(
        TryVec::<(), _>::try_from_elem_in((), 1000, w.source())
            .unwrap()
            .len(),
        1000
    );
    assert_eq!(
        TryBox::<[()], _>::try_new_uninit_slice_in(usize::MAX, w.source())
            .unwrap()
            .len(),
        usize::MAX
    );
    assert_eq!(w.requests(), 0);
}

#[test]
fn places_past_the_end_are_told_not_panicked() {
    let w = Witness::new();
    let mut v = numbers(w.source());
    assert_eq!((v.remove(3), v.swap_remove(3)), (None, None));
    let error = HostError::Misuse(Misuse::OutOfRange);
    assert_eq!(
        v.try_insert(4, 9).unwrap_err(),
        Rejected { value: 9, error }
    );
    assert!(v.drain(2..4).is_none());
    assert!(
        v.drain((
            std::ops::Bound::Excluded(usize::MAX),
            std::ops::Bound::Unbounded
        ))
        .is_none()
    );
    #[expect(clippy::reversed_empty_ranges, reason = "the point of the line")]
    let turned = v.drain(2..1).is_none();
    assert!(turned);
    assert_eq!(v, [1, 2, 3]);
    v.try_insert(3, 4).unwrap();
    v.try_insert(0, 0).unwrap();
    assert_eq!(v, [0, 1, 2, 3, 4]);
    assert_eq!(v.drain(1..=2).unwrap().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(v.swap_remove(0), Some(0));
    assert_eq!(v, [4, 3]);
}

#[test]
fn shrinking_gives_the_rest_back_and_keeps_the_elements() {
    let w = Witness::new();
    let mut v = TryVec::try_with_capacity_in(100, w.source()).unwrap();
    v.try_extend_from_slice(&[7_u64, 8, 9]).unwrap();
    v.try_shrink_to_fit().unwrap();
    assert_eq!((v.capacity(), w.bytes(), w.blocks()), (3, 24, 1));
    assert_eq!(v, [7, 8, 9]);
    let boxed = v.try_into_boxed_slice().unwrap();
    assert_eq!((&*boxed, w.bytes()), (&[7, 8, 9][..], 24));
    drop(boxed);
    let mut v = TryVec::<u64, _>::try_with_capacity_in(100, w.source()).unwrap();
    v.try_shrink_to_fit().unwrap();
    assert_eq!((v.capacity(), w.blocks()), (0, 0));
    v.try_push(1).unwrap();
    let (first, len, capacity, allocator) = v.into_raw_parts_with_allocator();
    // SAFETY: just taken apart.
    let v = unsafe { TryVec::from_raw_parts_in(first, len, capacity, allocator) };
    assert_eq!(v, [1]);
    drop(v);
    w.assert_empty();
}

#[test]
fn arrays_that_drivers_fill_need_no_second_pass() {
    let w = Witness::new();
    let mut v = TryVec::<u32, _>::try_with_capacity_in(3, w.source()).unwrap();
    for (i, slot) in v.spare_capacity_mut().iter_mut().enumerate() {
        slot.write(i as u32);
    }
    // SAFETY: three elements were written.
    unsafe { v.set_len(3) };
    assert_eq!(v, [0, 1, 2]);
    for n in &mut v {
        *n += 1;
    }
    assert_eq!((&v).into_iter().sum::<u32>(), 6);
    assert_eq!(v.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    w.assert_empty();
}

/// Counts its drops in the cell.
struct Dropped<'a>(&'a std::cell::Cell<u32>);
impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

trait Speaks {
    fn word(&self) -> String;
}
impl Speaks for Dropped<'_> {
    fn word(&self) -> String {
        format!("dropped {}", self.0.get())
    }
}

#[test]
fn boxes_hold_values_slices_and_traits() {
    let w = Witness::new();
    let drops = std::cell::Cell::new(0);
    let b = TryBox::try_new_in(Dropped(&drops), w.source()).unwrap();
    assert_eq!((w.blocks(), w.bytes()), (1, size_of::<Dropped<'_>>()));
    let b: TryBox<dyn Speaks, _> = unsize_try_box!(b);
    assert_eq!(b.word(), "dropped 0");
    drop(b);
    assert_eq!((drops.get(), w.blocks()), (1, 0));

    let b = TryBox::try_new_in(Dropped(&drops), w.source()).unwrap();
    let (value, allocator) = TryBox::into_raw_with_allocator(b);
    // SAFETY: just taken apart.
    let b = unsafe { TryBox::from_raw_in(value, allocator) };
    let inner = TryBox::into_inner(b);
    assert_eq!((drops.get(), w.blocks()), (1, 0));
    drop(inner);
    assert_eq!(drops.get(), 2);

    let zeros = TryBox::<[u32], _>::try_new_zeroed_slice_in(5, w.source()).unwrap();
    // SAFETY: zero is a u32.
    let zeros = unsafe { TryBox::assume_init_slice(zeros) };
    assert_eq!(&*zeros, &[0; 5]);
    assert_eq!(
        *TryBox::try_from_slice_in(&[1, 2], w.source()).unwrap(),
        [1, 2]
    );
    let array: TryBox<[u8], _> =
        unsize_try_box!(TryBox::try_new_in([1_u8, 2, 3], w.source()).unwrap());
    assert_eq!(array.len(), 3);
    drop((zeros, array));
    w.assert_empty();
}

#[test]
fn a_box_of_size_zero_asks_nobody() {
    let w = Witness::limited(0);
    let b = TryBox::try_new_in([0_u64; 0], w.source()).unwrap();
    assert_eq!(b.as_ptr().addr() % align_of::<u64>(), 0);
    drop(b);
    drop(TryBox::<[u64], _>::try_new_zeroed_slice_in(0, w.source()).unwrap());
    let () = TryBox::into_inner(TryBox::try_new_in((), w.source()).unwrap());
    assert_eq!(w.requests(), 0);
}

#[test]
fn the_block_is_freed_even_when_the_destructor_unwinds() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("bomb"));
        }
    }
    let w = Witness::new();
    let b = TryBox::try_new_in((Bomb, 1_u64), w.source()).unwrap();
    assert_eq!(w.blocks(), 1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(b))).is_err());
    w.assert_empty();
}

#[test]
fn a_pinned_value_stays_where_it_is() {
    static WITNESS: std::sync::LazyLock<Witness> = std::sync::LazyLock::new(Witness::new);
    let source: Scoped<&'static Witness> = WITNESS.source();
    let pinned = TryBox::try_pin_in(std::marker::PhantomPinned, source).unwrap();
    drop(pinned);
    let pinned: Pin<TryBox<u32, _>> = TryBox::into_pin(TryBox::try_new_in(5_u32, source).unwrap());
    assert_eq!(*pinned, 5);
    drop(pinned);
    WITNESS.assert_empty();
}

#[test]
fn every_refused_growth_of_a_map_leaves_it_as_it_was() {
    let w = &Witness::new();
    let full = |s| {
        let mut m = TryMap::<u32, u32, _>::new_in(s);
        m.try_reserve(1).unwrap();
        while m.len() < m.capacity() {
            m.try_insert(m.len() as u32, 7).unwrap();
        }
        m
    };
    let look = |m: &TryMap<u32, u32, _>| {
        (
            m.iter().map(|(k, v)| (*k, *v)).collect::<BTreeMap<_, _>>(),
            m.capacity(),
        )
    };
    sweep(w, full, look, |m| Ok(m.try_insert(99, 1).map(drop)?));
    sweep(w, full, look, |m| {
        Ok(m.try_get_or_insert_with(99, |_| 1).map(drop)?)
    });
    sweep(w, full, look, |m| {
        m.try_get_or_try_insert_with(99, |_| Ok(1)).map(drop)
    });
    sweep(w, full, look, |m| m.try_reserve(50));
    sweep(w, full, look, |m| m.try_clone().map(drop));
    let sparse = |s| {
        let mut m = full(s);
        m.try_reserve(100).unwrap();
        m
    };
    sweep(w, sparse, look, TryMap::try_shrink_to_fit);
}

#[test]
fn replacing_and_removing_take_no_memory() {
    let w = Witness::new();
    let mut m = TryMap::<u32, &str, _>::new_in(w.source());
    m.try_reserve(1).unwrap();
    let room = m.capacity() as u32;
    for key in 0..room {
        m.try_insert(key, "old").unwrap();
    }
    w.set_limit(Some(0));
    assert_eq!(m.try_insert(0, "new").unwrap(), Some("old"));
    assert_eq!(
        m.try_get_or_insert_with(0, |_| unreachable!()).unwrap(),
        &mut "new"
    );
    assert!(m.try_insert(room, "more").is_err());
    assert_eq!(m.remove(&1), Some("old"));
    assert_eq!(m.remove(&1), None);
    m.try_insert(room, "more").unwrap();
    // A value that could not be made leaves no key behind.
    m.remove(&0);
    assert_eq!(
        m.try_get_or_try_insert_with(0, |_| Err(HostError::TooLarge)),
        Err(HostError::TooLarge)
    );
    assert!(!m.contains_key(&0));
    m.retain(|key, _| *key == room);
    assert_eq!(m.len(), 1);
    w.set_limit(None);
    m.try_reserve(1000).unwrap();
    m.try_shrink_to_fit().unwrap();
    assert!(m.capacity() <= 3, "{}", m.capacity());
    assert_eq!(m.get(&room), Some(&"more"));
    m.clear();
    m.try_shrink_to_fit().unwrap();
    assert_eq!((m.capacity(), w.blocks()), (0, 0));
}

#[test]
fn text_grows_all_or_nothing() {
    let w = &Witness::new();
    let hello = |s| TryString::try_from_str_in("hello", s).unwrap();
    let look = |t: &TryString<Source<'_>>| (t.as_str().to_owned(), t.capacity());
    sweep(w, hello, look, |t| t.try_push_str(", world"));
    sweep(w, hello, look, |t| t.try_push('é'));
    sweep(w, hello, look, |t| t.try_reserve(1));
    sweep(w, hello, look, |t| t.try_clone().map(drop));
    // Several pieces, several growths: the text must come back whole, whatever was appended before the refusal.
    sweep(w, hello, look, |t| {
        t.try_write_fmt(format_args!("{:>20}|{:<40}|{}", 1, 2, "x".repeat(200)))
    });
    fn source(s: Source<'_>) -> Source<'_> {
        s
    }
    sweep(
        w,
        source,
        |_| (),
        |s| TryString::try_join_in(&["a", "b"], "-", *s).map(drop),
    );
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
    assert!(
        t.try_write_fmt(format_args!("{Swallows}"))
            .is_err_and(HostError::is_out_of_host_memory)
    );
    assert_eq!(t, "text");
    t.try_write_fmt(format_args!("{Swallows}")).unwrap();
    assert_eq!(t, "text0123456789abcdefbehind the gap");
}

#[test]
fn text_is_text() {
    use std::fmt::Write as _;
    let w = Witness::new();
    let mut t = TryString::try_join_in(&["a", "é", "z"], ", ", w.source()).unwrap();
    assert_eq!((t.as_str(), t.capacity()), ("a, é, z", 8));
    assert_eq!(t.pop(), Some('z'));
    t.truncate(4);
    assert_eq!(t, "a, ", "the é stood across the cut");
    write!(t, "{}", 5).unwrap();
    assert_eq!(t, *"a, 5");
    assert_eq!(format!("{t:>6}|{t:?}"), "  a, 5|\"a, 5\"");
    let mut bytes = t.into_bytes();
    bytes.try_push(0xFF).unwrap();
    let mut bytes = TryString::from_utf8(bytes).unwrap_err();
    bytes.pop();
    let t = TryString::from_utf8(bytes).unwrap();
    let mut m = TryMap::new_in(w.source());
    m.try_insert(t, 1).unwrap();
    assert_eq!(m.get("a, 5"), Some(&1));
    assert_eq!(TryString::try_join_in(&[], ", ", w.source()).unwrap(), "");
}

#[test]
fn zeroed_and_scoped_requests_go_where_they_should() {
    let w = Witness::new();
    let v = TryVec::try_from_elem_in(1_u8, 10, Scoped::new(&w, Scope::Command)).unwrap();
    assert_eq!(v.allocator().host().bytes(), 10);
    let error = HostAllocator::refusal(&w, std::alloc::Layout::new::<u8>(), Scope::Cache);
    assert_eq!(
        error,
        HostError::OutOfHostMemory {
            bytes: 1,
            scope: Scope::Cache
        }
    );
}

#[derive(Clone, Debug)]
enum VecOp {
    Push(u16),
    Insert(usize, u16),
    Remove(usize),
    SwapRemove(usize),
    Pop,
    Extend(Vec<u16>),
    Resize(usize),
    Truncate(usize),
    Drain(usize, usize),
    Retain(u16),
    Shrink,
    MapInsert(u16, u16),
    MapRemove(u16),
    MapShrink,
    Refuse(usize),
}

fn op() -> impl Strategy<Value = VecOp> {
    let at = || 0..40_usize;
    let key = || 0..60_u16;
    prop_oneof![
        4 => any::<u16>().prop_map(VecOp::Push),
        2 => (at(), any::<u16>()).prop_map(|(i, n)| VecOp::Insert(i, n)),
        1 => at().prop_map(VecOp::Remove),
        1 => at().prop_map(VecOp::SwapRemove),
        1 => Just(VecOp::Pop),
        2 => prop::collection::vec(any::<u16>(), 0..20).prop_map(VecOp::Extend),
        1 => at().prop_map(VecOp::Resize),
        1 => at().prop_map(VecOp::Truncate),
        1 => (at(), at()).prop_map(|(a, b)| VecOp::Drain(a, b)),
        1 => (2..5_u16).prop_map(VecOp::Retain),
        1 => Just(VecOp::Shrink),
        6 => (key(), any::<u16>()).prop_map(|(k, v)| VecOp::MapInsert(k, v)),
        3 => key().prop_map(VecOp::MapRemove),
        1 => Just(VecOp::MapShrink),
        2 => (0..2_usize).prop_map(VecOp::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same program on the crate's collections and on std's. A refused step must change nothing.
    #[test]
    fn collections_agree_with_the_standard_ones(program in prop::collection::vec(op(), 1..120)) {
        let w = Witness::new();
        let (mut vec, mut model) = (TryVec::new_in(w.source()), Vec::new());
        let (mut map, mut map_model) = (TryMap::new_in(w.source()), HashMap::new());
        for op in program {
            match op {
                VecOp::Push(n) => if vec.try_push(n).is_ok() { model.push(n) },
                VecOp::Insert(i, n) => if vec.try_insert(i, n).is_ok() { model.insert(i, n) },
                VecOp::Remove(i) => prop_assert_eq!(vec.remove(i), (i < model.len()).then(|| model.remove(i))),
                VecOp::SwapRemove(i) => prop_assert_eq!(vec.swap_remove(i), (i < model.len()).then(|| model.swap_remove(i))),
                VecOp::Pop => prop_assert_eq!(vec.pop(), model.pop()),
                VecOp::Extend(more) => if vec.try_extend_from_slice(&more).is_ok() { model.extend(more) },
                VecOp::Resize(len) => if vec.try_resize(len, 5).is_ok() { model.resize(len, 5) },
                VecOp::Truncate(len) => { vec.truncate(len); model.truncate(len) }
                VecOp::Drain(a, b) => match vec.drain(a..b) {
                    Some(out) => prop_assert!(out.eq(model.drain(a..b))),
                    None => prop_assert!(a > b || b > model.len()),
                },
                VecOp::Retain(n) => { vec.retain(|e| *e % n != 0); model.retain(|e| e % n != 0) }
                VecOp::Shrink => if vec.try_shrink_to_fit().is_ok() { prop_assert_eq!(vec.capacity(), vec.len()) },
                VecOp::MapInsert(k, v) => if let Ok(old) = map.try_insert(k, v) {
                    prop_assert_eq!(old, map_model.insert(k, v));
                } else {
                    prop_assert!(!map_model.contains_key(&k), "replacing takes no memory");
                },
                VecOp::MapRemove(k) => prop_assert_eq!(map.remove(&k), map_model.remove(&k)),
                VecOp::MapShrink => { let _ = map.try_shrink_to_fit(); }
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
