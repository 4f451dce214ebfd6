// The module of accounts.c:
//   iree-compile twice.mlir --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu -o cpu.vmfb
//   iree-compile twice.mlir --iree-hal-target-device=vulkan -o spirv.vmfb
func.func @twice(%values: tensor<4xf32>) -> tensor<4xf32> {
  %twice = arith.addf %values, %values : tensor<4xf32>
  return %twice : tensor<4xf32>
}
