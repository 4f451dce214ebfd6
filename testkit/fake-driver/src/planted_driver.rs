//! The planted defects in a real driver, during its commands.

use core::ffi::CStr;
use core::fmt;

use alloc_core::Scope;

use crate::chain::FakeChain;
use crate::defect::Defect;
use crate::dispatch::Dispatch;
use crate::driver::FakeDriver;
use crate::host::PassedCallbacks;
use crate::planted::SCENE;
use crate::planted_state::PlantedState;

/// The defects that `testkit/planted-driver` can have. Tests take them from here: that library and the reference
/// driver, both linked into one program, would define the same names for the loader. The other defects are defects of
/// the application or its allocator, of a layer or of an extension that the driver lacks, or need an application that
/// changes its struct or blocks a thread inside a callback.
pub const PLANTABLE: &[Defect] = &[
    Defect::UnknownUserData,
    Defect::OutsideChain,
    Defect::BadAlignment,
    Defect::SizeZero,
    Defect::OutOfMemoryWithoutNull,
    Defect::OtherErrorAfterNull,
    Defect::ReallocatedUnknown,
    Defect::ReallocatedFreed,
    Defect::ReallocatedThroughOther,
    Defect::OtherAlignment,
    Defect::NullFree,
    Defect::FreedUnknown,
    Defect::FreedTwice,
    Defect::FreedThroughOther,
    Defect::InternalType,
    Defect::InternalNegative,
    Defect::InternalLeft,
    Defect::NotifiedBetweenCommands,
    Defect::NotifiedOnForeignThread,
    Defect::AskedBetweenCommands,
    Defect::FreedBetweenCommands,
    Defect::AskedOnForeignThread,
    Defect::FreedOnForeignThread,
    Defect::CommandBlockLeft,
    Defect::CommandLessSpecific,
    Defect::CacheElsewhere,
    Defect::CacheAsObject,
    Defect::ObjectLessSpecific,
    Defect::OtherScope,
    Defect::DeviceLessSpecific,
    Defect::DeviceTooSpecific,
    Defect::InstanceElsewhere,
    Defect::PoolPassedOver,
    Defect::PoolNeverAsked,
    Defect::BadScope,
    Defect::DeviceScopeInCreate,
    Defect::CacheScopeElsewhere,
    Defect::DescriptorPoolElsewhere,
    Defect::CommandPoolElsewhere,
    Defect::ObjectOutsideCreate,
    Defect::LiveAfterDestroy,
    Defect::FreedInOtherCommand,
];

/// The environment variable that names the defect.
pub const VARIABLE: &CStr = c"STEWARD_DEFECT";

/// A real driver with a planted [`Defect`]. It reports its commands and their callbacks; the planted calls happen
/// there.
pub struct PlantedDriver<'d> {
    defect: Defect,
    kept: &'d PlantedState,
    dispatch: &'d dyn Dispatch,
}

/// The callbacks of a command, each as its object was created with.
#[derive(Clone, Copy, Debug)]
pub struct CommandCallbacks {
    /// Those of the command's object.
    pub object: PassedCallbacks,
    /// Those of the device.
    pub device: PassedCallbacks,
    /// Those of the instance.
    pub instance: PassedCallbacks,
}

impl fmt::Debug for PlantedDriver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlantedDriver").field("defect", &self.defect).finish_non_exhaustive()
    }
}

impl<'d> PlantedDriver<'d> {
    /// A driver with this defect. `dispatch` has the callbacks of other objects, and threads.
    #[must_use]
    pub const fn new(defect: Defect, kept: &'d PlantedState, dispatch: &'d dyn Dispatch) -> Self {
        Self { defect, kept, dispatch }
    }

    /// The command of that name runs. Returns its planted error, if any.
    #[must_use]
    pub fn command(&self, command: &'static str, callbacks: &CommandCallbacks) -> Option<i32> {
        let (driver, chain) = self.driver(callbacks);
        let take = |scope| chain.allocate(64, 8, scope).ok();
        match (command, self.defect) {
            // The fake driver does these two in other commands.
            (SCENE, Defect::FreedOnForeignThread) => {
                let block = take(Scope::Device)?;
                self.dispatch.alongside(&mut || (), &|| chain.free(block));
                None
            }
            ("vkCreateDescriptorUpdateTemplate", Defect::LiveAfterDestroy) => {
                take(Scope::Object);
                None
            }
            _ => driver.misbehave(command, &chain),
        }
    }

    /// No command runs on this thread.
    pub fn between_commands(&self, callbacks: &CommandCallbacks) {
        self.driver(callbacks).0.idle();
    }

    fn driver(&self, callbacks: &CommandCallbacks) -> (FakeDriver<'d>, FakeChain) {
        let [object, device, instance] =
            [callbacks.object, callbacks.device, callbacks.instance].map(PassedCallbacks::copy);
        let driver = FakeDriver {
            dispatch: self.dispatch,
            kept: self.kept,
            defect: Some(self.defect),
            harm: None,
            habits: false,
            instance,
            device,
        };
        let chain = FakeChain { object, device, instance };
        (driver, chain)
    }
}
