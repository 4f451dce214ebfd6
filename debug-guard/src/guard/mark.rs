use core::cell::Cell;
use std::thread_local;

use alloc_core::{HostAllocator, Scope, with_requester};

use super::options::GuardOptions;
use super::serial;
use super::state::GuardState;
use crate::block::{BlockMark, SiteId};
use crate::call_sites::{CommandMark, RequesterInfo, SiteView};
use crate::mode::Stacks;
use crate::os;

impl GuardState {
    #[inline]
    pub(super) fn with_requester<R>(&self, scope: Scope, f: impl FnOnce(&RequesterInfo<'_>) -> R) -> R {
        let command = self.options.query_command();
        let command = command.as_ref();
        with_requester(|origin| {
            f(&RequesterInfo {
                context: origin.and_then(|origin| origin.context),
                name: origin.map_or("", |origin| origin.name),
                label: origin.and_then(|origin| origin.label),
                scope,
                front: origin.map_or(0, |origin| u32::try_from(origin.front).unwrap_or(0)),
                command,
            })
        })
    }

    pub(super) fn site(&self, id: SiteId) -> Option<SiteView<'_>> {
        self.sites.as_ref()?.get(id)
    }

    #[inline]
    pub(super) fn mark_of_allocation(
        &self,
        memory: &dyn HostAllocator,
        requester: &RequesterInfo<'_>,
        stacks: Stacks,
    ) -> BlockMark {
        // First: a new thread gets the signals unblocked that the walk of a broken stack may raise.
        let thread = os::thread_id();
        let site = self.sites.as_ref().map(|sites| sites.note(Some(memory), requester, stacks)).unwrap_or_default();
        BlockMark { site, thread, serial: serial::next() }
    }

    #[inline]
    pub(super) fn mark_of_free(&self, requester: &RequesterInfo<'_>) -> BlockMark {
        let thread = os::thread_id();
        let site =
            self.sites.as_ref().map(|sites| sites.note(None, requester, self.options.stacks)).unwrap_or_default();
        BlockMark { site, thread, serial: serial::reached() }
    }
}

thread_local! {
    // Const and without Drop: valid while other thread-locals are destroyed.
    static QUERYING: Cell<bool> = const { Cell::new(false) };
}

struct QueryGuard;

impl Drop for QueryGuard {
    fn drop(&mut self) {
        QUERYING.set(false);
    }
}

impl GuardOptions {
    /// The program's function is not called again on the thread while it runs.
    pub(super) fn query_command(&self) -> Option<CommandMark> {
        let query = self.command?;
        if QUERYING.replace(true) {
            return None;
        }
        let _querying = QueryGuard;
        query()
    }
}
