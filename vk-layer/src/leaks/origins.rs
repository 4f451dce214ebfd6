//! There is an origin for each call stack and kind of object. Origins are never freed, so that a block can store a
//! reference.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use alloc_core::{TryMap, TryVec};
use debug_guard::StackId;
use vk_report::state_file::stacks::DEVICE_MEMORY_KIND;

use super::counts::LiveCount;
use super::modules::{ModuleTable, StackModule};
use super::store::{HighestMoment, OriginCounts, StackStore};
use crate::os;
use crate::record::{Own, own};
use crate::record_list::RecordList;

pub(crate) struct Origin {
    pub(super) kind: &'static str,
    /// The innermost comes first, without those of this layer and of the loader. Blocks that the driver allocated
    /// outside of hooked commands have none.
    pub(crate) frames: TryVec<StackFrame, Own>,
    /// Where its record begins in the store.
    pub(super) place: u64,
    counts: &'static OriginCounts,
    store: &'static StackStore,
    /// The addresses and the kind are the same, in files that are unloaded.
    before: Option<&'static Self>,
}

#[derive(Clone, Copy)]
pub(crate) struct StackFrame {
    pub(super) address: usize,
    pub(super) module: Option<&'static StackModule>,
}

type Key = (Option<StackId>, &'static str);

pub(super) struct OriginTable {
    by_key: Mutex<TryMap<Key, (&'static Origin, u64), Own>>,
    all: RecordList<Origin>,
    modules: ModuleTable,
    store: &'static StackStore,
}

impl Origin {
    pub(super) const fn objects(&self) -> &LiveCount {
        &self.counts.objects
    }

    pub(super) const fn blocks(&self) -> &LiveCount {
        &self.counts.blocks
    }

    pub(crate) fn is_listed(&self) -> bool {
        let [memory, blocks] = &self.store.head.peaks;
        self.objects().is_listed(memory.number()) || self.blocks().is_listed(blocks.number())
    }

    fn object_peak(&self) -> Option<&'static HighestMoment> {
        let [memory, _] = &self.store.head.peaks;
        (self.kind == DEVICE_MEMORY_KIND).then_some(memory)
    }

    fn block_peak(&self) -> Option<&'static HighestMoment> {
        let [_, blocks] = &self.store.head.peaks;
        Some(blocks)
    }

    pub(super) fn add_object(&self) {
        self.change(self.object_peak(), self.objects(), |count| count.add(0));
    }

    pub(super) fn set_object_size(&self, bytes: u64) {
        let peak = self.object_peak();
        self.change(peak, self.objects(), |count| count.add_bytes(bytes));
        self.grow(peak, bytes);
    }

    pub(super) fn remove_object(&self, bytes: u64) {
        let peak = self.object_peak();
        self.change(peak, self.objects(), |count| count.remove(bytes));
        if let Some(peak) = peak {
            peak.subtract(bytes);
        }
    }

    pub(super) fn add_block(&self, bytes: u64) {
        let peak = self.block_peak();
        self.change(peak, self.blocks(), |count| count.add(bytes));
        self.grow(peak, bytes);
    }

    pub(super) fn remove_block(&self, bytes: u64) {
        let peak = self.block_peak();
        self.change(peak, self.blocks(), |count| count.remove(bytes));
        if let Some(peak) = peak {
            peak.subtract(bytes);
        }
    }

    fn change(&self, peak: Option<&HighestMoment>, count: &LiveCount, change: impl FnOnce(&LiveCount)) {
        if let Some(peak) = peak {
            count.keep_peak(peak.number());
        }
        change(count);
    }

    fn grow(&self, peak: Option<&HighestMoment>, bytes: u64) {
        if let Some(peak) = peak.filter(|peak| peak.add(bytes)) {
            self.store.note_moment(peak);
        }
    }
}

impl OriginTable {
    pub(super) const fn new(store: &'static StackStore) -> Self {
        Self { by_key: Mutex::new(TryMap::new_in(own())), all: RecordList::new(), modules: ModuleTable::new(), store }
    }

    /// `frames` are the calling thread's. `None` when there is no memory for a new origin.
    pub(super) fn get_or_insert<'f>(
        &self,
        stack: Option<StackId>,
        frames: impl FnOnce() -> &'f [usize],
        (command, kind): (&'static str, &'static str),
    ) -> Option<&'static Origin> {
        let unloads = os::unloads();
        // Under the lock only the system is called: its allocator, and for its list of mappings.
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        let known = by_key.get(&(stack, kind)).copied();
        if let Some((origin, _)) = known.filter(|(_, checked)| *checked == unloads) {
            return Some(origin);
        }
        let frames = self.frames(frames(), unloads)?;
        let last = known.map(|(origin, _)| origin);
        let mut alike = std::iter::successors(last, |origin| origin.before);
        let origin = match alike.find(|origin| is_same(&origin.frames, &frames)) {
            Some(origin) => origin,
            None => {
                by_key.try_reserve(1).ok()?;
                let (counts, place) = self.store.add_origin((command, kind), &frames)?;
                self.all.push(Origin { kind, frames, place, counts, store: self.store, before: last })?
            }
        };
        by_key.try_insert((stack, kind), (origin, unloads)).ok()?;
        Some(origin)
    }

    fn frames(&self, addresses: &[usize], unloads: u64) -> Option<TryVec<StackFrame, Own>> {
        let mut frames = TryVec::new_in(own());
        for address in addresses {
            let module = self.modules.of(*address, unloads, self.store);
            let is_inner = module.is_some_and(StackModule::is_inner);
            if !frames.is_empty() || !is_inner {
                let address = *address;
                frames.try_push(StackFrame { address, module }).ok()?;
            }
        }
        Some(frames)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Origin> + use<> {
        self.all.iter()
    }
}

fn is_same(one: &[StackFrame], other: &[StackFrame]) -> bool {
    let file = |frame: &StackFrame| frame.module.map(ptr::from_ref);
    one.iter().map(file).eq(other.iter().map(file))
}
