//! Rows GV01 to GV28 of the contract: Vulkan's callbacks over a guard. What a driver does wrong is found by the guard
//! below, by the checker in front, or by both; what it does right is found by nobody.
//!
//! The harness is that of debug-guard's own matrix: a child process for each case, mode and back end.

#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod application;
mod blocks;
mod checking;
#[path = "../../../../debug-guard/tests/matrix/common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other matrix uses the rest")]
mod common;
mod domains;
mod fake;
mod pinned;
mod reallocation;
#[path = "../../../../vk-callbacks/tests/it/fake_driver/stage.rs"]
#[allow(dead_code, unreachable_pub, reason = "the fake driver's own tests use the rest")]
mod stage;
mod sweep;
#[path = "../../../../vk-callbacks/tests/it/fake_driver/watching.rs"]
mod watching;
