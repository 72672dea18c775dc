//! Findings as text for people and as JSON for machines.

use std::io;
use std::process::ExitCode;

use super::{Finding, HostFacts, Level, diagnose, is_impossible};
use crate::config::DoctorArgs;

/// `ringmq doctor`: looks, judges, prints to stdout. `io_uring` tries to set up a ring. Exits with 1 only when a
/// broker could not run at all.
#[expect(clippy::print_stdout, reason = "the findings are this command's output")]
pub fn run(args: &DoctorArgs, io_uring: impl FnOnce() -> io::Result<()>) -> ExitCode {
    let findings = diagnose(&HostFacts::gather(&args.data, args.port, io_uring));
    print!("{}", if args.json { to_json(&findings) } else { to_text(&findings) });
    if is_impossible(&findings) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// One block per finding, the worst last so that it is what a terminal shows.
pub fn to_text(findings: &[Finding]) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.level);
    let mut text = String::new();
    for finding in sorted {
        text.push_str(&format!("{:<10} {}: {}\n", word(finding.level), finding.name, finding.found));
        for (label, line) in
            [("", Some(&finding.means)), ("fix:  ", finding.fix.as_ref()), ("undo: ", finding.undo.as_ref())]
        {
            if let Some(line) = line {
                text.push_str(&format!("{:<10} {label}{line}\n", ""));
            }
        }
    }
    text.push_str(&summary(findings));
    text
}

/// `{"possible":bool,"findings":[…]}` on one line.
pub fn to_json(findings: &[Finding]) -> String {
    let value = serde_json::json!({ "possible": !is_impossible(findings), "findings": findings });
    format!("{value}\n")
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (ok, notes, hurts, impossible) =
        (count(Level::Ok), count(Level::Note), count(Level::Hurts), count(Level::Impossible));
    let verdict = match (impossible, hurts) {
        (0, 0) => "a broker runs well here",
        (0, _) => "a broker runs here, with the costs shown",
        _ => "a broker can't run here until the last findings are mended",
    };
    format!("\n{verdict}: {ok} ok, {notes} notes, {hurts} hurt, {impossible} make it impossible\n")
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Note => "note",
        Level::Hurts => "HURTS",
        Level::Impossible => "IMPOSSIBLE",
    }
}
