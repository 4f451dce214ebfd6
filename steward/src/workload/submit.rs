//! Two submits in order, and the promise that nothing is destroyed while the device works.

use ash::vk;

use super::commands::Commands;
use super::device::Device;
use super::error::WorkloadError;
use super::kind::ObjectKind;
use super::sync::Sync;

/// How often the wait is tried when it fails: it may be refused host memory, and that may come back.
const TRIES: u32 = 8;

/// Work that may be on the device. Dropping it waits for the queue, so everything declared before it may be destroyed.
pub(super) struct InFlight<'d> {
    device: &'d Device<'d>,
}

impl<'d> InFlight<'d> {
    /// Hands both command buffers to the queue: the first signals the semaphore that the second waits for, and the second the
    /// fence. The guard is there before the first submit, so that a driver which fails after it took the work is waited for too.
    ///
    /// # Safety
    ///
    /// The command buffers are recorded, and everything they use lives until the guard is dropped.
    pub(super) unsafe fn submit(device: &'d Device<'d>, commands: &Commands<'_>, sync: &Sync<'_>) -> Result<Self, WorkloadError> {
        let in_flight = Self { device };
        let [first, second] = commands.both().map(|buffer| [buffer]);
        let computed = [*sync.computed];
        let compute = vk::SubmitInfo::default().command_buffers(&first).signal_semaphores(&computed);
        // SAFETY: as the caller promises; the semaphore is unsignalled.
        unsafe { in_flight.queue(&compute, vk::Fence::null()) }?;
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
        let draw = vk::SubmitInfo::default().command_buffers(&second).wait_semaphores(&computed).wait_dst_stage_mask(&stages);
        // SAFETY: as the caller promises; the first submit signals the semaphore, and the fence is unsignalled.
        unsafe { in_flight.queue(&draw, *sync.done) }?;
        Ok(in_flight)
    }

    /// # Safety
    ///
    /// `work` satisfies the valid usage of `vkQueueSubmit` until the device has done it.
    unsafe fn queue(&self, work: &vk::SubmitInfo<'_>, fence: vk::Fence) -> Result<(), WorkloadError> {
        let work = std::ptr::from_ref(work);
        self.device.caller().check("vkQueueSubmit", ObjectKind::Queue, || {
            // SAFETY: as the caller promises; one thread uses the queue.
            unsafe { (self.device.v1_0().queue_submit)(self.device.queue(), 1, work, fence) }
        })
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            let result = self.device.caller().call("vkQueueWaitIdle", ObjectKind::Queue, || {
                // SAFETY: the queue lives with its device, and one thread uses it.
                unsafe { (self.device.v1_0().queue_wait_idle)(self.device.queue()) }
            });
            // A lost device does no more work.
            if matches!(result, vk::Result::SUCCESS | vk::Result::ERROR_DEVICE_LOST) {
                return;
            }
        }
    }
}
