//! The accounts of a live run: one context a kind of object, handed to the driver as callbacks.
//!
//! ```text
//!  backing
//!     |
//!  steward ---+--- vulkan ---+--- VkInstance          bridge [tap]
//!             |              +--- objects of the device
//!             |                       +--- VkDevice   bridge [tap]
//!             |                       +--- VkBuffer   bridge [tap] ..
//!             +--- records of the run (snapshots, the recorder's log)
//! ```

mod hooks;
mod owner;

use std::cell::{Cell, RefCell};

use alloc_core::{Budget, Context, ContextOptions, Handle, HostAllocator, HostError, Scope, Snapshot};
use vk_callbacks::{CallbackError, Recorder, Written};

use crate::report::{ContextRow, Leftover, Phase, ScopeBytes};
use crate::workload::ObjectKind;
use owner::Owner;

/// Contexts, bridges and phases of one run on one driver. Implements [`Hooks`](crate::workload::Hooks).
///
/// One thread runs the workload; the driver may call back on any.
pub struct Accounts<'b> {
    // Dropped in this order: bridges before the recorder that their taps belong to, children before parents.
    owners: [Option<Owner>; ObjectKind::COUNT],
    recorder: Option<Recorder<'b>>,
    phases: RefCell<Vec<Phase>>,
    commands: Cell<u64>,
    fullest: RefCell<Option<Fullest>>,
    records: Context,
    device: Context,
    vulkan: Context,
    root: Context,
}

/// The tree when it held most, as far as it was looked at between commands.
struct Fullest {
    live_bytes: u64,
    phase: String,
    snapshot: Snapshot<Handle>,
}

/// Why the accounts could not be made or written.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// No memory, or no room in a budget.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A bridge or the recorder refused.
    #[error(transparent)]
    Callbacks(#[from] CallbackError),
}

/// What the accounts of a finished run say.
#[derive(Clone, Debug, Default)]
pub struct Accounted {
    /// The phases in the order they ran.
    pub phases: Vec<Phase>,
    /// The contexts, parents before children.
    pub contexts: Vec<ContextRow>,
    /// In which phase the tree held most.
    pub fullest_phase: String,
    /// What was not given back.
    pub leftovers: Vec<Leftover>,
    /// What drivers did that the bridges noted: refused arguments, stray pointers, panics.
    pub notes: Vec<String>,
    /// Bytes of the peak over all of Vulkan.
    pub peak_bytes: u64,
    /// How far the peak may be off.
    pub peak_slack: u64,
}

impl<'b> Accounts<'b> {
    /// Accounts over `backing`; with a `log`, every call is recorded into its memory.
    ///
    /// # Errors
    /// The backing's refusal; nothing is left behind.
    ///
    /// # Safety
    /// `backing` and `log` live until the driver that was given the callbacks has ended its instance and the accounts are gone.
    pub unsafe fn new<A: HostAllocator + Sync>(
        backing: &A,
        log: Option<&'b (dyn HostAllocator + Sync)>,
    ) -> Result<Self, AccountError> {
        // SAFETY: forwarded from this function's contract.
        let root = unsafe { Context::root(backing, ContextOptions::new("steward").scope(Scope::Instance)) }?;
        // An exact budget without a practical limit: its high-water mark is the exact peak of everything below.
        let vulkan = root.child_with(ContextOptions::new("vulkan").budget(Budget::exact(u64::MAX - 1)))?;
        let device = vulkan.child_with(ContextOptions::new("objects of the device").scope(Scope::Device))?;
        let records = root.child("records of the run")?;
        let recorder = log.map(Recorder::new).transpose()?;
        let mut owners = [const { None }; ObjectKind::COUNT];
        for kind in ObjectKind::ALL.into_iter().filter(|kind| kind.takes_callbacks()) {
            let above = if kind.parent() == Some(ObjectKind::Device) || kind == ObjectKind::Device { &device } else { &vulkan };
            owners[kind.index()] = Some(Owner::new(kind, above, recorder.as_ref())?);
        }
        let accounts = Self {
            owners,
            recorder,
            phases: RefCell::default(),
            commands: Cell::new(0),
            fullest: RefCell::default(),
            records,
            device,
            vulkan,
            root,
        };
        accounts.vulkan.restart_high_water();
        Ok(accounts)
    }

    /// The subtree that the driver draws on, for whoever wants to look while it runs.
    #[must_use]
    pub fn vulkan(&self) -> &Context {
        &self.vulkan
    }

    /// Writes what was recorded as a trace of format 2.
    ///
    /// # Errors
    /// [`CallbackError`]: the output failed, or the log's memory was refused.
    pub fn write_trace(&self, driver: &str, out: &mut String) -> Result<Option<Written>, CallbackError> {
        self.recorder.as_ref().map(|recorder| recorder.write(driver, out)).transpose()
    }

    /// Ends the run: closes the bridges and says what is left. Call it after the driver's instance is gone.
    ///
    /// # Errors
    /// No memory for the last snapshot.
    pub fn finish(self) -> Result<Accounted, AccountError> {
        self.end_phase();
        let last = Snapshot::take(&self.vulkan, self.records.handle())?;
        let fullest = self.fullest.take();
        let mut done = Accounted {
            phases: self.phases.take(),
            contexts: self.rows(&last, fullest.as_ref().map(|fullest| &fullest.snapshot)),
            ..Accounted::default()
        };
        done.peak_bytes = done.phases.iter().map(|phase| phase.peak_bytes).max().unwrap_or(0);
        done.peak_slack = done.phases.iter().map(|phase| phase.peak_slack).max().unwrap_or(0);
        done.fullest_phase = fullest.map(|fullest| fullest.phase).unwrap_or_default();
        for owner in self.owners.into_iter().flatten() {
            done.notes.extend(owner.note());
            done.leftovers.extend(owner.close());
        }
        drop(last);
        // A context with leftovers stays charged to the root: what the program itself took is given back here.
        drop((self.recorder, self.records, self.device, self.vulkan, self.root));
        Ok(done)
    }

    /// The bytes of the accounts' own records in the tree: what Vulkan did not ask for.
    fn own_bytes(&self) -> u64 {
        let bridges: u64 = self.owners.iter().flatten().map(|owner| owner.own.total().live_bytes).sum();
        bridges + self.vulkan.usage().total().live_bytes + self.device.usage().total().live_bytes
    }

    fn begin_phase(&self, name: &'static str) {
        self.end_phase();
        if let Some(recorder) = &self.recorder {
            recorder.phase(name);
        }
        let before = self.vulkan.subtree_usage().total();
        self.phases.borrow_mut().push(Phase::begin(name, self.commands.get(), before.total_blocks, before.total_bytes));
    }

    fn end_phase(&self) {
        let mut phases = self.phases.borrow_mut();
        let Some(phase) = phases.last_mut() else { return };
        let usage = self.vulkan.subtree_usage();
        let peak = self.vulkan.restart_high_water();
        let own = self.own_bytes();
        let total = usage.total();
        phase.commands = self.commands.get() - phase.commands;
        phase.allocations = total.total_blocks - phase.allocations;
        phase.bytes = total.total_bytes - phase.bytes;
        phase.live_bytes = total.live_bytes.saturating_sub(own);
        phase.peak_bytes = peak.map_or(total.peak_bytes, |peak| peak.high).saturating_sub(own);
        phase.peak_slack = if peak.is_some() { 0 } else { total.peak_slack };
        let mut bridged = ScopeBytes::default();
        for owner in self.owners.iter().flatten() {
            bridged.add(&owner.usage());
        }
        phase.live_by_scope = bridged;
        let mut fullest = self.fullest.borrow_mut();
        if fullest.as_ref().is_none_or(|fullest| total.live_bytes > fullest.live_bytes)
            && let Ok(snapshot) = Snapshot::take(&self.vulkan, self.records.handle())
        {
            *fullest = Some(Fullest { live_bytes: total.live_bytes, phase: phase.name.clone(), snapshot });
        }
    }

    fn rows(&self, last: &Snapshot<Handle>, fullest: Option<&Snapshot<Handle>>) -> Vec<ContextRow> {
        let own = |id| self.owners.iter().flatten().find(|owner| owner.id() == id);
        last.nodes()
            .iter()
            .map(|node| {
                let then = fullest.and_then(|f| f.nodes().iter().find(|then| then.id == node.id));
                match own(node.id) {
                    Some(owner) => ContextRow::new(node.name, node.depth, &owner.without_own(&node.usage), then.map(|t| owner.without_own(&t.usage))),
                    None => ContextRow::group(node.name, node.depth),
                }
            })
            .collect()
    }
}
