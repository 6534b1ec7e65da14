//! stub
use std::io;
#[derive(Debug, clap::Args)]
pub struct ReportArgs {}
pub fn run(_: &ReportArgs) -> io::Result<()> {
    Ok(())
}
