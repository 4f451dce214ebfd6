"""ncnn: inferences of a small network that is built here; prints a hash of the last output."""

import hashlib
import os
import sys
import tempfile

import ncnn
import numpy as np

INFERENCES = int(sys.argv[1]) if len(sys.argv) > 1 else 20
CHANNELS = 8
PARAM = f"""7767517
4 4
Input in0 0 1 in0
Convolution conv0 1 1 in0 a 0={CHANNELS} 1=3 4=1 5=1 6={CHANNELS * 3 * 9}
ReLU relu0 1 1 a b
Convolution conv1 1 1 b out0 0={CHANNELS} 1=3 4=1 5=1 6={CHANNELS * CHANNELS * 9}
"""


def weights(outputs, inputs):
    """One convolution's weights as float32 behind their flag, and its bias."""
    values = (np.arange(outputs * inputs * 9) % 17 - 8) / 64
    return bytes(4) + values.astype(np.float32).tobytes() + np.full(outputs, 0.125, np.float32).tobytes()


assert ncnn.get_gpu_count() > 0, "ncnn sees no Vulkan device"
net = ncnn.Net()
net.opt.use_vulkan_compute = True
net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
with tempfile.TemporaryDirectory() as folder:
    param, model = os.path.join(folder, "net.param"), os.path.join(folder, "net.bin")
    with open(param, "w") as file:
        file.write(PARAM)
    with open(model, "wb") as file:
        file.write(weights(CHANNELS, 3) + weights(CHANNELS, CHANNELS))
    assert net.load_param(param) == 0 and net.load_model(model) == 0
pixels = ((np.arange(3 * 32 * 32) % 101) / 101).astype(np.float32).reshape(3, 32, 32)
picture = ncnn.Mat(pixels).clone()
for _ in range(INFERENCES):
    extractor = net.create_extractor()
    extractor.input("in0", picture)
    status, output = extractor.extract("out0")
    assert status == 0, status
result = np.array(output).astype(np.float32)
assert np.isfinite(result).all() and result.any()
print("result:", hashlib.sha256(result.tobytes()).hexdigest())
del extractor, output
net.clear()
ncnn.destroy_gpu_instance()
