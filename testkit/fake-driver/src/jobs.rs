//! Work that continues after its command returned: deferred pipelines, submissions that another thread waits for.

use core::cell::Cell;

use alloc_core::Scope;

use crate::chain::{FakeBlock, FakeChain};
use crate::defect::Defect;
use crate::driver::{About, Answer, FakeDriver, VK_SUCCESS, build};
use crate::fake_object::Handle;
use crate::host::{Host, PassedCallbacks};
use crate::kind::FakeKind;

/// Pipelines of one command (V44).
pub(crate) const PIPELINES: usize = 3;

/// Deferred work: its operation, its callbacks, its memory.
pub(crate) struct Deferred {
    pub(crate) operation: Handle,
    passed: PassedCallbacks,
    notes: Option<FakeBlock>,
}

impl FakeDriver<'_> {
    /// `vkCreateComputePipelines`: several at once, and an entry of the cache. All of them or none.
    pub(crate) fn create_pipelines(
        &self,
        cache: &Handle,
        given: PassedCallbacks,
    ) -> Answer<[Option<Handle>; PIPELINES]> {
        let chain = self.chain(FakeKind::Pipeline, given.copy());
        let about = About { cache: cache.get().own, ..chain.into() };
        let made = self.command(FakeKind::Pipeline.create(), about, |chain| {
            // The cache's memory comes from the cache's callbacks (V29, V37).
            let of_cache = FakeChain { object: about.cache, ..*chain };
            let mut made = [None; PIPELINES];
            for place in &mut made {
                let looked_up = of_cache.allocate(72, 8, Scope::Cache);
                let built = looked_up.map_err(i32::from).and_then(|entry| {
                    let built = build(chain, FakeKind::Pipeline, given);
                    of_cache.free(entry);
                    built
                });
                match built {
                    Ok(handle) => *place = Some(handle),
                    Err(error) => {
                        made.into_iter().flatten().for_each(|handle| handle.destroy(chain));
                        return Err(error);
                    }
                }
            }
            Ok(made)
        })?;
        for handle in made.iter().flatten() {
            self.dispatch.created(FakeKind::Pipeline, handle.number(), given.id());
        }
        Ok(made)
    }

    /// `vkCreateRayTracingPipelinesKHR` with a deferred operation: it only allocates notes, in the operation's memory
    /// (V26).
    pub(crate) fn defer(&self, operation: Handle, given: PassedCallbacks) -> Answer<Deferred> {
        let own = operation.get().own;
        let about = self.about_deferred(given.copy(), own);
        self.command("vkCreateRayTracingPipelinesKHR", about, |chain| {
            let notes = FakeChain { object: own, ..*chain }.allocate(200, 8, Scope::Object)?;
            Ok(Deferred { operation, passed: given, notes: Some(notes) })
        })
    }

    /// `vkDeferredOperationJoinKHR`, on two threads: one does the work, the other helps. Each uses the callbacks of the
    /// deferred command.
    pub(crate) fn join(&self, deferred: &mut Deferred) -> Answer<Handle> {
        let (given, own) = (deferred.passed, deferred.operation.get().own);
        let about = self.about_deferred(given.copy(), own);
        let made = Cell::new(Err(VK_SUCCESS));
        let join = "vkDeferredOperationJoinKHR";
        self.dispatch.alongside(
            &mut || made.set(self.command(join, about, |chain| build(chain, FakeKind::Pipeline, given))),
            &|| {
                let _ = self.command(join, about, |chain| {
                    if let Ok(scratch) = chain.allocate(128, 8, Scope::Command) {
                        chain.free(scratch);
                    }
                    Ok(())
                });
            },
        );
        let made = made.into_inner();
        if let Ok(handle) = &made {
            self.dispatch.created(FakeKind::Pipeline, handle.number(), given.id());
        }
        made
    }

    /// The last join, which frees the notes.
    pub(crate) fn conclude(&self, deferred: &mut Deferred) {
        let own = deferred.operation.get().own;
        let about = self.about_deferred(deferred.passed.copy(), own);
        let _ = self.command("vkDeferredOperationJoinKHR", about, |chain| {
            let of_operation = FakeChain { object: own, ..*chain };
            deferred.notes.take().into_iter().for_each(|notes| of_operation.free(notes));
            Ok(())
        });
    }

    fn about_deferred(&self, own: Option<Host>, operation: Option<Host>) -> About {
        About { deferred: operation, ..self.chain(FakeKind::Pipeline, own).into() }
    }

    /// `vkQueueSubmit`: the submission is in the device's memory until a wait.
    pub(crate) fn submit(&self) -> Answer<FakeBlock> {
        let chain = self.chain(FakeKind::Device, self.device);
        self.command("vkQueueSubmit", chain, |chain| Ok(chain.allocate(168, 8, Scope::Device)?))
    }

    /// `vkWaitForFences`, on another thread than the submit: legal, since it is in a command.
    pub(crate) fn wait_elsewhere(&self, submission: FakeBlock) {
        let chain = self.chain(FakeKind::Device, self.device);
        let foreign = self.planted(Defect::FreedOnForeignThread);
        self.dispatch.alongside(&mut || (), &|| {
            if foreign {
                return chain.free(submission);
            }
            let _ = self.command("vkWaitForFences", chain, |chain| {
                chain.free(submission);
                Ok(())
            });
        });
    }
}
