//! The facade: requests in, regions out.

mod region;

pub(crate) use region::Content;
pub use region::{Ownership, Region};
