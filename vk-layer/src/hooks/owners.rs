//! A command without a `pAllocator` may call the callbacks of the pool or the cache, the device, the instance.

use std::ffi::c_void;

use vk_callbacks::commands::{AllocatorSource, CommandAction};
use vk_callbacks::{CommandRow, Owners};

use super::forward::Arguments;
use super::{CREATE_CACHE, CREATE_DEFERRED};
use crate::chain::PoolAllocateInfo;
use crate::commands::known_row;
use crate::parent::Parent;

const CREATE_COMMAND_POOL: usize = known_row("vkCreateCommandPool");
const CREATE_DESCRIPTOR_POOL: usize = known_row("vkCreateDescriptorPool");
const ALLOCATE_MEMORY: usize = known_row("vkAllocateMemory");
const CREATE_VALIDATION_CACHE: usize = known_row("vkCreateValidationCacheEXT");

/// Commands that map or bind memory may call the callbacks of the memory.
pub(super) fn with_memory(owners: Owners, parent: &Parent) -> Owners {
    let memory = parent.accounts.kind(ALLOCATE_MEMORY);
    let object = memory.and_then(|memory| memory.one_owner().ok().flatten());
    Owners { object, ..owners }
}

/// No owner at all where they cannot be known: then the checker does not judge which callbacks were called.
///
/// # Safety
/// The arguments are those of a command of this row.
pub(super) unsafe fn owners(row: &CommandRow, parent: &Parent, arguments: &Arguments) -> Owners {
    let behind = parent.owners();
    let index = match (row.source(alloc_core::Scope::Object), row.object) {
        (AllocatorSource::Pool, "VkDescriptorSet" | "VkDescriptorPool") => CREATE_DESCRIPTOR_POOL,
        (AllocatorSource::Pool, _) => CREATE_COMMAND_POOL,
        (AllocatorSource::Cache, "VkValidationCacheEXT") => CREATE_VALIDATION_CACHE,
        (AllocatorSource::Cache, _) => CREATE_CACHE,
        (AllocatorSource::DeferredOperation, _) => CREATE_DEFERRED,
        _ => return behind,
    };
    let Some(kind) = parent.accounts.kind(index) else {
        return behind;
    };
    let handle = match row.action {
        CommandAction::Allocate => {
            let info = arguments.word(1) as *const c_void;
            // SAFETY: rows with this action have an info that names a pool.
            unsafe { &*info.cast::<PoolAllocateInfo>() }.pool
        }
        CommandAction::Record => 0,
        _ => arguments.word(1) as u64,
    };
    let owner = if handle == 0 {
        match kind.one_owner() {
            Ok(owner) => owner,
            Err(_) => return Owners::default(),
        }
    } else {
        kind.owner_of(handle)
    };
    if index == CREATE_DEFERRED {
        return Owners { object: parent.deferred.owner_of(handle), deferred: owner, ..behind };
    }
    Owners { object: owner, ..behind }
}
