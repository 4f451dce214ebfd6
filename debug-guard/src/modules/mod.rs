//! The files that addresses of code lie in, as they are mapped, also after they were unloaded.

mod module;
mod noted;

pub use module::Module;
pub(crate) use noted::{find, note};
