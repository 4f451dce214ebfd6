//! Ctrl-C, Ctrl-Break and the end of the console, while a child runs: this process waits for the child, and only then
//! ends, so that it can report and remove its temporary files. Each process of the console gets the event itself:
//! nothing is passed on.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::process::{Child, Command, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::WaitForSingleObject;

use super::ended::CONTROL_C;
use crate::os::{ChildKind, HelperError};

const PAUSE: Duration = Duration::from_millis(50);
/// The system ends a process of a console that closes once its handler has returned, or after this time.
const LAST_WORDS: Duration = Duration::from_secs(5);

static HOLDER: Mutex<()> = Mutex::new(());
static ARRIVED: AtomicBool = AtomicBool::new(false);
static BREAK_ENDS: AtomicBool = AtomicBool::new(false);

/// The process's events, held until this is dropped. One holder at a time; another one waits. With a helper, one that
/// came after the last [`interrupted`](HeldSignals::interrupted) ends this process on drop.
pub(crate) struct HeldSignals {
    kind: ChildKind,
    _alone: MutexGuard<'static, ()>,
    last: Option<i32>,
}

impl HeldSignals {
    /// The events are held also after a child's end, so that a second one does not end this process before it has
    /// reported.
    pub(crate) fn new(kind: ChildKind) -> io::Result<Self> {
        let _alone = HOLDER.lock().unwrap_or_else(PoisonError::into_inner);
        ARRIVED.store(false, Ordering::Relaxed);
        BREAK_ENDS.store(false, Ordering::Relaxed);
        handle(true)?;
        Ok(Self { kind, _alone, last: None })
    }

    pub(crate) fn spawn(&mut self, command: &mut Command) -> io::Result<Child> {
        let child = self.start(command);
        let _ = self.interrupted();
        child
    }

    /// Starts a child beside the one that is waited for. Handlers are not inherited.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        command.spawn()
    }

    /// After the time limit the child is killed, and the result is `None`.
    pub(crate) fn wait(
        &mut self,
        child: &mut Child,
        limit: Option<(Duration, &dyn Fn())>,
    ) -> io::Result<Option<ExitStatus>> {
        let began = Instant::now();
        loop {
            let status = child.try_wait()?;
            let _ = self.interrupted();
            if status.is_some() {
                return Ok(status);
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
            // SAFETY: the open handle of a child.
            unsafe { WaitForSingleObject(child.as_raw_handle(), PAUSE.as_millis() as u32) };
        }
    }

    /// An event that has arrived, also after a child's end, is an error, since whoever sent it wants this process to
    /// end.
    pub(crate) fn interrupted(&mut self) -> Result<(), HelperError> {
        if ARRIVED.swap(false, Ordering::Relaxed) {
            self.last = Some(CONTROL_C);
        }
        self.last.map_or(Ok(()), |code| Err(HelperError::Interrupted(code)))
    }

    /// Ctrl-Break ends this process again, in case it reports for too long.
    pub(crate) fn release_quit(&self) {
        BREAK_ENDS.store(true, Ordering::Relaxed);
    }

    /// An event arrived while a child was waited for.
    pub(crate) fn last(&self) -> Option<i32> {
        self.last
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        let _ = handle(false);
        let was_asked = self.last.is_some();
        if self.kind == ChildKind::Helper && !was_asked && self.interrupted().is_err() {
            end_by(CONTROL_C);
        }
    }
}

fn handle(holds: bool) -> io::Result<()> {
    // SAFETY: a handler that touches atomics alone.
    match unsafe { SetConsoleCtrlHandler(Some(note), holds.into()) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The system calls it in a thread of its own.
unsafe extern "system" fn note(event: u32) -> i32 {
    if event == CTRL_BREAK_EVENT && BREAK_ENDS.load(Ordering::Relaxed) {
        return 0;
    }
    ARRIVED.store(true, Ordering::Relaxed);
    if ![CTRL_C_EVENT, CTRL_BREAK_EVENT].contains(&event) {
        thread::sleep(LAST_WORDS);
    }
    1
}

/// Starts a child, which is killed when this process ends, in whatever way.
pub(crate) fn start_bound(
    command: &mut Command,
    start: impl FnOnce(&mut Command) -> io::Result<Child>,
) -> io::Result<Child> {
    static JOB: OnceLock<Option<OwnedHandle>> = OnceLock::new();
    let child = start(command)?;
    if let Some(job) = JOB.get_or_init(|| new_job().ok()) {
        // SAFETY: an open job, and an open process. Refused if the child has ended.
        unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) };
    }
    Ok(child)
}

/// Its processes end when its last handle is closed.
fn new_job() -> io::Result<OwnedHandle> {
    // SAFETY: neither rights nor a name.
    let job = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
    if job.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new handle, which nobody else closes.
    let job = unsafe { OwnedHandle::from_raw_handle(job) };
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    // SAFETY: an open job, and limits of the type that the class names, with their size.
    let is_set = unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size_of_val(&limits) as u32,
        )
    };
    match is_set {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(job),
    }
}

/// Ends this process as it would have ended if it did not hold events.
pub(crate) fn end_by(code: i32) -> ! {
    std::process::exit(code)
}

/// There is no limit of file sizes.
pub(crate) const fn survive_file_limit() {}

/// Events need no further process.
pub(crate) const fn run_as_helper(_: &str, _: &str) -> Option<()> {
    None
}
