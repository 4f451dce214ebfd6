//! The planted defects that are one wrong call during a command, and those between commands.

use core::ptr::{self, NonNull};

use alloc_core::{NoticeEvent, Scope};

use crate::chain::{FakeBlock, FakeChain};
use crate::defect::Defect;
use crate::driver::FakeDriver;
use crate::faulty;
use crate::host::Host;
use vk_callbacks::Level;
use vk_callbacks::VK_ERROR_OUT_OF_HOST_MEMORY;
use vk_callbacks::raw::INTERNAL_EXECUTABLE;

/// The command with most defects: about device memory, which has callbacks of its own, as device and instance have.
pub(crate) const SCENE: &str = "vkMapMemory";

const VK_ERROR_INITIALIZATION_FAILED: i32 = -3;
/// `VK_INTERNAL_ALLOCATION_TYPE_*` has no such value.
const NO_SUCH_TYPE: i32 = 1;
/// `VK_SYSTEM_ALLOCATION_SCOPE_*` has no such value.
const NO_SUCH_SCOPE: i32 = 7;

impl FakeDriver<'_> {
    /// Does what is planted for this command. Returns the error of the command, if planted.
    pub(crate) fn misbehave(&self, command: &'static str, chain: &FakeChain) -> Option<i32> {
        let defect = self.defect?;
        let own = chain.object;
        // A block of that level and scope, allocated and freed.
        let borrow = |level, scope| {
            if let Ok(block) = chain.allocate_at(level, 64, 8, scope) {
                chain.free(block);
            }
        };
        match (command, defect) {
            // The wrong callbacks.
            ("vkCreateBuffer", Defect::CommandLessSpecific) => borrow(Level::Device, Scope::Command),
            (SCENE, Defect::DeviceLessSpecific) => borrow(Level::Instance, Scope::Device),
            (SCENE, Defect::DeviceTooSpecific) => borrow(Level::Object, Scope::Device),
            (SCENE, Defect::InstanceElsewhere) => borrow(Level::Device, Scope::Instance),
            (SCENE, Defect::CacheScopeElsewhere) | ("vkMergePipelineCaches", Defect::CacheElsewhere) => {
                borrow(Level::Device, Scope::Cache)
            }
            ("vkCreateBuffer", Defect::ObjectLessSpecific) | ("vkAllocateDescriptorSets", Defect::PoolPassedOver) => {
                borrow(Level::Device, Scope::Object)
            }
            ("vkCreateBuffer", Defect::DeviceScopeInCreate) => borrow(Level::Device, Scope::Device),
            (SCENE, Defect::ObjectOutsideCreate)
            | ("vkMergePipelineCaches", Defect::CacheAsObject)
            | ("vkUpdateDescriptorSets", Defect::DescriptorPoolElsewhere)
            | ("vkEndCommandBuffer", Defect::CommandPoolElsewhere) => borrow(Level::Object, Scope::Object),
            ("vkCreateImage", Defect::OutsideChain) => self.stranger(Scope::Command),
            ("vkDeferredOperationJoinKHR", Defect::OutsideDeferred) => self.stranger(Scope::Object),
            (SCENE, Defect::UnknownUserData) => own.into_iter().for_each(|own| {
                let at = own.with_user_data(ptr::without_provenance_mut(0x5a5a)).allocate(64, 8, Scope::Command);
                own.free_if_any(at);
            }),
            // Arguments.
            (SCENE, Defect::BadAlignment) => {
                own.into_iter().for_each(|own| own.allocate_and_free(64, 24, Scope::Command))
            }
            (SCENE, Defect::SizeZero) => own.into_iter().for_each(|own| own.allocate_and_free(0, 8, Scope::Command)),
            (SCENE, Defect::BadScope) => {
                own.into_iter().for_each(|own| own.free_if_any(own.allocate_raw(64, 8, NO_SUCH_SCOPE)))
            }
            (SCENE, Defect::NullFree) => own.into_iter().for_each(|own| own.free(ptr::null_mut())),
            ("vkQueueWaitIdle" | "vkDeviceWaitIdle", _) => self.before_and_after_idle(command, chain),
            _ => return self.misuse(command, defect, chain),
        }
        None
    }

    /// The defects that need a block of the command.
    fn misuse(&self, command: &str, defect: Defect, chain: &FakeChain) -> Option<i32> {
        let (own, device) = (chain.object?, chain.device?);
        let allocate = |scope| chain.allocate(64, 8, scope).ok();
        match (command, defect) {
            (SCENE, Defect::ReallocatedUnknown) => {
                let block = allocate(Scope::Command)?;
                own.reallocate_and_free(inside(block), 128, 8, Scope::Command);
                chain.free(block);
            }
            (SCENE, Defect::ReallocatedFreed) => {
                let block = allocate(Scope::Command)?;
                chain.free(block);
                own.reallocate_and_free(block.at.as_ptr(), 128, 8, Scope::Command);
            }
            (SCENE, Defect::ReallocatedThroughOther) => {
                let block = allocate(Scope::Device)?;
                let moved = own.reallocate(block.at.as_ptr(), 128, 8, Scope::Device);
                // It stays a block of its own callbacks. If the reallocation failed, it is unchanged.
                let at = NonNull::new(moved).unwrap_or(block.at);
                chain.free(FakeBlock { at, ..block });
            }
            (SCENE, Defect::OtherAlignment) => {
                let block = allocate(Scope::Command)?;
                own.reallocate_and_free(block.at.as_ptr(), 128, 16, Scope::Command);
            }
            ("vkCreateBuffer", Defect::OtherScope) => {
                let block = allocate(Scope::Command)?;
                own.reallocate_and_free(block.at.as_ptr(), 128, 8, Scope::Object);
            }
            (SCENE, Defect::FreedUnknown) => {
                let block = allocate(Scope::Command)?;
                own.free(inside(block));
                chain.free(block);
            }
            (SCENE, Defect::FreedTwice) => {
                let block = allocate(Scope::Command)?;
                chain.free(block);
                chain.free(block);
            }
            (SCENE, Defect::FreedThroughOther) => {
                let block = allocate(Scope::Device)?;
                own.free(block.at.as_ptr());
            }
            (SCENE, Defect::FreedInTransit) => self.free_in_transit(chain),
            // Blocks that stay.
            (SCENE, Defect::CommandBlockLeft) => self.kept.put(allocate(Scope::Command)?),
            ("vkUnmapMemory", Defect::CommandBlockLeft) => own.free(self.kept.remove()?.as_ptr()),
            ("vkCreateBuffer", Defect::FreedInOtherCommand) => self.kept.put(allocate(Scope::Object)?),
            ("vkBindBufferMemory", Defect::FreedInOtherCommand) => own.free(self.kept.remove()?.as_ptr()),
            // Notifications.
            (SCENE, Defect::InternalType) => own.notify(NoticeEvent::Allocated, 64, NO_SUCH_TYPE, Scope::Command),
            (SCENE, Defect::InternalNegative) => {
                own.notify(NoticeEvent::Freed, 64, INTERNAL_EXECUTABLE, Scope::Command)
            }
            (SCENE, Defect::InternalLeft) => {
                own.notify(NoticeEvent::Allocated, 64, INTERNAL_EXECUTABLE, Scope::Command)
            }
            ("vkCreateFence", Defect::InternalAtEnd) => {
                own.notify(NoticeEvent::Allocated, 64, INTERNAL_EXECUTABLE, Scope::Object)
            }
            (SCENE, Defect::NotifiedOnForeignThread) => self.dispatch.alongside(&mut || (), &|| notify_both(&device)),
            (SCENE, Defect::AskedOnForeignThread) => {
                self.dispatch.alongside(&mut || (), &|| {
                    allocate(Scope::Device).into_iter().for_each(|block| self.kept.put(block))
                });
                device.free(self.kept.remove()?.as_ptr());
            }
            // Results of commands.
            (SCENE, Defect::OutOfMemoryWithoutNull) => return Some(VK_ERROR_OUT_OF_HOST_MEMORY),
            (SCENE, Defect::OtherErrorAfterNull) => {
                let refused = own.allocate(faulty::REFUSED, 8, Scope::Command).is_null();
                return refused.then_some(VK_ERROR_INITIALIZATION_FAILED);
            }
            // Wrong answers of the application's allocator.
            (SCENE, Defect::MisalignedAnswer) => {
                own.allocate_and_free(64, faulty::MISALIGNED, Scope::Command);
            }
            (SCENE, Defect::LiveBlockGivenAgain) => {
                let blocks = [(); 2].map(|()| own.allocate(faulty::ADDRESS_REUSED, 8, Scope::Command));
                let [first, second] = blocks;
                own.free(first);
                if first != second {
                    own.free(second);
                }
            }
            (SCENE, Defect::ZeroAnswered) => {
                let block = own.allocate(faulty::KEPT_AT_ZERO, 8, Scope::Command);
                own.reallocate_and_free(block, 0, 8, Scope::Command);
            }
            (SCENE, Defect::OldBlockGivenAway) => {
                let block = own.allocate(64, 8, Scope::Command);
                if own.reallocate(block, faulty::REFUSED, 8, Scope::Command).is_null() {
                    own.allocate(faulty::ALSO_FREED_BEHIND, 8, Scope::Command);
                }
                own.free(block);
            }
            (SCENE, Defect::CommandInCallback) => {
                let block = allocate(Scope::Command)?;
                own.reallocate_and_free(block.at.as_ptr(), faulty::CALLS_BACK, 8, Scope::Command);
            }
            _ => {}
        }
        None
    }

    /// One thread reallocates; during the call of the application's allocator another thread frees.
    fn free_in_transit(&self, chain: &FakeChain) {
        let (Ok(block), Some(own)) = (&chain.allocate(64, 8, Scope::Command), chain.object) else {
            return;
        };
        self.dispatch.alongside(
            &mut || own.reallocate_and_free(block.at.as_ptr(), faulty::IN_TRANSIT, 8, Scope::Command),
            &|| {
                let _ = self.command("vkFlushMappedMemoryRanges", *chain, |_| {
                    self.dispatch.meet();
                    own.free(block.at.as_ptr());
                    self.dispatch.part();
                    Ok(())
                });
            },
        );
    }

    /// Calls the buffer's callbacks, which this command did not get.
    fn stranger(&self, scope: Scope) {
        let Some(buffers) = self.dispatch.allocator(super::FakeKind::Buffer).copy() else {
            return;
        };
        buffers.allocate_and_free(64, 8, scope);
    }

    /// The planted calls while no command runs.
    pub(crate) fn idle(&self) {
        let Some(device) = self.device else { return };
        let chain = FakeChain { object: None, device: self.device, instance: self.instance };
        match self.defect {
            Some(Defect::NotifiedBetweenCommands) => notify_both(&device),
            Some(Defect::AskedBetweenCommands) => {
                chain.allocate(64, 8, Scope::Device).into_iter().for_each(|b| self.kept.put(b))
            }
            Some(Defect::FreedBetweenCommands) => {
                self.kept.remove().into_iter().for_each(|at| device.free(at.as_ptr()))
            }
            _ => {}
        }
    }

    /// The counterparts of [`idle`](Self::idle), in a command about the device.
    fn before_and_after_idle(&self, command: &str, chain: &FakeChain) {
        match (command, self.defect) {
            ("vkQueueWaitIdle", Some(Defect::FreedBetweenCommands)) => {
                chain.allocate(64, 8, Scope::Device).into_iter().for_each(|block| self.kept.put(block));
            }
            ("vkDeviceWaitIdle", Some(Defect::AskedBetweenCommands)) => {
                let device = chain.device.zip(self.kept.remove());
                device.into_iter().for_each(|(device, at)| device.free(at.as_ptr()));
            }
            _ => {}
        }
    }
}

fn notify_both(host: &Host) {
    for event in [NoticeEvent::Allocated, NoticeEvent::Freed] {
        host.notify(event, 64, INTERNAL_EXECUTABLE, Scope::Device);
    }
}

/// A pointer that no allocator returned: into a block of 64 bytes, so that the bytes before it can be read. Blocks
/// begin at multiples of 16, so it never was a block.
fn inside(block: FakeBlock) -> *mut u8 {
    block.at.as_ptr().wrapping_add(40)
}
