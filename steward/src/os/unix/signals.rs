//! The signals that end programs, while a child runs: this process passes on those that the child did not get, waits
//! for the child, and only then ends, so that it can report and remove its temporary files.
//!
//! ```text
//!   terminal, kill -- -GROUP ---> the whole process group, also the child          nothing to pass on
//!   kill PID --------------------> this process alone                    --------> passed on, once
//! ```
//!
//! The kernel does not tell the two kinds of `kill` apart. [`GroupProbe`] does.

use std::io::{self, PipeReader, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::group_probe::{GroupProbe, PROBE_COMMAND, become_probe};
use crate::os::{ChildKind, HelperError};

/// These signals end a process, and do not say that it is broken. `SIGKILL` cannot be held.
pub(super) const ENDING: [i32; 13] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];
const OF_TERMINAL: [i32; 3] = [libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
/// In a note: the kernel sent the signal, on behalf of a terminal.
const BY_KERNEL: u8 = 0x80;

const PAUSE: Duration = Duration::from_millis(50);

/// The writing end of the pipe of notes, which is never closed.
static NOTES: AtomicI32 = AtomicI32::new(-1);
/// The reading end. Locked by the one holder of the process's signals.
static HOLDER: Mutex<Option<PipeReader>> = Mutex::new(None);

/// The process's signals, held until this is dropped. One holder at a time; another one waits. A signal that has a
/// handler already is not held: it does not end the process. With a helper, one that came after the last
/// [`interrupted`](HeldSignals::interrupted) is raised again on drop.
pub(crate) struct HeldSignals {
    kind: ChildKind,
    notes: MutexGuard<'static, Option<PipeReader>>,
    /// What the signals did before, which is what they do in children.
    before: Vec<(i32, libc::sigaction)>,
    mask: libc::sigset_t,
    probe: Option<GroupProbe>,
    /// The last that arrived.
    last: Option<i32>,
}

impl HeldSignals {
    /// The signals are held also after a child's end, so that a second one does not end this process before it has
    /// reported.
    pub(crate) fn new(kind: ChildKind) -> io::Result<Self> {
        let mut notes = HOLDER.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.is_none() {
            let (reader, writer) = io::pipe()?;
            rustix::io::ioctl_fionbio(&reader, true)?;
            rustix::io::ioctl_fionbio(&writer, true)?;
            NOTES.store(writer.into_raw_fd(), Ordering::Relaxed);
            *notes = Some(reader);
        }
        let mut held = Self {
            kind,
            notes,
            before: Vec::new(),
            mask: change_mask(libc::SIG_UNBLOCK, &[libc::SIGCHLD])?,
            probe: None,
            last: None,
        };
        // Notes of the holder before are about its child.
        held.arrived();
        if kind == ChildKind::Program {
            // Without one, signals by `kill` are passed on in any case.
            held.probe = GroupProbe::start().ok();
        }
        for signal in ENDING.into_iter().chain([libc::SIGCHLD]) {
            let before = action(signal)?;
            let is_ending = signal != libc::SIGCHLD;
            let has_handler = ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction);
            if is_ending && has_handler {
                // It does not end this process: a preloaded profiler's, whose clock sends it again and again.
                continue;
            }
            held.before.push((signal, before));
            let is_ignored = is_ending && before.sa_sigaction == libc::SIG_IGN;
            if is_ignored && kind == ChildKind::Helper {
                // As in the background of a shell: it ends neither of the two.
                continue;
            }
            set_action(signal, &noting_action())?;
        }
        Ok(held)
    }

    /// Starts a child in which these signals do what they did before.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> io::Result<Child> {
        let child = self.start(command)?;
        for (signal, _) in self.arrived() {
            // It may have come before the child was there. A program that has just begun bears two.
            self.last = Some(signal);
            send(&child, signal);
        }
        Ok(child)
    }

    /// Starts a child beside the one that is waited for: no signal is passed on to it.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        // A handler becomes the default action in the child. What was ignored before stays ignored in it.
        let ignored = |held: &&(i32, libc::sigaction)| held.1.sa_sigaction == libc::SIG_IGN;
        let endings = self.before.iter().filter(|held| held.0 != libc::SIGCHLD);
        let ignored: Vec<_> = endings.filter(ignored).copied().collect();
        for (signal, before) in &ignored {
            set_action(*signal, before)?;
        }
        set_mask(&self.mask)?;
        let child = command.spawn();
        change_mask(libc::SIG_UNBLOCK, &[libc::SIGCHLD])?;
        if self.kind == ChildKind::Program {
            for (signal, _) in ignored {
                set_action(signal, &noting_action())?;
            }
        }
        child
    }

    /// Passes on the signals that the child did not get. After the time limit the child is killed, and the result is
    /// `None`.
    pub(crate) fn wait(
        &mut self,
        child: &mut Child,
        limit: Option<(Duration, &dyn Fn())>,
    ) -> io::Result<Option<ExitStatus>> {
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                // What ended the child may have come to this process as well, and not be read yet.
                let _ = self.interrupted();
                return Ok(Some(status));
            }
            if let Some((limit, step)) = limit {
                if began.elapsed() >= limit {
                    // Refused if it has ended by itself meanwhile.
                    let _ = child.kill();
                    child.wait()?;
                    return Ok(None);
                }
                step();
            }
            self.wait_for_note(limit.map(|(limit, _)| limit.saturating_sub(began.elapsed())));
            for (signal, is_by_kernel) in self.arrived() {
                self.last = Some(signal);
                if !self.has_reached(child, signal, is_by_kernel) {
                    send(child, signal);
                }
            }
        }
    }

    /// A signal that has arrived, also after a child's end, is an error, since whoever sent it wants this process to
    /// end.
    pub(crate) fn interrupted(&mut self) -> Result<(), HelperError> {
        self.last = self.arrived().last().map(|note| note.0).or(self.last);
        self.last.map_or(Ok(()), |signal| Err(HelperError::Interrupted(signal)))
    }

    /// `SIGQUIT` ends this process again, in case it reports for too long.
    pub(crate) fn release_quit(&self) {
        let quit = self.before.iter().find(|held| held.0 == libc::SIGQUIT);
        if let Some((signal, before)) = quit {
            let _ = set_action(*signal, before);
        }
    }

    /// The signal arrived while a child was waited for.
    pub(crate) fn last(&self) -> Option<i32> {
        self.last
    }

    /// The child got the signal if it is in this process's group, to which the signal was sent.
    fn has_reached(&mut self, child: &Child, signal: i32, is_by_kernel: bool) -> bool {
        // SAFETY: asks for a number.
        let group = unsafe { libc::getpgid(child.id().cast_signed()) };
        // SAFETY: asks for a number.
        let is_in_group = group == unsafe { libc::getpgrp() };
        // When a terminal closes, the kernel hangs up on the leader of its session alone.
        // SAFETY: asks for a number.
        let is_leader = std::process::id() == unsafe { libc::getsid(0) }.cast_unsigned();
        let is_for_all = is_by_kernel && OF_TERMINAL.contains(&signal) && !(signal == libc::SIGHUP && is_leader);
        is_in_group && (is_for_all || self.probe.as_mut().is_some_and(|probe| probe.got(signal)))
    }

    fn wait_for_note(&self, limit: Option<Duration>) {
        let Some(reader) = self.notes.as_ref() else {
            return;
        };
        let timeout = limit.map_or(-1, |limit| i32::try_from(limit.min(PAUSE).as_millis()).unwrap_or(0));
        let mut poll = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one struct. An interruption is as good as a note.
        unsafe { libc::poll(&raw mut poll, 1, timeout) };
    }

    /// The signals that have come since the last call, and whether the kernel sent them.
    fn arrived(&mut self) -> Vec<(i32, bool)> {
        let mut notes = Vec::new();
        if let Some(reader) = self.notes.as_mut() {
            // It ends with an error, because the pipe has no more for now.
            let _ = reader.read_to_end(&mut notes);
        }
        let signals = notes.into_iter().map(|note| (i32::from(note & !BY_KERNEL), note & BY_KERNEL != 0));
        signals.filter(|(signal, _)| ENDING.contains(signal)).collect()
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            let _ = set_action(*signal, before);
        }
        let _ = set_mask(&self.mask);
        if self.kind == ChildKind::Helper
            && self.last.is_none()
            && let Some((signal, _)) = self.arrived().last()
        {
            // It came after the last question for it, and nobody asks again: it does now what it did before.
            // SAFETY: sends a signal to this thread; no memory is touched.
            unsafe { libc::raise(*signal) };
        }
    }
}

/// Starts a child, which is killed when this thread ends, in whatever way.
pub(crate) fn start_bound(
    command: &mut Command,
    start: impl FnOnce(&mut Command) -> io::Result<Child>,
) -> io::Result<Child> {
    let parent = std::process::id().cast_signed();
    let bind = move || {
        // SAFETY: sets a number of the child's.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // It may have ended before.
        // SAFETY: asks for a number.
        if unsafe { libc::getppid() } == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: the closure makes two system calls and nothing else.
    unsafe { command.pre_exec(bind) };
    start(command)
}

/// What this module starts the program as. `None` for other words.
pub(crate) fn run_as_helper(name: &str, argument: &str) -> Option<()> {
    (name == PROBE_COMMAND).then_some(())?;
    argument.parse().ok().map(become_probe)
}

/// Ends this process by the signal, as it would have ended if it did not hold signals.
pub(crate) fn end_by(signal: i32) -> ! {
    let _ = set_action(signal, &default_action());
    // SAFETY: its action is the default one.
    unsafe { libc::raise(signal) };
    std::process::exit(128 + signal)
}

/// A write beyond the limit of file sizes becomes an error instead of this process's end. Children are ended by it as
/// before.
pub(crate) fn survive_file_limit() {
    extern "C" fn ignore(_: i32) {}

    let mut action = default_action();
    action.sa_sigaction = ignore as *const () as usize;
    // Refused for no valid signal. If the signal was ignored, children expect that as well.
    if let Ok(before) = set_action(libc::SIGXFSZ, &action)
        && before.sa_sigaction == libc::SIG_IGN
    {
        let _ = set_action(libc::SIGXFSZ, &before);
    }
}

/// Notes the signal. It does only what a handler may do.
extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the address of this thread's error number.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's error number.
    let before = unsafe { *error };
    // SAFETY: the kernel passes it to a handler that was installed with `SA_SIGINFO`.
    let is_by_kernel = unsafe { (*info).si_code } > 0;
    let note = signal as u8 | if is_by_kernel { BY_KERNEL } else { 0 };
    // SAFETY: one byte. The pipe does not block.
    unsafe { libc::write(NOTES.load(Ordering::Relaxed), (&raw const note).cast(), size_of_val(&note)) };
    // SAFETY: the address of this thread's error number.
    unsafe { *error = before };
}

pub(crate) fn kill(process: u32) {
    // SAFETY: sends a signal; no memory is touched.
    unsafe { libc::kill(process.cast_signed(), libc::SIGKILL) };
}

/// The child is not waited for yet, so that its number is its own.
fn send(child: &Child, signal: i32) {
    // SAFETY: sends a signal; no memory is touched. It is refused if the child has other users' rights now.
    unsafe { libc::kill(child.id().cast_signed(), signal) };
}

fn default_action() -> libc::sigaction {
    // SAFETY: a struct of numbers and addresses, of which all zeros are valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn noting_action() -> libc::sigaction {
    let mut action = default_action();
    action.sa_sigaction = note as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NOCLDSTOP;
    action
}

fn action(signal: i32) -> io::Result<libc::sigaction> {
    let mut action = default_action();
    // SAFETY: without a new action the call only writes the present one, for which there is room.
    match unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } {
        0 => Ok(action),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_action(signal: i32, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = default_action();
    // SAFETY: a valid action: a handler above, or one that the system returned.
    match unsafe { libc::sigaction(signal, action, &raw mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn change_mask(how: i32, signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: room for the set, which the call fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: a set, and the number of a signal.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    let mut before = MaybeUninit::uninit();
    // SAFETY: a set, and room for one.
    match unsafe { libc::pthread_sigmask(how, set.as_ptr(), before.as_mut_ptr()) } {
        // SAFETY: filled by the call.
        0 => Ok(unsafe { before.assume_init() }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

pub(super) fn set_mask(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: a set of the system's.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::process::ExitStatusExt as _;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Set in a process that runs one test of these: signals are for the whole process.
    const ALONE: &str = "STEWARD_TEST_OF_SIGNALS";

    fn alone(test: &str) -> Option<ExitStatus> {
        if env::var_os(ALONE).is_some() {
            return None;
        }
        let mut command = Command::new(env::current_exe().expect("a path"));
        command.args(["--exact", test]).env(ALONE, "1");
        let done = command.output().expect("this program");
        let output = String::from_utf8_lossy(&done.stdout);
        assert!(output.contains("running 1 test"), "{output}");
        Some(done.status)
    }

    fn raise(signal: i32) {
        // SAFETY: sends a signal to this thread.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    #[test]
    fn a_signal_with_a_handler_is_not_held() {
        static TICKS: AtomicU32 = AtomicU32::new(0);
        extern "C" fn tick(_: i32) {
            TICKS.fetch_add(1, Ordering::Relaxed);
        }

        if let Some(status) = alone("os::system::signals::tests::a_signal_with_a_handler_is_not_held") {
            assert!(status.success(), "{status}");
            return;
        }
        let mut profiler = default_action();
        profiler.sa_sigaction = tick as *const () as usize;
        set_action(libc::SIGPROF, &profiler).expect("a valid signal");
        for kind in [ChildKind::Helper, ChildKind::Program] {
            let mut held = HeldSignals::new(kind).expect("a pipe");
            raise(libc::SIGPROF);
            assert!(held.interrupted().is_ok(), "{kind:?}");
        }
        raise(libc::SIGPROF);
        assert_eq!(TICKS.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_signal_after_the_last_question_is_not_lost() {
        if let Some(status) = alone("os::system::signals::tests::a_signal_after_the_last_question_is_not_lost") {
            assert_eq!(status.signal(), Some(libc::SIGTERM), "{status}");
            return;
        }
        let mut held = HeldSignals::new(ChildKind::Helper).expect("a pipe");
        raise(libc::SIGTERM);
        assert!(held.interrupted().is_err());
        // Whoever asked ends this process.
        drop(held);
        let mut held = HeldSignals::new(ChildKind::Helper).expect("a pipe");
        assert!(held.interrupted().is_ok());
        raise(libc::SIGTERM);
        drop(held);
    }
}
