//! The model: who owns what, in which order it goes, and what every account must say, all counted anew each time.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use alloc_core::{Arena, Context, ContextHandle, Foreign, ForeignKind, HostError, Outstanding, Owned, Scope};

use super::side::Side;
use super::things::{DropLog, Event, Thing};
use testkit::RecordingAllocator;

/// A value without a destructor, of another type than [`Thing`].
pub(super) type Plain = [u64; 5];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Id {
    Thing(Owned<Thing>),
    Plain(Owned<Plain>),
    /// No size, no block.
    Nothing(Owned<()>),
}

/// A value that a context owns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnedValue {
    pub(super) number: u32,
    pub(super) id: Id,
    /// False after it was adopted: its id is void, and nobody knows the new one.
    pub(super) named: bool,
}

impl OwnedValue {
    pub(super) fn new(number: u32, id: Id) -> Self {
        Self { number, id, named: true }
    }

    fn bytes(&self) -> u64 {
        (match self.id {
            Id::Thing(_) => size_of::<Thing>(),
            Id::Plain(_) => size_of::<Plain>(),
            Id::Nothing(_) => 0,
        }) as u64
    }
}

/// What a thing does when it is dropped, and to which context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Deed {
    Holds(usize),
    Owns(usize, u32),
    Destroys(usize, Owned<Thing>),
    Allocates(usize),
    Declares(usize),
    Ends(usize),
}

pub(super) struct OwnedNode {
    pub(super) owner: Option<Context>,
    /// The thing that has the owner.
    pub(super) owner_in: Option<u32>,
    pub(super) handles: Vec<ContextHandle>,
    /// Handles in things, arenas and guards.
    pub(super) held: u64,
    pub(super) parent: Option<usize>,
    /// Oldest first.
    pub(super) children: Vec<usize>,
    pub(super) scope: Scope,
    /// Where its record is counted, in its parent.
    pub(super) home: Scope,
    pub(super) limit: Option<u64>,
    /// A budget was above it at some time. It keeps paying for one, and so do those that come below it.
    pub(super) paid: bool,
    pub(super) closed: bool,
    /// Oldest first.
    pub(super) values: Vec<OwnedValue>,
    /// Bytes and blocks of the table of owned values, as learned.
    pub(super) table: (u64, u64),
    /// Declared by notices.
    pub(super) plain: [u64; ForeignKind::COUNT],
    /// Declared in contexts that were below it and are gone.
    pub(super) lost: [u64; ForeignKind::COUNT],
}

pub(super) struct OwnedModel {
    pub(super) nodes: BTreeMap<usize, OwnedNode>,
    pub(super) made: usize,
    pub(super) numbers: u32,
    pub(super) deeds: BTreeMap<u32, Deed>,
    pub(super) arenas: Vec<(usize, Arena<ContextHandle>, Vec<u32>)>,
    pub(super) guards: Vec<(usize, Foreign)>,
    /// Ids whose values are gone.
    pub(super) void: Vec<Id>,
    pub(super) log: DropLog,
    pub(super) events: VecDeque<Event>,
    /// Contexts whose tables destructors may have made larger.
    pub(super) grown: Vec<usize>,
    /// A value that somebody holds: it stays when its context ends.
    pub(super) holding: Option<u32>,
    pub(super) record: u64,
    pub(super) witness: RecordingAllocator,
    /// Set where the backing uses the contexts during operations.
    pub(super) side: Option<Rc<Side>>,
}

impl OwnedNode {
    pub(super) fn new(owner: Context, parent: Option<usize>, home: Scope, limit: Option<u64>) -> Self {
        Self {
            scope: owner.scope(),
            owner: Some(owner),
            owner_in: None,
            handles: Vec::new(),
            held: 0,
            parent,
            children: Vec::new(),
            home,
            limit,
            paid: limit.is_some(),
            closed: false,
            values: Vec::new(),
            table: (0, 0),
            plain: [0; ForeignKind::COUNT],
            lost: [0; ForeignKind::COUNT],
        }
    }

    pub(super) fn can_be_used(&self) -> bool {
        self.owner.is_some() || !self.handles.is_empty()
    }

    pub(super) fn handle(&self) -> ContextHandle {
        let handle = self.owner.as_ref().map(Context::handle).or_else(|| self.handles.first().cloned());
        handle.expect("chosen for having an owner or a handle")
    }

    pub(super) fn is_referred_to(&self) -> bool {
        self.can_be_used() || self.owner_in.is_some() || self.held > 0 || !self.children.is_empty()
    }
}

impl OwnedModel {
    pub(super) fn node(&mut self, at: usize) -> &mut OwnedNode {
        self.nodes.get_mut(&at).unwrap_or_else(|| panic!("the model lost context {at}"))
    }

    pub(super) fn subtree(&self, top: usize) -> Vec<usize> {
        let mut found = vec![top];
        let mut next = 0;
        while let Some(at) = found.get(next) {
            found.extend(&self.nodes[at].children);
            next += 1;
        }
        found
    }

    pub(super) fn is_below(&self, at: usize, top: usize) -> bool {
        std::iter::successors(Some(at), |at| self.nodes[at].parent).any(|at| at == top)
    }

    /// Whether a budget may have a say.
    pub(super) fn is_budgeted(&self, at: usize) -> bool {
        std::iter::successors(Some(at), |at| self.nodes[at].parent).any(|at| self.nodes[&at].limit.is_some())
    }

    /// What came below `at` is under its budgets from now on.
    pub(super) fn pays(&mut self, at: usize, below: usize) {
        if self.nodes[&at].paid {
            for at in self.subtree(below) {
                self.node(at).paid = true;
            }
        }
    }

    /// Checks a refusal for want of at most `wanted` bytes: only budgets can be short, and no other thread holds
    /// leases.
    pub(super) fn assert_short(&self, at: usize, error: HostError, wanted: u64) {
        assert!(matches!(error, HostError::OverBudget { .. }), "context {at}: {error}");
        let short = |at: usize| self.nodes[&at].limit.is_some_and(|limit| self.live(at).saturating_add(wanted) > limit);
        assert!(
            std::iter::successors(Some(at), |at| self.nodes[at].parent).any(short),
            "there was room in context {at}: {error}"
        );
    }

    /// Bytes of a context and all below.
    pub(super) fn live(&self, top: usize) -> u64 {
        let own = |at: usize| Scope::ALL.iter().map(|scope| self.expected(at, *scope).0).sum::<u64>();
        self.subtree(top).into_iter().map(own).sum()
    }

    /// Learns what the table of `at` takes after it may have grown by segments of at least 8 values.
    pub(super) fn learn(&mut self, at: usize, may_grow: bool) {
        let (bytes, blocks) = self.expected(at, self.nodes[&at].scope);
        let node = self.node(at);
        let used = node.handle().usage().scope(node.scope);
        let more = (used.live_bytes.checked_sub(bytes), used.live_blocks.checked_sub(blocks));
        let (Some(bytes), Some(blocks)) = more else {
            panic!("context {at} has {used:?}, {bytes} bytes in {blocks} blocks are right")
        };
        if (bytes, blocks) != (0, 0) {
            assert!(
                may_grow && blocks > 0 && bytes >= blocks * 8 * 4 * size_of::<usize>() as u64,
                "context {at}: {bytes} bytes, {blocks} blocks too many"
            );
            node.table = (node.table.0 + bytes, node.table.1 + blocks);
        }
    }

    /// Live bytes and blocks of one scope of one context.
    pub(super) fn expected(&self, at: usize, scope: Scope) -> (u64, u64) {
        let node = &self.nodes[&at];
        let mut sum = (0, 0);
        let mut add = |bytes: u64, blocks: u64| sum = (sum.0 + bytes, sum.1 + blocks);
        let records = node.children.iter().filter(|child| self.nodes[child].home == scope).count() as u64;
        add(records * self.record, records);
        if at == 0 && scope == node.scope {
            add(self.record, 1);
        }
        if scope == node.scope {
            let grown = self.side.as_ref().map_or((0, 0), |side| side.grown(at));
            add(node.table.0 + grown.0, node.table.1 + grown.1);
            node.values.iter().for_each(|value| add(value.bytes(), u64::from(value.bytes() > 0)));
            for (_, arena, _) in self.arenas.iter().filter(|(context, ..)| *context == at) {
                add(arena.bytes_held() as u64, arena.chunks_held() as u64);
            }
        }
        sum
    }

    /// Every account and the witness equal the model.
    pub(super) fn compare(&self) {
        let mut all = [(0, 0); Scope::COUNT];
        for (at, node) in &self.nodes {
            let usage = node.can_be_used().then(|| node.handle().usage());
            for scope in Scope::ALL {
                let expected = self.expected(*at, scope);
                let sum = &mut all[scope.index()];
                *sum = (sum.0 + expected.0, sum.1 + expected.1);
                let Some(usage) = &usage else { continue };
                let used = usage.scope(scope);
                assert_eq!((used.live_bytes, used.live_blocks), expected, "context {at}, scope {scope}");
            }
            let Some(usage) = &usage else { continue };
            for kind in ForeignKind::ALL {
                assert_eq!(usage.foreign(kind).live_bytes, self.declared(*at, kind), "context {at}, {kind}");
            }
            assert_eq!(node.handle().owned_values(), node.values.len(), "values of context {at}");
            assert_eq!(
                (node.handle().is_closed(), node.handle().parent().map(|parent| parent.id())),
                (node.closed, self.id(node.parent)),
                "context {at}"
            );
        }
        for scope in Scope::ALL {
            let seen = self.witness.scope(scope);
            assert_eq!(
                (seen.live_bytes, seen.live_blocks),
                all[scope.index()],
                "what the witness saw of scope {scope}"
            );
        }
        self.compare_sums();
    }

    fn compare_sums(&self) {
        let root = self.nodes[&0].owner.as_ref().expect("the root is closed last");
        let sum = root.subtree_usage();
        assert_eq!(sum.total().live_bytes, self.witness.total().live_bytes, "the whole tree");
        for kind in ForeignKind::ALL {
            let declared: u64 =
                self.nodes.iter().map(|(at, node)| self.declared(*at, kind) + node.lost[kind.index()]).sum();
            assert_eq!(sum.foreign(kind).live_bytes, declared, "{kind} of the whole tree");
        }
        for (at, node) in self.nodes.iter().filter(|(_, node)| node.can_be_used()) {
            if let (Some(limit), Some(budget)) = (node.limit, node.handle().budget()) {
                let live = self.live(*at);
                assert!(live <= budget.charged && budget.charged <= limit, "context {at}: {live} live, {budget:?}");
            }
        }
    }

    fn id(&self, at: Option<usize>) -> Option<alloc_core::ContextId> {
        // A parent that only its children keep has no handle of the program's; its child has one.
        let node = &self.nodes[&at?];
        if node.can_be_used() {
            return Some(node.handle().id());
        }
        let child = node.children.iter().find(|child| self.nodes[child].can_be_used());
        child.and_then(|child| self.nodes[child].handle().parent().map(|parent| parent.id()))
    }

    fn declared(&self, at: usize, kind: ForeignKind) -> u64 {
        let guards = self.guards.iter().filter(|(context, guard)| *context == at && guard.kind() == kind);
        self.nodes[&at].plain[kind.index()] + guards.map(|(_, guard)| guard.bytes() as u64).sum::<u64>()
    }

    /// What is left below `at`: neither records nor what is owned.
    pub(super) fn outstanding(&self, at: usize) -> Outstanding {
        let mut left = Outstanding::default();
        let below = self.subtree(at);
        left.contexts = below.len() as u64 - 1;
        for at in below {
            let node = &self.nodes[&at];
            left.handles += node.handles.len() as u64 + node.held;
            left.foreign_bytes += node.lost.iter().sum::<u64>();
            left.foreign_bytes += ForeignKind::ALL.iter().map(|kind| self.declared(at, *kind)).sum::<u64>();
            for (_, arena, _) in self.arenas.iter().filter(|(context, ..)| *context == at) {
                left.bytes += arena.bytes_held() as u64;
                left.blocks += arena.chunks_held() as u64;
            }
        }
        left
    }
}
