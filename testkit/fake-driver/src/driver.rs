//! The commands of the fake driver, each in the bracket of an application's dispatch.

use alloc_core::Scope;

use crate::chain::{FakeChain, OutOfMemory};
use crate::defect::Defect;
use crate::dispatch::{Call, Dispatch};
use crate::fake_object::Handle;
use crate::harm::Harm;
use crate::host::{Host, PassedCallbacks};
use crate::kind::FakeKind;
use crate::planted_state::PlantedState;
use vk_callbacks::VK_ERROR_OUT_OF_HOST_MEMORY;
use vk_callbacks::command::Owners;

pub(crate) const VK_SUCCESS: i32 = 0;

/// The driver, with copies of its instance's and its device's callbacks.
#[derive(Clone, Copy)]
pub(crate) struct FakeDriver<'d> {
    pub(crate) dispatch: &'d dyn Dispatch,
    pub(crate) kept: &'d PlantedState,
    pub(crate) defect: Option<Defect>,
    pub(crate) harm: Option<Harm>,
    /// It requests 0 bytes and frees NULL, both of which are legal.
    pub(crate) habits: bool,
    pub(crate) instance: Option<Host>,
    pub(crate) device: Option<Host>,
}

/// The callbacks that a command may call.
#[derive(Clone, Copy, Default)]
pub(crate) struct About {
    pub(crate) chain: FakeChain,
    pub(crate) cache: Option<Host>,
    pub(crate) deferred: Option<Host>,
}

/// The result of a command: `VK_SUCCESS`, or an error.
pub(crate) type Answer<T> = Result<T, i32>;

impl From<OutOfMemory> for i32 {
    fn from(_: OutOfMemory) -> Self {
        VK_ERROR_OUT_OF_HOST_MEMORY
    }
}

impl From<FakeChain> for About {
    fn from(chain: FakeChain) -> Self {
        Self { chain, cache: None, deferred: None }
    }
}

impl FakeDriver<'_> {
    pub(crate) fn planted(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// The allocators of a command on an object of this kind with `own` callbacks. An instance's and a device's own are
    /// at their levels.
    pub(crate) const fn chain(&self, kind: FakeKind, own: Option<Host>) -> FakeChain {
        match kind {
            FakeKind::Instance => FakeChain { object: None, device: None, instance: own },
            FakeKind::Device => FakeChain { object: None, device: own, instance: self.instance },
            _ => FakeChain { object: own, device: self.device, instance: self.instance },
        }
    }

    /// Runs a command: the bracket, its planted defect, and its body. All commands use it.
    pub(crate) fn command<T>(
        &self,
        name: &'static str,
        about: impl Into<About>,
        body: impl FnOnce(&FakeChain) -> Answer<T>,
    ) -> Answer<T> {
        let About { chain, cache, deferred } = about.into();
        let id = |host: Option<Host>| host.and_then(|host| host.id);
        let owners = Owners {
            object: id(chain.object),
            cache: id(cache),
            deferred: id(deferred),
            device: id(chain.device),
            instance: id(chain.instance),
        };
        let (mut body, mut answer) = (Some(body), Err(VK_ERROR_OUT_OF_HOST_MEMORY));
        self.dispatch.command(&Call { name, owners }, &mut || {
            self.use_to(&chain);
            self.harm(name, &chain);
            let planted = self.misbehave(name, &chain);
            if let Some(body) = body.take() {
                answer = planted.map_or_else(|| body(&chain), Err);
            }
            answer.as_ref().err().copied().unwrap_or(VK_SUCCESS)
        });
        answer
    }

    /// Two legal calls: a block of 0 bytes, a free of NULL.
    fn use_to(&self, chain: &FakeChain) {
        if !self.habits {
            return;
        }
        if let Some((_, host)) = chain.most_specific(Scope::Command) {
            host.free(core::ptr::null_mut());
        }
        if let Ok(nothing) = chain.allocate(0, 8, Scope::Command) {
            chain.free(nothing);
        }
    }

    /// Any `vkCreate*` of one object.
    pub(crate) fn create(&self, kind: FakeKind, given: PassedCallbacks) -> Answer<Handle> {
        let handle = self.command(kind.create(), self.chain(kind, given.copy()), |chain| build(chain, kind, given))?;
        self.dispatch.created(kind, handle.number(), given.id());
        Ok(handle)
    }

    /// Any `vkDestroy*`. It frees through the copy of the creating callbacks: the application passes compatible ones
    /// (V42), and these are.
    pub(crate) fn destroy(&self, handle: Handle, given: PassedCallbacks) {
        let (kind, number) = (handle.get().kind, handle.number());
        self.end(handle);
        self.dispatch.destroyed(kind, number, given.id(), kind.destroy());
    }

    /// Any `vkDestroy*`, without a report.
    pub(crate) fn end(&self, mut handle: Handle) {
        let (kind, own) = (handle.get().kind, handle.get().own);
        let _ = self.command(kind.destroy(), self.chain(kind, own), |chain| {
            if kind == FakeKind::Template && self.planted(Defect::LiveAfterDestroy) {
                handle.forget_a_part();
            }
            while let Some(child) = handle.release_child() {
                child.destroy(chain);
            }
            handle.destroy(chain);
            Ok(())
        });
    }

    /// A command that reads an object and allocates scratch memory.
    pub(crate) fn look(&self, name: &'static str, kind: FakeKind, own: Option<Host>) -> Answer<()> {
        self.command(name, self.chain(kind, own), |chain| {
            let scratch = chain.allocate(100, 4, Scope::Command)?;
            chain.free(scratch);
            Ok(())
        })
    }
}

/// The memory of an object: scratch of scope command, its state and parts, a list that grows and shrinks.
pub(crate) fn build(chain: &FakeChain, kind: FakeKind, given: PassedCallbacks) -> Answer<Handle> {
    let mut scratch = chain.allocate(256, 8, Scope::Command)?;
    let grown = chain.resize(&mut scratch, 1024);
    let made = grown.and_then(|()| Handle::create(chain, kind, given));
    chain.free(scratch);
    let mut handle = made?;
    if let Err(refused) = handle.resize_a_part(chain) {
        handle.destroy(chain);
        return Err(refused.into());
    }
    Ok(handle)
}
