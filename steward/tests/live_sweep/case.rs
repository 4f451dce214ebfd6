//! One case in a child process, and what the parent reads of it.
//!
//! The child prints lines of fields separated by tabs: `refused` with command, scope,
//! size and module, at each refusal and before the driver learns of it; `end` with the outcome and the witness's
//! figures.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use debug_guard::Fault;
use testkit::{Child, Finished};
use vk_callbacks::bridge::BridgeCounters;
use vk_steward::drivers::{DriverInfo, Selected};
use vk_steward::workload::{self, Options, Report, WorkloadError};

use super::bridges::Bridges;
use super::driver_shim;
use super::opened;
use super::refusing::Refusing;

/// First argument of a child. Then: seed, the number of the request that fails, and the driver's limit in bytes; `-`
/// for none.
pub(super) const CHILD: &str = "one-case-in-a-child";
/// Far above what a case takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What a child is to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Case {
    pub(super) seed: u32,
    /// The driver's request that fails, from 0.
    pub(super) request: Option<u64>,
    /// The most the driver may hold at once, in bytes.
    pub(super) limit: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct SweepSeen {
    /// See [`Outcome`](super::expectations): `ok`, Vulkan's name of an error, a signal, ..
    pub(super) outcome: String,
    /// Of the first refusal.
    pub(super) refused: Option<Refused>,
    /// The driver's requests.
    pub(super) requests: u64,
    /// The most the driver held at once, in bytes, the bridges' headers included.
    pub(super) peak: u64,
    /// All it said, for a person.
    pub(super) text: String,
}

/// A request that was refused.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) command: String,
    pub(super) scope: String,
    pub(super) size: u64,
    pub(super) module: String,
}

impl Case {
    /// Runs the case in a child, which sees this driver alone.
    pub(super) fn in_a_child(self, driver: &Selected) -> SweepSeen {
        let number = |number: Option<u64>| number.map_or_else(|| "-".into(), |number| number.to_string());
        let program = std::env::current_exe().expect("a test knows its file");
        let arguments = [CHILD.into(), self.seed.to_string(), number(self.request), number(self.limit)];
        // What the C library says when it aborts goes to the error output.
        let mut child = Child::new(program).args(arguments).env("LIBC_FATAL_STDERR_", "1").limit(LIMIT);
        for (name, value) in opened::environment(driver) {
            child = match value {
                Some(value) => child.env(&name, value),
                None => child.env_remove(&name),
            };
        }
        SweepSeen::read(&child.run())
    }

    /// The child's side.
    pub(super) fn run(arguments: &[&str]) -> ExitCode {
        without_core_files();
        let mut numbers = arguments.iter().map(|argument| argument.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let case = Self { seed: next().map_or(0, |seed| seed as u32), request: next(), limit: next() };
        let opened = opened::opened();
        let backing = Refusing::new();
        // SAFETY: the backing is never dropped.
        let bridges = unsafe { Bridges::new(&backing, case.limit) };
        backing.arm(case.request.map_or(Fault::Never, Fault::Nth));
        let options = Options { seed: case.seed, ..Options::default() };
        let shimmed = driver_shim::shimmed(&opened);
        let result = driver_shim::watched(&bridges, || workload::run(&shimmed, &options, &|_| {}));
        // Threads of the driver may still be giving back.
        let known = known_leak(opened.info(), &bridges);
        let gave_back = || backing.given().live_blocks == known;
        (0..20).take_while(|_| !gave_back()).for_each(|_| sleep(Duration::from_millis(5)));
        let (requests, seen) = (backing.requests(), backing.given());
        let mut outcome = outcome_of(&result);
        if seen.live_blocks != known {
            outcome += &format!("+leak({})", i128::from(seen.live_blocks) - i128::from(known));
        }
        outcome += &faults(&bridges);
        let left = bridges.close();
        if left != seen.live_blocks {
            outcome += &format!("+bridges-say({left})");
        }
        if let Err(error) = &result {
            eprintln!("{error}");
        }
        println!("end\t{outcome}\t{requests}\t{}", seen.peak_bytes);
        // Leaked bridges still point at it.
        std::mem::forget(backing);
        ExitCode::SUCCESS
    }
}

impl SweepSeen {
    fn read(child: &Finished) -> Self {
        let lines = || child.stdout.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let mut seen = Self {
            outcome: died_of(child),
            refused: None,
            requests: 0,
            peak: 0,
            text: format!("{}{}", child.stdout, child.stderr),
        };
        for line in lines() {
            match line[..] {
                ["refused", command, scope, size, module] if seen.refused.is_none() => {
                    let size = size.parse().expect("a size");
                    seen.refused =
                        Some(Refused { command: command.into(), scope: scope.into(), size, module: module.into() });
                }
                ["end", outcome, requests, peak] => {
                    seen.requests = requests.parse().expect("a number of requests");
                    seen.peak = peak.parse().expect("a number of bytes");
                    // A child that died after its last word still died.
                    if child.code == Some(0) {
                        seen.outcome = outcome.to_owned();
                    }
                }
                _ => {}
            }
        }
        seen
    }
}

/// SwiftShader never frees the entries of an update template, whatever else happens: that much is left without any
/// fault.
fn known_leak(driver: &DriverInfo, bridges: &Bridges) -> u64 {
    let templates = bridges.usage("VkDescriptorUpdateTemplate").total();
    // The entries, and the object that is freed: two blocks a template.
    if driver.driver_id == "GOOGLE_SWIFTSHADER" { templates.total_blocks / 2 } else { 0 }
}

fn outcome_of(result: &Result<Report, WorkloadError>) -> String {
    match result {
        Ok(_) => "ok".into(),
        Err(error) if error.is_out_of_host_memory() => "VK_ERROR_OUT_OF_HOST_MEMORY".into(),
        Err(WorkloadError::Command { command, result }) => format!("VK_{result:?}({command})"),
        Err(WorkloadError::Mismatch { what, .. }) => format!("wrong({what})"),
        Err(error) => one_word(&error.to_string()),
    }
}

/// What the bridges noted that was wrong, such as `+unknown_pointers(1)`.
fn faults(bridges: &Bridges) -> String {
    let mut sums = named(&BridgeCounters::default());
    let mut faults = 0;
    for notes in bridges.notes() {
        faults += notes.faults();
        for (sum, count) in sums.iter_mut().zip(named(&notes)) {
            sum.1 += count.1;
        }
    }
    assert_eq!(sums.iter().map(|(_, sum)| sum).sum::<u64>(), faults, "each kind of fault has its name");
    sums.into_iter().filter(|(_, sum)| *sum > 0).map(|(name, sum)| format!("+{name}({sum})")).collect()
}

fn named(notes: &BridgeCounters) -> [(&'static str, u64); 10] {
    [
        ("bad_alignments", notes.bad_alignments),
        ("bad_scopes", notes.bad_scopes),
        ("too_large", notes.too_large),
        ("unknown_pointers", notes.unknown_pointers),
        ("foreign_pointers", notes.foreign_pointers),
        ("freed_pointers", notes.freed_pointers),
        ("alignment_changes", notes.alignment_changes),
        ("scope_changes", notes.scope_changes),
        ("panics", notes.panics),
        ("bad_notifications", notes.bad_notifications),
    ]
}

/// The part before the remedy, as one field.
fn one_word(text: &str) -> String {
    text.split(':').next().unwrap_or_default().replace(' ', "-")
}

fn died_of(child: &Finished) -> String {
    match (child.timed_out, child.signal, child.code) {
        (true, ..) => "timeout".into(),
        #[cfg(unix)]
        (_, Some(libc::SIGSEGV), _) => "SIGSEGV".into(),
        #[cfg(unix)]
        (_, Some(libc::SIGABRT), _) => "SIGABRT".into(),
        #[cfg(unix)]
        (_, Some(libc::SIGBUS), _) => "SIGBUS".into(),
        #[cfg(unix)]
        (_, Some(libc::SIGILL), _) => "SIGILL".into(),
        #[cfg(unix)]
        (_, Some(libc::SIGFPE), _) => "SIGFPE".into(),
        (_, Some(signal), _) => format!("signal({signal})"),
        (_, None, code) => format!("exit({})", code.unwrap_or(-1)),
    }
}

#[cfg(not(unix))]
const fn without_core_files() {}

#[cfg(unix)]
fn without_core_files() {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads one struct. Failing, it leaves core files to the system's own rules.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
}
