//! Whether a request came to the right allocator: its place among the allocators of the command, and the scope (V5,
//! V26, V28 to V32, V34, V36 to V40).

#![forbid(unsafe_code)]

use core::num::{NonZeroU64, NonZeroUsize};

use alloc_core::Scope;

use super::engine::{CallbackCall, CallerContext, Engine};
use super::finding::{CheckFinding, FindingKind};
use super::owner::CallbackOwner;
use super::records::{BlockRecord, BlockState};
use super::user_data;
use crate::command::{OwnerId, Owners};
use crate::commands::{AllocatorSource, CommandAction, CommandLevel, CommandRow};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    pub(crate) kind: FindingKind,
    pub(crate) instead_of: Option<OwnerId>,
}

/// `called` are callbacks of an object of kind `called_kind`.
pub(crate) fn misplaced(
    row: &CommandRow,
    owners: &Owners,
    called: OwnerId,
    called_kind: &str,
    scope: Scope,
) -> Option<Misplaced> {
    let given = available(row, owners);
    let all = [given.object, given.cache, given.deferred, given.device, given.instance];
    if matches!(row.action, CommandAction::Unknown) || all == [None; 5] {
        return None;
    }
    if !all.contains(&Some(called)) {
        return Some(Misplaced { kind: outside(row, &given, called_kind, scope), instead_of: None });
    }
    let found = |kind, instead_of| Some(Misplaced { kind, instead_of });
    match scope {
        Scope::Object if !row.may_allocate.contains(Scope::Object) => found(no_object(row, called_kind), None),
        Scope::Command | Scope::Object => {
            let first = most_specific(&given, row, scope);
            // If the deferred command has no allocator, the next ones are legal, too: the device's, the instance's.
            if given.deferred.is_some()
                && (given.deferred == Some(called) || given.object.is_none_or(|own| own == called))
            {
                return None;
            }
            match first {
                // An object's own is never too specific.
                Some(first) if first != called && given.object != Some(called) => {
                    found(less_specific(row, &given, scope), Some(first))
                }
                _ => None,
            }
        }
        Scope::Cache if !row.may_allocate.contains(Scope::Cache) => found(FindingKind::CacheScopeElsewhere, None),
        Scope::Cache => {
            let cache = if row.is_of_cache() { given.object } else { given.cache };
            match cache.or(given.device).or(given.instance) {
                Some(first) if first != called => found(FindingKind::CacheElsewhere, Some(first)),
                _ => None,
            }
        }
        Scope::Device if given.device.or(given.instance) == Some(called) => {
            let makes_object = row.creates() && !matches!(row.object, "VkDevice" | "VkInstance");
            makes_object.then_some(Misplaced { kind: FindingKind::DeviceScopeInCreate, instead_of: None })
        }
        Scope::Device if given.instance == Some(called) => found(FindingKind::DeviceLessSpecific, given.device),
        Scope::Device => found(FindingKind::DeviceTooSpecific, given.device.or(given.instance)),
        Scope::Instance if given.instance == Some(called) => None,
        Scope::Instance => found(FindingKind::InstanceElsewhere, given.instance),
    }
}

/// Whether a command without a relation to memory of this scope frees it (V41).
pub(crate) fn freed_elsewhere(row: &CommandRow, scope: Scope) -> bool {
    !matches!(row.action, CommandAction::Unknown)
        && matches!(scope, Scope::Object | Scope::Cache)
        && !row.may_free.contains(scope)
        && !row.may_allocate.contains(scope)
}

fn available(row: &CommandRow, owners: &Owners) -> Owners {
    let below_device = row.level == CommandLevel::Device || row.object == "VkDevice";
    let below_instance = row.level != CommandLevel::BeforeInstance || row.object == "VkInstance";
    Owners {
        device: owners.device.filter(|_| below_device),
        instance: owners.instance.filter(|_| below_instance),
        ..*owners
    }
}

/// A command that neither creates, destroys nor fills an object may work on several, and a driver need not have kept
/// the allocator of each.
fn most_specific(given: &Owners, row: &CommandRow, scope: Scope) -> Option<OwnerId> {
    let bystander = scope == Scope::Command && matches!(row.action, CommandAction::Other);
    let own = match row.source(Scope::Object) {
        AllocatorSource::Device | AllocatorSource::Instance => None,
        AllocatorSource::DeferredOperation => given.object.or(given.deferred),
        AllocatorSource::Object | AllocatorSource::Pool | AllocatorSource::Cache => given.object,
    };
    own.filter(|_| !bystander).or(given.device).or(given.instance)
}

fn outside(row: &CommandRow, given: &Owners, called_kind: &str, scope: Scope) -> FindingKind {
    // A command that creates an object of this kind got the callbacks of another one.
    let creates_kind = row.object == called_kind && row.may_allocate.contains(Scope::Object);
    match called_kind {
        _ if given.deferred.is_some() || matches!(row.action, CommandAction::Join) => FindingKind::OutsideDeferred,
        "VkDescriptorPool" => FindingKind::DescriptorPoolElsewhere,
        "VkCommandPool" => FindingKind::CommandPoolElsewhere,
        "VkPipelineCache" | "VkValidationCacheEXT" => FindingKind::CacheScopeElsewhere,
        "" | "VkInstance" | "VkDevice" => FindingKind::OutsideChain,
        _ if scope == Scope::Object && !creates_kind => FindingKind::ObjectOutsideCreate,
        _ => FindingKind::OutsideChain,
    }
}

fn no_object(row: &CommandRow, called_kind: &str) -> FindingKind {
    match (row.source(Scope::Object), called_kind) {
        (AllocatorSource::Cache, _) => FindingKind::CacheAsObject,
        (_, "VkDescriptorPool") => FindingKind::DescriptorPoolElsewhere,
        (_, "VkCommandPool") => FindingKind::CommandPoolElsewhere,
        _ => FindingKind::ObjectOutsideCreate,
    }
}

fn less_specific(row: &CommandRow, given: &Owners, scope: Scope) -> FindingKind {
    if given.deferred.is_some() {
        return FindingKind::OutsideDeferred;
    }
    match (scope, row.source(Scope::Object)) {
        (Scope::Command, _) => FindingKind::CommandLessSpecific,
        (_, AllocatorSource::Pool) if given.object.is_some() => FindingKind::PoolPassedOver,
        _ => FindingKind::ObjectLessSpecific,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Pass {
    /// To the callbacks that were called.
    On,
    /// To the block's own, which have this user data.
    ToOwn(NonZeroUsize),
    /// The call would be undefined anywhere.
    Not,
}

impl<'t> Engine<'_, 't> {
    /// Whether the called callbacks gave the block, or compatible ones did (V42).
    #[inline]
    pub(super) fn may_pass(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>) -> bool {
        block.owner == call.owner.number()
            || (call.callbacks != 0 && block.tag == call.callbacks)
            || (block.doubted && block.state == BlockState::Live)
            || self.compatible(block.owner, call.owner)
    }

    /// Callbacks that a program passes with each object get what the driver calls them for: they may end with their
    /// object.
    #[inline]
    pub(super) fn way_of(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>, may_pass: bool) -> Pass {
        if may_pass { Pass::On } else { self.way_elsewhere(block, call) }
    }

    #[cold]
    fn way_elsewhere(&self, block: &BlockRecord<'t>, call: &CallbackCall<'_, 't>) -> Pass {
        let Some(gave) = self.numbered(block.owner).filter(|_| self.groups_reported) else {
            return Pass::Not;
        };
        match (gave.user_data(), call.owner.user_data()) {
            (Some(own), _) if user_data::is_current(own) => Pass::ToOwn(own),
            (None, None) => Pass::On,
            _ => Pass::Not,
        }
    }

    #[cold]
    fn compatible(&self, number: u32, owner: &CallbackOwner<'t>) -> bool {
        let gave = self.numbered(number);
        // A log without owners proves nothing.
        number == 0 || owner.id.is_none() || gave.is_none_or(|gave| gave.group == owner.group)
    }
}

const ELSEWHERE: &str = "the C library";

impl<'t> Engine<'_, 't> {
    /// Whether the pointer is a live block of an owner that `is_judged` accepts. The block is reported and gone then.
    #[inline]
    pub(crate) fn freed_elsewhere<'a>(
        &self,
        caller: impl FnOnce() -> CallerContext<'a, 't>,
        address: NonZeroU64,
        is_judged: impl FnOnce(OwnerId) -> bool,
    ) -> bool
    where
        't: 'a,
    {
        let block = self.with_block(address, |block| *block);
        block.is_some_and(|block| {
            block.state == BlockState::Live
                && OwnerId::from_number(block.owner).is_some_and(is_judged)
                && self.report_elsewhere(caller(), &block)
        })
    }

    #[cold]
    fn report_elsewhere(&self, caller: CallerContext<'_, 't>, block: &BlockRecord<'t>) -> bool {
        let went = self.with_block(block.address, |there| {
            let is_there = there.state == BlockState::Live && there.owner == block.owner;
            if is_there {
                there.state = BlockState::Gone;
            }
            is_there
        });
        let owner = self.numbered(block.owner).filter(|_| went == Some(true));
        let Some(owner) = owner else { return false };
        let call = CallbackCall { caller, owner, callbacks: 0 };
        self.discount(block, &call);
        self.discount_command_block(&caller, block);
        self.report(CheckFinding {
            owner: None,
            owner_kind: ELSEWHERE,
            command: caller.command(),
            against: owner.kind,
            module: self.module(),
            ..call.finding_of_block(FindingKind::FreedThroughOther, block)
        });
        true
    }
}
