//! Drawings as inline SVG text: small panels of one fixed width, so that type stays readable on a phone, coloured by
//! the page's style sheet through classes `s0`, `s1`, …. Nothing here knows what is drawn.

use std::fmt::Write;

/// Width of every panel in its own units; a phone shows it at about its real size.
const WIDTH: f64 = 360.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 350.0;
const TOP: f64 = 12.0;

/// A line in a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Colour class number.
    pub series: usize,
    /// Drawn dashed, so that lines differ without colour too.
    pub dashed: bool,
    /// Pieces between gaps, each a list of (x, y).
    pub pieces: Vec<Vec<(f64, f64)>>,
}

/// A labelled position on an axis.
#[derive(Clone, Debug)]
pub struct Tick {
    /// Where, in the data's units.
    pub at: f64,
    /// What is written there.
    pub label: String,
}

/// An axis: its range, its ticks, and whether it is logarithmic.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The data value at the origin.
    pub start: f64,
    /// The data value at the far end.
    pub end: f64,
    /// Logarithmic; both ends must then be positive.
    pub log: bool,
    /// Labelled positions.
    pub ticks: Vec<Tick>,
}

impl Axis {
    /// A linear axis from zero with about four round ticks.
    pub fn linear(max: f64, label: impl Fn(f64) -> String) -> Axis {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_step(max / 4.0);
        let end = (max / step).ceil() * step;
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= end + step / 2.0 {
            ticks.push(Tick { at, label: label(at) });
            at += step;
        }
        Axis { start: 0.0, end, log: false, ticks }
    }

    /// A logarithmic axis with ticks at the powers of ten, widened to include both values.
    pub fn log(min: f64, max: f64, label: impl Fn(f64) -> String) -> Axis {
        let min = min.max(1e-9);
        let max = max.max(min);
        let first = min.log10().floor();
        let last = max.log10().ceil().max(first + 1.0);
        let mut ticks = Vec::new();
        let mut power = first;
        while power <= last {
            let at = 10f64.powf(power);
            ticks.push(Tick { at, label: label(at) });
            power += 1.0;
        }
        Axis { start: 10f64.powf(first), end: 10f64.powf(last), log: true, ticks }
    }

    /// The share of the axis' length at a value.
    fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.start) / self.start).ln() / (self.end / self.start).ln()
        } else {
            (value - self.start) / (self.end - self.start)
        };
        share.clamp(0.0, 1.0)
    }
}

/// A plot of lines.
pub fn plot(label: &str, x: &Axis, y: &Axis, lines: &[Line]) -> String {
    const HEIGHT: f64 = 220.0;
    const BOTTOM: f64 = 192.0;
    let px = |value: f64| LEFT + x.share(value) * (RIGHT - LEFT);
    let py = |value: f64| BOTTOM - y.share(value) * (BOTTOM - TOP);
    let mut out = open(label, HEIGHT);
    for tick in &y.ticks {
        let at = py(tick.at);
        push(
            &mut out,
            format_args!(r#"<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}"/>"#),
        );
        text(&mut out, "end", LEFT - 5.0, at + 3.5, &tick.label);
    }
    for tick in &x.ticks {
        let at = px(tick.at);
        push(
            &mut out,
            format_args!(r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{BOTTOM}"/>"#),
        );
        text(&mut out, "middle", at, BOTTOM + 15.0, &tick.label);
    }
    for line in lines {
        let dash = if line.dashed { r#" stroke-dasharray="5 3""# } else { "" };
        for piece in line.pieces.iter().filter(|piece| !piece.is_empty()) {
            let mut path = String::new();
            for (index, (at_x, at_y)) in piece.iter().enumerate() {
                let step = if index == 0 { 'M' } else { 'L' };
                push(&mut path, format_args!("{step}{:.1} {:.1}", px(*at_x), py(*at_y)));
            }
            push(
                &mut out,
                format_args!(r#"<path class="line s{}"{dash} d="{path}"/>"#, line.series % SERIES),
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// One bar: a value, its range over the rounds, and how it is written.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Colour class number.
    pub series: usize,
    /// What it is of.
    pub name: String,
    /// The value as written.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// Smallest and largest over the rounds.
    pub bounds: [f64; 2],
}

/// Horizontal bars under one another, each with its name above and its range as a thin line.
pub fn bars(label: &str, bars: &[Bar]) -> String {
    const ROW: f64 = 34.0;
    const START: f64 = 2.0;
    let longest = bars.iter().map(|b| b.bounds[1].max(b.value)).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let width = |value: f64| value / longest * (WIDTH - 2.0 * START);
    let mut out = open(label, ROW * bars.len() as f64 + 4.0);
    for (row, bar) in bars.iter().enumerate() {
        let top = row as f64 * ROW;
        text(&mut out, "start", START, top + 13.0, &bar.name);
        let label_class = r#"class="value" text-anchor="end""#;
        push(
            &mut out,
            format_args!(
                r#"<text {label_class} x="{:.1}" y="{:.1}">{}</text>"#,
                WIDTH - START,
                top + 13.0,
                escape(&bar.label)
            ),
        );
        let middle = top + 23.0;
        push(
            &mut out,
            format_args!(
                r#"<rect class="bar s{}" x="{START}" y="{:.1}" width="{:.1}" height="9" rx="2"/>"#,
                bar.series % SERIES,
                middle - 4.5,
                width(bar.value).max(1.0)
            ),
        );
        let [min, max] = bar.bounds.map(|bound| START + width(bound));
        push(
            &mut out,
            format_args!(
                r#"<path class="range" d="M{min:.1} {middle:.1}H{max:.1}M{min:.1} {0:.1}v6M{max:.1} {0:.1}v6"/>"#,
                middle - 3.0
            ),
        );
    }
    out.push_str("</svg>");
    out
}

/// How many colours the style sheet has.
pub const SERIES: usize = 6;

fn open(label: &str, height: f64) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{0}"><title>{0}</title>"#,
        escape(label)
    )
}

fn text(out: &mut String, anchor: &str, x: f64, y: f64, label: &str) {
    push(out, format_args!(r#"<text text-anchor="{anchor}" x="{x:.1}" y="{y:.1}">{}</text>"#, escape(label)));
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all that is written");
}

/// Text as HTML and SVG show it literally.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ticks_that_include_the_data() {
        let axis = Axis::linear(37.0, |v| format!("{v}"));
        assert_eq!(axis.ticks.iter().map(|t| t.at).collect::<Vec<_>>(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        let axis = Axis::log(30.0, 12_000.0, |v| format!("{v}"));
        assert_eq!((axis.start.round(), axis.end.round()), (10.0, 100_000.0));
        assert!(Axis::linear(0.0, |v| v.to_string()).end > 0.0);
    }

    #[test]
    fn names_cannot_break_the_page() {
        let bar = Bar {
            series: 0,
            name: "<script>".to_owned(),
            label: "\"1\"".to_owned(),
            value: 1.0,
            bounds: [1.0, 1.0],
        };
        let drawn = bars("a & b", &[bar]);
        assert!(!drawn.contains("<script>"));
        assert!(drawn.contains("&lt;script&gt;") && drawn.contains("a &amp; b"));
    }
}
