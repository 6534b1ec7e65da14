//! What a merge reads and holds.

use std::borrow::Cow;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sstfilter::FalsePositiveRate;
use sstfilter_map::{MapIndex, MapMerge, MapOptions, MapReport};

use crate::allocator::{alone, measure};
use crate::support::{index_of, map_id, map_of};

/// What a merge read from one map.
struct Reads {
    index: MapIndex,
    of_page: Vec<AtomicU32>,
    /// Bytes read from the tail.
    of_tail: Mutex<Vec<u64>>,
}

impl Reads {
    fn of(bytes: &[u8]) -> Self {
        let index = index_of(bytes);
        let of_page = (0..index.pages()).map(|_| AtomicU32::new(0)).collect();
        Self { index, of_page, of_tail: Mutex::default() }
    }

    /// Reads a copy, as from a disk.
    fn read<'a>(&self, bytes: &[u8], range: core::ops::Range<u64>) -> Cow<'a, [u8]> {
        let page_bytes = self.index.page_range(0).end;
        let page = range.start / page_bytes;
        match self.of_page.get(page as usize) {
            Some(count) => {
                assert_eq!(range, self.index.page_range(page), "a read is a page");
                count.fetch_add(1, Relaxed);
            }
            None => self.of_tail.lock().unwrap().push(range.end - range.start),
        }
        Cow::Owned(bytes[range.start as usize..range.end as usize].to_vec())
    }
}

/// Merges maps of `keys` keys in each of 10 files, and returns the report, the peak, and what was read.
fn merge(maps: &[Vec<u8>], options: MapOptions) -> (MapReport, usize, Vec<Reads>) {
    let reads: Vec<Reads> = maps.iter().map(|bytes| Reads::of(bytes)).collect();
    let (report, peak) = measure(|| {
        let mut merge = MapMerge::new(options);
        for (reads, bytes) in reads.iter().zip(maps) {
            merge.add(reads.index.clone(), |range| Ok(reads.read(bytes, range))).unwrap();
        }
        merge.finish(map_id(), &mut io::sink()).unwrap()
    });
    (report, peak, reads)
}

#[test]
fn a_merge_of_eight_maps_streams() {
    let _alone = alone();
    for threads in [1, 2] {
        let mut peaks = Vec::new();
        for keys in [20_000, 80_000] {
            let options = MapOptions::for_entries(80 * keys, FalsePositiveRate::ONE_PERCENT).unwrap();
            let options = options.with_threads(threads);
            let maps: Vec<_> = (0..8).map(|map| map_of(10 * map..10 * map + 10, keys, 0, options).0).collect();
            let (report, peak, reads) = merge(&maps, options);
            let counts: Vec<u32> =
                reads.iter().flat_map(|reads| &reads.of_page).map(|count| count.load(Relaxed)).collect();
            let (pages, sum) = (counts.len(), counts.iter().sum::<u32>());
            println!(
                "{threads} threads, {} MiB written: {} KiB at most, {pages} pages read {:.2} times on average, {} at most",
                report.bytes >> 20,
                peak >> 10,
                f64::from(sum) / pages as f64,
                counts.iter().max().unwrap()
            );
            assert!(counts.iter().all(|count| (1..=3).contains(count)) && f64::from(sum) < 2.1 * pages as f64);
            assert!(reads.iter().all(|reads| reads.of_tail.lock().unwrap().is_empty()));
            // Entries of a chunk and a copy of half of them to sort, its pages, and a page of an input.
            assert!(peak < threads * (7 << 20), "{peak} bytes");
            peaks.push(peak);
        }
        assert!(peaks[1] < peaks[0] + peaks[0] / 4, "four times the entries take as much memory: {peaks:?}");
    }
}

#[test]
fn a_merge_reads_lists_one_by_one_and_an_outgrown_page_at_once() {
    let _alone = alone();
    let options = MapOptions::for_entries(1_000_000, FalsePositiveRate::ONE_PERCENT).unwrap();
    // Lists of 40 files are in the maps; keys of 20 files of each map are in 160 of the result.
    for (files, lists_of_inputs) in [(40, 50), (20, 0)] {
        let maps: Vec<_> = (0..8).map(|map| map_of(files * map..files * (map + 1), 500, 50, options).0).collect();
        let (report, _, reads) = merge(&maps, options);
        assert_eq!(report.lists, 50);
        for reads in reads {
            let of_tail = reads.of_tail.lock().unwrap();
            assert!(of_tail.len() >= lists_of_inputs && of_tail.len() <= 2 * lists_of_inputs, "{}", of_tail.len());
            assert!(of_tail.iter().all(|&bytes| bytes <= files + 4), "a list has a byte for each file");
        }
    }
}
