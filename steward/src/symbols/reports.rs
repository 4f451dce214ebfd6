use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::fold::shown;
use super::{Function, Symbols, number, place};

pub(super) const LINE: &str = "{\"debug_guard\":";
/// The start of the line that explains how to get names; dropped once they are there.
const HINT: &str = "  names of functions: ";
/// Strings of JSON escape quotes, so this is always a key.
const FRAMES: &str = "\"frames\":";
/// Follows a stack: how many innermost frames the text leaves out.
const TRIMMED: &str = ",\"trimmed\":";

#[derive(Deserialize, Serialize)]
struct ReportFrame {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    functions: Vec<Function>,
}

impl Symbols {
    pub(super) fn reports(&mut self, text: &str) -> String {
        let mut told = String::with_capacity(text.len());
        // The first frame of a stopped access is the instruction itself; all others are return addresses.
        let mut exact = false;
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            if line.starts_with(LINE) {
                self.json(line, &mut told);
            } else if is_frame(line) {
                let mut stack = vec![line];
                while let Some(line) = lines.next_if(|line| is_frame(line)) {
                    stack.push(line);
                }
                self.stack(&stack, exact, &mut told);
            } else if !(line.starts_with(HINT) && self.has_read()) {
                told.push_str(line);
            }
            exact = line.starts_with("  stack of the access");
        }
        told
    }

    fn stack(&mut self, lines: &[&str], exact: bool, told: &mut String) {
        let named = |(number, line): (usize, &&str)| {
            let Some((module, offset)) = frame(line) else {
                return Vec::new();
            };
            self.functions(module, if exact && number == 0 { offset } else { offset.saturating_sub(1) })
        };
        let functions: Vec<_> = lines.iter().enumerate().map(named).collect();
        let shown = self.shown(&functions, exact);
        if let Some(last) = shown.frames.start.checked_sub(1) {
            let name = functions[last].last().map_or("", |function| &function.name);
            let _ =
                writeln!(told, "    #0 to #{last}: the guard and what called it, the outermost {}", super::short(name));
        }
        for number in shown.frames.clone() {
            told.push_str(lines[number]);
            if !functions[number].is_empty() && !lines[number].ends_with('\n') {
                told.push('\n');
            }
            let inlined = if number == shown.frames.start { shown.inlined } else { 0 };
            for function in &functions[number][inlined..] {
                let _ = writeln!(told, "         {function}");
            }
        }
        if let Some(last) = lines.len().checked_sub(1).filter(|last| shown.frames.end <= *last) {
            let _ = writeln!(told, "    #{} to #{last}: the runtime", shown.frames.end);
        }
    }

    pub(super) fn shown(&self, functions: &[Vec<Function>], exact: bool) -> super::fold::Shown {
        if self.all_frames {
            super::fold::Shown { frames: 0..functions.len(), inlined: 0 }
        } else {
            shown(functions, exact)
        }
    }

    fn json(&mut self, line: &str, told: &mut String) {
        let stopped = line.contains("\"detected_at\":\"instruction\"");
        let by = line.find("\"by\":{").filter(|_| stopped);
        let exact = by.and_then(|by| line[by..].find(FRAMES).map(|frames| by + frames));
        let mut from = 0;
        while let Some(at) = line[from..].find(FRAMES).map(|at| from + at) {
            let begin = at + FRAMES.len();
            told.push_str(&line[from..begin]);
            // Skips the whole value: a search for stacks within it would take time in proportion to its depth.
            let mut values = serde_json::Deserializer::from_str(&line[begin..]).into_iter::<&RawValue>();
            let Some(Ok(value)) = values.next() else {
                from = begin;
                break;
            };
            from = begin + values.byte_offset();
            let Ok(mut frames) = serde_json::from_str::<Vec<ReportFrame>>(value.get()) else {
                told.push_str(&line[begin..from]);
                continue;
            };
            let exact = exact == Some(at);
            for (place, frame) in frames.iter_mut().enumerate() {
                let (Some(module), Some(offset)) = (&frame.module, frame.offset.as_deref().and_then(number)) else {
                    continue;
                };
                frame.functions =
                    self.functions(module, if exact && place == 0 { offset } else { offset.saturating_sub(1) });
            }
            let functions: Vec<_> = frames.iter().map(|frame| frame.functions.clone()).collect();
            let trimmed = shown(&functions, exact).frames.start;
            let _ = serde_json::to_string(&frames).map(|frames| told.push_str(&frames));
            let known = line[from..].starts_with(TRIMMED);
            if !known && functions.iter().any(|functions| !functions.is_empty()) {
                let _ = write!(told, "{TRIMMED}{trimmed}");
            }
        }
        told.push_str(&line[from..]);
    }
}

fn is_frame(line: &str) -> bool {
    address(line).is_some()
}

fn address(line: &str) -> Option<&str> {
    let (place, frame) = line.strip_prefix("    #")?.trim_end().split_once(' ')?;
    place.parse::<u32>().ok()?;
    let frame = frame.trim_start();
    let (address, place) = frame.split_once(' ').unwrap_or((frame, ""));
    number(address).map(|_| place)
}

fn frame(line: &str) -> Option<(&str, u64)> {
    address(line).and_then(place)
}
