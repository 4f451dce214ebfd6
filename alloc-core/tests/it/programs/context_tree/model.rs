//! The model: what every context must say, by addition and subtraction alone.

mod budgets;

use std::collections::BTreeMap;

use alloc_core::{CloseError, Context, ContextHandle, ContextId, HostError, Outstanding, Scope, ScopeUsage, Usage};

use super::is_refusal;
use super::operation::{BudgetSpec, ContextSpec};
use super::side::Side;
use crate::programs::side::Visit;
use testkit::HookedAllocator;
use testkit::RecordingAllocator;
use testkit::programs::Bytes;

/// The contexts of a program, numbered in the order they were made; numbers are not used again. 0 is the root.
pub(super) struct Tree<'a> {
    nodes: BTreeMap<usize, TreeNode>,
    made: usize,
    witnesses: &'a [HookedAllocator<RecordingAllocator>; 2],
    /// Set where the backing uses the contexts during operations.
    side: Option<&'a Side>,
    /// Bytes of a context's own record, learned from the root.
    record: u64,
    /// Totals of contexts that are gone.
    gone: [TreeCounts; Scope::COUNT],
}

struct TreeNode {
    id: ContextId,
    owner: Option<Context>,
    handles: Vec<ContextHandle>,
    /// References that the program's blocks and vectors hold.
    held: u64,
    parent: Option<usize>,
    scope: Scope,
    limit: Option<BudgetSpec>,
    closed: bool,
    label: u64,
    witness: usize,
    counts: [TreeCounts; Scope::COUNT],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TreeCounts {
    live_bytes: u64,
    live_blocks: u64,
    total_bytes: u64,
    total_blocks: u64,
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        root: Context,
        limit: Option<BudgetSpec>,
        witnesses: &'a [HookedAllocator<RecordingAllocator>; 2],
        side: Option<&'a Side>,
    ) -> Self {
        let (scope, record) = (root.scope(), root.usage().total().live_bytes);
        let mut nodes = BTreeMap::new();
        nodes.insert(0, TreeNode::new(root, None, scope, limit, 0, 0));
        let mut tree = Self { nodes, made: 1, witnesses, side, record, gone: Default::default() };
        tree.took(0, scope, record, 1);
        tree
    }

    pub(super) fn contexts(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn scope(&self, at: usize) -> Scope {
        self.nodes[&at].scope
    }

    /// A context whose owner is still there or that has a handle; `Some(None)` when the one chosen has neither.
    pub(super) fn pick(&self, bytes: &mut Bytes<'_>) -> Option<Option<usize>> {
        let which = bytes.below(self.nodes.len())?;
        let chosen = self.nodes.iter().nth(which);
        Some(chosen.filter(|(_, node)| node.owner.is_some() || !node.handles.is_empty()).map(|(at, _)| *at))
    }

    /// A handle for the program to keep.
    pub(super) fn owner(&mut self, at: usize) -> ContextHandle {
        let node = self.node(at);
        node.held += 1;
        node.a_handle()
    }

    /// The program dropped one that [`Tree::owner`] gave.
    pub(super) fn dropped_owner(&mut self, at: usize) {
        self.node(at).held -= 1;
        self.bury(at);
    }

    pub(super) fn add_handle(&mut self, at: usize) -> bool {
        let node = self.node(at);
        let handle = node.a_handle();
        node.handles.push(handle);
        true
    }

    pub(super) fn drop_handle(&mut self, at: usize) -> bool {
        let dropped = self.node(at).handles.pop().is_some();
        self.bury(at);
        dropped
    }

    pub(super) fn child(&mut self, at: usize, spec: &ContextSpec) -> bool {
        self.aim_at(at);
        let (home, label) = (self.nodes[&at].scope, spec.label.len() as u64);
        let should = self.fits(at, self.record + label);
        let mut options = spec.options("child");
        if spec.own_allocator {
            // SAFETY: the witnesses outlive all contexts: `Tree` borrows them.
            options = unsafe { options.allocator(&self.witnesses[1]) };
        }
        let Some(parent) = &self.nodes[&at].owner else {
            return false;
        };
        match parent.child_with(options) {
            Ok(child) => {
                assert!(should, "a child of context {at} although its record does not fit");
                let witness = if spec.own_allocator { 1 } else { self.nodes[&at].witness };
                let node = TreeNode::new(child, Some(at), spec.scope.unwrap_or(home), spec.budget, label, witness);
                self.nodes.insert(self.made, node);
                self.made += 1;
                self.took(at, home, self.record, 1);
                if label > 0 {
                    self.took(at, home, label, 1);
                }
                true
            }
            Err(error) => {
                assert!(!should, "no child of context {at} although its record fits: {error}");
                if label > 0 && self.fits(at, self.record) {
                    // The record was taken, and given back when the label was refused.
                    self.took(at, home, self.record, 1);
                    self.gave(at, home, self.record, 1);
                }
                self.check_refusal(at, error);
                false
            }
        }
    }

    /// Ends the owner of `at`: `how` chooses between close and drop, here and on another thread.
    pub(super) fn end(&mut self, at: usize, how: u8) -> bool {
        self.aim_at(at);
        let expected = self.outstanding(at);
        let Some(owner) = self.node(at).owner.take() else {
            return false;
        };
        for number in self.subtree(at) {
            self.node(number).closed = true;
        }
        match how % 3 {
            0 => assert_eq!(owner.close(), expected, "outstanding when context {at} was closed"),
            1 => drop(owner),
            _ => std::thread::scope(|threads| threads.spawn(move || drop(owner)).join())
                .expect("dropping does not panic"),
        }
        self.bury(at);
        true
    }

    /// With anything left, closing the root gives it back, still open, and says what is left.
    pub(super) fn close_root_too_early(&mut self) {
        let expected = self.outstanding(0);
        if expected.is_empty() {
            return;
        }
        let root = self.node(0).owner.take().expect("the root is closed last");
        let refused = root.close_root().expect_err("something is outstanding");
        assert_eq!(refused.error, CloseError::Outstanding(expected));
        assert!(!refused.value.is_closed());
        self.node(0).owner = Some(refused.value);
    }

    /// Ends everything, the newest first, and closes the root. Nothing may be left.
    pub(super) fn finish(mut self) {
        for at in self.nodes.keys().copied().rev().filter(|at| *at != 0).collect::<Vec<_>>() {
            // It may have gone with its last child.
            if let Some(node) = self.nodes.get_mut(&at) {
                node.handles.clear();
                self.end(at, 1);
                self.bury(at);
            }
        }
        self.node(0).handles.clear();
        self.compare();
        assert_eq!(self.nodes.len(), 1, "contexts that nothing refers to");
        let root = self.node(0).owner.take().expect("the root is closed last");
        root.close_root().expect("nothing is outstanding");
        for witness in self.witnesses.each_ref().map(HookedAllocator::inner) {
            witness.assert_empty("after the root was closed");
            assert_eq!(witness.zero_sized(), 0, "size 0 is never forwarded");
        }
    }

    // --- amounts ---

    pub(super) fn took(&mut self, at: usize, scope: Scope, bytes: u64, blocks: u64) {
        let counts = &mut self.node(at).counts[scope.index()];
        counts.live_bytes += bytes;
        counts.live_blocks += blocks;
        counts.total_bytes += bytes;
        counts.total_blocks += blocks;
    }

    pub(super) fn gave(&mut self, at: usize, scope: Scope, bytes: u64, blocks: u64) {
        let counts = &mut self.node(at).counts[scope.index()];
        counts.live_bytes -= bytes;
        counts.live_blocks -= blocks;
    }

    /// A block went from `old` to `new` bytes; size 0 is no block.
    pub(super) fn resized(&mut self, at: usize, scope: Scope, old: u64, new: u64) {
        match (old, new) {
            (0, 0) => {}
            (0, new) => self.took(at, scope, new, 1),
            (old, 0) => self.gave(at, scope, old, 1),
            (old, new) if new >= old => self.took(at, scope, new - old, 0),
            (old, new) => self.gave(at, scope, old - new, 0),
        }
    }

    /// Whether context `at` may refuse at all.
    pub(super) fn may_refuse(&self, at: usize) -> bool {
        let budgeted =
            std::iter::successors(Some(at), |at| self.nodes[at].parent).any(|at| self.nodes[&at].limit.is_some());
        self.nodes[&at].closed || budgeted
    }

    pub(super) fn check_refusal(&self, at: usize, error: HostError) {
        assert!(is_refusal(error, self.nodes[&at].closed), "context {at} refused: {error}");
    }

    // --- what the backing does meanwhile ---

    /// The operation is about context `at`.
    pub(super) fn aim(&mut self, at: usize, handle: &ContextHandle) {
        if let Some(side) = self.side {
            self.node(at).held += 1;
            let before = side.aim(Some((at, handle.clone())));
            self.dropped_aim(before);
        }
    }

    fn aim_at(&mut self, at: usize) {
        if self.side.is_some() && self.nodes[&at].usage().is_some() {
            let handle = self.nodes[&at].a_handle();
            self.aim(at, &handle);
        }
    }

    /// From now on the backing does nothing meanwhile.
    pub(super) fn aim_at_nothing(&mut self) {
        let before = self.side.and_then(|side| side.aim(None));
        self.dropped_aim(before);
        self.side = None;
    }

    fn dropped_aim(&mut self, before: Option<(usize, ContextHandle)>) {
        self.settle_side();
        if let Some((at, handle)) = before {
            drop(handle);
            self.dropped_owner(at);
        }
    }

    /// Adds what the backing allocated and freed meanwhile.
    pub(super) fn settle_side(&mut self) {
        for (at, Visit { scope, own, below }) in self.side.map(Side::done).unwrap_or_default() {
            let record = self.record;
            let counts = &mut self.node(at).counts[scope.index()];
            counts.passed(own.bytes, own.blocks);
            if let Some(below) = below {
                counts.passed(record, 1);
                self.gone[scope.index()].passed(below.bytes, below.blocks);
            }
        }
    }

    // --- comparison ---

    /// Every account, the sums, the budgets and the witnesses equal the model.
    pub(super) fn compare(&self) {
        let mut of_witness = [[TreeCounts::default(); Scope::COUNT]; 2];
        for (at, node) in &self.nodes {
            for (sum, own) in of_witness[node.witness].iter_mut().zip(&node.counts) {
                sum.add(own);
            }
            let Some(usage) = node.usage() else { continue };
            for scope in Scope::ALL {
                assert_eq!(
                    TreeCounts::of(usage.scope(scope)),
                    node.counts[scope.index()],
                    "context {at}, scope {scope}"
                );
                let peak = usage.scope(scope).peak_bytes + usage.scope(scope).peak_slack;
                assert!(peak >= node.counts[scope.index()].live_bytes, "context {at}, scope {scope}: peak {peak}");
            }
            if let Some(limit) = node.limit {
                let live = self.live_below(*at);
                assert!(live <= limit.bytes.max(self.record), "context {at} holds {live} bytes under {limit:?}");
            }
        }
        for (witness, sums) in self.witnesses.iter().map(HookedAllocator::inner).zip(of_witness) {
            for (scope, sum) in Scope::ALL.into_iter().zip(sums) {
                let seen = witness.scope(scope);
                let counts = (seen.live_bytes, seen.live_blocks);
                assert_eq!(counts, (sum.live_bytes, sum.live_blocks), "what the witness saw of scope {scope}");
            }
        }
        let root = self.nodes[&0].owner.as_ref().expect("the root is closed last");
        let all = root.subtree_usage();
        for scope in Scope::ALL {
            let mut sum = self.gone[scope.index()];
            self.nodes.values().for_each(|node| sum.add(&node.counts[scope.index()]));
            assert_eq!(TreeCounts::of(all.scope(scope)), sum, "the whole tree, scope {scope}");
        }
    }

    /// What is left below `at`, the records aside.
    fn outstanding(&self, at: usize) -> Outstanding {
        let below = self.subtree(at);
        let mut left = Outstanding::default();
        for number in &below {
            let node = &self.nodes[number];
            left.bytes += node.live();
            left.blocks += node.counts.iter().map(|counts| counts.live_blocks).sum::<u64>();
            left.handles += node.handles.len() as u64 + node.held;
            let record_is_below = *number != at || node.parent.is_none();
            if record_is_below {
                left.bytes -= self.record + node.label;
                left.blocks -= 1 + u64::from(node.label > 0);
            }
        }
        left.contexts = below.len() as u64 - 1;
        left
    }

    /// `top` and all below it.
    fn subtree(&self, top: usize) -> Vec<usize> {
        let mut found = vec![top];
        // A child's number is higher than its parent's.
        for (at, node) in self.nodes.range(top + 1..) {
            if node.parent.is_some_and(|parent| found.contains(&parent)) {
                found.push(*at);
            }
        }
        found
    }

    /// A context that nothing refers to is gone, its record is given back, and its parent may go next.
    fn bury(&mut self, at: usize) {
        let mut next = Some(at);
        while let Some(at) = next {
            let Some(node) = self.nodes.get(&at) else {
                return;
            };
            let referred = node.owner.is_some() || !node.handles.is_empty() || node.held > 0;
            if referred || self.nodes.values().any(|node| node.parent == Some(at)) {
                return;
            }
            let Some(node) = self.nodes.remove(&at) else {
                return;
            };
            for (gone, counts) in self.gone.iter_mut().zip(&node.counts) {
                assert_eq!((counts.live_bytes, counts.live_blocks), (0, 0), "context {at} is gone with blocks live");
                gone.add(counts);
            }
            if let Some(parent) = node.parent {
                let home = self.scope(parent);
                self.gave(parent, home, self.record, 1);
                if node.label > 0 {
                    self.gave(parent, home, node.label, 1);
                }
            }
            next = node.parent;
        }
    }

    fn node(&mut self, at: usize) -> &mut TreeNode {
        self.nodes.get_mut(&at).unwrap_or_else(|| panic!("the model lost context {at}"))
    }
}

impl TreeNode {
    fn new(
        owner: Context,
        parent: Option<usize>,
        scope: Scope,
        limit: Option<BudgetSpec>,
        label: u64,
        witness: usize,
    ) -> Self {
        assert_eq!(owner.scope(), scope);
        Self {
            id: owner.id(),
            owner: Some(owner),
            handles: Vec::new(),
            held: 0,
            parent,
            scope,
            limit,
            closed: false,
            label,
            witness,
            counts: Default::default(),
        }
    }

    fn a_handle(&self) -> ContextHandle {
        let handle = self.owner.as_ref().map(Context::handle).or_else(|| self.handles.first().cloned());
        handle.expect("picked for having an owner or a handle")
    }

    fn usage(&self) -> Option<Usage> {
        self.owner.as_ref().map(|owner| owner.usage()).or_else(|| self.handles.first().map(ContextHandle::usage))
    }

    fn live(&self) -> u64 {
        self.counts.iter().map(|counts| counts.live_bytes).sum()
    }
}

impl TreeCounts {
    fn of(usage: ScopeUsage) -> Self {
        let ScopeUsage { live_bytes, live_blocks, total_bytes, total_blocks, .. } = usage;
        Self { live_bytes, live_blocks, total_bytes, total_blocks }
    }

    /// Allocated, and freed again.
    fn passed(&mut self, bytes: u64, blocks: u64) {
        self.total_bytes += bytes;
        self.total_blocks += blocks;
    }

    fn add(&mut self, other: &Self) {
        self.live_bytes += other.live_bytes;
        self.live_blocks += other.live_blocks;
        self.total_bytes += other.total_bytes;
        self.total_blocks += other.total_blocks;
    }
}
