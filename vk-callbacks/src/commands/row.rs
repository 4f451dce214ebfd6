#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

use super::table::TABLE;

/// What a Vulkan command does with host memory.
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
    /// The command; or a beginning and `*` in the row of all other commands of that beginning.
    pub name: &'static str,
    /// What it does to objects.
    pub action: CommandAction,
    /// The kind of object that it creates, destroys, resets or fills (`VkBuffer`). Empty if the name does not say.
    pub object: &'static str,
    /// Its parameters, if it has a parameter `pAllocator`.
    pub signature: Option<CommandSignature>,
    /// It creates or destroys several objects at once, all with one `pAllocator` or from one pool (V44).
    pub many: bool,
    /// It may be deferred (V26): with a deferred operation, it may use that operation's allocator, too.
    pub deferrable: bool,
    /// The parents whose allocators follow the most specific one.
    pub level: CommandLevel,
    /// The scopes that it may allocate (V36 to V40).
    pub may_allocate: ScopeMask,
    /// The scopes that it may free (V41).
    pub may_free: ScopeMask,
    from: AllocatorSource,
}

/// The parameters of a command with a `pAllocator`, in their order. All are pointers or handles, but where a count is
/// named.
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

/// What a command does to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandAction {
    /// Creates objects: `vkCreate*`, `vkAllocateMemory`, `vkRegister*EventEXT`.
    Create,
    /// Destroys an object: `vkDestroy*`, `vkFreeMemory`; or a part of it: `vkReleaseCapturedPipelineDataKHR`.
    Destroy,
    /// Allocates objects from a pool.
    Allocate,
    /// Frees objects of a pool.
    Free,
    /// Resets or trims a pool.
    Pool,
    /// Records into, begins, ends or resets a command buffer.
    Record,
    /// Adds to a cache.
    Merge,
    /// Does a part of the deferred work.
    Join,
    /// None of these.
    Other,
    /// The command is unknown.
    Unknown,
}

/// The source of a command's most specific allocator. If that has none, those of the device and the instance follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocatorSource {
    /// The object that is created, destroyed or used: the `pAllocator` of its `vkCreate*`.
    Object,
    /// The command or descriptor pool that the object came from (V34).
    Pool,
    /// The pipeline or validation cache (V29, V37).
    Cache,
    /// The deferred operation, and the command that was deferred (V26).
    DeferredOperation,
    /// The device: in `vkCreateDevice` its `pAllocator` (V31).
    Device,
    /// The instance: in `vkCreateInstance` its `pAllocator` (V32).
    Instance,
}

/// The object that a command is called on, which decides the allocators behind the most specific one.
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
    /// The row of the command `name`, or of its longest known beginning. Every name has a row.
    #[must_use]
    pub const fn of(name: &str) -> &'static Self {
        if let Some(index) = Self::index_of(name)
            && let Some((_, [row, ..])) = TABLE.split_at_checked(index)
        {
            return row;
        }
        row_of(name)
    }

    /// The index of the command's own row in [`all`](Self::all); none without a row.
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

    /// The source of the most specific allocator for `scope` (V28 to V32, V34).
    #[must_use]
    pub const fn source(&self, scope: Scope) -> AllocatorSource {
        match scope {
            Scope::Command | Scope::Object => self.from,
            Scope::Cache => AllocatorSource::Cache,
            Scope::Device => AllocatorSource::Device,
            Scope::Instance => AllocatorSource::Instance,
        }
    }

    /// Whether it has a parameter `pAllocator`.
    #[must_use]
    pub const fn has_allocator_parameter(&self) -> bool {
        self.signature.is_some()
    }

    /// Whether it creates objects that a `vkDestroy*` of the same [`object`](Self::object) destroys (V42).
    #[must_use]
    pub const fn creates(&self) -> bool {
        matches!(self.action, CommandAction::Create)
    }

    /// Whether it destroys objects of a creating command of the same [`object`](Self::object).
    #[must_use]
    pub const fn destroys(&self) -> bool {
        matches!(self.action, CommandAction::Destroy)
    }

    /// Whether the object is a cache, whose memory has scope cache, never object (V29).
    #[must_use]
    pub const fn is_of_cache(&self) -> bool {
        matches!(self.from, AllocatorSource::Cache)
    }
}

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

const WITH_OBJECT: ScopeMask = ScopeMask::ANY_COMMAND.with(Scope::Object);
const WITH_CACHE: ScopeMask = ScopeMask::ANY_COMMAND.with(Scope::Cache);

pub(super) const fn create(name: &'static str, object: &'static str) -> CommandRow {
    let row =
        CommandRow { action: CommandAction::Create, object, signature: Some(CommandSignature::Create), ..plain(name) };
    row.may(WITH_OBJECT, WITH_OBJECT)
}

pub(super) const fn destroy(name: &'static str, object: &'static str) -> CommandRow {
    let row = CommandRow {
        action: CommandAction::Destroy,
        object,
        signature: Some(CommandSignature::Destroy),
        ..plain(name)
    };
    row.may(ScopeMask::ANY_COMMAND, WITH_OBJECT)
}

pub(super) const fn create_cache(name: &'static str, object: &'static str) -> CommandRow {
    create(name, object).from(AllocatorSource::Cache).may(WITH_CACHE, WITH_CACHE)
}

/// It may free memory that was allocated as an object's by mistake: that is one mistake and not two.
pub(super) const fn destroy_cache(name: &'static str, object: &'static str) -> CommandRow {
    destroy(name, object).from(AllocatorSource::Cache).may(ScopeMask::ANY_COMMAND, WITH_CACHE.with(Scope::Object))
}

pub(super) const fn allocate(name: &'static str, object: &'static str) -> CommandRow {
    CommandRow { action: CommandAction::Allocate, many: true, ..on_pool(name, object) }
}

pub(super) const fn free(name: &'static str, object: &'static str) -> CommandRow {
    CommandRow { action: CommandAction::Free, many: true, ..on_pool(name, object) }
}

pub(super) const fn on_pool(name: &'static str, pool: &'static str) -> CommandRow {
    let row = CommandRow { action: CommandAction::Pool, object: pool, ..plain(name) };
    row.from(AllocatorSource::Pool).may(WITH_OBJECT, WITH_OBJECT)
}

const fn record(name: &'static str) -> CommandRow {
    CommandRow { action: CommandAction::Record, ..on_pool(name, "VkCommandBuffer") }
}

/// Beginning a command buffer resets it: it only frees.
pub(super) const fn reset(name: &'static str) -> CommandRow {
    record(name).may(ScopeMask::ANY_COMMAND, WITH_OBJECT)
}

pub(super) const fn end(name: &'static str) -> CommandRow {
    record(name).may(ScopeMask::ANY_COMMAND, ScopeMask::ANY_COMMAND)
}

pub(super) const fn merge(name: &'static str, object: &'static str) -> CommandRow {
    CommandRow { action: CommandAction::Merge, object, ..plain(name) }
        .from(AllocatorSource::Cache)
        .may(WITH_CACHE, WITH_CACHE)
}

/// It may do what the deferred commands may.
pub(super) const fn join(name: &'static str) -> CommandRow {
    let row = CommandRow { action: CommandAction::Join, object: "VkDeferredOperationKHR", ..plain(name) };
    row.from(AllocatorSource::DeferredOperation).may(ScopeMask::ALL, ScopeMask::ALL)
}

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

const fn unknown(name: &'static str) -> CommandRow {
    CommandRow { action: CommandAction::Unknown, ..plain(name) }.may(ScopeMask::ALL, ScopeMask::ALL)
}

impl CommandRow {
    const fn from(self, from: AllocatorSource) -> Self {
        Self { from, ..self }
    }

    const fn may(self, may_allocate: ScopeMask, may_free: ScopeMask) -> Self {
        Self { may_allocate, may_free, ..self }
    }

    /// Later commands with a pipeline cache are not in the specification's list, which seems an oversight.
    pub(super) const fn fills_cache(self) -> Self {
        let with = WITH_OBJECT.with(Scope::Cache);
        self.may(with, with)
    }

    pub(super) const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// With a deferred operation, an object of its own, for which it may allocate.
    pub(super) const fn deferrable(self) -> Self {
        let Self { may_allocate, may_free, .. } = self;
        Self { deferrable: true, ..self }.may(may_allocate.with(Scope::Object), may_free.with(Scope::Object))
    }

    pub(super) const fn with(self, signature: CommandSignature) -> Self {
        Self { signature: Some(signature), ..self }
    }

    pub(super) const fn on_instance(self) -> Self {
        Self { level: CommandLevel::Instance, ..self }
    }

    pub(super) const fn without_instance(self) -> Self {
        Self { level: CommandLevel::BeforeInstance, ..self }
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

/// A set of scopes, one byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScopeMask(u8);

impl ScopeMask {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All five.
    pub const ALL: Self = Self(0b1_1111);
    /// The scopes that any command may allocate and free (V36): command, device, instance.
    pub const ANY_COMMAND: Self = Self::NONE.with(Scope::Command).with(Scope::Device).with(Scope::Instance);

    /// These and `scope`.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | 1 << scope as u8)
    }

    /// Whether `scope` is among them.
    #[must_use]
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & 1 << scope as u8 != 0
    }
}

impl fmt::Debug for ScopeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Scope::ALL.into_iter().filter(|scope| self.contains(*scope))).finish()
    }
}

const fn row_of(name: &str) -> &'static CommandRow {
    let mut rows = BEGINNINGS;
    while let [row, more @ ..] = rows {
        if begins(name.as_bytes(), row.name.as_bytes()) {
            return row;
        }
        rows = more;
    }
    &UNKNOWN
}

/// Whether `name` is the row's up to a `*`.
const fn begins(mut name: &[u8], mut row: &[u8]) -> bool {
    loop {
        match (name, row) {
            (_, [b'*']) | ([], []) => return true,
            ([x, more @ ..], [y, others @ ..]) if *x == *y => (name, row) = (more, others),
            _ => return false,
        }
    }
}

/// A longer beginning comes before a shorter one of the same.
const BEGINNINGS: &[CommandRow] = &[
    record("vkCmd*"),
    plain("vkQueue*"),
    plain("vkGetPhysicalDevice*").on_instance(),
    plain("vkGetInstance*").on_instance(),
    plain("vkGetDisplay*").on_instance(),
    plain("vkGetDrmDisplay*").on_instance(),
    plain("vkGetRandROutputDisplay*").on_instance(),
    plain("vkGetWinrtDisplay*").on_instance(),
    plain("vkAcquireDrmDisplay*").on_instance(),
    plain("vkAcquireWinrtDisplay*").on_instance(),
    plain("vkAcquireXlibDisplay*").on_instance(),
    plain("vkReleaseDisplay*").on_instance(),
    plain("vkSubmitDebugUtils*").on_instance(),
    plain("vkDebugReport*").on_instance(),
    plain("vkEnumerateInstance*").without_instance(),
    plain("vkEnumerate*").on_instance(),
    plain("vkAcquire*"),
    plain("vkAntiLag*"),
    plain("vkBind*"),
    plain("vkClear*"),
    plain("vkCompile*"),
    plain("vkConvert*"),
    plain("vkCopy*"),
    plain("vkDebugMarker*"),
    plain("vkDeviceWaitIdle*"),
    plain("vkDisplayPower*"),
    plain("vkExport*"),
    plain("vkFlush*"),
    plain("vkGet*"),
    plain("vkImport*"),
    plain("vkInitialize*"),
    plain("vkInvalidate*"),
    plain("vkLatency*"),
    plain("vkMap*"),
    plain("vkRegister*"),
    plain("vkRelease*"),
    plain("vkReset*"),
    plain("vkSet*"),
    plain("vkShutdown*"),
    plain("vkSignal*"),
    plain("vkTransition*"),
    plain("vkUninitialize*"),
    plain("vkUnmap*"),
    plain("vkUnregister*"),
    plain("vkUpdate*"),
    plain("vkWait*"),
    plain("vkWrite*"),
    // Objects of later extensions.
    create("vkCreate*", ""),
    destroy("vkDestroy*", ""),
];

static UNKNOWN: CommandRow = unknown("*");
