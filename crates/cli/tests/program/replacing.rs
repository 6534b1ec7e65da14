//! `build --overwrite` once deleted the tables of a RocksDB database, which are numbered like this program's, before
//! any new table was written; and `filter --out /dev/full --overwrite` replaced the device by a file.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::common::{Place, names, run, say_skipped};

/// Returns all files of a directory with their bytes; of what is no file, there are none.
fn contents(directory: &str) -> Vec<(String, Vec<u8>)> {
    let bytes = |name: &String| {
        let path = Path::new(directory).join(name);
        let is_file = fs::symlink_metadata(&path).unwrap().is_file();
        if is_file { fs::read(path).unwrap() } else { Vec::new() }
    };
    names(directory).into_iter().map(|name| (name.clone(), bytes(&name))).collect()
}

fn copy(from: impl AsRef<Path>, to: &Path) {
    fs::copy(from, to).unwrap();
}

type Make = fn(&Path);

/// What is no regular file, and how a message calls it.
const IRREGULAR: [(&str, Make); 6] = [
    ("a symbolic link", |path| symlink("../keys.tsv", path).unwrap()),
    ("a symbolic link", |path| symlink("nowhere", path).unwrap()),
    ("a directory", |path| fs::create_dir(path).unwrap()),
    ("a device, a pipe or a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("a device, a pipe or a socket", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("a device, a pipe or a socket", |path| {
        // Not a device of /dev: if this test failed, every process on the machine would lose it.
        let made = Command::new("mknod").arg(path).args(["c", "1", "7"]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            say_skipped("a device in place of a file", "mknod is not allowed here");
            drop(UnixListener::bind(path).unwrap());
        }
    }),
];

// promise: whole-tables
#[test]
fn a_build_replaces_nothing_that_it_did_not_write() {
    let other = "was not written by this command";
    let of_database = "is the directory of a database (it contains ";
    let obstacles: [(&str, Make, &str); 11] = [
        ("000010.sst", |path| copy("../interop/fixtures/rocksdb/11.8-bloom-7-keys.sst", path), other),
        ("000005.sst", |path| copy("../interop/fixtures/leveldb/6000-keys.ldb", path), other),
        ("000002.sst", |path| fs::write(path, "a text\n").unwrap(), other),
        ("000002.sst", |path| fs::write(path, "").unwrap(), other),
        (
            "000002.sst",
            |path| fs::write(path, &fs::read(path.with_file_name("000001.sst")).unwrap()[1..700]).unwrap(),
            other,
        ),
        ("1.sst", |path| copy(path.with_file_name("000001.sst"), path), other),
        ("foreign.sst", |path| copy(path.with_file_name("000001.sst"), path), other),
        ("000001.sst.filter", |path| fs::write(path, "a text\n").unwrap(), other),
        (
            ".sstfilter-0alink.tmp",
            |path| symlink("../keys.tsv", path).unwrap(),
            "is not a temporary file of this command",
        ),
        ("CURRENT", |path| fs::write(path, "MANIFEST-000005\n").unwrap(), of_database),
        ("MANIFEST-000005", |path| fs::write(path, "").unwrap(), of_database),
    ];
    let irregular = ["000001.sst", "000001.sst.filter", "000007.sst.filter"].into_iter().flat_map(|name| {
        IRREGULAR.map(|(kind, make)| (name, make, format!("{name}: expected a regular file or none, got {kind}")))
    });
    let obstacles = obstacles.into_iter().map(|(name, make, words)| (name, make, words.to_owned()));
    for (name, make, words) in obstacles.chain(irregular) {
        let place = Place::new();
        let out = place.build(100, &[]);
        if name == "000001.sst" {
            fs::remove_file(place.path("tables/000001.sst")).unwrap();
        }
        make(&place.path("tables").join(name));
        let before = contents(&out);
        for options in [&[][..], &["--overwrite"]] {
            let refused = run(&[&["build", "--generate", "10", "--out", &out], options].concat()).expect_code(2).stderr;
            let is_told = refused.contains(name) && refused.contains(&words) && !refused.contains("with --overwrite");
            // Without the option, the tables themselves are in the way of a temporary file.
            assert!(is_told || (options.is_empty() && name.starts_with(".sstfilter")), "{name}: {refused}");
            assert!(contents(&out) == before, "{name}");
        }
    }
}

#[test]
fn old_tables_go_when_all_new_ones_are_complete_and_leave_nothing_beside_them() {
    let place = Place::new();
    let out = place.build(4_000, &["--files", "5"]);
    run(&["rebuild", &out]).expect_code(0);
    place.write("tables/.sstfilter-0aLeft.tmp", "of a killed run");
    place.write("tables/.sstfilter-notes.tmp", "mine");
    let aside = place.path("tables/.sstfilter-000dir.tmp");
    fs::create_dir(&aside).unwrap();
    fs::copy(place.path("tables/000001.sst"), aside.join("000001.sst")).unwrap();
    fs::write(aside.join("notes.txt"), "mine").unwrap();
    let build = ["build", "--generate", "700", "--files", "3", "--out", &out, "--overwrite", "--json"];
    run(&build).expect_error("notes.txt was not written by");
    fs::remove_file(aside.join("notes.txt")).unwrap();
    fs::copy(place.path("tables/000001.sst"), aside.join("000001.sst")).unwrap();
    run(&build[..7]).expect_error("already contains 5 tables");
    let built = run(&build).expect_code(0).json();
    assert_eq!(built["tables"], 3);
    assert_eq!(names(&out), [".sstfilter-notes.tmp", "000001.sst", "000002.sst", "000003.sst"]);
    run(&["verify", &out]).expect_code(0);
    // The only tables are those of the build that was killed.
    fs::create_dir(&aside).unwrap();
    for name in names(&out).into_iter().filter(|name| !name.starts_with('.')) {
        fs::rename(place.path("tables").join(&name), aside.join(name)).unwrap();
    }
    run(&["build", "--generate", "10", "--out", &out])
        .expect_error(".sstfilter-000dir.tmp contains tables of a build that was killed");
    assert_eq!(names(&aside).len(), 3);
}

/// Texts, and a file of chance, that end like files of this program by their magic number of two bytes alone.
fn look_alikes() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = ["SMITH", "SMALL", "SLATE", "SPAIN", "SPORT", "SFORZA", "PLASMIDS", "1SFax!", "ASPIC!"]
        .into_iter()
        .map(|last| format!("ADAMS\nBROWN\nCLARK\nDAVIS\nEVANS\nGREEN\nJONES\n{last}\n").into_bytes())
        .collect();
    for magic in ["SM", "SL", "SF", "SP"] {
        for version in [1, 0x11, 0x41] {
            let noise = (0..2_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]);
            let end = [&[version], magic.as_bytes(), b"\n\n\n\n"].concat();
            all.push(noise.chain(end).collect());
        }
    }
    all
}

/// The commands that write to `--out`, from these files. They replace only files of their own.
fn writing<'a>(table: &'a str, keys: &'a str, map: &'a str) -> [Vec<&'a str>; 4] {
    [
        vec!["map", "build", "--key-lists", keys],
        vec!["map", "merge", map],
        vec!["filter", "--keys", keys],
        vec!["filter", table],
    ]
}

// promise: whole-tables
#[test]
fn no_command_replaces_what_it_reads_or_did_not_write() {
    let place = Place::new();
    let (tables, keys) = (place.build(10, &[]), place.text("keys.tsv"));
    let [table, map] = [format!("{tables}/000001.sst"), place.text("a.map")];
    run(&["map", "build", "--key-lists", &keys, "--out", &map]).expect_code(0);
    let texts = look_alikes().into_iter().enumerate();
    let texts: Vec<_> = texts.map(|(number, bytes)| place.write(&format!("tables/text-{number}"), bytes)).collect();
    let outs = texts.iter().map(|out| (out.clone(), "was not written by this command".to_owned()));
    let irregular = IRREGULAR.iter().enumerate().map(|(number, (kind, make))| {
        make(&place.path(&format!("tables/{number}")));
        let out = place.text(&format!("tables/{number}"));
        (out.clone(), format!("{out}: expected a regular file or none, got {kind}"))
    });
    let inputs = [&table, &keys].map(|out| (out.clone(), "was not written by this command".to_owned()));
    let outs: Vec<_> = outs.chain(irregular).chain(inputs).collect();
    let before = contents(&tables);
    for (out, words) in &outs {
        for command in writing(&table, &keys, &map) {
            let refused = run(&[&command[..], &["--out", out, "--overwrite"]].concat()).expect_code(2).stderr;
            assert!(refused.contains(words) && !refused.contains("with --overwrite"), "{command:?} {out}: {refused}");
        }
    }
    assert!(contents(&tables) == before);
    let linked = place.text("linked.map");
    symlink(&map, &linked).unwrap();
    for (input, out) in [(&map, &map), (&linked, &map), (&map, &place.text("b.map"))] {
        let merged = run(&["map", "merge", input, "--out", out, "--overwrite"]);
        if out == &map {
            merged.expect_error("another file than those that are read");
        } else {
            drop(merged.expect_code(0));
        }
    }
    for command in writing(&table, &keys, &map) {
        let out = place.text("new");
        run(&[&command[..], &["--out", &out]].concat()).expect_code(0);
        run(&[&command[..], &["--out", &out]].concat()).expect_error("already exists: choose another --out");
        run(&[&command[..], &["--out", &out, "--overwrite"]].concat()).expect_code(0);
        fs::remove_file(out).unwrap();
    }
    for text in &texts {
        let told = run(&["verify", text]).expect_code(1).stdout;
        assert!(told.contains("neither a table nor a filter block"), "{told}");
    }
    for number in 0..IRREGULAR.len() {
        let path = place.path(&format!("tables/{number}"));
        drop(fs::remove_file(&path).or_else(|_| fs::remove_dir(path)));
    }
    for command in ["verify", "report"] {
        run(&[command, &tables]).expect_code(0);
    }
}

// promise: whole-tables
#[test]
fn temporary_files_of_killed_runs_are_removed_unless_a_process_writes_them() {
    let place = Place::new();
    let tables = place.build(10, &[]);
    let (keys, table) = (place.write("keys", "a\n"), format!("{tables}/000001.sst"));
    let [out, page, manuals] = ["out", "page", "man"].map(|name| place.text(&format!("tables/{name}")));
    let writing: [(&str, &[&str]); 6] = [
        (&tables, &["map", "build", "--key-lists", &keys, "--out", &out]),
        (&tables, &["filter", "--keys", &keys, "--out", &place.text("tables/block.filter")]),
        (&tables, &["rebuild", &table]),
        (&page, &["report", &tables, "--out", &page]),
        (&manuals, &["completions", "man", "--out", &manuals]),
        (&place.text("built"), &["build", "--generate", "10", "--out", &place.text("built")]),
    ];
    for (directory, command) in writing {
        fs::create_dir_all(directory).unwrap();
        let at = |name: &str| Path::new(directory).join(name);
        let [left, in_use, link, mine] =
            [".sstfilter-aLeft0.tmp", ".sstfilter-inUse0.tmp", ".sstfilter-aLink0.tmp", ".sstfilter-mine.tmp"].map(at);
        for path in [&left, &in_use, &mine] {
            fs::write(path, "unfinished").unwrap();
        }
        let lock = fs::File::open(&in_use).unwrap();
        lock.lock().unwrap();
        if command[0] != "build" {
            symlink(&mine, &link).unwrap();
        }
        run(command).expect_code(0);
        assert!(!left.exists() && in_use.exists() && mine.exists(), "{command:?}");
        assert_eq!(link.is_symlink(), command[0] != "build");
        drop(lock);
        [in_use, link, mine].iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

// promise: whole-tables
#[test]
fn sidecars_and_manual_pages_replace_their_like_and_nothing_else() {
    let place = Place::new();
    let (out, pages) = (place.build(100, &[]), place.text("man1"));
    let (table, sidecar) = (format!("{out}/000001.sst"), place.path("tables/000001.sst.filter"));
    let page = place.path("man1/sstfilter-verify.1");
    let commands: [(&[&str], &Path); 2] =
        [(&["rebuild", &table], &sidecar), (&["completions", "man", "--out", &pages], &page)];
    for (command, written) in commands {
        run(command).expect_code(0);
        run(command).expect_code(0);
        let pages_before = names(written.parent().unwrap());
        fs::write(written, "a text of mine\n").unwrap();
        let refused = run(command).expect_code(2);
        let refused = refused.stdout + &refused.stderr;
        let name = written.file_name().unwrap().to_str().unwrap();
        assert!(refused.contains(&format!("{name} was not written by this command")), "{refused}");
        assert_eq!(fs::read_to_string(written).unwrap(), "a text of mine\n");
        assert_eq!(names(written.parent().unwrap()), pages_before);
    }
}
