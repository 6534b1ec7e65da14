//! Range filters: ours compared with those of other crates.

mod keys;
mod measure;
mod ours;
mod peers;
mod random;
pub mod record;
mod subject;
pub mod tables;

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use sstfilter::simd::InstructionSet;
use sstfilter_charts::{Machine, today};

use self::keys::KeyKind;
use self::measure::{Extent, LENGTHS};
use self::record::RangeMeasurements;
use self::subject::Subjects;
use crate::record::write_json;
use crate::subject::{arguments, is_wanted};

/// The measurements, and their output.
#[derive(Debug, Args)]
pub struct RangesArgs {
    /// Take less than a minute: 100,000 keys, fewer repetitions.
    #[arg(long)]
    quick: bool,
    /// Only crates and filters whose name contains this, e.g. `grafite` or `ordered`. May be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Writes the records there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl RangesArgs {
    fn extent(&self) -> Extent {
        if self.quick {
            Extent { keys: 100_000, turns: 3, ranges: 1 << 16 }
        } else {
            Extent { keys: 1_000_000, turns: 15, ranges: 1 << 20 }
        }
    }

    fn subjects(&self) -> Result<Subjects, Box<dyn Error>> {
        let lengths = &LENGTHS[1..];
        let mut subjects = ours::subjects(lengths)?;
        subjects.extend(peers::subjects(lengths));
        subjects.retain(|subject| {
            let label = subject.label();
            is_wanted(&self.only, label.implementation, &label.kind)
        });
        Ok(subjects)
    }
}

/// Measures range filters.
///
/// # Errors
///
/// The error of a constructor, of the decompressor of the names, or of the system.
pub fn run(args: &RangesArgs) -> Result<(), Box<dyn Error>> {
    let (subjects, extent) = (args.subjects()?, args.extent());
    let mut measurements = RangeMeasurements {
        date: today(),
        arguments: arguments(&[(args.quick, "--quick")], &args.only),
        machine: Machine::this(InstructionSet::fastest().name()),
        records: Vec::new(),
        correlated: Vec::new(),
        held: Vec::new(),
        left_out: Vec::new(),
    };
    for kind in KeyKind::ALL {
        let left_out = &mut measurements.left_out;
        let (records, held) = measure::measure(&subjects, kind, extent, |problem| left_out.push(problem))?;
        println!("{}\n\n{}", kind.name(), tables::of_keys(&records, kind.name()).aligned());
        measurements.records.extend(records);
        measurements.held.extend(held);
    }
    measurements.correlated = measure::correlated(&subjects, extent)?;
    measurements.held.extend(measure::held(&subjects, extent));
    for (title, table) in tables::of_run(&measurements) {
        println!("{title}\n\n{}", table.aligned());
    }
    measurements.left_out.iter().for_each(|problem| eprintln!("left out: {problem}"));
    if let Some(path) = &args.json {
        write_json(path, &measurements)?;
    }
    Ok(())
}
