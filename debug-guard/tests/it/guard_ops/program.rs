//! A program that uses guarded memory well and badly: every mistake is made on purpose, and the guard must report just
//! these.
//!
//! For each operation the model says what has to be reported then (a bad free, a stopped access), and what at the
//! block's free or the next check (bytes changed around or in it). Guards report to [`collect_report`].

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};
use debug_guard::{BackEnd, Guard, Mode, Report};
use testkit::programs::{Aim, Bytes, Ran};
use testkit::with_hook;

const PAGE: usize = 4096;
/// Blocks up to this size stay where they are, poisoned, when they are freed, where their pages can still be reached at
/// all.
const WAITS: usize = 2048;
/// Live blocks at most.
const LIVE: usize = 64;
/// Reports that one operation may make, at most.
const MAX_REPORTS: usize = 128;

type Collected = (&'static str, Option<usize>);

thread_local! {
    // Const-made, and without a list that grows: a report may come out of a signal handler.
    static REPORTS: [Cell<Collected>; MAX_REPORTS] = const { [const { Cell::new(("", None)) }; MAX_REPORTS] };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// To be called with every report of a guard. Signal-safe.
pub(crate) fn collect_report(report: &Report<'_>) {
    let (kind, block) = (report.kind.name(), report.block.map(|block| block.address));
    let count = COUNT.get();
    REPORTS.with(|reports| {
        if let Some(place) = reports.get(count) {
            place.set((kind, block));
        }
    });
    COUNT.set(count + 1);
}

fn collected_reports() -> Vec<Collected> {
    let count = COUNT.replace(0);
    assert!(count <= MAX_REPORTS, "{count} reports at once");
    REPORTS.with(|reports| reports.iter().take(count).map(Cell::get).collect())
}

/// The guards, by what happens to a misused block: headers and tails stop nothing, and all is found later; fences are
/// pages beside the block that cannot be touched, and a freed one waits, poisoned; under the strict guard it cannot be
/// touched either.
pub(crate) const MODES: [Mode; 3] = [Mode::Cookie, Mode::Fence, Mode::Strict];

/// A block, live or freed.
#[derive(Clone, Debug)]
struct GuardedBlock {
    guard: usize,
    at: NonNull<u8>,
    layout: Layout,
    scope: Scope,
    fill: u8,
    /// What its free, or a check, has to tell.
    pending: Vec<&'static str>,
}

struct GuardProgram<'p, A: HostAllocator> {
    bytes: Bytes<'p>,
    guards: &'p [Guard<A>; 3],
    live: Vec<GuardedBlock>,
    dead: Vec<GuardedBlock>,
    /// Pages that a stopped access was given to land on.
    landed: RefCell<Vec<usize>>,
    fill: u8,
    ran: Ran,
    /// The guard that is about to be called.
    aim: &'p Aim<usize>,
}

/// Runs the program in `bytes` on guards of the [`MODES`] that nobody else uses, that have just been made, and that
/// report and go on.
///
/// All blocks are freed at the end. Where a `HookedAllocator` stands behind a guard, each of its requests uses the very
/// guard that makes it.
pub(crate) fn guard_ops<A: HostAllocator>(bytes: &[u8], guards: &[Guard<A>; 3]) -> Ran {
    collected_reports();
    let aim = Aim::idle();
    let mut program = GuardProgram {
        bytes: Bytes::new(bytes),
        guards,
        live: Vec::new(),
        dead: Vec::new(),
        landed: RefCell::new(Vec::new()),
        fill: 0,
        ran: Ran::default(),
        aim: &aim,
    };
    let kept = Cell::new(None);
    with_hook(1, &|_| aim.visit(|guard, number| visit(guards, *guard, number, &kept)), || {
        while let Some(succeeded) = program.step() {
            program.ran.count(succeeded);
        }
        while let Some(block) = program.live.pop() {
            program.free(block);
        }
    });
    if let Some(block) = kept.take() {
        free_quietly(guards, &block);
    }
    for guard in 0..guards.len() {
        program.check(guard);
    }
    program.ran.reentered = aim.visits();
    program.ran
}

/// Uses a guard that is in the middle of a request: a block comes and goes, or stays until the next visit. Nothing of
/// it is a mistake.
fn visit<A: HostAllocator>(guards: &[Guard<A>; 3], guard: usize, number: u64, kept: &Cell<Option<GuardedBlock>>) {
    let layout = Layout::from_size_align(1 + number as usize * 7 % 300, 1 << (number % 7)).expect("small");
    let scope = Scope::ALL[(number % 5) as usize];
    let at = guards[guard].allocate(layout, scope).expect("a guard over a willing allocator refuses nothing");
    let block = GuardedBlock { guard, at, layout, scope, fill: 0xCD, pending: Vec::new() };
    block.verify();
    let block = GuardedBlock { fill: number as u8, ..block };
    block.write();
    let leaves = if number.is_multiple_of(2) { kept.replace(Some(block)) } else { Some(block) };
    if let Some(block) = leaves {
        free_quietly(guards, &block);
    }
}

fn free_quietly<A: HostAllocator>(guards: &[Guard<A>; 3], block: &GuardedBlock) {
    block.verify();
    // SAFETY: a live block with its layout and scope.
    unsafe { guards[block.guard].deallocate(block.at, block.layout, block.scope) };
}

impl<A: HostAllocator> GuardProgram<'_, A> {
    /// One operation: whether it did what it says; `None` when the program is over.
    fn step(&mut self) -> Option<bool> {
        let (kind, which) = (self.bytes.next()?, self.bytes.below(LIVE)?);
        Some(match kind % 24 {
            0..=6 => self.allocate(kind)?,
            7..=10 => match self.pick(which) {
                Some(index) => {
                    let block = self.live.swap_remove(index);
                    self.free(block);
                    true
                }
                None => false,
            },
            11 | 12 => self.resize(which)?,
            13 | 14 => self.beside(which, false),
            15 => self.beside(which, true),
            16 => self.late_write(which)?,
            17 => self.double_free(which),
            18 => self.interior_free(which)?,
            19 => self.foreign_free(which),
            20 | 21 => self.mismatch(kind, which)?,
            22 => self.cross_free(which),
            _ => match which.checked_rem(self.guards.len()) {
                Some(guard) => {
                    self.check(guard);
                    true
                }
                None => false,
            },
        })
    }

    /// To be called at once.
    fn host(&self, guard: usize) -> &Guard<A> {
        self.aim.replace(Some(guard));
        &self.guards[guard]
    }

    /// Where the kernel lends no pages, blocks get cookies.
    fn has_pages(&self, guard: usize) -> bool {
        MODES[guard] != Mode::Cookie && self.guards[guard].stats().back_end != BackEnd::Cookies
    }

    fn pick(&self, which: usize) -> Option<usize> {
        which.checked_rem(self.live.len())
    }

    /// What was reported is this, in any order.
    fn expect(&mut self, what: &str, mut expected: Vec<Collected>) {
        let mut heard = collected_reports();
        heard.sort_unstable();
        expected.sort_unstable();
        assert_eq!(heard, expected, "reports of {what} (left), and what was to be reported");
        self.ran.compared += 1;
    }

    fn layout(&mut self) -> Option<Layout> {
        let (size, align) = (self.bytes.size()? % (2 * PAGE + 9), self.bytes.alignment()?);
        Layout::from_size_align(size, align.min(PAGE)).ok()
    }

    fn allocate(&mut self, kind: u8) -> Option<bool> {
        let (layout, scope) = (self.layout()?, self.bytes.scope()?);
        let guard = usize::from(self.bytes.next()?).checked_rem(self.guards.len())?;
        if self.live.len() == LIVE {
            return Some(false);
        }
        let (host, zeroed) = (self.host(guard), kind.is_multiple_of(7));
        let given = if zeroed { host.allocate_zeroed(layout, scope) } else { host.allocate(layout, scope) };
        let at = given.expect("a guard over a willing allocator refuses nothing");
        assert!(at.addr().get().is_multiple_of(layout.align()), "{at:p} for {layout:?}");
        let block = GuardedBlock { guard, at, layout, scope, fill: if zeroed { 0 } else { 0xCD }, pending: Vec::new() };
        block.verify();
        self.keep(block);
        self.expect("an allocation", Vec::new());
        Some(true)
    }

    /// Fills a block, and keeps it.
    fn keep(&mut self, mut block: GuardedBlock) {
        self.fill = self.fill.wrapping_add(1);
        block.fill = self.fill;
        block.write();
        self.live.push(block);
    }

    /// Frees a block as it should be; what was done to it is told now.
    fn free(&mut self, block: GuardedBlock) {
        self.free_as(block, |layout, scope| (layout, scope), None);
    }

    fn free_as(
        &mut self,
        mut block: GuardedBlock,
        said: impl FnOnce(Layout, Scope) -> (Layout, Scope),
        mistake: Option<&'static str>,
    ) {
        block.verify();
        let start = Some(block.at.addr().get());
        let (layout, scope) = said(block.layout, block.scope);
        // SAFETY: a live block; what is said of it may be wrong, which the guard must bear.
        unsafe { self.host(block.guard).deallocate(block.at, layout, scope) };
        let pending = std::mem::take(&mut block.pending).into_iter().chain(mistake);
        self.expect("a free", pending.map(|kind| (kind, start)).collect());
        if block.layout.size() > 0 {
            self.dead.push(block);
        }
    }

    fn resize(&mut self, which: usize) -> Option<bool> {
        let new = self.layout()?;
        let Some(index) = self.pick(which).filter(|&index| self.live[index].layout.size() > 0 && new.size() > 0) else {
            return Some(false);
        };
        let mut old = self.live.swap_remove(index);
        let host = self.host(old.guard);
        // SAFETY: a live block with its layout and scope.
        let moved = unsafe { host.resize(old.at, old.layout, new, old.scope) };
        let at = moved.expect("a guard over a willing allocator refuses nothing");
        assert_ne!(at, old.at, "a stale pointer would not show");
        let start = Some(old.at.addr().get());
        let pending = std::mem::take(&mut old.pending);
        self.expect("a reallocation", pending.into_iter().map(|kind| (kind, start)).collect());
        let kept = Layout::from_size_align(old.layout.size().min(new.size()), 1).expect("smaller than both");
        GuardedBlock { at, layout: kept, ..old.clone() }.verify();
        self.keep(GuardedBlock { at, layout: new, ..old.clone() });
        self.dead.push(old);
        Some(true)
    }

    /// Writes the byte behind a block, or the one in front of it.
    fn beside(&mut self, which: usize, in_front: bool) -> bool {
        let Some(index) = self.pick(which) else {
            return false;
        };
        let (block, kind) = (&self.live[index], if in_front { "underflow" } else { "overflow" });
        let (start, size) = (block.at.addr().get(), block.layout.size());
        if size == 0 || block.pending.contains(&kind) {
            return false;
        }
        let at = if in_front { start - 1 } else { start + size };
        let edge = if in_front { start } else { at };
        let stopped = self.has_pages(block.guard) && edge.is_multiple_of(PAGE);
        if stopped && !self.lands(at) {
            return false;
        }
        if stopped {
            // SAFETY: stopped by the guard, which gives it a page.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
            self.expect("a stopped write", vec![(kind, Some(start))]);
        } else {
            // SAFETY: the guard's own byte, beside the block.
            unsafe { change(at) };
            self.live[index].pending.push(kind);
            self.expect("a write beside a block", Vec::new());
        }
        true
    }

    /// True for a page that nothing landed on before.
    fn lands(&self, at: usize) -> bool {
        let (page, mut landed) = (at / PAGE, self.landed.borrow_mut());
        let new = !landed.contains(&page);
        if new {
            landed.push(page);
        }
        new
    }

    /// Writes to a block that was freed.
    fn late_write(&mut self, which: usize) -> Option<bool> {
        let offset = self.bytes.next()?;
        let kind = "use-after-free";
        let Some(index) = which.checked_rem(self.dead.len()) else {
            return Some(false);
        };
        let block = &self.dead[index];
        let (start, size) = (block.at.addr().get(), block.layout.size());
        if size > WAITS || block.pending.contains(&kind) {
            return Some(false);
        }
        let at = start + usize::from(offset) % size;
        if MODES[block.guard] == Mode::Strict && self.has_pages(block.guard) {
            if !self.lands(at) {
                return Some(false);
            }
            // SAFETY: stopped by the guard, which gives it a page.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
            self.expect("a stopped late write", vec![(kind, Some(start))]);
            self.dead.swap_remove(index);
        } else {
            // SAFETY: it waits, poisoned, and is nobody's.
            unsafe { change(at) };
            self.dead[index].pending.push(kind);
            self.expect("a late write", Vec::new());
        }
        Some(true)
    }

    fn double_free(&mut self, which: usize) -> bool {
        let Some(index) = which.checked_rem(self.dead.len()).filter(|&index| self.dead[index].layout.size() <= WAITS)
        else {
            return false;
        };
        let block = &self.dead[index];
        let start = block.at.addr().get();
        // SAFETY: broken on purpose; the guard frees nothing.
        unsafe { self.host(block.guard).deallocate(block.at, block.layout, block.scope) };
        self.expect("a second free", vec![("double-free", Some(start))]);
        true
    }

    fn interior_free(&mut self, which: usize) -> Option<bool> {
        let offset = usize::from(self.bytes.next()?);
        let Some(index) = self.pick(which).filter(|&index| self.live[index].layout.size() > 1) else {
            return Some(false);
        };
        let block = &self.live[index];
        let inside = 1 + offset % (block.layout.size() - 1);
        let (start, at) = (block.at.addr().get(), NonNull::new(block.at.as_ptr().wrapping_add(inside))?);
        // SAFETY: broken on purpose; the guard frees nothing.
        unsafe { self.host(block.guard).deallocate(at, Layout::new::<u8>(), block.scope) };
        self.expect("a free inside of a block", vec![("interior-free", Some(start))]);
        Some(true)
    }

    fn foreign_free(&mut self, which: usize) -> bool {
        let mut strange = [0_u64; 64];
        let Some(guard) = which.checked_rem(self.guards.len()) else {
            return false;
        };
        let at = NonNull::from(&mut strange[16 + which % 32]).cast();
        // SAFETY: broken on purpose; the guard frees nothing.
        unsafe { self.host(guard).deallocate(at, Layout::new::<[u64; 4]>(), Scope::Object) };
        self.expect("a free of what is no block", vec![("foreign-free", None)]);
        true
    }

    /// Frees a block with another size, alignment or scope than it has: told, and the block goes.
    fn mismatch(&mut self, kind: u8, which: usize) -> Option<bool> {
        let Some(index) = self.pick(which).filter(|&index| self.live[index].layout.size() > 0) else {
            return Some(false);
        };
        let block = self.live.swap_remove(index);
        let layout = |size, align| Layout::from_size_align(size, align).expect("a little more than there was");
        match (kind / 24).wrapping_add(which as u8) % 3 {
            0 => self.free_as(block, |was, scope| (layout(was.size() + 1, was.align()), scope), Some("size-mismatch")),
            1 => self.free_as(
                block,
                |was, scope| (layout(was.size(), was.align() * 2), scope),
                Some("alignment-mismatch"),
            ),
            _ => {
                let other = |scope: Scope| Scope::ALL[(scope.index() + 1) % Scope::COUNT];
                self.free_as(block, |was, scope| (was, other(scope)), Some("scope-mismatch"));
            }
        }
        Some(true)
    }

    /// Frees a block through another guard than its own.
    fn cross_free(&mut self, which: usize) -> bool {
        let Some(index) = self.pick(which).filter(|&index| self.live[index].layout.size() > 0) else {
            return false;
        };
        let block = &self.live[index];
        let other = (block.guard + 1 + which % 2) % self.guards.len();
        if other == block.guard {
            return false;
        }
        let start = block.at.addr().get();
        // SAFETY: broken on purpose; the guard frees nothing.
        unsafe { self.host(other).deallocate(block.at, block.layout, block.scope) };
        self.expect("a free by another guard", vec![("wrong-guard", Some(start))]);
        true
    }

    /// Everything that was changed is told, once.
    fn check(&mut self, guard: usize) {
        let mut expected = Vec::new();
        for block in self.live.iter_mut().chain(&mut self.dead).filter(|block| block.guard == guard) {
            expected.extend(block.pending.drain(..).map(|kind| (kind, Some(block.at.addr().get()))));
        }
        let made = self.host(guard).check_all();
        assert_eq!(made, expected.len(), "reports that a check says it made");
        self.expect("a check", expected);
        self.live.iter().filter(|block| block.guard == guard).for_each(GuardedBlock::verify);
    }
}

impl GuardedBlock {
    fn write(&self) {
        // SAFETY: live, and so large.
        unsafe { self.at.as_ptr().write_bytes(self.fill, self.layout.size()) };
    }

    fn verify(&self) {
        // SAFETY: live, and written all over, by us or the guard.
        let content = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.layout.size()) };
        assert!(content.iter().all(|byte| *byte == self.fill), "{self:?} is not as it was written");
    }
}

/// Makes a byte another one.
///
/// # Safety
/// It can be read and written.
unsafe fn change(at: usize) {
    let at = std::ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: this function's contract.
    let was = unsafe { at.read_volatile() };
    // SAFETY: this function's contract.
    unsafe { at.write_volatile(was ^ 0x11) };
}
