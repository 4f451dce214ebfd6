//! How a process ended: by which signal.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use super::signals::ENDING;

pub(crate) fn ended_by(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// A process that this signal ended made no mistake of its own.
pub(crate) fn is_from_outside(signal: i32) -> bool {
    signal == libc::SIGKILL || ENDING.contains(&signal)
}

pub(crate) const fn is_abort(signal: i32) -> bool {
    signal == libc::SIGABRT
}

/// What a shell says of a process that this signal ended.
pub(crate) const fn exit_code(signal: i32) -> i32 {
    128 + signal
}

pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => {
            let first = libc::SIGRTMIN();
            return if signal >= first { format!("SIGRTMIN+{}", signal - first) } else { format!("signal {signal}") };
        }
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::signal_name;

    #[test]
    fn every_signal_that_ends_a_program_has_a_name() {
        const HARMLESS: [i32; 8] = [
            libc::SIGCHLD,
            libc::SIGCONT,
            libc::SIGSTOP,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
            libc::SIGURG,
            libc::SIGWINCH,
        ];
        for signal in (1..32).filter(|signal| !HARMLESS.contains(signal)) {
            let name = signal_name(signal);
            assert!(name.starts_with("SIG") && !name.contains('+'), "{name}");
        }
        let last = libc::SIGRTMAX();
        assert!(signal_name(last).starts_with("SIGRTMIN+"), "{last}");
    }
}
