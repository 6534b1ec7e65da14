//! `build --overwrite` once deleted the tables of a RocksDB database, which are numbered like this program's, before
//! any new table was written; and `filter build --out /dev/full --overwrite` replaced the device by a file.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Place, names, program, run, say_skipped};

/// Checks that builds into `out`, with and without `--overwrite`, are refused with these words, and that the message
/// does not advise `--overwrite`, which would not help.
fn build_is_refused(out: &str, words: &str) {
    for options in [&[][..], &["--overwrite"]] {
        let refused = run(&[&["build", "--generate", "10", "--out", out], options].concat()).expect_code(2);
        assert!(refused.stderr.contains(words) && !refused.stderr.contains("--overwrite"), "{}", refused.stderr);
    }
}

/// Returns all files of a directory with their bytes.
fn contents(directory: &str) -> Vec<(String, Vec<u8>)> {
    names(directory)
        .into_iter()
        .map(|name| (name.clone(), fs::read(Path::new(directory).join(name)).unwrap()))
        .collect()
}

// promise: whole-tables
#[test]
fn tables_of_other_programs_are_never_replaced() {
    let place = Place::new();
    let out = place.build(10, &[]);
    let others: [(&str, Vec<u8>); 6] = [
        ("000010.sst", fs::read("../interop/fixtures/rocksdb/11.8-bloom-7-keys.sst").unwrap()),
        ("000005.sst", fs::read("../interop/fixtures/leveldb/6000-keys.ldb").unwrap()),
        ("000002.sst", b"a text\n".to_vec()),
        ("000002.sst", Vec::new()),
        ("000002.sst", fs::read(format!("{out}/000001.sst")).unwrap()[1..700].to_vec()),
        ("000001.sst.filter", fs::read("../../fixtures/v1/bloom-1000-keys-10-bits.block").unwrap()),
    ];
    for (name, bytes) in others {
        let path = place.write(&format!("tables/{name}"), bytes);
        let before = contents(&out);
        build_is_refused(&out, &format!("{name} was not written by this command"));
        assert_eq!(contents(&out), before, "{name}");
        fs::remove_file(path).unwrap();
    }
    run(&["build", "--generate", "10", "--out", &out, "--overwrite"]).expect_code(0);
}

// promise: whole-tables
#[test]
fn nothing_is_built_in_the_directory_of_a_database() {
    for sign in ["CURRENT", "MANIFEST-000005"] {
        let place = Place::new();
        let out = place.build(10, &[]);
        place.write(&format!("tables/{sign}"), "MANIFEST-000005\n");
        let before = contents(&out);
        build_is_refused(&out, &format!("is the directory of a database (it contains {sign}"));
        assert_eq!(contents(&out), before);
        fs::remove_file(place.path("tables/000001.sst")).unwrap();
        build_is_refused(&out, &format!("is the directory of a database (it contains {sign}"));
        assert_eq!(names(&out), [sign]);
    }
}

type Make = fn(&Path);

#[test]
fn what_has_a_tables_name_and_is_no_file_is_not_replaced() {
    let make: [(&str, Make); 3] = [
        ("a symbolic link", |path| symlink("../other", path).unwrap()),
        ("a directory", |path| fs::create_dir(path).unwrap()),
        ("a device, a pipe or a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ];
    for (kind, make) in make {
        for name in ["000001.sst", "000001.sst.filter", "000007.sst.filter"] {
            let place = Place::new();
            let out = place.build(10, &[]);
            fs::rename(place.path("tables/000001.sst"), place.path("other")).unwrap();
            make(&place.path("tables").join(name));
            build_is_refused(&out, &format!("{name}: expected a regular file or none, got {kind}"));
            assert_eq!(names(&out), [name]);
            assert!(place.path("other").exists());
        }
    }
}

#[test]
fn old_tables_go_when_all_new_ones_are_complete_and_leave_nothing_beside_them() {
    let place = Place::new();
    let out = place.build(4_000, &["--files", "5"]);
    run(&["rebuild", &out]).expect_code(0);
    place.write("tables/.sstfilter-0aLeft.tmp", "of a killed run");
    fs::create_dir(place.path("tables/.sstfilter-000dir.tmp")).unwrap();
    fs::copy(place.path("tables/000001.sst"), place.path("tables/.sstfilter-000dir.tmp/000001.sst")).unwrap();
    let built = run(&["build", "--generate", "700", "--files", "3", "--out", &out, "--overwrite", "--json"]);
    let built = built.expect_code(0).json();
    assert_eq!((&built["leftovers_removed"], &built["tables"]), (&2.into(), &3.into()));
    assert_eq!(names(&out), ["000001.sst", "000002.sst", "000003.sst"]);
    assert_eq!(run(&["verify", &out, "--json"]).expect_code(0).json()["entries"], 700);
}

#[test]
fn the_new_tables_of_a_build_that_was_killed_are_not_removed_unasked() {
    let place = Place::new();
    let out = place.build(10, &[]);
    fs::create_dir(place.path("tables/.sstfilter-000new.tmp")).unwrap();
    fs::rename(place.path("tables/000001.sst"), place.path("tables/.sstfilter-000new.tmp/000001.sst")).unwrap();
    let told = run(&["build", "--generate", "10", "--out", &out]).expect_code(2).stderr;
    assert!(told.contains(".sstfilter-000new.tmp contains tables of a build that was killed"), "{told}");
    assert!(place.path("tables/.sstfilter-000new.tmp/000001.sst").exists());
    place.write("tables/.sstfilter-000new.tmp/notes.txt", "mine");
    run(&["build", "--generate", "10", "--out", &out, "--overwrite"]).expect_error("notes.txt was not written by");
    assert!(place.path("tables/.sstfilter-000new.tmp/notes.txt").exists());
}

// promise: whole-tables
#[test]
fn what_only_looks_like_a_temporary_file_is_not_removed() {
    let place = Place::new();
    let out = place.build(10, &[]);
    place.write("tables/.sstfilter-notes.tmp", "mine");
    symlink(place.path("keys.tsv"), place.path("tables/.sstfilter-0alink.tmp")).unwrap();
    let build = ["build", "--generate", "10", "--out", &out, "--overwrite"];
    run(&build).expect_error("is not a temporary file of this command");
    assert!(place.path("tables/.sstfilter-0alink.tmp").is_symlink());
    fs::remove_file(place.path("tables/.sstfilter-0alink.tmp")).unwrap();
    run(&build).expect_code(0);
    assert_eq!(fs::read_to_string(place.path("tables/.sstfilter-notes.tmp")).unwrap(), "mine");
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

// promise: whole-tables
#[test]
fn a_file_that_ends_with_a_magic_number_is_neither_replaced_nor_called_damaged() {
    let place = Place::new();
    let (tables, keys) = (place.build(10, &[]), place.write("keys", "a\nb\n"));
    let [table, map] = [format!("{tables}/000001.sst"), place.text("a.map")];
    run(&["map", "build", "--key-lists", &keys, "--out", &map]).expect_code(0);
    for (number, bytes) in look_alikes().into_iter().enumerate() {
        let out = &place.write(&format!("tables/text-{number}"), &bytes);
        let writing: [&[&str]; 6] = [
            &["map", "build", "--key-lists", &keys],
            &["map", "build", "--key-lists", out],
            &["map", "merge", &map],
            &["filter", "--keys", &keys],
            &["filter", "--keys", out],
            &["filter", &table],
        ];
        for command in writing {
            run(&[command, &["--out", out, "--overwrite"]].concat()).expect_error("was not written by this command");
        }
        assert!(fs::read(out).unwrap() == bytes, "{out}");
        let told = run(&["verify", out]).expect_code(1).stdout;
        assert!(told.contains("neither a table nor a filter block"), "{told}");
    }
    for command in ["verify", "inspect", "report"] {
        run(&[command, &tables]).expect_code(0);
    }
}

/// A flipped bit leaves a file recognizable, whatever its name.
#[test]
fn own_files_are_replaced_and_damaged_ones_are_called_damaged() {
    let place = Place::new();
    let keys = place.write("keys", "a\nb\n");
    let out = place.text("block");
    let build = || run(&["filter", "--keys", &keys, "--out", &out, "--overwrite"]);
    build().expect_code(0);
    let block = fs::read(&out).unwrap();
    for bit in (8 * (block.len() - 32)..8 * block.len()).filter(|bit| ![26, 27].contains(&(bit / 8 + 32 - block.len())))
    {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&out, damaged).unwrap();
        let told = run(&["verify", &out]).expect_code(1).stdout;
        assert!(!told.contains("neither a table"), "bit {bit}: {told}");
    }
    build().expect_code(0);
    assert!(fs::read(&out).unwrap() == block);
}

// promise: whole-tables
#[test]
fn no_command_replaces_what_it_reads() {
    let place = Place::new();
    let keys = place.write("keys", "a\n");
    let map = place.text("a.map");
    run(&["map", "build", "--key-lists", &keys, "--out", &map]).expect_code(0);
    let block = place.text("block");
    run(&["filter", "--keys", &keys, "--out", &block]).expect_code(0);
    let linked = place.text("linked.map");
    symlink(&map, &linked).unwrap();
    let writing: [(&[&str], &str); 4] = [
        (&["map", "merge", &map], &map),
        (&["map", "merge", &linked], &map),
        (&["map", "build", "--key-lists", &map], &map),
        (&["filter", "--keys", &block], &block),
    ];
    for (command, out) in writing {
        let before = fs::read(out).unwrap();
        run(&[command, &["--out", out, "--overwrite"]].concat()).expect_error("");
        assert!(fs::read(out).unwrap() == before, "{command:?}");
    }
    run(&["map", "merge", &map, "--out", &map, "--overwrite"]).expect_error("another file than those that are read");
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

type IsThere = fn(&fs::FileType) -> bool;

/// Creates targets that are not regular files, each with a check that it still exists.
fn no_files(place: &Place) -> Vec<(PathBuf, IsThere)> {
    place.write("target", "mine");
    symlink(place.path("target"), place.path("link")).unwrap();
    symlink(place.path("nowhere"), place.path("dangling")).unwrap();
    fs::create_dir(place.path("directory")).unwrap();
    drop(UnixListener::bind(place.path("socket")).unwrap());
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let mut found: Vec<(PathBuf, IsThere)> = vec![
        (place.path("link"), fs::FileType::is_symlink),
        (place.path("dangling"), fs::FileType::is_symlink),
        (place.path("directory"), fs::FileType::is_dir),
        (place.path("socket"), |kind| kind.is_socket()),
        (place.path("pipe"), |kind| kind.is_fifo()),
    ];
    // Not a device of /dev: if this test failed, every process on the machine would lose it.
    let made = Command::new("mknod").arg(place.path("device")).args(["c", "1", "7"]).output();
    if made.is_ok_and(|output| output.status.success()) {
        found.push((place.path("device"), |kind| kind.is_char_device()));
    } else {
        say_skipped("a device in place of a file", "mknod is not allowed here");
    }
    found
}

// promise: whole-tables
#[test]
fn what_is_no_regular_file_is_not_overwritten() {
    let place = Place::new();
    let table = format!("{}/000001.sst", place.build(100, &[]));
    let keys = place.text("keys.tsv");
    for (path, is_there) in no_files(&place) {
        let out = path.to_str().unwrap();
        for making in [&["filter", "--keys", &keys][..], &["filter", &table]] {
            for options in [&["--out", out][..], &["--out", out, "--overwrite"]] {
                let refused = run(&[making, options].concat()).expect_code(2).stderr;
                let words = format!("{out}: expected a regular file or none, got ");
                assert!(refused.contains(&words) && !refused.contains("--overwrite"), "{refused}");
            }
        }
        assert!(is_there(&fs::symlink_metadata(&path).unwrap().file_type()), "{out} was replaced");
    }
    assert_eq!(fs::read_to_string(place.path("target")).unwrap(), "mine");
    assert!(!place.path("nowhere").exists());
    let extract = |out: &str| run(&["filter", &table, "--out", out, "--overwrite"]);
    (0..2).for_each(|_| _ = extract(&place.text("new")).expect_code(0));
    run(&["verify", &place.text("new")]).expect_code(0);
    // Neither a user's file nor the input itself may be replaced.
    for (out, before) in [place.text("target"), table.clone()].map(|out| (out.clone(), fs::read(out).unwrap())) {
        extract(&out).expect_error("was not written by this command");
        assert_eq!(fs::read(out).unwrap(), before);
    }
}

#[test]
fn rebuild_replaces_sidecars_and_nothing_else() {
    let place = Place::new();
    let out = place.build(100, &[]);
    let (table, sidecar) = (format!("{out}/000001.sst"), place.path("tables/000001.sst.filter"));
    fs::write(&sidecar, "a text of mine\n").unwrap();
    let refused = run(&["rebuild", &table]).expect_code(2).stdout;
    assert!(refused.contains("000001.sst.filter was not written by this command"), "{refused}");
    assert_eq!(fs::read_to_string(&sidecar).unwrap(), "a text of mine\n");
    fs::remove_file(&sidecar).unwrap();
    run(&["rebuild", &table]).expect_code(0);
    run(&["rebuild", &table]).expect_code(0);

    fs::rename(&sidecar, place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), &sidecar).unwrap();
    let refused = run(&["rebuild", &table]).expect_code(2).stdout;
    assert!(refused.contains("got a symbolic link") && sidecar.is_symlink(), "{refused}");
}

#[test]
fn manual_pages_replace_manual_pages_and_nothing_else() {
    let place = Place::new();
    let out = place.text("man1");
    run(&["completions", "man", "--out", &out]).expect_code(0);
    run(&["completions", "man", "--out", &out]).expect_code(0);
    let pages = names(&out);
    fs::write(place.path("man1/sstfilter-verify.1"), ".TH of another\n").unwrap();
    fs::remove_file(place.path("man1/sstfilter-build.1")).unwrap();
    run(&["completions", "man", "--out", &out]).expect_error("sstfilter-verify.1 was not written by this command");
    assert_eq!(names(&out).len(), pages.len() - 1, "all pages, or none");
    assert_eq!(fs::read_to_string(place.path("man1/sstfilter-verify.1")).unwrap(), ".TH of another\n");
}

/// A limit on the length of files stands for a full disk.
// promise: whole-tables
#[test]
fn a_build_that_cannot_be_completed_leaves_the_old_tables_as_they_were() {
    let place = Place::new();
    let out = place.build(3_000, &["--files", "8"]);
    run(&["rebuild", &out]).expect_code(0);
    let before = contents(&out);
    let script = "trap '' XFSZ; ulimit -f 256; exec \"$@\"";
    let large = ["build", "--generate", "30000", "--table-bytes", "1M", "--out", &out, "--overwrite"];
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program().get_program()).args(large);
    let told = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(told.contains("cannot write table 1; the old tables in ") && told.contains("are unchanged"), "{told}");
    assert!(contents(&out) == before, "{:?}", names(&out));
}
