//! Functions and lines for the stacks of a guard's reports, found afterwards in the files that the frames lie in.
//!
//! ```text
//!   in text      #3  0x55d5475f6f22 /usr/bin/program+0x2a6f22
//!   in JSON  {"address":"0x55d5475f6f22","module":"/usr/bin/program","offset":"0x2a6f22"}
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use addr2line::{Loader, demangle_auto};
use serde::Serialize;
use serde_json::Value;

/// What begins a line of JSON of a guard's.
const LINE: &str = "{\"debug_guard\":";

/// The files whose functions were asked for. Each is opened once.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<String, Option<Loader>>,
}

/// Where a frame is, in the words of its source. One that was inlined has the functions that it was inlined into behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Its name, as its language writes it.
    pub name: String,
    /// The source file; `None` without debug information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Symbols {
    /// `text` with what could be found out about the frames of the reports in it: in text below each frame, in a line of JSON as
    /// `functions` of each frame. Everything else is as it was.
    #[must_use]
    pub fn annotate(&mut self, text: &str) -> String {
        let mut told = String::with_capacity(text.len());
        // The first frame of a stopped access is the instruction itself; all others are where a call returns to.
        let mut exact = false;
        for line in text.split_inclusive('\n') {
            if line.starts_with(LINE) {
                self.json(line, &mut told);
                continue;
            }
            told.push_str(line);
            if let Some((module, offset)) = frame(line) {
                if !line.ends_with('\n') {
                    told.push('\n');
                }
                for function in self.functions(module, if exact { offset } else { offset.saturating_sub(1) }) {
                    let _ = write!(told, "         {}", short(&function.name));
                    if let Some(file) = &function.file {
                        let _ = write!(told, ", {file}");
                        let _ = function.line.map(|line| write!(told, ":{line}"));
                    }
                    told.push('\n');
                }
            }
            exact = line.starts_with("  stack of the access");
        }
        told
    }

    /// The report in a line of JSON; `None` for any other line.
    #[must_use]
    pub fn report(line: &str) -> Option<Value> {
        line.starts_with(LINE).then(|| serde_json::from_str(line).ok()).flatten()
    }

    /// What is at an address that the tables of `module` have, innermost first. Empty where nothing is known.
    pub fn functions(&mut self, module: &str, address: u64) -> Vec<Function> {
        let open = |path: &str| Path::new(path).is_absolute().then(|| Loader::new(path).ok()).flatten();
        let file = self.files.entry(module.to_owned()).or_insert_with(|| open(module));
        let Some(file) = file else { return Vec::new() };
        let mut found = Vec::new();
        if let Ok(mut frames) = file.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function else { continue };
                let name = function.demangle().map(String::from).unwrap_or_default();
                let location = frame.location;
                found.push(Function {
                    name,
                    file: location.as_ref().and_then(|location| location.file).map(str::to_owned),
                    line: location.and_then(|location| location.line),
                });
            }
        }
        if found.is_empty()
            && let Some(symbol) = file.find_symbol(address)
        {
            found.push(Function { name: demangle_auto(symbol.into(), None).into_owned(), file: None, line: None });
        }
        found
    }

    /// Copies a line of JSON, with `functions` in each frame that lies in a file.
    fn json(&mut self, line: &str, told: &mut String) {
        const MODULE: &str = ",\"module\":";
        const OFFSET: &str = ",\"offset\":";
        // What stands in a string of JSON has its quotes escaped, so these are keys wherever they are found.
        let stopped = line.contains("\"moment\":\"instruction\"");
        let by = line.find("\"by\":{").filter(|_| stopped);
        let first = by.and_then(|by| line[by..].find("\"frames\":[").map(|frames| by + frames));
        let mut rest = line;
        while let Some(at) = rest.find(MODULE) {
            let (before, from) = rest.split_at(at);
            told.push_str(before);
            let exact = first.is_some_and(|first| {
                let here = line.len() - from.len();
                first < here && line[first..here].matches('{').count() == 1
            });
            let frame = string(&from[MODULE.len()..]).and_then(|(module, end)| {
                let behind = from[MODULE.len() + end..].strip_prefix(OFFSET)?;
                let (offset, more) = string(behind)?;
                Some((module, number(&offset)?, from.len() - behind.len() + more))
            });
            let Some((module, offset, end)) = frame else {
                told.push_str(MODULE);
                rest = &from[MODULE.len()..];
                continue;
            };
            told.push_str(&from[..end]);
            let functions = self.functions(&module, if exact { offset } else { offset.saturating_sub(1) });
            if !functions.is_empty()
                && let Ok(functions) = serde_json::to_string(&functions)
            {
                let _ = write!(told, ",\"functions\":{functions}");
            }
            rest = &from[end..];
        }
        told.push_str(rest);
    }
}

/// A name that a line has room for: of a long one, what stands in angle brackets behind a name is left out.
fn short(name: &str) -> Cow<'_, str> {
    const ROOM: usize = 100;
    if name.len() <= ROOM {
        return name.into();
    }
    let mut told = String::new();
    let mut depth = 0_usize;
    let mut before = ' ';
    for c in name.chars() {
        // `<T as Trait>::f` begins with one that says what it is; `->` ends none.
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

/// The string that `json` begins with, and where it ends.
fn string(json: &str) -> Option<(String, usize)> {
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<String>();
    let text = values.next()?.ok()?;
    Some((text, values.byte_offset()))
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// File and address of `    #0  0x.. path+0x..`.
fn frame(line: &str) -> Option<(&str, u64)> {
    let (place, frame) = line.strip_prefix("    #")?.trim_end().split_once(' ')?;
    place.parse::<u32>().ok()?;
    let (address, place) = frame.trim_start().split_once(' ')?;
    number(address)?;
    let (module, offset) = place.rsplit_once('+')?;
    Some((module, number(offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program, and what its tables call the address of `function`.
    fn place(function: fn()) -> (String, u64) {
        let program = std::env::current_exe().expect("a path").display().to_string();
        let list = std::fs::read_to_string("/proc/self/maps").expect("a process can read its own list");
        // A program that can be anywhere is linked as if it began at 0.
        let first = list.lines().find(|line| line.ends_with(&program)).expect("the program is mapped");
        let base = first.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok()).expect("a line begins so");
        (program, function as usize as u64 - base)
    }

    #[inline(never)]
    fn found_by_its_name() {
        std::hint::black_box(found_by_its_name as fn());
    }

    fn named(told: &str) -> bool {
        told.contains("found_by_its_name")
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn frames_of_text_get_names_and_lines() {
        let (program, offset) = place(found_by_its_name);
        let frame = |offset| format!("    #0  0x55d5475f6f22 {program}+{offset:#x}\n");
        let text = |head: &str, offset| format!("{head}\n{}    #1  0x8\nother", frame(offset));
        let mut symbols = Symbols::default();
        let told = symbols.annotate(&text("  stack of the access:", offset));
        let line = told.lines().nth(2).expect("a line below the frame");
        assert!(named(line) && line.contains("symbols.rs:"), "{told}");
        assert_eq!(told.replace(&format!("{line}\n"), ""), text("  stack of the access:", offset), "the rest is as it was");
        // A return address is behind its call: the first byte of a function is the last call of the one before.
        assert!(!named(&symbols.annotate(&text("  stack of the free:", offset))));
        assert!(named(&symbols.annotate(&text("  stack of the free:", offset + 1))));
        assert_eq!(
            symbols.annotate("    #0  0x10 /no/such/file+0x10\n    # what"),
            "    #0  0x10 /no/such/file+0x10\n    # what"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn frames_of_json_get_names_and_stay_json() {
        let (program, offset) = place(found_by_its_name);
        let module = serde_json::to_string(&program).expect("a string");
        let frame = format!(r#"{{"address":"0x1","module":{module},"offset":"{offset:#x}"}}"#);
        let line = |moment: &str| {
            format!(
                r#"{{"debug_guard":1,"kind":"overflow","moment":"{moment}","label":"\",\"module\":\"x\"","block":{{"frames":[{frame}]}},"by":{{"frames":[{frame},{frame}]}},"end":0}}"#
            )
        };
        let mut symbols = Symbols::default();
        let functions = |told: &str| -> Vec<bool> {
            let report = Symbols::report(told).unwrap_or_else(|| panic!("no report: {told}"));
            assert_eq!((&report["end"], &report["label"]), (&0.into(), &r#"","module":"x""#.into()));
            let frames = [&report["block"]["frames"][0], &report["by"]["frames"][0], &report["by"]["frames"][1]];
            frames.iter().map(|frame| frame["functions"][0]["name"].as_str().is_some_and(named)).collect()
        };
        assert_eq!(functions(&symbols.annotate(&line("instruction"))), [false, true, false]);
        assert_eq!(functions(&symbols.annotate(&line("free"))), [false, false, false]);
        assert_eq!(Symbols::report("{\"other\":1}"), None);
    }

    #[test]
    fn long_names_lose_what_is_in_brackets() {
        assert_eq!(short("take<Guard<System>>"), "take<Guard<System>>");
        let long = "a::very::long::path::that::goes::on::and::on".to_owned();
        let name = format!("<{long}::Type<A, {long}> as {long}::Trait>::call::<fn(A) -> B, C<D>>::{{closure#0}}<E>");
        assert_eq!(short(&name), format!("<{long}::Type<..> as {long}::Trait>::call::<..>::{{closure#0}}<E>"));
        let odd = format!("{}>>->operator", "x".repeat(100));
        assert_eq!(short(&odd), odd);
    }

    #[test]
    fn what_is_not_a_report_s_stays_as_it_is() {
        for text in [
            "",
            "\n",
            "    #0",
            "    #x 0x1 a+0x1",
            "{\"debug_guard\":1,\"module\":",
            "{\"debug_guard\":1,\"module\":\"a\",\"offset\":7}",
        ] {
            assert_eq!(Symbols::default().annotate(text), text);
        }
    }
}
