#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::path::{Path, is_separator};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, slice};

use serde::{Deserialize, Serialize};

use super::environment;
use super::error::{DriverError, LoaderRefusal};
use super::info::DriverInfo;
use super::manifest::{self, IcdManifest};
use super::names;
use super::open::loader;
use super::probe;
use super::reference::{REFERENCE, reference};
use crate::os::{ended_by, files, signal_name, start_bound, wait_briefly};

/// The argument of this hidden command is not used.
pub(crate) const COMMAND: &str = "show-devices";

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// More bytes than a pipe holds.
const AT_ONCE: u64 = 1 << 20;
/// Bytes of a child's output, far more than an answer has.
const KEPT: usize = 1 << 22;

#[derive(Serialize, Deserialize)]
enum Answer {
    Devices(Vec<DriverInfo>),
    Refused(String),
    NoLoader(String),
}

/// Lists the devices of every driver, manifest by manifest. Each driver is opened in a process of its own, so that one
/// that crashes or hangs is only refused. If no manifest is found, the loader chooses drivers itself, once.
///
/// # Errors
/// [`DriverError::NoLoader`] only. A driver that fails is in [`Listing::refused`]; the list may be empty.
pub fn list() -> Result<Listing, DriverError> {
    list_by(&Command::spawn)
}

type Start<'s> = &'s dyn Fn(&mut Command) -> io::Result<Child>;

pub(crate) fn list_by(start: Start<'_>) -> Result<Listing, DriverError> {
    list_of(&manifest::find_all(), start)
}

fn list_of(found: &[IcdManifest], start: Start<'_>) -> Result<Listing, DriverError> {
    let mut manifests: Vec<_> = found.iter().map(Some).collect();
    if manifests.is_empty() {
        manifests.push(None);
    }
    let started = |manifest: &Option<&IcdManifest>| Asked::start(*manifest, start);
    // All at once: most of their time they read files.
    let mut asked: VecDeque<_> = manifests.iter().map(started).collect();
    let mut listing = Listing::default();
    for manifest in manifests {
        let Some(next) = asked.pop_front() else { break };
        let answer = next.and_then(|mut next| next.answer(&mut asked));
        listing.add(
            manifest,
            match answer.unwrap_or_else(|error| Answer::Refused(error.to_string())) {
                Answer::Devices(devices) if devices.is_empty() => Err("no device of Vulkan 1.1 or later".to_owned()),
                Answer::Devices(devices) => Ok(devices),
                Answer::Refused(reason) => Err(reason),
                Answer::NoLoader(reason) => return Err(DriverError::NoLoader { reason }),
            },
        );
    }
    Ok(listing)
}

struct Asked {
    child: Child,
    began: Instant,
    /// A pipe, since a file may have no room to grow (`ulimit -f`). It does not block: a process that the driver starts
    /// and that outlives the child would hold it open.
    output: PipeReader,
    text: Vec<u8>,
}

impl Asked {
    fn start(manifest: Option<&IcdManifest>, start: Start<'_>) -> io::Result<Self> {
        let (output, its_end) = files::pipe()?;
        let mut command = Command::new(env::current_exe()?);
        command.args([COMMAND, ""]).stdin(Stdio::null()).stdout(its_end);
        if let Some(manifest) = manifest {
            environment::narrow(&mut command, &manifest.path);
        }
        let child = start_bound(&mut command, start)?;
        Ok(Self { child, began: Instant::now(), output, text: Vec::new() })
    }

    /// A driver whose pipe is full would wait: the pipes of `later` ones are emptied meanwhile.
    fn answer(&mut self, later: &mut VecDeque<io::Result<Self>>) -> io::Result<Answer> {
        let left = TIME_LIMIT.saturating_sub(self.began.elapsed());
        let Self { child, output, text, .. } = self;
        let status = wait_briefly(child, left, &mut || {
            read(output, text);
            for asked in later.iter_mut().flatten() {
                read(&asked.output, &mut asked.text);
            }
        })?;
        read(output, text);
        // A driver may write there as well, and what it left to the C library comes last.
        let text = String::from_utf8_lossy(text);
        let answer = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        Ok(answer.unwrap_or_else(|| Answer::Refused(how_it_ended(status))))
    }
}

/// Adds what the pipe has now, and keeps the end: the answer is the last line but few.
fn read(output: &PipeReader, text: &mut Vec<u8>) {
    files::read_available(output, AT_ONCE, text);
    let excess = text.len().saturating_sub(KEPT);
    text.drain(..excess);
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn how_it_ended(status: Option<ExitStatus>) -> String {
    let Some(status) = status else {
        return format!("no answer after {} s", TIME_LIMIT.as_secs());
    };
    match ended_by(status) {
        Some(signal) => format!("its process crashed ({})", signal_name(signal)),
        None => format!("its process ended with {status}"),
    }
}

pub(crate) fn show_devices(out: &mut dyn io::Write) -> io::Result<()> {
    let answer = match loader().map(|entry| probe::devices(&entry)) {
        Err(reason) => Answer::NoLoader(reason),
        Ok(Err(result)) => Answer::Refused(format!("{result:?}")),
        Ok(Ok(devices)) => Answer::Devices(devices),
    };
    // On a line of its own, whatever a driver wrote before.
    writeln!(out, "\n{}", serde_json::to_string(&answer)?)
}

/// Selects the driver that `name` means (`names::is_called`), or the first one without a name. `reference` is the
/// program's own driver, which needs no loader. A name with a `/`, on Windows also a `\`, is the path of a manifest,
/// even of one that the loader would not find; so is one that ends with `.json`, if there is such a file.
///
/// # Errors
/// [`DriverError`]: no loader, no driver, no driver of that name, or no manifest at that path.
pub fn select(name: Option<&str>) -> Result<Selected, DriverError> {
    if name.is_some_and(|name| name.trim().eq_ignore_ascii_case(REFERENCE)) {
        let reference = reference().map_err(|result| DriverError::NoReference { result: format!("{result:?}") })?;
        return Ok(Selected { info: reference.info().clone(), is_direct: true });
    }
    let is_path = |name: &&str| name.contains(is_separator) || name.ends_with(".json") && Path::new(name).is_file();
    let path = name.filter(is_path).map(manifest_at).transpose()?;
    let listing = match &path {
        Some(manifest) => list_of(slice::from_ref(manifest), &Command::spawn),
        None => list(),
    }?;
    let chosen = match name {
        Some(name) if path.is_none() => names::find(&listing.drivers, name),
        _ => listing.drivers.first(),
    };
    match (chosen.cloned(), name) {
        (Some(info), _) => Ok(info.into()),
        (None, Some(name)) if path.is_some() => Err(listing.no_driver_at(name)),
        (None, Some(name)) if !listing.drivers.is_empty() => Err(listing.without(name)),
        (None, _) => Err(listing.no_driver()),
    }
}

/// The path becomes absolute: the loader may open it from another folder.
fn manifest_at(path: &str) -> Result<IcdManifest, DriverError> {
    let no_manifest = |reason| DriverError::NoManifest { path: path.to_owned(), reason };
    let file = std::path::absolute(path).map_err(|error| no_manifest(error.to_string()))?;
    manifest::parse(&file).map_err(no_manifest)
}

/// The available drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Usable devices, by index.
    pub drivers: Vec<DriverInfo>,
    /// Drivers without a usable device, with the reason.
    pub refused: Vec<LoaderRefusal>,
}

impl Listing {
    pub(crate) fn selected(&self, is_direct: bool) -> impl Iterator<Item = Selected> {
        let drivers = self.drivers.iter().cloned();
        drivers.map(move |info| Selected { info, is_direct })
    }

    pub(crate) fn no_driver(self) -> DriverError {
        DriverError::NoDriver { refused: self.refused, narrowed: manifest::narrowed_by() }
    }

    fn no_driver_at(self, path: &str) -> DriverError {
        let refused = self.refused.into_iter().next();
        DriverError::DevicelessAt {
            path: path.to_owned(),
            reason: refused.map_or_else(String::new, |refused| refused.reason),
        }
    }

    fn without(self, name: &str) -> DriverError {
        let is_named = |refused: &&LoaderRefusal| names::is_manifest_of(&refused.title(), name);
        let (name, known) = (name.to_owned(), self.drivers);
        match self.refused.iter().find(is_named).cloned() {
            Some(refused) => DriverError::Deviceless { name, refused, known },
            None => DriverError::UnknownName { name, known },
        }
    }

    fn add(&mut self, manifest: Option<&IcdManifest>, devices: Result<Vec<DriverInfo>, String>) {
        let path = manifest.map(|manifest| manifest.path.clone());
        match devices {
            Err(reason) => self.refused.push(LoaderRefusal { manifest: path, reason }),
            Ok(devices) => {
                for device in devices {
                    let stem = manifest.map(|manifest| manifest.stem.clone());
                    self.drivers.push(DriverInfo {
                        index: self.drivers.len(),
                        manifest: path.clone(),
                        stem: stem.unwrap_or_default(),
                        ..device
                    });
                }
            }
        }
    }
}

/// A selected driver, which a child opens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Selected {
    /// The driver and its device.
    pub info: DriverInfo,
    /// Its own library is opened, without the loader.
    pub is_direct: bool,
}

impl From<DriverInfo> for Selected {
    fn from(info: DriverInfo) -> Self {
        Self { info, is_direct: false }
    }
}

impl Selected {
    /// The driver's name and version.
    #[must_use]
    pub fn title(&self) -> String {
        self.info.title_with_version()
    }

    /// Makes the child see this driver alone.
    pub fn narrow(&self, child: &mut Command) {
        if let Some(manifest) = &self.info.manifest {
            environment::narrow(child, manifest);
        }
    }
}
