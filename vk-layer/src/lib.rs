//! `VK_LAYER_STEWARD_memory`: a Vulkan layer that counts the host memory a driver allocates for a program that passes
//! no callbacks.
//!
//! ```text
//!   program -> loader -> VK_LAYER_STEWARD_memory -> layers below -> driver
//!                          | pAllocator NULL: the callbacks of that kind of object
//!                          | pAllocator given: passed on as it is
//!                          +-> accounts by instance, device and kind; device memory by heap; checker -> report
//! ```
//!
//! The loader finds [`vkNegotiateLoaderLayerInterfaceVersion`] in the shared library; there is no other interface.
//! Settings and limits are in README.md. Feature `planted-panic` is for tests.
//!
//! Threads may use it as Vulkan allows. Objects are found without a lock, and no lock is held over a command or a
//! callback.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(non_snake_case, reason = "the loader's documentation asks for libVkLayer_<name>.so")]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod accounts;
mod caller_module;
mod chain;
mod commands;
mod count;
#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        reason = "a report is made of std's collections, once there is memory for them"
    )
)]
mod courses;
mod coverage;
mod description;
mod device_memory;
mod failing;
mod file_name;
mod foreign;
mod fork;
mod growth;
mod guarding;
mod handle_map;
mod handle_records;
mod hooks;
pub mod in_process;
mod leaks;
mod memory_report;
mod once;
mod os;
mod parent;
mod peak;
mod per_process;
mod physical_device;
#[cfg(feature = "planted-panic")]
pub mod planted_panic;
mod record;
mod record_list;
mod remedy;
mod report;
mod request;
mod settings;
mod state;
mod sync;
mod tape;
#[cfg_attr(
    not(test),
    expect(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a report is made of std's collections, once there is memory for them"
    )
)]
mod timeline;
mod turn;

pub use chain::{GetProcAddr, NegotiateLayerInterface, VoidFunction, vkNegotiateLoaderLayerInterfaceVersion};
pub use settings::{ENVIRONMENT_PREFIX, FILE_PREFIX, SETTINGS, Setting};
