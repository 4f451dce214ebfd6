//! A filter that denies a system call, to this thread and whatever it starts.

/// From now on `userfaultfd` answers `EPERM`, as it does in many containers; tried, not assumed.
pub(super) fn deny_userfaultfd() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let (jump, answer) = ((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, (libc::BPF_RET | libc::BPF_K) as u16);
    let number = u32::try_from(libc::SYS_userfaultfd).expect("a number of a call");
    let mut program = [
        libc::sock_filter { code: load, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: jump, jt: 0, jf: 1, k: number },
        libc::sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned() },
        libc::sock_filter { code: answer, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: gives up what this process will not ask for.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: a program that ends in an answer on every path; the kernel checks it and makes a copy.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter, 0, 0) }, 0);
    // SAFETY: a call that the filter answers.
    let answered = unsafe { libc::syscall(libc::SYS_userfaultfd, 0) };
    assert_eq!((answered, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
}
