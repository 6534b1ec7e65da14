//! Range filters: ours compared with those of other crates.

mod keys;
mod measure;
mod ours;
mod peers;
pub mod record;
mod subject;
pub mod tables;

use std::error::Error;

use self::keys::KeyKind;
use self::measure::{Extent, LENGTHS};
use self::record::RangeMeasurements;
use crate::record::Run;
use crate::{RunArgs, print};

/// Measures range filters.
///
/// # Errors
///
/// The error of a constructor, of the decompressor of the names, or of the system.
pub fn run(args: &RunArgs) -> Result<(), Box<dyn Error>> {
    let extent = if args.quick {
        Extent { keys: 100_000, turns: 3, ranges: 1 << 16 }
    } else {
        Extent { keys: 1_000_000, turns: 15, ranges: 1 << 20 }
    };
    let mut subjects = ours::subjects(&LENGTHS[1..])?;
    subjects.extend(peers::subjects(&LENGTHS[1..]));
    subjects.retain(|subject| args.is_wanted(subject.label().implementation, &subject.label().kind));
    let run = Run::now(args.arguments(&[]));
    let (mut records, mut held, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for kind in KeyKind::ALL {
        let measured = measure::measure(&subjects, kind, extent, |problem| left_out.push(problem))?;
        print(kind.name(), &tables::of_keys(&measured.0, kind.name()));
        records.extend(measured.0);
        held.extend(measured.1);
    }
    let correlated = measure::correlated(&subjects, extent)?;
    held.extend(measure::held(&subjects, extent));
    let measurements = RangeMeasurements { run, records, correlated, held, left_out };
    tables::of_run(&measurements).for_each(|(title, table)| print(title, &table));
    measurements.left_out.iter().for_each(|problem| eprintln!("left out: {problem}"));
    Ok(args.write(&measurements)?)
}
