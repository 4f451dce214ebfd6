//! Files are noted when a stack is seen first: at the end they may be unloaded, and another file may lie at their
//! addresses.

use std::sync::atomic::{AtomicU64, Ordering};

use alloc_core::TryString;
use vk_report::state_file::stacks::MAX_BUILD_ID;

use super::store::StackStore;
use crate::count::get;
use crate::description::is_loader;
use crate::os::MAX_PATH;
use crate::record::{Own, own};
use crate::record_list::RecordList;

pub(crate) struct StackModule {
    path: TryString<Own>,
    addresses: std::ops::Range<usize>,
    bias: usize,
    build_id: [u8; MAX_BUILD_ID],
    build_id_len: usize,
    seen: AtomicU64,
    stored_at: u64,
    /// Frames of this layer and the loader are at the inner end of each stack.
    is_inner: bool,
}

pub(super) struct ModuleTable(RecordList<StackModule>);

impl StackModule {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) const fn bias(&self) -> usize {
        self.bias
    }

    pub(crate) fn build_id(&self) -> &[u8] {
        self.build_id.get(..self.build_id_len).unwrap_or_default()
    }

    pub(super) const fn stored_at(&self) -> u64 {
        self.stored_at
    }

    pub(super) const fn is_inner(&self) -> bool {
        self.is_inner
    }

    fn is(&self, module: &debug_guard::Module<'_>) -> bool {
        self.bias == module.bias() && self.build_id() == module.build_id() && self.path() == module.path()
    }

    fn new(module: &debug_guard::Module<'_>) -> Option<Self> {
        let path = TryString::try_from_str_in(module.path(), own()).ok()?;
        let mut build_id = [0; MAX_BUILD_ID];
        let id = module.build_id();
        for (to, from) in build_id.iter_mut().zip(id) {
            *to = *from;
        }
        let own_code = Self::new as *const () as usize;
        Some(Self {
            is_inner: module.addresses().contains(&own_code) || is_loader(&path),
            path,
            addresses: module.addresses(),
            bias: module.bias(),
            build_id,
            build_id_len: id.len().min(MAX_BUILD_ID),
            seen: AtomicU64::new(0),
            stored_at: 0,
        })
    }
}

impl ModuleTable {
    pub(super) const fn new() -> Self {
        Self(RecordList::new())
    }

    /// `unloads` is the present number. `None` where the address lies in no file, or without memory. One thread at a
    /// time calls it, with the address of a function that is running.
    pub(super) fn of(&self, address: usize, unloads: u64, store: &StackStore) -> Option<&'static StackModule> {
        let there = || self.0.iter().filter(|module| module.addresses.contains(&address));
        let known = there().find(|module| get(&module.seen) == unloads);
        let module = known.or_else(|| {
            let mut name = [0; MAX_PATH];
            let now = debug_guard::Module::at(address, &mut name)?;
            there().find(|module| module.is(&now)).or_else(|| {
                let mut module = StackModule::new(&now)?;
                module.stored_at = store.add_module(&module);
                self.0.push(module)
            })
        })?;
        module.seen.store(unloads, Ordering::Relaxed);
        Some(module).filter(|module| !module.path.is_empty())
    }
}
