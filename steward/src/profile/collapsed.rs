//! Collapsed stacks: `owner;command;size class;outermost;..;innermost 4096`, one line a stack, as tools for flame
//! graphs read them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ProfileInput;

/// Bytes at the moment with the most live bytes; of a program, live bytes at the end.
pub(super) fn collapsed(input: ProfileInput<'_>) -> String {
    let has_totals = input.has_totals();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for site in input.sites() {
        let weight = if has_totals { site.at_peak } else { site.left };
        let frames = site.frames.iter().rev().map(|frame| &frame.function);
        let stack: Vec<_> = site.labels.iter().chain(frames).map(|name| clean(name)).collect();
        if weight.bytes > 0 {
            let sum = lines.entry(stack.join(";")).or_default();
            *sum = sum.saturating_add(weight.bytes);
        }
    }
    let mut out = String::new();
    for (stack, bytes) in lines {
        let _ = writeln!(out, "{stack} {bytes}");
    }
    out
}

fn clean(name: &str) -> String {
    name.replace(';', ":")
}
