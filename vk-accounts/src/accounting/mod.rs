//! The accounts of a live run: one context a kind of object, handed to the driver as callbacks.
//!
//! ```text
//!  backing
//!     |
//!  steward ---+--- vulkan ---+--- VkInstance          bridge [tap] [check]
//!             |              +--- VkDebugUtilsMessengerEXT ..
//!             |              +--- objects of the device
//!             |                       +--- VkDevice   bridge [tap] [check]
//!             |                       +--- VkBuffer   bridge [tap] [check] ..
//!             +--- gpu-suballoc, the book-keeping of the workload's sub-allocator
//!             +--- records of the run (snapshots)
//! ```
//!
//! A tap records each call, a check judges it; the driver gets the outermost callbacks. Both use other memory ([`Watching`]).

mod ash;
mod findings;
mod owner;
mod phases;
mod watching;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use alloc_core::{
    Budget, Context, ContextHandle, ContextOptions, HostAllocator, HostError, Scope, Snapshot,
    SnapshotNode, Usage,
};
use vk_callbacks::bridge::BridgeCounters;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::recorder::Written;
use vk_callbacks::{CallbackError, CheckOptions, Checker, Recorder};

use crate::object_kind::ObjectKind;
use crate::report::origins::StackCapture;
use crate::report::{Accounted, ByScope, ContextRow, Counts, Phase, PhaseStart, Sample, Sampler};
use owner::Owner;
pub use watching::Watching;

/// Contexts, bridges and phases of one run on one driver. Implements [`Hooks`](crate::Hooks).
///
/// One thread runs the workload; the driver may call back on any.
pub struct Accounts<'b> {
    // Dropped in this order: bridges before the checker and the recorder that watch them, children before parents.
    owners: [Option<Owner>; ObjectKind::COUNT],
    checker: Option<Checker<'b>>,
    stacks: Option<Arc<StackCapture>>,
    /// The objects that the next command destroys, with their callbacks.
    ending: RefCell<Vec<Ending>>,
    recorder: Option<Recorder<'b>>,
    phases: RefCell<Vec<Phase>>,
    running: RefCell<Option<PhaseStart>>,
    commands: Cell<u64>,
    timeline: RefCell<Sampler>,
    fullest: RefCell<Option<Fullest>>,
    /// The context of the workload's sub-allocator.
    suballocator: Context,
    records: Context,
    device: Context,
    vulkan: Context,
    root: Context,
}

/// An object that is about to end.
struct Ending {
    kind: ObjectKind,
    handle: u64,
    callbacks_of: Option<ObjectKind>,
}

/// The tree when it held most, of the ends of phases.
struct Fullest {
    live_bytes: u64,
    phase: String,
    snapshot: Snapshot<ContextHandle>,
}

/// Why the accounts could not be created or written.
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

impl<'b> Accounts<'b> {
    /// Accounts over `backing`, watched as `watching` says.
    ///
    /// # Errors
    /// The backing's refusal; nothing is left behind.
    ///
    /// # Safety
    /// `backing` and the memory of `watching` live until the driver that got the callbacks has ended its instance and the accounts are
    /// dropped; the accounts are finished or dropped after that end.
    pub unsafe fn new<A: HostAllocator + Sync>(
        backing: &A,
        watching: Watching<'b>,
    ) -> Result<Self, AccountError> {
        // An exact budget without a practical limit: its high-water mark is the exact peak of everything below.
        // SAFETY: forwarded.
        unsafe { Self::with_budget(backing, watching, Budget::exact(u64::MAX - 1)) }
    }

    /// As [`Accounts::new`], with a limit on everything that the driver allocates and on the accounts' own state. Peaks are exact if the
    /// budget is.
    ///
    /// # Errors
    /// As [`Accounts::new`], and a budget that the accounts' own state does not fit in.
    ///
    /// # Safety
    /// As [`Accounts::new`].
    pub unsafe fn with_budget<A: HostAllocator + Sync>(
        backing: &A,
        watching: Watching<'b>,
        budget: Budget,
    ) -> Result<Self, AccountError> {
        // SAFETY: forwarded from this function's contract.
        let root = unsafe {
            Context::root(
                backing,
                ContextOptions::new("steward").scope(Scope::Instance),
            )
        }?;
        let vulkan = root.child_with(ContextOptions::new("vulkan").budget(budget))?;
        let records = root.child("records of the run")?;
        let suballocator = root.child("gpu-suballoc")?;
        let recorder = watching.log.map(Recorder::new).transpose()?;
        // The workload has one thread, and every command of it runs in a bracket.
        let options = CheckOptions {
            coverage: BracketCoverage::Complete,
            opened: watching.opened,
        };
        let checker = watching
            .check
            .map(|memory| Checker::new(memory, options))
            .transpose()?;
        let mut owners = [const { None }; ObjectKind::COUNT];
        let mut create = |above: &Context, of_device: bool| -> Result<(), AccountError> {
            for (owner, kind) in owners.iter_mut().zip(ObjectKind::ALL) {
                if kind.takes_callbacks() && is_of_device(kind) == of_device {
                    let (recorder, checker) = (recorder.as_ref(), checker.as_ref());
                    *owner = Some(Owner::new(kind, above, watching.stacks, recorder, checker)?);
                }
            }
            Ok(())
        };
        create(&vulkan, false)?;
        let device = vulkan.child_with(
            ContextOptions::new("objects of the device")
                .scope(Scope::Device)
                .budget(Budget::exact(u64::MAX - 1)),
        )?;
        create(&device, true)?;
        let accounts = Self {
            owners,
            checker,
            stacks: watching.stacks.cloned(),
            ending: RefCell::default(),
            recorder,
            phases: RefCell::default(),
            running: RefCell::default(),
            commands: Cell::new(0),
            timeline: RefCell::default(),
            fullest: RefCell::default(),
            suballocator,
            records,
            device,
            vulkan,
            root,
        };
        accounts.vulkan.restart_high_water();
        Ok(accounts)
    }

    /// The subtree that the driver allocates in.
    #[must_use]
    pub fn vulkan(&self) -> &Context {
        &self.vulkan
    }

    /// The whole tree, including the accounts' own memory: its sums are those of the backing.
    #[must_use]
    pub fn root(&self) -> &Context {
        &self.root
    }

    /// Commands called until now.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands.get()
    }

    /// The driver's usage for objects of `kind`: the requests with the bridge's headers.
    #[must_use]
    pub fn usage(&self, kind: ObjectKind) -> Usage {
        self.owner(kind).map(Owner::usage).unwrap_or_default()
    }

    /// The counters of the bridge for objects of `kind`; 0 for a kind that takes no callbacks.
    #[must_use]
    pub fn notes(&self, kind: ObjectKind) -> BridgeCounters {
        self.owner(kind).map(Owner::notes).unwrap_or_default()
    }

    /// The sum of [`Accounts::usage`] over all kinds.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.owners
            .iter()
            .flatten()
            .fold(Usage::default(), |sum, owner| sum.plus(&owner.usage()))
    }

    /// Writes the records as a trace of format 2.
    ///
    /// # Errors
    /// [`CallbackError`]: the output failed, or the log's memory was refused.
    pub fn write_trace(
        &self,
        driver: &str,
        out: &mut String,
    ) -> Result<Option<Written>, CallbackError> {
        self.recorder
            .as_ref()
            .map(|recorder| recorder.write(driver, out))
            .transpose()
    }

    /// Ends the run: closes the bridges and returns the results. Call it after the driver's instance has ended.
    ///
    /// # Errors
    /// No memory for the last snapshot.
    pub fn finish(self) -> Result<Accounted, AccountError> {
        self.end_phase();
        let last = Snapshot::capture(&self.vulkan, self.records.handle())?;
        let fullest = self.fullest.take();
        let contexts = self.rows(&last, fullest.as_ref().map(|fullest| &fullest.snapshot));
        let mut done = Accounted {
            contexts,
            phases: self.phases.take(),
            ..Accounted::default()
        };
        done.timeline = self.timeline.borrow().samples();
        if let Some(stacks) = &self.stacks {
            (done.call_sites, done.events) = stacks.with(|recorder| {
                let leaks = recorder.leaks(&done.phases);
                (Some((recorder.sites(), leaks)), recorder.drain_events())
            });
        }
        done.fullest_phase = fullest.map(|fullest| fullest.phase).unwrap_or_default();
        let judged = self
            .checker
            .as_ref()
            .map(|checker| findings::rows(checker, &self.records))
            .transpose()?;
        let checked = judged.is_some();
        if let Some((findings, unjudged)) = judged {
            (done.findings, done.unjudged) = (findings, unjudged);
        }
        for owner in self.owners.into_iter().flatten() {
            // The checker has reported findings with a rule as well.
            done.findings.extend(
                owner
                    .findings()
                    .filter(|row| !checked || row.rule.is_empty()),
            );
            done.leftovers.extend(owner.close(self.stacks.as_ref()));
        }
        drop(last);
        if let Some(checker) = self.checker {
            // SAFETY: the driver's instance has ended (`Accounts::new`), so that no thread calls.
            unsafe { checker.close_anyway() };
        }
        // A context with leftovers stays charged to the root; the program's own memory is freed here.
        drop((
            self.recorder,
            self.suballocator,
            self.records,
            self.device,
            self.vulkan,
            self.root,
        ));
        Ok(done)
    }

    /// The bytes of the accounts' own records in the tree.
    fn own_bytes(&self) -> u64 {
        let root = self.bridge_bytes(false) + self.vulkan.usage().total().live_bytes;
        root + self.own_bytes_of_device()
    }

    fn own_bytes_of_device(&self) -> u64 {
        self.bridge_bytes(true) + self.device.usage().total().live_bytes
    }

    /// The bytes of the bridges for objects of the device, or for all others.
    fn bridge_bytes(&self, of_device: bool) -> u64 {
        let owners = self.owners.iter().flatten();
        owners
            .filter(|owner| is_of_device(owner.kind()) == of_device)
            .map(|owner| owner.own.total().live_bytes)
            .sum()
    }

    /// Adds a sample after a command, if the timeline wants one.
    fn sample_if_wanted(&self) {
        let mut timeline = self.timeline.borrow_mut();
        if timeline.wants(self.commands.get()) {
            timeline.add(self.sample(Counts::from(&self.total()).live_bytes));
        }
    }

    fn sample(&self, live_by_scope: ByScope) -> Sample {
        Sample {
            at: self.commands.get(),
            phase: self.phases.borrow().len(),
            live_by_scope,
        }
    }

    fn rows(
        &self,
        last: &Snapshot<ContextHandle>,
        fullest: Option<&Snapshot<ContextHandle>>,
    ) -> Vec<ContextRow> {
        let row = |node: &SnapshotNode| {
            let high = node.budget.map(|budget| budget.high);
            if let Some(owner) = self
                .owners
                .iter()
                .flatten()
                .find(|owner| owner.id() == node.id)
            {
                let then = fullest.and_then(|f| f.nodes().iter().find(|then| then.id == node.id));
                let then = then
                    .map(|then| Counts::from(&owner.without_own(&then.usage)).live_bytes)
                    .unwrap_or_default();
                let peak = high.map(|high| high.saturating_sub(owner.own.total().live_bytes));
                return ContextRow::new(
                    node.name,
                    node.depth,
                    &owner.without_own(&node.usage),
                    then,
                )
                .with_peak(peak);
            }
            let peak = if node.id == self.device.id() {
                high.map(|high| high.saturating_sub(self.own_bytes_of_device()))
            } else {
                // The high-water mark begins anew with each phase.
                self.phases
                    .borrow()
                    .iter()
                    .map(|phase| phase.peak_bytes)
                    .max()
            };
            ContextRow::group(node.name, node.depth).with_peak(peak)
        };
        let mut rows: Vec<_> = last.nodes().iter().map(row).collect();
        ContextRow::sum_groups(&mut rows);
        rows
    }
}

/// Whether the kind is the device or created from it.
fn is_of_device(kind: ObjectKind) -> bool {
    std::iter::successors(Some(kind), |kind| kind.parent()).any(|kind| kind == ObjectKind::Device)
}
