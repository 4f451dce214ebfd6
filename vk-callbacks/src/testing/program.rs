//! The fake application: a program that uses all that the fake driver can do, and destroys what it made.

use super::defect::Defect;
use super::dispatch::Dispatch;
use super::driver::{Answer, FakeDriver};
use super::fake_object::Handle;
use super::harm::Harm;
use super::host::PassedCallbacks;
use super::kind::FakeKind;
use super::planted::SCENE;
use super::planted_state::PlantedState;

/// The fake program and what it does. One device on one instance; everything else is made and destroyed in each round.
#[derive(Clone, Copy, Debug)]
pub struct FakeProgram {
    /// What is planted; without, everybody does as the specification says.
    pub defect: Option<Defect>,
    /// How often, at least 1.
    pub rounds: usize,
    /// The driver asks for 0 bytes and frees NULL: legal, and noted by a checker.
    pub habits: bool,
}

/// What is to be destroyed, in the order in which it was made, and the callbacks for it.
struct CreatedObject<'d> {
    driver: FakeDriver<'d>,
    things: [Option<(Handle, PassedCallbacks)>; 24],
}

impl FakeProgram {
    /// Runs the program with the callbacks that `dispatch` gives; it must give an instance some.
    ///
    /// # Errors
    /// The `VkResult` of the command that failed. Everything that was made is destroyed, as at the end of a run that did not fail.
    pub fn run(&self, dispatch: &dyn Dispatch) -> Result<(), i32> {
        self.run_with(dispatch, None)
    }

    /// As [`run`](Self::run), with a driver that touches memory which is not, or no longer, its own.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Safety
    /// The allocator behind the callbacks stops what `harm` says, or withstands it: it guards its blocks.
    pub unsafe fn run_harming(&self, dispatch: &dyn Dispatch, harm: Harm) -> Result<(), i32> {
        self.run_with(dispatch, Some(harm))
    }

    fn run_with(&self, dispatch: &dyn Dispatch, harm: Option<Harm>) -> Result<(), i32> {
        let kept = PlantedState::default();
        let Self { defect, habits, .. } = *self;
        let mut driver = FakeDriver {
            dispatch,
            kept: &kept,
            defect,
            harm,
            habits,
            instance: None,
            device: None,
        };
        let given = dispatch.allocator(FakeKind::Instance);
        let instance = driver.create(FakeKind::Instance, given)?;
        driver.instance = instance.get().own;
        let answer = self.with_instance(driver);
        driver.destroy(instance, given);
        answer
    }

    fn with_instance(&self, mut driver: FakeDriver<'_>) -> Answer<()> {
        driver.look(
            "vkEnumeratePhysicalDevices",
            FakeKind::Instance,
            driver.instance,
        )?;
        let given = driver.dispatch.allocator(FakeKind::Device);
        let device = driver.create(FakeKind::Device, given)?;
        // Where the device has none of its own, those of the instance follow.
        driver.device = device.get().own;
        let answer = (0..self.rounds).try_for_each(|_| round(driver));
        driver.destroy(device, given);
        answer
    }
}

fn round(driver: FakeDriver<'_>) -> Answer<()> {
    let mut made = CreatedObject {
        driver,
        things: [None; 24],
    };
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
        if !driver.planted(Defect::OutOfMemoryWithoutNull)
            && !driver.planted(Defect::OtherErrorAfterNull)
        {
            mapped?;
        }
        driver.look("vkUnmapMemory", FakeKind::Memory, memory.get().own)?;
        if driver.habits {
            // vkDestroyBuffer(VK_NULL_HANDLE) does nothing.
            driver.command(
                FakeKind::Buffer.destroy(),
                driver.chain(FakeKind::Buffer, buffer.get().own),
                |_| Ok(()),
            )?;
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
        // These go with their pool.
        driver.allocate(&mut pool, FakeKind::Set, 2)
    }

    fn pipelines(&mut self) -> Answer<()> {
        let driver = self.driver;
        let cache = self.create(FakeKind::PipelineCache)?;
        let given = driver.dispatch.allocator(FakeKind::Pipeline);
        for pipeline in driver
            .create_pipelines(&cache, given)?
            .into_iter()
            .flatten()
        {
            self.push(pipeline, given);
        }
        driver.look(
            "vkMergePipelineCaches",
            FakeKind::PipelineCache,
            cache.get().own,
        )?;
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
            for command in [
                "vkCmdBindPipeline",
                "vkCmdBindDescriptorSets",
                "vkCmdPushConstants",
                "vkCmdDispatch",
            ] {
                driver.record(command, &mut buffer)?;
            }
            driver.look(
                "vkEndCommandBuffer",
                FakeKind::CommandBuffer,
                pool.get().own,
            )?;
        }
        driver.forget_recorded("vkResetCommandBuffer", &mut buffer);
        driver.look("vkTrimCommandPool", FakeKind::CommandPool, pool.get().own)?;
        driver.free(&mut pool, FakeKind::CommandBuffer);
        Ok(())
    }

    /// Creates an object that is destroyed at the end.
    fn create(&mut self, kind: FakeKind) -> Answer<Handle> {
        let given = if self.goes_without(kind) {
            PassedCallbacks::NONE
        } else {
            self.driver.dispatch.allocator(kind)
        };
        let handle = self.driver.create(kind, given)?;
        self.push(handle, given);
        Ok(handle)
    }

    /// Images never have callbacks; a fence has none where its would lack a function.
    fn goes_without(&self, kind: FakeKind) -> bool {
        let lacking = [
            Defect::MissingAllocation,
            Defect::MissingReallocation,
            Defect::MissingFree,
            Defect::HalfInternal,
        ];
        kind == FakeKind::Image
            || kind == FakeKind::Fence
                && lacking
                    .into_iter()
                    .any(|defect| self.driver.planted(defect))
    }

    fn push(&mut self, handle: Handle, given: PassedCallbacks) {
        if let Some(place) = self.things.iter_mut().find(|place| place.is_none()) {
            *place = Some((handle, given));
        }
    }

    /// Newest first; and what the application does wrong there.
    fn destroy_all(&mut self) {
        let driver = self.driver;
        for (handle, given) in self.things.iter_mut().rev().filter_map(Option::take) {
            let (kind, number) = (handle.get().kind, handle.number());
            let others = driver.dispatch.allocator(FakeKind::Buffer);
            match (kind, driver.defect) {
                (FakeKind::Fence, Some(Defect::LiveAtEnd)) => {}
                (FakeKind::Fence, Some(Defect::InternalAtEnd)) => driver.end(handle),
                (FakeKind::Fence, Some(Defect::OtherGroupAtDestroy)) => {
                    driver.destroy(handle, others)
                }
                (FakeKind::Fence, Some(Defect::NoneAtDestroy)) => {
                    driver.destroy(handle, PassedCallbacks::NONE)
                }
                (FakeKind::Image, Some(Defect::OnlyAtDestroy)) => driver.destroy(handle, others),
                (FakeKind::Fence, Some(Defect::UnknownHandle)) => {
                    driver.destroy(handle, given);
                    let chain = driver.chain(kind, given.copy());
                    let _ = driver.command(kind.destroy(), chain, |_| Ok(()));
                    driver
                        .dispatch
                        .destroyed(kind, number, given.id(), kind.destroy());
                }
                _ => driver.destroy(handle, given),
            }
        }
    }
}
