use std::slice;

use ash::prelude::VkResult;
use ash::vk;

use super::commands::Commands;
use super::device::Device;
use super::error::WorkloadError;
use super::object::Guard;
use super::sync::Sync;

/// Nanoseconds; longer than any correct round: a driver that hangs becomes an error.
const PATIENCE_NS: u64 = 60_000_000_000;

/// How often a failed wait is repeated: it may lack host memory only for a while.
const TRIES: u32 = 8;

/// Drop waits for the work, so objects declared before it may be destroyed.
///
/// Each submit has its own fence: in the tested drivers waiting for a fence allocates nothing, while Mesa's
/// `vkQueueWaitIdle` allocates and fails without memory.
pub(super) struct InFlight<'d> {
    device: &'d Device<'d>,
    fences: [vk::Fence; 2],
    /// The number of `fences` whose submits the driver accepted.
    submitted: usize,
    ended: bool,
}

impl<'d> InFlight<'d> {
    /// The first submit signals the semaphore that the second waits for. If the second is refused, this waits for the
    /// first before it returns the error.
    ///
    /// # Safety
    /// The command buffers are recorded; all objects they use live until the guard is dropped.
    pub(super) unsafe fn submit(
        device: &'d Device<'d>,
        commands: &Commands<'_, 2>,
        sync: &Sync<'_>,
    ) -> Result<Self, WorkloadError> {
        let mut in_flight = Self::nothing(device, [*sync.first_done, *sync.second_done]);
        let [first, second] = commands.all().map(|buffer| [buffer]);
        let computed = [*sync.computed];
        let compute = vk::SubmitInfo::default().command_buffers(&first).signal_semaphores(&computed);
        // SAFETY: the command buffers are recorded and their objects live until this guard is dropped; semaphore and
        // fence are unsignalled.
        unsafe { in_flight.queue(&compute, *sync.first_done) }?;
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
        let draw =
            vk::SubmitInfo::default().command_buffers(&second).wait_semaphores(&computed).wait_dst_stage_mask(&stages);
        // SAFETY: the command buffers are recorded, their objects live as long as this guard, and the first submit
        // signals the semaphore.
        unsafe { in_flight.queue(&draw, *sync.second_done) }?;
        Ok(in_flight)
    }

    /// # Safety
    /// As for [`submit`](Self::submit); the fence is of the device and unsignalled.
    pub(super) unsafe fn submit_one(
        device: &'d Device<'d>,
        commands: &Commands<'_, 1>,
        fence: &Guard<'_, vk::Fence>,
    ) -> Result<Self, WorkloadError> {
        let mut in_flight = Self::nothing(device, [**fence, vk::Fence::null()]);
        let buffers = commands.all();
        let work = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the command buffer is recorded and its objects live until this guard is dropped.
        unsafe { in_flight.queue(&work, **fence) }?;
        Ok(in_flight)
    }

    fn nothing(device: &'d Device<'d>, fences: [vk::Fence; 2]) -> Self {
        Self { device, fences, submitted: 0, ended: false }
    }

    /// # Safety
    ///
    /// `work` satisfies the valid usage of `vkQueueSubmit` until the device has finished it; `fence` is the next of
    /// `fences`.
    unsafe fn queue(&mut self, work: &vk::SubmitInfo<'_>, fence: vk::Fence) -> Result<(), WorkloadError> {
        // SAFETY: `work` is valid until the device has finished it; one thread uses the queue.
        unsafe { self.device.queue_submit(self.device.queue(), slice::from_ref(work), fence) }
            .map_err(WorkloadError::of("vkQueueSubmit"))?;
        self.submitted += 1;
        Ok(())
    }

    /// Waits until the work is done. After a failure drop goes on waiting.
    pub(super) fn finish(mut self) -> Result<(), WorkloadError> {
        let waited = self.wait();
        self.ended = waited.is_ok();
        waited.map_err(WorkloadError::of("vkWaitForFences"))
    }

    fn wait(&self) -> VkResult<()> {
        let submitted = self.fences.get(..self.submitted).unwrap_or(&self.fences);
        if submitted.is_empty() {
            return Ok(());
        }
        // SAFETY: fences of this device, alive until the guard is dropped (contract of `submit`).
        unsafe { self.device.wait_for_fences(submitted, true, PATIENCE_NS) }
    }

    fn wait_idle(&self) -> VkResult<()> {
        // SAFETY: the queue lives with its device, and one thread uses it.
        unsafe { self.device.queue_wait_idle(self.device.queue()) }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut tries = 0..TRIES;
        while !self.ended && tries.next().is_some() {
            // A lost device does no more work.
            let over = |result| matches!(result, Ok(()) | Err(vk::Result::ERROR_DEVICE_LOST));
            self.ended = over(self.wait()) || over(self.wait_idle());
        }
    }
}
