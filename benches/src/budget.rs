//! The figures as text: a line each, and the budget of one message, stage by stage.

use std::{collections::HashMap, fmt::Write};

use crate::{GROUP, meter::Figure, requests::BODY_BYTES};

/// What decode, append and dispatch may take together.
const BUDGET_NS: f64 = 1_000.0;

/// The heading of the lines.
#[must_use]
pub fn heading() -> String {
    format!(
        "{:18} {:>9} {:>17} {:>9} {:>12} {:>10}  {:16}",
        "", "ns/msg", "10%–90%", "copied B", "allocations", "messages", "checksum"
    )
}

/// One figure.
#[must_use]
pub fn line(figure: &Figure) -> String {
    let (low, high) = figure.spread_ns;
    let mut text = format!(
        "{:18} {:>9.1} {:>17} {:>9.0} {:>12} {:>10}  {:016x}",
        figure.name,
        figure.median_ns,
        format!("{low:.1}–{high:.1}"),
        figure.copied_bytes,
        figure.allocations,
        figure.messages,
        figure.checksum
    );
    if figure.is_failed() {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "  FAILED: {} bytes allocated", figure.allocated_bytes);
    }
    text
}

/// The budget of a message, when every stage was measured.
#[must_use]
pub fn table(figures: &[Figure]) -> Option<String> {
    let ns: HashMap<&str, f64> =
        figures.iter().map(|figure| (figure.name.as_str(), figure.median_ns)).collect();
    let of = |name: &str| ns.get(name).copied();
    let mut text = format!(
        "Budget of one {BODY_BYTES}-byte message, {GROUP} at a time, nanoseconds (medians; no system call is in it)\n\n\
         {:44} {:>8} {:>9}\n",
        "stage", "json", "rocketmq"
    );
    let mut row = |stage: &str, json: f64, rocketmq: f64| {
        let _infallible = writeln!(text, "{stage:44} {json:>8.0} {rocketmq:>9.0}");
    };
    let (decode, answer, journey) = (
        (of("decode json")?, of("decode rocketmq")?),
        (of("answer json")?, of("answer rocketmq")?),
        (of("journey json")?, of("journey rocketmq")?),
    );
    let (record, append) = (of("record")?, of("append")?);
    let (ack, dispatch) = (of("ack")?, of("dispatch")?);
    let stages = (decode.0 + append + dispatch, decode.1 + append + dispatch);
    let known = ack + append + dispatch;
    row("decode: frame, header, fields", decode.0, decode.1);
    row("append: offsets, record, tail", append, append);
    row("  of it the record: checksum and copy", record, record);
    row("dispatch: queue entry", dispatch, dispatch);
    row("decode + append + dispatch", stages.0, stages.1);
    row("ack: the sender waits and is taken out", ack, ack);
    row("answer: the frame", answer.0, answer.1);
    row(
        "checks, properties, look-ups, clocks (the rest)",
        journey.0 - decode.0 - answer.0 - known,
        journey.1 - decode.1 - answer.1 - known,
    );
    row("the broker's whole journey", journey.0, journey.1);
    let most = stages.0.max(stages.1);
    let verdict = if most <= BUDGET_NS { "kept" } else { "NOT kept" };
    let _infallible =
        write!(text, "\nThe budget of {BUDGET_NS:.0} ns for decode + append + dispatch is {verdict}.");
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, median_ns: f64) -> Figure {
        Figure {
            name: name.to_owned(),
            median_ns,
            spread_ns: (median_ns, median_ns),
            copied_bytes: 0.0,
            allocations: 0,
            allocated_bytes: 0,
            messages: 1,
            checksum: 0,
            must_not_allocate: true,
        }
    }

    #[test]
    fn a_table_needs_every_stage_and_judges_by_the_slower_serialisation() {
        let names = ["record", "append", "ack", "dispatch", "decode json", "decode rocketmq", "answer json"];
        let mut figures: Vec<Figure> = names.map(|name| figure(name, 100.0)).into();
        figures
            .extend(["answer rocketmq", "journey json", "journey rocketmq"].map(|name| figure(name, 900.0)));
        let kept = table(&figures).unwrap();
        assert!(kept.ends_with("dispatch is kept."), "{kept}");
        figures[4].median_ns = 900.0;
        let missed = table(&figures).unwrap();
        assert!(missed.ends_with("dispatch is NOT kept."), "{missed}");
        figures.pop();
        assert_eq!(table(&figures), None);
    }

    #[test]
    fn a_failed_figure_says_so() {
        let failed = Figure { allocations: 1, allocated_bytes: 8, ..figure("append", 1.0) };
        assert!(line(&failed).contains("FAILED: 8 bytes"));
        let pull = Figure { must_not_allocate: false, ..failed };
        assert!(!line(&pull).contains("FAILED"));
    }
}
