/* What ralloc's calls do with text and arrays, over the calls of the library. In C, because functions with variable arguments cannot be defined in
 * Rust. Nothing here keeps state, and every size is checked. */
#include "steward-ralloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* No allocator serves as many bytes: a size that overflows becomes this one, so that the refusal is noted as every other. */
#define TOO_LARGE SIZE_MAX

#define BRIEF 512

static size_t product(size_t size, size_t count)
{
   return count != 0 && size > SIZE_MAX / count ? TOO_LARGE : size * count;
}

static size_t text_size(size_t before, size_t length)
{
   return length >= SIZE_MAX - before ? TOO_LARGE : before + length + 1;
}

/* No byte behind the block is read. */
static bool is_behind(const char *text, size_t size, size_t place)
{
   return place != 0 && (place > size || text[place - 1] == 0);
}

/* Formats as vsnprintf, which keeps the arguments and errno. Returns the text's length; TOO_LARGE where the C library cannot
 * format it. */
static size_t format_text(char *place, size_t size, const char *format, va_list arguments)
{
   int callers = errno;
   va_list copy;
   va_copy(copy, arguments);
   int length = vsnprintf(place, size, format, copy);
   va_end(copy);
   errno = callers;
   return length < 0 ? TOO_LARGE : (size_t)length;
}

static size_t measure(const char *format, va_list arguments)
{
   return format_text(NULL, 0, format, arguments);
}

static void write_text(char *place, size_t length, const char *format, va_list arguments)
{
   format_text(place, length + 1, format, arguments);
}

void *steward_rerzalloc_size(const void *parent, void *old, size_t old_size, size_t size)
{
   if (old == NULL)
      return steward_rzalloc_size(parent, size);
   char *block = steward_reralloc_size(parent, old, size);
   if (block != NULL && size > old_size)
      memset(block + old_size, 0, size - old_size);
   return block;
}

void *steward_ralloc_array_size(const void *parent, size_t size, size_t count)
{
   return steward_ralloc_size(parent, product(size, count));
}

void *steward_rzalloc_array_size(const void *parent, size_t size, size_t count)
{
   return steward_rzalloc_size(parent, product(size, count));
}

void *steward_reralloc_array_size(const void *parent, void *old, size_t size, size_t count)
{
   return steward_reralloc_size(parent, old, product(size, count));
}

void *steward_rerzalloc_array_size(const void *parent, void *old, size_t size, size_t old_count, size_t count)
{
   size_t old_size = product(size, old_count);
   return steward_rerzalloc_size(parent, old, old_size, old_size == TOO_LARGE ? TOO_LARGE : product(size, count));
}

void *steward_ralloc_memdup(const void *parent, const void *bytes, size_t size)
{
   void *copy = steward_ralloc_size(parent, size);
   if (copy != NULL && size != 0)
      memcpy(copy, bytes, size);
   return copy;
}

char *steward_ralloc_strndup(const void *parent, const char *text, size_t length)
{
   if (text == NULL)
      return NULL;
   const char *end = memchr(text, 0, length);
   if (end != NULL)
      length = (size_t)(end - text);
   char *copy = steward_ralloc_size(parent, text_size(0, length));
   if (copy != NULL) {
      memcpy(copy, text, length);
      copy[length] = 0;
   }
   return copy;
}

char *steward_ralloc_strdup(const void *parent, const char *text)
{
   return text == NULL ? NULL : steward_ralloc_strndup(parent, text, strlen(text));
}

/* A text that does not lie in the block. Pointers into different objects cannot be compared, so addresses are. */
#define OUTSIDE SIZE_MAX
static size_t offset_in(const char *block, size_t size, const char *text)
{
   uintptr_t offset = (uintptr_t)text - (uintptr_t)block;
   return offset < size ? (size_t)offset : OUTSIDE;
}

bool steward_ralloc_str_append(char **text, const char *more, size_t text_length, size_t more_length)
{
   size_t old_size = steward_ralloc_block_size(*text), size = text_size(text_length, more_length);
   if (*text != NULL && is_behind(*text, old_size, text_length))
      size = TOO_LARGE;
   size_t offset = offset_in(*text, old_size, more);
   /* What is appended may be a part of the text itself. It moves with the block, and must not be cut off. */
   if (offset != OUTSIDE && size < old_size)
      size = old_size;
   char *both = steward_reralloc_size(NULL, *text, size);
   if (both == NULL)
      return false;
   memmove(both + text_length, offset == OUTSIDE ? more : both + offset, more_length);
   both[text_length + more_length] = 0;
   *text = both;
   return true;
}

bool steward_ralloc_strncat(char **text, const char *more, size_t length)
{
   const char *end = memchr(more, 0, length);
   return steward_ralloc_str_append(text, more, *text == NULL ? 0 : strlen(*text), end == NULL ? length : (size_t)(end - more));
}

bool steward_ralloc_strcat(char **text, const char *more)
{
   return steward_ralloc_str_append(text, more, *text == NULL ? 0 : strlen(*text), strlen(more));
}

char *steward_ralloc_vasprintf(const void *parent, const char *format, va_list arguments)
{
   size_t length = measure(format, arguments);
   char *text = steward_ralloc_size(parent, text_size(0, length));
   if (text != NULL)
      write_text(text, length, format, arguments);
   return text;
}

char *steward_ralloc_asprintf(const void *parent, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   char *text = steward_ralloc_vasprintf(parent, format, arguments);
   va_end(arguments);
   return text;
}

bool steward_ralloc_vasprintf_rewrite_tail(char **text, size_t *start, const char *format, va_list arguments)
{
   if (*text == NULL) {
      *text = steward_ralloc_vasprintf(NULL, format, arguments);
      if (*text != NULL)
         *start = strlen(*text);
      return *text != NULL;
   }
   /* The text is formatted before its block is resized, since the format or an argument may be the text itself. */
   char brief[BRIEF], *tail = brief;
   size_t length = format_text(brief, sizeof brief, format, arguments);
   if (length != TOO_LARGE && length >= sizeof brief) {
      tail = steward_ralloc_size(*text, text_size(0, length));
      if (tail == NULL)
         return false;
      write_text(tail, length, format, arguments);
   }
   size_t size = is_behind(*text, steward_ralloc_block_size(*text), *start) ? TOO_LARGE : text_size(*start, length);
   char *whole = steward_reralloc_size(NULL, *text, size);
   if (whole != NULL) {
      memcpy(whole + *start, tail, length);
      whole[*start + length] = 0;
      *text = whole;
      *start += length;
   }
   if (tail != brief)
      steward_ralloc_free(tail);
   return whole != NULL;
}

bool steward_ralloc_asprintf_rewrite_tail(char **text, size_t *start, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_ralloc_vasprintf_rewrite_tail(text, start, format, arguments);
   va_end(arguments);
   return written;
}

bool steward_ralloc_vasprintf_append(char **text, const char *format, va_list arguments)
{
   size_t length = *text == NULL ? 0 : strlen(*text);
   return steward_ralloc_vasprintf_rewrite_tail(text, &length, format, arguments);
}

bool steward_ralloc_asprintf_append(char **text, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_ralloc_vasprintf_append(text, format, arguments);
   va_end(arguments);
   return written;
}

char *steward_linear_strdup(void *handle, const char *text)
{
   if (text == NULL)
      return NULL;
   size_t size = strlen(text) + 1;
   char *copy = steward_linear_alloc(handle, size);
   if (copy != NULL)
      memcpy(copy, text, size);
   return copy;
}

/* Not by resizing, since not all linear memory knows sizes. */
static char *linear_begun(void *handle, const char *text, size_t kept, size_t size)
{
   char *begun = steward_linear_alloc(handle, size);
   if (begun != NULL && kept != 0)
      memcpy(begun, text, kept);
   return begun;
}

bool steward_linear_strcat(void *handle, char **text, const char *more)
{
   size_t length = *text == NULL ? 0 : strlen(*text), more_size = strlen(more) + 1;
   char *both = linear_begun(handle, *text, length, length + more_size);
   if (both == NULL)
      return false;
   memcpy(both + length, more, more_size);
   *text = both;
   return true;
}

char *steward_linear_vasprintf(void *handle, const char *format, va_list arguments)
{
   size_t length = measure(format, arguments);
   char *text = steward_linear_alloc(handle, text_size(0, length));
   if (text != NULL)
      write_text(text, length, format, arguments);
   return text;
}

char *steward_linear_asprintf(void *handle, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   char *text = steward_linear_vasprintf(handle, format, arguments);
   va_end(arguments);
   return text;
}

bool steward_linear_vasprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, va_list arguments)
{
   if (*text == NULL) {
      *text = steward_linear_vasprintf(handle, format, arguments);
      if (*text != NULL)
         *start = strlen(*text);
      return *text != NULL;
   }
   size_t length = measure(format, arguments);
   /* What is kept is read once more when it is copied. */
   size_t size = memchr(*text, 0, *start) != NULL ? TOO_LARGE : text_size(*start, length);
   char *whole = linear_begun(handle, *text, *start, size);
   if (whole == NULL)
      return false;
   write_text(whole + *start, length, format, arguments);
   *text = whole;
   *start += length;
   return true;
}

bool steward_linear_asprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_linear_vasprintf_rewrite_tail(handle, text, start, format, arguments);
   va_end(arguments);
   return written;
}

bool steward_linear_vasprintf_append(void *handle, char **text, const char *format, va_list arguments)
{
   size_t length = *text == NULL ? 0 : strlen(*text);
   return steward_linear_vasprintf_rewrite_tail(handle, text, &length, format, arguments);
}

bool steward_linear_asprintf_append(void *handle, char **text, const char *format, ...)
{
   va_list arguments;
   va_start(arguments, format);
   bool written = steward_linear_vasprintf_append(handle, text, format, arguments);
   va_end(arguments);
   return written;
}
