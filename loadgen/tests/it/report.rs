//! The page and its data: nothing fetched, nothing lost on the way through the JSON, no conclusion that the rounds do
//! not carry.

use std::path::Path;

use loadgen::floor::{FloorRate, Method};
use loadgen::histogram::{Interval, Latency};
use loadgen::process::Environment;
use loadgen::report::{Cell, FORMAT, Failure, Flushes, Moment, Report, Round, Spread, html};
use loadgen::verdict::{self, Kind, Verdict};

fn latency(scale_us: u64) -> Latency {
    let mut latency = Latency::new();
    for step in 1..=2_000 {
        latency.record_ns(step * step * scale_us);
    }
    latency
}

fn cell(server: &str, load: (u32, u32), rounds: &[f64]) -> Cell {
    let (flush, backend) = server.split_once(' ').unwrap_or(("", ""));
    let latency = latency(if flush == "sync" { 3 } else { 1 });
    let round = |(index, rate): (usize, &f64)| Round {
        started_ms: 1_796_134_607_000 + index as u64 * 5_000,
        seconds: 2.0,
        messages: (rate * 2.0) as u64,
        warmup_messages: 10,
        capped: false,
        timeline: (0..20)
            .map(|at| Moment { at_ms: at * 100, len_ms: 100, messages: (rate / 10.0) as u64, max_us: 900 })
            .collect(),
    };
    let is_sync = flush == "sync";
    Cell {
        server: server.to_owned(),
        flush: Some(flush.to_owned()),
        backend: Some(backend.to_owned()),
        load: format!("{}×{}", load.0, load.1),
        connections: load.0,
        depth: load.1,
        rate: None,
        messages_per_second: Spread::of(rounds.to_vec()).unwrap(),
        mb_per_second: rounds[0] * 1024.0 / 1e6,
        latency: latency.summary(),
        p99_us: Spread::of(vec![900.0, 950.0, 1_000.0]),
        curve: latency.curve(),
        end_to_end: None,
        end_to_end_curve: Vec::new(),
        received_per_second: None,
        flushes: is_sync.then_some(Flushes {
            syncs_per_second: 2_900.0,
            messages_per_sync: rounds[0] / 2_900.0,
            bytes_per_sync: 16_384.0,
            unprepared_share: Some(0.0),
        }),
        floor: if is_sync {
            vec![FloorRate { method: Method::Dsync, bytes: 16_384, syncs_per_second: 3_300.0, p50_us: 290 }]
        } else {
            Vec::new()
        },
        floor_share: if is_sync { Spread::of(vec![0.87, 0.88, 0.91]) } else { None },
        cpu_us_per_message: Spread::of(vec![4.0, 4.1, 4.2]),
        memory: None,
        failures: Vec::new(),
        unanswered: 0,
        unsent: 0,
        connections_lost: 0,
        rounds: rounds.iter().enumerate().map(round).collect(),
    }
}

fn report(cells: Vec<Cell>) -> Report {
    Report {
        format: FORMAT.to_owned(),
        title: "loadgen compare: <sync> & async".to_owned(),
        started: "2026-12-01T14:16:47Z".to_owned(),
        seconds: 33.0,
        environment: Environment::look(Some(Path::new("/"))),
        plan: Vec::new(),
        verdict: verdict::of_flush_modes(&cells),
        cells,
        device_write_mb_per_second: Some(900.0),
        notes: vec!["a `note`".to_owned()],
    }
}

fn both_modes(sync: &[f64], background: &[f64]) -> Vec<Cell> {
    vec![cell("sync direct", (64, 1), sync), cell("async direct", (64, 1), background)]
}

fn texts(verdict: &Verdict, kind: Kind) -> Vec<&str> {
    verdict.sentences.iter().filter(|s| s.kind == kind).map(|s| s.text.as_str()).collect()
}

#[test]
fn a_difference_larger_than_the_spread_is_a_finding() {
    let verdict =
        verdict::of_flush_modes(&both_modes(&[1_000.0, 1_100.0, 950.0], &[4_000.0, 4_200.0, 4_100.0]));
    assert!(verdict.headline.contains("factor of 4.00"), "{}", verdict.headline);
    assert!(texts(&verdict, Kind::Undecided).is_empty());
    let findings = texts(&verdict, Kind::Finding);
    assert!(findings[0].contains("SYNC_FLUSH carries 1,000 messages/s, ASYNC_FLUSH 4,100"), "{findings:?}");
    let reasons = texts(&verdict, Kind::Reason);
    assert!(
        reasons.iter().any(|text| text.contains("88 % of what a plain loop of writes of 16.0 KiB")),
        "{reasons:?}"
    );
    let advice = texts(&verdict, Kind::Advice).join(" ");
    assert!(
        advice.contains("Choose SYNC_FLUSH when") && advice.contains("Choose ASYNC_FLUSH when"),
        "{advice}"
    );
}

#[test]
fn a_spread_larger_than_the_difference_refuses_to_conclude() {
    // Round by round 0.7, 1.2 and 1.6 times: the middle says 1.2, the rounds do not agree.
    let verdict = verdict::of_flush_modes(&both_modes(&[1_000.0; 3], &[700.0, 1_200.0, 1_600.0]));
    assert!(verdict.headline.contains("does not support a conclusion"), "{}", verdict.headline);
    assert_eq!(texts(&verdict, Kind::Undecided).len(), 1);
    assert!(texts(&verdict, Kind::Finding).is_empty());
    let advice = texts(&verdict, Kind::Advice).join(" ");
    assert!(!advice.contains("64×1"), "advice about an undecided load: {advice}");
}

#[test]
fn noise_that_hits_both_servers_of_a_round_does_not_hide_the_difference() {
    // The disk is three times as slow in the second round, for both.
    let verdict = verdict::of_flush_modes(&both_modes(&[900.0, 300.0, 930.0], &[1_800.0, 610.0, 1_850.0]));
    assert_eq!(texts(&verdict, Kind::Undecided).len(), 0, "{verdict:?}");
}

#[test]
fn both_ways_of_dividing_lead_to_the_same_conclusion() {
    let cases: [([f64; 3], bool); 4] = [
        ([2.0, 2.5, 2.9], true),
        ([1.63, 16.6, 19.1], false),
        ([1.0, 1.0, 1.0], false),
        ([0.9, 1.1, 1.3], false),
    ];
    for (rates, decided) in cases {
        let forth = verdict::compare(&rates, &[1.0; 3]).unwrap();
        let back = verdict::compare(&[1.0; 3], &rates).unwrap();
        assert_eq!((forth.decided, back.decided), (decided, decided), "{rates:?}");
    }
    assert!(verdict::compare(&[0.0; 3], &[1.0; 3]).is_none(), "nothing completed, nothing to compare");
}

#[test]
fn two_rounds_are_never_enough() {
    let verdict = verdict::of_flush_modes(&both_modes(&[100.0, 100.0], &[900.0, 900.0]));
    assert_eq!(texts(&verdict, Kind::Undecided).len(), 1);
}

#[test]
fn failures_are_the_first_thing_said() {
    let mut cells = both_modes(&[1_000.0; 3], &[4_000.0; 3]);
    cells[0].failures.push(Failure {
        code: 10,
        name: "FLUSH_DISK_TIMEOUT".to_owned(),
        count: 7,
        remark: "slow".to_owned(),
    });
    let report = report(cells);
    let warnings = texts(&report.verdict, Kind::Warning);
    assert!(warnings[0].contains("7 × code 10 FLUSH_DISK_TIMEOUT: slow"), "{warnings:?}");
    let page = html::page(&report);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}` is not in the page"));
    assert!(place("FLUSH_DISK_TIMEOUT") < place("What was found"));
    assert!(place("What was found") < place("All figures"));
}

#[test]
fn the_page_fetches_nothing_and_runs_nothing() {
    let page = html::page(&report(both_modes(&[1_000.0; 3], &[4_000.0; 3])));
    for forbidden in
        ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe"]
    {
        assert!(!page.contains(forbidden), "`{forbidden}` in the page");
    }
    assert!(page.contains("&lt;sync&gt; &amp; async"), "names are escaped");
    for expected in
        ["prefers-color-scheme: dark", "@media print", "width=device-width", "<svg", "a <code>note</code>"]
    {
        assert!(page.contains(expected), "`{expected}` is not in the page");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn the_page_can_be_made_again_from_the_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/report.html");
    let report = report(both_modes(&[1_000.0; 3], &[4_000.0; 3]));
    let latency = latency(1);
    let interval = Interval {
        tag: "sync direct".to_owned(),
        start_wall_ms: 1_796_134_607_000,
        duration: std::time::Duration::from_secs(2),
        latency: &latency,
    };
    let files = report.write_all(&path, &[interval]).unwrap();
    let read = Report::read(&files.json).unwrap();
    assert_eq!(html::page(&read), std::fs::read_to_string(&files.html).unwrap());
    assert!(std::fs::metadata(files.hlog.unwrap()).unwrap().len() > 100);
}

#[test]
fn a_file_that_is_no_report_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.json");
    std::fs::write(&path, "{\"format\":\"something\"}").unwrap();
    let error = Report::read(&path).unwrap_err().to_string();
    assert!(error.contains("other.json") && error.contains("not a loadgen report"), "{error}");
}
