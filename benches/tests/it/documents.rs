//! Rules about what people read: what a document names must exist.

use crate::sources::{files, none, root};

#[test]
fn links_between_documents_lead_somewhere() {
    let mut complaints = Vec::new();
    for document in files(&[".md"]) {
        let folder = document.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in document.text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let is_elsewhere = target.is_empty() || target.contains("://") || target.contains(' ');
            if !is_elsewhere && !root().join(folder).join(target).exists() {
                complaints.push(format!("{}: {target}", document.path));
            }
        }
    }
    none("links that lead nowhere", &complaints);
}

#[test]
fn files_that_documents_name_exist() {
    const FOLDERS: [&str; 8] =
        ["protocol/", "engine/", "server/", "loadgen/", "benches/", "tuning/", "docs/", ".ci/"];
    let mut complaints = Vec::new();
    for document in files(&[".md"]) {
        // Every second piece stands between backticks.
        for name in document.text.split('`').skip(1).step_by(2) {
            let is_path = FOLDERS.iter().any(|folder| name.starts_with(folder))
                && name.chars().all(|sign| sign.is_ascii_alphanumeric() || "/._-".contains(sign));
            let beside = root().join(&document.path).with_file_name(name);
            if is_path && !root().join(name).exists() && !beside.exists() {
                complaints.push(format!("{}: {name}", document.path));
            }
        }
    }
    none("named files that don't exist", &complaints);
}
