/* ralloc's own names, for code that was compiled with Mesa's headers: a library of its own, so that nobody gets them unasked. The linear calls
 * serve headers that pass a context and older ones that pass the first suballocation. */
#include "steward-ralloc-names.h"

#include <string.h>

static void *zeroed(void *block, size_t size)
{
   return block == NULL ? NULL : memset(block, 0, size);
}

void *ralloc_context(const void *parent)
{
   return steward_ralloc_size(parent, 0);
}

void *ralloc_size(const void *parent, size_t size)
{
   return steward_ralloc_size(parent, size);
}

void *rzalloc_size(const void *parent, size_t size)
{
   return steward_rzalloc_size(parent, size);
}

void *reralloc_size(const void *parent, void *old, size_t size)
{
   return steward_reralloc_size(parent, old, size);
}

void *rerzalloc_size(const void *parent, void *old, size_t old_size, size_t size)
{
   return steward_rerzalloc_size(parent, old, old_size, size);
}

void *ralloc_array_size(const void *parent, size_t size, unsigned count)
{
   return steward_ralloc_array_size(parent, size, count);
}

void *rzalloc_array_size(const void *parent, size_t size, unsigned count)
{
   return steward_rzalloc_array_size(parent, size, count);
}

void *reralloc_array_size(const void *parent, void *old, size_t size, unsigned count)
{
   return steward_reralloc_array_size(parent, old, size, count);
}

void *rerzalloc_array_size(const void *parent, void *old, size_t size, unsigned old_count, unsigned count)
{
   return steward_rerzalloc_array_size(parent, old, size, old_count, count);
}

void ralloc_free(void *dying)
{
   steward_ralloc_free(dying);
}

void ralloc_steal(const void *parent, void *stolen)
{
   steward_ralloc_steal(parent, stolen);
}

void ralloc_adopt(const void *parent, void *from)
{
   steward_ralloc_adopt(parent, from);
}

void *ralloc_parent(const void *of)
{
   return steward_ralloc_parent(of);
}

void ralloc_set_destructor(const void *of, void (*destructor)(void *))
{
   steward_ralloc_set_destructor(of, destructor);
}

void *ralloc_memdup(const void *parent, const void *bytes, size_t size)
{
   return steward_ralloc_memdup(parent, bytes, size);
}

char *ralloc_strdup(const void *parent, const char *text)
{
   return steward_ralloc_strdup(parent, text);
}

char *ralloc_strndup(const void *parent, const char *text, size_t length)
{
   return steward_ralloc_strndup(parent, text, length);
}

bool ralloc_strcat(char **text, const char *more)
{
   return steward_ralloc_strcat(text, more);
}

bool ralloc_strncat(char **text, const char *more, size_t length)
{
   return steward_ralloc_strncat(text, more, length);
}

bool ralloc_str_append(char **text, const char *more, size_t text_length, size_t more_length)
{
   return steward_ralloc_str_append(text, more, text_length, more_length);
}

char *ralloc_vasprintf(const void *parent, const char *format, va_list arguments)
{
   return steward_ralloc_vasprintf(parent, format, arguments);
}

bool ralloc_vasprintf_append(char **text, const char *format, va_list arguments)
{
   return steward_ralloc_vasprintf_append(text, format, arguments);
}

bool ralloc_vasprintf_rewrite_tail(char **text, size_t *start, const char *format, va_list arguments)
{
   return steward_ralloc_vasprintf_rewrite_tail(text, start, format, arguments);
}

void *gc_context(const void *parent)
{
   return steward_gc_context(parent);
}

void *gc_alloc_size(void *collector, size_t size, size_t align)
{
   return steward_gc_alloc_size(collector, size, align);
}

void *gc_zalloc_size(void *collector, size_t size, size_t align)
{
   return steward_gc_zalloc_size(collector, size, align);
}

void gc_free(void *dying)
{
   steward_ralloc_free(dying);
}

void *gc_get_context(void *of)
{
   return steward_ralloc_parent(of);
}

void gc_sweep_start(void *collector)
{
   steward_gc_sweep_start(collector);
}

void gc_mark_live(void *collector, const void *kept)
{
   steward_gc_mark_live(collector, kept);
}

void gc_sweep_end(void *collector)
{
   steward_gc_sweep_end(collector);
}

void *linear_context(void *parent)
{
   return steward_linear_context(parent, 0);
}

void *linear_alloc_parent(void *parent, unsigned size)
{
   return steward_linear_new(parent, size);
}

void *linear_zalloc_parent(void *parent, unsigned size)
{
   return zeroed(steward_linear_new(parent, size), size);
}

void *linear_alloc_child(void *handle, unsigned size)
{
   return steward_linear_alloc(handle, size);
}

void *linear_zalloc_child(void *handle, unsigned size)
{
   return steward_linear_zalloc(handle, size);
}

void *linear_realloc(void *handle, void *old, unsigned size)
{
   return steward_linear_realloc(handle, old, size);
}

void linear_free_parent(void *handle)
{
   steward_ralloc_free(steward_linear_block(handle));
}

void linear_free_context(void *handle)
{
   steward_ralloc_free(steward_linear_block(handle));
}

void ralloc_steal_linear_parent(void *parent, void *handle)
{
   steward_ralloc_steal(parent, steward_linear_block(handle));
}

void *linear_alloc_child_array(void *handle, size_t size, unsigned count)
{
   return steward_linear_alloc(handle, size != 0 && count > SIZE_MAX / size ? SIZE_MAX : size * count);
}

void *linear_zalloc_child_array(void *handle, size_t size, unsigned count)
{
   return steward_linear_zalloc(handle, size != 0 && count > SIZE_MAX / size ? SIZE_MAX : size * count);
}

/* The options are one number: the least bytes of a chunk. */
void *linear_context_with_opts(void *parent, const unsigned *options)
{
   return steward_linear_context(parent, *options);
}

void ralloc_steal_linear_context(void *parent, void *handle)
{
   steward_ralloc_steal(parent, steward_linear_block(handle));
}

void *ralloc_parent_of_linear_parent(void *handle)
{
   return steward_ralloc_parent(steward_linear_block(handle));
}

void *ralloc_parent_of_linear_context(void *handle)
{
   return steward_ralloc_parent(steward_linear_block(handle));
}

char *linear_strdup(void *handle, const char *text)
{
   return steward_linear_strdup(handle, text);
}

bool linear_strcat(void *handle, char **text, const char *more)
{
   return steward_linear_strcat(handle, text, more);
}

char *linear_vasprintf(void *handle, const char *format, va_list arguments)
{
   return steward_linear_vasprintf(handle, format, arguments);
}

bool linear_vasprintf_append(void *handle, char **text, const char *format, va_list arguments)
{
   return steward_linear_vasprintf_append(handle, text, format, arguments);
}

bool linear_vasprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, va_list arguments)
{
   return steward_linear_vasprintf_rewrite_tail(handle, text, start, format, arguments);
}

char *ralloc_asprintf(const void *parent, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   char *text = steward_ralloc_vasprintf(parent, format, arguments);
   va_end(arguments);
   return text;
}

bool ralloc_asprintf_append(char **text, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_ralloc_vasprintf_append(text, format, arguments);
   va_end(arguments);
   return written;
}

bool ralloc_asprintf_rewrite_tail(char **text, size_t *start, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_ralloc_vasprintf_rewrite_tail(text, start, format, arguments);
   va_end(arguments);
   return written;
}

char *linear_asprintf(void *handle, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   char *text = steward_linear_vasprintf(handle, format, arguments);
   va_end(arguments);
   return text;
}

bool linear_asprintf_append(void *handle, char **text, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_linear_vasprintf_append(handle, text, format, arguments);
   va_end(arguments);
   return written;
}

bool linear_asprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_linear_vasprintf_rewrite_tail(handle, text, start, format, arguments);
   va_end(arguments);
   return written;
}
