//! What several of these tests use.

pub(crate) mod full_report;
pub(crate) mod parts;
