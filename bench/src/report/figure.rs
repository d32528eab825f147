//! A chart with what it needs beside it: a title, a note, and every plotted value as a table.

use super::chart::Chart;
use super::markup::{Table, escaped};

/// A chart and its texts.
#[derive(Debug)]
pub(crate) struct Figure {
    /// What it shows.
    pub(crate) title: String,
    /// What one should know to read it.
    pub(crate) note: String,
    /// The picture.
    pub(crate) chart: Chart,
    /// Its values, and those that were left out of it.
    pub(crate) values: Table,
}

impl Figure {
    /// As HTML.
    pub(crate) fn html(&self) -> String {
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!("<small>{}</small>", escaped(&self.note))
        };
        format!(
            "<figure><figcaption>{}{note}</figcaption><div class=\"chart\">{}</div>{}</figure>\n",
            escaped(&self.title),
            self.chart.svg(),
            self.values.folded("Values")
        )
    }
}

/// Several figures side by side, where there is room.
pub(crate) fn html_of(figures: &[Figure]) -> String {
    let figures: String = figures.iter().map(Figure::html).collect();
    format!("<div class=\"figures\">{figures}</div>\n")
}
