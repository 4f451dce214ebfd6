//! The fake application: a program that uses all commands of the fake driver, and destroys its objects.

use crate::defect::Defect;
use crate::dispatch::Dispatch;
use crate::driver::{Answer, FakeDriver};
use crate::fake_object::Handle;
use crate::harm::Harm;
use crate::host::PassedCallbacks;
use crate::kind::FakeKind;
use crate::planted::SCENE;
use crate::planted_state::PlantedState;

/// The fake program. One device on one instance; each round creates and destroys all other objects.
#[derive(Clone, Copy, Debug)]
pub struct FakeProgram {
    /// The planted defect; without one, all sides obey the specification.
    pub defect: Option<Defect>,
    /// The number of rounds, at least 1.
    pub rounds: usize,
    /// The driver requests 0 bytes and frees NULL: legal, and a note of a checker.
    pub habits: bool,
}

/// The objects to destroy, in the order of their creation, and their callbacks.
struct CreatedObject<'d> {
    driver: FakeDriver<'d>,
    objects: [Option<(Handle, PassedCallbacks)>; 24],
}

impl FakeProgram {
    /// Runs the program with the callbacks of `dispatch`, which must have some for the instance.
    ///
    /// # Errors
    /// The `VkResult` of the command that failed. All objects are destroyed, as at the end of a successful run.
    pub fn run(&self, dispatch: &dyn Dispatch) -> Result<(), i32> {
        self.run_with(dispatch, None)
    }

    /// As [`run`](Self::run), with a driver that uses memory that is not its own any more.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Safety
    /// The allocator behind the callbacks guards its blocks: it stops or withstands `harm`.
    pub unsafe fn run_harming(&self, dispatch: &dyn Dispatch, harm: Harm) -> Result<(), i32> {
        self.run_with(dispatch, Some(harm))
    }

    fn run_with(&self, dispatch: &dyn Dispatch, harm: Option<Harm>) -> Result<(), i32> {
        let kept = PlantedState::default();
        let Self { defect, habits, .. } = *self;
        let mut driver = FakeDriver { dispatch, kept: &kept, defect, harm, habits, instance: None, device: None };
        let given = dispatch.allocator(FakeKind::Instance);
        let instance = driver.create(FakeKind::Instance, given)?;
        driver.instance = instance.get().own;
        let answer = self.with_instance(driver);
        driver.destroy(instance, given);
        answer
    }

    fn with_instance(&self, mut driver: FakeDriver<'_>) -> Answer<()> {
        driver.look("vkEnumeratePhysicalDevices", FakeKind::Instance, driver.instance)?;
        let given = driver.dispatch.allocator(FakeKind::Device);
        let device = driver.create(FakeKind::Device, given)?;
        // If the device has none of its own, the instance's follow.
        driver.device = device.get().own;
        let answer = (0..self.rounds).try_for_each(|_| round(driver));
        driver.destroy(device, given);
        answer
    }
}

fn round(driver: FakeDriver<'_>) -> Answer<()> {
    let mut made = CreatedObject { driver, objects: [None; 24] };
    let answer = made.fill();
    made.destroy_all();
    answer
}

impl CreatedObject<'_> {
    fn fill(&mut self) -> Answer<()> {
        let driver = self.driver;
        self.resources()?;
        self.descriptors()?;
        self.pipelines()?;
        self.recording()?;
        let submission = driver.submit()?;
        driver.wait_elsewhere(submission);
        driver.look("vkQueueWaitIdle", FakeKind::Device, driver.device)?;
        driver.idle();
        driver.look("vkDeviceWaitIdle", FakeKind::Device, driver.device)
    }

    fn resources(&mut self) -> Answer<()> {
        let driver = self.driver;
        let memory = self.create(FakeKind::Memory)?;
        let buffer = self.create(FakeKind::Buffer)?;
        self.create(FakeKind::Image)?;
        self.create(FakeKind::Fence)?;
        let mut own = buffer.get().own;
        if driver.planted(Defect::OldStructUsed) {
            driver.dispatch.spoil(FakeKind::Buffer);
            own = buffer.get().passed.copy();
        }
        driver.look("vkBindBufferMemory", FakeKind::Buffer, own)?;
        let mapped = driver.look(SCENE, FakeKind::Memory, memory.get().own);
        if !driver.planted(Defect::OutOfMemoryWithoutNull) && !driver.planted(Defect::OtherErrorAfterNull) {
            mapped?;
        }
        driver.look("vkUnmapMemory", FakeKind::Memory, memory.get().own)?;
        if driver.habits {
            // vkDestroyBuffer(VK_NULL_HANDLE) does nothing.
            driver.command(FakeKind::Buffer.destroy(), driver.chain(FakeKind::Buffer, buffer.get().own), |_| Ok(()))?;
        }
        Ok(())
    }

    fn descriptors(&mut self) -> Answer<()> {
        let driver = self.driver;
        self.create(FakeKind::SetLayout)?;
        self.create(FakeKind::PipelineLayout)?;
        self.create(FakeKind::Template)?;
        let mut pool = self.create(FakeKind::DescriptorPool)?;
        driver.allocate(&mut pool, FakeKind::Set, 3)?;
        driver.look("vkUpdateDescriptorSets", FakeKind::Set, pool.get().own)?;
        driver.free(&mut pool, FakeKind::Set);
        driver.reset_sets(&mut pool);
        // These are destroyed with their pool.
        driver.allocate(&mut pool, FakeKind::Set, 2)
    }

    fn pipelines(&mut self) -> Answer<()> {
        let driver = self.driver;
        let cache = self.create(FakeKind::PipelineCache)?;
        let given = driver.dispatch.allocator(FakeKind::Pipeline);
        for pipeline in driver.create_pipelines(&cache, given)?.into_iter().flatten() {
            self.push(pipeline, given);
        }
        driver.look("vkMergePipelineCaches", FakeKind::PipelineCache, cache.get().own)?;
        let operation = self.create(FakeKind::Deferred)?;
        let mut deferred = driver.defer(operation, given)?;
        let joined = driver.join(&mut deferred);
        driver.conclude(&mut deferred);
        self.push(joined?, given);
        Ok(())
    }

    fn recording(&mut self) -> Answer<()> {
        let driver = self.driver;
        let mut pool = self.create(FakeKind::CommandPool)?;
        driver.allocate(&mut pool, FakeKind::CommandBuffer, 2)?;
        let Some(mut buffer) = pool.child() else {
            return Ok(());
        };
        for _ in 0..2 {
            driver.forget_recorded("vkBeginCommandBuffer", &mut buffer);
            for command in ["vkCmdBindPipeline", "vkCmdBindDescriptorSets", "vkCmdPushConstants", "vkCmdDispatch"] {
                driver.record(command, &mut buffer)?;
            }
            driver.look("vkEndCommandBuffer", FakeKind::CommandBuffer, pool.get().own)?;
        }
        driver.forget_recorded("vkResetCommandBuffer", &mut buffer);
        driver.look("vkTrimCommandPool", FakeKind::CommandPool, pool.get().own)?;
        driver.free(&mut pool, FakeKind::CommandBuffer);
        Ok(())
    }

    /// Creates an object that is destroyed at the end.
    fn create(&mut self, kind: FakeKind) -> Answer<Handle> {
        let given = if self.goes_without(kind) { PassedCallbacks::NONE } else { self.driver.dispatch.allocator(kind) };
        let handle = self.driver.create(kind, given)?;
        self.push(handle, given);
        Ok(handle)
    }

    /// Images never have callbacks; a fence has none if a function would be missing.
    fn goes_without(&self, kind: FakeKind) -> bool {
        let lacking =
            [Defect::MissingAllocation, Defect::MissingReallocation, Defect::MissingFree, Defect::HalfInternal];
        kind == FakeKind::Image
            || kind == FakeKind::Fence && lacking.into_iter().any(|defect| self.driver.planted(defect))
    }

    fn push(&mut self, handle: Handle, given: PassedCallbacks) {
        if let Some(place) = self.objects.iter_mut().find(|place| place.is_none()) {
            *place = Some((handle, given));
        }
    }

    /// Destroys the objects, newest first, with the application's planted mistakes.
    fn destroy_all(&mut self) {
        let driver = self.driver;
        for (handle, given) in self.objects.iter_mut().rev().filter_map(Option::take) {
            let (kind, number) = (handle.get().kind, handle.number());
            let others = driver.dispatch.allocator(FakeKind::Buffer);
            match (kind, driver.defect) {
                (FakeKind::Fence, Some(Defect::LiveAtEnd)) => {}
                (FakeKind::Fence, Some(Defect::InternalAtEnd)) => driver.end(handle),
                (FakeKind::Fence, Some(Defect::OtherGroupAtDestroy)) => driver.destroy(handle, others),
                (FakeKind::Fence, Some(Defect::NoneAtDestroy)) => driver.destroy(handle, PassedCallbacks::NONE),
                (FakeKind::Image, Some(Defect::OnlyAtDestroy)) => driver.destroy(handle, others),
                (FakeKind::Fence, Some(Defect::UnknownHandle)) => {
                    driver.destroy(handle, given);
                    let chain = driver.chain(kind, given.copy());
                    let _ = driver.command(kind.destroy(), chain, |_| Ok(()));
                    driver.dispatch.destroyed(kind, number, given.id(), kind.destroy());
                }
                _ => driver.destroy(handle, given),
            }
        }
    }
}
