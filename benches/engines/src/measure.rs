//! Runs the passes, and keeps the fastest.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::data::{BATCH, Data, views};
use crate::engines::Engine;
use crate::record::{Operation, Record};
use crate::timing::{Pass, pass};

/// The extent of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Keys of a pass.
    pub(crate) queries: usize,
    /// Passes of each engine and operation; the fastest counts.
    rounds: usize,
    /// The time after which a pass ends, even if keys are left.
    budget: Duration,
}

impl Effort {
    pub(crate) const QUICK: Self = Self { queries: 400 * BATCH, rounds: 2, budget: Duration::from_millis(200) };
    pub(crate) const FULL: Self = Self { queries: 3_200 * BATCH, rounds: 7, budget: Duration::from_secs(1) };
}

/// Measures all operations of all engines, the engines in turn within each round.
pub(crate) fn measure(engines: &mut [Box<dyn Engine>], data: &Data, effort: Effort) -> Result<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    for _ in 0..effort.rounds {
        // Engines alternate within a round, so that a slow phase of the machine hits all alike.
        for engine in &mut *engines {
            // Not timed: the engine before has filled the CPU's caches, and a fast pass would end before they are warm.
            run(engine.as_mut(), Operation::Get, data, effort.budget)?;
            for operation in Operation::ALL {
                if let Some(pass) = run(engine.as_mut(), operation, data, effort.budget)? {
                    check(engine.as_ref(), operation, pass)?;
                    keep_fastest(&mut records, record(engine.as_ref(), operation, pass, data));
                }
            }
        }
    }
    // Reads can make an engine compact, so the files are described at the end.
    for engine in engines {
        let shape = engine.shape()?;
        let of_engine = |record: &&mut Record| (&*record.engine, &*record.filter) == engine.label();
        records.iter_mut().filter(of_engine).for_each(|record| record.note.clone_from(&shape));
    }
    Ok(records)
}

/// Runs a pass. Returns `None` if the engine does not have the operation.
fn run(engine: &mut dyn Engine, operation: Operation, data: &Data, budget: Duration) -> Result<Option<Pass>> {
    let Some(keys) = keys(engine, operation, data) else { return Ok(None) };
    let done = if operation.is_batched() {
        pass(&keys, budget, |keys| keys.chunks(BATCH).map(|batch| engine.multi_get(batch)).sum())
    } else {
        pass(&keys, budget, |keys| engine.get_each(keys))
    };
    done.map(Some)
}

/// Returns the keys of `operation`, or `None` if the engine does not have it.
fn keys<'a>(engine: &dyn Engine, operation: Operation, data: &'a Data) -> Option<Vec<&'a [u8]>> {
    if operation.is_batched() && !engine.has_multi_get() {
        return None;
    }
    let mut keys = views(if operation == Operation::GetPresent { &data.present } else { &data.absent });
    if operation.is_negative() {
        keys = engine.negatives(&keys)?;
    }
    if operation.is_batched() {
        // Ascending, so that RocksDB need not sort them. The order does not matter to the others.
        keys.chunks_mut(BATCH).for_each(<[&[u8]]>::sort_unstable);
    }
    Some(keys)
}

/// Checks the answers: a figure counts only if they are correct.
fn check(engine: &dyn Engine, operation: Operation, pass: Pass) -> Result<()> {
    let expected = if operation == Operation::GetPresent { pass.asked } else { 0 };
    let (name, filter) = engine.label();
    ensure!(
        pass.found == expected,
        "{name} ({filter}), {operation:?}: found {} keys instead of {expected}",
        pass.found
    );
    Ok(())
}

fn record(engine: &dyn Engine, operation: Operation, pass: Pass, data: &Data) -> Record {
    let (name, filter) = engine.label();
    Record {
        engine: name.to_owned(),
        filter: filter.to_owned(),
        files: data.scenario.files,
        keys_per_file: data.scenario.keys_per_file,
        operation,
        ns_per_key: pass.ns_per_key,
        note: String::new(),
    }
}

fn keep_fastest(records: &mut Vec<Record>, new: Record) {
    let is_same =
        |old: &&mut Record| (&old.engine, &old.filter, old.operation) == (&new.engine, &new.filter, new.operation);
    match records.iter_mut().find(is_same) {
        Some(old) => old.ns_per_key = old.ns_per_key.min(new.ns_per_key),
        None => records.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scenario;

    /// An engine that reports a given number of found keys.
    struct Liar {
        finds_all: bool,
    }

    impl Engine for Liar {
        fn label(&self) -> (&'static str, &'static str) {
            ("liar", "none")
        }

        fn shape(&self) -> Result<String> {
            Ok("no files".to_owned())
        }

        fn get_each(&mut self, keys: &[&[u8]]) -> Result<usize> {
            Ok(if self.finds_all { keys.len() } else { 0 })
        }
    }

    #[test]
    fn an_engine_that_invents_or_loses_keys_is_not_measured() {
        let data = Data::new(Scenario::new(2, 10), 64);
        for (finds_all, complaint) in [(true, "Get: found 64"), (false, "GetPresent: found 0")] {
            let mut engines: [Box<dyn Engine>; 1] = [Box::new(Liar { finds_all })];
            let error = measure(&mut engines, &data, Effort::QUICK).unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
