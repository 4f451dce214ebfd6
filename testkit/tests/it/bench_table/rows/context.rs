//! Contexts, arenas, owned values and callbacks.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    row(
        "allocate and free through `&Context`, executable: ns over the allocator behind",
        Some(3.5),
        &[
            ("System pair", "delta: pair/executable-system-pair-1t"),
            ("churn", "delta: pair/executable-system-churn-1t"),
            ("mimalloc pair", "delta: pair/executable-mimalloc-pair-1t"),
            ("churn", "delta: pair/executable-mimalloc-churn-1t"),
        ],
    ),
    row(
        "the same in a library loaded at run time",
        Some(9.0),
        &[
            ("System pair", "delta: pair/dlopened-system-pair-1t"),
            ("churn", "delta: pair/dlopened-system-churn-1t"),
            ("mimalloc pair", "delta: pair/dlopened-mimalloc-pair-1t"),
            ("churn", "delta: pair/dlopened-mimalloc-churn-1t"),
        ],
    ),
    row(
        "two threads on one context: slow-down over the allocator's own",
        Some(1.15),
        &[
            (
                "System pair",
                "ratio: pair/executable-system-pair-2t-over-1t ours/raw",
            ),
            (
                "churn",
                "ratio: pair/executable-system-churn-2t-over-1t ours/raw",
            ),
            (
                "mimalloc pair",
                "ratio: pair/executable-mimalloc-pair-2t-over-1t ours/raw",
            ),
            (
                "churn",
                "ratio: pair/executable-mimalloc-churn-2t-over-1t ours/raw",
            ),
        ],
    ),
    row(
        "under a budget, ns over the allocator behind",
        None,
        &[
            (
                "System pair, depth 1",
                "delta: pair/executable-system-pair-1t-budget1",
            ),
            ("depth 7", "delta: pair/executable-system-pair-1t-budget7"),
            (
                "mimalloc pair, depth 1",
                "delta: pair/executable-mimalloc-pair-1t-budget1",
            ),
            ("depth 7", "delta: pair/executable-mimalloc-pair-1t-budget7"),
        ],
    ),
    row(
        "context against one shared atomic, System pair",
        Some(1.0),
        &[
            (
                "1 thread",
                "ratio: pair/executable-system-pair-1t ours/shared-atomic",
            ),
            (
                "2 threads",
                "ratio: pair/executable-system-pair-2t ours/shared-atomic",
            ),
        ],
    ),
    row(
        "arena, a million objects under 1000 contexts: build against bumpalo",
        Some(1.1),
        &[
            ("64 B", "ratio: arena/64-build ours/bumpalo"),
            ("16-256 B", "ratio: arena/16-256-build ours/bumpalo"),
        ],
    ),
    row(
        "arena: build against blink-alloc, bump-scope",
        None,
        &[
            ("64 B", "ratio: arena/64-build ours/blink-alloc"),
            ("bump-scope", "ratio: arena/64-build ours/bump-scope"),
            ("16-256 B", "ratio: arena/16-256-build ours/blink-alloc"),
            ("bump-scope", "ratio: arena/16-256-build ours/bump-scope"),
        ],
    ),
    row(
        "arena: drop, ns an object",
        Some(1.0),
        &[
            ("64 B", "ns: arena/64-drop"),
            ("16-256 B", "ns: arena/16-256-drop"),
        ],
    ),
    row(
        "tree of 1000 contexts and a million blocks against plain malloc: ns over it",
        None,
        &[
            ("build", "delta: tree/system-blocks-build"),
            ("free", "delta: tree/system-blocks-free"),
            ("boxes build", "delta: tree/system-boxes-build"),
            ("free", "delta: tree/system-boxes-free"),
        ],
    ),
    row(
        "the same tree against talloc",
        Some(1.0),
        &[
            ("build", "ratio: tree/system-blocks-build ours/talloc"),
            ("free", "ratio: tree/system-blocks-free ours/talloc"),
        ],
    ),
    row(
        "C callbacks (`BareBridge`): ns a pair over the allocator behind",
        Some(4.0),
        &[
            ("System LIFO", "delta: bridge/system-lifo-64-bare"),
            ("1024 live", "delta: bridge/system-live-1024-bare"),
            ("mimalloc LIFO", "delta: bridge/mimalloc-lifo-64-bare"),
            ("1024 live", "delta: bridge/mimalloc-live-1024-bare"),
        ],
    ),
    row(
        "C callbacks (`Bridge`): ns a pair over the context behind",
        Some(4.0),
        &[
            ("System LIFO", "delta: bridge/system-lifo-64-over-context"),
            ("1024 live", "delta: bridge/system-live-1024-over-context"),
            (
                "mimalloc LIFO",
                "delta: bridge/mimalloc-lifo-64-over-context",
            ),
            ("1024 live", "delta: bridge/mimalloc-live-1024-over-context"),
        ],
    ),
    row(
        "C callbacks, alignment 32 to 256, against the allocator's own",
        Some(1.0),
        &[
            (
                "System",
                "ratio: bridge/system-aligned-32-256-bare ours/raw",
            ),
            (
                "mimalloc",
                "ratio: bridge/mimalloc-aligned-32-256-bare ours/raw",
            ),
        ],
    ),
    row(
        "recorded driver replayed through a context: ns a call over the allocator behind",
        None,
        &[
            (
                "lavapipe on System",
                "delta: replay/lavapipe-system-context",
            ),
            ("mimalloc", "delta: replay/lavapipe-mimalloc-context"),
            ("through the bridge", "delta: replay/lavapipe-system-bridge"),
            ("mimalloc", "delta: replay/lavapipe-mimalloc-bridge"),
        ],
    ),
    row(
        "the same against dhat",
        Some(1.0),
        &[
            (
                "lavapipe",
                "ratio: replay/lavapipe-system-context ours/dhat",
            ),
            ("nvidia", "ratio: replay/nvidia-system-context ours/dhat"),
        ],
    ),
    row(
        "callbacks under the live checker: ns a pair over the bridge",
        Some(40.0),
        &[
            ("System LIFO", "delta: checked/system-lifo-64"),
            ("1024 live", "delta: checked/system-live-1024"),
            ("mimalloc LIFO", "delta: checked/mimalloc-lifo-64"),
            ("1024 live", "delta: checked/mimalloc-live-1024"),
        ],
    ),
    row(
        "values owned by contexts, 48 B: build, ns over boxes in a vector",
        Some(10.0),
        &[
            ("System", "delta: owned/system-plain-build"),
            ("with a destructor", "delta: owned/system-drop-build"),
            ("mimalloc", "delta: owned/mimalloc-plain-build"),
            ("with a destructor", "delta: owned/mimalloc-drop-build"),
        ],
    ),
    row(
        "the same: end of their contexts, ns over boxes",
        Some(4.0),
        &[
            ("System", "delta: owned/system-plain-end"),
            ("with a destructor", "delta: owned/system-drop-end"),
            ("mimalloc", "delta: owned/mimalloc-plain-end"),
            ("with a destructor", "delta: owned/mimalloc-drop-end"),
        ],
    ),
    row(
        "the same against talloc",
        None,
        &[
            ("build", "ratio: owned/system-plain-build ours/talloc"),
            ("end", "ratio: owned/system-plain-end ours/talloc"),
            ("steal", "ratio: owned/system-steal ours/talloc"),
        ],
    ),
    row(
        "values with a destructor in arenas, against blink-alloc, bumpalo with boxes",
        None,
        &[
            ("build", "ratio: owned-arena/build ours/blink-alloc"),
            ("bumpalo", "ratio: owned-arena/build ours/bumpalo"),
            ("drop", "ratio: owned-arena/drop ours/blink-alloc"),
            ("bumpalo", "ratio: owned-arena/drop ours/bumpalo"),
        ],
    ),
    row(
        "sum over a tree of contexts, ns a context (talloc's walk counts sizes alone)",
        None,
        &[
            ("1000", "ns: snapshot/sum-1000"),
            ("100 000", "ns: snapshot/sum-100000"),
            ("snapshot of 1000", "ns: snapshot/take-1000"),
            ("100 000", "ns: snapshot/take-100000"),
            (
                "against talloc, 100 000",
                "ratio: snapshot/sum-100000 ours/talloc",
            ),
        ],
    ),
];
