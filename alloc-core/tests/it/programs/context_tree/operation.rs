//! One operation of a program: decoded from bytes, or read from a line of text that means the same for ever.

use std::alloc::Layout;

use alloc_core::{Budget, ContextOptions, Scope};

/// What a root or a child is made with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ContextSpec {
    pub(super) scope: Option<Scope>,
    pub(super) label: &'static str,
    pub(super) budget: Option<BudgetSpec>,
    /// A child draws on the second witness.
    pub(super) own_allocator: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BudgetSpec {
    pub(super) bytes: u64,
    pub(super) exact: bool,
}

/// Contexts by their number in the order that they were made, blocks and vectors by their place among those that are
/// there.
#[derive(Clone, Copy, Debug)]
pub(super) enum TreeOperation {
    Child { of: usize, spec: ContextSpec },
    Allocate { from: usize, layout: Layout, scope: Scope, zeroed: bool, elsewhere: bool },
    Resize { block: usize, layout: Layout },
    Free { block: usize, elsewhere: bool },
    AddHandle { to: usize },
    DropHandle { to: usize },
    NewVec { of: usize },
    Push { vec: usize, count: u8 },
    EmptyVec { vec: usize },
    DropVec { vec: usize },
    End { context: usize, how: u8 },
    CloseRootTooEarly,
    Settle,
}

impl ContextSpec {
    pub(super) fn options(&self, name: &'static str) -> ContextOptions<'static> {
        let mut options = ContextOptions::new(name).label(self.label);
        if let Some(scope) = self.scope {
            options = options.scope(scope);
        }
        if let Some(BudgetSpec { bytes, exact }) = self.budget {
            options = options.budget(if exact { Budget::exact(bytes) } else { Budget::limit(bytes) });
        }
        options
    }

    fn parse(words: &mut Words<'_>) -> Self {
        let mut spec = Self::default();
        while let Some(word) = words.next() {
            match word {
                "scope" => spec.scope = Some(words.scope()),
                "label" => spec.label = LABEL,
                "limit" | "exact" => spec.budget = Some(BudgetSpec { bytes: words.number(), exact: word == "exact" }),
                "own-allocator" => spec.own_allocator = true,
                _ => panic!("{word:?} is nothing that a context is made with"),
            }
        }
        spec
    }
}

/// The label of children that have one.
pub(super) const LABEL: &str = "called at run time";

/// The program in `text`: a line for the root, then one for each operation. What follows a `#` is a comment.
///
/// # Panics
/// Where a line is none of these.
pub(super) fn parse(text: &str) -> (ContextSpec, Vec<TreeOperation>) {
    let mut lines =
        text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
    let mut first = Words::of(lines.next().expect("a line for the root"));
    assert_eq!(first.next(), Some("root"), "the first line is the root's");
    (ContextSpec::parse(&mut first), lines.map(|line| TreeOperation::parse(&mut Words::of(line))).collect())
}

impl TreeOperation {
    fn parse(words: &mut Words<'_>) -> Self {
        let operation = match words.next().unwrap_or("") {
            "child" => Self::Child { of: words.number(), spec: ContextSpec::parse(words) },
            "allocate" => {
                let (from, layout) = (words.number(), words.layout());
                assert_eq!(words.next(), Some("scope"), "after {layout:?}");
                let scope = words.scope();
                Self::Allocate { from, layout, scope, zeroed: words.has("zeroed"), elsewhere: words.has("elsewhere") }
            }
            "resize" => Self::Resize { block: words.number(), layout: words.layout() },
            "free" => Self::Free { block: words.number(), elsewhere: words.has("elsewhere") },
            "add-handle" => Self::AddHandle { to: words.number() },
            "drop-handle" => Self::DropHandle { to: words.number() },
            "new-vec" => Self::NewVec { of: words.number() },
            "push" => Self::Push { vec: words.number(), count: words.number() },
            "empty-vec" => Self::EmptyVec { vec: words.number() },
            "drop-vec" => Self::DropVec { vec: words.number() },
            "end" => Self::End { context: words.number(), how: words.number() },
            "close-root-too-early" => Self::CloseRootTooEarly,
            "settle" => Self::Settle,
            other => panic!("{other:?} is no operation"),
        };
        assert_eq!(words.next(), None, "after {operation:?}");
        operation
    }
}

/// The words of a line that are still to be read.
struct Words<'t>(std::iter::Peekable<std::str::SplitWhitespace<'t>>);

impl<'t> Words<'t> {
    fn of(line: &'t str) -> Self {
        Self(line.split_whitespace().peekable())
    }
    fn next(&mut self) -> Option<&'t str> {
        self.0.next()
    }
    fn has(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }
    fn number<N: std::str::FromStr>(&mut self) -> N {
        let word = self.next().unwrap_or("nothing");
        word.parse().unwrap_or_else(|_| panic!("{word:?} where a number belongs"))
    }
    fn layout(&mut self) -> Layout {
        let size = self.number();
        assert_eq!(self.next(), Some("align"), "after a size of {size}");
        Layout::from_size_align(size, self.number()).expect("a layout")
    }
    fn scope(&mut self) -> Scope {
        let word = self.next().unwrap_or("nothing");
        Scope::ALL.into_iter().find(|scope| scope.to_string() == word).unwrap_or_else(|| panic!("{word:?} is no scope"))
    }
}
