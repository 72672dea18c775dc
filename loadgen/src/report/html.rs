//! The page: verdict first, then bars, table, curves, rates, the device's floor and the machine. One file, no script,
//! nothing fetched. Made from the report's values alone, so it can be made again from the JSON.

use std::fmt::Write;

use super::svg::{Axis, Bar, Line, Tick, bars, escape, plot};
use super::{Cell, Report};
use crate::floor::Method;
use crate::histogram::CurvePoint;
use crate::units::{bytes, count, micros, significant, whole};
use crate::verdict::Kind;

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut page = Page { out: String::new(), report };
    page.put(format_args!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n",
        escape(&report.title)
    ));
    page.header();
    page.verdict();
    page.bars();
    page.table();
    page.curves();
    page.rates();
    page.floor();
    page.facts();
    page.out.push_str("</html>\n");
    page.out
}

struct Page<'a> {
    out: String,
    report: &'a Report,
}

impl Page<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a String takes all that is written");
    }

    fn section(&mut self, title: &str, lead: &str) {
        self.put(format_args!("<h2>{}</h2>\n<p>{}</p>\n", escape(title), escape(lead)));
    }

    fn header(&mut self) {
        let report = self.report;
        self.put(format_args!(
            "<header><h1>{}</h1>\n<p>{} · {} · {} cores · took {:.0} s</p></header>\n",
            escape(&report.title),
            escape(&report.started),
            escape(&report.environment.processor),
            report.environment.cores,
            report.seconds
        ));
    }

    fn verdict(&mut self) {
        let verdict = &self.report.verdict;
        self.put(format_args!(
            "<p class=\"headline\">{}</p>\n<div class=\"verdict\">\n",
            code(&verdict.headline)
        ));
        for (kind, class, title) in [
            (Kind::Warning, "warning", "Beware"),
            (Kind::Finding, "finding", "What was found"),
            (Kind::Undecided, "undecided", "Not decided"),
            (Kind::Reason, "reason", "Why"),
            (Kind::Advice, "advice", "When to choose what"),
        ] {
            let sentences: Vec<_> = verdict.sentences.iter().filter(|s| s.kind == kind).collect();
            if sentences.is_empty() {
                continue;
            }
            self.put(format_args!("<section class=\"{class}\"><h3>{title}</h3><ul>\n"));
            for sentence in sentences {
                self.put(format_args!("<li>{}</li>\n", code(&sentence.text)));
            }
            self.out.push_str("</ul></section>\n");
        }
        self.out.push_str("</div>\n");
    }

    fn bars(&mut self) {
        let any_sent = self.report.cells.iter().any(|cell| cell.messages_per_second.median > 0.0);
        if !any_sent {
            return;
        }
        self.section(
            "Messages per second",
            "The median of the rounds; the thin line spans the rounds. Every panel has its own scale.",
        );
        self.out.push_str("<div class=\"panels\">\n");
        for load in self.loads() {
            let drawn: Vec<Bar> = self
                .at_load(&load)
                .map(|cell| Bar {
                    series: self.series(&cell.server),
                    name: cell.server.clone(),
                    label: count(cell.messages_per_second.median),
                    value: cell.messages_per_second.median,
                    bounds: [cell.messages_per_second.min, cell.messages_per_second.max],
                })
                .collect();
            let label = format!("Messages per second at {load}");
            self.panel(&load, &bars(&label, &drawn));
        }
        self.out.push_str("</div>\n");
    }

    fn curves(&mut self) {
        self.lines_section(
            "Latency by percentile",
            "How long the slowest share of sends took; both axes are logarithmic. A flat line is a predictable server.",
            |cell| &cell.curve,
        );
        self.lines_section(
            "End-to-end latency by percentile",
            "From the producer's intended send to the consumer's receipt.",
            |cell| &cell.end_to_end_curve,
        );
    }

    fn lines_section(&mut self, title: &str, lead: &str, curve: impl Fn(&Cell) -> &Vec<CurvePoint>) {
        if self.report.cells.iter().all(|cell| curve(cell).is_empty()) {
            return;
        }
        self.section(title, lead);
        self.legend();
        self.out.push_str("<div class=\"panels\">\n");
        for load in self.loads() {
            let cells: Vec<&Cell> = self.at_load(&load).filter(|cell| !curve(cell).is_empty()).collect();
            if cells.is_empty() {
                continue;
            }
            let drawn = plot_curves(&format!("{title} at {load}"), &cells, &curve, |cell| self.style(cell));
            self.panel(&load, &drawn);
        }
        self.out.push_str("</div>\n");
    }

    fn rates(&mut self) {
        if self.report.cells.iter().all(|cell| cell.rounds.iter().all(|round| round.timeline.is_empty())) {
            return;
        }
        self.section(
            "Rate over time",
            "Messages per second inside the measured windows; the gaps are between rounds, when other servers were measured.",
        );
        self.legend();
        self.out.push_str("<div class=\"panels\">\n");
        for load in self.loads() {
            let cells: Vec<&Cell> = self.at_load(&load).collect();
            let drawn = plot_rates(&format!("Rate over time at {load}"), &cells, |cell| self.style(cell));
            self.panel(&load, &drawn);
        }
        self.out.push_str("</div>\n");
    }

    fn panel(&mut self, title: &str, drawing: &str) {
        self.put(format_args!("<figure><h3>{}</h3>{drawing}</figure>\n", escape(title)));
    }

    fn legend(&mut self) {
        let servers = self.servers();
        if servers.len() < 2 {
            return;
        }
        self.out.push_str("<ul class=\"legend\">");
        for (series, server) in servers.iter().enumerate() {
            let dash = if is_dashed(server) { " stroke-dasharray=\"5 3\"" } else { "" };
            self.put(format_args!(
                "<li><svg viewBox=\"0 0 30 10\" style=\"display:inline-block\" aria-hidden=\"true\"><path class=\"line s{}\"{dash} d=\"M1 5H29\"/></svg>{}</li>",
                series % super::svg::SERIES,
                escape(server)
            ));
        }
        self.out.push_str("</ul>\n");
    }

    fn table(&mut self) {
        self.section(
            "All figures",
            "Latencies are of acknowledged sends, over all rounds; a dash means not available.",
        );
        self.out.push_str("<table class=\"cards\"><thead><tr>");
        for (class, title) in COLUMNS {
            self.put(format_args!("<th class=\"{class}\">{title}</th>"));
        }
        self.out.push_str("</tr></thead>\n");
        for load in self.loads() {
            self.out.push_str("<tbody class=\"load\">\n");
            let rows: Vec<Vec<String>> = self.at_load(&load).map(row).collect();
            for row in rows {
                self.out.push_str("<tr>");
                for ((class, title), value) in COLUMNS.iter().zip(row) {
                    self.put(format_args!("<td class=\"{class}\" data-label=\"{title}\">{value}</td>"));
                }
                self.out.push_str("</tr>\n");
            }
            self.out.push_str("</tbody>\n");
        }
        self.out.push_str("</table>\n");
    }

    fn floor(&mut self) {
        let cells: Vec<&Cell> = self.report.cells.iter().filter(|cell| !cell.floor.is_empty()).collect();
        if cells.is_empty() {
            return;
        }
        self.section(
            "The device's own floor",
            "A plain loop of aligned direct writes to a pre-written file in the same directory, at the size of each cell's groups, measured right after the cell.",
        );
        self.out.push_str("<table class=\"cards\"><thead><tr><th class=\"name\">Load</th><th class=\"name\">Server</th><th>Write size</th><th>O_DSYNC /s</th><th>fdatasync /s</th><th>Server syncs /s</th><th>Share of the better</th></tr></thead><tbody>\n");
        for cell in cells {
            let rate = |method| {
                cell.floor
                    .iter()
                    .find(|r| r.method == method)
                    .map_or(DASH.to_owned(), |r| count(r.syncs_per_second))
            };
            let seen = cell.flushes.map(|f| f.syncs_per_second);
            let share = cell.floor_share.as_ref().map_or(DASH.to_owned(), |share| {
                format!("{:.0} % ({:.0}–{:.0})", 100.0 * share.median, 100.0 * share.min, 100.0 * share.max)
            });
            self.put(format_args!(
                "<tr><td class=\"name\">{}</td><td class=\"name\">{}</td><td data-label=\"Write size\">{}</td><td data-label=\"O_DSYNC /s\">{}</td><td data-label=\"fdatasync /s\">{}</td><td data-label=\"Server syncs /s\">{}</td><td data-label=\"Share of the better\">{share}</td></tr>\n",
                escape(&cell.load),
                escape(&cell.server),
                bytes(cell.floor[0].bytes),
                rate(Method::Dsync),
                rate(Method::Fdatasync),
                seen.map_or(DASH.to_owned(), count)
            ));
        }
        self.out.push_str("</tbody></table>\n");
        if let Some(write) = self.report.device_write_mb_per_second {
            self.put(format_args!(
                "<p>Sequential writing, 1 MiB at a time, synced at the end: {} MB/s.</p>\n",
                count(write)
            ));
        }
    }

    fn facts(&mut self) {
        let environment = &self.report.environment;
        self.section("How it was measured", "The machine and the plan.");
        self.out.push_str("<dl class=\"facts\">\n");
        let cores = |cores: &[usize]| {
            if cores.is_empty() {
                "not pinned".to_owned()
            } else {
                cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
            }
        };
        let mut facts = vec![
            ("Kernel", environment.kernel.clone()),
            ("Processor", format!("{}, {} cores", environment.processor, environment.cores)),
            ("Memory", bytes(environment.memory_bytes)),
            ("Generator's cores", cores(&environment.generator_cores)),
            ("Server's cores", cores(&environment.server_cores)),
            ("loadgen", environment.version.clone()),
        ];
        if let Some(kind) = &environment.file_system {
            facts.push(("File system", kind.clone()));
        }
        let plan = self.report.plan.iter().map(|fact| (fact.name.as_str(), fact.value.clone()));
        for (name, value) in plan.chain(facts) {
            self.put(format_args!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(&value)));
        }
        self.out.push_str("</dl>\n");
        if !self.report.notes.is_empty() {
            self.out.push_str("<ul class=\"notes\">\n");
            for note in &self.report.notes {
                self.put(format_args!("<li>{}</li>\n", code(note)));
            }
            self.out.push_str("</ul>\n");
        }
    }

    /// The loads in the order of the cells.
    fn loads(&self) -> Vec<String> {
        distinct(self.report.cells.iter().map(|cell| &cell.load))
    }

    fn servers(&self) -> Vec<String> {
        distinct(self.report.cells.iter().map(|cell| &cell.server))
    }

    fn at_load(&self, load: &str) -> impl Iterator<Item = &Cell> {
        self.report.cells.iter().filter(move |cell| cell.load == load)
    }

    fn series(&self, server: &str) -> usize {
        self.servers().iter().position(|name| name == server).unwrap_or(0)
    }

    fn style(&self, cell: &Cell) -> (usize, bool) {
        (self.series(&cell.server), is_dashed(&cell.server))
    }
}

const DASH: &str = "–";

const COLUMNS: [(&str, &str); 15] = [
    ("name", "Load"),
    ("name", "Server"),
    ("", "Messages/s"),
    ("", "MB/s"),
    ("", "Spread"),
    ("", "p50"),
    ("", "p90"),
    ("", "p99"),
    ("", "p99.9"),
    ("", "Max"),
    ("", "Per sync"),
    ("", "Syncs/s"),
    ("", "CPU/msg"),
    ("", "Resident"),
    ("", "Failed"),
];

fn row(cell: &Cell) -> Vec<String> {
    let dash = || DASH.to_owned();
    let latency = |pick: fn(&crate::histogram::Summary) -> u64| {
        cell.latency.as_ref().or(cell.end_to_end.as_ref()).map_or_else(dash, |l| micros(pick(l) as f64))
    };
    let failed = cell.failures.iter().map(|f| f.count).sum::<u64>() + cell.unanswered;
    vec![
        escape(&cell.load),
        escape(&cell.server),
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
        cell.cpu_us_per_message.as_ref().map_or_else(dash, |cpu| format!("{} µs", significant(cpu.median))),
        cell.memory.map_or_else(dash, |memory| bytes(memory.resident_bytes)),
        whole(failed),
    ]
}

fn plot_curves(
    label: &str,
    cells: &[&Cell],
    curve: &impl Fn(&Cell) -> &Vec<CurvePoint>,
    style: impl Fn(&Cell) -> (usize, bool),
) -> String {
    let points = || cells.iter().flat_map(|cell| curve(cell));
    let slowest = points().map(|p| p.micros).max().unwrap_or(1) as f64;
    let fastest = points().map(|p| p.micros).min().unwrap_or(1) as f64;
    let rarest = points().map(|p| p.above).fold(1.0, f64::min);
    let x = percentile_axis(rarest);
    let y = Axis::log(fastest, slowest, micros);
    let lines: Vec<Line> = cells
        .iter()
        .map(|cell| {
            let (series, dashed) = style(cell);
            let piece = curve(cell).iter().map(|p| (1.0 / p.above, p.micros as f64)).collect();
            Line { series, dashed, pieces: vec![piece] }
        })
        .collect();
    plot(label, &x, &y, &lines)
}

/// `1 / share above` on a logarithmic axis: every tick is a further nine.
fn percentile_axis(rarest: f64) -> Axis {
    let end = (1.0 / rarest).max(100.0);
    let named = [
        (1.0, "0"),
        (2.0, "50"),
        (10.0, "90"),
        (100.0, "99"),
        (1e3, "99.9"),
        (1e4, "99.99"),
        (1e5, "99.999"),
    ];
    let ticks = named
        .iter()
        .filter(|(at, _)| *at <= end * 1.05)
        .map(|(at, label)| Tick { at: *at, label: (*label).to_owned() });
    Axis { start: 1.0, end, log: true, ticks: ticks.collect() }
}

fn plot_rates(label: &str, cells: &[&Cell], style: impl Fn(&Cell) -> (usize, bool)) -> String {
    let rounds = cells.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let longest =
        cells.iter().flat_map(|cell| &cell.rounds).map(|round| round.seconds).fold(0.0, f64::max).max(0.001);
    let slot = longest * if rounds > 1 { 1.12 } else { 1.0 };
    let mut fastest = 0.0_f64;
    let lines: Vec<Line> = cells
        .iter()
        .map(|cell| {
            let (series, dashed) = style(cell);
            let pieces = cell.rounds.iter().enumerate().map(|(index, round)| {
                let moments = round.timeline.iter().filter(|m| m.len_ms > 0);
                moments
                    .map(|m| {
                        let rate = m.messages as f64 * 1e3 / m.len_ms as f64;
                        fastest = fastest.max(rate);
                        (index as f64 * slot + (m.at_ms as f64 + m.len_ms as f64 / 2.0) / 1e3, rate)
                    })
                    .collect()
            });
            Line { series, dashed, pieces: pieces.collect() }
        })
        .collect();
    let end = slot * rounds as f64;
    let x = if rounds > 1 {
        let ticks = (0..rounds).map(|index| Tick {
            at: index as f64 * slot + longest / 2.0,
            label: format!("round {}", index + 1),
        });
        Axis { start: 0.0, end, log: false, ticks: ticks.collect() }
    } else {
        let mut axis = Axis::linear(end, |v| format!("{} s", significant(v)));
        axis.end = end;
        axis.ticks.retain(|tick| tick.at <= end);
        axis
    };
    plot(label, &x, &Axis::linear(fastest, short), &lines)
}

/// `12k`, for axes.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", trim(v / 1e6)),
        v if v >= 1e3 => format!("{}k", trim(v / 1e3)),
        v => trim(v),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Background flushing is dashed, so that the modes differ without colour.
fn is_dashed(server: &str) -> bool {
    server.starts_with("async")
}

/// Escaped, with text between back-quotes set as code.
fn code(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in escape(text).split('`').enumerate() {
        if index % 2 == 1 {
            out.push_str("<code>");
            out.push_str(part);
            out.push_str("</code>");
        } else {
            out.push_str(part);
        }
    }
    out
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        if !seen.contains(name) {
            seen.push(name.clone());
        }
    }
    seen
}
