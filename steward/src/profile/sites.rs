#![forbid(unsafe_code)]

use std::fmt;

use vk_report::report::{BlockSum, CallSite, CallSites, LeakFrame, LeakStack, Report, one_line};
use vk_report::units::bytes;

#[derive(Clone, Debug, Default)]
pub(super) struct ProfileSite {
    /// The context with the scope, the command and the size class: the top of a viewer's tree.
    pub(super) labels: Vec<String>,
    pub(super) frames: Vec<FrameName>,
    pub(super) scope: String,
    /// At the moment with the most bytes of all sites.
    pub(super) at_peak: BlockSum,
    /// Never freed.
    pub(super) left: BlockSum,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrameName {
    pub(super) function: String,
    pub(super) place: String,
}

impl fmt::Display for FrameName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.function),
            place => write!(f, "{} ({place})", self.function),
        }
    }
}

/// Without call sites, the sites are of the report's live blocks.
pub(super) fn of(report: &Report) -> Vec<ProfileSite> {
    match (&report.call_sites, &report.leaks) {
        (Some(sites), _) => sites.sites.iter().map(|site| of_site(sites, site)).collect(),
        (None, Some(leaks)) => leaks.stacks.iter().flat_map(of_leak).collect(),
        (None, None) => Vec::new(),
    }
}

fn of_site(sites: &CallSites, site: &CallSite) -> ProfileSite {
    let owner = match site.scope.as_str() {
        "" => one_line(&site.context),
        scope => one_line(&format!("{}, {scope}", site.context)),
    };
    ProfileSite {
        labels: vec![owner, command(&site.command), size_class(site.size_class)],
        frames: sites.frames_of(site.stack).flat_map(names).collect(),
        scope: site.scope.clone(),
        at_peak: site.at_peak,
        left: site.left,
    }
}

/// Objects and host memory are separate: objects are mostly device memory.
fn of_leak(leak: &LeakStack) -> impl Iterator<Item = ProfileSite> {
    let frames: Vec<_> = leak.frames.iter().flat_map(names).collect();
    let parts = [("host memory for", leak.blocks), ("objects, as created:", leak.objects)];
    let site = move |(what, count): (&str, vk_report::report::LeakCount)| {
        (count.live > 0).then(|| ProfileSite {
            labels: vec![one_line(&format!("{what} {}", leak.kind)), command(&leak.command)],
            frames: frames.clone(),
            left: BlockSum { blocks: count.live, bytes: count.bytes },
            ..ProfileSite::default()
        })
    };
    parts.into_iter().filter_map(site)
}

fn command(name: &str) -> String {
    match name {
        "" => "outside of any command".to_owned(),
        name => one_line(name),
    }
}

fn size_class(class: u64) -> String {
    match class {
        0 => "empty blocks".to_owned(),
        class => format!("blocks up to {}", bytes(class)),
    }
}

fn names(frame: &LeakFrame) -> Vec<FrameName> {
    if frame.functions.is_empty() {
        let file = frame.module.rsplit('/').next().unwrap_or_default();
        let function = match file {
            "" => frame.address.clone(),
            file => format!("{file}+{}", frame.offset),
        };
        return vec![FrameName { function: one_line(&function), place: String::new() }];
    }
    frame.functions.iter().map(|text| split(text)).collect()
}

/// Arguments of a function may contain commas as well, but end with brackets.
fn split(text: &str) -> FrameName {
    let is_place = |place: &str| !place.is_empty() && !place.contains([')', '>', '}']);
    let (function, place) = text.rsplit_once(", ").filter(|(_, place)| is_place(place)).unwrap_or((text, ""));
    FrameName { function: one_line(function), place: one_line(place) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_told_from_its_place() {
        for (text, function, place) in [
            ("lvp_alloc, /src/lvp.c:7", "lvp_alloc", "/src/lvp.c:7"),
            ("lvp_alloc", "lvp_alloc", ""),
            ("a<b, c>", "a<b, c>", ""),
            ("a(b, c)", "a(b, c)", ""),
            ("a(b, c), d.cpp:1", "a(b, c)", "d.cpp:1"),
        ] {
            let name = split(text);
            assert_eq!((&*name.function, &*name.place), (function, place));
        }
    }
}
