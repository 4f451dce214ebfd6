//! Law 2 over a context's life on real drivers, the driver's side: each of its requests of host memory is refused once,
//! in a process of its own, since a driver may not bear it.
//!
//! Right is an error of ours that says so, or success; nothing is left in either, and the next try succeeds. What the
//! driver is known to do otherwise stands in `steward/tests/expectations`, by command, scope and size of the request:
//! that, and nothing else, is its own.

use crate::*;

use crate::live::{CALLBACKS, Live, live_blocks, refuse, requests};
use crate::refusals::{RefusingApplication, cycle};

const NAME: &str = "h9_hw27_every_refusal_of_the_drivers_memory_is_borne";
/// Which driver a child opens.
const DRIVER: &str = "STEWARD_LIFECYCLE_DRIVER";
/// Which request a child refuses; none where it is no number.
const REQUEST: &str = "STEWARD_LIFECYCLE_REQUEST";
const DRIVERS: [(&str, &str); 2] = [("lavapipe", "llvmpipe"), ("swiftshader", "SwiftShader driver")];

pub fn is_child() -> bool {
    Child::is_child(NAME)
}

/// One case: what came of it, how many requests there were, how many blocks the driver kept when its device was gone.
pub fn child() {
    let (driver, request) = (std::env::var(DRIVER).unwrap(), std::env::var(REQUEST).unwrap());
    // The device has them as well: what is shared by several objects is its.
    let live = match Live::made_with(Some(&CALLBACKS), |name| name == driver) {
        Ok(live) => live,
        Err(reason) => return println!("none\t{reason}"),
    };
    println!("driver\t{}", version_of(&live));
    let witness = RecordingAllocator::system();
    // SAFETY: the witness outlives it.
    let application = unsafe { RefusingApplication::on(&live, &witness) };
    let home = application.home();
    refuse(request.parse().ok());
    let first = cycle(&live, &application, &home);
    let asked = requests();
    refuse(None);
    application.assert_nothing_is_left(&format!("{first:?}"));
    cycle(&live, &application, &home).expect("the next try succeeds");
    application.assert_nothing_is_left("after the next try");
    drop(home);
    // A driver may keep what was destroyed until its device goes.
    drop(live);
    let outcome = first.map_or_else(|error| error, |()| "ok".to_owned());
    println!("end\t{asked}\t{}\t{outcome}", live_blocks());
}

fn version_of(live: &Live) -> String {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: of the instance; both drivers are of 1.2 at least.
    unsafe { live.instance.get_physical_device_properties2(live.physical, &mut all) };
    let told = driver.driver_info_as_c_str().map(|told| told.to_string_lossy().into_owned()).unwrap_or_default();
    let version = told.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    // SwiftShader tells its number alone.
    // SAFETY: of the instance, which lives.
    let number = unsafe { live.instance.get_physical_device_properties(live.physical) }.driver_version;
    let parts = [vk::api_version_major(number), vk::api_version_minor(number), vk::api_version_patch(number)];
    version.map_or_else(|| parts.map(|part| part.to_string()).join("."), str::to_owned)
}

/// What a child said, line by line, and how it ended.
#[derive(Debug, Default)]
struct SweepCase {
    driver: Option<String>,
    /// Command, scope, bytes.
    refused: Option<[String; 3]>,
    requests: u64,
    outcome: String,
}

fn run_child(driver: &str, request: Option<u64>) -> Result<SweepCase, String> {
    let request = request.map_or_else(|| "none".to_owned(), |request| request.to_string());
    let done = Child::this_program(NAME).env(DRIVER, driver).env(REQUEST, request).run();
    let mut case = SweepCase { outcome: died_of(&done), ..SweepCase::default() };
    for line in done.stdout.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["none", reason] => return Err(reason.to_owned()),
            ["driver", version] => case.driver = Some(version.to_owned()),
            ["refused", command, scope, size] => case.refused = Some([command, scope, size].map(str::to_owned)),
            ["end", requests, leaked, outcome] => {
                case.requests = requests.parse().unwrap();
                let leak = if leaked == "0" { String::new() } else { format!("+leak({leaked})") };
                let is_ours = outcome.contains("the driver found no host memory");
                let outcome = if is_ours { "VK_ERROR_OUT_OF_HOST_MEMORY" } else { outcome };
                if done.code == Some(0) {
                    case.outcome = format!("{outcome}{leak}");
                }
            }
            _ => {}
        }
    }
    Ok(case)
}

fn died_of(child: &Finished) -> String {
    match (child.timed_out, child.signal) {
        (true, _) => "timeout".to_owned(),
        (_, Some(11)) => "SIGSEGV".to_owned(),
        (_, Some(6)) => "SIGABRT".to_owned(),
        _ => format!("{:?}, {:?}:\n{}{}", child.code, child.signal, child.stdout, child.stderr),
    }
}

/// What the driver is known to do where a request is refused: command, scope, bytes and outcomes of each line.
fn known(driver: &str, version: &str) -> Option<Vec<([String; 3], Vec<String>)>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../steward/tests/expectations")
        .join(format!("{driver}-{version}.txt"));
    let text = std::fs::read_to_string(file).ok()?;
    let row = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [command, scope, size, _, _, outcomes, ..] if !line.starts_with('#') => {
            Some(([command, scope, size].map(str::to_owned), outcomes.split('|').map(str::to_owned).collect()))
        }
        _ => None,
    };
    Some(text.lines().filter_map(row).collect())
}

/// Runs the test on each driver that is there.
pub fn run() {
    if live::is_selected(NAME) {
        DRIVERS.into_iter().for_each(|(name, driver)| sweep(name, driver));
    }
}

fn sweep(name: &'static str, driver: &str) {
    let dry = match run_child(driver, None) {
        Ok(dry) => dry,
        Err(reason) => return testkit::skip(name, NAME, &reason),
    };
    assert!(dry.outcome == "ok" && dry.requests >= 10 && dry.refused.is_none(), "{dry:?}");
    let version = dry.driver.unwrap_or_default();
    let Some(known) = known(name, &version) else {
        return testkit::skip(name, NAME, &format!("nothing is known of {name} {version} where it is refused memory"));
    };
    let (mut errors, mut oddities) = (0, Vec::new());
    for request in 0..dry.requests {
        let case = run_child(driver, Some(request)).expect("as the dry run");
        let refused = case.refused.clone().unwrap_or_else(|| panic!("request {request} was never made: {case:?}"));
        match case.outcome.as_str() {
            "VK_ERROR_OUT_OF_HOST_MEMORY" => errors += 1,
            "ok" => {}
            odd if known.iter().any(|(row, outcomes)| *row == refused && outcomes.iter().any(|known| known == odd)) => {
                oddities.push(format!("{}: {odd}", refused[0]));
            }
            _ => panic!("request {request}, {refused:?}, is no known oddity of {name} {version}: {}", case.outcome),
        }
    }
    assert!(errors >= 8, "{errors} errors");
    println!(
        "test {NAME} on {driver}: {} requests, {errors} errors of ours, known oddities: {oddities:?} ... ok",
        dry.requests
    );
}
