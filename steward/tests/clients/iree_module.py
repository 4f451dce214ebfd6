"""IREE: a small module, compiled for Vulkan and run; prints a hash of the results."""

import hashlib
import sys

import iree.compiler as compiler
import iree.runtime as runtime
import numpy as np

CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
MODULE = """
func.func @step(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x64xf32>) -> tensor<64x64xf32>
  %product = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
  %sum = arith.addf %product, %a : tensor<64x64xf32>
  return %sum : tensor<64x64xf32>
}
"""



def to_host(device, source):
    """The bytes of a buffer, by a copy to one that the host can map."""
    staging = device.allocator.allocate_buffer(
        memory_type=int(runtime.MemoryType.HOST_LOCAL | runtime.MemoryType.DEVICE_VISIBLE),
        allowed_usage=int(runtime.BufferUsage.TRANSFER_TARGET | runtime.BufferUsage.MAPPING_SCOPED),
        allocation_size=source.byte_length(),
    )
    semaphore = device.create_semaphore(0)
    device.queue_copy(
        source,
        staging,
        wait_semaphores=runtime.HalFence.create_at(semaphore, 0),
        signal_semaphores=runtime.HalFence.create_at(semaphore, 1),
    )
    runtime.HalFence.create_at(semaphore, 1).wait()
    mapped = staging.map()
    return mapped.asarray([source.byte_length()], np.dtype(np.uint8)).copy()


binary = compiler.compile_str(MODULE, target_backends=["vulkan-spirv"])
config = runtime.Config("vulkan")
module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, binary), config)
values = ((np.arange(64 * 64) % 7) - 3).astype(np.float32).reshape(64, 64)
step = (np.eye(64) / 2).astype(np.float32)
for _ in range(CALLS):
    result = module.step(values, step)
# Not `to_host`: it imports memory of Python's that is not aligned as the driver requires.
result = to_host(config.device, result._buffer_view.get_buffer())
print("result:", hashlib.sha256(result.tobytes()).hexdigest())
