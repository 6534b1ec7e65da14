//! The aggregate function of which a job makes maps: `sstfilter_map_part(file, key, prefix_bits, max_keys, job)`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use sstfilter::{FileId, Filters, KeyHash};
use sstfilter_map::{MapBuilder, MapOptions};

use crate::keys::for_each_key;

/// What a task says that has more keys than it may hold.
pub(crate) const TOO_MANY_KEYS: &str = "sstfilter: more keys than a task may hold";

/// Returns the aggregate function that executors need to build maps:
/// `sstfilter_map_part(file, key, prefix_bits, max_keys, job)`, the map of the files of a group. [`refresh_map`] registers
/// it with the session; on a cluster, register it where executors find functions.
///
/// [`refresh_map`]: crate::refresh_map
#[must_use]
pub fn map_part() -> AggregateUDF {
    AggregateUDF::from(MapPart { signature: Signature::any(5, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MapPart {
    signature: Signature,
}

/// The keys that the tasks of each job hold in this process.
static HELD: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// The keys that a task holds, of those that all tasks of the job may hold in this process.
#[derive(Debug)]
struct Held {
    job: u64,
    keys: u64,
    max_keys: u64,
}

impl Held {
    fn add(&mut self, keys: usize) -> Result<()> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let all = held.entry(self.job).or_default();
        *all += keys as u64;
        self.keys += keys as u64;
        if *all > self.max_keys {
            return exec_err!("{TOO_MANY_KEYS}: {all} of {}", self.max_keys);
        }
        Ok(())
    }

    fn release(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = held.get_mut(&self.job) {
            *all -= core::mem::take(&mut self.keys);
            if *all == 0 {
                held.remove(&self.job);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl AggregateUDFImpl for MapPart {
    fn name(&self) -> &'static str {
        "sstfilter_map_part"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [_, _, prefix_bits, max_keys, job] = arguments.exprs else { return exec_err!("expected five arguments") };
        let number = |expression: &Arc<dyn PhysicalExpr>| match expression.downcast_ref::<Literal>()?.value() {
            ScalarValue::UInt64(number) => *number,
            _ => None,
        };
        let [Some(prefix_bits), Some(max_keys), Some(job)] = [prefix_bits, max_keys, job].map(number) else {
            return exec_err!("expected literals of type UInt64");
        };
        let prefix_bits = u8::try_from(prefix_bits).unwrap_or(u8::MAX);
        let options = MapOptions::with_prefix_bits(prefix_bits).map_err(|error| exec_datafusion_err!("{error}"))?;
        let held = Held { job, keys: 0, max_keys };
        Ok(Box::new(Part { options, held, filters: Filters::default(), files: BTreeMap::new() }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[hashes]", arguments.name), DataType::LargeBinary, true))])
    }
}

/// The hashes of a group's files.
#[derive(Debug)]
struct Part {
    options: MapOptions,
    held: Held,
    filters: Filters,
    files: BTreeMap<u64, Vec<KeyHash>>,
}

impl Part {
    /// Adds files and their hashes as [`state`](Accumulator::state) writes them. Returns `None` if they are cut short.
    fn add_state(&mut self, state: &[u8]) -> Option<Result<()>> {
        let (words, []) = state.as_chunks::<8>() else { return None };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        while let Some(file) = words.next() {
            let keys = usize::try_from(words.next()?).ok().filter(|&keys| keys <= words.len())?;
            let hashes = self.files.entry(file).or_default();
            hashes.extend(words.by_ref().take(keys).map(KeyHash::from_well_mixed));
            if let Err(error) = self.held.add(keys) {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }
}

impl Accumulator for Part {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [files, keys, ..] = values else { return exec_err!("expected files and keys") };
        let Some(files) = files.as_primitive_opt::<UInt64Type>() else { return exec_err!("expected files of UInt64") };
        self.held.add(keys.len() - keys.null_count())?;
        let (filters, all) = (&self.filters, &mut self.files);
        for_each_key(keys, |row, key| {
            // A file whose values are all NULL is covered, and has no key.
            let hashes = all.entry(files.value(row)).or_default();
            hashes.extend(key.map(|key| filters.hash(key)));
        })
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.held.release();
        let mut state =
            Vec::with_capacity(8 * (2 * self.files.len() + self.files.values().map(Vec::len).sum::<usize>()));
        for (file, hashes) in core::mem::take(&mut self.files) {
            state.extend(file.to_le_bytes());
            state.extend((hashes.len() as u64).to_le_bytes());
            hashes.iter().for_each(|hash| state.extend(hash.get().to_le_bytes()));
        }
        Ok(vec![ScalarValue::LargeBinary(Some(state))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [states] = states else { return exec_err!("expected one state") };
        let Some(states) = states.as_binary_opt::<i64>() else { return exec_err!("expected a state of bytes") };
        for state in states.iter().flatten() {
            self.add_state(state)
                .unwrap_or_else(|| exec_err!("expected files and their hashes, got a damaged state"))?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.files.is_empty() {
            return Ok(ScalarValue::LargeBinary(None));
        }
        let mut builder = MapBuilder::new(&self.filters, self.options);
        for (file, hashes) in core::mem::take(&mut self.files) {
            builder.add_file(FileId::from_fingerprint(file), hashes);
        }
        let mut map = Vec::new();
        // A task that runs again writes the same bytes.
        builder.finish(FileId::from_fingerprint(0), &mut map)?;
        Ok(ScalarValue::LargeBinary(Some(map)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.files.values().map(|hashes| 64 + 8 * hashes.capacity()).sum::<usize>()
    }
}
