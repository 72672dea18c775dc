//! What people see while and after the program runs. The only module that writes to stdout.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::report::{Cell, Report};
use crate::units::{count, micros, significant, whole};
use crate::verdict::Kind;

/// One line that changes every second on a terminal; a line per second elsewhere when asked for.
#[derive(Debug)]
pub struct Progress {
    style: Style,
    last: Option<Instant>,
    width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Rewrite,
    Lines,
    Silent,
}

const PERIOD: Duration = Duration::from_secs(1);

impl Progress {
    /// Looks whether stderr is a terminal.
    pub fn new(verbose: bool) -> Progress {
        let style = match (std::io::stderr().is_terminal(), verbose) {
            (true, _) => Style::Rewrite,
            (false, true) => Style::Lines,
            (false, false) => Style::Silent,
        };
        Progress { style, last: None, width: 0 }
    }

    /// A second has passed since the last line.
    pub fn is_due(&self) -> bool {
        self.style != Style::Silent && self.last.is_none_or(|last| last.elapsed() >= PERIOD)
    }

    /// Shows where things stand.
    pub fn show(&mut self, text: &str) {
        self.last = Some(Instant::now());
        match self.style {
            Style::Rewrite => {
                let width = text.chars().count();
                let blank = " ".repeat(self.width.saturating_sub(width));
                eprint!("\r{text}{blank}");
                self.width = width;
                // A terminal that does not take it has nobody looking.
                let _unseen = std::io::stderr().flush();
            }
            Style::Lines => eprintln!("{text}"),
            Style::Silent => {}
        }
    }

    /// Makes room for other output.
    pub fn clear(&mut self) {
        if self.style == Style::Rewrite && self.width > 0 {
            eprint!("\r{}\r", " ".repeat(self.width));
            self.width = 0;
        }
    }
}

/// Writes a line to stdout. A reader that has gone away (`| head`) must not end a measurement or cost its report.
pub fn say(text: &str) {
    let _unread = writeln!(std::io::stdout().lock(), "{text}");
}

/// The figures as a table, and the verdict.
pub fn show(report: &Report) {
    say(&table(&report.cells));
    for cell in &report.cells {
        if let Some(line) = end_to_end(cell) {
            say(&line);
        }
    }
    say(&wrap(&report.verdict.headline, ""));
    for sentence in &report.verdict.sentences {
        let mark = match sentence.kind {
            Kind::Finding => "  ",
            Kind::Undecided => "? ",
            Kind::Reason => "  ",
            Kind::Advice => "→ ",
            Kind::Warning => "! ",
        };
        say(&wrap(&sentence.text, mark));
    }
    for note in &report.notes {
        say(&wrap(note, "· "));
    }
}

/// What consumers saw, when there were any.
fn end_to_end(cell: &Cell) -> Option<String> {
    let received = count(cell.received_per_second.as_ref()?.median);
    let latency = cell.end_to_end.as_ref().map_or_else(String::new, |l| {
        let value = |us: u64| micros(us as f64);
        format!(
            "; from intended send to receipt p50 {}, p90 {}, p99 {}, p99.9 {}, max {} of {}",
            value(l.p50_us),
            value(l.p90_us),
            value(l.p99_us),
            value(l.p999_us),
            value(l.max_us),
            whole(l.samples)
        )
    });
    Some(format!("consumers at {}: {received} messages/s{latency}", cell.load))
}

/// One line per cell.
pub fn table(cells: &[Cell]) -> String {
    let header = [
        "load", "server", "msg/s", "MB/s", "spread", "p50", "p90", "p99", "p99.9", "max", "msg/sync",
        "syncs/s", "of floor", "cpu/msg", "failed",
    ];
    let mut rows: Vec<Vec<String>> = vec![header.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(cells.iter().map(row));
    let widths: Vec<usize> =
        (0..header.len()).map(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, value) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - value.chars().count());
            if column < 2 {
                line.push_str(&format!("{value}{pad}  "));
            } else {
                line.push_str(&format!("{pad}{value}  "));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn row(cell: &Cell) -> Vec<String> {
    let dash = || "-".to_owned();
    let latency = |pick: fn(&crate::histogram::Summary) -> u64| {
        cell.latency.as_ref().or(cell.end_to_end.as_ref()).map_or_else(dash, |l| micros(pick(l) as f64))
    };
    let share = cell.floor_share.as_ref().map_or_else(dash, |share| format!("{:.0} %", 100.0 * share.median));
    let failed = cell.failures.iter().map(|f| f.count).sum::<u64>() + cell.unanswered;
    vec![
        cell.load.clone(),
        cell.server.clone(),
        count(cell.messages_per_second.median),
        significant(cell.mb_per_second),
        format!("{:.0} %", 100.0 * cell.messages_per_second.relative()),
        latency(|l| l.p50_us),
        latency(|l| l.p90_us),
        latency(|l| l.p99_us),
        latency(|l| l.p999_us),
        latency(|l| l.max_us),
        cell.flushes.map_or_else(dash, |f| count(f.messages_per_sync)),
        cell.flushes.map_or_else(dash, |f| count(f.syncs_per_second)),
        share,
        cell.cpu_us_per_message.as_ref().map_or_else(dash, |cpu| format!("{} µs", significant(cpu.median))),
        whole(failed),
    ]
}

/// Breaks a paragraph at 100 columns; `mark` before its first line, room for it before the others.
fn wrap(text: &str, mark: &str) -> String {
    const COLUMNS: usize = 100;
    let indent = " ".repeat(mark.chars().count());
    let mut out = mark.to_owned();
    let mut column = indent.len();
    for word in text.split(' ') {
        let len = word.chars().count();
        if column > indent.len() && column + 1 + len > COLUMNS {
            out.push('\n');
            out.push_str(&indent);
            column = indent.len();
        }
        if column > indent.len() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_between_words() {
        let text = "word ".repeat(50);
        let wrapped = wrap(text.trim_end(), "! ");
        assert!(wrapped.lines().all(|line| line.chars().count() <= 100));
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(wrapped.split_whitespace().count(), 51);
    }
}
