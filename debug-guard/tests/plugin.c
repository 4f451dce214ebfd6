// A library that calls back, so that its own function is a frame of the stack. Its name comes from the compiler's options.

#ifndef PLUGIN
#define PLUGIN call_through
#endif

__attribute__((noinline)) void PLUGIN(void (*call)(void *), void *with) {
    call(with);
    __asm__ volatile("");
}
