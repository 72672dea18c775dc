//! Rules about who may depend on whom, seen from what cargo resolved.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

use crate::sources::{files, none, root, words};

/// Our crates, and which of ours each may use. The arrows go one way: `loadgen -> server -> engine -> protocol`.
const ARROWS: [(&str, &[&str]); 5] = [
    ("protocol", &[]),
    ("engine", &["protocol"]),
    ("server", &["protocol", "engine"]),
    ("loadgen", &["protocol", "server"]),
    ("benches", &["protocol", "engine", "server"]),
];

/// What a member declares: its name, and each dependency by the name that its sources use.
struct Member {
    name: String,
    dependencies: Vec<(String, bool)>,
}

fn members() -> Vec<Member> {
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let metadata: Value = serde_json::from_slice(&told.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let member = |package: &Value| Member {
        name: text(&package["name"]).unwrap(),
        dependencies: package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|dependency| {
                let name = text(&dependency["rename"]).or_else(|| text(&dependency["name"])).unwrap();
                (name, dependency["kind"] == "dev")
            })
            .collect(),
    };
    metadata["packages"].as_array().unwrap().iter().map(member).collect()
}

#[test]
fn arrows_between_our_crates_go_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let members = members();
    let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, allowed.keys().copied().collect::<Vec<_>>(), "the members of the workspace");
    let complaints: Vec<String> = members
        .iter()
        .flat_map(|member| {
            member.dependencies.iter().map(move |(name, _)| (member.name.as_str(), name.as_str()))
        })
        .filter(|(from, to)| allowed.contains_key(to) && !allowed[from].contains(to))
        .map(|(from, to)| format!("{from} -> {to}"))
        .collect();
    none("arrows that aren't allowed", &complaints);
}

#[test]
fn the_executor_is_known_to_the_engine_only() {
    let complaints: Vec<String> = members()
        .iter()
        .filter(|member| member.name != "engine")
        .filter(|member| member.dependencies.iter().any(|(name, _)| name.starts_with("glommio")))
        .map(|member| member.name.clone())
        .collect();
    none("crates that depend on glommio", &complaints);
}

#[test]
fn every_dependency_is_used() {
    let sources = files(&[".rs"]);
    let mut complaints = Vec::new();
    for member in members() {
        for (name, is_dev) in &member.dependencies {
            let folder = if *is_dev { format!("{}/", member.name) } else { format!("{}/src/", member.name) };
            let word = name.replace('-', "_");
            let is_used = sources
                .iter()
                .filter(|source| source.path.starts_with(&folder))
                .any(|source| source.code().any(|(_, line)| words(line).any(|found| found == word)));
            if !is_used {
                complaints.push(format!("{} doesn't use {name}", member.name));
            }
        }
    }
    none("unused dependencies", &complaints);
}
