//! The input of a report: what a guard knows when it finds something.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::block_info::Stack;
use super::detected_at::DetectedAt;
use crate::block::{GuardFinding, Known};
use crate::call_sites::RequesterInfo;
use crate::os::Access;

/// What a guard knows when it finds something. Only the first two fields are always set.
#[derive(Clone, Copy)]
pub(crate) struct ReportContext<'a> {
    pub(crate) finding: GuardFinding,
    pub(crate) moment: DetectedAt,
    /// For a stopped instruction, if the processor says so.
    pub(crate) access: Option<Access>,
    /// Another block nearby.
    pub(crate) other: Option<Known>,
    /// The arguments of the free, if a free is reported.
    pub(crate) came_back: Option<FreeArgs>,
    /// The call that caused the finding, or the current call if it is found late.
    pub(crate) requester: Option<RequesterInfo<'a>>,
    /// The stack of the calling thread.
    pub(crate) stack: Stack<'a>,
    /// True if the address is the pointer of a C caller, false if the bridge has subtracted its header.
    pub(crate) as_called: bool,
}

/// The arguments of a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeArgs {
    /// In bytes.
    pub size: usize,
    /// In bytes.
    pub align: usize,
    /// `None` if the free names no scope.
    pub scope: Option<Scope>,
}

impl ReportContext<'_> {
    pub(crate) const fn new(finding: GuardFinding, moment: DetectedAt) -> Self {
        Self {
            finding,
            moment,
            access: None,
            other: None,
            came_back: None,
            requester: None,
            stack: Stack {
                frames: &[],
                whole: false,
                modules: 0,
            },
            as_called: false,
        }
    }
}
