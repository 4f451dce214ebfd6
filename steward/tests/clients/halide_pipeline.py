"""Halide: a pipeline for Vulkan, compiled at run time; prints a hash of the output."""

import hashlib
import sys

import halide as hl
import numpy as np

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 20

x, y = hl.Var("x"), hl.Var("y")
xo, yo, xi, yi = hl.Var("xo"), hl.Var("yo"), hl.Var("xi"), hl.Var("yi")
source = hl.Buffer((np.arange(128 * 128) % 251).astype(np.int32).reshape(128, 128))
step = hl.Func("step")
step[x, y] = source[x, y] * 3 + x - y
step.gpu_tile(x, y, xo, yo, xi, yi, 8, 8)
target = hl.Target("host-vulkan-vk_int8-vk_int16")
step.compile_jit(target)
output = hl.Buffer(hl.Int(32), [128, 128])
for _ in range(RUNS):
    step.realize(output, target)
output.copy_to_host()
print("result:", hashlib.sha256(np.ascontiguousarray(np.array(output)).tobytes()).hexdigest())
