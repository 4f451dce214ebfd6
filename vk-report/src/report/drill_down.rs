#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{BlockSum, CallSite, CallSites};
use crate::units::bytes;

/// Blocks of a context, of one of its commands, of a size class of that, or of a call stack of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrillDown {
    /// The context, the command, the size class, or the innermost function of the stack.
    pub label: String,
    /// Live at the end of the phase when all contexts held most.
    pub live: BlockSum,
    /// Ever allocated.
    pub total: BlockSum,
    /// The place of its stack in [`CallSites::stacks`]; of a stack only.
    pub stack: Option<usize>,
    /// What it consists of, the most live bytes first; of equal ones the most allocated.
    pub parts: Vec<DrillDown>,
}

impl CallSites {
    /// Each context with what it consists of, the most live bytes first.
    #[must_use]
    pub fn drill_down(&self) -> Vec<DrillDown> {
        let levels: [&dyn Fn(&CallSite) -> String; 4] = [
            &|site| site.context.clone(),
            &|site| match site.command.as_str() {
                "" => "outside of any command".to_owned(),
                command => command.to_owned(),
            },
            &|site| match site.size_class {
                0 => "empty blocks".to_owned(),
                class => format!("blocks up to {}", bytes(class)),
            },
            &|site| self.innermost(site),
        ];
        level(&self.sites.iter().collect::<Vec<_>>(), &levels)
    }

    fn innermost(&self, site: &CallSite) -> String {
        let frame = self.frames_of(site.stack).next();
        let name = frame.and_then(|frame| frame.lines().into_iter().next());
        name.unwrap_or_else(|| "no call stack".to_owned())
    }
}

fn level(sites: &[&CallSite], levels: &[&dyn Fn(&CallSite) -> String]) -> Vec<DrillDown> {
    let Some((label, below)) = levels.split_first() else {
        return Vec::new();
    };
    // Two stacks with one innermost function are two.
    let stack = |site: &CallSite| site.stack.filter(|_| below.is_empty());
    let mut groups: BTreeMap<_, Vec<&CallSite>> = BTreeMap::new();
    for site in sites {
        groups.entry((label(site), stack(site))).or_default().push(site);
    }
    let sum = |sites: &[&CallSite], of: fn(&CallSite) -> BlockSum| {
        sites.iter().fold(BlockSum::default(), |sum, site| sum.plus(of(site)))
    };
    let mut parts: Vec<_> = groups
        .into_iter()
        .map(|((label, stack), sites)| DrillDown {
            label,
            live: sum(&sites, |site| site.live),
            total: sum(&sites, |site| site.total),
            stack,
            parts: level(&sites, below),
        })
        .collect();
    parts.sort_by_key(|part| Reverse((part.live.bytes, part.total.bytes)));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(command: &str, size_class: u64, stack: Option<usize>, bytes: u64) -> CallSite {
        let sum = BlockSum { blocks: 1, bytes };
        CallSite {
            context: "VkDevice".to_owned(),
            command: command.to_owned(),
            size_class,
            stack,
            live: sum,
            total: sum.plus(sum),
            ..CallSite::default()
        }
    }

    #[test]
    fn each_level_is_the_sum_of_its_parts_and_the_largest_comes_first() {
        let sites = CallSites {
            sites: vec![
                site("vkCreateDevice", 64, Some(0), 40),
                site("vkCreateDevice", 64, Some(1), 50),
                site("vkCreateDevice", 1024, None, 1000),
                site("", 0, None, 2000),
            ],
            stacks: vec![Vec::new(), Vec::new()],
            ..CallSites::default()
        };
        let [device] = &sites.drill_down()[..] else {
            panic!("one context");
        };
        assert_eq!((device.live.bytes, device.total.blocks), (3090, 8));
        let labels = |parts: &[DrillDown]| -> Vec<_> {
            parts.iter().map(|part| (part.label.clone(), part.live.bytes)).collect()
        };
        assert_eq!(
            labels(&device.parts),
            [("outside of any command".to_owned(), 2000), ("vkCreateDevice".to_owned(), 1090)]
        );
        let classes = &device.parts[1].parts;
        assert_eq!(labels(classes), [("blocks up to 1.00 KiB".to_owned(), 1000), ("blocks up to 64 B".to_owned(), 90)]);
        let stacks: Vec<_> = classes[1].parts.iter().map(|part| part.stack).collect();
        assert_eq!(stacks, [Some(1), Some(0)]);
    }
}
