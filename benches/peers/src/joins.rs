//! A hash join with a filter in front of its table: whether the whole join gets faster.

use std::error::Error;
use std::thread;

use hashbrown::HashTable;
use sstfilter::{BitsPerKey, DynamicFilter, HashIdentity, KeyHash, MatchBitmap, RegisterBlockedBloom};
use sstfilter_charts::Align::{Left, Right};
use sstfilter_charts::{Table, grouped};
use xorf::{BinaryFuse8, Filter as _};

use crate::figures::nanoseconds;
use crate::harness::least_times;
use crate::keys::{KeySet, Keys};
use crate::page::filled;
use crate::record::Run;
use crate::subject::{BATCH_KEYS, BuildError, Queries};
use crate::subjects::sstfilter::{self as ours, NAME};
use crate::subjects::{fastbloom, sbbf};

/// Percentages of probing rows that have a match.
const MATCHES: [usize; 6] = [1, 5, 10, 20, 30, 50];

/// A row of the build side: its key, and what the join takes from it.
type Row = (u64, u64);

/// Pairs that a join found, and the sum of what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Joined {
    pairs: u64,
    sum: u64,
}

/// The rows of a batch that a filter lets through: the first `count` of `rows`.
#[derive(Default)]
struct Selection {
    rows: Vec<usize>,
    count: usize,
    matches: MatchBitmap,
}

/// Selects the rows of a batch.
type Select = dyn Fn(&[KeyHash], &mut Selection) + Sync;

/// Builds a filter from the hashes of the build side.
type Build = fn(&[KeyHash]) -> Selects;

/// A filter that selects, or the reason why there is none.
type Selects = Result<Box<Select>, BuildError>;

/// A join without a filter, or with one of these.
const FILTERS: [(&str, &str, Option<Build>); 9] = [
    ("", "none", None),
    (NAME, "register-blocked Bloom, 2 bits", Some(register_blocked)),
    (NAME, "blocked Bloom, 10 bits", Some(|hashes| block("bloom", hashes))),
    (NAME, "standard Bloom, 10 bits", Some(|hashes| block("standard-bloom", hashes))),
    (NAME, "binary fuse, 10 bits", Some(|hashes| block("binary-fuse", hashes))),
    (NAME, "Ribbon, 10 bits", Some(|hashes| block("ribbon", hashes))),
    ("sbbf-rs-safe", "split block Bloom, 10 bits", Some(split_block)),
    ("fastbloom", "Bloom, 10 bits", Some(bloom)),
    ("xorf", "BinaryFuse8", Some(binary_fuse)),
];

/// Measures joins, and prints a page.
///
/// # Errors
///
/// The error of a filter's builder, or two joins with different results.
pub fn run(build_rows: usize, probe_rows: usize, turns: usize) -> Result<(), Box<dyn Error>> {
    let (run, cores) = (Run::now(Vec::new()), thread::available_parallelism()?.get());
    let present = KeySet::present(build_rows);
    // Doubled up to all cores, which may be no power of two.
    let counts = std::iter::successors(Some(1), |count| (count * 2 < cores).then_some(count * 2));
    let counts: Vec<_> = counts.chain((cores > 1).then_some(cores)).collect();
    let mut tables = vec![Vec::new(); counts.len()];
    for percent in MATCHES {
        let probes = KeySet::partly_drawn_from(present.all(), probe_rows, percent);
        for (&threads, columns) in counts.iter().zip(&mut tables) {
            columns.push(measure(present.all(), probes.all(), threads, turns)?);
        }
    }
    let sections = counts.iter().zip(&tables).map(|(threads, columns)| {
        let threads = if *threads == 1 { "One thread".to_owned() } else { format!("{threads} threads") };
        format!("{threads}\n\n{}", table(columns).markdown())
    });
    let values = [
        ("date", run.date.clone()),
        ("machine", run.machine()),
        ("build rows", grouped(build_rows as u64)),
        ("probe rows", grouped(probe_rows as u64)),
        ("batch", BATCH_KEYS.to_string()),
        ("threads", sections.collect::<Vec<_>>().join("\n## ")),
    ];
    print!("{}", filled(include_str!("pages/joins.txt"), &values));
    Ok(())
}

/// Returns the nanoseconds per probing row, with each of the [`FILTERS`].
fn measure(build: Keys<'_>, probe: Keys<'_>, threads: usize, turns: usize) -> Result<Vec<f64>, BuildError> {
    let joined = |filter| join(build, probe, filter, threads);
    let expected = joined(None)?;
    for (implementation, kind, filter) in FILTERS {
        if joined(filter)? != expected {
            return Err(format!("{implementation} {kind}: the join has another result than without a filter").into());
        }
    }
    let mut works = FILTERS.map(|(_, _, filter)| filter);
    let times = least_times(&mut works, turns, |filter| joined(*filter).map_or(0, |joined| joined.sum));
    Ok(times.into_iter().map(|time| time / probe.len() as f64).collect())
}

/// Makes the table of one number of threads, with a column for each of the [`MATCHES`].
fn table(columns: &[Vec<f64>]) -> Table {
    let titles = MATCHES.map(|percent| format!("{percent} %"));
    let titles = titles.iter().map(|title| (title.as_str(), Right));
    let mut table = Table::new([("crate", Left), ("filter", Left)].into_iter().chain(titles));
    for (row, (implementation, kind, build)) in FILTERS.into_iter().enumerate() {
        let cell = |column: &Vec<f64>| match build {
            None => nanoseconds(column[row]),
            Some(_) => format!("{} ({:.2}x)", nanoseconds(column[row]), column[0] / column[row]),
        };
        table.push([implementation.to_owned(), kind.to_owned()].into_iter().chain(columns.iter().map(cell)).collect());
    }
    table
}

/// Joins both sides: builds the table and the filter on this thread, and probes on all.
fn join(build: Keys<'_>, probe: Keys<'_>, filter: Option<Build>, threads: usize) -> Result<Joined, BuildError> {
    let mut table = HashTable::with_capacity(build.len());
    let mut hashes = Vec::with_capacity(build.len());
    for (&key, payload) in build.numbers.iter().zip(0..) {
        let hash = KeyHash::mix(key);
        hashes.push(hash);
        table.insert_unique(hash.get(), (key, payload), |row: &Row| KeyHash::mix(row.0).get());
    }
    let select = filter.map(|build| build(&hashes)).transpose()?;
    let (table, select) = (&table, select.as_deref());
    let parts = probe.numbers.chunks(probe.len().div_ceil(threads));
    Ok(thread::scope(|scope| {
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || probe_part(table, part, select))).collect();
        workers.into_iter().fold(Joined::default(), |sum, worker| {
            let part = worker.join().expect("no probe panics");
            Joined { pairs: sum.pairs + part.pairs, sum: sum.sum.wrapping_add(part.sum) }
        })
    }))
}

/// Looks up what the filter lets through, a batch at a time.
fn probe_part(table: &HashTable<Row>, keys: &[u64], select: Option<&Select>) -> Joined {
    let (mut joined, mut selection, mut hashes) = (Joined::default(), Selection::default(), Vec::new());
    let mut look_up = |key: u64, hash: KeyHash| {
        if let Some(row) = table.find(hash.get(), |row| row.0 == key) {
            joined.pairs += 1;
            joined.sum = joined.sum.wrapping_add(row.1);
        }
    };
    for batch in keys.chunks(BATCH_KEYS) {
        hashes.clear();
        hashes.extend(batch.iter().map(|&key| KeyHash::mix(key)));
        if let Some(select) = select {
            select(&hashes, &mut selection);
            selection.rows[..selection.count].iter().for_each(|&row| look_up(batch[row], hashes[row]));
        } else {
            batch.iter().zip(&hashes).for_each(|(&key, &hash)| look_up(key, hash));
        }
    }
    joined
}

/// Selects by single probes. No branch depends on an answer, which nobody could predict.
#[expect(clippy::unnecessary_wraps, reason = "the last call of a build")]
fn by_probe(may_contain: impl Fn(u64) -> bool + Sync + 'static) -> Selects {
    Ok(Box::new(move |hashes, selection| {
        selection.rows.resize(hashes.len(), 0);
        selection.count = 0;
        for (row, &hash) in hashes.iter().enumerate() {
            selection.rows[selection.count] = row;
            selection.count += usize::from(may_contain(hash.get()));
        }
    }))
}

/// Selects by a batch of answers.
#[expect(clippy::unnecessary_wraps, reason = "the last call of a build")]
fn by_batch(answer: impl Fn(&[KeyHash], &mut MatchBitmap) + Sync + 'static) -> Selects {
    Ok(Box::new(move |hashes, selection| {
        answer(hashes, &mut selection.matches);
        selection.rows.clear();
        selection.rows.extend(selection.matches.iter());
        selection.count = selection.rows.len();
    }))
}

fn register_blocked(hashes: &[KeyHash]) -> Selects {
    // A byte per key, rounded to a power of two.
    let filter =
        RegisterBlockedBloom::with_shape(HashIdentity::default(), (hashes.len() as u64).next_power_of_two(), 2)?;
    filter.insert_all(hashes);
    by_batch(move |batch, matches| filter.contains_batch(batch, matches))
}

fn block(name: &str, hashes: &[KeyHash]) -> Selects {
    let block = ours::block(name, BitsPerKey::TEN.into(), hashes)?;
    by_batch(move |batch, matches| block.may_contain_batch(batch, matches))
}

fn split_block(hashes: &[KeyHash]) -> Selects {
    let filter = sbbf::filled(10, hashes.len(), hashes.iter().map(|hash| hash.get()));
    by_probe(move |hash| filter.contains_hash(hash))
}

fn bloom(hashes: &[KeyHash]) -> Selects {
    let filter = fastbloom::filled(hashes.len(), hashes.iter().map(|hash| hash.get()));
    by_probe(move |hash| filter.contains_hash(hash))
}

fn binary_fuse(hashes: &[KeyHash]) -> Selects {
    let filter = BinaryFuse8::try_from(&hashes.iter().map(|hash| hash.get()).collect::<Vec<_>>())?;
    by_probe(move |hash| filter.contains(&hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_leaves_the_join_as_it_is() {
        let present = KeySet::present(1_000);
        for (percent, threads) in [(1, 1), (10, 3), (50, 2)] {
            let probes = KeySet::partly_drawn_from(present.all(), 20_000, percent);
            let expected = join(present.all(), probes.all(), None, threads).unwrap();
            assert_eq!(expected.pairs, 200 * percent as u64);
            for (implementation, kind, filter) in FILTERS {
                let joined = join(present.all(), probes.all(), filter, threads).unwrap();
                assert_eq!(joined, expected, "{implementation} {kind}");
            }
        }
    }

    #[test]
    fn filters_let_few_rows_through_that_have_no_match() {
        let (present, absent) = (KeySet::present(10_000), KeySet::absent(100_000));
        let hashes = |keys: Keys<'_>| keys.numbers.iter().map(|&key| KeyHash::mix(key)).collect::<Vec<_>>();
        for (implementation, kind, build) in FILTERS {
            let Some(build) = build else { continue };
            let mut selection = Selection::default();
            build(&hashes(present.all())).unwrap()(&hashes(absent.all()), &mut selection);
            assert!(selection.count < 6_000, "{implementation} {kind}: {}", selection.count);
        }
    }
}
