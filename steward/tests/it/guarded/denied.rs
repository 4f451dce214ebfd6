//! Filters that deny system calls, to this thread and whatever it starts.

use libc::{c_long, sock_filter};

/// A system call that is denied: its number, one of its arguments where not all calls are meant, and what it answers;
/// 0: that it was done.
#[derive(Clone, Copy)]
pub(super) struct Denied {
    call: c_long,
    argument: Option<(u32, u32)>,
    errno: i32,
}

/// As in many containers.
pub(super) const USERFAULTFD: Denied = Denied { call: libc::SYS_userfaultfd, argument: None, errno: libc::EPERM };
/// `MADV_GUARD_INSTALL`, as a kernel before 6.13 answers it.
pub(super) const GUARD_MARKERS: Denied =
    Denied { call: libc::SYS_madvise, argument: Some((2, 102)), errno: libc::EINVAL };
/// `mprotect(.., PROT_NONE)`, which answers that it was done and does nothing: threads ask for it as they start, and
/// end where it fails.
pub(super) const OUT_OF_REACH: Denied = Denied { call: libc::SYS_mprotect, argument: Some((2, 0)), errno: 0 };

/// Denies them from now on; each is tried, not assumed.
pub(super) fn deny(denied: &[Denied]) {
    let load = |k| sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k };
    let unless = |k, jf| sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf, k };
    let answer = |k| sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k };
    let mut program = Vec::new();
    for Denied { call, argument, errno } in denied {
        let number = u32::try_from(*call).expect("a number of a call");
        program.extend([load(0), unless(number, if argument.is_some() { 3 } else { 1 })]);
        if let Some((argument, value)) = argument {
            // The lower half of the argument, on little-endian machines.
            program.extend([load(16 + 8 * argument), unless(*value, 1)]);
        }
        program.push(answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: u16::try_from(program.len()).expect("short"), filter: program.as_mut_ptr() };
    assert_eq!(
        // SAFETY: gives up what this process will not ask for.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
        0
    );
    assert_eq!(
        // SAFETY: a program that ends in an answer on every path; the kernel checks it and makes a copy.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter, 0, 0,) },
        0
    );
    for Denied { call, argument, errno } in denied {
        // SAFETY: a call that the filter answers.
        let answered = unsafe { libc::syscall(*call, 0, 0, argument.map_or(0, |(_, value)| value)) };
        let expected = if *errno == 0 { 0 } else { -1 };
        assert_eq!(answered, expected, "call {call}");
        assert!(*errno == 0 || std::io::Error::last_os_error().raw_os_error() == Some(*errno), "call {call}");
    }
}
