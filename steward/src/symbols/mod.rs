//! Adds functions and lines to a guard's output, from the files of its frames: reports in text and JSON.
//!
//! ```text
//!   in text      #3  0x55d5475f6f22 /usr/bin/program+0x2a6f22
//!   in JSON  {"address":"0x55d5475f6f22","module":"/usr/bin/program","offset":"0x2a6f22"}
//! ```

#![forbid(unsafe_code)]

mod call_sites;
mod fold;
mod leaks;
mod reports;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use addr2line::{Loader, demangle_auto};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ReadCache};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vk_report::report::GuardRun;

pub use fold::program_frames;

/// The files with functions. Each is opened once.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<String, Option<Loader>>,
    /// Those of the files as they are now; `None` for files that are not there.
    build_ids: HashMap<String, Option<String>>,
    all_frames: bool,
}

/// A function of a frame. After an inlined function come its callers within the frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name in its language.
    pub name: String,
    /// The source file; `None` without debug information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols")
            .field("files", &self.files.keys())
            .field("all_frames", &self.all_frames)
            .finish_non_exhaustive()
    }
}

impl Symbols {
    /// With `all`, shows whole stacks: also frames of the guard and of libraries between it and its caller.
    #[must_use]
    pub fn all_frames(mut self, all: bool) -> Self {
        self.all_frames = all;
        self
    }

    /// Adds function names to the frames in `text`.
    ///
    /// In a report, functions follow their frame: as lines in text, as `functions` in JSON. Text replaces the inner
    /// frames of guard, allocator and standard library, and the outer frames of the runtime, by one line; JSON keeps
    /// all and counts the inner ones in `trimmed`. All else stays unchanged.
    #[must_use]
    pub fn annotate(&mut self, text: &str) -> String {
        self.reports(text)
    }

    /// Names the functions in the stacks of all reports of a guarded run.
    pub fn annotate_run(&mut self, run: &mut GuardRun) {
        for report in &mut run.told {
            report.text = self.annotate(&report.text);
        }
    }

    /// The report in a line of JSON; `None` for other lines.
    #[must_use]
    pub fn report(line: &str) -> Option<Value> {
        line.starts_with(reports::LINE).then(|| serde_json::from_str(line).ok()).flatten()
    }

    /// The unreadable files of frames; these frames have no names.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter(|(path, file)| file.is_none() && is_file(path)).map(|(path, _)| path.as_str())
    }

    pub(crate) fn has_read(&self) -> bool {
        self.files.values().any(Option::is_some)
    }

    /// The files that changed after `when`: names of older frames may be wrong.
    pub fn younger_than(&self, when: SystemTime) -> impl Iterator<Item = &str> {
        let written = |path: &str| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let read = self.files.iter().filter(|(_, file)| file.is_some()).map(|(path, _)| path.as_str());
        read.filter(move |path| written(path).is_some_and(|written| written > when))
    }

    /// The file had this build id when it was mapped. A file that is not there is not replaced.
    pub(crate) fn is_replaced(&mut self, module: &str, build_id: &str) -> bool {
        if build_id.is_empty() {
            return false;
        }
        let now =
            self.build_ids.entry(module.to_owned()).or_insert_with(|| is_regular(module).then(|| build_id_of(module)));
        now.as_ref().is_some_and(|now| now != build_id)
    }

    /// The functions at an address of `module`, innermost first. Empty if unknown.
    pub fn functions(&mut self, module: &str, address: u64) -> Vec<Function> {
        let open = |path: &str| is_regular(path).then(|| Loader::new(path).ok()).flatten();
        let file = self.files.entry(module.to_owned()).or_insert_with(|| open(module));
        let Some(file) = file else { return Vec::new() };
        // Tables of Windows have addresses as if the file lay where it would like to.
        let address = address.saturating_add(file.relative_address_base());
        let mut found = Vec::new();
        if let Ok(mut frames) = file.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.and_then(|function| function.demangle().map(String::from).ok());
                let (file, line) = frame.location.map_or((None, None), |location| (location.file, location.line));
                found.push(Function { name: name.unwrap_or_default(), file: file.map(str::to_owned), line });
            }
        }
        if found.is_empty() {
            found.push(Function::default());
        }
        // Tables of lines alone have no function, or one without its modules.
        if let (Some(outermost), Some(symbol)) = (found.last_mut(), file.find_symbol(address)) {
            let symbol = demangle_auto(symbol.into(), None);
            if is_path_of(&symbol, &outermost.name) {
                outermost.name = symbol.into_owned();
            }
        }
        found.retain(|function| !function.name.is_empty());
        found
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(&self.name))?;
        if let Some(file) = &self.file {
            write!(f, ", {file}")?;
            self.line.map_or(Ok(()), |line| write!(f, ":{line}"))?;
        }
        Ok(())
    }
}

/// The symbol is the same function, with its modules.
fn is_path_of(symbol: &str, name: &str) -> bool {
    let bare = name.split('<').next().unwrap_or(name);
    let is_same = bare.starts_with('{') || (!bare.is_empty() && symbol.contains(bare));
    name.is_empty() || (is_same && symbol.contains("::") && !bare.contains("::"))
}

/// A pipe would wait for its writer; only files have tables.
fn is_regular(path: &str) -> bool {
    is_file(path) && std::fs::metadata(path).is_ok_and(|file| file.is_file())
}

fn build_id_of(path: &str) -> String {
    let Ok(file) = File::open(path) else {
        return String::new();
    };
    let data = ReadCache::new(file);
    let elf = ElfFile64::<Endianness, _>::parse(&data);
    let id = elf.ok().and_then(|elf| elf.build_id().ok().flatten());
    let id = id.unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_file(path: &str) -> bool {
    Path::new(path).is_absolute()
}

/// A long name loses its type arguments.
fn short(name: &str) -> Cow<'_, str> {
    const ROOM: usize = 100;
    if name.len() <= ROOM {
        return name.into();
    }
    let mut told = String::new();
    let mut depth = 0_usize;
    let mut before = ' ';
    for c in name.chars() {
        // The bracket that begins `<T as Trait>::f` stays; `->` closes none.
        let opens = c == '<' && (depth > 0 || before.is_alphanumeric() || before == '_' || told.ends_with("::"));
        let closes = c == '>' && depth > 0 && before != '-';
        if opens {
            depth += 1;
            if depth == 1 {
                told.push_str("<..>");
            }
        } else if closes {
            depth -= 1;
        } else if depth == 0 {
            told.push(c);
        }
        before = c;
    }
    told.into()
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn place(text: &str) -> Option<(&str, u64)> {
    let (module, offset) = text.rsplit_once('+')?;
    Some((module, number(offset)?))
}
