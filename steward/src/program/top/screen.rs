#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{iter, mem, thread};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};
use ratatui::{DefaultTerminal, Frame};
use vk_report::state_file::{MAX_HEAPS, State, StateUsage};
use vk_report::units::bytes;

use super::{Reading, Watched, all_kinds};
use crate::os::{ChildKind, HeldSignals};
use crate::program::ProgramError;

/// Signals and a closed terminal are noticed after this time.
const PAUSE: Duration = Duration::from_millis(250);
/// More than a terminal has columns.
const REMEMBERED: usize = 1000;

const MEMORY: Titles<6> = (8, ["memory", "live", "peak", "size", "allocs/s", "bytes/s"]);
/// The first letter of each sorts by it.
const KINDS: Titles<7> = (26, ["kind", "live", "peak", "taken", "allocs/s", "bytes/s", "objects"]);
const NUMBER: usize = 9;
const FOOT: &str = "[q]uit ↑↓ sort: [k]ind [l]ive [p]eak [t]aken [a]llocs/s [b]ytes/s [o]bjects";

/// The width of the first column, which has names, and the titles of all.
type Titles<const N: usize> = (usize, [&'static str; N]);
/// A name and the numbers behind it, as far as they are known.
type Row = (String, Vec<Option<u64>>);

/// Returns what is to stay on the terminal after the process has ended; nothing if the user ends it.
pub(super) fn show(watched: &Watched, interval: Duration) -> Result<Option<String>, ProgramError> {
    let mut view = View::new(watched.read(None)?);
    // They end the screen before they end this process.
    let mut signals = HeldSignals::new(ChildKind::Helper)?;
    on_screen(|terminal| {
        let events = events();
        loop {
            signals.interrupted()?;
            terminal.draw(|frame| view.draw(frame))?;
            if !view.now.process.is_running() {
                return Ok(Some(view.now.text(view.before.as_ref())));
            }
            let left = interval.saturating_sub(view.now.at.elapsed());
            match events.recv_timeout(left.min(PAUSE)) {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if is_end(key) {
                        return Ok(None);
                    }
                    view.press(key.code);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if view.now.at.elapsed() >= interval {
                view.advance(watched.read(Some(&view.now))?);
            }
        }
    })
}

/// However `shown` ends, also by a panic, the terminal is as it was before.
fn on_screen<R>(shown: impl FnOnce(&mut DefaultTerminal) -> Result<R, ProgramError>) -> Result<R, ProgramError> {
    let result = match ratatui::try_init() {
        Ok(mut terminal) => {
            let result = shown(&mut terminal);
            if terminal.show_cursor().is_err() {
                // It is closed; dropped, it would write that there, and panic.
                mem::forget(terminal);
            }
            result
        }
        Err(error) => Err(error.into()),
    };
    let _ = ratatui::try_restore();
    result
}

/// They are read in a thread of their own: where the terminal is closed, crossterm reads for ever.
fn events() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    events
}

fn is_end(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') => key.modifiers.contains(KeyModifiers::CONTROL),
        code => matches!(code, KeyCode::Char('q') | KeyCode::Esc),
    }
}

struct View {
    now: Reading,
    before: Option<Reading>,
    /// What was live at each reading: host memory, then each heap.
    live: Vec<[u64; 1 + MAX_HEAPS]>,
    /// The column that rows are sorted by.
    sort: usize,
    /// Rows that are scrolled away.
    above: usize,
}

impl View {
    fn new(now: Reading) -> Self {
        Self { live: vec![live(&now)], now, before: None, sort: 1, above: 0 }
    }

    fn advance(&mut self, now: Reading) {
        if self.live.len() == REMEMBERED {
            self.live.remove(0);
        }
        self.live.push(live(&now));
        self.before = Some(mem::replace(&mut self.now, now));
    }

    fn press(&mut self, key: KeyCode) {
        let last = self.now.state.kinds.len().saturating_sub(1);
        match key {
            KeyCode::Down => self.above = (self.above + 1).min(last),
            KeyCode::Up => self.above = self.above.saturating_sub(1),
            KeyCode::Char(key) => {
                let column = KINDS.1.iter().position(|title| title.starts_with(key));
                self.sort = column.unwrap_or(self.sort);
            }
            _ => {}
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let memory = self.memory();
        let heights = [
            Constraint::Length(2),
            Constraint::Length(u16::try_from(memory.len() + 2).unwrap_or(u16::MAX)),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [head, above, below, foot] = Layout::vertical(heights).areas(frame.area());
        let text = Paragraph::new(self.now.head(self.before.as_ref()));
        frame.render_widget(text.wrap(Wrap { trim: true }), head);
        frame.render_widget(table(&MEMORY, None, &memory), above);
        let beside = MEMORY.0 + NUMBER * (MEMORY.1.len() - 1) + 1;
        let columns = [Constraint::Length(u16::try_from(beside).unwrap_or(u16::MAX)), Constraint::Min(0)];
        let [_, courses] = Layout::horizontal(columns).areas(above);
        let host = self.live.iter().map(|live| live[0]);
        self.draw_course(frame, courses, 1, host);
        for (heap, row) in self.now.state.heaps.iter().zip(2..) {
            let live = self.live.iter().filter_map(|live| live.get(1 + heap.index));
            self.draw_course(frame, courses, row, live.copied());
        }
        let kinds = self.kinds();
        let kinds = kinds.get(self.above..).unwrap_or_default();
        frame.render_widget(table(&KINDS, Some(self.sort), kinds), below);
        frame.render_widget(Line::from(FOOT).reversed(), foot);
    }

    /// As much as fits, the latest last.
    fn draw_course(&self, frame: &mut Frame<'_>, of_all: Rect, row: usize, live: impl Iterator<Item = u64>) {
        let Some(area) = of_all.rows().nth(row) else {
            return;
        };
        let gone = self.live.len().saturating_sub(area.width.into());
        let shown: Vec<_> = live.skip(gone).collect();
        frame.render_widget(Sparkline::default().data(shown), area);
    }

    fn memory(&self) -> Vec<Row> {
        let host = all_kinds(&self.now.state);
        let heaps = self.now.state.heaps.iter().map(|heap| {
            let name = format!("heap {}", heap.index);
            let size = (heap.size != 0).then_some(heap.size);
            let of = |state: &State| state.heap(heap.index).map(|heap| heap.usage);
            self.row(name, heap.usage, [Some(heap.usage.peak_bytes), size], of)
        });
        let of = |state: &State| Some(all_kinds(state));
        let host = self.row("host".to_owned(), host, [None; 2], of);
        iter::once(host).chain(heaps).collect()
    }

    fn kinds(&self) -> Vec<Row> {
        let kinds = self.now.state.kinds.iter().map(|kind| {
            let usage = kind.usage;
            let middle = [usage.peak_bytes, usage.total_bytes].map(Some);
            let of = |state: &State| state.kind(&kind.kind).map(|kind| kind.usage);
            let (name, mut numbers) = self.row(kind.kind.clone(), usage, middle, of);
            numbers.push(Some(kind.objects_alive));
            (name, numbers)
        });
        let mut kinds: Vec<_> = kinds.collect();
        match self.sort.checked_sub(1) {
            Some(column) => kinds.sort_by_key(|row| Reverse(row.1.get(column).copied())),
            None => kinds.sort(),
        }
        kinds
    }

    fn row(
        &self,
        name: String,
        usage: StateUsage,
        middle: [Option<u64>; 2],
        of: impl Fn(&State) -> Option<StateUsage>,
    ) -> Row {
        let [first, second] = middle;
        let rates = self.now.rates(self.before.as_ref(), of);
        let [_, allocations, bytes] = rates.map_or([None; 3], |rates| rates.map(Some));
        let numbers = vec![Some(usage.live_bytes), first, second, allocations, bytes];
        (name, numbers)
    }
}

fn live(reading: &Reading) -> [u64; 1 + MAX_HEAPS] {
    let mut live = [0; 1 + MAX_HEAPS];
    live[0] = all_kinds(&reading.state).live_bytes;
    for heap in &reading.state.heaps {
        live[1 + heap.index] = heap.usage.live_bytes;
    }
    live
}

fn table<const N: usize>((width, titles): &Titles<N>, sort: Option<usize>, rows: &[Row]) -> Text<'static> {
    let line = |name: &str, cells: Vec<String>| {
        let cells = cells.iter().map(|cell| format!("{cell:>NUMBER$}"));
        Line::from(format!("{name:width$.width$}") + &cells.collect::<String>())
    };
    let titles = || titles.iter().enumerate();
    let marked = titles().map(|(place, title)| match sort {
        Some(sort) if sort == place => format!("▼{title}"),
        _ => (*title).to_owned(),
    });
    let mut marked: Vec<_> = marked.collect();
    let name = marked.remove(0);
    let rows = rows.iter().map(|(name, numbers)| {
        let cells = titles().skip(1).zip(numbers);
        let cells = cells.map(|((_, title), number)| match (*title, number) {
            (_, None) => "-".to_owned(),
            ("allocs/s" | "objects", Some(number)) => number.to_string(),
            (_, Some(number)) => bytes(*number),
        });
        line(name, cells.collect())
    });
    iter::once(line(&name, marked).bold()).chain(rows).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use testkit::Child;

    use super::on_screen;

    #[test]
    fn ly74_a_panic_restores_the_terminal_before_it_is_told() {
        let test = "ly74_a_panic_restores_the_terminal_before_it_is_told";
        if Child::is_child(test) {
            let _ = on_screen(|terminal| -> Result<(), _> {
                terminal.draw(|frame| frame.render_widget("drawn", frame.area()))?;
                panic!("planted")
            });
        }
        let mut top = Child::this_test(test).start_on_terminal((24, 80));
        let mut shown = Vec::new();
        assert!(!top.wait().success());
        loop {
            let piece = top.read(Duration::from_millis(200));
            if piece.is_empty() {
                break;
            }
            shown.extend(piece);
        }
        let shown = String::from_utf8_lossy(&shown);
        let places = ["\x1b[?1049h", "drawn", "\x1b[?1049l", "planted", "\x1b[?25h"];
        let places = places.map(|one| shown.find(one));
        assert!(places[0].is_some() && places.is_sorted(), "{places:?}: {shown:?}");
        assert!(top.has_lines(), "{shown:?}");
    }
}
