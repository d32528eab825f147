//! Colours, shapes and texts of charts, light and dark.
//!
//! Colours are those of Okabe and Ito, told apart by people with any kind of colour vision, darkened
//! or lightened until they contrast with the ground at 3:1 or more. Nothing is told by colour alone:
//! every series has a shape or a text of its own.

/// How a series looks: its colour and the shape of its markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Index into the colours.
    pub(crate) color: usize,
    /// Index into the shapes.
    pub(crate) shape: usize,
}

/// Light and dark.
const COLORS: [(&str, &str); 6] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8f4a"),
    ("#00805d", "#2cc79a"),
    ("#a3488a", "#e29ac6"),
    ("#8f6a00", "#e8b84a"),
    ("#5f6670", "#a9b0ba"),
];

/// The colour of a peer: the same in every chart.
pub(crate) fn color_of(peer: &str) -> usize {
    match peer {
        "ppc" => 0,
        "rocksdb" => 1,
        "fjall" => 2,
        "zip" => 3,
        "files" => 4,
        _ => 5,
    }
}

const GROUND: (&str, &str) = ("#ffffff", "#14181d");
const INK: (&str, &str) = ("#1b1f24", "#e8ebee");
const MUTED: (&str, &str) = ("#59616b", "#a3acb7");
const GRID: (&str, &str) = ("#e3e6ea", "#2b323a");

/// Rules for charts, that follow the reader's choice of light or dark.
pub(crate) fn css() -> String {
    let theme = |pick: fn((&'static str, &'static str)) -> &'static str| {
        let mut rules = format!(
            ".ground{{fill:{ground}}}.ink{{fill:{ink}}}.muted{{fill:{muted}}}.grid{{stroke:{grid}}}\
             .frame{{stroke:{muted}}}.leader{{stroke:{muted}}}.halo{{stroke:{ground}}}\
             .marker{{stroke:{ground}}}",
            ground = pick(GROUND),
            ink = pick(INK),
            muted = pick(MUTED),
            grid = pick(GRID),
        );
        for (index, color) in COLORS.into_iter().enumerate() {
            let color = pick(color);
            rules.push_str(&format!(".c{index}{{color:{color}}}"));
        }
        rules
    };
    format!(
        "svg text{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}\
         .halo{{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}}\
         .marker{{fill:currentColor;stroke-width:1.2}}\
         .line{{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}}\
         .dashed{{stroke-dasharray:6 4}}\
         .whisker{{stroke:currentColor;stroke-width:1.4;opacity:.6}}\
         .faint{{opacity:.38}}\
         .named{{fill:currentColor;font-weight:600}}\
         .grid{{stroke-width:1}}.frame{{stroke-width:1}}.leader{{stroke-width:.8}}\
         {}@media(prefers-color-scheme:dark){{{}}}",
        theme(|(light, _)| light),
        theme(|(_, dark)| dark),
    )
}

/// How many shapes there are.
pub(crate) const SHAPES: usize = 7;

/// A marker of radius 5 around the origin.
pub(super) fn marker(shape: usize) -> &'static str {
    match shape % SHAPES {
        0 => r#"<circle class="marker" r="5.2"/>"#,
        1 => r#"<rect class="marker" x="-4.7" y="-4.7" width="9.4" height="9.4"/>"#,
        2 => r#"<path class="marker" d="M0-6.4 6.4 0 0 6.4-6.4 0z"/>"#,
        3 => r#"<path class="marker" d="M0-6 5.8 4.6H-5.8z"/>"#,
        4 => r#"<path class="marker" d="M0 6 5.8-4.6H-5.8z"/>"#,
        5 => r#"<path class="marker" d="M-6-2h4v-4h4v4h4v4h-4v4h-4v-4h-4z"/>"#,
        _ => r#"<path class="marker" d="M-5.8 0-2.9-5h5.8L5.8 0 2.9 5h-5.8z"/>"#,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as WCAG 2 defines it.
    fn luminance(color: &str) -> f64 {
        let channel = |range| {
            let value = f64::from(u8::from_str_radix(&color[range], 16).unwrap()) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1..3) + 0.7152 * channel(3..5) + 0.0722 * channel(5..7)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn every_colour_contrasts_with_its_ground() {
        for (light, dark) in COLORS {
            assert!(contrast(light, GROUND.0) >= 3.0, "{light}");
            assert!(contrast(dark, GROUND.1) >= 3.0, "{dark}");
        }
        for (light, dark) in [INK, MUTED] {
            assert!(contrast(light, GROUND.0) >= 4.5, "{light}");
            assert!(contrast(dark, GROUND.1) >= 4.5, "{dark}");
        }
    }

    #[test]
    fn the_rules_need_nothing_from_elsewhere() {
        let css = css();
        assert!(!css.contains("url(") && !css.contains("@import") && !css.contains("http"));
    }
}
