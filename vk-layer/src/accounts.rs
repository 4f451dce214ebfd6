//! The accounts: one context for each kind of object, below one for the device, below one for the instance.
//!
//! ```text
//!   steward --- instance ---+--- VkInstance, VkSurfaceKHR ..
//!                           +--- device ---+--- VkDevice, VkBuffer ..
//! ```
//!
//! Accounts are never freed. When an instance or device has ended without leftovers, the next one uses its accounts:
//! their number is bounded by the instances and devices that live at once and some that left something. The peak of all
//! is exact; that of a kind is its context's, which is exact as long as one thread uses the kind in one scope;
//! otherwise it has a slack, unless the layer is linked into the program.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use alloc_core::support::StateMutex;
use alloc_core::{Budget, Context, ContextOptions, Scope, ScopeUsage, Usage};
use vk_callbacks::check::{Checked, CheckedOwner, Opened};
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, CheckOptions, Checker, OwnerId};

use crate::caller_module::caller_module;
use crate::commands::{FIRST_ROWS, KINDS, ROWS, is_about_loader, kind_bit, places, row};
use crate::count::Count;
use crate::coverage;
use crate::description::DeviceDescription;
use crate::device_memory::DeviceMemory;
use crate::foreign::ForeignOwner;
use crate::guarding::{self, Root};
use crate::hooks::{CREATE_DEVICE, CREATE_INSTANCE, coverage};
use crate::in_process::observation;
use crate::memory_report::MemoryReports;
use crate::once::ValueAcrossForks;
use crate::per_process::PerProcess;
use crate::record::{SYSTEM, new_static};
use crate::record_list::RecordList;
use crate::settings::settings;
use crate::tape;

pub(crate) struct Accounts {
    context: Context,
    instance: Option<&'static Accounts>,
    kinds: [KindAccount; ROWS],
    used_kinds: AtomicU64,
    pub(crate) devices: RecordList<Accounts>,
    pub(crate) device_memory: DeviceMemory,
    pub(crate) memory_reports: PerProcess<MemoryReports>,
    pub(crate) description: StateMutex<Option<DeviceDescription>>,
    has_ended: AtomicBool,
}

/// The most accounts with leftovers in a list. Further instances or devices are counted with the first that is free:
/// with a driver that leaves something of each, a program that creates them in a loop would take memory without bound.
const MAX_LEFT: usize = 64;

pub(crate) struct KindAccount {
    /// `None` where it could not be created: it stays so, since objects created without callbacks are destroyed without
    /// (V43).
    owner: ValueAcrossForks<Option<&'static KindOwner>>,
    pub(crate) created: Count,
    pub(crate) ended: Count,
    foreign: ValueAcrossForks<Option<&'static ForeignOwner>>,
    pub(crate) foreign_commands: AtomicU64,
}

pub(crate) struct KindOwner {
    bridge: Bridge,
    pub(crate) callbacks: RawCallbacks,
    checked: Option<Checked>,
    bridge_usage: Usage,
}

pub(crate) struct SeveralOwners;

impl KindAccount {
    const fn new() -> Self {
        Self {
            owner: ValueAcrossForks::new(),
            foreign: ValueAcrossForks::new(),
            created: Count::new(),
            ended: Count::new(),
            foreign_commands: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.created.get() != 0
            || self.owner().is_some_and(|owner| owner.usage().total().total_blocks != 0)
            || self.foreign().is_some_and(|owner| owner.usage().total_blocks != 0)
    }

    #[inline]
    pub(crate) fn owner(&self) -> Option<&'static KindOwner> {
        self.owner.get().copied().flatten()
    }

    pub(crate) fn foreign(&self) -> Option<&'static ForeignOwner> {
        self.foreign.get().copied().flatten()
    }

    pub(crate) fn owner_of(&self, handle: u64) -> Option<OwnerId> {
        if handle == 0 {
            return None;
        }
        let foreign = self.foreign().filter(|foreign| foreign.has(handle));
        foreign.map(|foreign| foreign.id).or_else(|| self.owner().map(KindOwner::id))
    }

    pub(crate) fn one_owner(&self) -> Result<Option<OwnerId>, SeveralOwners> {
        match (self.owner().map(KindOwner::id), self.foreign()) {
            (Some(_), Some(_)) => Err(SeveralOwners),
            (own, foreign) => Ok(own.or(foreign.map(|foreign| foreign.id))),
        }
    }

    /// `None` without a checker or without memory at the first call. One thread creates the owner while others wait,
    /// since the checker never forgets one.
    pub(crate) fn foreign_or_new(&self, kind: &'static str) -> Option<&'static ForeignOwner> {
        *self.foreign.get_or_make(|| ForeignOwner::new(kind).and_then(new_static))
    }

    fn owner_or_new(&self, kind: &'static str, above: (&Context, Option<OwnerId>)) -> Option<&'static KindOwner> {
        *self.owner.get_or_make(|| KindOwner::new(kind, above).and_then(new_static))
    }
}

impl KindOwner {
    fn new(kind: &'static str, (above, parent): (&Context, Option<OwnerId>)) -> Option<Self> {
        let mut options = ContextOptions::new(kind).scope(default_scope(kind));
        let observed = observation();
        if observed.is_some() {
            // Without a practical limit: its high-water mark is the exact peak of all scopes together.
            options = options.budget(Budget::exact(u64::MAX - 1));
        }
        let bridge = Bridge::new(above.child_with(options).ok()?).ok()?;
        let stacks = observed.and_then(|observed| observed.stacks.as_ref());
        let sites = stacks.map(|stacks| stacks.around(bridge.raw(), kind));
        let inner = sites.as_ref().map_or(bridge.raw(), |sites| sites.raw());
        // Valid for ever, as the bridge is once it is published.
        std::mem::forget(sites);
        let inner = tape::tapped(inner, (bridge.owner(), parent), kind);
        let mut checked = None;
        if let Some(checker) = checker() {
            let owner = CheckedOwner::new(bridge.owner(), kind);
            // SAFETY: the bridge lives for ever once its record is published; before that the callbacks are not handed
            // out.
            checked = unsafe { checker.wrap(inner, owner) }.ok();
            if checked.is_none() {
                UNCHECKED_OWNERS.fetch_add(1, Ordering::Relaxed);
            }
        }
        // From here on the drop of `new` ends the watch.
        let mut new = Self {
            bridge_usage: bridge.usage(),
            callbacks: checked.map_or(inner, |checked| *checked.raw()),
            bridge,
            checked,
        };
        new.callbacks = coverage::counted(new.callbacks)?;
        Some(new)
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.bridge.owner()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.bridge.usage().without(&self.bridge_usage)
    }

    pub(crate) fn exact_peak(&self) -> Option<u64> {
        let budget = self.bridge.context().budget()?;
        let own = self.bridge_usage.total().live_bytes;
        Some(budget.high.saturating_sub(own))
    }

    pub(crate) fn try_usage(&self) -> Option<Usage> {
        let usage = self.bridge.context().try_usage()?;
        Some(usage.without(&self.bridge_usage))
    }
}

impl Drop for KindOwner {
    fn drop(&mut self) {
        if let (Some(checker), Some(checked)) = (checker(), &self.checked) {
            // SAFETY: the callbacks were not handed out.
            unsafe { checker.retire(checked) }
        }
    }
}

impl Accounts {
    fn new(context: Context, instance: Option<&'static Self>) -> Self {
        Self {
            context,
            instance,
            kinds: [const { KindAccount::new() }; ROWS],
            used_kinds: AtomicU64::new(0),
            devices: RecordList::new(),
            device_memory: DeviceMemory::default(),
            memory_reports: PerProcess::new(),
            description: StateMutex::new(None),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn kind(&self, index: usize) -> Option<&KindAccount> {
        self.kinds.get(*KINDS.get(index)?)
    }

    pub(crate) fn use_kind(&self, index: usize) {
        self.used_kinds.fetch_or(kind_bit(index), Ordering::Relaxed);
    }

    pub(crate) fn used_kinds(&self) -> u64 {
        self.used_kinds.load(Ordering::Relaxed)
    }

    pub(crate) fn kind_at(&self, place: usize) -> Option<&KindAccount> {
        let first_row = FIRST_ROWS.get(place).copied().flatten()?;
        self.kinds.get(first_row)
    }

    pub(crate) fn used_accounts(&self) -> impl Iterator<Item = &KindAccount> {
        places(self.used_kinds()).filter_map(|place| self.kind_at(place))
    }

    pub(crate) fn owner_or_new(&self, index: usize) -> Option<&KindOwner> {
        let kind = self.kind(index)?;
        if let Some(owner) = kind.owner() {
            return Some(owner);
        }
        if is_about_loader(index) || settings().passes_through {
            return None;
        }
        self.use_kind(index);
        let above = (&self.context, self.parent_of(index));
        kind.owner_or_new(row(index).object, above)
    }

    fn parent_of(&self, index: usize) -> Option<OwnerId> {
        let (accounts, parent) = match (index, self.instance) {
            (CREATE_INSTANCE, _) => return None,
            (CREATE_DEVICE, Some(instance)) => (instance, CREATE_INSTANCE),
            (_, Some(_)) => (self, CREATE_DEVICE),
            (_, None) => (self, CREATE_INSTANCE),
        };
        accounts.kind(parent)?.owner().map(KindOwner::id)
    }

    /// A kind that is passed through and has no owner never gets one.
    pub(crate) fn last_owner(&self, index: usize) -> Option<&KindOwner> {
        *self.kind(index)?.owner.get_or_make(|| None)
    }

    pub(crate) fn known_kinds(&self) -> impl Iterator<Item = (&'static str, &KindAccount)> {
        let names = vk_callbacks::CommandRow::all().iter().map(|row| row.object);
        names.zip(&self.kinds).filter(|(_, kind)| kind.is_known())
    }

    fn is_empty(&self) -> bool {
        let owners = self.kinds.iter().filter_map(KindAccount::owner);
        let live: u64 = owners.map(|owner| owner.usage().total().live_blocks).sum();
        let foreign = self.kinds.iter().filter_map(KindAccount::foreign);
        let foreign: u64 = foreign.map(|owner| owner.usage().live_blocks).sum();
        live == 0 && foreign == 0 && self.device_memory.is_empty()
    }

    /// While something of the instance or device is left, its accounts are not used again until there are [`MAX_LEFT`]
    /// such, so that the report shows it.
    pub(crate) fn release(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    pub(crate) fn is_in_use(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire) || !self.is_empty()
    }

    pub(crate) fn for_device(&'static self) -> Option<&'static Self> {
        acquire(&self.devices, Some(self), || {
            let options = ContextOptions::new("device").scope(Scope::Device);
            self.context.child_with(options).ok()
        })
    }
}

/// The first accounts that left something and have ended are used where too many did.
fn acquire(
    list: &RecordList<Accounts>,
    instance: Option<&'static Accounts>,
    context: impl FnOnce() -> Option<Context>,
) -> Option<&'static Accounts> {
    let acquired = |accounts: &&Accounts| accounts.has_ended.swap(false, Ordering::AcqRel);
    let mut unused = list.iter().filter(|accounts| !accounts.is_in_use());
    let has_ended = |accounts: &&Accounts| accounts.has_ended.load(Ordering::Relaxed);
    let is_full = || list.iter().filter(has_ended).count() >= MAX_LEFT;
    unused
        .find(acquired)
        .or_else(|| is_full().then(|| list.iter().find(acquired)).flatten())
        .or_else(|| list.push(Accounts::new(context()?, instance)))
}

pub(crate) static INSTANCES: RecordList<Accounts> = RecordList::new();

pub(crate) fn all_accounts() -> impl Iterator<Item = &'static Accounts> {
    INSTANCES.iter().flat_map(|instance| std::iter::once(instance).chain(instance.devices.iter()))
}

pub(crate) fn for_instance() -> Option<&'static Accounts> {
    // Neither a guard nor `SYSTEM` calls the layer while the root is created.
    let root = ROOT.get_or_make(|| guarding::root(&settings().guarding))?;
    acquire(&INSTANCES, None, || {
        let options = ContextOptions::new("instance").scope(Scope::Instance);
        root.context.child_with(options).ok()
    })
}

pub(crate) struct AllUsage {
    pub(crate) live_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) foreign_peak_bytes: u64,
    pub(crate) recent_peak_bytes: u64,
}

pub(crate) fn all_usage() -> Option<AllUsage> {
    let root = ROOT.get()?;
    let foreign = all_accounts()
        .flat_map(Accounts::used_accounts)
        .filter_map(KindAccount::foreign)
        .fold(ScopeUsage::default(), |sum, owner| sum.plus(&owner.usage()));
    Some(AllUsage {
        live_bytes: root.count.live_bytes().saturating_add(foreign.live_bytes),
        peak_bytes: root.count.peak_bytes().saturating_add(foreign.peak_bytes),
        foreign_peak_bytes: foreign.peak_bytes,
        recent_peak_bytes: root.count.recent_peak_bytes(),
    })
}

pub(crate) fn restart_peak() {
    if let Some(root) = ROOT.get() {
        root.count.restart();
    }
}

#[inline]
pub(crate) fn checker() -> Option<&'static Checker<'static>> {
    CHECKER.get().or_else(|| if settings().check { new_checker() } else { None })
}

#[inline(never)]
fn new_checker() -> Option<&'static Checker<'static>> {
    let options = CheckOptions {
        coverage: coverage(),
        opened: observation().map_or(Opened::ThroughLoader, |observed| observed.opened),
    };
    CHECKER.get_or_make(|| Checker::naming_callers(&SYSTEM, options, caller_module).ok())
}

pub(crate) fn after_fork() {
    ROOT.forget();
    CHECKER.forget();
    INSTANCES.forget();
    UNCHECKED_OWNERS.store(0, Ordering::Relaxed);
}

static ROOT: PerProcess<Root> = PerProcess::new();
static CHECKER: PerProcess<Checker<'static>> = PerProcess::new();

pub(crate) static UNCHECKED_OWNERS: AtomicU64 = AtomicU64::new(0);

fn default_scope(kind: &str) -> Scope {
    match kind {
        "VkInstance" => Scope::Instance,
        "VkDevice" => Scope::Device,
        "VkPipelineCache" | "VkValidationCacheEXT" => Scope::Cache,
        _ => Scope::Object,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use alloc_core::{Context, ContextOptions};
    use vk_callbacks::OwnerId;
    use vk_callbacks::check::stray_callbacks;

    use super::{KindAccount, KindOwner};
    use crate::record::SYSTEM;

    #[test]
    fn ly24_of_threads_that_need_an_owner_one_makes_it() {
        const ROUNDS: u32 = 300;
        let root = Context::root_static(&SYSTEM, ContextOptions::new("test")).expect("memory");
        let kinds: Vec<_> = (0..ROUNDS).map(|_| KindAccount::new()).collect();
        let round = Barrier::new(2);
        let owners = || {
            let owner = |kind: &KindAccount| {
                round.wait();
                let own = kind.owner_or_new("VkFence", (&root, None)).expect("memory").id();
                (own, kind.foreign_or_new("VkFence").expect("memory").id)
            };
            kinds.iter().map(owner).collect::<Vec<_>>()
        };
        let before = OwnerId::fresh().get();
        let (mine, others) = thread::scope(|scope| {
            let other = scope.spawn(owners);
            (owners(), other.join().expect("a thread that ends"))
        });
        let made = OwnerId::fresh().get() - before;
        assert!(mine == others && made < 2 * ROUNDS + 40, "{made}");
    }

    #[test]
    fn ly24_callbacks_of_an_owner_that_was_not_published_are_watched_no_more() {
        let context = Context::root_static(&SYSTEM, ContextOptions::new("test"));
        let above = (&context.expect("memory"), None);
        let owner = KindOwner::new("VkBuffer", above).expect("memory");
        assert!(owner.checked.is_some());
        let callbacks = owner.callbacks;
        drop(owner);
        let before = stray_callbacks();
        let allocation = callbacks.pfn_allocation.expect("a function");
        // SAFETY: the number of retired callbacks is invalid, and no address.
        let block = unsafe { allocation(callbacks.p_user_data, 8, 8, 1) };
        assert!(block.is_null());
        assert_eq!(stray_callbacks(), before + 1);
    }
}
