//! Submits in order, and the promise that nothing is destroyed while the device works.

use ash::vk;

use super::commands::Commands;
use super::device::Device;
use super::error::WorkloadError;
use super::object::Guard;
use super::sync::Sync;
use vk_accounts::ObjectKind;

/// Longer than any honest round takes, in nanoseconds: a hanging driver becomes an error.
const PATIENCE_NS: u64 = 60_000_000_000;

/// How often waiting is tried when it fails: it may be refused host memory, and that may come back.
const TRIES: u32 = 8;

/// Work that may be on the device. Dropping it waits, so everything declared before it may be destroyed.
///
/// Each submit has a fence of its own, because waiting for a fence needs no memory in the drivers seen so far, while
/// `vkQueueWaitIdle` does in Mesa's and fails when there is none.
pub(super) struct InFlight<'d> {
    device: &'d Device<'d>,
    fences: [vk::Fence; 2],
    /// So many of `fences` belong to submits that the driver took.
    taken: u32,
    ended: bool,
}

impl<'d> InFlight<'d> {
    /// Hands both command buffers to the queue: the first signals the semaphore that the second waits for. When the second is
    /// refused, the first is waited for before the error is returned.
    ///
    /// # Safety
    ///
    /// The command buffers are recorded, and everything they use lives until the guard is dropped.
    pub(super) unsafe fn submit(
        device: &'d Device<'d>,
        commands: &Commands<'_, 2>,
        sync: &Sync<'_>,
    ) -> Result<Self, WorkloadError> {
        let mut in_flight = Self::nothing(device, [*sync.first_done, *sync.second_done]);
        let [first, second] = commands.all().map(|buffer| [buffer]);
        let computed = [*sync.computed];
        let compute = vk::SubmitInfo::default()
            .command_buffers(&first)
            .signal_semaphores(&computed);
        // SAFETY: as the caller promises; semaphore and fence are unsignalled.
        unsafe { in_flight.queue(&compute, *sync.first_done) }?;
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
        let draw = vk::SubmitInfo::default()
            .command_buffers(&second)
            .wait_semaphores(&computed)
            .wait_dst_stage_mask(&stages);
        // SAFETY: as the caller promises; the first submit signals the semaphore, and the fence is unsignalled.
        unsafe { in_flight.queue(&draw, *sync.second_done) }?;
        Ok(in_flight)
    }

    /// Hands one command buffer to the queue.
    ///
    /// # Safety
    ///
    /// As for [`submit`](Self::submit); the fence is of the device and unsignalled.
    pub(super) unsafe fn submit_one(
        device: &'d Device<'d>,
        commands: &Commands<'_, 1>,
        fence: &Guard<'_, vk::Fence>,
    ) -> Result<Self, WorkloadError> {
        let mut in_flight = Self::nothing(device, [**fence, vk::Fence::null()]);
        let buffers = commands.all();
        let work = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: as the caller promises; it is the first of the fences.
        unsafe { in_flight.queue(&work, **fence) }?;
        Ok(in_flight)
    }

    fn nothing(device: &'d Device<'d>, fences: [vk::Fence; 2]) -> Self {
        Self {
            device,
            fences,
            taken: 0,
            ended: false,
        }
    }

    /// # Safety
    ///
    /// `work` satisfies the valid usage of `vkQueueSubmit` until the device has done it; `fence` is the next of `fences`.
    unsafe fn queue(
        &mut self,
        work: &vk::SubmitInfo<'_>,
        fence: vk::Fence,
    ) -> Result<(), WorkloadError> {
        let work = std::ptr::from_ref(work);
        self.device
            .check("vkQueueSubmit", ObjectKind::Queue, |vk, _| {
                // SAFETY: as the caller promises; one thread uses the queue.
                unsafe { (vk.queue_submit)(self.device.queue(), 1, work, fence) }
            })?;
        self.taken += 1;
        Ok(())
    }

    /// Waits until the work is done. A failure is returned, and waiting goes on as the guard drops.
    pub(super) fn finish(mut self) -> Result<(), WorkloadError> {
        let result = self.wait();
        self.ended = result == vk::Result::SUCCESS;
        if self.ended {
            Ok(())
        } else {
            Err(WorkloadError::Command {
                command: "vkWaitForFences",
                result,
            })
        }
    }

    fn wait(&self) -> vk::Result {
        if self.taken == 0 {
            return vk::Result::SUCCESS;
        }
        let fences = self.fences.as_ptr();
        self.device
            .call("vkWaitForFences", ObjectKind::Fence, |vk, this| {
                // SAFETY: so many fences of this device, alive until the guard is dropped (contract of `submit`).
                unsafe { (vk.wait_for_fences)(this, self.taken, fences, vk::TRUE, PATIENCE_NS) }
            })
    }

    fn wait_idle(&self) -> vk::Result {
        self.device
            .call("vkQueueWaitIdle", ObjectKind::Queue, |vk, _| {
                // SAFETY: the queue lives with its device, and one thread uses it.
                unsafe { (vk.queue_wait_idle)(self.device.queue()) }
            })
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut tries = 0..TRIES;
        while !self.ended && tries.next().is_some() {
            // A lost device does no more work.
            let over =
                |result| matches!(result, vk::Result::SUCCESS | vk::Result::ERROR_DEVICE_LOST);
            self.ended = over(self.wait()) || over(self.wait_idle());
        }
    }
}
