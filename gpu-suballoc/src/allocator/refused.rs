//! What comes back when an allocator is not made or not closed, or a batch is not given back whole.

#![forbid(unsafe_code)]

use core::fmt;

use crate::error::GpuError;

/// An allocator that was not made: what it would have been made of, and why not.
#[must_use = "it holds the device and the memory"]
pub struct NewRefused<D, A> {
    /// The device that was handed in.
    pub device: D,
    /// The host allocator that was handed in.
    pub memory: A,
    /// Why.
    pub error: GpuError,
}

/// An allocator that was not closed, with what is left in it.
#[must_use = "it holds the allocator"]
pub struct CloseRefused<T> {
    /// The allocator, which works as before.
    pub value: T,
    /// What must go first.
    pub outstanding: Outstanding,
}

/// What an allocator cannot be closed with; [`Picture::leaks`](crate::Picture::leaks) lists it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// The allocator's own, those of shards among them.
    pub regions: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
}

/// A batch of which a region was not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRefused {
    /// The first one's place in the batch, where it still is.
    pub index: usize,
    /// Why.
    pub error: GpuError,
}

// Without what the device and the allocator would say of themselves, so that nothing is asked of their types.
impl<D, A> fmt::Debug for NewRefused<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewRefused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for CloseRefused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseRefused").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

impl<D, A> fmt::Display for NewRefused<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Display for CloseRefused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outstanding { regions, wrapped, crops } = self.outstanding;
        let what = [(regions, "region"), (wrapped, "wrapped buffer"), (crops, "crop")];
        name_in_use(f, &what, "the allocator", "abandon it")
    }
}

/// "2 regions and 1 crop of the context are in use: give them back, or .."
pub(crate) fn name_in_use(f: &mut fmt::Formatter<'_>, what: &[(u64, &str)], of: &str, or: &str) -> fmt::Result {
    let there = || what.iter().filter(|(count, _)| *count > 0);
    let kinds = there().count();
    for (nth, (count, name)) in there().enumerate() {
        f.write_str(match nth {
            0 => "",
            _ if nth + 1 == kinds => " and ",
            _ => ", ",
        })?;
        write!(f, "{count} {name}{}", if *count == 1 { "" } else { "s" })?;
    }
    match there().map(|(count, _)| *count).fold(0, u64::saturating_add) {
        0 => write!(f, "nothing of {of} is in use"),
        1 => write!(f, " of {of} is in use: give it back, or {or}"),
        _ => write!(f, " of {of} are in use: give them back, or {or}"),
    }
}

impl fmt::Display for BatchRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region {} of the batch: {}", self.index, self.error)
    }
}

impl<D, A> core::error::Error for NewRefused<D, A> {}
impl<T> core::error::Error for CloseRefused<T> {}
impl core::error::Error for BatchRefused {}
