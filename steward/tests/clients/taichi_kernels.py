"""taichi: kernels over one field; prints a hash of the field."""

import hashlib
import sys

import taichi as ti

KERNELS = int(sys.argv[1]) if len(sys.argv) > 1 else 200

ti.init(arch=ti.vulkan, offline_cache=False, log_level=ti.ERROR)
assert ti.cfg.arch == ti.vulkan, "taichi fell back to another back end"
data = ti.field(dtype=ti.u32, shape=4096)


@ti.kernel
def step(round: ti.u32):
    for i in data:
        data[i] = data[i] * ti.u32(1664525) + ti.cast(i, ti.u32) + round


for round in range(KERNELS):
    step(round)
print("result:", hashlib.sha256(data.to_numpy().tobytes()).hexdigest())
