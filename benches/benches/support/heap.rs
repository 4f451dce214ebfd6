//! The C library's heap, kept from giving pages back: otherwise rows about memory become rows about page faults.

/// No trimming and no separate mappings from here on. Where the C library has no such switch, says so.
pub fn keep_pages() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [
        (libc::M_TRIM_THRESHOLD, i32::MAX),
        (libc::M_MMAP_THRESHOLD, i32::MAX / 2),
        (libc::M_TOP_PAD, 64 << 20),
        (libc::M_MMAP_MAX, 0),
    ] {
        // SAFETY: no other thread runs yet.
        let answer = unsafe { libc::mallopt(option, value) };
        if answer != 1 {
            println!("SKIPPED keep_pages: mallopt refused option {option}");
        }
    }
    #[cfg(not(target_env = "gnu"))]
    println!("SKIPPED keep_pages: no mallopt here; the system rows are about page faults");
}
