//! Probes of many keys, each hashed once for all tables.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::{ForeignTable, Loaded, answer};
use crate::error::Error;
use crate::filter::{Filter, FilterKind};
use crate::hash::HashFunction;
use crate::table::leveldb::DataBlockFilters;
use crate::table::partitions::Partitions;
use crate::table::rules::{Direction, KeyRules};
use sstfilter::{Probe, RandomAccess};

/// User keys to probe in many tables. Their hashes and their order are computed once for all tables.
///
/// ```
/// use sstfilter_interop::KeyBatch;
///
/// let keys = KeyBatch::new([b"one".as_slice(), b"two"]);
/// assert_eq!(keys.len(), 2);
/// ```
#[derive(Debug, Default)]
pub struct KeyBatch<'a> {
    keys: Vec<&'a [u8]>,
    ascending: OnceLock<Vec<u32>>,
    xxph3: OnceLock<Vec<u64>>,
    rocksdb_bloom_hash: OnceLock<Vec<u64>>,
    leveldb_bloom_hash: OnceLock<Vec<u64>>,
    xxh3: OnceLock<Vec<u64>>,
}

impl<'a> KeyBatch<'a> {
    /// Collects keys in any order, repeated or not. Keys behind the first 2^32 - 1 are dropped.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self { keys: keys.into_iter().take(u32::MAX as usize).collect(), ..Self::default() }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys in the order in which they were passed.
    #[must_use]
    pub fn keys(&self) -> &[&'a [u8]] {
        &self.keys
    }

    /// Returns the keys' hashes, in the order of [`KeyBatch::keys`].
    fn hashes(&self, function: HashFunction) -> &[u64] {
        let kept = match function {
            HashFunction::Xxph3 => &self.xxph3,
            HashFunction::RocksDbBloomHash => &self.rocksdb_bloom_hash,
            HashFunction::LevelDbBloomHash => &self.leveldb_bloom_hash,
            HashFunction::Xxh3 => &self.xxh3,
        };
        kept.get_or_init(|| self.keys.iter().map(|key| function.hash(key)).collect())
    }

    /// Returns the indexes of the keys in bytewise order.
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32")]
    fn ascending(&self) -> &[u32] {
        self.ascending.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..self.keys.len() as u32).collect();
            // Indexes are sorted instead of keys: answers keep the caller's order.
            numbers.sort_unstable_by_key(|&number| self.keys.get(number as usize));
            numbers
        })
    }

    /// Returns the indexes of the keys in a table's order.
    fn sorted(&self, direction: Direction) -> Cow<'_, [u32]> {
        match direction {
            Direction::Bytewise => Cow::Borrowed(self.ascending()),
            Direction::ReverseBytewise => self.ascending().iter().rev().copied().collect(),
        }
    }

    fn key(&self, number: u32) -> &[u8] {
        self.keys.get(number as usize).copied().unwrap_or_default()
    }
}

/// A table's answers for all keys of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchAnswers {
    /// One answer per key, in the order of the keys.
    pub answers: Vec<Probe>,
    /// The first distinct reasons for [`Probe::Unusable`], at most [`BatchAnswers::MAX_REASONS`].
    pub reasons: Vec<Error>,
}

impl BatchAnswers {
    /// The maximum number of reasons. Each damaged partition has one; the first ones suffice for a report.
    pub const MAX_REASONS: usize = 16;

    /// Counts the keys with this answer.
    #[must_use]
    pub fn count(&self, answer: Probe) -> usize {
        self.answers.iter().filter(|&&candidate| candidate == answer).count()
    }

    fn add_reason(&mut self, reason: Error) {
        if self.reasons.len() < Self::MAX_REASONS && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    fn set(&mut self, key: u32, answer: Probe) {
        if let Some(slot) = self.answers.get_mut(key as usize) {
            *slot = answer;
        }
    }
}

impl<R: RandomAccess> ForeignTable<R> {
    /// Probes many keys, with the answers of [`ForeignTable::probe`]. Visits partitions in key order, so that each is
    /// read once and probed with all of its keys.
    pub fn probe_batch(&self, batch: &KeyBatch<'_>) -> BatchAnswers {
        match self.try_probe_batch(batch) {
            Ok(answers) => answers,
            Err(reason) => self.without_filter(batch, reason),
        }
    }

    /// Answers without a filter. A key that adds nothing to a filter may be present, whatever the error.
    fn without_filter(&self, batch: &KeyBatch<'_>, reason: Error) -> BatchAnswers {
        let rules = self.rules().ok();
        let answer = |key: &&[u8]| rules.map_or(Probe::Unusable, |rules| unanswered(rules, key));
        BatchAnswers { answers: batch.keys.iter().map(answer).collect(), reasons: vec![reason] }
    }

    fn try_probe_batch(&self, batch: &KeyBatch<'_>) -> Result<BatchAnswers, Error> {
        let rules = self.rules()?;
        match self.loaded()? {
            Loaded::Full(filter) => probe_full(batch, rules, filter),
            Loaded::Partitioned(partitions) => self.probe_partitions(batch, rules, partitions),
            Loaded::PerDataBlock(filters) => Ok(probe_data_blocks(batch, filters)),
        }
    }

    fn probe_partitions(
        &self,
        batch: &KeyBatch<'_>,
        rules: &KeyRules,
        partitions: &Partitions,
    ) -> Result<BatchAnswers, Error> {
        let mut answers = BatchAnswers { answers: vec![Probe::MaybePresent; batch.len()], reasons: Vec::new() };
        let sorted = batch.sorted(rules.order.direction);
        let mut sorted = sorted.as_ref();
        let mut probes = GroupProbes { batch, rules, hashes: Vec::new(), probed: Vec::new(), may_contain: Vec::new() };
        let mut partition = 0;
        while let Some(&first) = sorted.first() {
            partition = partitions.partition_from(partition, batch.key(first));
            let group = sorted
                .iter()
                .take_while(|&&key| partitions.partition_from(partition, batch.key(key)) == partition)
                .count();
            // At least one key, so that the loop always ends.
            let (group, rest) = sorted.split_at(group.max(1));
            match partitions.filter(&self.file, partition) {
                Ok(filter) => probes.run(filter, group, &mut answers)?,
                Err(reason) => {
                    group.iter().for_each(|&key| answers.set(key, unanswered(rules, batch.key(key))));
                    answers.add_reason(reason);
                }
            }
            sorted = rest;
        }
        Ok(answers)
    }
}

fn unanswered(rules: &KeyRules, key: &[u8]) -> Probe {
    if rules.added_of(key) == Ok(None) { Probe::MaybePresent } else { Probe::Unusable }
}

/// Probes one key like [`ForeignTable::probe`], for filters whose answer depends on more than the hash.
fn probe_one(filter: &Filter<Vec<u8>>, rules: &KeyRules, key: &[u8]) -> Result<Probe, Error> {
    let added = rules.added_of(key)?;
    Ok(answer(added.is_none_or(|added| super::may_contain(filter, rules, added))))
}

fn probe_full(batch: &KeyBatch<'_>, rules: &KeyRules, filter: &Filter<Vec<u8>>) -> Result<BatchAnswers, Error> {
    // The batch has hashes of whole keys only, and a filter of no keys depends on the table's entries.
    if !rules.whole_keys || filter.kind() == FilterKind::NoKeys {
        let answers: Result<_, Error> = batch.keys.iter().map(|key| probe_one(filter, rules, key)).collect();
        return Ok(BatchAnswers { answers: answers?, reasons: Vec::new() });
    }
    let mut may_contain = Vec::new();
    filter.may_contain_hashes(batch.hashes(filter.hash_function()), &mut may_contain);
    Ok(BatchAnswers { answers: may_contain.into_iter().map(answer).collect(), reasons: Vec::new() })
}

fn probe_data_blocks(batch: &KeyBatch<'_>, filters: &DataBlockFilters) -> BatchAnswers {
    let mut answers = BatchAnswers::default();
    for (key, &hash) in batch.keys.iter().zip(batch.hashes(HashFunction::LevelDbBloomHash)) {
        match filters.may_contain(key, hash) {
            Ok(may_contain) => answers.answers.push(answer(may_contain)),
            Err(reason) => {
                answers.answers.push(Probe::Unusable);
                answers.add_reason(reason);
            }
        }
    }
    answers
}

/// The buffers of a batch, reused for each partition.
struct GroupProbes<'b, 'k> {
    batch: &'b KeyBatch<'k>,
    rules: &'b KeyRules,
    hashes: Vec<u64>,
    /// The keys of the hashes. Keys without a prefix have no hash and are left out.
    probed: Vec<u32>,
    may_contain: Vec<bool>,
}

impl GroupProbes<'_, '_> {
    fn run(&mut self, filter: &Filter<Vec<u8>>, group: &[u32], answers: &mut BatchAnswers) -> Result<(), Error> {
        if filter.kind() == FilterKind::NoKeys {
            for &key in group {
                answers.set(key, probe_one(filter, self.rules, self.batch.key(key))?);
            }
            return Ok(());
        }
        self.hash(filter.hash_function(), group)?;
        filter.may_contain_hashes(&self.hashes, &mut self.may_contain);
        for (&key, &may_contain) in self.probed.iter().zip(&self.may_contain) {
            answers.set(key, answer(may_contain));
        }
        Ok(())
    }

    fn hash(&mut self, function: HashFunction, group: &[u32]) -> Result<(), Error> {
        self.hashes.clear();
        self.probed.clear();
        if self.rules.whole_keys {
            // Hashed once for all tables; prefixes differ between tables and are hashed each time.
            let hashes = self.batch.hashes(function);
            self.hashes.extend(group.iter().filter_map(|&key| hashes.get(key as usize)));
            self.probed.extend_from_slice(group);
            return Ok(());
        }
        for &key in group {
            if let Some(added) = self.rules.added_of(self.batch.key(key))? {
                self.hashes.push(function.hash(added));
                self.probed.push(key);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchAnswers, Error};
    use crate::error::Part;

    #[test]
    fn a_reason_is_given_once_and_only_the_first_ones_are_given() {
        let reason = |offset| Error::Malformed { part: Part::Partition, offset, problem: "damage".into() };
        let first: Vec<_> = (0..BatchAnswers::MAX_REASONS as u64).map(reason).collect();
        let mut answers = BatchAnswers::default();
        for offset in [0, 0, 1, 0, 1] {
            answers.add_reason(reason(offset));
        }
        assert_eq!(answers.reasons, first[..2]);
        (0..100).for_each(|offset| answers.add_reason(reason(offset)));
        assert_eq!(answers.reasons, first);
    }
}
