//! Many regions at once.

use super::Pools;
use super::ask::{Ask, BARE, Placed, Where};
use super::env::Env;
use crate::error::{GpuError, Misuse};

impl Pools {
    /// Finds room for all, or for none. `out` gets one for each, in order; it must be as long, and has `None` everywhere otherwise.
    ///
    /// # Errors
    /// The first that there was no room for.
    pub(crate) fn place_batch(&self, env: Env<'_>, asks: &[Ask], out: &mut [Option<Placed>]) -> Result<(), GpuError> {
        for (index, ask) in asks.iter().enumerate() {
            let placed = self.place(env, ask);
            match (placed, out.get_mut(index)) {
                (Ok(placed), Some(out)) => *out = Some(placed),
                (placed, _) => {
                    let late = placed.as_ref().ok().copied();
                    for (placed, ask) in out.iter_mut().take(index).filter_map(Option::take).chain(late).zip(asks) {
                        let _ = self.give_recorded(env, placed.at, ask.word);
                    }
                    return placed.map(|_| ()).and(Err(Misuse::Outside.into()));
                }
            }
        }
        Ok(())
    }

    /// Gives regions without records back; those of one pool that follow one another under one lock. `refused` hears of what was not
    /// given back, in order; no lock is held then.
    pub(crate) fn give_batch(&self, env: Env<'_>, regions: &[Where], refused: &mut dyn FnMut(usize, Misuse)) {
        let mut next = 0usize;
        while let Some(first) = regions.get(next) {
            let Some(pool) = self.pool(first.place.pool) else {
                refused(next, Misuse::Stale);
                next += 1;
                continue;
            };
            // Until something has to be cleared up or told, which takes the lock away.
            let mut stopped = Ok(());
            let later = {
                let mut state = pool.lock();
                while let Some(at) = regions.get(next).filter(|at| at.place.pool == first.place.pool) {
                    let (count, more) = state.give_run(regions.get(next..).unwrap_or_default());
                    if count > 0 {
                        next += count;
                        if more {
                            break;
                        }
                        continue;
                    }
                    next += 1;
                    stopped = match state.give(*at, BARE) {
                        Ok((_, false)) => continue,
                        Ok((_, true)) => Ok(()),
                        Err(misuse) => Err(misuse),
                    };
                    break;
                }
                state.later()
            };
            self.clear_up(env, pool, later);
            if let Err(misuse) = stopped {
                refused(next - 1, misuse);
            }
        }
    }
}
