//! Charts as SVG, by hand: points and lines over two axes, labelled directly.
//!
//! Nothing is taken from elsewhere, neither fonts nor scripts. Inside the report, the page's own rules
//! colour the charts; a picture that stands alone brings them along and draws its own ground.

mod labels;
mod scale;
mod style;

use labels::{Obstacles, Rect, Wanted, place, text_width};
pub(crate) use scale::{Axis, Unit};
pub(crate) use style::{SHAPES, Style, color_of, css};

use super::markup::escaped;

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart {
    /// The horizontal axis.
    pub(crate) x: Axis,
    /// The vertical axis.
    pub(crate) y: Axis,
    /// What is drawn, the last on top.
    pub(crate) series: Vec<Series>,
    /// What colours and shapes mean, where labels do not say so.
    pub(crate) legend: Vec<(String, Style)>,
    /// A word in the upper left corner of the plot; empty without.
    pub(crate) hint: &'static str,
    /// Size and texts around.
    pub(crate) frame: Frame,
}

/// Size of a chart and what stands around it.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Width in units of the picture.
    pub(crate) width: f64,
    /// Height of the plot with its axes, without the texts above and below.
    pub(crate) height: f64,
    /// Size of the texts.
    pub(crate) font_size: f64,
    /// A headline; empty without.
    pub(crate) title: String,
    /// Lines below it.
    pub(crate) subtitle: Vec<String>,
    /// Lines at the foot.
    pub(crate) footer: Vec<String>,
    /// Whether the picture brings rules and ground along.
    pub(crate) standalone: bool,
}

impl Default for Frame {
    /// A chart in the report.
    fn default() -> Self {
        Self {
            width: 640.0,
            height: 400.0,
            font_size: 13.0,
            title: String::new(),
            subtitle: Vec::new(),
            footer: Vec::new(),
            standalone: false,
        }
    }
}

/// Points that belong together.
#[derive(Debug)]
pub(crate) struct Series {
    /// Its name.
    pub(crate) name: String,
    /// Its look.
    pub(crate) style: Style,
    /// Whether, and how, a line joins its points in their order.
    pub(crate) line: Line,
    /// Its points.
    pub(crate) points: Vec<Point>,
    /// Whether its name stands at the right of the plot, beside its last point.
    pub(crate) named_at_end: bool,
}

/// How points are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    None,
    Solid,
    Dashed,
}

/// A point with its texts.
#[derive(Debug)]
pub(crate) struct Point {
    /// Values on the axes.
    pub(crate) at: (f64, f64),
    /// Least and greatest value on the vertical axis.
    pub(crate) spread: (f64, f64),
    /// What stands beside it, in the colour of its series, where there is room.
    pub(crate) label: Option<String>,
    /// What a pointing device shows.
    pub(crate) tooltip: String,
    /// Its shape, if not that of its series.
    pub(crate) shape: Option<usize>,
    /// Whether it stands back.
    pub(crate) faint: bool,
}

impl Chart {
    /// The picture.
    pub(crate) fn svg(&self) -> String {
        Drawing::new(self).svg()
    }
}

/// The plot's place and the parts drawn so far.
struct Drawing<'a> {
    chart: &'a Chart,
    plot: Rect,
    /// Total height.
    height: f64,
    body: String,
}

/// Distance between lines of text, in font sizes.
const LEADING: f64 = 1.45;

impl<'a> Drawing<'a> {
    fn new(chart: &'a Chart) -> Self {
        let frame = &chart.frame;
        let font = frame.font_size;
        let margin = if frame.standalone { font * 1.6 } else { 2.0 };
        let mut drawing = Self {
            chart,
            plot: Rect {
                left: 0.0,
                top: 0.0,
                right: 0.0,
                bottom: 0.0,
            },
            height: 0.0,
            body: String::new(),
        };
        let mut top = margin;
        if !frame.title.is_empty() {
            top += font * 1.4;
            let size = font * 1.4;
            drawing.text(
                (margin, top),
                "ink",
                &format!("font-size=\"{size}\" font-weight=\"650\""),
                &frame.title,
            );
            top += font * 0.4;
        }
        for line in &frame.subtitle {
            top += font * LEADING;
            drawing.text((margin, top), "muted", "", line);
        }
        if !chart.legend.is_empty() {
            top = drawing.legend(margin, top + font * 1.7);
        }
        // The name of the vertical axis lies above it: nobody has to tilt the head.
        top += font * 1.8;
        drawing.text((margin, top), "ink", "", &chart.y.label);
        top += font * 0.9;

        let widest = chart
            .y
            .ticks()
            .map(|(_, text)| text_width(&text, font))
            .fold(0.0, f64::max);
        let names = chart.series.iter().filter(|series| series.named_at_end);
        let names = names
            .map(|series| text_width(&series.name, font))
            .fold(0.0, f64::max);
        // Half of the last tick's text stands out at the right.
        let last_tick = chart.x.ticks().last();
        let last_tick = last_tick.map_or(0.0, |(_, text)| text_width(&text, font) / 2.0);
        let right = if names > 0.0 {
            names + 18.0
        } else {
            last_tick.max(font)
        };
        drawing.plot = Rect {
            left: margin + widest + 6.0,
            top,
            right: frame.width - margin - right,
            bottom: top + frame.height - font * 5.0,
        };
        let mut foot = drawing.plot.bottom + font * 3.2;
        drawing.text_end((drawing.plot.right, foot), "ink", &chart.x.label);
        for (index, line) in frame.footer.iter().enumerate() {
            foot += font * if index == 0 { 2.0 } else { LEADING };
            drawing.text((margin, foot), "muted", "font-size=\"86%\"", line);
        }
        drawing.height = foot + if frame.standalone { margin } else { font * 0.5 };
        drawing
    }

    fn svg(mut self) -> String {
        self.axes();
        for series in &self.chart.series {
            self.line(series);
        }
        for series in &self.chart.series {
            self.points(series);
        }
        self.labels();
        self.names_at_end();

        let frame = &self.chart.frame;
        let (width, height) = (frame.width, self.height);
        let label = escaped(&format!(
            "{}: {} over {}",
            frame.title, self.chart.y.label, self.chart.x.label
        ));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" \
             font-size=\"{}\" role=\"img\" aria-label=\"{}\">",
            frame.font_size,
            label.trim_start_matches(": ")
        );
        if frame.standalone {
            svg.push_str(&format!(
                "<style>{}</style><rect class=\"ground\" width=\"{width}\" height=\"{height:.0}\" rx=\"10\"/>",
                css()
            ));
        }
        svg.push_str(&self.body);
        svg.push_str("</svg>\n");
        svg
    }

    /// Where values lie in the picture.
    fn spot(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.plot;
        (
            left + self.chart.x.place(x) * (right - left),
            bottom - self.chart.y.place(y) * (bottom - top),
        )
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, attributes: &str, text: &str) {
        self.body.push_str(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>",
            escaped(text)
        ));
    }

    fn text_end(&mut self, at: (f64, f64), class: &str, text: &str) {
        self.text(at, class, "text-anchor=\"end\"", text);
    }

    /// Markers with their meaning, in as many rows as they need. Returns where the next text may go.
    fn legend(&mut self, left: f64, top: f64) -> f64 {
        let font = self.chart.frame.font_size;
        let (mut x, mut y) = (left, top);
        for (name, style) in &self.chart.legend {
            let width = 18.0 + text_width(name, font);
            if x > left && x + width > self.chart.frame.width - left {
                x = left;
                y += font * LEADING;
            }
            self.marker((x + 6.0, y - font * 0.35), *style, "");
            self.text((x + 18.0, y), "ink", "", name);
            x += width + font;
        }
        y
    }

    fn marker(&mut self, (x, y): (f64, f64), style: Style, tooltip: &str) {
        let tooltip = if tooltip.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escaped(tooltip))
        };
        self.body.push_str(&format!(
            "<g class=\"c{}\" transform=\"translate({x:.1} {y:.1})\">{tooltip}{}</g>",
            style.color,
            style::marker(style.shape)
        ));
    }

    fn axes(&mut self) {
        let chart = self.chart;
        let font = chart.frame.font_size;
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.plot;
        for (tick, text) in chart.y.ticks() {
            let (_, y) = self.spot((0.0, tick));
            self.body.push_str(&format!(
                "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"
            ));
            self.text_end((left - 6.0, y + font * 0.35), "muted", &text);
        }
        let mut free_from = f64::NEG_INFINITY;
        for (tick, text) in chart.x.ticks() {
            let (x, _) = self.spot((tick, 0.0));
            self.body.push_str(&format!(
                "<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>"
            ));
            // Texts that would touch are left out; the lines stay.
            let half = text_width(&text, font) / 2.0;
            if x - half >= free_from {
                self.text(
                    (x, bottom + font * 1.5),
                    "muted",
                    "text-anchor=\"middle\"",
                    &text,
                );
                free_from = x + half + font * 0.4;
            }
        }
        self.body.push_str(&format!(
            "<path class=\"frame\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>"
        ));
        if !chart.hint.is_empty() {
            let corner = (left + font * 0.6, top + font * 1.4);
            self.text(corner, "muted halo", "font-style=\"italic\"", chart.hint);
        }
    }

    fn line(&mut self, series: &Series) {
        if series.line == Line::None || series.points.len() < 2 {
            return;
        }
        let dashed = if series.line == Line::Dashed {
            " dashed"
        } else {
            ""
        };
        let path: Vec<String> = series
            .points
            .iter()
            .map(|point| self.spot(point.at))
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        self.body.push_str(&format!(
            "<g class=\"c{}\"><path class=\"line{dashed}\" d=\"M{}\"/></g>",
            series.style.color,
            path.join("L")
        ));
    }

    fn points(&mut self, series: &Series) {
        for point in &series.points {
            let (x, y) = self.spot(point.at);
            let (_, low) = self.spot((point.at.0, point.spread.0));
            let (_, high) = self.spot((point.at.0, point.spread.1));
            if point.faint {
                self.body.push_str("<g class=\"faint\">");
            }
            // A spread smaller than the marker would not be seen.
            if low - high > 9.0 {
                self.body.push_str(&format!(
                    "<g class=\"c{}\"><path class=\"whisker\" d=\"M{x:.1} {low:.1}V{high:.1}\"/></g>",
                    series.style.color
                ));
            }
            let style = Style {
                shape: point.shape.unwrap_or(series.style.shape),
                ..series.style
            };
            self.marker((x, y), style, &point.tooltip);
            if point.faint {
                self.body.push_str("</g>");
            }
        }
    }

    fn labels(&mut self) {
        let mut wanted = Vec::new();
        let mut colors = Vec::new();
        let mut obstacles = Obstacles {
            area: Rect {
                right: self.plot.right + self.chart.frame.font_size * 0.8,
                ..self.plot
            },
            markers: Vec::new(),
            lines: Vec::new(),
        };
        for series in &self.chart.series {
            for point in &series.points {
                if let Some(text) = point.label.clone() {
                    let at = self.spot(point.at);
                    wanted.push(Wanted { text, at });
                    colors.push(series.style.color);
                }
            }
        }
        for series in &self.chart.series {
            let spots: Vec<_> = series
                .points
                .iter()
                .map(|point| self.spot(point.at))
                .collect();
            obstacles
                .markers
                .extend(spots.iter().map(|&at| Rect::around(at, 6.0)));
            if series.line != Line::None {
                obstacles.lines.extend(
                    spots
                        .iter()
                        .zip(spots.iter().skip(1))
                        .map(|(&a, &b)| (a, b)),
                );
            }
        }
        let font = self.chart.frame.font_size;
        if !self.chart.hint.is_empty() {
            obstacles.markers.push(Rect {
                right: self.plot.left + font * 0.6 + text_width(self.chart.hint, font),
                bottom: self.plot.top + font * 1.8,
                ..self.plot
            });
        }
        for placed in place(&wanted, font, &obstacles) {
            let (Some(text), Some(color)) = (wanted.get(placed.index), colors.get(placed.index))
            else {
                continue;
            };
            let Rect {
                left,
                top,
                right,
                bottom,
            } = placed.bounds;
            let (x, y) = ((left + right) / 2.0, (top + bottom) / 2.0);
            if placed.leader {
                let (to_x, to_y) = (text.at.0.clamp(left, right), text.at.1.clamp(top, bottom));
                self.body.push_str(&format!(
                    "<path class=\"leader\" d=\"M{:.1} {:.1}L{to_x:.1} {to_y:.1}\"/>",
                    text.at.0, text.at.1
                ));
            }
            // Towards its point, since the box is a little wider than the text.
            let (anchor, x) = if left >= text.at.0 {
                ("start", left)
            } else if right <= text.at.0 {
                ("end", right)
            } else {
                ("middle", x)
            };
            self.body.push_str(&format!("<g class=\"c{color}\">"));
            let anchor = format!("text-anchor=\"{anchor}\"");
            self.text((x, y + font * 0.35), "halo named", &anchor, &text.text);
            self.body.push_str("</g>");
        }
    }

    /// Names of series right of the plot, moved apart where their ends are close.
    fn names_at_end(&mut self) {
        let font = self.chart.frame.font_size;
        let mut ends: Vec<(f64, f64, &Series)> = self
            .chart
            .series
            .iter()
            .filter(|series| series.named_at_end)
            .filter_map(|series| {
                let (x, y) = self.spot(series.points.last()?.at);
                Some((y, x, series))
            })
            .collect();
        ends.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let wanted: Vec<f64> = ends.iter().map(|&(y, ..)| y).collect();
        let places = apart(&wanted, font * 1.2, (self.plot.top, self.plot.bottom));
        for ((y, x, series), place) in ends.into_iter().zip(places) {
            let left = self.plot.right + 14.0;
            self.body.push_str(&format!(
                "<path class=\"leader\" d=\"M{:.1} {y:.1}L{:.1} {place:.1}\"/><g class=\"c{}\">",
                x + 6.0,
                left - 3.0,
                series.style.color
            ));
            self.text((left, place + font * 0.35), "named", "", &series.name);
            self.body.push_str("</g>");
        }
    }
}

/// Moves sorted places apart to at least `gap`, as little as it takes, within `bounds` if they fit.
fn apart(wanted: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut free_from = low;
    for place in &mut places {
        *place = place.max(free_from);
        free_from = *place + gap;
    }
    let mut free_to = high;
    for place in places.iter_mut().rev() {
        *place = place.min(free_to);
        free_to = *place - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: usize, standalone: bool) -> Chart {
        let values: Vec<(f64, f64)> = (1..=points)
            .map(|index| (0.05 * index as f64, 100.0 * index as f64))
            .collect();
        Chart {
            x: Axis::shares("stored, % of raw", values.iter().map(|value| value.0)),
            y: Axis::fitted("MiB/s", Unit::Plain, values.iter().map(|value| value.1)),
            series: vec![Series {
                name: "ours <best>".to_owned(),
                style: Style { color: 0, shape: 1 },
                line: Line::Dashed,
                points: values
                    .into_iter()
                    .map(|at| Point {
                        at,
                        spread: (at.1 * 0.8, at.1 * 1.1),
                        label: Some(format!("<{}>", at.1)),
                        tooltip: "a \"tip\" & more".to_owned(),
                        shape: None,
                        faint: false,
                    })
                    .collect(),
                named_at_end: true,
            }],
            hint: "better",
            legend: vec![("a & b".to_owned(), Style { color: 0, shape: 1 })],
            frame: Frame {
                title: "Title <1>".to_owned(),
                footer: vec!["foot & note".to_owned()],
                standalone,
                ..Frame::default()
            },
        }
    }

    /// Elements open and close in order, and no text is taken for markup.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        for part in svg.trim_end().split('<').skip(1) {
            let (tag, text) = part.split_once('>').unwrap();
            assert!(!text.contains('>'), "{part}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{part}");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
        }
        assert_eq!(open, Vec::<&str>::new());
    }

    #[test]
    fn a_picture_is_well_formed_and_every_point_is_in_it() {
        for standalone in [false, true] {
            let svg = chart(4, standalone).svg();
            assert_well_formed(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(
                svg.matches("<title>a &quot;tip&quot; &amp; more</title>")
                    .count(),
                4
            );
            assert!(svg.contains("ours &lt;best&gt;") && svg.contains("Title &lt;1&gt;"));
            assert_eq!(svg.contains("<style>"), standalone);
        }
    }

    #[test]
    fn a_picture_without_points_is_still_one() {
        let mut chart = chart(1, false);
        chart.series.clear();
        chart.x = Axis::shares("x", []);
        chart.y = Axis::fitted("y", Unit::Plain, []);
        let svg = chart.svg();
        assert_well_formed(&svg);
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn names_at_the_end_move_apart_and_stay_inside() {
        assert_eq!(apart(&[50.0, 90.0], 10.0, (0.0, 100.0)), [50.0, 90.0]);
        assert_eq!(
            apart(&[50.0, 52.0, 54.0], 10.0, (0.0, 100.0)),
            [50.0, 60.0, 70.0]
        );
        assert_eq!(apart(&[95.0, 97.0], 10.0, (0.0, 100.0)), [90.0, 100.0]);
    }
}
