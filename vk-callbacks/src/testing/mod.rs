//! A fake driver for tests, and an application that uses it: every byte of its own state comes from the callbacks it is given.
//!
//! ```text
//!  FakeProgram --(vkCreate*, ..)--> Dispatch (brackets; the test's) --> FakeDriver --> VkAllocationCallbacks
//!                                                                                             |
//!                                     .. <-- what the test puts around it <-- FaultyAllocator <+
//! ```
//!
//! Correct by default: it copies callbacks by value, asks the most specific ones in the right scope, and gives everything back.
//! One [`Defect`] can be planted, in the driver, in the application, its allocator or a layer between; or, under a guard, one
//! [`Harm`].

mod chain;
mod defect;
mod dispatch;
mod driver;
mod faulty;
mod harm;
mod host;
mod jobs;
mod kept;
mod kind;
mod planted;
mod pools;
mod program;
mod thing;

pub use defect::Defect;
pub use dispatch::{Call, Dispatch};
pub use faulty::{FaultyAllocator, Interruption};
pub use harm::Harm;
pub use host::Given;
pub use kind::FakeKind;
pub use program::FakeProgram;
