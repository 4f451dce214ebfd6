/// Returns whether `in_child` will be called in each forked child.
pub(crate) fn watch_forks(in_child: extern "C" fn()) -> bool {
    // SAFETY: the library is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) == 0 }
}

#[cfg(test)]
mod tests {
    use crate::fork::watch;
    use crate::once::forks;

    #[test]
    fn lc9_a_child_counts_the_fork_that_led_to_it() {
        watch();
        let before = forks();
        // SAFETY: the child calls nothing but the handler and `_exit`.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "no child");
        if child == 0 {
            let is_counted = forks() == before + 1;
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_counted)) }
        }
        let mut status = -1;
        // SAFETY: the child's number, and room for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status, forks()), (child, 0, before));
    }
}
