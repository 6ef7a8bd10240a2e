//! A picture of lines, both of whose axes are logarithmic. It can be read on light and on dark paper.

use ixion_bench::support::count;
use std::fmt::Write;

pub(crate) struct Line {
    pub(crate) title: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Of the drawing, without the margins.
const SIZE: (f64, f64) = (560.0, 360.0);
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
/// Told apart by those who see few colours, and visible on both papers.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The powers of ten from below the least to above the most.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let (least, most) = values.fold((f64::MAX, 1.0f64), |(a, b), value| (a.min(value), b.max(value)));
    let low = least.max(1.0).log10().floor() as i32;
    (low, (most.log10().ceil() as i32).max(low + 1))
}

pub(crate) fn draw(title: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (across, up) = (decades(points().map(|it| it.0)), decades(points().map(|it| it.1)));
    let place = |value: f64, (low, high): (i32, i32)| {
        (value.max(1.0).log10() - f64::from(low)) / f64::from(high - low)
    };
    let x = |value: f64| LEFT + SIZE.0 * place(value, across);
    let y = |value: f64| TOP + SIZE.1 * (1.0 - place(value, up));
    let (width, height) = (LEFT + SIZE.0 + 30.0, TOP + SIZE.1 + 50.0 + 20.0 * lines.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <style>text {{ fill: #222 }} .grid {{ stroke: #8888; stroke-width: 0.5 }} polyline {{ fill: none; stroke-width: 2 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #ddd }} }}</style>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    let mut add = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("a string takes all");
    let (right, bottom) = (LEFT + SIZE.0, TOP + SIZE.1);
    for power in across.0..=across.1 {
        let value = 10f64.powi(power);
        let at = x(value);
        add(format_args!("<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>"));
        add(format_args!(
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            bottom + 18.0,
            count(value)
        ));
    }
    for power in up.0..=up.1 {
        let value = 10f64.powi(power);
        let at = y(value);
        add(format_args!("<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>"));
        add(format_args!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            at + 4.0,
            count(value)
        ));
    }
    for (nth, line) in lines.iter().enumerate() {
        let colour = COLOURS[nth % COLOURS.len()];
        let points: Vec<String> =
            line.points.iter().map(|it| format!("{:.1},{:.1}", x(it.0), y(it.1))).collect();
        add(format_args!("<polyline stroke=\"{colour}\" points=\"{}\"/>\n", points.join(" ")));
        for (across, up) in &line.points {
            add(format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(*across),
                y(*up)
            ));
        }
        let at = bottom + 45.0 + 20.0 * nth as f64;
        add(format_args!(
            "\n<path d=\"M{LEFT} {:.1}h24\" stroke=\"{colour}\" stroke-width=\"3\"/>",
            at - 4.0
        ));
        add(format_args!("<text x=\"{}\" y=\"{at:.1}\">{}</text>\n", LEFT + 32.0, line.title));
    }
    svg.push_str("</svg>\n");
    svg
}
