//! A filter for the files of a writer that exists already and knows nothing of this library: bytes in, bytes out.
//!
//! The writer below stands for the engine's own: sorted `key<TAB>value` lines and an 8-byte footer. What is added
//! to it are six lines that build a filter, append its block, and keep its place; the reader asks it before it looks
//! at the data.
//!
//! ```sh
//! cargo run --release --example existing_writer
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use sstfilter::{
    AutoPolicy, BitsPerKey, BuildContext, BuildPurpose, FilterPolicy, GuardedFilter, KeyHasher, LookupOutcome,
};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("cities.lines");
    let entries: Vec<(String, String)> = (0..20_000).map(|i| (format!("city-{i:06}"), format!("{}", i * 37))).collect();
    let hasher = KeyHasher::default();
    write_file(&path, &entries, &hasher)?;

    let mut file = ExistingReader::open(&path, &hasher)?;
    for key in ["city-000042", "city-019999", "town-000042"] {
        println!("{key}: {:?}", file.get(key, &hasher)?);
    }
    let absent = 10_000;
    for i in 0..absent {
        file.get(&format!("village-{i}"), &hasher)?;
    }
    println!("{absent} absent keys: the data was read {} times in all", file.data_reads);
    println!("{:?}", file.filter.stats());
    Ok(())
}

fn write_file(path: &Path, entries: &[(String, String)], hasher: &KeyHasher) -> Result<(), Box<dyn Error>> {
    let mut file = File::create(path)?;
    // The filter's builder is made with the file ...
    let policy = AutoPolicy::new(BitsPerKey::TEN)?;
    let context = BuildContext::new(hasher).with_purpose(BuildPurpose::Compaction);
    let mut filter = policy.builder(&context).ok_or("this policy never declines")?;
    let mut data_bytes = 0_u64;
    for (key, value) in entries {
        // ... takes every key that is written ...
        filter.add_key(key.as_bytes());
        let line = format!("{key}\t{value}\n");
        data_bytes += line.len() as u64;
        file.write_all(line.as_bytes())?;
    }
    // ... and gives bytes, which go wherever the format has room for them; here, behind the data. It never fails: the
    // report says what was built, and why.
    let built = filter.finish();
    let block = built.block.unwrap_or_default();
    println!("{} entries, filter: {:?} of {} bytes", entries.len(), built.report.used, block.len());
    file.write_all(&block)?;
    file.write_all(&data_bytes.to_le_bytes())?;
    Ok(())
}

struct ExistingReader {
    file: File,
    data_bytes: u64,
    filter: GuardedFilter<Vec<u8>>,
    data_reads: u64,
}

impl ExistingReader {
    fn open(path: &Path, hasher: &KeyHasher) -> Result<Self, Box<dyn Error>> {
        let length = fs::metadata(path)?.len();
        let mut file = File::open(path)?;
        let mut footer = [0; 8];
        file.seek(SeekFrom::Start(length.checked_sub(8).ok_or("no footer")?))?;
        file.read_exact(&mut footer)?;
        let data_bytes = u64::from_le_bytes(footer);
        let mut block = vec![0; usize::try_from((length - 8).checked_sub(data_bytes).ok_or("no filter")?)?];
        file.seek(SeekFrom::Start(data_bytes))?;
        file.read_exact(&mut block)?;
        // The checksums are compared here, once. Whatever is wrong with the block, every key may then be present.
        let filter = GuardedFilter::load(block, hasher.identity());
        Ok(Self { file, data_bytes, filter, data_reads: 0 })
    }

    fn get(&mut self, key: &str, hasher: &KeyHasher) -> Result<Option<String>, Box<dyn Error>> {
        if self.filter.probe(hasher.hash(key.as_bytes())).is_absent() {
            return Ok(None);
        }
        self.data_reads += 1;
        self.file.seek(SeekFrom::Start(0))?;
        let mut data = vec![0; usize::try_from(self.data_bytes)?];
        self.file.read_exact(&mut data)?;
        let found = String::from_utf8(data)?
            .lines()
            .find_map(|line| Some(line.strip_prefix(key)?.strip_prefix('\t')?.to_owned()));
        // For the statistics: was it there, or a false positive?
        self.filter.record_lookup(if found.is_some() { LookupOutcome::Found } else { LookupOutcome::NotFound });
        Ok(found)
    }
}
