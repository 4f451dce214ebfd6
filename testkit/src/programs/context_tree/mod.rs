//! A tree of contexts under random use, with a model beside it that only adds and subtracts.

mod model;
mod things;

use std::thread;

use alloc_core::{Budget, Context, ContextOptions, Handle, HostAllocator, HostError, Scope, TryVec};
use model::Tree;
use things::Block;

use crate::programs::{Bytes, Ran};
use crate::witness::Witness;

/// Most contexts, blocks and vectors at a time.
const MOST_CONTEXTS: usize = 24;
const MOST_BLOCKS: usize = 64;
const MOST_VECS: usize = 12;

/// Runs the program in `bytes` over a root of its own.
///
/// Operations: children (with and without scope, label, budget, allocator of their own), allocate, grow, shrink, free, all on any
/// context, through the owner or a handle, here or on a thread that ends; handles cloned and dropped; vectors pushed, shrunk and
/// dropped; owners closed and dropped in any order; the root closed too early. Checks after each operation that it succeeded
/// exactly when it must; every few operations and at the end that the account of every context, the sums of the tree and the
/// witness under the root equal the model, scope by scope.
///
/// # Panics
/// When the contexts and the model disagree.
pub fn context_tree(bytes: &[u8]) -> Ran {
    let witnesses = [Witness::system(), Witness::system()];
    let mut bytes = Bytes::new(bytes);
    let mut ran = Ran::default();
    let first = bytes.next().unwrap_or(0);
    let options = match first % 4 {
        0 => ContextOptions::new("root"),
        1 => ContextOptions::new("root").scope(Scope::Device),
        2 => ContextOptions::new("root").budget(Budget::limit(1 << 20)),
        _ => ContextOptions::new("root").budget(Budget::exact(40_000)),
    };
    let limit = [None, None, Some(1 << 20), Some(40_000)][usize::from(first % 4)];
    // SAFETY: the witness outlives the root, which `finish` closes.
    let root = unsafe { Context::root(&witnesses[0], options) }.expect("the system has memory for a root");
    let mut program = Program { tree: Tree::new(root, limit, &witnesses), blocks: Vec::new(), vecs: Vec::new() };
    while let Some(succeeded) = program.step(&mut bytes) {
        ran.count(succeeded);
        if ran.operations.is_multiple_of(4) {
            program.tree.compare();
            ran.compared += 1;
        }
    }
    program.finish();
    ran.compared += 1;
    ran
}

struct Program<'a> {
    tree: Tree<'a>,
    blocks: Vec<Block>,
    vecs: Vec<(usize, TryVec<u64, Handle>)>,
}

impl Program<'_> {
    /// One operation; `None` at the end of the bytes, else whether it did what it says.
    fn step(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let operation = bytes.next()?;
        Some(match operation % 32 {
            0..=2 => self.child(bytes)?,
            3..=9 => self.allocate(bytes, operation % 2 == 0, false)?,
            10 => self.allocate(bytes, false, true)?,
            11..=14 => self.resize(bytes)?,
            15..=18 => self.free(bytes, false)?,
            19 => self.free(bytes, true)?,
            20 => {
                let Some(at) = self.tree.pick(bytes)? else { return Some(false) };
                self.tree.add_handle(at)
            }
            21 => {
                let Some(at) = self.tree.pick(bytes)? else { return Some(false) };
                self.tree.drop_handle(at)
            }
            22 => self.new_vec(bytes)?,
            23..=26 => self.push(bytes)?,
            27 => self.shrink_vec(bytes)?,
            28 => self.drop_vec(bytes)?,
            29 => self.end_context(bytes)?,
            30 => {
                self.tree.close_root_too_early();
                true
            }
            _ => {
                alloc_core::settle_thread();
                true
            }
        })
    }

    fn child(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some(at) = self.tree.pick(bytes)? else { return Some(false) };
        let kind = bytes.next()?;
        let mut options = ContextOptions::new("child");
        let scope = if kind & 1 != 0 { Some(bytes.scope()?) } else { None };
        if let Some(scope) = scope {
            options = options.scope(scope);
        }
        let label = if kind & 2 != 0 { "called at run time" } else { "" };
        let limit = match kind >> 2 & 3 {
            2 => Some(u64::from(bytes.next()?) << 6),
            3 => Some(u64::from(bytes.next()?) << 10),
            _ => None,
        };
        if let Some(limit) = limit {
            options = options.budget(if kind & 16 != 0 { Budget::exact(limit) } else { Budget::limit(limit) });
        }
        let own_allocator = kind & 0xE0 == 0xE0;
        if self.tree.contexts() >= MOST_CONTEXTS {
            return Some(false);
        }
        Some(self.tree.child(at, options.label(label), label.len() as u64, scope, limit, own_allocator))
    }

    fn allocate(&mut self, bytes: &mut Bytes<'_>, zeroed: bool, elsewhere: bool) -> Option<bool> {
        let Some(at) = self.tree.pick(bytes)? else { return Some(false) };
        let (layout, scope) = (bytes.layout()?, bytes.scope()?);
        if self.blocks.len() >= MOST_BLOCKS {
            self.give_back(0, false);
        }
        let owner = self.tree.owner(at);
        let take = |owner: &Handle| if zeroed { owner.allocate_zeroed(layout, scope) } else { owner.allocate(layout, scope) };
        let taken = if elsewhere {
            thread::scope(|threads| threads.spawn(|| take(&owner).map(things::Sent).ok()).join().expect("no panic"))
                .map(|sent| sent.0)
        } else {
            take(&owner).ok()
        };
        let size = layout.size() as u64;
        let should = size == 0 || self.tree.fits(at, size);
        assert_eq!(taken.is_some(), should, "{size} bytes of {scope} from context {at}: {:?}", owner.refusal(layout, scope));
        let Some(start) = taken else {
            self.tree.check_refusal(at, owner.refusal(layout, scope));
            drop(owner);
            self.tree.dropped_owner(at);
            return Some(false);
        };
        if size > 0 {
            self.tree.took(at, scope, size, 1);
        }
        self.blocks.push(Block::new(at, owner, start, layout, scope, zeroed));
        Some(true)
    }

    fn resize(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let (which, layout) = (bytes.below(MOST_BLOCKS)?, bytes.layout()?);
        let Some(which) = which.checked_rem(self.blocks.len()) else { return Some(false) };
        let block = &mut self.blocks[which];
        let (at, scope, old, new) = (block.context, block.scope, block.layout.size() as u64, layout.size() as u64);
        let should = new <= old || self.tree.fits(at, new - old);
        let done = block.resize(layout);
        assert_eq!(done, should, "{old} to {new} bytes of {scope} from context {at}");
        if done {
            self.tree.resized(at, scope, old, new);
        }
        Some(done)
    }

    fn free(&mut self, bytes: &mut Bytes<'_>, elsewhere: bool) -> Option<bool> {
        let which = bytes.below(MOST_BLOCKS)?;
        let Some(which) = which.checked_rem(self.blocks.len()) else { return Some(false) };
        self.give_back(which, elsewhere);
        Some(true)
    }

    fn give_back(&mut self, which: usize, elsewhere: bool) {
        let block = self.blocks.remove(which);
        let (at, scope, size) = (block.context, block.scope, block.layout.size() as u64);
        if elsewhere {
            thread::scope(|threads| threads.spawn(move || block.free()).join()).expect("freeing does not panic");
        } else {
            block.free();
        }
        if size > 0 {
            self.tree.gave(at, scope, size, 1);
        }
        self.tree.dropped_owner(at);
    }

    fn new_vec(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some(at) = self.tree.pick(bytes)? else { return Some(false) };
        if self.vecs.len() >= MOST_VECS {
            return Some(false);
        }
        let owner = self.tree.owner(at);
        self.vecs.push((at, TryVec::new_in(owner)));
        Some(true)
    }

    fn push(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let (which, count) = (bytes.below(MOST_VECS)?, bytes.next()? % 8);
        let Some(which) = which.checked_rem(self.vecs.len()) else { return Some(false) };
        let (at, vec) = &mut self.vecs[which];
        let (at, scope) = (*at, self.tree.scope(*at));
        for value in 0..=count {
            let old = vec.capacity();
            let pushed = vec.try_push(u64::from(value));
            self.tree.resized(at, scope, 8 * old as u64, 8 * vec.capacity() as u64);
            if pushed.is_err() {
                assert!(self.tree.may_refuse(at), "a push was refused by an open context without a budget");
                return Some(false);
            }
        }
        Some(true)
    }

    fn shrink_vec(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let which = bytes.below(MOST_VECS)?;
        let Some(which) = which.checked_rem(self.vecs.len()) else { return Some(false) };
        let (at, vec) = &mut self.vecs[which];
        let old = vec.capacity();
        vec.truncate(old / 3);
        vec.try_shrink_to_fit().expect("shrinking needs nothing from a context");
        self.tree.resized(*at, self.tree.scope(*at), 8 * old as u64, 8 * vec.capacity() as u64);
        Some(true)
    }

    fn drop_vec(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let which = bytes.below(MOST_VECS)?;
        let Some(which) = which.checked_rem(self.vecs.len()) else { return Some(false) };
        let (at, vec) = self.vecs.remove(which);
        let old = vec.capacity() as u64;
        drop(vec);
        self.tree.resized(at, self.tree.scope(at), 8 * old, 0);
        self.tree.dropped_owner(at);
        Some(true)
    }

    /// Closes or drops the owner of a context other than the root; what it still holds stays valid and charged.
    fn end_context(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let Some(at) = self.tree.pick(bytes)? else { return Some(false) };
        let how = bytes.next()?;
        Some(at != 0 && self.tree.end(at, how))
    }

    /// Everything goes, the root last.
    fn finish(mut self) {
        while !self.blocks.is_empty() {
            self.give_back(self.blocks.len() / 2, false);
        }
        for (at, vec) in std::mem::take(&mut self.vecs) {
            let old = vec.capacity() as u64;
            drop(vec);
            self.tree.resized(at, self.tree.scope(at), 8 * old, 0);
            self.tree.dropped_owner(at);
        }
        self.tree.compare();
        self.tree.finish();
    }
}

/// Why a context may refuse.
fn is_refusal(error: HostError, closed: bool) -> bool {
    match error {
        HostError::Closed { .. } => closed,
        HostError::OverBudget { short_by, .. } => !closed && short_by > 0,
        _ => false,
    }
}
