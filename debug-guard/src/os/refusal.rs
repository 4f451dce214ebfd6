#![forbid(unsafe_code)]

use core::fmt;

use super::system;

/// A refusal of the operating system, or of the guard on its behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OsRefusal {
    /// A system call failed.
    Call {
        /// The name of its manual page.
        call: &'static str,
        /// The system's error number.
        errno: i32,
    },
    /// The call succeeded without effect.
    Ineffective {
        /// The name of its manual page.
        call: &'static str,
    },
    /// This system, or this build, has no such thing.
    Unavailable,
    /// Another block of the `mprotect` back end would leave the program without mappings.
    MapBudget,
    /// The process has as many regions as it can.
    TooManyRegions,
    /// The descriptor that watches the pages is gone: the program closed it, or a child after fork could get none.
    Lost,
}

impl OsRefusal {
    /// The system's error number; 0 if there is none.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::Call { errno, .. } => errno,
            _ => 0,
        }
    }
}

impl fmt::Display for OsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Call { call, errno } => {
                let (name, remedy) = system::describe(call, errno);
                write!(f, "{call} failed with error {errno} ({name}); {remedy}")
            }
            Self::Ineffective { call } => {
                write!(f, "{call} succeeded and left the page within reach; use another back end")
            }
            Self::Unavailable => f.write_str("this system has no such call; blocks get cookies instead"),
            Self::MapBudget => {
                f.write_str("guarding more blocks would use up the mappings of this process; raise vm.max_map_count")
            }
            Self::TooManyRegions => {
                f.write_str("this process has as many guarded regions as it can; close a guard first")
            }
            Self::Lost => f.write_str(
                "the descriptor that watches guarded pages is gone and no new one is given; leave userfaultfd's open",
            ),
        }
    }
}

impl core::error::Error for OsRefusal {}
