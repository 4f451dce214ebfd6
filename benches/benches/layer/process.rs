//! Processes with and without the layer: their environment, and what they took.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Names the work of a child.
const WORK: &str = "STEWARD_BENCH_LAYER";
const LAYER: &str = "VK_LAYER_STEWARD_memory";

/// One way to run a program.
pub(crate) struct LayerSubject {
    pub(crate) name: &'static str,
    has_layer: bool,
    settings: &'static [(&'static str, &'static str)],
}

/// The first one is what the others are compared with.
pub(crate) const SUBJECTS: [LayerSubject; 4] = [
    LayerSubject { name: "without", has_layer: false, settings: &[] },
    LayerSubject { name: "accounts", has_layer: true, settings: &[("VK_STEWARD_MEMORY_CHECK", "false")] },
    LayerSubject { name: "checked", has_layer: true, settings: &[] },
    // As `steward run` sets it.
    LayerSubject { name: "checked-state", has_layer: true, settings: &[("VK_STEWARD_MEMORY_STATE", "state.%p")] },
];

/// The layer that was built with this bench, a manifest for it, and a place for reports.
pub(crate) struct Layer {
    library: PathBuf,
    folder: TempDir,
}

impl Layer {
    pub(crate) fn new() -> Result<Self, String> {
        let bench = env::current_exe().map_err(|error| error.to_string())?;
        let library = bench.with_file_name("libVkLayer_steward_memory.so");
        if !library.is_file() {
            return Err(format!("{} is not built", library.display()));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let manifest = format!(
            r#"{{"file_format_version": "1.2.1", "layer": {{"name": "{LAYER}", "type": "GLOBAL", "library_path": "{}",
            "api_version": "1.4.0", "implementation_version": "1", "description": ""}}}}"#,
            library.display()
        );
        fs::write(folder.path().join("layer.json"), manifest).expect("a file");
        let layer = Self { library, folder };
        let shows = layer.command(&bench, &SUBJECTS[0]).env(WORK, "start").output();
        match shows.expect("a process") {
            done if done.status.success() => Ok(layer),
            done => Err(format!(
                "no lavapipe: {}",
                String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default()
            )),
        }
    }

    /// The program with the environment of the subject, on lavapipe.
    pub(crate) fn command(&self, program: &PathBuf, subject: &LayerSubject) -> Command {
        let mut command = Command::new(program);
        command.env("VK_LOADER_DRIVERS_SELECT", "lvp*");
        for name in ["VK_INSTANCE_LAYERS", "VK_ADD_LAYER_PATH", "VK_LAYER_PATH"] {
            command.env_remove(name);
        }
        if subject.has_layer {
            command
                .env("VK_INSTANCE_LAYERS", LAYER)
                .env("VK_ADD_LAYER_PATH", self.folder.path())
                .env("VK_STEWARD_MEMORY_TEXT", self.folder.path().join("report"));
        }
        for (name, value) in subject.settings {
            let value =
                if name.ends_with("STATE") { self.folder.path().join(value).into_os_string() } else { value.into() };
            command.env(name, value);
        }
        command
    }

    /// Runs this bench's own work in a child. The figures that it printed.
    pub(crate) fn child(&self, work: &str, subject: &LayerSubject) -> Vec<f64> {
        let bench = env::current_exe().expect("a path");
        let mut command = self.command(&bench, subject);
        let done = command
            .env(WORK, work)
            .args(env::args().filter(|argument| argument == "--quick"))
            .stderr(Stdio::inherit())
            .output()
            .expect("a process");
        assert!(done.status.success(), "{work} {}: {done:?}", subject.name);
        let report = self.folder.path().join("report");
        assert_eq!(
            fs::remove_file(report).is_ok(),
            subject.has_layer,
            "{}: the layer reports where it is, and nowhere else",
            subject.name
        );
        let printed = String::from_utf8(done.stdout).expect("text");
        let figures = printed.split_whitespace();
        figures.map(|figure| figure.parse().expect("a number")).collect()
    }

    /// The size of the library without symbols.
    pub(crate) fn stripped_kib(&self) -> i64 {
        let stripped = self.folder.path().join("stripped.so");
        let mut strip = Command::new("strip");
        let strip = strip.arg("-o").arg(&stripped).arg(&self.library).status();
        let file = match strip {
            Ok(status) if status.success() => &stripped,
            _ => {
                println!("layer/library-kib: there is no `strip`, the size is with symbols");
                &self.library
            }
        };
        let bytes = fs::metadata(file).expect("the library").len();
        i64::try_from(bytes.div_ceil(1024)).expect("a size")
    }
}

/// The work that this process is to do as a child.
pub(crate) fn work() -> Option<String> {
    env::var(WORK).ok()
}

/// Processor time in ms of the processes that `run` waits for.
pub(crate) fn cpu_ms(run: impl FnOnce()) -> f64 {
    let before = children_ms();
    run();
    children_ms() - before
}

fn children_ms() -> f64 {
    // SAFETY: all zeros is a valid value.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: a place for the answer.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(answer, 0, "getrusage");
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}
