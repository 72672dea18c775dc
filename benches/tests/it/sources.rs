//! The files of the repository, as the rules look at them. Reads only; knows no rule.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One text file of the repository.
pub(crate) struct Source {
    /// Its path from the repository's root, with `/`.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
}

impl Source {
    /// Its lines without their `//` comments, each with its number. A `//` inside a string cuts that line short, which
    /// can hide something from a rule but accuses nobody.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = |line: &'_ str| line.find("//").unwrap_or(line.len());
        self.text.lines().enumerate().map(move |(index, line)| (index + 1, &line[..code(line)]))
    }

    /// Whether `word` stands in a line of code as a whole identifier; the number of the first such line.
    pub(crate) fn code_line_with(&self, word: &str) -> Option<usize> {
        self.code().find(|(_, line)| words(line).any(|found| found == word)).map(|(number, _)| number)
    }
}

/// The identifiers of a line.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_').filter(|word| !word.is_empty())
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate has a folder around it").to_path_buf()
}

/// Every file of the repository whose name ends in one of `endings`, except what git ignores by name.
pub(crate) fn files(endings: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root(), "", endings, &mut found);
    assert!(!found.is_empty(), "the repository has files that end in {endings:?}");
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

fn collect(directory: &Path, prefix: &str, endings: &[&str], found: &mut Vec<Source>) {
    const NOT_OURS: [&str; 8] =
        ["target", ".git", "node_modules", "artifacts", "__pycache__", "ringmq-data", "loadgen-data", "runs"];
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                collect(&entry.path(), &format!("{path}/"), endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(Source { path, text: fs::read_to_string(entry.path()).unwrap() });
        }
    }
}

/// Fails with every complaint, one a line.
#[track_caller]
pub(crate) fn none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}
