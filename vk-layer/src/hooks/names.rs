//! Each name without a `pAllocator` that is looked up and hooked gets a slot for good. There is no list of names: the
//! table of vk-callbacks says what a command is.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use vk_callbacks::CommandRow;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::commands::{CommandAction, CommandLevel};

use super::forward::hook_of_slot;
use super::memory::MemoryCommand;
use crate::accounts::checker;
use crate::chain::{NOT_READY, SUCCESS, VoidFunction};
use crate::leaks;
use crate::parent::{CommandName, Parent};
use crate::record::{free_record, new_record};
use crate::report;
use crate::settings::{Brackets, settings};
use crate::tape;

pub(crate) const SLOTS: usize = 768;

pub(super) struct HookedName {
    pub(super) name: CommandName,
    pub(super) row: &'static CommandRow,
    pub(super) role: Role,
    bracketing: Bracketing,
    pub(super) returns_result: bool,
}

impl HookedName {
    pub(super) fn is_bracketed(&self) -> bool {
        self.bracketing == Bracketing::Bracketed
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Submit,
    Present,
    NameObject,
    Join,
    DeferredResult,
    /// The result is 0 once the deferred command is done.
    Concurrency,
    Memory(MemoryCommand),
    None,
}

impl Role {
    fn of(name: &str) -> Self {
        match name {
            "vkQueueSubmit" | "vkQueueSubmit2" | "vkQueueSubmit2KHR" => Self::Submit,
            "vkQueuePresentKHR" => Self::Present,
            "vkSetDebugUtilsObjectNameEXT" => Self::NameObject,
            "vkDeferredOperationJoinKHR" => Self::Join,
            "vkGetDeferredOperationResultKHR" => Self::DeferredResult,
            "vkGetDeferredOperationMaxConcurrencyKHR" => Self::Concurrency,
            _ => MemoryCommand::of(name).map_or(Self::None, Self::Memory),
        }
    }

    pub(super) const fn says_done(self, result: i32) -> bool {
        match self {
            Self::Join => result == SUCCESS,
            Self::DeferredResult => result != NOT_READY,
            Self::Concurrency => result == 0,
            _ => false,
        }
    }

    fn is_wanted(self) -> bool {
        match self {
            Self::Submit => leaks::is_on() || settings().state.is_some() || report::can_be_due(),
            Self::Present | Self::NameObject => leaks::is_on(),
            Self::Join | Self::DeferredResult | Self::Concurrency | Self::Memory(_) => true,
            Self::None => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracketing {
    Bracketed,
    Declined,
    Unknown,
}

impl Bracketing {
    fn of(row: &CommandRow) -> Self {
        match settings().brackets {
            _ if is_unknown(row) => Self::Unknown,
            Brackets::None => Self::Declined,
            Brackets::Some if is_recording(row) => Self::Declined,
            Brackets::Some | Brackets::All => Self::Bracketed,
        }
    }
}

static IS_PARTIAL: AtomicBool = AtomicBool::new(false);

static NAMES: [AtomicPtr<HookedName>; SLOTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];

pub(super) fn hook(name: &[u8], parent: &Parent, next: VoidFunction) -> Option<VoidFunction> {
    let name = std::str::from_utf8(name).ok()?;
    let is_command =
        name.strip_prefix("vk").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()));
    if !is_command || name.len() >= CommandName::CAPACITY {
        return None;
    }
    let row = CommandRow::of(name);
    let role = Role::of(name);
    let bracketing = Bracketing::of(row);
    // The meter and a trace need to know when a command runs.
    let is_judged = (checker().is_some() || settings().meter || tape::is_on()) && bracketing != Bracketing::Declined;
    if row.level == CommandLevel::BeforeInstance || !(is_judged || role.is_wanted()) {
        return None;
    }
    let slot = slot_of(name, || HookedName {
        name: CommandName::new(name),
        row,
        role,
        bracketing,
        returns_result: returns_result(name),
    });
    if slot.is_none() || bracketing == Bracketing::Unknown {
        lose_coverage();
        return None;
    }
    let (slot, hook) = (slot?, hook_of_slot(slot?)?);
    if parent.is_device() == (row.level == CommandLevel::Device) && next as usize != hook as usize {
        parent.set_other(slot, next);
    }
    Some(hook)
}

/// Lower than the setting once a command was looked up that has no bracket, or the layer has panicked.
pub(crate) fn coverage() -> BracketCoverage {
    if IS_PARTIAL.load(Ordering::Relaxed) {
        return BracketCoverage::Partial;
    }
    match settings().brackets {
        Brackets::None => BracketCoverage::Partial,
        Brackets::Some => BracketCoverage::ExceptRecording,
        Brackets::All => BracketCoverage::Complete,
    }
}

pub(super) fn lose_coverage() {
    IS_PARTIAL.store(true, Ordering::Relaxed);
}

pub(crate) fn unknown_names() -> impl Iterator<Item = &'static str> {
    let hooked = (0..SLOTS).filter_map(in_slot);
    hooked.filter(|hooked| hooked.bracketing == Bracketing::Unknown).map(|hooked| hooked.name.as_str())
}

pub(super) fn in_slot(slot: usize) -> Option<&'static HookedName> {
    // SAFETY: null, or a record of `slot_of`, which stays for ever.
    unsafe { NAMES.get(slot)?.load(Ordering::Acquire).as_ref() }
}

pub(crate) fn known_commands(level: CommandLevel) -> impl Iterator<Item = (usize, &'static CommandName)> {
    let hooked = (0..SLOTS).filter_map(|slot| Some((slot, in_slot(slot)?)));
    hooked
        .filter(move |(_, hooked)| hooked.row.level == level && hooked.bracketing != Bracketing::Unknown)
        .map(|(slot, hooked)| (slot, &hooked.name))
}

fn slot_of(name: &str, new: impl FnOnce() -> HookedName) -> Option<usize> {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let first = (hash >> 32) as usize;
    let mut record = None;
    let mut new = Some(new);
    let slots = (0..SLOTS).map(|at| first.wrapping_add(at) % SLOTS);
    let mut found = None;
    for (slot, place) in slots.filter_map(|slot| Some((slot, NAMES.get(slot)?))) {
        if place.load(Ordering::Acquire).is_null() {
            if let Some(new) = new.take() {
                record = new_record(new());
            }
            let swapped =
                place.compare_exchange(ptr::null_mut(), record?.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_ok() {
                return Some(slot);
            }
        }
        if in_slot(slot).is_some_and(|there| there.name.as_str() == name) {
            found = Some(slot);
            break;
        }
    }
    if let Some(record) = record {
        // SAFETY: from `new_record`; no slot has it.
        unsafe { free_record(record) };
    }
    found
}

fn is_recording(row: &CommandRow) -> bool {
    row.name == "vkCmd*"
}

/// Commands with a `pAllocator` at an unknown place are unknown too: their arguments are passed on unchanged.
fn is_unknown(row: &CommandRow) -> bool {
    row.action == CommandAction::Unknown || (row.has_allocator_parameter() && row.name.ends_with('*'))
}

/// Only results by which something is judged count.
fn returns_result(name: &str) -> bool {
    const BEGINNINGS: [&str; 28] = [
        "vkAllocate",
        "vkBeginCommandBuffer",
        "vkBind",
        "vkDeferredOperationJoin",
        "vkDeviceWaitIdle",
        "vkEndCommandBuffer",
        "vkEnumeratePhysicalDevice",
        "vkFlushMappedMemoryRanges",
        "vkFreeDescriptorSets",
        "vkGetEventStatus",
        "vkGetFenceStatus",
        "vkGetPipelineCacheData",
        "vkGetQueryPoolResults",
        "vkGetSemaphoreCounterValue",
        "vkInvalidateMappedMemoryRanges",
        "vkMapMemory",
        "vkMerge",
        "vkQueueBindSparse",
        "vkQueuePresent",
        "vkQueueSubmit",
        "vkQueueWaitIdle",
        "vkResetCommand",
        "vkResetDescriptorPool",
        "vkResetEvent",
        "vkResetFences",
        "vkSetEvent",
        "vkUnmapMemory2",
        "vkWait",
    ];
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}
