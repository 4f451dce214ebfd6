#![no_std]

#[cfg(feature = "ash")]
mod ash;
mod bridge;
mod command;
mod driver;
mod error;
mod fence;
mod header;
mod raw;
mod realloc_rules;
mod replay;
mod thread;
mod trace;

pub use bridge::{BareBridge, Internal, Notes};
pub use command::{
    Command, CommandInfo, Coverage, Frame, OwnerId, Owners, brackets_available, command_depth, current_command, current_thread,
    in_callback,
};
pub use driver::{
    Block, CallbackAllocator, Chain, DeviceDomain, DynHost, FreeRefused, InstanceDomain, Level, Member, MultiAlloc, MultiBlock,
    Object, ObjectRefused, Served, Stored,
};
pub use error::{CallbackError, Function, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_UNKNOWN};
pub use raw::{
    AllocationCallbacks, INTERNAL_EXECUTABLE, PfnAllocation, PfnFree, PfnInternalNotification, PfnReallocation, RawCallbacks,
    RawInternalType, RawScope,
};
pub use replay::{Finding, OneSink, Replay, ReplayError, ReplayTarget, ScopeTotals, Totals};
pub use trace::{
    Caller, Capabilities, Pointer, Request, TraceError, TraceEvent, TraceFault, TraceFormat, TraceReader, TraceWriter,
};
