//! Writes small tables with filters of every kind into a directory: seeds for `table_open`, always the same ones.

use std::path::PathBuf;
use std::sync::Arc;

use sstfilter::{FilterPolicy, FixedPrefix, kind};
use sstfilter_fuzz::pick;
use sstfilter_table::{TableBuilder, TableOptions};

type Failed = Box<dyn std::error::Error>;

fn policies() -> Vec<Arc<dyn FilterPolicy>> {
    let policy = |entry| Arc::new(pick::some_policy(entry, 8).with_min_keys(0)) as Arc<dyn FilterPolicy>;
    kind::all().iter().map(policy).collect()
}

/// `entries` entries, every seventh of them a tombstone.
fn table(options: &TableOptions, entries: u32) -> Result<Vec<u8>, Failed> {
    let mut builder = TableBuilder::new(Vec::new(), options)?;
    for number in 0..entries {
        let key = format!("key-{number:08}");
        if number % 7 == 3 {
            builder.delete(key.as_bytes())?;
        } else {
            builder.add(key.as_bytes(), &number.to_le_bytes()[..number as usize % 5])?;
        }
    }
    Ok(builder.finish()?.0)
}

fn main() -> Result<(), Failed> {
    let directory: PathBuf = std::env::args_os().nth(1).ok_or("usage: table_seeds DIRECTORY")?.into();
    std::fs::create_dir_all(&directory)?;
    for (number, policy) in policies().into_iter().enumerate() {
        for entries in [1, 9, 60] {
            let id = [u8::try_from(number)?; 16];
            let options = TableOptions::default().with_table_id(id).with_policy(policy.clone());
            let options = options.with_block_bytes(128)?.with_restart_interval(4)?;
            std::fs::write(directory.join(format!("{number}-{entries}.sst")), table(&options, entries)?)?;
            let options = options.with_extractor(Arc::new(FixedPrefix::new(9)));
            std::fs::write(directory.join(format!("{number}-{entries}-prefix.sst")), table(&options, entries)?)?;
        }
    }
    Ok(())
}
