//! A fake driver for tests, and its application: all its state is in memory of the application's callbacks.
//!
//! ```text
//!  FakeProgram --(vkCreate*, ..)--> Dispatch (brackets; the test's) --> FakeDriver --> VkAllocationCallbacks
//!                                                                                             |
//!                                     .. <-- what the test puts around it <-- FaultyAllocator <+
//! ```
//!
//! Correct by default: it copies callbacks by value, calls the most specific ones with the right scope, and frees
//! everything. A test plants one [`Defect`] (driver, application, allocator or layer), or one [`Harm`] if a guard is
//! used. A [`PlantedDriver`] plants those of a driver in a real one.

mod chain;
mod defect;
mod dispatch;
mod driver;
mod fake_object;
mod faulty;
mod harm;
mod host;
mod jobs;
mod kind;
mod planted;
mod planted_driver;
mod planted_state;
mod pools;
mod program;

pub use defect::Defect;
pub use dispatch::{Call, Dispatch};
pub use faulty::{FaultyAllocator, Interruption};
pub use harm::Harm;
pub use host::PassedCallbacks;
pub use kind::FakeKind;
pub use planted_driver::{CommandCallbacks, PLANTABLE, PlantedDriver, VARIABLE};
pub use planted_state::PlantedState;
pub use program::FakeProgram;
