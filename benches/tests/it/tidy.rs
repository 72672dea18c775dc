//! Rules about how the sources look: where unsafe code may stand, what every module says first, what must not be left
//! behind.

use crate::sources::{Source, files, none, words};

/// Longest file, in lines. Files listed in `LONGER` were longer when the rule came; they may only shrink.
const LINES_MAX: usize = 800;
const LONGER: [(&str, usize); 0] = [];

fn rust() -> Vec<Source> {
    files(&[".rs"])
}

#[test]
fn unsafe_code_stands_in_the_runtime_only() {
    let complaints: Vec<String> = rust()
        .iter()
        .filter(|source| !source.path.starts_with("engine/src/io/"))
        .filter_map(|source| {
            Some(format!("{}:{}", source.path, source.code_line_with(&["un", "safe"].concat())?))
        })
        .collect();
    none("only engine/src/io may do this", &complaints);
}

#[test]
fn every_other_crate_forbids_unsafe_code() {
    let complaints: Vec<String> = rust()
        .iter()
        .filter(|source| {
            let path = source.path.as_str();
            let is_root =
                path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") || path.contains("src/bin/");
            is_root && !path.starts_with("engine/") && path.matches('/').count() <= 3
        })
        .filter(|source| !source.text.contains("#![forbid(unsafe_code)]"))
        .map(|source| source.path.clone())
        .collect();
    none("roots of crates without #![forbid(unsafe_code)]", &complaints);
}

#[test]
fn glommio_is_named_by_the_ring_runtime_only() {
    let complaints: Vec<String> = rust()
        .iter()
        .filter(|source| !source.path.starts_with("engine/src/io/"))
        .flat_map(|source| {
            source
                .code()
                .filter(|(_, line)| line.contains(&format!("{}::", "glommio")))
                .map(|(number, _)| format!("{}:{number}", source.path))
                .collect::<Vec<_>>()
        })
        .collect();
    none("glommio is used outside engine/src/io", &complaints);
}

#[test]
fn every_module_begins_with_what_it_is_for() {
    let complaints: Vec<String> = rust()
        .iter()
        .filter(|source| {
            let first = source.text.lines().find(|line| !line.starts_with("#!["));
            !first.is_some_and(|line| line.starts_with("//! "))
        })
        .map(|source| source.path.clone())
        .collect();
    none("files that don't begin with //!", &complaints);
}

#[test]
fn modules_lie_beside_their_folders() {
    let complaints: Vec<String> = rust()
        .iter()
        .filter(|source| source.path.ends_with("/mod.rs"))
        .map(|source| source.path.clone())
        .collect();
    none("foo/mod.rs instead of foo.rs", &complaints);
}

#[test]
fn nothing_is_left_for_later() {
    // In two pieces, so that this file isn't accused.
    let marks = [["FIX", "ME"], ["TO", "DO"], ["XX", "X"], ["to", "do"], ["unimple", "mented"], ["db", "g"]]
        .map(|pieces| pieces.concat());
    let is_mark = |word: &str, line: &str| {
        let is_macro = word.chars().all(|sign| sign.is_ascii_lowercase());
        marks.iter().any(|mark| mark == word) && (!is_macro || line.contains(&format!("{word}!")))
    };
    let ignored = ["#[ig", "nore"].concat();
    let complaints: Vec<String> = files(&[".rs", ".sh", ".py", ".md", ".toml", "run"])
        .iter()
        .flat_map(|source| {
            let lines = source.text.lines().enumerate();
            lines
                .filter(|(_, line)| line.contains(&ignored) || words(line).any(|word| is_mark(word, line)))
                .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    none("left for later", &complaints);
}

#[test]
fn files_are_short_enough_to_be_read() {
    let complaints: Vec<String> = rust()
        .iter()
        .filter_map(|source| {
            let allowed =
                LONGER.iter().find(|(path, _)| *path == source.path).map_or(LINES_MAX, |(_, lines)| *lines);
            let lines = source.text.lines().count();
            (lines > allowed).then(|| format!("{} has {lines} lines, not at most {allowed}", source.path))
        })
        .collect();
    none("split these", &complaints);
}

#[test]
fn no_path_of_somebodys_machine_is_written_down() {
    let roots = ["work", "home", "Users"].map(|name| format!("/{name}/"));
    let complaints: Vec<String> =
        files(&[".rs", ".sh", ".py", ".md", ".toml", ".js", ".go", ".java", ".xml", ".conf", "run"])
            .iter()
            .flat_map(|source| {
                let lines = source.text.lines().enumerate();
                lines
                    .filter(|(_, line)| roots.iter().any(|root| names_machine(line, root)))
                    .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
                    .collect::<Vec<_>>()
            })
            .collect();
    none("paths of a machine", &complaints);
}

/// Whether `root` begins a path in `line`; behind another name it doesn't.
fn names_machine(line: &str, root: &str) -> bool {
    line.match_indices(root).any(|(at, _)| {
        !line[..at]
            .ends_with(|before: char| before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '}'))
    })
}

#[test]
fn every_setting_is_read_by_somebody() {
    // The first has one value only; the second is read by a method of the settings.
    const READ_ELSEWHERE: [&str; 2] = ["broker_role", "bind_address"];
    let sources = rust();
    let is_config = |path: &str| path.starts_with("server/src/config/");
    let table = sources.iter().find(|source| source.path == "server/src/config/settings.rs").unwrap();
    let fields: Vec<&str> = table
        .code()
        .filter_map(|(_, line)| line.trim_start().strip_prefix('"')?.split_once("\" "))
        .filter_map(|(_, rest)| Some(rest.split_once(':')?.0))
        .filter(|field| words(field).eq([*field]))
        .collect();
    assert!(fields.len() > 20, "the table of settings is read: {fields:?}");
    let complaints: Vec<String> = fields
        .iter()
        .filter(|field| !READ_ELSEWHERE.contains(*field))
        .filter(|field| {
            let readers = sources.iter().filter(|source| source.path.starts_with("server/src/"));
            let mut readers =
                readers.filter(|source| !is_config(&source.path) && !source.path.contains("tests"));
            !readers.any(|source| source.code_line_with(field).is_some())
        })
        .map(|field| (*field).to_owned())
        .collect();
    none("settings that change nothing", &complaints);
}
