//! The command line: its help, completions and manual pages. The failure guarded against: a command line that grows
//! until nobody finds a command or an option.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::common::{Place, names, run, say_skipped};

const GLOBAL: [&str; 8] = [
    "--json",
    "--all",
    "--quiet",
    "--secret-seed-file",
    "--comparator",
    "--unchecked-filters",
    "--range-prefix",
    "--keys-format",
];

/// Returns the commands in the help of a command, and its options.
fn parts(command: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let help = run(&[command, &["--help"]].concat()).expect_code(0).stdout;
    let in_section = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Descriptions of several lines are indented further.
    let named = in_section.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let commands = named.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").map(str::to_owned);
    // Descriptions are indented further.
    let options = help.lines().filter_map(|line| line.strip_prefix("      --")?.split([' ', '[']).next());
    (commands.collect(), options.map(|name| format!("--{name}")).collect())
}

#[test]
fn commands_and_options_are_few_and_global_options_are_in_the_help_of_the_program_alone() {
    let (commands, globals) = parts(&[]);
    assert_eq!(globals, GLOBAL.map(str::to_owned).into());
    let (mut leaves, mut options) = (Vec::new(), BTreeSet::new());
    for command in &commands {
        let (inner, own) = parts(&[command]);
        let names = inner.iter().map(|inner| vec![command.as_str(), inner.as_str()]).collect::<Vec<_>>();
        let names = if names.is_empty() { vec![vec![command.as_str()]] } else { names };
        options.extend(own);
        for name in names {
            options.extend(parts(&name).1);
            let help = run(&[&name[..], &["--help"]].concat()).stdout;
            assert!(help.contains("exit codes: sstfilter --help"), "{name:?}");
            leaves.push(name.join(" "));
        }
    }
    assert!(leaves.len() <= 16, "{}: {leaves:?}", leaves.len());
    assert!(options.len() <= 45, "{}: {options:?}", options.len());
    let global: Vec<_> = GLOBAL.iter().filter(|global| options.contains(**global)).collect();
    assert!(global.is_empty(), "{global:?}");
}

#[test]
fn quiet_output_has_answers_and_findings_and_no_notes() {
    let database = "../interop/fixtures/databases/running/db";
    let place = Place::new();
    let map = place.text("a.map");
    for (arguments, words) in [
        (&["probe", "--key", "user:00000016", database][..], "000012.sst  default            1  read"),
        (&["probe", "--key", "user:00000016", "--key", "b", database], "\n  b:\n    candidates  0\n"),
        (&["verify", database], "2 sound, 0 damaged"),
        (&["map", "build", database, "--out", &map], ""),
    ] {
        let quiet = run(&[arguments, &["--quiet"]].concat()).expect_code(0);
        let text = quiet.stdout + &quiet.stderr;
        assert!(text.contains(words) && !text.contains("not counted") && !text.contains("the engine"), "{text}");
        std::fs::remove_file(&map).ok();
        let whole = run(arguments).expect_code(0).stdout;
        assert!(whole.contains("so not counted") && whole.contains("files of the engine"), "{whole}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let place = Place::new();
    let (commands, _) = parts(&[]);
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).expect_code(0).stdout;
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    let script = place.write("completions.bash", run(&["completions", "bash"]).stdout);
    match Command::new("bash").args(["-n", &script]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => say_skipped("bash reads its completions", error),
    }
    assert!(run(&["completions", "man"]).expect_code(0).stdout.contains(".TH sstfilter 1"));
    run(&["completions", "man", "--out", &place.text("man1")]).expect_code(0);
    let pages = names(place.path("man1"));
    for command in &commands {
        assert!(pages.contains(&format!("sstfilter-{command}.1")), "{command}: {pages:?}");
    }
    assert!(pages.contains(&"sstfilter-map-build.1".to_owned()), "{pages:?}");
    let page = fs::read_to_string(place.path("man1/sstfilter-build.1")).unwrap();
    assert!(page.contains("memory"), "{page}");
}
