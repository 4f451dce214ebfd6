/* ralloc's calls over contexts: blocks that own blocks, with 32 bytes in front of each.
 *
 * Freeing a block frees all below it: children before their parents, newer ones before older. Only allocating and resizing can fail: they return
 * NULL (false), and everything is as it was. Payloads are aligned to 16 bytes.
 *
 * A tree of blocks is one thread's at a time; trees of one domain may be used by several threads at once. An allocator behind a domain may use
 * any tree but the one that is being changed.
 *
 * A block is allocated in its parent's domain. Where the parent is NULL, it is the thread's current domain (steward_ralloc_enter), or else the
 * process's own, over the C library. A block keeps its domain wherever it is stolen to. What a domain's fallback serves is a block of the
 * fallback, and so are blocks below it; a block that is resized may become one.
 *
 * libsteward-ralloc defines ralloc's own names over these.
 */
#ifndef STEWARD_RALLOC_H
#define STEWARD_RALLOC_H

#include <stdarg.h>

#include "steward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Formats are C99's, also where the C runtime's own are not. */
#if defined(__MINGW32__) && !defined(__clang__)
#define STEWARD_PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
#define STEWARD_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define STEWARD_PRINTF(text, first)
#endif

typedef struct steward_domain steward_domain;
typedef void (*steward_destructor_fn)(void *payload);

/* The context becomes the domain's; on failure it stays the caller's. fallback, which may be NULL, serves what the context refuses, for code
 * that cannot survive a NULL, until either domain is closed. */
STEWARD_API int32_t steward_domain_new(steward_context *owner, const steward_domain *fallback, steward_domain **out);
/* A domain over bytes that are set aside now, as one block of the context, which stays the caller's: a fallback that works when there is no
 * memory. About 1 KiB of it is its own record; what is left serves blocks of all domains that fall back to it, and is whole again when they
 * are freed. When it is full, NULL is the answer. */
STEWARD_API int32_t steward_domain_reserve(const steward_context *owner, size_t bytes, steward_domain **out);
/* Nothing more can be allocated; whoever frees the last block ends the domain and its context. */
STEWARD_API void steward_domain_close(steward_domain *domain);
/* Whether the fallback was asked since the last call. */
STEWARD_API bool steward_domain_reset_refused(const steward_domain *domain);

/* Makes a domain the thread's current one, NULL the process's own; returns the one before, for steward_ralloc_leave.
 * No domain may be closed while it is a thread's current one. */
STEWARD_API steward_domain *steward_ralloc_enter(steward_domain *domain);
STEWARD_API void steward_ralloc_leave(steward_domain *before);
/* A block without a parent and without bytes, in a domain. */
STEWARD_API void *steward_ralloc_root(const steward_domain *domain);

STEWARD_API void *steward_ralloc_size(const void *parent, size_t size);
STEWARD_API void *steward_rzalloc_size(const void *parent, size_t size);
/* old may be NULL. The block keeps its place, its parent, its children and its destructor. Where the block moves, the time grows with the number
 * of its children, each of which names its parent: what grows often is better a child of its own, without children. */
STEWARD_API void *steward_reralloc_size(const void *parent, void *old, size_t size);
STEWARD_API void steward_ralloc_free(void *dying);
/* Changes nothing where parent lies below the block. */
STEWARD_API void steward_ralloc_steal(const void *parent, void *stolen);
STEWARD_API void steward_ralloc_adopt(const void *parent, void *from);
STEWARD_API void *steward_ralloc_parent(const void *of);
STEWARD_API size_t steward_ralloc_block_size(const void *of);
/* Called once all below the block is gone. It may free siblings and allocate below the block; it must not unwind. NULL removes it. A process has
 * room for 4092 different destructors. False, and nothing changed: for one more, for a block that a collector frees, and for a destructor of a
 * block that is being freed. */
STEWARD_API bool steward_ralloc_set_destructor(const void *of, steward_destructor_fn destructor);

/* A collector is any block but one that is collected itself: that is refused, and its sweep does nothing. A collected block has no destructor.
 * align is at most 16. What steward_gc_context makes keeps blocks of up to 512 bytes in slabs, with 8 bytes in front of each: they can be freed,
 * and asked for their size and for their parent, the collector; NULL is the answer to all else. It has no destructor itself, is not resized,
 * and its children cannot be adopted. */
STEWARD_API void *steward_gc_context(const void *parent);
STEWARD_API void *steward_gc_alloc_size(void *collector, size_t size, size_t align);
STEWARD_API void *steward_gc_zalloc_size(void *collector, size_t size, size_t align);
STEWARD_API void steward_gc_sweep_start(void *collector);
STEWARD_API void steward_gc_mark_live(void *collector, const void *kept);
STEWARD_API void steward_gc_sweep_end(void *collector);

/* Linear memory: suballocations aligned to 8, which are freed together. The handle of steward_linear_new is the first suballocation, of first
 * bytes, and a suballocation can be resized, for which its size stands in front of it. The handle of steward_linear_context is none; there
 * suballocations stand directly one after the other, in chunks of at least chunk bytes, and steward_linear_realloc returns NULL. */
STEWARD_API void *steward_linear_new(const void *parent, size_t first);
STEWARD_API void *steward_linear_context(const void *parent, size_t chunk);
STEWARD_API void *steward_linear_alloc(void *handle, size_t size);
STEWARD_API void *steward_linear_zalloc(void *handle, size_t size);
STEWARD_API void *steward_linear_realloc(void *handle, void *old, size_t size);
/* The block of the whole, to be freed, stolen or asked for its parent. */
STEWARD_API void *steward_linear_block(void *handle);

/* Text: c/ralloc_text.c. NULL or false where there is no memory, or no text; a text that the C library cannot format is too large, and so is one
 * that *start or text_length would continue behind its end. Where *text is NULL, *start is not read, and becomes the text's length. What is
 * appended, a format and its arguments may be *text itself or parts of it. */
STEWARD_API void *steward_rerzalloc_size(const void *parent, void *old, size_t old_size, size_t size);
STEWARD_API void *steward_ralloc_array_size(const void *parent, size_t size, size_t count);
STEWARD_API void *steward_rzalloc_array_size(const void *parent, size_t size, size_t count);
STEWARD_API void *steward_reralloc_array_size(const void *parent, void *old, size_t size, size_t count);
STEWARD_API void *steward_rerzalloc_array_size(const void *parent, void *old, size_t size, size_t old_count, size_t count);
STEWARD_API void *steward_ralloc_memdup(const void *parent, const void *bytes, size_t size);
STEWARD_API char *steward_ralloc_strdup(const void *parent, const char *text);
STEWARD_API char *steward_ralloc_strndup(const void *parent, const char *text, size_t length);
STEWARD_API bool steward_ralloc_strcat(char **text, const char *more);
STEWARD_API bool steward_ralloc_strncat(char **text, const char *more, size_t length);
STEWARD_API bool steward_ralloc_str_append(char **text, const char *more, size_t text_length, size_t more_length);
STEWARD_API char *steward_ralloc_asprintf(const void *parent, const char *format, ...) STEWARD_PRINTF(2, 3);
STEWARD_API char *steward_ralloc_vasprintf(const void *parent, const char *format, va_list arguments);
STEWARD_API bool steward_ralloc_asprintf_append(char **text, const char *format, ...) STEWARD_PRINTF(2, 3);
STEWARD_API bool steward_ralloc_vasprintf_append(char **text, const char *format, va_list arguments);
STEWARD_API bool steward_ralloc_asprintf_rewrite_tail(char **text, size_t *start, const char *format, ...) STEWARD_PRINTF(3, 4);
STEWARD_API bool steward_ralloc_vasprintf_rewrite_tail(char **text, size_t *start, const char *format, va_list arguments);
STEWARD_API char *steward_linear_strdup(void *handle, const char *text);
STEWARD_API bool steward_linear_strcat(void *handle, char **text, const char *more);
STEWARD_API char *steward_linear_asprintf(void *handle, const char *format, ...) STEWARD_PRINTF(2, 3);
STEWARD_API char *steward_linear_vasprintf(void *handle, const char *format, va_list arguments);
STEWARD_API bool steward_linear_asprintf_append(void *handle, char **text, const char *format, ...) STEWARD_PRINTF(3, 4);
STEWARD_API bool steward_linear_vasprintf_append(void *handle, char **text, const char *format, va_list arguments);
STEWARD_API bool steward_linear_asprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, ...) STEWARD_PRINTF(4, 5);
STEWARD_API bool steward_linear_vasprintf_rewrite_tail(void *handle, char **text, size_t *start, const char *format, va_list arguments);

#ifdef __cplusplus
}
#endif

#endif
