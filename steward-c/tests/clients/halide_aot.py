"""Compiles a pipeline for the host with Vulkan, ahead of time, into the folder that is named."""
import sys

import halide as hl

folder = sys.argv[1]
values = hl.ImageParam(hl.UInt(32), 1, "values")
x, outer, inner = hl.Var("x"), hl.Var("outer"), hl.Var("inner")
pipeline = hl.Func("pipeline")
pipeline[x] = values[x] * 2 + 1
pipeline.gpu_tile(x, outer, inner, 64)
outputs = {
    hl.OutputFileType.static_library: folder + "/pipeline.a",
    hl.OutputFileType.c_header: folder + "/pipeline.h",
}
pipeline.compile_to(outputs, [values], "pipeline", hl.Target("host-vulkan"))
