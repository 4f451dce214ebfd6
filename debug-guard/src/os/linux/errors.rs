#![forbid(unsafe_code)]

pub(crate) fn describe(call: &str, errno: i32) -> (&'static str, &'static str) {
    (name(errno), remedy(call, errno))
}

const fn name(errno: i32) -> &'static str {
    match errno {
        1 => "EPERM",
        4 => "EINTR",
        9 => "EBADF",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        14 => "EFAULT",
        16 => "EBUSY",
        17 => "EEXIST",
        22 => "EINVAL",
        24 => "EMFILE",
        25 => "ENOTTY",
        38 => "ENOSYS",
        _ => "see errno(3)",
    }
}

fn remedy(call: &str, errno: i32) -> &'static str {
    match (errno, call) {
        (1 | 13, _) => "a seccomp filter or a security policy forbids it: allow it, or use another back end",
        (38 | 22 | 25, _) => "the kernel is older than the call: use another back end, or a newer kernel",
        (12, _) => "out of memory or of mappings: guard fewer blocks",
        (24, _) => "too many open files: raise the limit",
        _ => "use another back end",
    }
}
