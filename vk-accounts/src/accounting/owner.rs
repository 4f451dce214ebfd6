//! One kind of object: its context, its bridge, and the callbacks that the driver gets.

use std::sync::Arc;

use alloc_core::{Budget, Context, ContextId, ContextOptions, Scope, Usage};
use vk_callbacks::bridge::BridgeCounters;
use vk_callbacks::check::CheckedOwner;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, Checker, OwnerId, Recorder};

use super::AccountError;
use crate::object_kind::ObjectKind;
use crate::report::origins::{SiteCallbacks, StackCapture};
use crate::report::{FindingRow, Leftover};

/// See the file's head.
pub(super) struct Owner {
    kind: ObjectKind,
    bridge: Bridge,
    id: ContextId,
    /// The wrapper of the bridge's callbacks that records stacks, at a fixed address.
    sites: Option<Box<SiteCallbacks>>,
    /// The driver's callbacks: the bridge's, inside of those that record stacks, a tap's, a check's.
    pub(super) callbacks: RawCallbacks,
    /// The usage of the bridge itself.
    pub(super) own: Usage,
}

impl Owner {
    pub(super) fn new(
        kind: ObjectKind,
        above: &Context,
        stacks: Option<&Arc<StackCapture>>,
        recorder: Option<&Recorder<'_>>,
        checker: Option<&Checker<'_>>,
    ) -> Result<Self, AccountError> {
        // No practical limit: the budget's high-water mark is the exact peak of all scopes together.
        let options = ContextOptions::new(kind.name())
            .scope(default_scope(kind))
            .budget(Budget::exact(u64::MAX - 1));
        let context = above.child_with(options)?;
        let (id, handle) = (context.id(), context.handle());
        let bridge = Bridge::new(context).map_err(|refused| refused.error)?;
        let own = handle.usage();
        let sites = stacks.map(|stacks| stacks.around(bridge.raw(), kind.name()));
        let counted = sites.as_ref().map_or(bridge.raw(), |sites| sites.raw());
        let callbacks = match recorder {
            None => counted,
            Some(recorder) => {
                let parent = kind.parent().map_or(0, number);
                recorder.owner(number(kind), parent, kind.name());
                // SAFETY: the bridge outlives the tap's use: `Accounts` ends after the driver's instance, and closes bridges first
                // only then; a bridge with live blocks stays valid for ever.
                *unsafe { recorder.tap(number(kind), counted) }?.raw()
            }
        };
        let callbacks = match checker {
            None => callbacks,
            Some(checker) => {
                // SAFETY: as for the tap, which is valid for as long as the bridge.
                *unsafe { checker.wrap(callbacks, CheckedOwner::new(bridge.owner(), kind.name())) }?
                    .raw()
            }
        };
        Ok(Self {
            kind,
            bridge,
            id,
            sites,
            callbacks,
            own,
        })
    }

    pub(super) fn id(&self) -> ContextId {
        self.id
    }

    pub(super) fn kind(&self) -> ObjectKind {
        self.kind
    }

    pub(super) fn owner_id(&self) -> OwnerId {
        self.bridge.owner()
    }

    /// An account of this context without the bridge's own state.
    pub(super) fn without_own(&self, usage: &Usage) -> Usage {
        usage.without(&self.own)
    }

    /// The driver's usage until now.
    pub(super) fn usage(&self) -> Usage {
        self.without_own(&self.bridge.context().usage())
    }

    /// The bridge's counters.
    pub(super) fn notes(&self) -> BridgeCounters {
        self.bridge.counters()
    }

    /// The bridge's counters of errors, as findings.
    pub(super) fn findings(&self) -> impl Iterator<Item = FindingRow> {
        let (notes, owner) = (self.notes(), self.kind.name());
        let counts = [
            (
                "V7",
                notes.bad_alignments,
                "requests with an alignment that is no power of two",
            ),
            (
                "V35",
                notes.bad_scopes,
                "requests with a scope that does not exist",
            ),
            (
                "",
                notes.too_large,
                "requests of a size that no machine has",
            ),
            (
                "V19",
                notes.unknown_pointers,
                "pointers freed that were never allocated here",
            ),
            (
                "V19",
                notes.foreign_pointers,
                "blocks freed that other callbacks had allocated: they were freed there",
            ),
            ("V19", notes.freed_pointers, "blocks freed a second time"),
            (
                "V19",
                notes.guard_refusals,
                "pointers freed that the guard knows to be no live block of it",
            ),
            (
                "V15",
                notes.alignment_changes,
                "reallocations with another alignment than the block was allocated with",
            ),
            (
                "",
                notes.scope_changes,
                "reallocations with another scope than the block was allocated with",
            ),
            ("", notes.panics, "panics of the allocator behind"),
            (
                "V20",
                notes.bad_notifications,
                "notifications of internal memory with a type or scope that does not exist",
            ),
        ];
        let counts = counts.into_iter().filter(|(_, count, _)| *count > 0);
        counts.map(move |(rule, count, sentence)| FindingRow {
            rule: rule.to_owned(),
            level: if rule.is_empty() {
                FindingRow::NOTE
            } else {
                FindingRow::VIOLATION
            }
            .to_owned(),
            sentence: sentence.to_owned(),
            owner: owner.to_owned(),
            count,
            ..FindingRow::default()
        })
    }

    /// Closes the bridge; returns its leftovers.
    pub(super) fn close(self, stacks: Option<&Arc<StackCapture>>) -> Option<Leftover> {
        let live = self.bridge.close().err()?.value.live();
        // As the bridge with live blocks, the wrapper stays valid for ever.
        std::mem::forget(self.sites);
        Some(Leftover::of_bridge(self.kind.name(), &live, stacks))
    }
}

/// The number of a kind in a trace, from 1.
pub(super) fn number(kind: ObjectKind) -> u64 {
    kind.index() as u64 + 1
}

fn default_scope(kind: ObjectKind) -> Scope {
    match kind {
        ObjectKind::Instance => Scope::Instance,
        ObjectKind::Device => Scope::Device,
        ObjectKind::PipelineCache => Scope::Cache,
        _ => Scope::Object,
    }
}
