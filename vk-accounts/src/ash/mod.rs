//! The one folder that names ash, beside `accounting/ash.rs`: what a program tells the accounts, in Vulkan's types.

mod created_object;
mod hooks;

pub use created_object::CreatedObject;
pub use hooks::{Hooks, NoHooks};
