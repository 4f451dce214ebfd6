use std::alloc::{Layout, System};
use std::fs::File;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloc_core::{
    AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, HostError, Notice, PointerStatus, Scope,
    with_requester,
};
use debug_guard::{
    BackEnd, BackEnds, FailingAllocator, Fault, Guard, GuardError, GuardOptions, GuardStats, OnReport, Stacks,
};
use vk_callbacks::command::{current_command, in_callback};

use super::collected_reports::{CollectedReports, MAX_GUARDS};
use super::refused::RefusalFile;
use super::{GuardChoice, Guarding, mappings};
use crate::command_mark::command_mark;
use crate::report::{FailRun, GuardRun, Refusal};

/// The most refusals listed one by one.
const MAX_REFUSALS: usize = 8;

/// Why the layers could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardingError {
    /// The guard cannot be created.
    #[error("--guard: {0}")]
    Guard(GuardError),
    /// There is no place for reports.
    #[error(
        "--guard keeps its reports in a temporary file, which cannot be made ({0}): let TMPDIR name a folder that can be written to"
    )]
    NoFile(std::io::Error),
    /// Each has a place for its reports, and there are no more.
    #[error("--guard: a process has {MAX_GUARDS} guarded runs at once: end one before the next begins")]
    TooManyGuards,
}

/// The guard and the planned failures that a [`Guarding`] names, over the system's allocator. Blocks
/// allocated through a bridge are the driver's, all others the accounts' own.
pub struct Layers {
    faults: FailingAllocator<Host>,
    guarded: Option<GuardedSource>,
    fail: Option<Fault>,
    callback_blocks: AtomicU64,
    own_blocks: AtomicU64,
    refusals: Mutex<Vec<Refusal>>,
    /// The contexts and scopes of requests, until one is refused: the names that a plan can use.
    requested: Mutex<Vec<(&'static str, Scope)>>,
    line: RefusalFile,
}

type Host = &'static (dyn HostAllocator + Sync);

impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layers").field("fail", &self.fail).finish_non_exhaustive()
    }
}

struct GuardedSource {
    guard: &'static Guard<FromGlobalAlloc<System>>,
    choice: GuardChoice,
    told: CollectedReports,
    mappings_before: Option<u64>,
}

impl Layers {
    /// The layers that `guarding` names. Refusals, or the first of them alone, are written to `file` as they happen, if
    /// there is one. The guard stays for the rest of the process, as its blocks may.
    ///
    /// # Errors
    /// [`GuardingError`].
    pub fn new(guarding: &Guarding, file: Option<File>, first_only: bool) -> Result<Self, GuardingError> {
        static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
        let (host, guarded): (Host, _) = match guarding.guard {
            None => (&SYSTEM, None),
            Some(choice) => {
                let mappings_before = mappings::count();
                let told = CollectedReports::new().map_err(GuardingError::NoFile)?;
                let told = told.ok_or(GuardingError::TooManyGuards)?;
                let guard = Guard::new(SYSTEM, options(choice, guarding.back_end, told.function()));
                let guard = guard.map_err(|refused| GuardingError::Guard(refused.error))?;
                let guard: &'static _ = Box::leak(Box::new(guard));
                (guard, Some(GuardedSource { guard, choice, told, mappings_before }))
            }
        };
        Ok(Self {
            faults: FailingAllocator::new(host, guarding.fail.unwrap_or_default()),
            guarded,
            fail: guarding.fail,
            callback_blocks: AtomicU64::new(0),
            own_blocks: AtomicU64::new(0),
            refusals: Mutex::default(),
            requested: Mutex::default(),
            line: RefusalFile::to(file, first_only),
        })
    }

    /// The guard's results until now, after a check of all blocks; `None` without a guard. Stacks are addresses without
    /// names of functions.
    ///
    /// Call it after the driver's instance has ended.
    #[must_use]
    pub fn guard_run(&self) -> Option<GuardRun> {
        let GuardedSource { guard, choice, told, mappings_before } = self.guarded.as_ref()?;
        guard.check_all();
        let GuardStats {
            back_end,
            guarded,
            cookies,
            off,
            unguarded,
            bytes,
            reserved,
            stacks,
            whole_stacks,
            reports,
            ..
        } = guard.stats();
        let own_blocks = self.own_blocks.load(Relaxed);
        // In a mode that gives all blocks pages, those of the accounts have some, too.
        let own_guarded = if cookies == 0 && off == 0 { own_blocks } else { 0 };
        Some(GuardRun {
            mode: choice.to_string(),
            back_end: back_end.name().to_owned(),
            not_offered: not_offered(back_end),
            callback_blocks: self.callback_blocks.load(Relaxed),
            guarded: guarded.saturating_sub(own_guarded),
            cookies,
            passed_on: off,
            unguarded,
            own_blocks,
            bytes,
            stacks,
            whole_stacks,
            reserved_bytes: reserved,
            mappings_before: *mappings_before,
            mappings_after: mappings::count(),
            reports,
            told: told.read(),
        })
    }

    /// The planned refusals until now; `None` without a plan. `ended` is the error with which the workload ended
    /// early.
    #[must_use]
    pub fn fail_run(&self, ended: Option<String>) -> Option<FailRun> {
        let refusals = lock(&self.refusals);
        Some(FailRun {
            plan: self.fail?.to_string(),
            requests: self.faults.requests(),
            refused: self.faults.refused(),
            first: refusals.clone(),
            asked: if self.faults.refused() == 0 { self.requesters() } else { Vec::new() },
            ended,
        })
    }

    fn requesters(&self) -> Vec<String> {
        let asked = lock(&self.requested);
        let mut names: Vec<_> = asked.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let scopes = |name| {
            let of_name = Scope::ALL.into_iter().filter(|scope| asked.contains(&(name, *scope)));
            of_name.map(Scope::name).collect::<Vec<_>>().join(", ")
        };
        names.into_iter().map(|name| format!("{name} ({})", scopes(name))).collect()
    }

    /// Whether the plan admits a request to the application's own callbacks, for this kind of object. A refusal is
    /// listed; live bytes of such requests are not counted.
    #[must_use]
    pub fn admits(&self, kind: &'static str, bytes: usize, scope: Scope) -> bool {
        if self.fail.is_some() && self.faults.refused() == 0 {
            self.note_requester(kind, scope);
        }
        let is_admitted = self.faults.admits(bytes, scope);
        if !is_admitted {
            self.note_refusal(kind, bytes, scope);
        }
        is_admitted
    }

    fn note_requester(&self, name: &'static str, scope: Scope) {
        let mut asked = lock(&self.requested);
        if !asked.contains(&(name, scope)) {
            asked.push((name, scope));
        }
    }

    /// Passes a request of the driver through the planned failures, any other past them.
    fn refuse_or_pass(
        &self,
        layout: Layout,
        scope: Scope,
        request: impl FnOnce(&dyn HostAllocator) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        if !in_callback() {
            let block = request(self.faults.inner())?;
            self.own_blocks.fetch_add(1, Relaxed);
            return Ok(block);
        }
        if self.fail.is_some() && self.faults.refused() == 0 {
            self.note_requester(requester_name(), scope);
        }
        let answer = request(&self.faults);
        match answer {
            Ok(_) => drop(self.callback_blocks.fetch_add(1, Relaxed)),
            Err(AllocError) => self.note_refusal(requester_name(), layout.size(), scope),
        }
        answer
    }

    #[cold]
    fn note_refusal(&self, owner: &str, bytes: usize, scope: Scope) {
        let (command, serial) = current_command().map_or(("", 0), |command| (command.name, command.serial));
        let refusal = Refusal {
            command: command.to_owned(),
            serial,
            owner: owner.to_owned(),
            scope: scope.name().to_owned(),
            bytes: bytes as u64,
        };
        let mut refusals = lock(&self.refusals);
        let is_first = refusals.len() < MAX_REFUSALS;
        if is_first {
            refusals.push(refusal.clone());
        }
        drop(refusals);
        self.line.refused(&refusal, is_first);
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

fn requester_name() -> &'static str {
    with_requester(|origin| origin.map_or("", |origin| origin.name))
}

fn options(choice: GuardChoice, back_end: Option<BackEnd>, collect: fn(&debug_guard::Report<'_>)) -> GuardOptions {
    let options =
        choice.options().name("steward").command(command_mark).stacks(Stacks::Full).on_report(OnReport::Call(collect));
    back_end.map_or(options, |back_end| options.back_end(back_end))
}

fn not_offered(used: BackEnd) -> Vec<String> {
    let offered = BackEnds::probe();
    let better = BackEnd::ALL.iter().copied().take_while(|back_end| *back_end != used);
    better.filter_map(|back_end| Some(format!("{back_end}: {}", offered.refusal(back_end)?))).collect()
}

// SAFETY: every block is the source's, and is freed the way it was allocated, since only a bridge's blocks are
// allocated and freed in callbacks.
unsafe impl HostAllocator for Layers {
    fn traits(&self) -> AllocatorTraits {
        self.faults.traits().with_requester()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.refuse_or_pass(layout, scope, |source| source.allocate(layout, scope))
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.refuse_or_pass(layout, scope, |source| source.allocate_zeroed(layout, scope))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        let source: &dyn HostAllocator = if in_callback() { &self.faults } else { self.faults.inner() };
        // SAFETY: a block of this source with this layout; a callback frees what a callback allocated.
        unsafe { source.deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: a block of this source with this layout; a callback resizes what a callback allocated.
        self.refuse_or_pass(new, scope, |source| unsafe { source.resize(block, old, new, scope) })
    }

    fn notify(&self, notice: Notice) {
        self.faults.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.faults.refusal(layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.faults.validate_pointer(pointer, front)
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use alloc_core::{HostAllocator as _, Scope};

    use super::Layers;
    use crate::guard_run::{GuardChoice, Guarding};

    #[test]
    fn lc10_each_guard_of_a_process_has_its_own_reports() {
        let guarding = Guarding { guard: Some(GuardChoice::Cookie), ..Guarding::default() };
        let layers = || Layers::new(&guarding, None, true).expect("a guard");
        let all = [layers(), layers(), layers()];
        let layout = Layout::from_size_align(24, 8).expect("a layout");
        for (mistakes, layers) in all.iter().enumerate() {
            for _ in 0..mistakes {
                let block = layers.allocate(layout, Scope::Object).expect("memory");
                // SAFETY: one byte behind the block, in its cookie: what the guard is there to report.
                unsafe { block.as_ptr().wrapping_add(24).write_volatile(1) };
                // SAFETY: the live block.
                unsafe { layers.deallocate(block, layout, Scope::Object) };
            }
        }
        let told = |layers: &Layers| {
            let run = layers.guard_run().expect("a guard");
            assert_eq!(run.reports as usize, run.told.len());
            run.told.len()
        };
        assert_eq!(all.each_ref().map(told), [0, 1, 2]);
        drop(all);
        let all: Vec<_> = (0..8).map(|_| layers()).collect();
        assert!(Layers::new(&guarding, None, true).is_err());
        drop(all);
        layers();
    }
}
