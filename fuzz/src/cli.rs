//! Exercises the command line without a process: arguments, files of keys, and files that may be tables or blocks.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use clap::{Command, CommandFactory};
use sstfilter::kind;
use sstfilter_cli::{Cli, Outcome};

/// Parses, or builds and reads, as `bytes` say.
pub fn exercise(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let _ = match bytes.first().map(|first| first % 8) {
        Some(0) => parse(&mut input),
        Some(1) => read_files(&mut input),
        Some(2) => advise(&mut input),
        _ => build_and_read(&mut input),
    };
}

/// Values of options. Those that an option lists, and the names of kinds, are added to them.
const VALUES: &str = "-- - = 0 1 -1 0.01 1e-400 1e400 nan inf -0.0 10% 4K 4Ki:hash 256Mi 18446744073709551615 \
                      99999999999T 0xff 0x auto ordered hashed:64:0.01:4";

/// Words that arguments are made of, so that few bytes make a command line.
static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut words: Vec<String> = VALUES.split(' ').chain([""]).map(str::to_owned).collect();
    words.extend(kind::all().iter().map(|entry| entry.name.to_owned()));
    add_words(&Cli::command(), &mut words);
    // Commands share options.
    words.sort();
    words.dedup();
    words
});

/// Adds the names of a command, of its options and of the commands below it.
fn add_words(command: &Command, words: &mut Vec<String>) {
    words.push(command.get_name().to_owned());
    for option in command.get_arguments() {
        words.extend(option.get_long().map(|name| format!("--{name}")));
        words.extend(option.get_possible_values().iter().map(|value| value.get_name().to_owned()));
    }
    command.get_subcommands().for_each(|command| add_words(command, words));
}

/// Parses any words as arguments. Runs only advice, which touches no file.
fn parse(input: &mut Unstructured<'_>) -> Result<()> {
    let mut arguments = vec!["sstfilter".to_owned()];
    while !input.is_empty() && arguments.len() < 20 {
        let word = match input.int_in_range(0..=5)? {
            0 => input.arbitrary::<&str>()?.to_owned(),
            1 => input.arbitrary::<f64>()?.to_string(),
            2 => input.arbitrary::<u64>()?.to_string(),
            3 => format!("{}={}", input.choose(&WORDS)?, input.choose(&WORDS)?),
            _ => input.choose(&WORDS)?.clone(),
        };
        arguments.push(word);
    }
    // Any other command could touch files that a random path names.
    let is_advice = arguments.get(1).is_some_and(|command| command == "advise")
        && arguments.get(2).is_some_and(|command| command == "kind" || command == "files");
    let cli = parsed(&arguments).filter(|_| is_advice);
    let _ = cli.and_then(|cli| run(&cli, arguments.iter().any(|word| word == "--json")));
    Ok(())
}

/// Advice for any use.
fn advise(input: &mut Unstructured<'_>) -> Result<()> {
    let is_json = input.arbitrary()?;
    let keys: u64 = input.arbitrary()?;
    let mut options = vec![(keys >> input.int_in_range(0..=63)?).to_string()];
    for _ in 0..input.int_in_range(0..=5)? {
        let number = input.arbitrary::<u64>()? >> input.int_in_range(0..=63)?;
        options.push(match input.int_in_range(0..=5)? {
            0 => format!("--fpr={}", number as f64 / u64::MAX as f64),
            1 => format!("--memory={number}"),
            2 => format!("--updates={}", input.choose(&["none", "insert", "remove"])?),
            3 => format!("--writers={number}"),
            4 => format!("--lookups-per-key={}", f64::from_bits(number)),
            _ => format!("--false-positive-ns={number}"),
        });
    }
    command(&["advise", "kind"], &options, is_json);
    Ok(())
}

/// Runs a command, and checks that its output is JSON if `is_json`.
fn run(cli: &Cli, is_json: bool) -> Option<(Outcome, Vec<u8>)> {
    let mut output = Vec::new();
    match sstfilter_cli::run(cli, &mut output) {
        Ok(outcome) => {
            if is_json {
                let parsed = serde_json::from_slice::<serde_json::Value>(&output);
                assert!(parsed.is_ok_and(|report| report.is_object()), "{}", String::from_utf8_lossy(&output));
            }
            Some((outcome, output))
        }
        Err(error) => {
            assert!(!format!("{error:#}").is_empty());
            None
        }
    }
}

fn command(words: &[&str], more: &[String], is_json: bool) -> Option<(Outcome, Vec<u8>)> {
    let json = is_json.then_some("--json");
    let words = ["sstfilter"].iter().chain(words).copied().chain(json).map(str::to_owned);
    let words: Vec<String> = words.chain(more.iter().cloned()).collect();
    run(&parsed(&words)?, is_json)
}

/// Parses arguments. A refusal has a message.
fn parsed(arguments: &[String]) -> Option<Cli> {
    let parsed = Cli::from_arguments(arguments);
    parsed.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// The words of a path that this target made.
fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary directory of this process")
}

/// A file of any bytes as a table, a block or a file of keys.
fn read_files(input: &mut Unstructured<'_>) -> Result<()> {
    let is_json = input.arbitrary()?;
    let name = *input.choose(&["000001.sst", "1.sst", "a.block", "keys", ".sstfilter-x.tmp", "000002.sst"])?;
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join(name);
    let contents = input.bytes(input.len())?;
    fs::write(&file, contents).expect("there is room");
    let (directory, file) = (text(directory.path()), text(&file));
    let sound = command(&["verify", file], &[], is_json).map(|(outcome, _)| outcome);
    command(&["inspect", file], &[], is_json);
    command(&["verify", directory], &[], is_json);
    command(&["get", directory, "key-00000001", ""], &[], is_json);
    command(&["get", file], &[], is_json);
    command(&["get", file, "--salvage"], &[], is_json);
    command(&["get", file, "--keys-only"], &[], is_json);
    let block = format!("{file}.of-filter");
    if command(&["filter", file, "--out", &block], &[], is_json).is_some() {
        let verified = command(&["verify", &block], &[], is_json).map(|(outcome, _)| outcome);
        assert_eq!(verified, Some(Outcome::Yes), "a copied filter is sound");
    }
    for format in ["lines", "nul", "hex"] {
        command(&["filter", "--keys", file, "--out", &block, "--overwrite", "--keys-format", format], &[], is_json);
    }
    command(&["probe", directory, "--keys", file], &[], is_json);
    assert!(!contents.is_empty() || sound != Some(Outcome::Yes), "an empty file is no table");
    Ok(())
}

/// Options of a build, in any number.
fn options(input: &mut Unstructured<'_>) -> Result<Vec<String>> {
    let mut options = Vec::new();
    for _ in 0..input.int_in_range(0..=4)? {
        let option = match input.int_in_range(0..=8)? {
            0 => format!("--files={}", input.int_in_range(0..=12)?),
            1 => "--consecutive".to_owned(),
            2 => format!("--table-bytes={}", input.choose(&["4K", "5000", "1Mi", "3", "x"])?),
            3 => {
                let names: Vec<&str> = kind::all().iter().map(|entry| entry.name).chain(["auto", "quotient"]).collect();
                format!("--policy={}", input.choose(&names)?)
            }
            4 => format!("--fpr={}", f64::from(input.arbitrary::<u8>()?) / 256.0),
            5 => format!("--bits-per-key={}", f64::from(input.arbitrary::<u16>()?) / 500.0),
            6 => format!("--hash-seed={}", input.arbitrary::<u64>()?),
            7 => "--overwrite".to_owned(),
            _ => format!("--memory-limit={}", input.arbitrary::<u16>()?),
        };
        options.push(option);
    }
    Ok(options)
}

/// Builds tables of a text, and checks that every key is found with its last value.
fn build_and_read(input: &mut Unstructured<'_>) -> Result<()> {
    let is_json = input.arbitrary()?;
    let options = options(input)?;
    let directory = tempfile::tempdir().expect("there is room");
    let (file, out) = (directory.path().join("keys"), directory.path().join("tables"));
    let contents = input.bytes(input.len())?;
    fs::write(&file, contents).expect("there is room");
    let (file, out) = (text(&file), text(&out));
    let Some((outcome, _)) = command(&["build", "--input", file, "--out", out], &options, is_json) else {
        return Ok(());
    };
    assert_eq!(outcome, Outcome::Yes);
    let verified = command(&["verify", out], &[], is_json).map(|(outcome, _)| outcome);
    assert_eq!(verified, Some(Outcome::Yes), "{options:?}");
    let tables: Vec<_> = fs::read_dir(out).expect("it was made").map(|entry| entry.expect("readable").path()).collect();
    let tables: Vec<String> = tables.iter().map(|path| text(path).to_owned()).collect();
    command(&["inspect"], &tables, is_json).expect("tables that verify are inspected");
    command(&["probe", out, "--keys", file], &[], is_json).expect("there are keys");
    for (key, value) in keys_of(contents).into_iter().take(20) {
        let Ok(key) = String::from_utf8(key) else { continue };
        let Some((outcome, found)) = command(&["get", out], &["--".to_owned(), key.clone()], false) else {
            panic!("{key:?} cannot be asked for");
        };
        assert_eq!(outcome, Outcome::Yes, "{key:?} of {options:?}");
        assert_eq!(found, [&value[..], b"\n"].concat(), "{key:?}");
    }
    Ok(())
}

/// The last value of each key of a text.
fn keys_of(text: &[u8]) -> std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
    // A byte order mark at the beginning belongs to no key.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n');
    let entry = |line: &[u8]| {
        let at = line.iter().position(|&byte| byte == b'\t').unwrap_or(line.len());
        (line[..at].to_vec(), line.get(at + 1..).unwrap_or_default().to_vec())
    };
    let is_last_cut = |line: &&[u8]| !line.is_empty();
    lines.filter(is_last_cut).map(entry).collect()
}
