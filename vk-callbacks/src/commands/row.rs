//! One command's row, how it is found, and the words that the table is written in.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

use super::generic;
use super::scopes::ScopeMask;
use super::table::TABLE;

/// What one Vulkan command does with host memory. Plain data; rows are found by name and live for ever.
///
/// ```
/// use alloc_core::Scope;
/// use vk_callbacks::CommandRow;
/// use vk_callbacks::commands::AllocatorSource;
///
/// const DRAW: &CommandRow = CommandRow::of("vkCmdDraw");
/// assert_eq!((DRAW.name, DRAW.source(Scope::Object)), ("vkCmd*", AllocatorSource::Pool));
/// let fence = CommandRow::of("vkRegisterDeviceEventEXT");
/// assert!(fence.creates() && CommandRow::of("vkDestroyFence").object == fence.object);
/// assert!(!CommandRow::of("vkMapMemory").may_allocate.contains(Scope::Object)); // V40
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandRow {
    /// The command; or a beginning and `*` in the row of all commands that begin so and have none of their own.
    pub name: &'static str,
    /// What it does to objects that take host memory.
    pub action: CommandAction,
    /// The kind of object it makes, ends, resets or fills (`VkBuffer`). Empty where there is none or the name does not say.
    pub object: &'static str,
    /// Its parameters, where it has a parameter `pAllocator`.
    pub signature: Option<CommandSignature>,
    /// It makes or ends several objects at once, all with one `pAllocator` or from one pool (V44).
    pub many: bool,
    /// It may be deferred (V26): given a deferred operation, it may draw from that one's allocator, too.
    pub deferrable: bool,
    /// Which parents' allocators follow the most specific one.
    pub level: CommandLevel,
    /// Scopes in which it may take memory (V36 to V40).
    pub may_allocate: ScopeMask,
    /// Scopes in which it may give memory back (V41).
    pub may_free: ScopeMask,
    from: AllocatorSource,
}

/// The parameters of a command with a `pAllocator`, in their order. All are pointers or handles, but where a count is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandSignature {
    /// `(info, pAllocator, object)`, of `vkCreateInstance`.
    CreateInstance,
    /// `(parent, info, pAllocator, object)`.
    Create,
    /// `(parent, pAllocator, object)`, of `vkCreateDeferredOperationKHR`.
    CreateWithoutInfo,
    /// `(parent, handle, info, pAllocator, object)`, the second one of a display.
    CreateForDisplay,
    /// `(device, count: u32, infos, pAllocator, objects)`.
    CreateMany,
    /// `(device, info, pAllocator, list)`, whose list says how many objects were created and where they are.
    CreateList,
    /// `(device, cache, count: u32, infos, pAllocator, objects)`.
    CreatePipelines,
    /// `(device, deferred operation, cache, count: u32, infos, pAllocator, objects)`.
    CreateDeferredPipelines,
    /// `(parent, object, pAllocator)`.
    Destroy,
    /// `(device, info, pAllocator)`, of `vkReleaseCapturedPipelineDataKHR`, which ends no object.
    Release,
    /// `(object, pAllocator)`, of `vkDestroyInstance` and `vkDestroyDevice`.
    DestroyParent,
}

/// What a command does to objects that take host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandAction {
    /// Makes objects: `vkCreate*`, `vkAllocateMemory`, `vkRegister*EventEXT`.
    Create,
    /// Ends an object: `vkDestroy*`, `vkFreeMemory`; or what it keeps: `vkReleaseCapturedPipelineDataKHR`.
    Destroy,
    /// Takes objects from a pool.
    Allocate,
    /// Gives objects back to their pool.
    Free,
    /// Works on a pool as a whole: resets, trims.
    Pool,
    /// Works on a command buffer: `vkCmd*`, begin, end, reset.
    Record,
    /// Adds to a cache.
    Merge,
    /// Does a part of what was deferred.
    Join,
    /// None of these.
    Other,
    /// No such command is known: nothing can be said about it.
    Unknown,
}

/// Where the most specific allocator of a command comes from. Where it is missing, that of the device and the instance follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocatorSource {
    /// The object that is made, ended or worked on: what its `vkCreate*` got.
    Object,
    /// The command or descriptor pool that the object came from (V34).
    Pool,
    /// The pipeline or validation cache (V29, V37).
    Cache,
    /// The deferred operation, and the command that was deferred (V26).
    DeferredOperation,
    /// The device: in `vkCreateDevice` what that is given (V31).
    Device,
    /// The instance: in `vkCreateInstance` what that is given (V32).
    Instance,
}

/// What a command is called on, and so whose allocators stand behind the most specific one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandLevel {
    /// Nothing: there is no instance yet.
    BeforeInstance,
    /// An instance or a physical device.
    Instance,
    /// A device, a queue or a command buffer.
    Device,
}

impl CommandRow {
    /// The row of the command `name`; if it has none, that of the longest beginning that has one. Every name has a row.
    ///
    /// About eight comparisons of names; in a constant none at run time.
    #[must_use]
    pub const fn of(name: &str) -> &'static Self {
        if let Some(index) = Self::index_of(name)
            && let Some((_, [row, ..])) = TABLE.split_at_checked(index)
        {
            return row;
        }
        generic::row_of(name)
    }

    /// The place of the command's own row in [`all`](Self::all); none where it has none.
    #[must_use]
    pub const fn index_of(name: &str) -> Option<usize> {
        let (mut first, mut rows) = (0, TABLE);
        while let Some((before, [row, behind @ ..])) = rows.split_at_checked(rows.len() / 2) {
            match order(name.as_bytes(), row.name.as_bytes()) {
                0 => return Some(first + before.len()),
                1.. => (first, rows) = (first + before.len() + 1, behind),
                _ => rows = before,
            }
        }
        None
    }

    /// The rows of single commands, in the order of their names.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        TABLE
    }

    /// Where the most specific allocator for `scope` comes from (V28 to V32, V34).
    #[must_use]
    pub const fn source(&self, scope: Scope) -> AllocatorSource {
        match scope {
            Scope::Command | Scope::Object => self.from,
            Scope::Cache => AllocatorSource::Cache,
            Scope::Device => AllocatorSource::Device,
            Scope::Instance => AllocatorSource::Instance,
        }
    }

    /// It has a parameter `pAllocator`.
    #[must_use]
    pub const fn has_allocator_parameter(&self) -> bool {
        self.signature.is_some()
    }

    /// It makes objects that a `vkDestroy*` of the same [`object`](Self::object) ends, with a compatible allocator (V42).
    #[must_use]
    pub const fn creates(&self) -> bool {
        matches!(self.action, CommandAction::Create)
    }

    /// It ends what a creating command of the same [`object`](Self::object) made.
    #[must_use]
    pub const fn destroys(&self) -> bool {
        matches!(self.action, CommandAction::Destroy)
    }

    /// The object is a cache: what belongs to it has scope cache, never object (V29).
    #[must_use]
    pub const fn is_of_cache(&self) -> bool {
        matches!(self.from, AllocatorSource::Cache)
    }
}

/// Below, at or above 0 as `a` stands before, at or behind `b`.
const fn order(mut a: &[u8], mut b: &[u8]) -> i32 {
    loop {
        match (a, b) {
            ([x, more @ ..], [y, others @ ..]) => {
                if *x != *y {
                    return *x as i32 - *y as i32;
                }
                (a, b) = (more, others);
            }
            _ => return a.len() as i32 - b.len() as i32,
        }
    }
}

// --- the words of the table -------------------------------------------------------------------------------------------

const WITH_OBJECT: ScopeMask = ScopeMask::ANY_COMMAND.with(Scope::Object);
const WITH_CACHE: ScopeMask = ScopeMask::ANY_COMMAND.with(Scope::Cache);

/// A command that makes an `object` with the `pAllocator` it is given.
pub(super) const fn create(name: &'static str, object: &'static str) -> CommandRow {
    let row = CommandRow {
        action: CommandAction::Create,
        object,
        signature: Some(CommandSignature::Create),
        ..plain(name)
    };
    row.may(WITH_OBJECT, WITH_OBJECT)
}

/// A command that ends an `object`.
pub(super) const fn destroy(name: &'static str, object: &'static str) -> CommandRow {
    let row = CommandRow {
        action: CommandAction::Destroy,
        object,
        signature: Some(CommandSignature::Destroy),
        ..plain(name)
    };
    row.may(ScopeMask::ANY_COMMAND, WITH_OBJECT)
}

/// A command that makes a cache: scope cache instead of object.
pub(super) const fn create_cache(name: &'static str, object: &'static str) -> CommandRow {
    create(name, object)
        .from(AllocatorSource::Cache)
        .may(WITH_CACHE, WITH_CACHE)
}

/// A command that ends a cache. What was taken as an object's, wrongly, goes back here, too: that is one mistake and not two.
pub(super) const fn destroy_cache(name: &'static str, object: &'static str) -> CommandRow {
    destroy(name, object)
        .from(AllocatorSource::Cache)
        .may(ScopeMask::ANY_COMMAND, WITH_CACHE.with(Scope::Object))
}

/// A command that takes `object`s from a pool.
pub(super) const fn allocate(name: &'static str, object: &'static str) -> CommandRow {
    CommandRow {
        action: CommandAction::Allocate,
        many: true,
        ..on_pool(name, object)
    }
}

/// A command that gives `object`s back to their pool.
pub(super) const fn free(name: &'static str, object: &'static str) -> CommandRow {
    CommandRow {
        action: CommandAction::Free,
        many: true,
        ..on_pool(name, object)
    }
}

/// A command with a pool for a parameter.
pub(super) const fn on_pool(name: &'static str, pool: &'static str) -> CommandRow {
    let row = CommandRow {
        action: CommandAction::Pool,
        object: pool,
        ..plain(name)
    };
    row.from(AllocatorSource::Pool)
        .may(WITH_OBJECT, WITH_OBJECT)
}

/// A command that is recorded into a command buffer.
pub(super) const fn record(name: &'static str) -> CommandRow {
    CommandRow {
        action: CommandAction::Record,
        ..on_pool(name, "VkCommandBuffer")
    }
}

/// A command that resets a command buffer, or begins it, which resets it: it only gives back.
pub(super) const fn reset(name: &'static str) -> CommandRow {
    record(name).may(ScopeMask::ANY_COMMAND, WITH_OBJECT)
}

/// The command that ends the recording, which is none of those that may take or give back for the pool.
pub(super) const fn end(name: &'static str) -> CommandRow {
    record(name).may(ScopeMask::ANY_COMMAND, ScopeMask::ANY_COMMAND)
}

/// A command that adds to a cache.
pub(super) const fn merge(name: &'static str, object: &'static str) -> CommandRow {
    CommandRow {
        action: CommandAction::Merge,
        object,
        ..plain(name)
    }
    .from(AllocatorSource::Cache)
    .may(WITH_CACHE, WITH_CACHE)
}

/// The command that does deferred work: whatever the deferred commands might.
pub(super) const fn join(name: &'static str) -> CommandRow {
    let row = CommandRow {
        action: CommandAction::Join,
        object: "VkDeferredOperationKHR",
        ..plain(name)
    };
    row.from(AllocatorSource::DeferredOperation)
        .may(ScopeMask::ALL, ScopeMask::ALL)
}

/// A command that may only do what any command may.
pub(super) const fn plain(name: &'static str) -> CommandRow {
    CommandRow {
        name,
        action: CommandAction::Other,
        object: "",
        signature: None,
        many: false,
        deferrable: false,
        level: CommandLevel::Device,
        may_allocate: ScopeMask::ANY_COMMAND,
        may_free: ScopeMask::ANY_COMMAND,
        from: AllocatorSource::Object,
    }
}

/// A command that nothing is known of, and so nothing said against.
pub(super) const fn unknown(name: &'static str) -> CommandRow {
    CommandRow {
        action: CommandAction::Unknown,
        ..plain(name)
    }
    .may(ScopeMask::ALL, ScopeMask::ALL)
}

impl CommandRow {
    const fn from(self, from: AllocatorSource) -> Self {
        Self { from, ..self }
    }

    const fn may(self, may_allocate: ScopeMask, may_free: ScopeMask) -> Self {
        Self {
            may_allocate,
            may_free,
            ..self
        }
    }

    /// It is given a pipeline or validation cache to fill (V37).
    ///
    /// The specification's list names graphics and compute pipelines and shader modules. The later commands that take a pipeline
    /// cache are held to the same rule here: their absence from the list reads as an oversight.
    pub(super) const fn fills_cache(self) -> Self {
        let with = WITH_OBJECT.with(Scope::Cache);
        self.may(with, with)
    }

    pub(super) const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// It takes a deferred operation, an object of its own, and may take for it.
    pub(super) const fn deferrable(self) -> Self {
        let Self {
            may_allocate,
            may_free,
            ..
        } = self;
        Self {
            deferrable: true,
            ..self
        }
        .may(
            may_allocate.with(Scope::Object),
            may_free.with(Scope::Object),
        )
    }

    /// Its parameters are not those of most creating or destroying commands.
    pub(super) const fn with(self, signature: CommandSignature) -> Self {
        Self {
            signature: Some(signature),
            ..self
        }
    }

    pub(super) const fn on_instance(self) -> Self {
        Self {
            level: CommandLevel::Instance,
            ..self
        }
    }

    pub(super) const fn without_instance(self) -> Self {
        Self {
            level: CommandLevel::BeforeInstance,
            ..self
        }
    }
}

impl fmt::Debug for CommandRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandRow")
            .field("name", &self.name)
            .field("action", &self.action)
            .field("object", &self.object)
            .field("level", &self.level)
            .field("from", &self.from)
            .field("may_allocate", &self.may_allocate)
            .field("may_free", &self.may_free)
            .finish_non_exhaustive()
    }
}
