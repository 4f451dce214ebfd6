//! Device memory, the shader cache and device groups.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
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
