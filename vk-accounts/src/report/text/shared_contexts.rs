//! Two contexts and one shader cache, for a terminal and for the page.

#![forbid(unsafe_code)]

use std::fmt;

use super::guard::paragraph;
use super::{one_line, plural};
use crate::report::{FindingRow, KnownFindings, SharedContext, SharedContexts, Went};
use crate::units::bytes;

impl SharedContexts {
    /// The results, a sentence each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let of = |context: Option<&SharedContext>| {
            context
                .map(|context| one_line(&context.name))
                .unwrap_or_default()
        };
        let [first, second] = [0, 1].map(|index| of(self.contexts.get(index)));
        let contexts = self.contexts.iter().map(|context| {
            let SharedContext { name, compiled, found, regions } = context;
            let (name, kernels, plural) = (one_line(name), self.kernels, plural(*regions));
            format!("{name}: {compiled} of {kernels} kernels compiled, {found} found; {regions} buffer{plural}")
        });
        let Self {
            still_found,
            compiled_anew,
            left_bytes,
            ..
        } = self;
        let on = format!(
            "{second} went on: {still_found} of its own found, {compiled_anew} of {first} compiled anew"
        );
        let left = format!(
            "left: {left_bytes} bytes of host memory; the application's device and instance are its own to destroy"
        );
        let rest = self
            .went
            .lines(&first)
            .into_iter()
            .chain([on])
            .chain(self.went_last.lines(&second))
            .chain([left]);
        contexts
            .chain(rest)
            .chain(self.judgement())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The check of the callbacks by Vulkan's rules.
    fn judgement(&self) -> Vec<String> {
        let Self {
            commands,
            callback_blocks,
            judged,
            findings,
            known_findings,
            unjudged,
            ..
        } = self;
        let of = format!(
            "callbacks: {callback_blocks} block{} in {commands} commands",
            plural(*callback_blocks)
        );
        let count = |level: &str| findings.iter().filter(|row| row.level == level).count() as u64;
        let [violations, suspects, notes] = FindingRow::LEVELS.map(count);
        let found = match findings.is_empty() {
            true => "nothing found".to_owned(),
            false => format!(
                "{violations} violation{}, {suspects} suspect{}, {notes} note{}",
                plural(violations),
                plural(suspects),
                plural(notes)
            ),
        };
        let mut head = if *judged {
            format!("{of}, judged by Vulkan's rules: {found}")
        } else {
            format!("{of}, not judged")
        };
        let known = known_findings.as_ref().map(KnownFindings::words);
        let known = known.filter(|words| !words.is_empty());
        let known = known.map(|words| format!("  violations and suspects: {words}"));
        let more = unjudged.iter().map(|unjudged| format!("  {unjudged}"));
        let more: Vec<String> = known.into_iter().chain(more).collect();
        if !more.is_empty() {
            // On the page all of it is one sentence.
            head.push(';');
        }
        [head].into_iter().chain(more).collect()
    }

    /// The findings, a line each.
    pub fn found(&self) -> impl Iterator<Item = String> {
        self.findings.iter().map(
            |FindingRow {
                 rule,
                 level,
                 sentence,
                 ..
             }| one_line(&format!("{level}: {rule}: {sentence}")),
        )
    }

    /// For a terminal: with each finding, or with their number only.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, all_findings: bool) -> fmt::Result {
        writeln!(
            f,
            "\ntwo contexts on one device, a thread each, with one shader cache:"
        )?;
        self.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
        self.found()
            .filter(|_| all_findings)
            .try_for_each(|finding| paragraph(f, "    ", &finding))?;
        writeln!(f)
    }
}

impl Went {
    fn lines(&self, name: &str) -> [String; 2] {
        let Self {
            kernels,
            held,
            blocks,
            block_bytes,
            book_bytes,
            driver_blocks,
            driver_bytes,
            others_bytes,
        } = self;
        let (plural, of, books) = (plural(*kernels), bytes(*block_bytes), bytes(*book_bytes));
        let more = super::plural(*driver_blocks);
        let but = match held | others_bytes {
            0 => "nothing else".to_owned(),
            _ => format!("but {held} of them held, and {others_bytes} bytes of the other's"),
        };
        [
            format!(
                "{name} released: {kernels} kernel{plural}, {blocks} memory object{} of {of}, {books} of bookkeeping",
                super::plural(*blocks)
            ),
            format!(
                "  and, through its callbacks, {driver_blocks} block{more} of the driver, {}; {but}",
                bytes(*driver_bytes)
            ),
        ]
    }
}
