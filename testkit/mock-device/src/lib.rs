//! A Vulkan device in host memory, for tests of gpu-suballoc and of what is built on it.

pub mod mock;

pub use mock::*;

// Where the files of `mock` look for what is gpu-suballoc's.
use gpu_suballoc::{device, memory_type};

mod property_flags {
    pub(crate) use gpu_suballoc::PropertyFlags;
}
