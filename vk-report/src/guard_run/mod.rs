//! Guards and faults between the system's allocator and the accounts of a run.
//!
//! ```text
//!  accounts, bridges --- Layers ---+--- in a callback ---> FailingAllocator --+--> Guard --> the system's allocator
//!                     (counts)     +--- the accounts' own --------------------+
//! ```
//!
//! All allocations of the driver and the accounts pass the guard. Failures apply to callbacks alone: the memory that
//! reports them is not refused.

mod back_end;
mod collected_reports;
mod layers;
mod mappings;
pub mod refused;

pub use back_end::parse_back_end;
pub use debug_guard::{ChoiceError, GuardChoice};
pub use layers::{GuardingError, Layers};

use debug_guard::{BackEnd, Fault};

/// A guard and planned failures between the system's allocator and the accounts. The default is neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guarding {
    /// How blocks are guarded.
    pub guard: Option<GuardChoice>,
    /// Its back end; the best one by default.
    pub back_end: Option<BackEnd>,
    /// Which requests of the driver are refused.
    pub fail: Option<Fault>,
}

impl Guarding {
    /// Whether there is a guard or a plan.
    #[must_use]
    pub const fn is_asked_for(&self) -> bool {
        self.guard.is_some() || self.fail.is_some()
    }
}
