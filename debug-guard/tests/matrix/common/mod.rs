//! What all rows use: the guards that they run under, the children, what those tell.

mod config;
mod lab;
mod names;
mod row;
mod seen;
mod told;

pub(crate) use config::{Config, On, lent, skip_what_is_not_offered};
pub(crate) use lab::{Lab, Under, gives, layout, loads, note, note_pointer, stores, takes};
pub(crate) use row::{Place, each, each_of, each_with, is_child};
pub(crate) use seen::SeenByChild;
