//! Findings, seen or expected, by place: only findings of the same place are compared.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::file::Expected;
use vk_callbacks::CommandRow;
use vk_report::report::FindingRow;

pub(super) type Place<'a> = [&'a str; 4];

pub(crate) trait KeyedFinding {
    /// Rule (one, or several with `/` between), kind, owner, command, scope.
    fn key(&self) -> [&str; 5];
}

impl KeyedFinding for FindingRow {
    fn key(&self) -> [&str; 5] {
        [&self.rule, &self.kind, &self.owner, &self.command, &self.scope]
    }
}

impl KeyedFinding for Expected {
    fn key(&self) -> [&str; 5] {
        [&self.rule, &self.kind, &self.owner, &self.command, &self.scope]
    }
}

fn place(finding: &impl KeyedFinding) -> Place<'_> {
    let [_, kind, owner, command, scope] = finding.key();
    [kind, owner, core_name(command), scope]
}

/// Programs call a promoted command by either name: with the suffix of its extension, and without.
fn core_name(command: &str) -> &str {
    let stripped = ["KHR", "EXT"].iter().find_map(|suffix| command.strip_suffix(suffix));
    let promoted = stripped.filter(|name| CommandRow::index_of(name).is_some());
    promoted.unwrap_or(command)
}

/// Findings that differ in their numbers alone are alike.
pub(super) fn alike(one: &impl KeyedFinding, other: &impl KeyedFinding) -> bool {
    let ([rules, ..], [other_rules, ..]) = (one.key(), other.key());
    // Whether a command ran when a foreign thread called (V22, or V23 alone) depends on timing: one common rule is
    // enough.
    let in_common = |rule: &str| other_rules.split('/').any(|of_other| of_other == rule);
    place(one) == place(other) && rules.split('/').any(in_common)
}

pub(super) struct ByPlace<'a, T>(HashMap<Place<'a>, Vec<&'a T>>);

impl<'a, T: KeyedFinding> ByPlace<'a, T> {
    pub(super) fn new(all: impl IntoIterator<Item = &'a T>) -> Self {
        let mut by_place = Self(HashMap::new());
        all.into_iter().for_each(|one| by_place.insert(one));
        by_place
    }

    pub(super) fn insert(&mut self, one: &'a T) {
        self.0.entry(place(one)).or_default().push(one);
    }

    pub(super) fn find(&self, other: &impl KeyedFinding) -> Option<&'a T> {
        self.0.get(&place(other))?.iter().copied().find(|one| alike(*one, other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promoted_command_is_known_by_both_names() {
        let row = |command: &str| FindingRow { rule: "V30".into(), command: command.into(), ..FindingRow::default() };
        let core = row("vkCreateDescriptorUpdateTemplate");
        let known = [core.clone(), row("vkCreateSwapchainKHR")];
        let known = ByPlace::new(&known);
        let found = |command: &str| known.find(&row(command)).map(|row| row.command.as_str());
        let name = "vkCreateDescriptorUpdateTemplateKHR";
        assert_eq!(found(name), Some(core.command.as_str()));
        assert!(ByPlace::new(&[row(name)]).find(&core).is_some());
        assert!(found("vkCreateDescriptorUpdateTemplateNV").is_none());
        assert!(found("vkCreateSwapchain").is_none());
        assert!(found("vkCreateSwapchainKHR").is_some());
    }
}
