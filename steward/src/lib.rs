//! The program's parts: finding a Vulkan driver, running a workload on it, and telling where the host memory went.

pub mod drivers;
pub mod workload;
