//! Pools and their children, which have no `pAllocator` and use the pool's (V34).

use alloc_core::Scope;

use crate::defect::Defect;
use crate::driver::{Answer, FakeDriver};
use crate::fake_object::Handle;
use crate::host::PassedCallbacks;
use crate::kind::FakeKind;

/// Bytes of one recorded command.
const RECORD: usize = 48;

impl FakeDriver<'_> {
    /// `vkAllocateDescriptorSets`, `vkAllocateCommandBuffers`: all of them or none.
    pub(crate) fn allocate(&self, pool: &mut Handle, kind: FakeKind, count: usize) -> Answer<()> {
        // The pool's callbacks are not called.
        let count = if kind == FakeKind::Set && self.planted(Defect::PoolNeverAsked) { 0 } else { count };
        self.command(kind.create(), self.chain(kind, pool.get().own), |chain| {
            for made in 0..count {
                match Handle::create(chain, kind, PassedCallbacks::NONE) {
                    Ok(child) => pool.adopt(child),
                    Err(refused) => {
                        let undone = (0..made).map_while(|_| pool.release_child());
                        undone.for_each(|child| child.destroy(chain));
                        return Err(refused.into());
                    }
                }
            }
            Ok(())
        })
    }

    /// `vkFreeDescriptorSets`, `vkFreeCommandBuffers`: the newest.
    pub(crate) fn free(&self, pool: &mut Handle, kind: FakeKind) {
        let _ = self.command(kind.destroy(), self.chain(kind, pool.get().own), |chain| {
            pool.release_child().into_iter().for_each(|child| child.destroy(chain));
            Ok(())
        });
    }

    /// `vkResetDescriptorPool`: all of its sets.
    pub(crate) fn reset_sets(&self, pool: &mut Handle) {
        let _ = self.command("vkResetDescriptorPool", self.chain(FakeKind::Set, pool.get().own), |chain| {
            while let Some(child) = pool.release_child() {
                child.destroy(chain);
            }
            Ok(())
        });
    }

    /// `vkCmd*`: one more record in the pool's memory, in a list that grows.
    pub(crate) fn record(&self, command: &'static str, buffer: &mut Handle) -> Answer<()> {
        self.command(command, self.chain(FakeKind::CommandBuffer, buffer.get().own), |chain| {
            let recorded = &mut buffer.get_mut().recorded;
            match recorded {
                Some(list) => chain.resize(list, list.size + RECORD)?,
                None => *recorded = Some(chain.allocate(RECORD, 8, Scope::Object)?),
            }
            Ok(())
        })
    }

    /// `vkResetCommandBuffer`, `vkBeginCommandBuffer`: frees the recorded commands.
    pub(crate) fn forget_recorded(&self, command: &'static str, buffer: &mut Handle) {
        let _ = self.command(command, self.chain(FakeKind::CommandBuffer, buffer.get().own), |chain| {
            buffer.get_mut().recorded.take().into_iter().for_each(|list| chain.free(list));
            Ok(())
        });
    }
}
