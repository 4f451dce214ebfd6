"""wgpu: dispatches of one compute shader over one buffer; prints a hash of the buffer."""

import hashlib
import sys

import wgpu

DISPATCHES = int(sys.argv[1]) if len(sys.argv) > 1 else 150
COUNT = 4096
SHADER = """
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = data[id.x] * 1664525u + id.x + 1013904223u;
}
"""

adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
assert adapter.info["backend_type"] == "Vulkan", adapter.info
device = adapter.request_device_sync()
usage = wgpu.BufferUsage
buffer = device.create_buffer(size=4 * COUNT, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
device.queue.write_buffer(buffer, 0, bytes(4 * COUNT))
module = device.create_shader_module(code=SHADER)
pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
bindings = device.create_bind_group(
    layout=pipeline.get_bind_group_layout(0),
    entries=[{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 4 * COUNT}}],
)
for _ in range(DISPATCHES):
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, bindings)
    compute.dispatch_workgroups(COUNT // 64)
    compute.end()
    device.queue.submit([encoder.finish()])
result = bytes(device.queue.read_buffer(buffer))
print("result:", hashlib.sha256(result).hexdigest())
