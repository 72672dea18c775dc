//! The disk's floor.

use std::process::Command;

use crate::null_server::text_of;

#[test]
fn a_toy_run_measures_both_methods_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sync_floor"))
        .args(["--toy", "--rounds", "2", "--groups", "1,16", "--data"])
        .arg(directory.path())
        .output()
        .unwrap();
    let text = text_of(&output.stdout);
    assert!(output.status.success(), "{text}{}", text_of(&output.stderr));
    let begins: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(begins, [["dsync", "1"], ["dsync", "16"], ["fdatasync", "1"], ["fdatasync", "16"]]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_one_clear_message() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_sync_floor")).args(["--data", "/nowhere"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text_of(&output.stderr).starts_with("sync_floor: cannot write to /nowhere"));
}
