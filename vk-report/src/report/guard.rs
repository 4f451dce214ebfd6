#![forbid(unsafe_code)]

use debug_guard::Fault;
use serde::{Deserialize, Serialize};

/// A run under a guard. Blocks are counted when they are allocated; a reallocation counts as an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRun {
    /// `fence`, `strict`, `cookie` or `sampled=N`.
    pub mode: String,
    /// The back end that makes pages inaccessible; `cookies` if there is none or the mode needs no pages.
    pub back_end: String,
    /// Better back ends that the system does not offer, each with its reason.
    pub not_offered: Vec<String>,
    /// Blocks that the driver allocated through its callbacks.
    pub callback_blocks: u64,
    /// Of those, blocks in pages of their own; of a sampled run, and where some got cookies instead, of all blocks.
    pub guarded: u64,
    /// Blocks with cookies, those of the accounts and the unguarded ones among them.
    pub cookies: u64,
    /// Blocks that were passed on as they are, those of the accounts among them.
    pub passed_on: u64,
    /// Blocks that were to have pages and got cookies.
    pub unguarded: u64,
    /// Blocks of the accounts' own.
    pub own_blocks: u64,
    /// Bytes of all blocks, what bridges put in front of them included.
    pub bytes: u64,
    /// Stacks that were written down.
    pub stacks: u64,
    /// Of those, which reach the command's own frame, or the stack's end.
    pub whole_stacks: u64,
    /// Bytes of addresses that the guard has reserved.
    pub reserved_bytes: u64,
    /// Mappings of the process before the run; null if unknown.
    pub mappings_before: Option<u64>,
    /// Mappings after it, before the accounts are closed.
    pub mappings_after: Option<u64>,
    /// The number of reports.
    pub reports: u64,
    /// The first reports, in the order of time.
    pub told: Vec<GuardReport>,
}

/// What a guard found wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardReport {
    /// What kind of mistake it is.
    pub kind: String,
    /// The name of the block's context; empty without a block or a requester.
    pub owner: String,
    /// Its scope; empty where there is no block.
    pub scope: String,
    /// The command that allocated the block; empty if unknown.
    pub command: String,
    /// The command that was running when it was found; empty where there was none.
    pub found_in: String,
    /// All of it, in words.
    pub text: String,
}

/// A run in which requests of the driver were refused on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailRun {
    /// Which were to be refused, as `--fail` names it.
    pub plan: String,
    /// Requests of the driver.
    pub requests: u64,
    /// Of those, how many were refused.
    pub refused: u64,
    /// The first of them.
    pub first: Vec<Refusal>,
    /// If nothing was refused: the contexts with requests, each with its scopes.
    #[serde(default)]
    pub asked: Vec<String>,
    /// With what the workload ended early; null where it went on to its end.
    pub ended: Option<String>,
}

impl GuardRun {
    /// True where every block of the driver has pages of its own.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.guarded == self.callback_blocks && self.unguarded == 0
    }
}

impl FailRun {
    /// Whether something was refused, or the plan refuses nothing: a plan that no request met shows nothing.
    #[must_use]
    pub fn met_its_plan(&self) -> bool {
        self.refused > 0 || self.plan == Fault::Never.to_string()
    }

    /// The refusals without the end of the run, which is unknown for a program.
    #[must_use]
    pub const fn refusals(&self) -> Refusals<'_> {
        Refusals(self)
    }

    /// True where the workload went on to its end, or ended with what Vulkan answers when host memory runs out.
    #[must_use]
    pub(crate) fn ended_as_it_should(&self) -> bool {
        self.ended.as_ref().is_none_or(|ended| ended.contains("ERROR_OUT_OF_HOST_MEMORY"))
    }
}

/// Displays the refusals without the end of the run ([`FailRun::refusals`]).
#[derive(Clone, Copy, Debug)]
pub struct Refusals<'run>(pub(crate) &'run FailRun);

/// A request that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The command that was running; empty outside of any.
    pub command: String,
    /// Its number, from 1; 0 outside of any.
    pub serial: u64,
    /// The name of the context that served the request.
    pub owner: String,
    /// The scope.
    pub scope: String,
    /// Bytes of the block, what the bridge puts in front included.
    pub bytes: u64,
}
