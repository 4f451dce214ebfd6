//! The interface of accounts in Vulkan's types: the one folder that names ash, beside `accounting/ash.rs`.

mod created_object;
mod hooks;

pub use created_object::CreatedObject;
pub use hooks::{Hooks, NoHooks};
