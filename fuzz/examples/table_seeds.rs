//! Writes small tables with filters of every kind into a directory: seeds for `table_open`, always the same ones.

use std::path::PathBuf;
use std::sync::Arc;

use sstfilter::{
    BitsPerKey, BloomPolicy, FilterPolicy, FixedPrefix, FuseArity, FusePolicy, FuseSizing, RibbonPolicy, RibbonSizing,
    StandardBloomPolicy, TableBuilder, TableId, TableOptions, XorLayout, XorPolicy, XorSizing, XorWidth,
};

type Failed = Box<dyn std::error::Error>;

fn policies() -> Result<Vec<Arc<dyn FilterPolicy>>, Failed> {
    let ribbon = RibbonPolicy::new(RibbonSizing::Size(BitsPerKey::TEN))?;
    let fuse = FusePolicy::new(FuseSizing::FingerprintBits(8))?;
    Ok(vec![
        Arc::new(BloomPolicy::default()),
        Arc::new(StandardBloomPolicy::default()),
        Arc::new(ribbon.with_min_keys(0)),
        Arc::new(fuse.clone()),
        Arc::new(fuse.with_arity(FuseArity::Four)),
        Arc::new(XorPolicy::new(XorLayout::Plain, XorSizing::Width(XorWidth::Eight))?),
        Arc::new(XorPolicy::new(XorLayout::Plus, XorSizing::Width(XorWidth::Sixteen))?),
    ])
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
    for (number, policy) in policies()?.into_iter().enumerate() {
        for entries in [1, 9, 60] {
            let id = TableId::from_bytes([u8::try_from(number)?; 16]);
            let options = TableOptions::default().with_table_id(id).with_policy(policy.clone());
            let options = options.with_block_bytes(128)?.with_restart_interval(4)?;
            std::fs::write(directory.join(format!("{number}-{entries}.sst")), table(&options, entries)?)?;
            let options = options.with_extractor(Arc::new(FixedPrefix::new(9)));
            std::fs::write(directory.join(format!("{number}-{entries}-prefix.sst")), table(&options, entries)?)?;
        }
    }
    Ok(())
}
