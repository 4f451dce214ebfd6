//! Settings are read once, when the first instance is created.

mod create_info;
mod entries;
pub(crate) mod environment;
pub(crate) mod pattern;
pub(crate) mod table;
mod target;
#[cfg(test)]
mod tests;

use std::ffi::c_void;

use alloc_core::{HostError, TryString, TryVec};

use vk_report::guard_run::Guarding;

use crate::in_process::observation;
use crate::leaks::Frame;
use crate::once::ValueAcrossForks;
use crate::os::{is_privileged, write_to_error_output};
use crate::record::{Own, own};
use crate::request::Signal;
use entries::{Entries, Entry, Form, Source, full_name, push};

pub(crate) use create_info::LAYER;
pub use table::{ENVIRONMENT_PREFIX, FILE_PREFIX, SETTINGS, Setting};
pub(crate) use target::Target;

pub(crate) struct Settings {
    /// The process has raised privileges, or `match` leaves it out: no callbacks are replaced, no file is written.
    pub(crate) passes_through: bool,
    pub(crate) check: bool,
    pub(crate) brackets: Brackets,
    pub(crate) text: Option<Target>,
    pub(crate) json: Option<Target>,
    /// It is a pattern of `file_name`, as the other files are.
    pub(crate) state: Option<TryString<Own>>,
    pub(crate) guarding: Guarding,
    /// The plan also refuses requests of the program's own callbacks.
    pub(crate) fail_application: bool,
    pub(crate) memory_report: bool,
    pub(crate) refusals: Option<TryString<Own>>,
    pub(crate) record: Option<TryString<Own>>,
    pub(crate) stacks: bool,
    pub(crate) frame: Frame,
    pub(crate) mark_signal: Option<Signal>,
    pub(crate) meter: bool,
    pub(crate) signal: Option<Signal>,
    pub(crate) arguments: bool,
    /// Seconds between two reports; 0 for reports at the end only.
    pub(crate) interval: u64,
    pub(crate) complaints: TryVec<TryString<Own>, Own>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brackets {
    None,
    /// All but those that record into a command buffer.
    Some,
    All,
}

static SETTINGS_OF_PROCESS: ValueAcrossForks<Settings> = ValueAcrossForks::new();

/// Before the first instance the settings are read without a create info.
#[inline]
pub(crate) fn settings() -> &'static Settings {
    match SETTINGS_OF_PROCESS.get() {
        Some(settings) => settings,
        // SAFETY: without a create info nothing is read.
        None => unsafe { load(std::ptr::null()) },
    }
}

/// Later calls, of other instances too, return the same.
///
/// # Safety
/// `info` is NULL or a valid `VkInstanceCreateInfo`.
#[cold]
pub(crate) unsafe fn load(info: *const c_void) -> &'static Settings {
    SETTINGS_OF_PROCESS.get_or_make(|| {
        if is_privileged() {
            return Settings::of_privileged_process();
        }
        let mut entries = TryVec::new_in(own());
        // SAFETY: NULL or a valid `VkInstanceCreateInfo`.
        let read = unsafe { push_all(&mut entries, info) };
        let settings = read.and_then(|()| Settings::new(&entries));
        let settings = settings.unwrap_or_else(|error| {
            complain(format_args!("settings are left out: {error}"));
            Settings::default()
        });
        for complaint in &settings.complaints {
            complain(format_args!("{}", complaint.as_str()));
        }
        settings
    })
}

/// # Safety
/// As [`load`].
unsafe fn push_all(entries: &mut Entries, info: *const c_void) -> Result<(), HostError> {
    if let Some(observed) = observation() {
        for (name, value) in observed.settings {
            push(entries, Source::Environment, name, Form::Text, value)?;
        }
        return Ok(());
    }
    // SAFETY: NULL or a valid `VkInstanceCreateInfo`.
    unsafe { create_info::push_create_info(entries, info) }?;
    environment::push_environment(entries)?;
    environment::push_settings_file(entries)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            passes_through: false,
            check: true,
            brackets: Brackets::Some,
            text: Some(Target::ErrorOutput),
            json: None,
            state: None,
            guarding: Guarding::default(),
            fail_application: false,
            memory_report: false,
            refusals: None,
            record: None,
            stacks: false,
            frame: Frame::DEFAULT,
            mark_signal: None,
            meter: false,
            signal: None,
            arguments: false,
            interval: 0,
            complaints: TryVec::new_in(own()),
        }
    }
}

impl Settings {
    fn of_privileged_process() -> Self {
        Self { passes_through: true, check: false, text: None, ..Self::default() }
    }

    fn new(entries: &[Entry]) -> Result<Self, HostError> {
        let mut settings = Self { text: None, ..Self::default() };
        for setting in SETTINGS {
            let named = |entry: &&Entry| entry.name.as_str() == setting.name && !entry.value.as_str().is_empty();
            let Some(entry) = entries.iter().find(named) else {
                continue;
            };
            // A number or a `VkBool32` is no name of a file, nor a plan.
            let is_of_type = match entry.form {
                Form::Text => true,
                Form::Boolean => setting.default.parse::<bool>().is_ok(),
                Form::Number => setting.default.parse::<u64>().is_ok(),
                Form::Fault => false,
            };
            if !is_of_type || (setting.set)(&mut settings, &entry.value).is_err() {
                let name = full_name(entry)?;
                let (before, after) = match entry.form {
                    Form::Fault => ("has ", ""),
                    Form::Text => ("is \"", "\""),
                    Form::Boolean => ("is the VkBool32 ", ""),
                    Form::Number => ("is the number ", ""),
                };
                settings.add_complaint(format_args!(
                    "{} {before}{}{after}: expected {}; the default is taken: {}",
                    name.as_str(),
                    entry.value.as_str(),
                    setting.values,
                    setting.default,
                ))?;
            }
        }
        for entry in entries {
            if SETTINGS.iter().all(|setting| setting.name != entry.name.as_str()) {
                let name = full_name(entry)?;
                let mut expected = TryString::new_in(own());
                for setting in SETTINGS {
                    expected.try_write_fmt(format_args!(" {}", setting.name))?;
                }
                settings.add_complaint(format_args!(
                    "{} is no setting of this layer; expected one of:{}",
                    name.as_str(),
                    expected.as_str()
                ))?;
            }
        }
        if settings.text.is_none() && settings.json.is_none() {
            settings.text = Some(Target::ErrorOutput);
        }
        Ok(settings)
    }

    fn add_complaint(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), HostError> {
        let mut complaint = TryString::new_in(own());
        complaint.try_write_fmt(line)?;
        self.complaints.try_push(complaint).map_err(|refused| refused.error)
    }
}

pub(crate) fn complain(what: std::fmt::Arguments<'_>) {
    let mut line = TryString::new_in(own());
    let written = line.try_write_fmt(format_args!("VK_LAYER_STEWARD_memory: {what}\n"));
    if written.is_ok() {
        write_to_error_output(line.as_bytes());
    }
}
