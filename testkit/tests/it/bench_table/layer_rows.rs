//! The rows of the layer's table.

use super::{Row, row};

pub(super) const LAYER_ROWS: &[Row] = &[
    row(
        "a command that calls nothing back, inside the checker: ns",
        Some(15.0),
        &[("executable", "ns: layer/empty-bracket")],
    ),
    row(
        "`vkCreateBuffer` and `vkDestroyBuffer`, none alive: ns over the same without the layer, accounts only",
        Some(105.0),
        &[("", "delta: layer/pair-0-accounts")],
    ),
    row(
        "the same with the checker",
        Some(225.0),
        &[
            ("", "delta: layer/pair-0-checked"),
            ("and the state file", "delta: layer/pair-0-checked-state"),
        ],
    ),
    row(
        "the same with 100 alive: ns over the same without the layer, accounts only",
        Some(100.0),
        &[("", "delta: layer/pair-100-accounts")],
    ),
    row(
        "the same with the checker",
        Some(215.0),
        &[
            ("", "delta: layer/pair-100-checked"),
            ("and the state file", "delta: layer/pair-100-checked-state"),
        ],
    ),
    row(
        "begin and end of a command buffer: ns over the same without the layer, accounts only",
        Some(32.0),
        &[("", "delta: layer/begin-end-accounts")],
    ),
    row(
        "the same with the checker",
        Some(70.0),
        &[
            ("", "delta: layer/begin-end-checked"),
            ("and the state file", "delta: layer/begin-end-checked-state"),
        ],
    ),
    row(
        "`vkQueueSubmit`, empty: ns over the same without the layer, accounts only",
        Some(20.0),
        &[("", "delta: layer/submit-accounts")],
    ),
    row(
        "the same with the checker",
        Some(40.0),
        &[
            ("", "delta: layer/submit-checked"),
            ("and the state file", "delta: layer/submit-checked-state"),
        ],
    ),
    row(
        "`vkCmdSetViewport`, two callbacks of lavapipe: ns over the same without the layer, accounts only",
        Some(75.0),
        &[("", "delta: layer/viewport-accounts")],
    ),
    row(
        "the same with the checker",
        Some(190.0),
        &[
            ("", "delta: layer/viewport-checked"),
            ("and the state file", "delta: layer/viewport-checked-state"),
        ],
    ),
    row(
        "a process that creates an instance and a device: ms over the same without the layer, accounts only",
        Some(2.0),
        &[("", "delta: layer/process-ms-accounts")],
    ),
    row(
        "the same with the checker",
        Some(2.0),
        &[
            ("", "delta: layer/process-ms-checked"),
            (
                "and the state file",
                "delta: layer/process-ms-checked-state",
            ),
        ],
    ),
    row(
        "the same, resident: KiB over the same without the layer, accounts only",
        Some(2048.0),
        &[("", "delta: layer/process-kib-accounts")],
    ),
    row(
        "the same with the checker",
        Some(2048.0),
        &[
            ("", "delta: layer/process-kib-checked"),
            (
                "and the state file",
                "delta: layer/process-kib-checked-state",
            ),
        ],
    ),
    row(
        "the library without symbols, KiB",
        Some(1536.0),
        &[("", "count: layer/library-kib")],
    ),
    row(
        "wgpu, 150 dispatches: processor time against the same without the layer",
        Some(1.05),
        &[
            (
                "accounts",
                "ratio: layer/wgpu_dispatch-accounts ours/without",
            ),
            ("checked", "ratio: layer/wgpu_dispatch-checked ours/without"),
            (
                "and the state file",
                "ratio: layer/wgpu_dispatch-checked-state ours/without",
            ),
        ],
    ),
    row(
        "ncnn, 300 inferences: processor time against the same without the layer",
        Some(1.05),
        &[
            (
                "accounts",
                "ratio: layer/ncnn_inferences-accounts ours/without",
            ),
            (
                "checked",
                "ratio: layer/ncnn_inferences-checked ours/without",
            ),
            (
                "and the state file",
                "ratio: layer/ncnn_inferences-checked-state ours/without",
            ),
        ],
    ),
    row(
        "taichi, 1500 kernels: processor time against the same without the layer",
        Some(1.05),
        &[
            (
                "accounts",
                "ratio: layer/taichi_kernels-accounts ours/without",
            ),
            (
                "checked",
                "ratio: layer/taichi_kernels-checked ours/without",
            ),
            (
                "and the state file",
                "ratio: layer/taichi_kernels-checked-state ours/without",
            ),
        ],
    ),
    row(
        "IREE, 100 calls: processor time against the same without the layer",
        Some(1.05),
        &[
            ("accounts", "ratio: layer/iree_module-accounts ours/without"),
            ("checked", "ratio: layer/iree_module-checked ours/without"),
            (
                "and the state file",
                "ratio: layer/iree_module-checked-state ours/without",
            ),
        ],
    ),
    row(
        "Halide, 100 runs: processor time against the same without the layer",
        Some(1.05),
        &[
            (
                "accounts",
                "ratio: layer/halide_pipeline-accounts ours/without",
            ),
            (
                "checked",
                "ratio: layer/halide_pipeline-checked ours/without",
            ),
            (
                "and the state file",
                "ratio: layer/halide_pipeline-checked-state ours/without",
            ),
        ],
    ),
];
