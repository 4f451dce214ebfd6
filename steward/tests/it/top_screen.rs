//! `steward top` on a terminal, whose screen is read as a terminal shows it.

#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Child, OnTerminal};

use crate::ended::client;
use crate::requests::{self, Program};
use crate::run::{STEWARD, steward};

/// A program with 4 or 5 MiB of device memory, which ends a moment after SIGTERM.
fn start(client: &Path) -> Program {
    requests::run(&[], client, &["serve", "memory"])
}

fn end(program: &mut Program) {
    program.signal(libc::SIGTERM);
    assert!(program.started.wait().expect("its end").success());
}

fn kill(process: i32, signal: i32) {
    // SAFETY: sends a signal to a process of this test.
    let sent = unsafe { libc::kill(process, signal) };
    assert_eq!(sent, 0, "{process} is there");
}

struct Screen {
    top: OnTerminal,
    parser: vt100::Parser,
}

impl Screen {
    fn of(child: Child, size: (u16, u16)) -> Self {
        let child = child.env("TERM", "xterm").env_remove("NO_COLOR");
        Self { top: child.start_on_terminal(size), parser: vt100::Parser::new(size.0, size.1, 0) }
    }

    fn top(program: &Program, size: (u16, u16)) -> Self {
        let number = program.name();
        Self::of(steward(&["top", &number, "--interval", "0.2"]), size)
    }

    /// Waits until the screen is so, and returns its text.
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            self.parser.process(&self.top.read(Duration::from_millis(50)));
            let text = self.parser.screen().contents();
            if is_so(&text) {
                return text;
            }
            let late = began.elapsed() > Duration::from_secs(30);
            assert!(!late, "{what} is not so: {text}");
        }
    }

    /// It has begun, and knows rates.
    fn ready(&mut self) -> String {
        self.until("a picture with rates", |text| text.contains("[q]uit") && text.contains(" allocations and "))
    }

    /// The terminal is as before `steward top`; returns its text.
    fn restored(&mut self) -> String {
        let screen = loop {
            let piece = self.top.read(Duration::from_millis(200));
            if piece.is_empty() {
                break self.parser.screen();
            }
            self.parser.process(&piece);
        };
        let text = screen.contents();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{text}");
        assert!(self.top.has_lines(), "keys are shown again: {text}");
        text
    }
}

/// The lines below the head of the table of kinds, split into words.
fn kinds(text: &str) -> Vec<Vec<&str>> {
    let below = text.lines().skip_while(|line| !line.contains("objects"));
    let rows = below.skip(1).take_while(|line| line.starts_with("Vk"));
    rows.map(|line| line.split_whitespace().collect()).collect()
}

fn bytes(text: &[&str]) -> f64 {
    let unit = match text[1] {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        unit => panic!("{unit}"),
    };
    text[0].parse::<f64>().expect("a number") * unit
}

#[test]
fn ly74_top_shows_rates_heaps_and_kinds_sorted_by_a_key() {
    let test = "ly74_top_shows_rates_heaps_and_kinds_sorted_by_a_key";
    let Some(client) = client(test) else { return };
    let program = start(&client);
    let mut screen = Screen::top(&program, (30, 100));
    let text = screen.ready();
    let begin = format!("process {}, ", program.number);
    assert!(text.starts_with(&begin), "{text}");
    let rate = |text: &str, row: &str, place: usize| -> u64 {
        let line = text.lines().find(|line| line.starts_with(row));
        let word = line.and_then(|line| line.split_whitespace().nth(place));
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    // Of the heap, whose block of 1 MiB comes and goes, and of buffers; and a course of host and heap. After 1000
    // commands the state is written after every 64th only.
    let text = screen.until("a course", |text| {
        let row = |name| text.lines().find(|line| line.starts_with(name));
        let has_course = |line: &str| {
            let bars = |one| ('\u{2581}'..='\u{2588}').contains(&one);
            line.chars().filter(|one| bars(*one)).count() > 4
        };
        row("host ").is_some_and(has_course)
            && row("heap 0 ").is_some_and(has_course)
            && rate(text, "heap 0 ", 8) > 5
            && rate(text, "VkBuffer ", 7) > 10
    });
    let heap: Vec<_> =
        text.lines().find(|line| line.starts_with("heap 0 ")).expect("a heap").split_whitespace().collect();
    assert!(["4.00", "5.00"].contains(&heap[2]) && heap[3] == "MiB", "{text}");
    assert_eq!(heap[4..6], ["5.00", "MiB"], "its peak: {text}");
    // lavapipe's heap is the machine's memory.
    assert!(bytes(&["1", "MiB"]) * 1000.0 < gibibytes(&heap[6..8]), "{text}");
    assert!(text.contains("\u{25bc}live"), "{text}");
    let live = |text: &str| -> Vec<f64> { kinds(text).iter().map(|row| bytes(&row[1..])).collect() };
    let most_first = live(&text);
    assert!(most_first.len() > 3, "{text}");
    assert!(most_first.is_sorted_by(|one, next| one >= next), "{text}");
    screen.top.press("k");
    let text = screen.until("sorted by kind", |text| text.contains("\u{25bc}kind"));
    let names: Vec<_> = kinds(&text).iter().map(|row| row[0].to_owned()).collect();
    assert!(names.is_sorted() && names.len() == most_first.len(), "{text}");
    screen.top.press("o");
    let text = screen.until("sorted by objects", |text| text.contains("\u{25bc}objects"));
    let objects = |row: &Vec<&str>| row[row.len() - 1].parse::<u64>().expect("a count");
    let objects: Vec<_> = kinds(&text).iter().map(objects).collect();
    assert!(objects.is_sorted_by(|one, next| one >= next), "{text}");
    assert!(objects[0] >= 3, "buffers stay: {text}");
    // The arrows.
    screen.top.press("k\x1b[B\x1b[B");
    let text = screen.until("scrolled", |text| kinds(text).first().is_some_and(|row| row[0] == names[2]));
    assert_eq!(kinds(&text).len(), names.len() - 2, "{text}");

    screen.top.resize((16, 60));
    screen.parser.screen_mut().set_size(16, 60);
    let text = screen.until("smaller", |text| {
        text.lines().last().is_some_and(|line| line.starts_with("[q]uit")) && text.lines().count() == 16
    });
    assert!(text.contains("heap 0 ") && text.contains("Vk"), "{text}");
    screen.top.press("q");
    assert!(screen.top.wait().success());
    let text = screen.restored();
    assert!(!text.contains("Vk"), "it leaves nothing: {text}");
}

fn gibibytes(text: &[&str]) -> f64 {
    assert_eq!(text[1], "GiB");
    text[0].parse::<f64>().expect("a number") * 1024.0 * 1024.0 * 1024.0
}

#[test]
fn ly74_keys_signals_and_the_programs_end_restore_the_terminal() {
    let test = "ly74_keys_signals_and_the_programs_end_restore_the_terminal";
    let Some(client) = client(test) else { return };
    let mut program = start(&client);
    for key in ["\x1b", "\x03"] {
        let mut screen = Screen::top(&program, (24, 80));
        let text = screen.ready();
        assert!(text.contains("[o]bjects"), "80 columns have all keys: {text}");
        screen.top.press(key);
        assert_eq!(screen.top.wait().code(), Some(0), "{key:?}");
        screen.restored();
    }
    let mut screen = Screen::top(&program, (24, 80));
    screen.ready();
    assert!(!screen.top.has_lines(), "it reads single keys");
    kill(screen.top.process(), libc::SIGTERM);
    assert_eq!(screen.top.wait().signal(), Some(libc::SIGTERM));
    screen.restored();

    let mut screen = Screen::top(&program, (40, 120));
    screen.ready();
    end(&mut program);
    assert_eq!(screen.top.wait().code(), Some(0));
    let text = screen.restored();
    let begin = format!("process {}, ", program.number);
    let first = text.lines().find(|line| line.starts_with(&begin));
    assert!(first.is_some_and(|line| line.contains(", ended")), "{text}");
    assert!(text.contains("\n  VkBuffer "), "the last numbers: {text}");
}

#[test]
fn ly74_top_ends_when_its_terminal_closes() {
    let test = "ly74_top_ends_when_its_terminal_closes";
    let Some(client) = client(test) else { return };
    let program = start(&client);
    let mut screen = Screen::top(&program, (24, 80));
    screen.ready();
    screen.top.close();
    assert_eq!(screen.top.wait().signal(), Some(libc::SIGHUP));
    // Also where the hangup is ignored, as behind nohup.
    let script = format!("trap '' HUP; exec {STEWARD} top {}", program.number);
    let mut screen = Screen::of(Child::new("sh").args(["-c", &script]), (24, 80));
    screen.ready();
    screen.top.close();
    assert_eq!(screen.top.wait().code(), Some(2));
}

#[test]
fn ly74_without_a_terminal_top_writes_lines() {
    let test = "ly74_without_a_terminal_top_writes_lines";
    let Some(client) = client(test) else { return };
    let mut program = start(&client);
    let number = program.name();
    let top = |on_terminal| {
        let top = steward(&["top", &number, "--interval", "0.2"]);
        match on_terminal {
            // Its input is none: no key could end it.
            true => top.env("TERM", "xterm").run_on_terminal(100, testkit::TerminalOutput::Output),
            false => top.run().assert_code(0).stdout.clone(),
        }
    };
    thread::scope(|scope| {
        let tops = [true, false].map(|on_terminal| scope.spawn(move || top(on_terminal)));
        thread::sleep(Duration::from_secs(2));
        end(&mut program);
        for top in tops {
            let text = top.join().expect("it ended well");
            assert!(!text.contains('\x1b'), "{text}");
            let begin = format!("process {number}, ");
            let pictures: Vec<_> = text.split(&begin).skip(1).collect();
            assert!(pictures.len() > 2, "{text}");
            assert!(pictures[1].contains(" allocations and "), "{text}");
            assert!(pictures.iter().all(|one| one.contains("  VkBuffer ")), "{text}");
            let last = pictures[pictures.len() - 1];
            assert!(last.contains(", ended"), "{text}");
        }
    });
}
