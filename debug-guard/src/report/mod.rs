//! What a guard tells: a report, how it is written, who gets it.

mod kind;
mod moment;
mod place;

use core::marker::PhantomData;

pub use kind::ReportKind;
pub use moment::{Access, Moment};
pub use place::Place;

/// What went wrong, and everything that is known of it.
#[derive(Debug)]
pub struct Report<'a> {
    pub(crate) kind: ReportKind,
    pub(crate) of: PhantomData<&'a ()>,
}

impl Report<'_> {
    /// What went wrong.
    #[must_use]
    pub const fn kind(&self) -> ReportKind {
        self.kind
    }
}
