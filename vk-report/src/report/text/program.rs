#![forbid(unsafe_code)]

use std::fmt;
use std::iter;

use super::{Text, columns, name_width, one_line, plural};
use crate::report::columns::column;
use crate::report::{Cell, KindAccounts, ProgramAccounts, Source, VulkanMemory, VulkanMemoryRow};
use crate::units::bytes;

#[derive(Default)]
struct ProgramRow {
    /// Live, peak and total.
    bytes: [u64; 3],
    /// Blocks, objects and those alive.
    counts: [u64; 3],
    /// A heading has no numbers.
    is_heading: bool,
    remark: String,
}

impl Text<'_> {
    pub(super) fn program(&self, f: &mut fmt::Formatter<'_>, program: &ProgramAccounts) -> fmt::Result {
        let rows = rows(program, self.report.vulkan_memory.as_deref().unwrap_or_default());
        let rows: Vec<_> = rows.iter().map(|(name, row)| (name.clone(), row)).collect();
        let of = |place: usize, name, width, rank, cell: fn(u64) -> Cell, numbers: fn(&ProgramRow) -> [u64; 3]| {
            column((name, width, rank), move |row: &ProgramRow| match row.is_heading {
                true => Cell::Text(String::new()),
                false => cell(numbers(row).get(place).copied().unwrap_or_default()),
            })
        };
        let of_bytes = |place, name, rank| of(place, name, 10, rank, Cell::Bytes, |row| row.bytes);
        let of_counts = |place, name, rank| of(place, name, 9, rank, Cell::Count, |row| row.counts);
        let columns = [
            of_bytes(0, "live", 0),
            of_bytes(1, "peak", 1),
            of_bytes(2, "taken", 2),
            of_counts(0, "blocks", 3),
            of_counts(1, "objects", 4),
            // What a program left behind is what its reader looks for.
            of_counts(2, "alive", 0),
            column(("", 1, 0), |row: &ProgramRow| Cell::Text(row.remark.clone())),
        ];
        writeln!(f)?;
        // A heading has the columns of numbers for itself.
        let named: Vec<_> = rows.iter().filter(|(_, row)| !row.is_heading).cloned().collect();
        let names = name_width(&named, "context".len());
        columns::write(f, ("context", names), &rows, &columns, self.width)?;
        if let Some(all) = program.all {
            let [live, peak] = [all.live_bytes, all.peak_bytes].map(bytes);
            writeln!(f, "\nLive: {live}. Peak: {peak}.")?;
        }
        let alive = |kind: &str| {
            let of_kind = program.kinds().filter(|row| row.kind == kind);
            of_kind.fold(0_u64, |sum, row| sum.saturating_add(row.objects_alive))
        };
        let [instances, devices] = ["VkInstance", "VkDevice"].map(alive);
        if program.has_ended && (instances, devices) != (0, 0) {
            writeln!(
                f,
                "The program never destroyed {instances} instance{} and {devices} device{}, so what belongs to them was not freed either.",
                plural(instances),
                plural(devices)
            )?;
        }
        match program.unseen_growth {
            Some(unseen) => writeln!(
                f,
                "The process grew by {} since its first instance that Vulkan's callbacks did not see: memory of `malloc`, which heaptrack shows.",
                bytes(unseen)
            ),
            None => Ok(()),
        }
    }
}

fn rows(program: &ProgramAccounts, memory: &[VulkanMemory]) -> Vec<(String, ProgramRow)> {
    let mut rows = Vec::new();
    let mut memory = memory.iter();
    for (number, instance) in (1..).zip(&program.instances) {
        rows.push(heading(format!("instance {number}")));
        rows.extend(instance.kinds.iter().map(|kind| of_kind(2, kind)));
        for (number, device) in (1..).zip(&instance.devices) {
            let described = device.description.as_deref().map(one_line);
            let described = described.map_or_else(String::new, |of| format!(": {of}"));
            rows.push(heading(format!("  device {number}{described}")));
            rows.extend(device.kinds.iter().map(|kind| of_kind(4, kind)));
            rows.extend(memory.next().into_iter().flat_map(of_device));
        }
    }
    rows
}

fn heading(name: String) -> (String, ProgramRow) {
    let is_heading = true;
    (name, ProgramRow { is_heading, ..ProgramRow::default() })
}

fn of_kind(indent: usize, kind: &KindAccounts) -> (String, ProgramRow) {
    let remark = match kind.foreign_commands {
        0 => String::new(),
        commands => format!(" ({commands} command{} with callbacks of the program)", plural(commands)),
    };
    let row = ProgramRow {
        bytes: [kind.live_bytes, kind.peak_bytes, kind.total_bytes],
        counts: [kind.total_blocks, kind.objects_created, kind.objects_alive],
        is_heading: false,
        remark,
    };
    (format!("{:indent$}{}", "", one_line(&kind.kind)), row)
}

fn of_device(memory: &VulkanMemory) -> Vec<(String, ProgramRow)> {
    let row = |name: String, memory: &VulkanMemoryRow| {
        let remark = match memory.refusals {
            0 => String::new(),
            refusals => format!(" ({refusals} refused)"),
        };
        let row = ProgramRow {
            bytes: [memory.live_bytes, memory.peak_bytes, memory.total_bytes],
            counts: [memory.total_blocks, memory.total_blocks, memory.live_blocks],
            is_heading: false,
            remark,
        };
        (format!("    {name}"), row)
    };
    let numbered = [("heap", &memory.heaps), ("type", &memory.types)];
    let numbered = numbered.into_iter().flat_map(|(what, rows)| {
        let name = move |of: &VulkanMemoryRow| format!("device memory, {what} {}", of.index);
        rows.iter().map(move |of| row(name(of), of))
    });
    let driver = memory.driver.iter().flat_map(|driver| {
        let kinds = driver.kinds.iter();
        let kinds = kinds.map(|(kind, of)| row(format!("the driver's, for {}", one_line(kind)), of));
        let is_stale = driver.free_events == 0 && driver.kinds.iter().any(|(_, of)| of.live_blocks > 0);
        let stale = "    the driver has reported no end of its own memory: what is live may be gone";
        kinds.chain(is_stale.then(|| heading(stale.to_owned())))
    });
    let uses = memory.uses.iter();
    let uses = uses.map(|(name, of)| row(format!("of it {}", one_line(name)), of));
    let lost = (memory.lost_blocks > 0).then(|| {
        heading(format!(
            "    {} blocks of device memory are not counted: no memory for their records",
            memory.lost_blocks
        ))
    });
    numbered.chain(driver).chain(uses).chain(lost).collect()
}

pub(super) fn source(f: &mut fmt::Formatter<'_>, source: &Source) -> fmt::Result {
    let Source::Program { arguments, process, commands, layers_below, .. } = source else {
        return Ok(());
    };
    writeln!(
        f,
        "Host memory that Vulkan allocated through callbacks: process {process}, {commands} commands\n\
         (with the 16 bytes in front of each block)"
    )?;
    if let Some(arguments) = arguments {
        let words = arguments.iter().map(|word| one_line(word));
        let words: Vec<_> = iter::once("arguments:".to_owned()).chain(words).collect();
        writeln!(f, "{}", words.join(" "))?;
    }
    if layers_below.is_empty() {
        return Ok(());
    }
    let below: Vec<_> = layers_below.iter().map(|layer| one_line(layer)).collect();
    writeln!(f, "layers below, whose own objects count and are judged as the driver's: {}", below.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{DeviceAccounts, InstanceAccounts, Leaks, Report};

    fn table(report: &Report, width: usize) -> String {
        let text = report.text(false).width(width).to_string();
        let (_, table) = text.split_once("\n\n").expect("an empty line");
        let (table, _) = table.split_once("\nalive at the end").expect("the stacks");
        table.to_owned()
    }

    fn report(kinds: Vec<KindAccounts>, memory: VulkanMemory) -> Report {
        let device = DeviceAccounts {
            kinds,
            description: Some("a driver of \u{1b}[2J another".to_owned()),
            ..DeviceAccounts::default()
        };
        let of_instance = KindAccounts {
            kind: "VkInstance".to_owned(),
            objects_created: 1,
            objects_alive: 1,
            foreign_commands: 3,
            ..KindAccounts::default()
        };
        let instance =
            InstanceAccounts { kinds: vec![of_instance], devices: vec![device], ..InstanceAccounts::default() };
        Report {
            program: Some(ProgramAccounts { instances: vec![instance], has_ended: true, ..ProgramAccounts::default() }),
            vulkan_memory: Some(vec![memory]),
            ..Report::of_stacks(7, 9, &Leaks::default())
        }
    }

    #[test]
    fn a_table_keeps_what_is_live_and_alive_in_every_width() {
        let buffers = KindAccounts {
            kind: "VkBuffer".to_owned(),
            live_bytes: 96_000,
            peak_bytes: 96_096,
            total_bytes: 97_000,
            total_blocks: 1010,
            objects_created: 1010,
            objects_alive: 1000,
            ..KindAccounts::default()
        };
        let heap = VulkanMemoryRow {
            live_bytes: 1 << 20,
            peak_bytes: 2 << 20,
            total_bytes: 3 << 20,
            live_blocks: 1,
            total_blocks: 3,
            refusals: 2,
            ..VulkanMemoryRow::default()
        };
        let memory = VulkanMemory { heaps: vec![heap], lost_blocks: 4, ..VulkanMemory::default() };
        let report = report(vec![buffers], memory);
        let shown = format!("\n{}", table(&report, usize::MAX));
        let expected = "
  context                        live      peak     taken   blocks  objects    alive
  instance 1
    VkInstance                      -         -         -        -        1        1  (3 commands with callbacks of the program)
    device 1: a driver of  [2J another
      VkBuffer               93.7 KiB  93.8 KiB  94.7 KiB     1010     1010     1000
      device memory, heap 0  1.00 MiB  2.00 MiB  3.00 MiB        3        3        1  (2 refused)
      4 blocks of device memory are not counted: no memory for their records
The program never destroyed 1 instance and 0 devices, so what belongs to them was not freed either.
";
        assert_eq!(shown, expected);
        let shown = format!("\n{}", table(&report, 80));
        let expected = "
  context                        live      peak     taken   blocks    alive
  instance 1
    VkInstance                      -         -         -        -        1  (3 commands with callbacks of the program)
    device 1: a driver of  [2J another
      VkBuffer               93.7 KiB  93.8 KiB  94.7 KiB     1010     1000
      device memory, heap 0  1.00 MiB  2.00 MiB  3.00 MiB        3        1  (2 refused)
      4 blocks of device memory are not counted: no memory for their records
  left out for want of columns: objects; --json has all
The program never destroyed 1 instance and 0 devices, so what belongs to them was not freed either.
";
        assert_eq!(shown, expected);
        let shown = format!("\n{}", table(&report, 60));
        let expected = "
  context                        live      peak    alive
  instance 1
    VkInstance                      -         -        1  (3 commands with callbacks of the program)
    device 1: a driver of  [2J another
      VkBuffer               93.7 KiB  93.8 KiB     1000
      device memory, heap 0  1.00 MiB  2.00 MiB        1  (2 refused)
      4 blocks of device memory are not counted: no memory for their records
  left out for want of columns: taken, blocks, objects; --json has all
The program never destroyed 1 instance and 0 devices, so what belongs to them was not freed either.
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn numbers_of_any_size_are_words_of_their_own() {
        let most = KindAccounts {
            kind: "VkDevice".to_owned(),
            live_bytes: u64::MAX,
            peak_bytes: u64::MAX,
            total_bytes: u64::MAX,
            total_blocks: u64::MAX,
            objects_created: u64::MAX,
            objects_alive: u64::MAX,
            ..KindAccounts::default()
        };
        let mut report = report(vec![most.clone(), most], VulkanMemory::default());
        let shown = table(&report, usize::MAX);
        let row = shown.lines().find(|line| line.contains("VkDevice"));
        let words = row.expect("a row").split_whitespace().count();
        assert_eq!(words, 1 + 3 * 2 + 3, "{shown}");
        let never = format!("never destroyed 1 instance and {} devices,", u64::MAX);
        assert!(shown.contains(&never), "{shown}");
        let program = report.program.as_mut().expect("a program");
        let mut kinds = vec![KindAccounts::default()];
        kinds[0].kind = "VkKindOfThirtyCharactersNamed".to_owned();
        kinds[0].live_bytes = 96;
        kinds[0].objects_alive = 1000;
        program.instances[0].kinds.clear();
        program.instances[0].devices[0].kinds = kinds;
        for width in [60, 80] {
            let shown = table(&report, width);
            let row = shown.lines().find(|line| line.contains("VkKind"));
            assert!(row.expect("a row").ends_with(" 1000"), "{shown}");
            assert!(!shown.contains("left out"), "{shown}");
        }
    }
}
