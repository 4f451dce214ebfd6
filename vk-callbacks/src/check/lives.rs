//! The rules about commands that end, objects that come and go, and blocks that are left.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering;

use alloc_core::Scope;

use super::block::{Block, State, Told};
use super::bracket::Bracket;
use super::engine::{Engine, Who};
use super::kind::FindingKind;
use super::owner::{Making, Owner};
use super::row::Row;
use super::table::Cursor;
use super::thing::Thing;
use crate::command::{Coverage, OwnerId};
use crate::commands::CommandAction;
use crate::error::VK_ERROR_OUT_OF_HOST_MEMORY;
use crate::raw::RawCallbacks;
use crate::trace::Sighting;

impl<'t> Engine<'_, 't> {
    /// Callbacks were handed over: V1 to V4.
    pub(crate) fn registered(&self, owner: &Owner<'t>, raw: &RawCallbacks) {
        for what in Sighting::lacking(raw) {
            self.seen(&Who::NOBODY, owner, what);
        }
    }

    /// What only those can see who have the struct or the address before them.
    #[cold]
    pub(crate) fn seen(&self, who: &Who<'_, 't>, owner: &Owner<'t>, what: Sighting) {
        let kind = match what {
            Sighting::NoAllocation => FindingKind::MissingAllocation,
            Sighting::NoReallocation => FindingKind::MissingReallocation,
            Sighting::NoFree => FindingKind::MissingFree,
            Sighting::HalfInternal => FindingKind::HalfInternal,
            Sighting::UnknownUserData => FindingKind::UnknownUserData,
            Sighting::OldStruct => FindingKind::OldStructUsed,
            Sighting::Misaligned => FindingKind::MisalignedAnswer,
        };
        self.report(self.row(kind, who, owner, None));
    }

    /// A command begins on a thread that is inside a callback, or not (V25).
    pub(crate) fn entered(&self, bracket: &Bracket<'t>, at: u64, in_callback: bool) {
        self.running.fetch_add(1, Ordering::Relaxed);
        if bracket.coverage == Coverage::Partial {
            self.partial();
        }
        if in_callback {
            self.report(Row { command: bracket.name, first_serial: at, ..Row::one(FindingKind::CommandInCallback) });
        }
    }

    /// The thread that some calls came from issues a command: it is no foreign thread, they came before its first command.
    #[cold]
    pub(crate) fn thread_issues(&self, thread: u64) {
        let own = |kind| match kind {
            FindingKind::AskedOnForeignThread => Some(FindingKind::AskedBetweenCommands),
            FindingKind::FreedOnForeignThread => Some(FindingKind::FreedBetweenCommands),
            FindingKind::NotifiedOnForeignThread => Some(FindingKind::NotifiedBetweenCommands),
            _ => None,
        };
        loop {
            let mut taken = None;
            let _ = self.change(|row| {
                let Some(kind) = own(row.kind).filter(|_| row.thread == thread) else { return false };
                taken = Some(Row { kind, thread: 0, ..*row });
                row.count = 0;
                true
            });
            match taken {
                Some(row) => self.report(row),
                None => return,
            }
        }
    }

    /// A command has returned: V9, V28.
    #[inline]
    pub(crate) fn left(&self, bracket: &Bracket<'t>, at: u64) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        if bracket.command_live.get() > 0 {
            let serial = bracket.serial;
            let of_it = |block: &Block<'t>| block.serial == serial && block.scope() == Some(Scope::Command);
            self.leave_behind(FindingKind::CommandBlockLeft, Told::Command, "", of_it);
        }
        let (result, nulls) = (bracket.result.get(), bracket.nulls.get());
        if result >= 0 && bracket.row().action == CommandAction::Allocate {
            self.filled(bracket);
        }
        if result < 0 {
            let kind = match (result == VK_ERROR_OUT_OF_HOST_MEMORY, nulls) {
                (true, 0) => FindingKind::OutOfMemoryWithoutNull,
                (false, 1..) => FindingKind::OtherErrorAfterNull,
                _ => return,
            };
            self.report(Row { command: bracket.name, first_serial: at, ..Row::one(kind) });
        }
    }

    /// A command has made objects from a pool.
    fn filled(&self, bracket: &Bracket<'t>) {
        if let Some(pool) = bracket.owners.object.and_then(|id| self.owner(id)) {
            pool.filled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The end, for a pool: what was made from it asked for nothing, of nobody (V34).
    pub(crate) fn never_drawn(&self, owner: &Owner<'t>) {
        let filled = owner.filled.swap(0, Ordering::Relaxed);
        if filled > 0 && !owner.drawn.load(Ordering::Relaxed) {
            let kind = FindingKind::PoolNeverAsked;
            self.report(Row { owner: owner.id, owner_kind: owner.kind, count: filled, ..Row::one(kind) });
        }
    }

    /// Blocks that should have been given back: each is told once.
    pub(crate) fn leave_behind(&self, kind: FindingKind, told: Told, against: &'t str, of: impl Fn(&Block<'t>) -> bool) {
        let mut cursor = Cursor::default();
        while let Some(block) = self.blocks.next(&mut cursor, |block| {
            // At the end a reallocation that never ended has left its block, too.
            let there = block.state() == State::Live || block.state() == State::Moving && told == Told::End;
            let left = there && block.told() == Told::Nothing && of(block);
            if left {
                block.set_told(told);
            }
            left
        }) {
            let owner = self.numbered(block.owner);
            let row = Row {
                owner: owner.and_then(|owner| owner.id),
                owner_kind: owner.map_or("", |owner| owner.kind),
                command: block.command,
                against,
                scope: block.scope(),
                first_serial: block.serial,
                ..Row::one(kind)
            };
            self.report(row.of_size(block.size()));
        }
    }

    /// A block that was told as left came back after all.
    #[cold]
    pub(crate) fn came_back(&self, who: &Who<'_, 't>, block: &Block<'t>) {
        let kind = match block.told() {
            Told::Command => FindingKind::CommandBlockLeft,
            Told::Destroy => FindingKind::LiveAfterDestroy,
            Told::End => FindingKind::LiveAtEnd,
            Told::Nothing => return,
        };
        let _ = self.change(|row| {
            let of_it = row.kind == kind
                && row.owner.map_or(0, OwnerId::get) == block.owner
                && (row.command, row.scope) == (block.command, block.scope())
                && row.freed_later < row.count;
            if of_it {
                row.freed_later = row.freed_later.saturating_add(1);
                row.freed_in = who.command();
            }
            of_it
        });
    }

    /// The object that a command was making has been told of, or nobody will.
    pub(crate) fn made(&self, making: Making) {
        if let Some(owner) = self.numbered(making.owner) {
            owner.made();
        }
    }

    /// An object was made (V42 to V44). Several may share a handle; where they have not the same owner, or a handle comes again before
    /// its end was told, nobody can say which of them ends.
    pub(crate) fn created(&self, kind: &'t str, handle: u64, owner: Option<&Owner<'t>>) {
        if handle == 0 {
            return;
        }
        let thing = Thing { handle, kind, owner: owner.map_or(0, Owner::number), times: 1, mixed: false };
        let put = self.things.put(thing, |there| {
            let lives = there.times > 0;
            let mixed = lives && (there.mixed || there.owner != thing.owner);
            *there = Thing { times: there.times.saturating_add(1), mixed, ..thing };
        });
        if put.is_err() {
            return self.lose_handle();
        }
        if let Some(owner) = owner {
            owner.objects.fetch_add(1, Ordering::AcqRel);
            owner.told.store(true, Ordering::Release);
        }
    }

    /// An object was ended by `command`, which has returned: V41 to V44.
    pub(crate) fn destroyed(&self, who: &Who<'_, 't>, kind: &'t str, handle: u64, owner: Option<&Owner<'t>>, command: &'t str) {
        if handle == 0 {
            return;
        }
        let thing = self.things.with(&Thing { handle, kind, owner: 0, times: 0, mixed: false }, |thing| {
            let before = *thing;
            thing.times = thing.times.saturating_sub(1);
            before
        });
        let row = |kind_of_finding| Row {
            owner: owner.and_then(|owner| owner.id),
            owner_kind: kind,
            command,
            first_serial: who.at,
            ..Row::one(kind_of_finding)
        };
        let Some(thing) = thing.filter(|thing| thing.times > 0) else {
            return self.report(row(FindingKind::UnknownHandle));
        };
        if thing.mixed {
            // Whose count would be less? Those keep theirs: of what they hold is told at the end.
            return;
        }
        let made_with = if thing.owner == 0 { None } else { self.numbered(thing.owner) };
        match (made_with, owner) {
            (None, Some(_)) => self.report(row(FindingKind::OnlyAtDestroy)),
            (Some(made_with), None) => {
                self.report(Row { owner: made_with.id, ..row(FindingKind::NoneAtDestroy) });
            }
            (Some(made_with), Some(owner)) if made_with.group != owner.group => {
                let passed = Row { owner: made_with.id, passed: owner.id, ..row(FindingKind::OtherGroupAtDestroy) };
                self.report(Row { against: owner.kind, ..passed });
            }
            _ => {}
        }
        if let Some(made_with) = made_with
            && made_with.objects.fetch_sub(1, Ordering::AcqRel) == 1
            && !self.has_children(kind)
        {
            let number = made_with.number();
            let left = |block: &Block<'t>| block.owner == number && made_with.serves_nobody();
            self.leave_behind(FindingKind::LiveAfterDestroy, Told::Destroy, command, left);
            let over = || self.owners().filter(|owner| owner.group == made_with.group).all(Owner::has_ended);
            self.internal_left(FindingKind::InternalLeft, who, made_with, over);
        }
    }

    /// An object that draws on a device's or an instance's memory may live: what is left may be that one's, which the application forgot.
    fn has_children(&self, parent: &str) -> bool {
        let of_instance =
            |kind: &str| matches!(kind, "VkDevice" | "VkSurfaceKHR" | "VkDebugUtilsMessengerEXT" | "VkDebugReportCallbackEXT");
        // They go with others, and nobody need tell.
        let goes_along =
            |kind: &str| matches!(kind, "VkQueue" | "VkPhysicalDevice" | "VkCommandBuffer" | "VkDescriptorSet" | "VkDisplayKHR");
        let below = |kind: &str| match parent {
            "VkInstance" => kind != "VkInstance" && !goes_along(kind),
            "VkDevice" => kind != "VkInstance" && !of_instance(kind) && !goes_along(kind),
            _ => false,
        };
        matches!(parent, "VkInstance" | "VkDevice")
            && self.things.next(&mut Cursor::default(), |thing| thing.times > 0 && below(thing.kind)).is_some()
    }

    /// Internal memory that nobody said was given back (V20), if `over` says, when it was seen, that nobody will.
    pub(crate) fn internal_left(&self, kind: FindingKind, who: &Who<'_, 't>, owner: &Owner<'t>, over: impl Fn() -> bool) {
        let Some(first) = self.first_of_group(owner.group) else { return };
        for scope in Scope::ALL {
            let left = first.internal_left(scope);
            if left > 0 && over() && first.internal_given(scope, left) {
                self.report(self.row(kind, who, owner, Some(scope)).of_size(left));
            }
        }
    }
}
