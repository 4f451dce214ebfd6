//! The shader cache, file by file as it is, but for its memory: two records of two words, one bucket a table.

#[path = "../../../../gpu-suballoc/src/cache/bucket.rs"]
mod bucket;
#[path = "../../../../gpu-suballoc/src/cache/entry.rs"]
mod entry;
#[path = "../../../../gpu-suballoc/src/cache/in_flight_compile.rs"]
mod in_flight_compile;
#[path = "../../../../gpu-suballoc/src/cache/ref_records.rs"]
mod ref_records;

mod closing;
mod flights;
mod limits;
mod readers;
mod shelf;

/// Where the files look for it.
mod key {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ShaderKey {
        pub(super) device: u64,
        pub(super) low: u64,
        pub(super) high: u64,
    }

    impl ShaderKey {
        pub(super) const fn of(low: u64) -> Self {
            Self {
                device: 1,
                low,
                high: 0,
            }
        }
    }
}

/// As few as make neighbours.
mod records {
    pub(super) const RECORDS: usize = 2;
    pub(super) const WORDS: usize = 1;
}

mod segments {
    pub(super) const NONE: u32 = u32::MAX;

    /// See gpu-suballoc's.
    ///
    /// # Safety
    /// Nothing is made of zeros here.
    pub(super) unsafe trait Zeroed: Sync {}
}
