/* bcryptprimitives.dll for Wines that have none (before 9): Rust's standard library seeds its hash maps by `ProcessPrng`.
 *
 * Built by `.ci/run windows` and put beside the tests, where a program looks for libraries first. */
#include <windows.h>

/* `RtlGenRandom`, under the name that advapi32 exports it by. */
BOOLEAN WINAPI SystemFunction036(PVOID bytes, ULONG count);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
  const SIZE_T most = 1 << 20;
  while (count > 0) {
    const SIZE_T now = count < most ? count : most;
    if (!SystemFunction036(bytes, (ULONG)now)) return FALSE;
    bytes += now;
    count -= now;
  }
  return TRUE;
}
