/* ralloc's own names, which libsteward-ralloc defines, for code that has no header of Mesa's: undeclared, C would take their answers for int.
 * steward-ralloc.h says what each does. Code that is compiled with Mesa's util/ralloc.h includes that instead. */
#ifndef STEWARD_RALLOC_NAMES_H
#define STEWARD_RALLOC_NAMES_H

#include "steward-ralloc.h"

#ifdef __cplusplus
extern "C" {
#endif

STEWARD_API void *ralloc_context(const void *parent);
STEWARD_API void *ralloc_size(const void *parent, size_t size);
STEWARD_API void *rzalloc_size(const void *parent, size_t size);
STEWARD_API void *reralloc_size(const void *parent, void *old, size_t size);
STEWARD_API void *rerzalloc_size(const void *parent, void *old, size_t old_size, size_t size);
STEWARD_API void *ralloc_array_size(const void *parent, size_t size, unsigned count);
STEWARD_API void *rzalloc_array_size(const void *parent, size_t size, unsigned count);
STEWARD_API void *reralloc_array_size(const void *parent, void *old, size_t size, unsigned count);
STEWARD_API void *rerzalloc_array_size(const void *parent, void *old, size_t size, unsigned old_count, unsigned count);
STEWARD_API void ralloc_free(void *dying);
STEWARD_API void ralloc_steal(const void *parent, void *stolen);
STEWARD_API void ralloc_adopt(const void *parent, void *from);
STEWARD_API void *ralloc_parent(const void *of);
STEWARD_API void ralloc_set_destructor(const void *of, void (*destructor)(void *));
STEWARD_API void *ralloc_memdup(const void *parent, const void *bytes, size_t size);
STEWARD_API char *ralloc_strdup(const void *parent, const char *text);
STEWARD_API char *ralloc_strndup(const void *parent, const char *text, size_t length);
STEWARD_API bool ralloc_strcat(char **text, const char *more);
STEWARD_API bool ralloc_strncat(char **text, const char *more, size_t length);
STEWARD_API bool ralloc_str_append(char **text, const char *more, size_t text_length, size_t more_length);
STEWARD_API char *ralloc_vasprintf(const void *parent, const char *format, va_list arguments);
STEWARD_API bool ralloc_vasprintf_append(char **text, const char *format, va_list arguments);
STEWARD_API bool ralloc_vasprintf_rewrite_tail(char **text, size_t *start, const char *format, va_list arguments);
STEWARD_API void *gc_context(const void *parent);
STEWARD_API void *gc_alloc_size(void *collector, size_t size, size_t align);
STEWARD_API void *gc_zalloc_size(void *collector, size_t size, size_t align);
STEWARD_API void gc_free(void *dying);
STEWARD_API void *gc_get_context(void *of);
STEWARD_API void gc_sweep_start(void *collector);
STEWARD_API void gc_mark_live(void *collector, const void *kept);
STEWARD_API void gc_sweep_end(void *collector);
STEWARD_API void *linear_context(void *parent);
STEWARD_API void *linear_alloc_parent(void *parent, unsigned size);
STEWARD_API void *linear_zalloc_parent(void *parent, unsigned size);
STEWARD_API void *linear_alloc_child(void *handle, unsigned size);
STEWARD_API void *linear_zalloc_child(void *handle, unsigned size);
STEWARD_API void *linear_realloc(void *handle, void *old, unsigned size);
STEWARD_API void linear_free_parent(void *handle);
STEWARD_API void linear_free_context(void *handle);
STEWARD_API void ralloc_steal_linear_parent(void *parent, void *handle);
STEWARD_API void *linear_alloc_child_array(void *handle, size_t size, unsigned count);
STEWARD_API void *linear_zalloc_child_array(void *handle, size_t size, unsigned count);
STEWARD_API void *linear_context_with_opts(void *parent, const unsigned *options);
STEWARD_API void ralloc_steal_linear_context(void *parent, void *handle);
STEWARD_API void *ralloc_parent_of_linear_parent(void *handle);
STEWARD_API void *ralloc_parent_of_linear_context(void *handle);
STEWARD_API char *linear_strdup(void *handle, const char *text);
STEWARD_API bool linear_strcat(void *handle, char **text, const char *more);
STEWARD_API char *linear_vasprintf(void *handle, const char *format, va_list arguments);
STEWARD_API bool linear_vasprintf_append(void *handle, char **text, const char *format, va_list arguments);
STEWARD_API bool linear_vasprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, va_list arguments);
STEWARD_API char *ralloc_asprintf(const void *parent, const char *format, ...) STEWARD_PRINTF(2, 3);
STEWARD_API bool ralloc_asprintf_append(char **text, const char *format, ...) STEWARD_PRINTF(2, 3);
STEWARD_API bool ralloc_asprintf_rewrite_tail(char **text, size_t *start, const char *format, ...) STEWARD_PRINTF(3, 4);
STEWARD_API char *linear_asprintf(void *handle, const char *format, ...) STEWARD_PRINTF(2, 3);
STEWARD_API bool linear_asprintf_append(void *handle, char **text, const char *format, ...) STEWARD_PRINTF(3, 4);
STEWARD_API bool linear_asprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, ...) STEWARD_PRINTF(4, 5);

/* By type, as Mesa's macros. */
#define ralloc(parent, type) ((type *)ralloc_size(parent, sizeof(type)))
#define rzalloc(parent, type) ((type *)rzalloc_size(parent, sizeof(type)))
#define ralloc_array(parent, type, count) ((type *)ralloc_array_size(parent, sizeof(type), count))
#define rzalloc_array(parent, type, count) ((type *)rzalloc_array_size(parent, sizeof(type), count))
#define reralloc(parent, old, type, count) ((type *)reralloc_array_size(parent, old, sizeof(type), count))

#ifdef __cplusplus
}
#endif

#endif
