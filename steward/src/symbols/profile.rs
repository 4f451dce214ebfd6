//! Profiles that a guard's `write_dhat` and `write_collapsed` wrote without names.
//!
//! ```text
//!   DHAT, JSON v2   "pps":[{..,"fs":[owner, command, innermost, ..]}, ..], "ftbl":["[root]", "path+0x..", ..]    fs are indices of ftbl
//!   collapsed       owner;command;outermost;..;innermost 4096
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Function, Symbols, place, short};

/// Adds names to the frame table of a DHAT profile; `None` if `text` is none.
pub(super) fn dhat(symbols: &mut Symbols, text: &str) -> Option<String> {
    let mut file: Value = text
        .starts_with("{\"dhatFileVersion\":2,")
        .then(|| serde_json::from_str(text).ok())??;
    let table = file.get_mut("ftbl")?.as_array_mut()?;
    let functions: Vec<_> = table
        .iter()
        .map(|frame| {
            frame
                .as_str()
                .map_or(Vec::new(), |frame| named(symbols, frame))
        })
        .collect();
    for (frame, functions) in table.iter_mut().zip(&functions) {
        if !functions.is_empty() {
            let mut name = String::new();
            for (number, function) in functions.iter().enumerate() {
                let _ = write!(
                    name,
                    "{}{}",
                    if number == 0 { "" } else { ", inlined in " },
                    symbolised(function)
                );
            }
            *frame = name.into();
        }
    }
    let points = file.get_mut("pps")?.as_array_mut()?;
    let stacks: Vec<Vec<usize>> = points.iter().map(stack).collect();
    let trimmed: Vec<Vec<usize>> = stacks
        .iter()
        .map(|stack| trim(symbols, stack, &functions))
        .collect();
    let mut count = HashMap::new();
    trimmed
        .iter()
        .for_each(|stack| *count.entry(stack).or_insert(0) += 1);
    for (point, (whole, trimmed)) in points.iter_mut().zip(stacks.iter().zip(&trimmed)) {
        // The viewer rejects two points with one stack, so these stay whole.
        point["fs"] = if count[trimmed] == 1 { trimmed } else { whole }
            .clone()
            .into();
    }
    Some(format!("{file}\n"))
}

fn stack(point: &Value) -> Vec<usize> {
    let places = point["fs"].as_array().into_iter().flatten();
    places
        .filter_map(|place| usize::try_from(place.as_u64()?).ok())
        .collect()
}

/// A stack without the guard's frames. Entries without a name, such as owner and command in front, stay.
fn trim(symbols: &Symbols, stack: &[usize], functions: &[Vec<Function>]) -> Vec<usize> {
    let of = |place: &usize| functions.get(*place).cloned().unwrap_or_default();
    let head = stack
        .iter()
        .take_while(|place| of(place).is_empty())
        .count();
    let (head, frames) = stack.split_at(head);
    let frames_functions: Vec<_> = frames.iter().map(of).collect();
    let shown = symbols.shown(&frames_functions, false);
    [head, &frames[shown.frames]].concat()
}

/// Adds names to collapsed stacks; `None` if `text` has no frames.
pub(super) fn collapsed(symbols: &mut Symbols, text: &str) -> Option<String> {
    let is_one = |line: &str| {
        line.rsplit_once(' ')
            .is_some_and(|(_, weight)| weight.parse::<u64>().is_ok())
    };
    let has_frames = |line: &str| line.contains(';') && line.contains("+0x");
    if !text.lines().all(is_one) || !text.lines().any(has_frames) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    for (stack, weight) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
        let frames: Vec<&str> = stack.split(';').collect();
        let functions: Vec<_> = frames
            .iter()
            .rev()
            .map(|frame| named(symbols, frame))
            .collect();
        // Owner and command are at the outer end and have no functions.
        let head = functions
            .iter()
            .rev()
            .take_while(|functions| functions.is_empty())
            .count();
        let shown = symbols.shown(&functions[..functions.len() - head], false);
        let mut names: Vec<String> = frames[..head]
            .iter()
            .map(|frame| (*frame).to_owned())
            .collect();
        for place in shown.frames.clone().rev() {
            let inlined = if place == shown.frames.start {
                shown.inlined
            } else {
                0
            };
            match &functions[place][inlined..] {
                [] => names.push(frames[frames.len() - 1 - place].to_owned()),
                functions => names.extend(
                    functions
                        .iter()
                        .rev()
                        .map(|function| short(&function.name).replace(';', ":")),
                ),
            }
        }
        let _ = writeln!(out, "{} {weight}", names.join(";"));
    }
    Some(out)
}

/// The functions at `path+0x..`, a return address.
fn named(symbols: &mut Symbols, frame: &str) -> Vec<Function> {
    place(frame).map_or(Vec::new(), |(module, offset)| {
        symbols.functions(module, offset.saturating_sub(1))
    })
}

/// In valgrind's form: `name (file:line)`.
fn symbolised(function: &Function) -> String {
    let name = short(&function.name);
    match (&function.file, function.line) {
        (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
        (Some(file), None) => format!("{name} ({file})"),
        _ => name.into_owned(),
    }
}
