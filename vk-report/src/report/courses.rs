#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// What was live over time, of at most 129 moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Courses {
    /// Commands called until each moment.
    pub at: Vec<u64>,
    /// The kinds of objects and the heaps of device memory that had something.
    pub rows: Vec<CourseRow>,
}

/// A kind of object, or a heap as `heap 0`. Numbers are sums over all instances and devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CourseRow {
    /// Its name.
    pub name: String,
    /// The most bytes that were live from each moment to the next; of a kind charged bytes of host memory.
    pub live_bytes: Vec<u64>,
}

impl CourseRow {
    /// The highest.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.live_bytes.iter().copied().max().unwrap_or_default()
    }
}
