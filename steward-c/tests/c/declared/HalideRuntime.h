/* What the block allocator names of Halide's runtime, declared anew. */
#ifndef HALIDE_HALIDERUNTIME_H
#define HALIDE_HALIDERUNTIME_H

#include <stddef.h>
#include <stdint.h>

enum { halide_error_code_success = 0, halide_error_code_internal_error = -26 };

#endif
