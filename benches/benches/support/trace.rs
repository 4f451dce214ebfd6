//! The recorded host traces, parsed into memory before anything is timed.

use std::alloc::Layout;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use alloc_core::Scope;
use flate2::read::GzDecoder;
use vk_callbacks::trace::{Pointer, Request};
use vk_callbacks::{TraceEvent, TraceReader};

/// One call of a trace; blocks are slots, each used once.
#[derive(Clone, Copy)]
pub enum Op {
    Take {
        slot: usize,
        layout: Layout,
        scope: Scope,
    },
    Resize {
        from: usize,
        to: usize,
        layout: Layout,
    },
    Give {
        slot: usize,
    },
}

/// A trace ready to be replayed.
pub struct Trace {
    pub ops: Vec<Op>,
    pub slots: usize,
}

impl Trace {
    /// Reads a recording bundled with the program, by the name of its file.
    pub fn bundled(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../steward/traces")
            .join(file);
        let packed = File::open(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut text = String::new();
        GzDecoder::new(packed)
            .read_to_string(&mut text)
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut trace = Self {
            ops: Vec::new(),
            slots: 0,
        };
        let mut live = HashMap::new();
        for event in TraceReader::new(text).expect("a trace") {
            match event.expect("a well-formed trace").1 {
                TraceEvent::Allocate {
                    block: Pointer::Block(id),
                    asked,
                    ..
                } => {
                    if let Some((layout, scope)) = wanted(&asked) {
                        let slot = trace.slot(&mut live, id);
                        trace.ops.push(Op::Take {
                            slot,
                            layout,
                            scope,
                        });
                    }
                }
                TraceEvent::Reallocate {
                    old: Pointer::Block(old),
                    new: Pointer::Block(new),
                    asked,
                    ..
                } => {
                    if let (Some((layout, _)), Some(from)) = (wanted(&asked), live.remove(&old)) {
                        let to = trace.slot(&mut live, new);
                        trace.ops.push(Op::Resize { from, to, layout });
                    }
                }
                TraceEvent::Free {
                    block: Pointer::Block(id),
                    ..
                } => {
                    if let Some(slot) = live.remove(&id) {
                        trace.ops.push(Op::Give { slot });
                    }
                }
                _ => {}
            }
        }
        // What the trace leaves behind is given back, so that every round begins alike.
        let mut left: Vec<usize> = live.into_values().collect();
        left.sort_unstable();
        trace
            .ops
            .extend(left.into_iter().map(|slot| Op::Give { slot }));
        trace
    }

    fn slot(&mut self, live: &mut HashMap<u64, usize>, id: u64) -> usize {
        live.insert(id, self.slots);
        self.slots += 1;
        self.slots - 1
    }

    /// The requests of the trace in their order.
    pub fn layouts(&self) -> impl Iterator<Item = Layout> {
        self.ops.iter().filter_map(|op| {
            if let Op::Take { layout, .. } = op {
                Some(*layout)
            } else {
                None
            }
        })
    }
}

/// Requests of size 0 are left out: the allocator behind would not be asked.
fn wanted(asked: &Request) -> Option<(Layout, Scope)> {
    let layout = Layout::from_size_align(asked.size as usize, asked.align as usize).ok()?;
    let scope = Scope::from_raw(u32::try_from(asked.scope).ok()?)?;
    (layout.size() > 0).then_some((layout, scope))
}
