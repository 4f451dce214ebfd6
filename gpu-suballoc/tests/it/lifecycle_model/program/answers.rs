//! What the program asks of contexts, and what they may answer.

use super::*;

/// `VkInstance`, `VkPhysicalDevice`, `VkDevice`.
pub type HandleValues = [u64; 3];

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The handle of this number is null.
    Null(usize),
    /// The handle of this number is another one.
    Other(usize),
    /// The driver lacks a command.
    Missing,
    /// No host memory.
    Host,
    /// The driver refused.
    Device,
    /// The device is lost.
    Lost,
    /// There is no such context any more.
    Released,
    /// The context is being used.
    InUse,
    /// This is left.
    Outstanding(ContextRemains),
    /// No context for a dispatch.
    NoContext,
    /// Between an acquire and its release.
    HandlersInUse,
    /// What the handler answered.
    Handler,
    /// The region is another context's.
    Foreign,
    /// The region has crops.
    HasCrops,
    /// The region is mapped.
    Mapped,
    /// The region is not mapped.
    NotMapped,
}

/// What a context is left with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextRemains {
    /// Regions.
    pub regions: u64,
    /// Crops.
    pub crops: u64,
    /// Shaders that are held.
    pub shaders: u64,
}

/// What went with a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseOutcome {
    /// Shaders that were destroyed.
    pub shaders: u64,
    /// Those that are held.
    pub held: u64,
    /// Whether its device was lost.
    pub lost: bool,
    /// What was left behind.
    pub remains: ContextRemains,
}

/// How a context goes whatever is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Released by force.
    Force,
    /// Dropped; only where no region is left.
    Drop,
}

/// What is refused once, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRefusal {
    /// The n-th request of host memory, counted from 0.
    Host(u64),
    /// The n-th call of a driver that can fail, counted from 1.
    Device(u64),
    /// The loading of the driver's commands.
    Load,
}

/// What the handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectAnswer {
    /// This context, which has a number.
    Context(usize),
    /// The number of none.
    Stale,
    /// That there is none.
    Nothing,
    /// An error.
    Refuses,
}

/// What came of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatched {
    /// The context that it ran with.
    pub with: Result<Option<usize>, Denied>,
    /// If it ran: what came of setting handlers and default meanwhile, and of releasing the context that it ran with.
    pub inside: Option<[Result<(), Denied>; 3]>,
}

/// What a context says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSeen {
    /// Its device's number.
    pub device: u64,
    /// Whether that is lost.
    pub lost: bool,
    /// Shaders of it that are found, and those that only their holds keep.
    pub shaders: [u64; 2],
}

/// Calls of a driver that Vulkan knows.
pub fn calls(mock: &Mock) -> u64 {
    mock.all_calls() - mock.calls(MockCall::Properties)
}

pub const fn values([instance, physical_device, device]: HandleValues) -> VulkanHandles {
    VulkanHandles { instance, physical_device, device }
}

pub const fn which(handle: VulkanHandleKind) -> usize {
    match handle {
        VulkanHandleKind::Instance => 0,
        VulkanHandleKind::PhysicalDevice => 1,
        VulkanHandleKind::Device => 2,
    }
}

pub fn left(outstanding: ContextOutstanding) -> ContextRemains {
    assert_eq!(outstanding.allocator.wrapped, 0, "nothing was wrapped");
    ContextRemains {
        regions: outstanding.allocator.regions,
        crops: outstanding.allocator.crops,
        shaders: outstanding.shaders,
    }
}

pub const fn gone(released: ReleaseReport, left: ContextRemains) -> ReleaseOutcome {
    ReleaseOutcome { shaders: released.shaders, held: released.held, lost: released.device_lost, remains: left }
}

/// What the handler refuses with.
pub const REFUSES: ContextError = ContextError::TooManyContexts;

pub fn denied(error: ContextError) -> Denied {
    match error {
        ContextError::NullHandle(handle) => Denied::Null(which(handle)),
        ContextError::OtherHandle(handle) => Denied::Other(which(handle)),
        ContextError::MissingCommand { .. } => Denied::Missing,
        ContextError::Host(_) => Denied::Host,
        ContextError::Gpu(error) => refused(error),
        ContextError::Released => Denied::Released,
        ContextError::InUse => Denied::InUse,
        ContextError::Outstanding(outstanding) => Denied::Outstanding(left(outstanding)),
        ContextError::NoContext => Denied::NoContext,
        ContextError::HandlersInUse => Denied::HandlersInUse,
        REFUSES => Denied::Handler,
        error => panic!("{error}"),
    }
}

pub fn refused(error: GpuError) -> Denied {
    match error {
        GpuError::Host(_) => Denied::Host,
        error if error.is_device_lost() => Denied::Lost,
        GpuError::Device(_) | GpuError::AfterAllocation(_) => Denied::Device,
        GpuError::Misuse(GpuMisuse::OtherAllocator) => Denied::Foreign,
        GpuError::Misuse(GpuMisuse::HasCrops) => Denied::HasCrops,
        GpuError::Misuse(GpuMisuse::Mapped) => Denied::Mapped,
        GpuError::Misuse(GpuMisuse::NotMapped) => Denied::NotMapped,
        error => panic!("{error}"),
    }
}
