//! Rounds: all cases of a group in turn, again and again, so that what disturbs the machine disturbs all alike.

use std::env;

/// One thing to be timed: a name, and a run that says how many ns an operation took.
pub struct Case<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> Vec<f64> + 'a>,
}

impl<'a> Case<'a> {
    /// A case with one figure.
    pub fn new(name: impl Into<String>, mut run: impl FnMut() -> f64 + 'a) -> Self {
        Self::several(name, move || vec![run()])
    }

    /// A case with several figures (build, drop).
    pub fn several(name: impl Into<String>, run: impl FnMut() -> Vec<f64> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// True with `--quick` or the variable `STEWARD_BENCH_QUICK`: fewer rounds of less work, to see that all runs.
pub fn quick() -> bool {
    env::args().any(|argument| argument == "--quick") || env::var_os("STEWARD_BENCH_QUICK").is_some()
}

/// True when a word on the command line is part of `label`, or when there is none: `cargo bench --bench pair --
/// mimalloc`.
pub fn wanted(label: &str) -> bool {
    let mut words = env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    words.peek().is_none() || words.any(|word| label.contains(&word))
}

/// `work`, or a tenth of it when quick.
pub fn amount(work: usize) -> usize {
    if quick() { work / 10 } else { work }
}

/// Runs `rounds` rounds (3 when quick, and one that is thrown away); medians, in the order of the cases.
pub fn interleave(rounds: usize, mut cases: Vec<Case<'_>>) -> Vec<Vec<f64>> {
    let rounds = if quick() { 3 } else { rounds.max(11) };
    let mut times: Vec<Vec<Vec<f64>>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for turn in 0..cases.len() {
            // Each round starts with another case: nobody always comes after the same neighbour's heap.
            let at = (turn + round) % cases.len();
            let figures = (cases[at].run)();
            if round > 0 {
                times[at].push(figures);
            }
        }
    }
    times
        .iter()
        .map(|times| (0..times[0].len()).map(|at| median(times.iter().map(|figures| figures[at]).collect())).collect())
        .collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let half = times.len() / 2;
    if times.len() % 2 == 1 { times[half] } else { (times[half - 1] + times[half]) / 2.0 }
}
