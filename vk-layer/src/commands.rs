#![forbid(unsafe_code)]

use vk_callbacks::CommandRow;

pub(crate) const ROWS: usize = CommandRow::all().len();

/// An unknown name fails to compile.
#[expect(
    clippy::panic,
    clippy::disallowed_macros,
    reason = "runs at compile time, where a panic is an error of the compiler"
)]
pub(crate) const fn known_row(name: &str) -> usize {
    match CommandRow::index_of(name) {
        Some(index) => index,
        None => panic!("no such command"),
    }
}

/// The index comes from [`CommandRow::index_of`], or is a constant of a hook.
#[expect(clippy::indexing_slicing, reason = "an index is a row's, as the comment says")]
pub(crate) const fn row(index: usize) -> &'static CommandRow {
    &CommandRow::all()[index]
}

#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
pub(crate) const KINDS: [usize; ROWS] = {
    let rows = CommandRow::all();
    let mut kinds = [0; ROWS];
    let mut index = 0;
    while index < ROWS {
        let mut first = 0;
        while !equal(rows[first].object, rows[index].object) {
            first += 1;
        }
        kinds[index] = first;
        index += 1;
    }
    kinds
};

pub(crate) const MAX_KINDS: usize = 64;

pub(crate) const FIRST_ROWS: [Option<usize>; MAX_KINDS] = PLACES_OF_KINDS.0;

#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
const PLACES_OF_KINDS: ([Option<usize>; MAX_KINDS], [u64; ROWS]) = {
    let (mut first_rows, mut bits) = ([None; MAX_KINDS], [0; ROWS]);
    let (mut index, mut place) = (0, 0);
    while index < ROWS {
        if KINDS[index] == index && !row(index).object.is_empty() {
            first_rows[place] = Some(index);
            bits[index] = 1 << place;
            place += 1;
        }
        bits[index] = bits[KINDS[index]];
        index += 1;
    }
    (first_rows, bits)
};

pub(crate) fn kind_bit(index: usize) -> u64 {
    static BITS: [u64; ROWS] = PLACES_OF_KINDS.1;
    BITS.get(index).copied().unwrap_or_default()
}

pub(crate) fn places(bits: u64) -> impl Iterator<Item = usize> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let place = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (place < MAX_KINDS).then_some(place)
    })
}

pub(crate) fn is_about_loader(index: usize) -> bool {
    matches!(row(index).object, "VkSurfaceKHR" | "VkDebugUtilsMessengerEXT" | "VkDebugReportCallbackEXT")
}

const fn equal(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let ([x, more @ ..], [y, others @ ..]) = (a, b) {
        if *x != *y {
            return false;
        }
        (a, b) = (more, others);
    }
    a.is_empty() && b.is_empty()
}
