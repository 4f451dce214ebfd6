//! A tree of contexts under random use, with a model beside it that only adds and subtracts.

mod model;
mod operation;
mod side;
mod things;

use std::alloc::Layout;
use std::thread;

use alloc_core::{Context, ContextHandle, HostAllocator, HostError, Scope, TryVec};
use model::Tree;
use operation::{BudgetSpec, ContextSpec, LABEL, TreeOperation};
use side::Side;
use things::TreeBlock;

use testkit::RecordingAllocator;
use testkit::programs::{Bytes, Ran};
use testkit::{HookedAllocator, with_hook};

/// Most contexts, blocks and vectors at a time.
const MAX_CONTEXTS: usize = 24;
const MAX_BLOCKS: usize = 64;
const MAX_VECS: usize = 12;

/// Runs the program in `bytes` over a root of its own.
///
/// Operations: children (with and without scope, label, budget, allocator of their own), allocate, grow, shrink, free,
/// all on any context, through the owner or a handle, here or on a thread that ends; handles cloned and dropped;
/// vectors pushed, shrunk and dropped; owners closed and dropped in any order; the root closed too early. Checks after
/// each operation that it succeeded exactly when it must, and that a refusal says truly why; every few operations and
/// at the end that the account of every context, the sums of the tree and the witness under the root equal the model,
/// scope by scope.
///
/// # Panics
/// When the contexts and the model disagree.
pub(crate) fn context_tree(bytes: &[u8]) -> Ran {
    decoded(bytes, false)
}

/// As [`context_tree`], and each request of the backing uses the context that the operation is about: blocks, children
/// and accounts.
///
/// # Panics
/// As [`context_tree`].
pub(crate) fn context_tree_reentered(bytes: &[u8]) -> Ran {
    decoded(bytes, true)
}

fn decoded(bytes: &[u8], reenters: bool) -> Ran {
    let mut bytes = Bytes::new(bytes);
    let limit = |bytes, exact| Some(BudgetSpec { bytes, exact });
    let root = match bytes.next().unwrap_or(0) % 4 {
        0 => ContextSpec::default(),
        1 => ContextSpec { scope: Some(Scope::Device), ..ContextSpec::default() },
        2 => ContextSpec { budget: limit(1 << 20, false), ..ContextSpec::default() },
        _ => ContextSpec { budget: limit(40_000, true), ..ContextSpec::default() },
    };
    run(root, reenters, |program| program.decode(&mut bytes))
}

/// Runs the program in `text`, as [`context_tree`] does: a line for the root, one for each operation, as in
/// `testkit/seeds/named/context_tree`.
///
/// # Panics
/// As [`context_tree`]; where a line cannot be read.
pub(crate) fn context_tree_text(text: &str) -> Ran {
    let (root, operations) = operation::parse(text);
    let mut operations = operations.into_iter();
    run(root, false, |_| operations.next().map(Some))
}

/// `next` gives the next operation; `Some(None)` stands for one that has nothing to be done to.
fn run(
    root: ContextSpec,
    reenters: bool,
    mut next: impl FnMut(&TreeProgram<'_>) -> Option<Option<TreeOperation>>,
) -> Ran {
    let witnesses = [(); 2].map(|()| HookedAllocator::new(RecordingAllocator::system()));
    let mut ran = Ran::default();
    // SAFETY: the witness outlives the root, which `finish` closes.
    let context =
        unsafe { Context::root(&witnesses[0], root.options("root")) }.expect("the system has memory for a root");
    let side = Side::new();
    let tree = Tree::new(context, root.budget, &witnesses, reenters.then_some(&side));
    let mut program = TreeProgram { tree, blocks: Vec::new(), vecs: Vec::new() };
    with_hook(1, &|_| side.visit(), || {
        while let Some(operation) = next(&program) {
            let succeeded = operation.is_some_and(|operation| program.perform(operation));
            program.tree.settle_side();
            ran.count(succeeded);
            if ran.operations.is_multiple_of(4) {
                program.tree.compare();
                ran.compared += 1;
            }
        }
        program.tree.settle_side();
    });
    program.finish();
    ran.compared += 1;
    ran.reentered = side.visits();
    ran
}

struct TreeProgram<'a> {
    tree: Tree<'a>,
    blocks: Vec<TreeBlock>,
    vecs: Vec<(usize, TryVec<u64, ContextHandle>)>,
}

impl TreeProgram<'_> {
    /// The next operation; `None` at the end of the bytes.
    fn decode(&self, bytes: &mut Bytes<'_>) -> Option<Option<TreeOperation>> {
        let operation = bytes.next()?;
        let place = |which: usize, len: usize| which.checked_rem(len);
        Some(match operation % 32 {
            0..=2 => match self.tree.pick(bytes)? {
                Some(of) => Some(self.decode_child(of, bytes)?),
                None => None,
            },
            number @ 3..=10 => match self.tree.pick(bytes)? {
                Some(from) => {
                    let (layout, scope) = (bytes.layout()?, bytes.scope()?);
                    let elsewhere = number == 10;
                    Some(TreeOperation::Allocate {
                        from,
                        layout,
                        scope,
                        zeroed: !elsewhere && number % 2 == 0,
                        elsewhere,
                    })
                }
                None => None,
            },
            11..=14 => {
                let (which, layout) = (bytes.below(MAX_BLOCKS)?, bytes.layout()?);
                place(which, self.blocks.len()).map(|block| TreeOperation::Resize { block, layout })
            }
            number @ 15..=19 => place(bytes.below(MAX_BLOCKS)?, self.blocks.len())
                .map(|block| TreeOperation::Free { block, elsewhere: number == 19 }),
            20 => self.tree.pick(bytes)?.map(|to| TreeOperation::AddHandle { to }),
            21 => self.tree.pick(bytes)?.map(|to| TreeOperation::DropHandle { to }),
            22 => self.tree.pick(bytes)?.map(|of| TreeOperation::NewVec { of }),
            23..=26 => {
                let (which, count) = (bytes.below(MAX_VECS)?, bytes.next()? % 8);
                place(which, self.vecs.len()).map(|vec| TreeOperation::Push { vec, count })
            }
            27 => place(bytes.below(MAX_VECS)?, self.vecs.len()).map(|vec| TreeOperation::EmptyVec { vec }),
            28 => place(bytes.below(MAX_VECS)?, self.vecs.len()).map(|vec| TreeOperation::DropVec { vec }),
            29 => match self.tree.pick(bytes)? {
                Some(context) => Some(TreeOperation::End { context, how: bytes.next()? }),
                None => None,
            },
            30 => Some(TreeOperation::CloseRootTooEarly),
            _ => Some(TreeOperation::Settle),
        })
    }

    fn decode_child(&self, of: usize, bytes: &mut Bytes<'_>) -> Option<TreeOperation> {
        let kind = bytes.next()?;
        let scope = if kind & 1 != 0 { Some(bytes.scope()?) } else { None };
        let limit = match kind >> 2 & 3 {
            2 => Some(u64::from(bytes.next()?) << 6),
            3 => Some(u64::from(bytes.next()?) << 10),
            _ => None,
        };
        let budget = limit.map(|bytes| BudgetSpec { bytes, exact: kind & 16 != 0 });
        let label = if kind & 2 != 0 { LABEL } else { "" };
        Some(TreeOperation::Child {
            of,
            spec: ContextSpec { scope, label, budget, own_allocator: kind & 0xE0 == 0xE0 },
        })
    }

    /// One operation; whether it did what it says.
    fn perform(&mut self, operation: TreeOperation) -> bool {
        match operation {
            TreeOperation::Child { of, spec } => self.tree.contexts() < MAX_CONTEXTS && self.tree.child(of, &spec),
            TreeOperation::Allocate { from, layout, scope, zeroed, elsewhere } => {
                if self.blocks.len() >= MAX_BLOCKS {
                    self.free(0, false);
                }
                self.allocate(from, layout, scope, zeroed, elsewhere)
            }
            TreeOperation::Resize { block, layout } => self.resize(block, layout),
            TreeOperation::Free { block, elsewhere } => {
                self.free(block, elsewhere);
                true
            }
            TreeOperation::AddHandle { to } => self.tree.add_handle(to),
            TreeOperation::DropHandle { to } => self.tree.drop_handle(to),
            TreeOperation::NewVec { of } => {
                let room = self.vecs.len() < MAX_VECS;
                if room {
                    self.vecs.push((of, TryVec::new_in(self.tree.owner(of))));
                }
                room
            }
            TreeOperation::Push { vec, count } => self.push(vec, count),
            TreeOperation::EmptyVec { vec } => self.empty_vec(vec),
            TreeOperation::DropVec { vec } => self.drop_vec(vec),
            // Closes or drops the owner of a context other than the root; what it still holds stays valid and charged.
            TreeOperation::End { context, how } => context != 0 && self.tree.end(context, how),
            TreeOperation::CloseRootTooEarly => {
                self.tree.close_root_too_early();
                true
            }
            TreeOperation::Settle => {
                alloc_core::fold_thread();
                true
            }
        }
    }

    fn allocate(&mut self, at: usize, layout: Layout, scope: Scope, zeroed: bool, elsewhere: bool) -> bool {
        let owner = self.tree.owner(at);
        self.tree.aim(at, &owner);
        // The reason is the refused thread's to ask for.
        let take = |owner: &ContextHandle| {
            let taken = if zeroed { owner.allocate_zeroed(layout, scope) } else { owner.allocate(layout, scope) };
            taken.map(things::SentHandle).map_err(|_| owner.refusal(layout, scope))
        };
        let taken = if elsewhere {
            thread::scope(|threads| threads.spawn(|| take(&owner)).join().expect("no panic"))
        } else {
            take(&owner)
        };
        let size = layout.size() as u64;
        let fits = size == 0 || self.tree.fits(at, size);
        match taken {
            Ok(things::SentHandle(start)) => {
                assert!(fits, "{size} bytes of {scope} from context {at}, although they do not fit");
                if size > 0 {
                    self.tree.took(at, scope, size, 1);
                }
                self.blocks.push(TreeBlock::new(at, owner, start, layout, scope, zeroed));
                true
            }
            Err(error) => {
                if elsewhere && fits {
                    self.tree.check_early_refusal(at, size, error);
                } else {
                    assert!(!fits, "{size} bytes of {scope} from context {at}: {error:?}");
                    self.tree.check_reason(at, size, elsewhere, error);
                }
                drop(owner);
                self.tree.dropped_owner(at);
                false
            }
        }
    }

    fn resize(&mut self, which: usize, layout: Layout) -> bool {
        let block = &mut self.blocks[which];
        self.tree.aim(block.context, block.owner());
        let (at, scope, old, new) = (block.context, block.scope, block.layout.size() as u64, layout.size() as u64);
        let should = new <= old || self.tree.fits(at, new - old);
        let done = block.resize(layout);
        assert_eq!(done, should, "{old} to {new} bytes of {scope} from context {at}");
        if done {
            self.tree.resized(at, scope, old, new);
        }
        done
    }

    fn free(&mut self, which: usize, elsewhere: bool) {
        let block = self.blocks.remove(which);
        self.tree.aim(block.context, block.owner());
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

    fn push(&mut self, which: usize, count: u8) -> bool {
        let (at, vec) = &mut self.vecs[which];
        self.tree.aim(*at, vec.allocator());
        let (at, scope) = (*at, self.tree.scope(*at));
        for value in 0..=count {
            let old = vec.capacity();
            let pushed = vec.try_push(u64::from(value));
            self.tree.resized(at, scope, 8 * old as u64, 8 * vec.capacity() as u64);
            if pushed.is_err() {
                assert!(self.tree.may_refuse(at), "a push was refused by an open context without a budget");
                return false;
            }
        }
        true
    }

    fn empty_vec(&mut self, which: usize) -> bool {
        let (at, vec) = &mut self.vecs[which];
        self.tree.aim(*at, vec.allocator());
        let old = vec.capacity();
        *vec = TryVec::new_in(vec.allocator().clone());
        self.tree.resized(*at, self.tree.scope(*at), 8 * old as u64, 0);
        true
    }

    fn drop_vec(&mut self, which: usize) -> bool {
        let (at, vec) = self.vecs.remove(which);
        self.tree.aim(at, vec.allocator());
        let old = vec.capacity() as u64;
        drop(vec);
        self.tree.resized(at, self.tree.scope(at), 8 * old, 0);
        self.tree.dropped_owner(at);
        true
    }

    /// Everything goes, the root last.
    fn finish(mut self) {
        self.tree.aim_at_nothing();
        while !self.blocks.is_empty() {
            self.free(self.blocks.len() / 2, false);
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
