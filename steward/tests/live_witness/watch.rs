//! Hooks between workload and accounts that look at every number when nothing moves.

use std::cell::{Cell, RefCell};
use std::fmt;

use alloc_core::{Scope, Usage};
use ash::vk;
use testkit::{RecordingAllocator, Rng, ScopeTally};
use vk_accounts::accounting::Accounts;
use vk_accounts::{CreatedObject, Hooks, ObjectKind};

use crate::around::{Around, Held, Record};

/// Looks after one command in three, and at each phase's end.
pub(super) struct Watch<'a> {
    accounts: &'a Accounts<'static>,
    witness: &'a RecordingAllocator,
    around: Around,
    rng: RefCell<Rng>,
    watched: RefCell<Watched>,
    phase: Cell<Option<&'static str>>,
    commands: Cell<u64>,
    /// As the phase began: what was seen, and the witness's peak.
    before: RefCell<(Record, u64)>,
}

/// What a phase was, as far as the witness in front of the callbacks can tell.
pub(super) struct PhaseSeen {
    pub(super) name: &'static str,
    pub(super) commands: u64,
    pub(super) before: Record,
    pub(super) after: Record,
}

#[derive(Default)]
pub(super) struct Watched {
    pub(super) phases: Vec<PhaseSeen>,
    pub(super) last: Record,
    pub(super) points: u32,
    pub(super) live_points: u32,
    /// Phases in which the witness under the root saw its highest yet.
    pub(super) peaks: u32,
}

/// All numbers of one moment.
struct Reading {
    total: ScopeTally,
    scopes: Vec<ScopeTally>,
    record: Record,
    tree: Usage,
    kinds: Vec<Usage>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        accounts: &'a Accounts<'static>,
        witness: &'a RecordingAllocator,
        seed: u32,
    ) -> Self {
        Self {
            accounts,
            witness,
            // SAFETY: the accounts outlive the run.
            around: unsafe { Around::new(accounts) },
            rng: RefCell::new(Rng::new(seed.into())),
            watched: RefCell::default(),
            phase: Cell::new(None),
            commands: Cell::new(0),
            before: RefCell::default(),
        }
    }

    /// After the workload: the last phase's end.
    pub(super) fn end(self) -> Watched {
        let held = self.around.hold();
        self.end_phase(&held);
        let mut watched = self.watched.take();
        assert!(watched.peaks > 0, "the witness saw no peak");
        watched.last = held.record();
        watched
    }

    /// Compares every number. A driver's own threads (lavapipe's submit thread, SwiftShader's workers) may be about to free
    /// something: while `held` is, their calls wait in front of both the accounts and the witnesses.
    fn quiet_point(&self, held: &Held<'_>) {
        let reading = Reading {
            total: self.witness.total(),
            scopes: Scope::ALL
                .into_iter()
                .map(|scope| self.witness.scope(scope))
                .collect(),
            record: held.record(),
            tree: self.accounts.root().subtree_usage(),
            kinds: ObjectKind::ALL
                .into_iter()
                .map(|kind| self.accounts.usage(kind))
                .collect(),
        };
        reading
            .agrees()
            .unwrap_or_else(|difference| panic!("in phase {:?}: {difference}", self.phase.get()));
        let mut watched = self.watched.borrow_mut();
        watched.points += 1;
        watched.live_points += u32::from(reading.record.sum(|_, _| true).live_blocks > 0);
    }

    /// With the accounts' callbacks in the place of those around them.
    fn as_the_accounts_know_it<'m>(&'m self, object: &CreatedObject<'m>) -> CreatedObject<'m> {
        let own = self
            .accounts
            .callbacks(object.kind)
            .filter(|_| !object.allocator.is_null());
        CreatedObject {
            allocator: own.map_or(std::ptr::null(), std::ptr::from_ref),
            ..*object
        }
    }

    fn end_phase(&self, held: &Held<'_>) {
        let Some(name) = self.phase.take() else {
            return;
        };
        self.quiet_point(held);
        let (before, peak_before) = self.before.take();
        // The root's peak: what is not Vulkan's does not move within a phase.
        let root = self.accounts.root().subtree_usage().total().live_bytes;
        let vulkan = self.accounts.vulkan().subtree_usage().total().live_bytes;
        let high = self.accounts.vulkan().budget().expect("it has one").high;
        let (own, seen) = (high + root - vulkan, self.witness.total().peak_bytes);
        let mut watched = self.watched.borrow_mut();
        if seen > peak_before {
            assert_eq!(
                own, seen,
                "phase {name}: the peak, and what the witness saw"
            );
            watched.peaks += 1;
        } else {
            assert!(
                own <= seen,
                "phase {name}: peak {own}, the witness saw {seen} at most"
            );
        }
        watched.phases.push(PhaseSeen {
            name,
            commands: self.commands.take(),
            before,
            after: held.record(),
        });
    }
}

// SAFETY: the structs lie in `around`, where nothing moves them, and lead to those of the accounts, whose contract is the same
// and which outlive this.
unsafe impl Hooks for Watch<'_> {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.around.callbacks(kind)
    }

    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    ) {
        self.accounts.command(command, kind, call);
        self.commands.set(self.commands.get() + 1);
        if self.rng.borrow_mut().below(3) == 0 {
            self.quiet_point(&self.around.hold());
        }
    }

    fn created(&self, object: &CreatedObject<'_>) {
        self.accounts.created(&self.as_the_accounts_know_it(object));
    }

    fn ends(&self, object: &CreatedObject<'_>) {
        self.accounts.ends(&self.as_the_accounts_know_it(object));
    }

    fn phase(&self, name: &'static str) {
        let mut held = self.around.hold();
        self.end_phase(&held);
        self.accounts.phase(name);
        held.begin_phase();
        self.quiet_point(&held);
        self.before
            .replace((held.record(), self.witness.total().peak_bytes));
        self.phase.set(Some(name));
    }
}

impl Reading {
    /// Both witnesses and the accounts say the same, scope by scope and kind by kind.
    fn agrees(&self) -> Result<(), String> {
        let mut sum = ScopeTally::default();
        for (scope, seen) in Scope::ALL.into_iter().zip(&self.scopes) {
            let own = self.tree.scope(scope);
            let own = [
                own.live_bytes,
                own.live_blocks,
                own.total_bytes,
                own.total_blocks,
            ];
            let seen_all = [
                seen.live_bytes,
                seen.live_blocks,
                seen.total_bytes,
                seen.allocations,
            ];
            same(&format!("under the root, scope {scope}"), own, seen_all)?;
            sum.live_bytes += seen.live_bytes;
            sum.live_blocks += seen.live_blocks;
            sum.allocations += seen.allocations;
        }
        let total = self.tree.total();
        same(
            "the sums",
            [total.live_bytes, total.live_blocks],
            [self.total.live_bytes, self.total.live_blocks],
        )?;
        same(
            "the scopes",
            [sum.live_bytes, sum.allocations],
            [self.total.live_bytes, self.total.allocations],
        )?;
        for (kind, usage) in ObjectKind::ALL.into_iter().zip(&self.kinds) {
            for scope in Scope::ALL {
                let seen = self
                    .record
                    .sum(|k, s| k == kind.index() && s == scope.as_raw() as i32);
                let own = usage.scope(scope);
                let freed = own.total_blocks - own.live_blocks;
                let own = [
                    own.live_bytes,
                    own.live_blocks,
                    own.total_bytes,
                    own.total_blocks,
                    freed,
                ];
                let seen = [
                    seen.live_charged,
                    seen.live_blocks,
                    seen.charged,
                    seen.blocks,
                    seen.frees,
                ];
                same(&format!("{kind}, scope {scope}"), own, seen)?;
            }
        }
        Ok(())
    }
}

fn same<const N: usize>(what: &str, own: [u64; N], seen: [u64; N]) -> Result<(), String> {
    if own == seen {
        Ok(())
    } else {
        Err(format!("{what}: accounts {own:?}, witness {seen:?}"))
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            points,
            live_points,
            peaks,
            last,
            ..
        } = self;
        write!(
            f,
            "{points} quiet points, {live_points} with live blocks, {peaks} peaks of the root compared; "
        )?;
        let sum = last.sum(|_, _| true);
        write!(
            f,
            "{} blocks, {} resizes, {} calls on the driver's own threads",
            sum.blocks, sum.resizes, last.foreign_calls
        )
    }
}
