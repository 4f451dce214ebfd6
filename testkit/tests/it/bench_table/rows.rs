//! What each row of the table shows.

mod context;
mod device_memory;
mod guard;

use super::Row;

pub(super) const fn row(
    what: &'static str,
    reach: Option<f64>,
    figures: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        what,
        reach,
        figures,
    }
}

pub(super) const ROWS: &[&[Row]] = &[context::ROWS, guard::ROWS, device_memory::ROWS];
