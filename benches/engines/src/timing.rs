//! Times passes over keys.
//!
//! Passes are measured in the thread's processor time, including the kernel's share. By wall-clock time, a busy machine
//! interrupts long passes and spares short ones, so that the fastest pass of a fast engine would be compared with an
//! interrupted one of a slow engine. Nothing here waits for a disk.

use std::time::{Duration, Instant};

use anyhow::Result;
use cpu_time::ThreadTime;

use crate::data::BATCH;

/// The number of keys between two reads of the clock.
const STRIDE: usize = 10 * BATCH;

/// One pass over keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Keys looked up: all, unless time ran out.
    pub(crate) asked: usize,
    /// Keys found.
    pub(crate) found: usize,
    /// Processor time.
    pub(crate) ns_per_key: f64,
}

/// Looks up `keys` a stride at a time until none is left or `budget` is over. `ask` returns how many of its keys it
/// found.
pub(crate) fn pass(keys: &[&[u8]], budget: Duration, mut ask: impl FnMut(&[&[u8]]) -> Result<usize>) -> Result<Pass> {
    let (mut asked, mut found) = (0, 0);
    let (start, start_on_wall) = (ThreadTime::now(), Instant::now());
    for stride in keys.chunks(STRIDE) {
        found += ask(stride)?;
        asked += stride.len();
        // The budget is wall-clock time, so that a busy machine does not prolong the run.
        if start_on_wall.elapsed() >= budget {
            break;
        }
    }
    let ns_per_key = start.elapsed().as_secs_f64() * 1e9 / asked.max(1) as f64;
    Ok(Pass { asked, found, ns_per_key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_asks_for_every_key_once_and_counts_what_was_found() {
        let keys = vec![&b"key"[..]; 2 * STRIDE + 7];
        let pass = pass(&keys, Duration::MAX, |stride| Ok(stride.len() / 7)).unwrap();
        assert_eq!((pass.asked, pass.found), (keys.len(), 2 * (STRIDE / 7) + 1));
        assert!(pass.ns_per_key > 0.0);
    }

    #[test]
    fn a_pass_without_time_ends_after_one_stride() {
        let keys = vec![&b"key"[..]; 2 * STRIDE];
        assert_eq!(pass(&keys, Duration::ZERO, |_| Ok(0)).unwrap().asked, STRIDE);
    }
}
