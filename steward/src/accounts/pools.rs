//! Whether what is made from pools asks for host memory at all (V34).
//!
//! Vulkan specification, *Host Memory*: children of a pool draw on the pool's allocator. A driver that takes their memory
//! elsewhere makes no call that could be judged; only that there is none can be seen. Nor is that wrong in itself: all may have been
//! taken with the pool.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use vk_callbacks::{CommandAction, CommandRow};

use crate::report::FindingRow;
use crate::workload::ObjectKind;

/// What commands about the children of each kind of pool asked for, of anybody.
#[derive(Debug, Default)]
pub(super) struct Pools(RefCell<BTreeMap<ObjectKind, Drawn>>);

#[derive(Debug, Default)]
struct Drawn {
    made_by: &'static str,
    made: u64,
    asked: u64,
}

impl Pools {
    /// Whether [`Pools::ran`] wants to know of commands about this kind.
    pub(super) fn want(kind: ObjectKind) -> bool {
        !kind.takes_callbacks() && matches!(kind.parent(), Some(ObjectKind::DescriptorPool | ObjectKind::CommandPool))
    }

    /// A command about a pool's child ran, and so many requests came meanwhile.
    pub(super) fn ran(&self, command: &'static str, kind: ObjectKind, requests: u64) {
        let mut pools = self.0.borrow_mut();
        let drawn = pools.entry(kind).or_default();
        if CommandRow::of(command).action == CommandAction::Allocate {
            drawn.made_by = command;
            drawn.made += 1;
        }
        drawn.asked += requests;
    }

    /// A note for each kind whose commands asked for nothing; `held` is what a pool's own callbacks gave, in bytes.
    pub(super) fn findings(&self, held: impl Fn(ObjectKind) -> u64) -> Vec<FindingRow> {
        let pools = self.0.borrow();
        let silent = pools.iter().filter(|(_, drawn)| drawn.made > 0 && drawn.asked == 0);
        let row = |(kind, drawn): (&ObjectKind, &Drawn)| {
            let pool = kind.parent()?;
            let (name, made_by, held) = (pool.name(), drawn.made_by, held(pool));
            let sentence = format!(
                "nothing was asked of any allocator in {made_by} and the other commands on {kind}s; {name}'s gave {held} B with \
                 the pools: what those do not hold lies past the callbacks; {} times",
                drawn.made
            );
            Some(FindingRow {
                rule: "V34".to_owned(),
                kind: "PoolNeverAsked".to_owned(),
                level: FindingRow::NOTE.to_owned(),
                sentence,
                owner: name.to_owned(),
                command: made_by.to_owned(),
                scope: "object".to_owned(),
                count: drawn.made,
                ..FindingRow::default()
            })
        };
        silent.filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v34_a_pool_whose_children_ask_for_nothing_is_noted_and_no_other() {
        let pools = Pools::default();
        pools.ran("vkAllocateDescriptorSets", ObjectKind::DescriptorSet, 1);
        pools.ran("vkAllocateCommandBuffers", ObjectKind::CommandBuffer, 0);
        pools.ran("vkCmdDraw", ObjectKind::CommandBuffer, 0);
        let told =
            |pools: &Pools| pools.findings(|_| 24).into_iter().map(|row| (row.owner, row.command, row.count)).collect::<Vec<_>>();
        assert_eq!(told(&pools), [("VkCommandPool".into(), "vkAllocateCommandBuffers".into(), 1)]);
        pools.ran("vkCmdDraw", ObjectKind::CommandBuffer, 1);
        assert_eq!(told(&pools), []);
        assert!(Pools::want(ObjectKind::CommandBuffer) && !Pools::want(ObjectKind::Queue) && !Pools::want(ObjectKind::Buffer));
    }
}
