//! The hooked commands: rows of the table of vk-callbacks, by index.

#![forbid(unsafe_code)]

use vk_callbacks::CommandRow;

/// The number of rows of the table.
pub(crate) const ROWS: usize = CommandRow::all().len();

/// The index of the row whose command is `name`.
pub(crate) fn row_index(name: &[u8]) -> Option<usize> {
    CommandRow::all()
        .binary_search_by(|row| row.name.as_bytes().cmp(name))
        .ok()
}

/// As [`row_index`]; an unknown name fails to compile.
#[expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_macros,
    reason = "runs at compile time, where a panic is an error of the compiler"
)]
pub(crate) const fn known_row(name: &str) -> usize {
    let rows = CommandRow::all();
    let mut index = 0;
    while index < rows.len() {
        if equal(rows[index].name, name) {
            return index;
        }
        index += 1;
    }
    panic!("no such command")
}

/// The row with this index, which is below [`ROWS`]: it comes from [`row_index`], or is a constant of a hook.
#[expect(
    clippy::indexing_slicing,
    reason = "an index is a row's, as the comment says"
)]
pub(crate) const fn row(index: usize) -> &'static CommandRow {
    &CommandRow::all()[index]
}

/// For each row the index of the first row about the same kind of object: one number a kind.
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

/// The row is the first about its kind of object.
#[expect(
    clippy::indexing_slicing,
    reason = "an index is a row's, as `row` says"
)]
pub(crate) const fn is_first_of_kind(index: usize) -> bool {
    KINDS[index] == index && !row(index).object.is_empty()
}

/// A limit of the number of kinds: each has a bit of a word.
pub(crate) const MAX_KINDS: usize = 64;

/// The first row of each kind, by the kind's place; none behind the last kind.
#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
pub(crate) const FIRST_ROWS: [Option<usize>; MAX_KINDS] = {
    let mut first_rows = [None; MAX_KINDS];
    let (mut index, mut place) = (0, 0);
    while index < ROWS {
        if is_first_of_kind(index) {
            // Fails to compile where there are too many kinds.
            first_rows[place] = Some(index);
            place += 1;
        }
        index += 1;
    }
    first_rows
};

/// The bit of the kind that the row is about; none of a row about no kind.
pub(crate) fn kind_bit(index: usize) -> u64 {
    KIND_BITS.get(index).copied().unwrap_or_default()
}

#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
static KIND_BITS: [u64; ROWS] = {
    let mut bits = [0; ROWS];
    let mut place = 0;
    while place < MAX_KINDS {
        if let Some(first) = FIRST_ROWS[place] {
            let mut index = 0;
            while index < ROWS {
                if KINDS[index] == first {
                    bits[index] = 1 << place;
                }
                index += 1;
            }
        }
        place += 1;
    }
    bits
};

/// The places whose bits are set.
pub(crate) fn places(bits: u64) -> impl Iterator<Item = usize> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let place = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (place < MAX_KINDS).then_some(place)
    })
}

/// The row is about objects of the loader, which reads `pAllocator` itself.
pub(crate) fn is_about_loader(index: usize) -> bool {
    ABOUT_LOADER.get(index).copied().unwrap_or_default()
}

#[expect(clippy::indexing_slicing, reason = "runs at compile time")]
static ABOUT_LOADER: [bool; ROWS] = {
    let mut about = [false; ROWS];
    let mut index = 0;
    while index < ROWS {
        about[index] = is_of_loader(row(index).object);
        index += 1;
    }
    about
};

const fn is_of_loader(kind: &str) -> bool {
    equal(kind, "VkSurfaceKHR")
        || equal(kind, "VkDebugUtilsMessengerEXT")
        || equal(kind, "VkDebugReportCallbackEXT")
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
