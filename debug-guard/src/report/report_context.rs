//! What a guard knows when it finds something wrong: what reports are made of.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::block_info::Stack;
use super::detected_at::DetectedAt;
use crate::block::{GuardFinding, Known};
use crate::call_sites::RequesterInfo;
use crate::os::Access;

/// What a guard knows when it finds something wrong. Only the first two are always there.
#[derive(Clone, Copy)]
pub(crate) struct ReportContext<'a> {
    pub(crate) fault: GuardFinding,
    pub(crate) moment: DetectedAt,
    /// Where an instruction was stopped and the processor says so.
    pub(crate) access: Option<Access>,
    /// Another block nearby.
    pub(crate) other: Option<Known>,
    /// How the block came back, where that is wrong.
    pub(crate) came_back: Option<FreeArgs>,
    /// The call that caused the finding, or the current call if it is found late.
    pub(crate) requester: Option<RequesterInfo<'a>>,
    /// Where the present thread is.
    pub(crate) stack: Stack<'a>,
    /// True when the fault's address is a pointer as the caller of a C bridge knows it, false when the bridge took its header off.
    pub(crate) as_called: bool,
}

/// How a block came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreeArgs {
    /// In bytes.
    pub size: usize,
    /// In bytes.
    pub align: usize,
    /// Where one was given.
    pub scope: Option<Scope>,
}

impl ReportContext<'_> {
    pub(crate) const fn new(fault: GuardFinding, moment: DetectedAt) -> Self {
        Self {
            fault,
            moment,
            access: None,
            other: None,
            came_back: None,
            requester: None,
            stack: Stack {
                frames: &[],
                whole: false,
            },
            as_called: false,
        }
    }
}
