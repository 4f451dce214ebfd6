//! Guards.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
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
];
