//! What each row of the table shows.

use super::*;

pub(super) const fn row(
    what: &'static str,
    reach: Option<f64>,
    figures: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        what,
        reach,
        figures,
    }
}

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
    row(
        "guarded by cookies (64 B allocated, touched, freed), the oldest first: ns",
        Some(20.0),
        &[
            ("1000 live", "ns: guard/cookie-1k-fifo"),
            ("10 000", "ns: guard/cookie-10k-fifo"),
        ],
    ),
    row(
        "the same in random order",
        Some(70.0),
        &[
            ("1000 live", "ns: guard/cookie-1k-random"),
            ("10 000", "ns: guard/cookie-10k-random"),
        ],
    ),
    row(
        "fenced: ns",
        Some(70.0),
        &[
            ("1000 live", "ns: guard/fence-1k-fifo"),
            ("random order", "ns: guard/fence-1k-random"),
            ("10 000 live", "ns: guard/fence-10k-fifo"),
            ("random order", "ns: guard/fence-10k-random"),
        ],
    ),
    row(
        "strict, with stacks: ns",
        Some(1300.0),
        &[
            ("1000 live", "ns: guard/strict-stacks-1k-fifo"),
            ("random order", "ns: guard/strict-stacks-1k-random"),
            ("10 000 live", "ns: guard/strict-stacks-10k-fifo"),
            ("random order", "ns: guard/strict-stacks-10k-random"),
        ],
    ),
    row(
        "sampled, one in 1000: ns over the allocator behind",
        Some(5.0),
        &[
            ("1000 live", "delta: guard/sampled-1k-fifo"),
            ("random order", "delta: guard/sampled-1k-random"),
            ("off", "delta: guard/off-1k-fifo"),
        ],
    ),
    row(
        "guards with stacks, 1000 live, against Electric Fence",
        Some(1.0),
        &[
            (
                "cookie",
                "ratio: guard/cookie-stacks-1k-fifo ours/electric-fence",
            ),
            (
                "fence",
                "ratio: guard/fence-stacks-1k-fifo ours/electric-fence",
            ),
            (
                "strict",
                "ratio: guard/strict-stacks-1k-fifo ours/electric-fence",
            ),
        ],
    ),
    row(
        "the same against DUMA, dhat",
        None,
        &[
            ("strict", "ratio: guard/strict-stacks-1k-fifo ours/duma"),
            ("fence", "ratio: guard/fence-stacks-1k-fifo ours/duma"),
            (
                "strict against dhat",
                "ratio: guard/strict-stacks-1k-fifo ours/dhat",
            ),
            ("fence", "ratio: guard/fence-stacks-1k-fifo ours/dhat"),
            ("cookie", "ratio: guard/cookie-stacks-1k-fifo ours/dhat"),
        ],
    ),
    row(
        "cookies without stacks against `MALLOC_CHECK_=3`",
        None,
        &[
            ("1000 live", "ratio: guard/cookie-1k-fifo ours/malloc-check"),
            (
                "10 000, random order",
                "ratio: guard/cookie-10k-random ours/malloc-check",
            ),
        ],
    ),
    row(
        "a million guarded blocks live at once: mappings more than before",
        Some(100.0),
        &[
            ("fence", "count: crowd/fence-mappings"),
            ("strict", "count: crowd/strict-mappings"),
        ],
    ),
    row(
        "the same: KiB of page tables, resident KiB; blocks that others hold before they end",
        None,
        &[
            ("fence", "count: crowd/fence-page-tables-kib"),
            ("resident", "count: crowd/fence-resident-kib"),
            ("strict", "count: crowd/strict-page-tables-kib"),
            ("resident", "count: crowd/strict-resident-kib"),
            (
                "Electric Fence",
                "count: crowd/electric-fence-blocks-before-it-ends",
            ),
            ("DUMA", "count: crowd/duma-blocks-before-it-ends"),
        ],
    ),
    row(
        "a range alone against VMA's virtual block, 10 000 live (single allocations, frees, the whole trace)",
        Some(0.6),
        &[
            (
                "churn, odd sizes: allocate",
                "ratio: gpu_range/churn-odd-take ours/vma-virtual",
            ),
            ("free", "ratio: gpu_range/churn-odd-give ours/vma-virtual"),
            ("all", "ratio: gpu_range/churn-odd-bulk ours/vma-virtual"),
            (
                "multiples of 256: allocate",
                "ratio: gpu_range/churn-rounded-take ours/vma-virtual",
            ),
            (
                "free",
                "ratio: gpu_range/churn-rounded-give ours/vma-virtual",
            ),
            (
                "all",
                "ratio: gpu_range/churn-rounded-bulk ours/vma-virtual",
            ),
            (
                "frames: allocate",
                "ratio: gpu_range/frames-rounded-take ours/vma-virtual",
            ),
            (
                "free",
                "ratio: gpu_range/frames-rounded-give ours/vma-virtual",
            ),
        ],
    ),
    row(
        "the same against offset-allocator",
        Some(1.0),
        &[
            (
                "churn: allocate",
                "ratio: gpu_range/churn-rounded-take ours/offset-allocator",
            ),
            (
                "free",
                "ratio: gpu_range/churn-rounded-give ours/offset-allocator",
            ),
            (
                "all",
                "ratio: gpu_range/churn-rounded-bulk ours/offset-allocator",
            ),
            (
                "frames: allocate",
                "ratio: gpu_range/frames-rounded-take ours/offset-allocator",
            ),
            (
                "free",
                "ratio: gpu_range/frames-rounded-give ours/offset-allocator",
            ),
            (
                "at most 64 KiB, 100 000 live: allocate",
                "ratio: gpu_range/live-100k-take ours/offset-allocator",
            ),
            (
                "free",
                "ratio: gpu_range/live-100k-give ours/offset-allocator",
            ),
        ],
    ),
    row(
        "waste on the churn, high-water mark over bytes live (must)",
        Some(1.07),
        &[
            ("odd sizes", "waste: gpu_range/churn-odd"),
            ("multiples of 256", "waste: gpu_range/churn-rounded"),
        ],
    ),
    row(
        "refused of 210 000 allocations in an arena of 105 % of the bytes live",
        Some(50.0),
        &[
            ("odd sizes", "count: gpu_range/churn-odd-refused-105"),
            (
                "multiples of 256",
                "count: gpu_range/churn-rounded-refused-105",
            ),
        ],
    ),
    row(
        "transient pages: allocate, ns",
        Some(8.0),
        &[("frames", "ns: gpu_range/frames-rounded-transient-take")],
    ),
    row(
        "transient pages: free, ns",
        Some(5.0),
        &[("frames", "ns: gpu_range/frames-rounded-transient-give")],
    ),
    row(
        "region, full path: ns",
        Some(60.0),
        &[
            (
                "10 000 live of at most 64 KiB: allocate",
                "ns: gpu_region/live-10k-take",
            ),
            ("free", "ns: gpu_region/live-10k-give"),
            (
                "churn to 4 MiB: allocate",
                "ns: gpu_region/churn-rounded-take",
            ),
            ("free", "ns: gpu_region/churn-rounded-give"),
            ("frames: allocate", "ns: gpu_region/frames-rounded-take"),
            ("free", "ns: gpu_region/frames-rounded-give"),
            (
                "transient: allocate",
                "ns: gpu_region/frames-rounded-transient-take",
            ),
            ("free", "ns: gpu_region/frames-rounded-transient-give"),
        ],
    ),
    row(
        "the same: the slowest of a hundred with 100 000 live, against 1000 live",
        Some(4.0),
        &[
            ("allocate", "ratio: gpu_region/take-p99-at-100k ours/at-1k"),
            ("free", "ratio: gpu_region/give-p99-at-100k ours/at-1k"),
        ],
    ),
    row(
        "the same against VMA (must)",
        Some(1.0),
        &[
            (
                "churn, odd sizes: allocate",
                "ratio: gpu_region/churn-odd-take ours/vma",
            ),
            ("free", "ratio: gpu_region/churn-odd-give ours/vma"),
            (
                "multiples of 256: allocate",
                "ratio: gpu_region/churn-rounded-take ours/vma",
            ),
            ("free", "ratio: gpu_region/churn-rounded-give ours/vma"),
            (
                "frames: allocate",
                "ratio: gpu_region/frames-rounded-take ours/vma",
            ),
            ("free", "ratio: gpu_region/frames-rounded-give ours/vma"),
            (
                "streaming: allocate",
                "ratio: gpu_region/streaming-rounded-take ours/vma",
            ),
            ("free", "ratio: gpu_region/streaming-rounded-give ours/vma"),
            (
                "adversarial: allocate",
                "ratio: gpu_region/adversarial-rounded-take ours/vma",
            ),
            (
                "free",
                "ratio: gpu_region/adversarial-rounded-give ours/vma",
            ),
            (
                "a million live: allocate",
                "ratio: gpu_region/live-1m-take ours/vma",
            ),
            ("free", "ratio: gpu_region/live-1m-give ours/vma"),
        ],
    ),
    row(
        "the same on lavapipe (must)",
        Some(1.0),
        &[
            (
                "churn: allocate",
                "ratio: gpu_region/lavapipe-churn-take ours/vma",
            ),
            ("free", "ratio: gpu_region/lavapipe-churn-give ours/vma"),
            (
                "frames: allocate",
                "ratio: gpu_region/lavapipe-frames-take ours/vma",
            ),
            ("free", "ratio: gpu_region/lavapipe-frames-give ours/vma"),
            (
                "against gpu-allocator: churn, allocate",
                "ratio: gpu_region/lavapipe-churn-take ours/gpu-allocator",
            ),
            (
                "free",
                "ratio: gpu_region/lavapipe-churn-give ours/gpu-allocator",
            ),
            (
                "frames: allocate",
                "ratio: gpu_region/lavapipe-frames-take ours/gpu-allocator",
            ),
            (
                "free",
                "ratio: gpu_region/lavapipe-frames-give ours/gpu-allocator",
            ),
        ],
    ),
    row(
        "the same against gpu-alloc (no ids, no lock), the driver alone on lavapipe",
        None,
        &[
            (
                "churn: allocate",
                "ratio: gpu_region/churn-rounded-take ours/gpu-alloc",
            ),
            (
                "free",
                "ratio: gpu_region/churn-rounded-give ours/gpu-alloc",
            ),
            (
                "raw, churn: allocate",
                "ratio: gpu_region/lavapipe-churn-take ours/raw",
            ),
            ("free", "ratio: gpu_region/lavapipe-churn-give ours/raw"),
        ],
    ),
    row(
        "host bytes a live region, as `malloc` reports them (must)",
        Some(56.0),
        &[
            ("a range, churn", "bytes: gpu_range/churn-rounded-metadata"),
            ("frames", "bytes: gpu_range/frames-rounded-metadata"),
            (
                "whole, churn of 25 blocks",
                "bytes: gpu_region/churn-rounded-metadata",
            ),
            ("frames", "bytes: gpu_region/frames-rounded-metadata"),
            (
                "at most 64 KiB, 10 000 live",
                "bytes: gpu_region/live-10k-metadata",
            ),
            ("100 000", "bytes: gpu_region/live-100k-metadata"),
            ("a million", "bytes: gpu_region/live-1m-metadata"),
        ],
    ),
    row(
        "device bytes reserved over bytes live, at their most",
        None,
        &[
            ("churn", "waste: gpu_region/churn-rounded-reserved"),
            ("frames", "waste: gpu_region/frames-rounded-reserved"),
            (
                "transient",
                "waste: gpu_region/frames-rounded-transient-reserved",
            ),
            ("streaming", "waste: gpu_region/streaming-rounded-reserved"),
        ],
    ),
    row(
        "shader cache, a hit referenced, read and released: ns",
        Some(20.0),
        &[
            ("10", "ns: shader_cache/hit-10"),
            ("1000", "ns: shader_cache/hit-1k"),
            ("10 000", "ns: shader_cache/hit-10k"),
            ("one key", "ns: shader_cache/hot"),
        ],
    ),
    row(
        "two threads on one key against one thread",
        Some(1.2),
        &[("hot", "ratio: shader_cache/hot-2t ours/one-thread")],
    ),
    row(
        "100 000 uniform, against the best map with locks",
        Some(0.95),
        &[("hit", "ratio: shader_cache/hit-100k ours/best-lock")],
    ),
    row(
        "1000 shaders against dashmap, papaya, quick_cache",
        None,
        &[
            ("hit", "ratio: shader_cache/hit-1k ours/dashmap"),
            ("papaya", "ratio: shader_cache/hit-1k ours/papaya"),
            ("quick_cache", "ratio: shader_cache/hit-1k ours/quick_cache"),
            ("miss", "ratio: shader_cache/miss-1k ours/dashmap"),
            (
                "one in, one out",
                "ratio: shader_cache/churn-1k ours/quick_cache",
            ),
        ],
    ),
    row(
        "device groups: created and ended, ns; a query, ns",
        None,
        &[
            ("2 devices", "ns: device_group/2-make"),
            ("8", "ns: device_group/8-make"),
            ("64", "ns: device_group/64-make"),
            ("query", "ns: device_group/64-query"),
        ],
    ),
];
