use std::ffi::c_void;

use super::forward::Arguments;
use super::sparse::BindSparseInfo;
use crate::chain::{BindMemoryInfo, MapMemoryInfo, slice_of};
use crate::parent::Parent;

/// The parameters behind the device tell them apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryCommand {
    /// `(resource, memory, offset)`.
    Bind,
    /// `(count: u32, infos)`.
    BindMany,
    /// `(count: u32, infos, fence)`, behind a queue.
    BindSparse,
    /// `(memory, offset, size, flags, data)`.
    Map,
    /// `(info, data)`.
    MapByInfo,
    /// `(memory)`.
    Unmap,
    /// `(info)`.
    UnmapByInfo,
}

impl MemoryCommand {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "vkBindBufferMemory" | "vkBindImageMemory" => Self::Bind,
            "vkBindBufferMemory2" | "vkBindBufferMemory2KHR" | "vkBindImageMemory2" | "vkBindImageMemory2KHR" => {
                Self::BindMany
            }
            "vkQueueBindSparse" => Self::BindSparse,
            "vkMapMemory" => Self::Map,
            "vkMapMemory2" | "vkMapMemory2KHR" => Self::MapByInfo,
            "vkUnmapMemory" => Self::Unmap,
            "vkUnmapMemory2" | "vkUnmapMemory2KHR" => Self::UnmapByInfo,
            _ => return None,
        })
    }

    /// # Safety
    /// The arguments are those of the command.
    pub(super) unsafe fn note(self, parent: &Parent, arguments: &Arguments) {
        let Some(blocks) = &parent.memory else { return };
        let counts = &parent.accounts.device_memory;
        let word = |index| arguments.word(index) as u64;
        let info = arguments.word(1) as *const c_void;
        // A count has 32 bits: what stands above them is undefined.
        let count = word(1) as u32;
        match self {
            Self::Bind => blocks.bound(counts, word(2)),
            Self::BindMany => {
                let infos = arguments.word(2) as *const BindMemoryInfo;
                // SAFETY: the command has `count` infos.
                for info in unsafe { slice_of(infos, count) } {
                    blocks.bound(counts, info.memory);
                }
            }
            Self::BindSparse => {
                let infos = arguments.word(2) as *const BindSparseInfo;
                // SAFETY: the command has `count` infos.
                for info in unsafe { slice_of(infos, count) } {
                    // SAFETY: the command has succeeded with it.
                    unsafe { info.each_memory(|memory| blocks.bound(counts, memory)) };
                }
            }
            Self::Map => blocks.mapped(counts, word(1), (word(2), word(3))),
            Self::MapByInfo => {
                // SAFETY: the command's info.
                let info = unsafe { &*info.cast::<MapMemoryInfo>() };
                blocks.mapped(counts, info.memory, (info.offset, info.size));
            }
            Self::Unmap => blocks.unmapped(counts, word(1)),
            Self::UnmapByInfo => {
                // SAFETY: the command's info, whose first members are the same.
                let memory = unsafe { &raw const (*info.cast::<MapMemoryInfo>()).memory };
                // SAFETY: a member of that info.
                blocks.unmapped(counts, unsafe { memory.read() });
            }
        }
    }
}
