/* The one function of another file that Mesa's ralloc.c needs: how long a formatted text is. */
#include <stdarg.h>
#include <stdio.h>

size_t u_printf_length(const char *format, va_list arguments)
{
   va_list copy;
   va_copy(copy, arguments);
   int length = vsnprintf(NULL, 0, format, copy);
   va_end(copy);
   return length < 0 ? 0 : (size_t)length;
}
