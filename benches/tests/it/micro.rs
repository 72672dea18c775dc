//! The micro-benchmarks.

use std::process::Command;

use crate::null_server::text_of;

/// Whatever this machine's speed: the path of a send allocates nothing once it is warm, and every run does the same.
#[test]
fn a_toy_run_allocates_nothing_on_the_path_of_a_send_and_is_repeatable() {
    let run = || {
        let output = Command::new(env!("CARGO_BIN_EXE_benches")).arg("--toy").output().unwrap();
        assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let (first, second) = (run(), run());
    let lines = |text: &str| -> Vec<(String, String)> {
        let figures = text.lines().skip(1).take_while(|line| !line.is_empty());
        figures
            .map(|line| (line[..18].trim().to_owned(), line.split(' ').next_back().unwrap().to_owned()))
            .collect()
    };
    assert_eq!(lines(&first), lines(&second), "checksums of the same work are equal");
    let names: Vec<String> = lines(&first).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "decode json",
        "decode rocketmq",
        "record",
        "append",
        "answer json",
        "answer rocketmq",
        "ack",
        "dispatch",
        "pull all",
        "pull by tag",
        "journey json",
        "journey rocketmq",
    ];
    assert_eq!(names, expected);
    assert!(first.contains("decode + append + dispatch is"), "the budget is judged: {first}");
}

#[test]
fn a_filter_that_fits_nothing_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_benches")).arg("nothing").output().unwrap();
    assert!(!output.status.success());
    assert!(text_of(&output.stderr).contains("--list"), "{}", text_of(&output.stderr));
}
