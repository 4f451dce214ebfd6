//! Contexts and arenas that own values, under random use, with a model beside it that keeps lists.

mod arenas;
mod contexts;
mod declared;
mod ending;
mod model;
mod moves;
mod side;
mod things;
mod values;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use alloc_core::{Budget, Context, ContextOptions, HostError, Misuse, Scope};
use model::{OwnedModel, OwnedNode};
use side::Side;
use things::DropLog;

use testkit::RecordingAllocator;
use testkit::programs::{Bytes, Ran};
use testkit::{HookedAllocator, with_hook};

/// Most contexts, values of a context, arenas and declarations at a time.
const MAX_CONTEXTS: usize = 16;
const MAX_VALUES: usize = 60;
const MAX_ARENAS: usize = 6;
const MAX_GUARDS: usize = 8;
/// A value's block and a segment of its context's table.
const MAX_VALUE_BYTES: u64 = 256 + 64 * 64;

/// Runs the program in `bytes` over a root of its own.
///
/// Operations: children (with scope, budget); values of three types given to contexts, taken, destroyed, read, written,
/// held while others want them, held beyond their context's end; stolen, adopted, contexts reparented; ids that are
/// void; contexts ended in any order, also by values that own them; destructors that own, destroy siblings, allocate,
/// declare and hold handles; arenas that own values, with scopes, resets and moves; foreign memory, with guards and by
/// notices. Checks after each operation that it succeeded exactly when it must (where a budget has a say: that it says
/// so), and that each destructor ran at its time and in its order; every few operations and at the end all accounts and
/// the witness.
///
/// # Panics
/// When the contexts and the model disagree.
pub(crate) fn owned_values(bytes: &[u8]) -> Ran {
    program(bytes, false)
}

/// As [`owned_values`], and each request of the backing uses the context that the operation is about: it allocates,
/// creates a child, gives it a value and destroys that, reads its accounts.
///
/// # Panics
/// As [`owned_values`].
pub(crate) fn owned_values_reentered(bytes: &[u8]) -> Ran {
    program(bytes, true)
}

fn program(bytes: &[u8], reenters: bool) -> Ran {
    let witness = RecordingAllocator::system();
    let backing = HookedAllocator::new(witness.clone());
    let mut bytes = Bytes::new(bytes);
    let mut ran = Ran::default();
    let limit = (bytes.next().unwrap_or(0) % 4 == 3).then_some(100_000);
    let options =
        ContextOptions::new("root").scope(Scope::Object).budget(limit.map_or(Budget::limit(u64::MAX), Budget::exact));
    // SAFETY: the backing outlives the root, which `finish` ends.
    let root = unsafe { Context::root(&backing, options) }.expect("the system has memory for a root");
    let side = Rc::new(Side::new());
    let mut model = OwnedModel {
        record: root.usage().total().live_bytes,
        nodes: BTreeMap::from([(0, OwnedNode::new(root, None, Scope::Object, limit))]),
        made: 1,
        numbers: 0,
        deeds: BTreeMap::new(),
        arenas: Vec::new(),
        guards: Vec::new(),
        log: DropLog::default(),
        events: VecDeque::new(),
        grown: Vec::new(),
        holding: None,
        void: Vec::new(),
        witness,
        side: reenters.then(|| Rc::clone(&side)),
    };
    with_hook(1, &|_| side.visit(), || {
        while let Some(succeeded) = model.step(&mut bytes) {
            model.explained();
            ran.count(succeeded);
            if ran.operations.is_multiple_of(4) {
                model.compare();
                ran.compared += 1;
            }
        }
    });
    model.finish();
    ran.compared += 1;
    ran.reentered = side.visits();
    ran
}

impl OwnedModel {
    /// One operation; `None` at the end of the bytes, else whether it did what it says.
    fn step(&mut self, bytes: &mut Bytes<'_>) -> Option<bool> {
        let operation = bytes.next()?;
        let at = self.pick(bytes)?;
        self.aim(at);
        Some(match operation % 32 {
            0..=2 => self.child(at, bytes)?,
            3..=7 | 18 | 19 => self.own(at, bytes)?,
            8 => self.remove(at, bytes)?,
            9 => self.destroy(at, bytes)?,
            10 => self.get(at, bytes)?,
            11 => self.hold(at, bytes)?,
            12 | 13 => {
                let from = self.pick_other(operation, bytes)?;
                self.steal(at, from, bytes)?
            }
            14 => {
                let from = self.pick_other(operation, bytes)?;
                self.adopt(at, from)
            }
            15 => {
                let to = self.pick_other(operation, bytes)?;
                self.reparent(at, to)
            }
            16 => self.end(at, bytes.next()?),
            17 => self.end_while_held(at, bytes)?,
            20 => self.add_handle(at),
            21 => self.drop_handle(at),
            22 => self.use_void(at, bytes)?,
            23 => self.declare(at, bytes)?,
            24 => self.change(bytes)?,
            25 => self.notice(at, bytes)?,
            26 => self.arena(at),
            27 | 28 => self.arena_owns(bytes)?,
            29 => self.arena_scope(bytes)?,
            30 => {
                let to = self.pick_other(operation, bytes)?;
                self.arena_ends(to, bytes)?
            }
            _ => self.clear(at),
        })
    }

    /// A context that the program can use, mostly an open one.
    fn pick(&self, bytes: &mut Bytes<'_>) -> Option<usize> {
        let which = usize::from(bytes.next()?);
        let open = |node: &OwnedNode| node.can_be_used() && (which >= 224 || !node.closed);
        let count = self.nodes.values().filter(|node| open(node)).count();
        self.nodes.iter().filter(|(_, node)| open(node)).nth(which.checked_rem(count)?).map(|(at, _)| *at)
    }

    /// The second context of an operation: every other time the backing uses that one instead of the first.
    fn pick_other(&mut self, operation: u8, bytes: &mut Bytes<'_>) -> Option<usize> {
        let at = self.pick(bytes)?;
        if operation & 64 != 0 {
            self.aim(at);
        }
        Some(at)
    }

    /// Everything goes, the root last.
    fn finish(mut self) {
        self.aim_at_nothing();
        // Then no lease is out, and what is charged is what is live.
        alloc_core::fold_thread();
        self.compare();
        for (at, node) in self.nodes.iter().filter(|(_, node)| node.can_be_used()) {
            let charged = node.handle().budget().map(|budget| budget.charged);
            assert!(charged.is_none_or(|charged| charged == self.live(*at)), "context {at}: {charged:?}");
        }
        while let Some((at, arena, things)) = self.arenas.pop() {
            drop(arena);
            self.listen();
            self.node(at).held -= 1;
            things.into_iter().rev().for_each(|thing| self.thing_goes(thing));
            self.explained();
        }
        for (at, guard) in std::mem::take(&mut self.guards) {
            drop(guard);
            self.node(at).held -= 1;
        }
        for at in self.nodes.keys().copied().rev().filter(|at| *at != 0).collect::<Vec<_>>() {
            if self.nodes.contains_key(&at) {
                self.end(at, 1);
                self.explained();
            }
        }
        for node in self.nodes.values_mut().filter(|node| node.closed || node.owner.is_some()) {
            node.handles.clear();
        }
        self.bury();
        self.compare();
        // What is owned by values ends with the root.
        let root = self.node(0).owner.take().expect("the root is closed last");
        for node in self.nodes.values_mut() {
            node.handles.clear();
        }
        let left = root.close();
        self.listen();
        self.ends(0);
        self.explained();
        assert_eq!(self.nodes.len(), 1, "contexts that nothing refers to");
        assert_eq!((left.bytes, left.blocks, left.contexts, left.handles), (0, 0, 0, 0), "{left}");
        assert_eq!(left.foreign_bytes, self.outstanding(0).foreign_bytes);
        self.witness.assert_empty("after the root was closed");
        assert_eq!(self.witness.zero_sized(), 0, "size 0 is never forwarded");
        assert!(self.deeds.is_empty(), "things that never went: {:?}", self.deeds);
    }
}

/// What an id that is void must be answered with.
fn is_void(error: HostError, closed: bool) -> bool {
    match error {
        HostError::Misuse(Misuse::NotOwned | Misuse::OtherContext) => true,
        HostError::Closed { .. } => closed,
        _ => false,
    }
}
