//! One program for every process of the demonstration, and the demonstration itself.
//!
//! Without arguments, `sstfilter-distributed` runs the demonstration. It starts itself again as `server CONFIG`,
//! `writer CONFIG`, `compactor CONFIG`, `worker CONFIG`, `reader CONFIG`, `inspector CONFIG` or `creator CONFIG`, where
//! `CONFIG` is JSON.

use std::process::ExitCode;

use sstfilter_distributed::{Result, roles, scenario, server};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        [] => demonstrate().await,
        ["server", config] => server::run(serde_json::from_str(config)?).await,
        [role, config] => roles::run(role, serde_json::from_str(config)?).await,
        _ => Err("usage: sstfilter-distributed [ROLE CONFIG]; without a role, it runs a demonstration".into()),
    }
}

async fn demonstrate() -> Result<()> {
    let report = scenario::run(&std::env::current_exe()?, &scenario::Size::from_environment()).await?;
    print!("{report}");
    report.check()
}
