//! Adds a filter to the files of an existing writer that does not depend on this library: bytes in, bytes out.
//!
//! The writer below stands for the engine's writer: sorted `key<TAB>value` lines and an 8-byte footer. Six added lines
//! build a filter, append its block, and record its position; the reader probes it before it reads the data.
//!
//! A random id binds the block to its file. The reader passes the id and the first and the last key of the file, so it
//! rejects the block of another file even if its checksums hold. Here the manifest may store all three, because the
//! block is inside the file. If filters are in separate files, store the id's fingerprint in the file with the keys,
//! and read the first and the last key there, because another file may be in its place.
//!
//! ```sh
//! cargo run --release --example existing_writer
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sstfilter::{AutoPolicy, BitsPerKey, BuildPurpose, FileId, FilterReader, Filters, LookupOutcome};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let filters = Filters::new(AutoPolicy::new(BitsPerKey::TEN)?);
    let entries = |kind: &str| -> Vec<(String, String)> {
        (0..20_000).map(|i| (format!("{kind}-{i:06}"), format!("{}", i * 37))).collect()
    };
    let cities = FileMeta::write(directory.path(), 7, &entries("city"), &filters)?;
    let rivers = FileMeta::write(directory.path(), 8, &entries("river"), &filters)?;

    let mut file = ExistingReader::open(&cities, &filters)?;
    for key in ["city-000042", "city-019999", "town-000042"] {
        println!("{key}: {:?}", file.get(key)?);
    }
    let absent = 10_000;
    for i in 0..absent {
        file.get(&format!("village-{i}"))?;
    }
    println!("{absent} absent keys: the data was read {} times in all", file.data_reads);
    println!("{:?}", file.filter.stats());

    // A restore goes wrong: file 7 now has the bytes of file 8. Their filter would answer "absent" for nearly every
    // city, so the reader does not use it.
    fs::copy(&rivers.path, &cities.path)?;
    let swapped = ExistingReader::open(&cities, &filters)?;
    let problem = swapped.filter.problem().ok_or("the filter of another file was believed")?;
    println!("file 7 is read without a filter: {problem}");
    Ok(())
}

/// A file's entry in the engine's manifest.
struct FileMeta {
    path: PathBuf,
    /// A random id for each file, not derived from its number: numbers recur after a crash, and in other stores. A
    /// manifest stores its `FileId::fingerprint`.
    id: FileId,
    smallest: String,
    largest: String,
}

impl FileMeta {
    fn write(
        directory: &Path,
        number: u64,
        entries: &[(String, String)],
        filters: &Filters,
    ) -> Result<Self, Box<dyn Error>> {
        let path = directory.join(format!("{number:06}.lines"));
        let mut file = File::create(&path)?;
        // Create the filter's builder with the file,
        let id = FileId::random();
        let mut filter = filters.builder(id).with_purpose(BuildPurpose::Compaction);
        let mut data_bytes = 0_u64;
        for (key, value) in entries {
            // add every key,
            filter.add_key(key.as_bytes());
            let line = format!("{key}\t{value}\n");
            data_bytes += line.len() as u64;
            file.write_all(line.as_bytes())?;
        }
        // and store the block wherever the format has room for it; here, after the data. Building never fails: the
        // report says what was built, and why.
        let built = filter.finish();
        let block = built.block.unwrap_or_default();
        println!("{} entries, filter: {:?} of {} bytes", entries.len(), built.report.used, block.len());
        file.write_all(&block)?;
        file.write_all(&data_bytes.to_le_bytes())?;
        let [(smallest, _), .., (largest, _)] = entries else { return Err("fewer than two entries".into()) };
        Ok(Self { path, id, smallest: smallest.clone(), largest: largest.clone() })
    }
}

struct ExistingReader {
    file: File,
    data_bytes: u64,
    filter: FilterReader<Vec<u8>>,
    data_reads: u64,
}

impl ExistingReader {
    fn open(meta: &FileMeta, filters: &Filters) -> Result<Self, Box<dyn Error>> {
        let mut file = File::open(&meta.path)?;
        let length = file.metadata()?.len();
        let mut footer = [0; 8];
        file.seek(SeekFrom::Start(length.checked_sub(8).ok_or("no footer")?))?;
        file.read_exact(&mut footer)?;
        let data_bytes = u64::from_le_bytes(footer);
        let mut block = vec![0; usize::try_from((length - 8).checked_sub(data_bytes).ok_or("no filter")?)?];
        file.seek(SeekFrom::Start(data_bytes))?;
        file.read_exact(&mut block)?;
        // Loading compares the checksums once, and checks that the block belongs to the file. If anything is wrong, the
        // reader answers "may be present" for every key. A file whose policy wanted no filter has none.
        let known = [meta.smallest.as_bytes(), meta.largest.as_bytes()];
        let filter = filters.load_with_known_keys((!block.is_empty()).then_some(block), meta.id, &known);
        Ok(Self { file, data_bytes, filter, data_reads: 0 })
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, Box<dyn Error>> {
        if self.filter.probe(key.as_bytes()).is_absent() {
            return Ok(None);
        }
        self.data_reads += 1;
        self.file.seek(SeekFrom::Start(0))?;
        let mut data = vec![0; usize::try_from(self.data_bytes)?];
        self.file.read_exact(&mut data)?;
        let found = String::from_utf8(data)?
            .lines()
            .find_map(|line| Some(line.strip_prefix(key)?.strip_prefix('\t')?.to_owned()));
        // For the statistics: a true or a false positive?
        self.filter.record_lookup(if found.is_some() { LookupOutcome::Found } else { LookupOutcome::NotFound });
        Ok(found)
    }
}
