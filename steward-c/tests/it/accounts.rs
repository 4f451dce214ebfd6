//! One random program through the C functions and through Rust's, each in a process of its own, so that contexts have
//! the same numbers: what each call answers, why it was refused, every account and the JSON are equal, byte for byte.

use std::alloc::{Layout, System};
use std::ffi::{CString, c_char, c_void};
use std::fmt::Write;
use std::ptr::{NonNull, null_mut};

use alloc_core::{
    Budget, Context, ContextHandle, ContextOptions, FromGlobalAlloc, HostAllocator, HostError, Outstanding, Scope,
    ScopeUsage,
};
use steward_c::account::{
    StewardBudgetInfo, StewardScopeUsage, StewardUsageInfo, steward_budget, steward_set_limit, steward_snapshot_json,
    steward_subtree_usage, steward_usage,
};
use steward_c::context::{
    StewardOptions, StewardOutstanding, steward_alloc, steward_child, steward_close, steward_free, steward_realloc,
    steward_release, steward_retain, steward_root_malloc, steward_zalloc,
};
use steward_c::edge::{StewardContext, StewardHandle};
use steward_c::refusal::{StewardRefusal, fields, steward_last_refusal};
use testkit::{Child, Rng};

type Address = Option<NonNull<u8>>;
/// Limit, charged, high.
type BudgetNumbers = Option<[u64; 3]>;

/// What is asked of a child context: scope, kind of budget, limit.
#[derive(Clone, Copy)]
struct Asked {
    scope: i32,
    budget: i32,
    limit: u64,
}

/// A block as it was asked for.
#[derive(Clone, Copy)]
struct Wanted {
    size: usize,
    align: usize,
    scope: i32,
}

/// The functions of either language. Contexts and handles are numbered by the program.
trait Interface {
    fn root() -> Self;
    /// `Err`: why.
    fn child(&mut self, of: usize, name: &str, asked: Asked) -> Result<(), StewardRefusal>;
    fn allocate(&mut self, of: usize, wanted: Wanted, zeroed: bool) -> Result<Address, StewardRefusal>;
    fn resize(&mut self, of: usize, block: Address, old: Wanted, size: usize) -> Result<Address, StewardRefusal>;
    fn free(&mut self, of: usize, block: Address, wanted: Wanted);
    fn set_limit(&mut self, of: usize, limit: u64) -> Result<(), StewardRefusal>;
    fn retain(&mut self, of: usize);
    fn release(&mut self, handle: usize);
    /// What is left, where that keeps it; otherwise the context is gone.
    fn close(&mut self, which: usize) -> Option<[u64; 5]>;
    fn contexts(&self) -> usize;
    fn handles(&self) -> usize;
    fn usage(&self, of: usize, with_all_below: bool) -> (u64, [[u64; 5]; 6]);
    fn budget(&self, of: usize) -> BudgetNumbers;
    fn json(&self) -> String;
}

struct C {
    contexts: Vec<*mut StewardContext>,
    handles: Vec<*mut StewardHandle>,
}

struct Rust {
    contexts: Vec<Context>,
    handles: Vec<ContextHandle>,
}

fn last_refusal() -> StewardRefusal {
    let mut refusal = StewardRefusal { size: size_of::<StewardRefusal>(), ..StewardRefusal::default() };
    // SAFETY: a place of this type.
    unsafe { steward_last_refusal(&raw mut refusal) };
    refusal
}

fn result_of(result: i32) -> Result<(), StewardRefusal> {
    if result == 0 { Ok(()) } else { Err(last_refusal()) }
}

fn address_of(block: *mut c_void) -> Result<Address, StewardRefusal> {
    NonNull::new(block.cast()).map(Some).ok_or_else(last_refusal)
}

unsafe extern "C" fn collect(user: *mut c_void, text: *const c_char, length: usize) {
    // SAFETY: `json` passes a vector.
    let all = unsafe { &mut *user.cast::<Vec<u8>>() };
    // SAFETY: a text of this length.
    all.extend_from_slice(unsafe { std::slice::from_raw_parts(text.cast(), length) });
}

#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the program below names live contexts, handles and blocks alone"
)]
impl Interface for C {
    fn root() -> Self {
        let mut root = null_mut();
        assert_eq!(unsafe { steward_root_malloc(c"root".as_ptr(), &raw mut root) }, 0);
        Self { contexts: vec![root], handles: Vec::new() }
    }

    fn child(&mut self, of: usize, name: &str, asked: Asked) -> Result<(), StewardRefusal> {
        let name = CString::new(name).expect("no zero");
        let options = StewardOptions {
            scope: asked.scope,
            budget: asked.budget,
            limit: asked.limit,
            ..StewardOptions::default()
        };
        let mut child = null_mut();
        result_of(unsafe { steward_child(self.contexts[of], name.as_ptr(), &raw const options, &raw mut child) })?;
        self.contexts.push(child);
        Ok(())
    }

    fn allocate(&mut self, of: usize, wanted: Wanted, zeroed: bool) -> Result<Address, StewardRefusal> {
        let function = if zeroed { steward_zalloc } else { steward_alloc };
        address_of(unsafe { function(self.contexts[of], wanted.size, wanted.align, wanted.scope) })
    }

    fn resize(&mut self, of: usize, block: Address, old: Wanted, size: usize) -> Result<Address, StewardRefusal> {
        let block = block.map_or(null_mut(), |block| block.as_ptr().cast());
        address_of(unsafe { steward_realloc(self.contexts[of], block, old.size, size, old.align, old.scope) })
    }

    fn free(&mut self, of: usize, block: Address, wanted: Wanted) {
        let block = block.map_or(null_mut(), |block| block.as_ptr().cast());
        unsafe { steward_free(self.contexts[of], block, wanted.size, wanted.align, wanted.scope) };
    }

    fn set_limit(&mut self, of: usize, limit: u64) -> Result<(), StewardRefusal> {
        result_of(unsafe { steward_set_limit(self.contexts[of], limit) })
    }

    fn retain(&mut self, of: usize) {
        self.handles.push(unsafe { steward_retain(self.contexts[of]) });
    }

    fn release(&mut self, handle: usize) {
        unsafe { steward_release(self.handles.swap_remove(handle)) };
    }

    fn close(&mut self, which: usize) -> Option<[u64; 5]> {
        let mut left = StewardOutstanding { size: size_of::<StewardOutstanding>(), ..StewardOutstanding::default() };
        let result = unsafe { steward_close(self.contexts[which], &raw mut left) };
        if result == 0 {
            self.contexts.swap_remove(which);
            return None;
        }
        assert_eq!(result, 1, "VK_NOT_READY");
        Some([left.bytes, left.blocks, left.foreign_bytes, left.contexts, left.handles])
    }

    fn contexts(&self) -> usize {
        self.contexts.len()
    }

    fn handles(&self) -> usize {
        self.handles.len()
    }

    fn usage(&self, of: usize, with_all_below: bool) -> (u64, [[u64; 5]; 6]) {
        let mut info = StewardUsageInfo { size: size_of::<StewardUsageInfo>(), ..StewardUsageInfo::default() };
        let function = if with_all_below { steward_subtree_usage } else { steward_usage };
        unsafe { function(self.contexts[of], &raw mut info) };
        let row = |usage: StewardScopeUsage| {
            [usage.live_bytes, usage.live_blocks, usage.total_bytes, usage.total_blocks, usage.peak_bytes]
        };
        let [command, object, cache, device, instance] = info.scopes.map(row);
        (info.id, [command, object, cache, device, instance, row(info.total)])
    }

    fn budget(&self, of: usize) -> BudgetNumbers {
        let mut info = StewardBudgetInfo { size: size_of::<StewardBudgetInfo>(), ..StewardBudgetInfo::default() };
        let result = unsafe { steward_budget(self.contexts[of], &raw mut info) };
        (result == 0).then_some([info.limit, info.charged, info.high])
    }

    fn json(&self) -> String {
        let mut text: Vec<u8> = Vec::new();
        let user = (&raw mut text).cast();
        assert_eq!(unsafe { steward_snapshot_json(self.contexts[0], Some(collect), user) }, 0);
        String::from_utf8(text).expect("UTF-8")
    }
}

fn why(error: HostError) -> StewardRefusal {
    fields(Some(error))
}

fn layout(wanted: Wanted) -> Layout {
    Layout::from_size_align(wanted.size, wanted.align).expect("a layout")
}

fn scope(context: &Context, scope: i32) -> Scope {
    u32::try_from(scope).ok().and_then(Scope::from_raw).unwrap_or(context.scope())
}

#[expect(clippy::undocumented_unsafe_blocks, reason = "the program below names live blocks alone")]
impl Interface for Rust {
    fn root() -> Self {
        let system: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
        let root = Context::root_owned(system, ContextOptions::new("c").label("root"));
        Self { contexts: vec![root.expect("a root")], handles: Vec::new() }
    }

    fn child(&mut self, of: usize, name: &str, asked: Asked) -> Result<(), StewardRefusal> {
        let mut options = ContextOptions::new("c").label(name);
        if let Some(scope) = u32::try_from(asked.scope).ok().and_then(Scope::from_raw) {
            options = options.scope(scope);
        }
        options = match asked.budget {
            1 => options.budget(Budget::limit(asked.limit)),
            2 => options.budget(Budget::exact(asked.limit)),
            3 => options.budget(Budget::soft(asked.limit)),
            _ => options,
        };
        let child = self.contexts[of].child_with(options).map_err(why)?;
        self.contexts.push(child);
        Ok(())
    }

    fn allocate(&mut self, of: usize, wanted: Wanted, zeroed: bool) -> Result<Address, StewardRefusal> {
        let context = &self.contexts[of];
        let (layout, scope) = (layout(wanted), scope(context, wanted.scope));
        let block = if zeroed {
            HostAllocator::allocate_zeroed(context, layout, scope)
        } else {
            HostAllocator::allocate(context, layout, scope)
        };
        block.map(Some).map_err(|_| why(HostAllocator::refusal(context, layout, scope)))
    }

    fn resize(&mut self, of: usize, block: Address, old: Wanted, size: usize) -> Result<Address, StewardRefusal> {
        let (context, new) = (&self.contexts[of], Wanted { size, ..old });
        let Some(block) = block else {
            return self.allocate(of, new, false);
        };
        let (from, to, scope) = (layout(old), layout(new), scope(context, old.scope));
        unsafe { HostAllocator::resize(context, block, from, to, scope) }
            .map(Some)
            .map_err(|_| why(HostAllocator::refusal(context, to, scope)))
    }

    fn free(&mut self, of: usize, block: Address, wanted: Wanted) {
        let context = &self.contexts[of];
        if let Some(block) = block {
            unsafe { context.free(block, layout(wanted), scope(context, wanted.scope)) };
        }
    }

    fn set_limit(&mut self, of: usize, limit: u64) -> Result<(), StewardRefusal> {
        self.contexts[of].set_limit(limit).map_err(why)
    }

    fn retain(&mut self, of: usize) {
        self.handles.push(self.contexts[of].handle());
    }

    fn release(&mut self, handle: usize) {
        drop(self.handles.swap_remove(handle));
    }

    fn close(&mut self, which: usize) -> Option<[u64; 5]> {
        let last = self.contexts.len() - 1;
        match self.contexts.swap_remove(which).try_close() {
            Ok(()) => None,
            Err(rejected) => {
                let Outstanding { bytes, blocks, foreign_bytes, contexts, handles, .. } = rejected.error.outstanding();
                self.contexts.push(rejected.value);
                self.contexts.swap(which, last);
                Some([bytes, blocks, foreign_bytes, contexts, handles])
            }
        }
    }

    fn contexts(&self) -> usize {
        self.contexts.len()
    }

    fn handles(&self) -> usize {
        self.handles.len()
    }

    fn usage(&self, of: usize, with_all_below: bool) -> (u64, [[u64; 5]; 6]) {
        let context = &self.contexts[of];
        let usage = if with_all_below { context.subtree_usage() } else { context.usage() };
        let row = |usage: ScopeUsage| {
            [usage.live_bytes, usage.live_blocks, usage.total_bytes, usage.total_blocks, usage.peak_bytes]
        };
        let [command, object, cache, device, instance] = Scope::ALL.map(|scope| row(usage.scope(scope)));
        (context.id().get(), [command, object, cache, device, instance, row(usage.total())])
    }

    fn budget(&self, of: usize) -> BudgetNumbers {
        let budget = self.contexts[of].budget()?;
        Some([budget.limit, budget.charged, budget.high])
    }

    fn json(&self) -> String {
        let snapshot = self.contexts[0].snapshot().expect("memory");
        let mut text = String::new();
        snapshot.write_json(&mut text).expect("written");
        text
    }
}

struct Block {
    context: u64,
    address: Address,
    wanted: Wanted,
}

/// Runs the program and writes down all that it saw. A context that has blocks or handles may be closed too early,
/// never for good.
fn program<S: Interface>() -> String {
    let mut side = S::root();
    let mut blocks: Vec<Block> = Vec::new();
    let (mut rng, mut seen) = (Rng::new(16), String::new());
    let mut refused = 0;
    for step in 0..4000 {
        let of = rng.below(side.contexts() as u64) as usize;
        let id = side.usage(of, false).0;
        let wanted =
            Wanted { size: rng.below(3000) as usize, align: 1 << rng.below(7), scope: rng.below(6) as i32 - 1 };
        let own: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].context == id).collect();
        let chosen = own.get(rng.below(own.len().max(1) as u64) as usize).copied();
        let answer = match (rng.below(16), chosen) {
            (0 | 1, _) if side.contexts() < 12 => {
                let asked = Asked { scope: wanted.scope, budget: rng.below(4) as i32, limit: rng.below(40_000) };
                side.child(of, &format!("child {step}"), asked)
            }
            (2, _) => side.set_limit(of, rng.below(60_000)),
            (3, _) if side.handles() < 4 => {
                side.retain(of);
                Ok(())
            }
            (4, _) if side.handles() > 0 => {
                side.release(rng.below(side.handles() as u64) as usize);
                Ok(())
            }
            (5, None) if of != 0 && side.handles() == 0 => {
                let left = side.close(of);
                writeln!(seen, "{step}: close {left:?}").expect("text");
                continue;
            }
            (6..=8, Some(at)) => {
                let Block { address, wanted, .. } = blocks.swap_remove(at);
                side.free(of, address, wanted);
                Ok(())
            }
            (9..=10, Some(at)) => {
                let Block { address, wanted: old, .. } = blocks[at];
                side.resize(of, address, old, wanted.size).map(|address| {
                    blocks[at].address = address;
                    blocks[at].wanted.size = wanted.size;
                })
            }
            (number, _) => side.allocate(of, wanted, number % 2 == 0).map(|address| {
                blocks.push(Block { context: id, address, wanted });
            }),
        };
        refused += u32::from(answer.is_err());
        writeln!(seen, "{step}: {answer:?} {:?} {:?}", side.usage(of, false), side.budget(of)).expect("text");
        if step % 100 == 0 {
            for of in 0..side.contexts() {
                writeln!(seen, "  {:?}", side.usage(of, true)).expect("text");
            }
        }
    }
    writeln!(seen, "{}", side.json()).expect("text");
    writeln!(seen, "{refused} refused, {} contexts, {} blocks", side.contexts(), blocks.len()).expect("text");
    seen
}

#[test]
fn ca14_ca15_ca16_a_program_through_c_sees_what_it_sees_through_rust() {
    const NAME: &str = "ca14_ca15_ca16_a_program_through_c_sees_what_it_sees_through_rust";
    const LANGUAGE: &str = "STEWARD_C_LANGUAGE";
    if Child::is_child(NAME) {
        let seen = if std::env::var_os(LANGUAGE).is_some_and(|language| language == "c") {
            program::<C>()
        } else {
            program::<Rust>()
        };
        println!("begin\n{seen}end");
        return;
    }
    let [c, rust] = ["c", "rust"].map(|language| {
        let finished = Child::this_test(NAME).env(LANGUAGE, language).run();
        let out = finished.stdout.split_once("begin\n").expect("it began").1;
        let out = out.split_once("end").map_or(out, |(seen, _)| seen);
        out.to_owned()
    });
    for (of_c, of_rust) in c.lines().zip(rust.lines()) {
        assert_eq!(of_c, of_rust);
    }
    assert_eq!(c.len(), rust.len());
    let last = c.lines().last().expect("a line");
    let refused: u32 = last.split(' ').next().and_then(|count| count.parse().ok()).expect("a count");
    assert!(refused > 100 && c.lines().count() > 4000, "{last}");
    assert!(c.contains("\"child "), "the JSON names contexts");
}
