//! Text that comes from results, made safe for HTML and SVG.

/// `text` as character data or as an attribute's value. What XML cannot hold at all becomes U+FFFD:
/// a picture stands alone as an XML file.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(character),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

/// A table of texts, whose first columns are names and whose others are figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    names: usize,
}

impl Table {
    /// An empty table, of whose columns the first `names` are set to the left.
    pub(crate) fn new<'a>(names: usize, head: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            head: head.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
            names,
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As HTML, in a box that scrolls sideways where the screen is narrow.
    pub(crate) fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let mut html = "<tr>".to_owned();
            for (column, cell) in cells.iter().enumerate() {
                let class = if column < self.names {
                    " class=\"name\""
                } else {
                    ""
                };
                html.push_str(&format!("<{tag}{class}>{}</{tag}>", escaped(cell)));
            }
            html.push_str("</tr>\n");
            html
        };
        let mut html = format!(
            "<div class=\"wide\"><table><thead>{}</thead><tbody>\n",
            row(&self.head, "th")
        );
        for cells in &self.rows {
            html.push_str(&row(cells, "td"));
        }
        html.push_str("</tbody></table></div>\n");
        html
    }

    /// As HTML behind a line to click on.
    pub(crate) fn folded(&self, summary: &str) -> String {
        format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            escaped(summary),
            self.html()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_to_html_is_escaped_and_what_xml_lacks_is_replaced() {
        assert_eq!(
            escaped("<a href='x'>\"&"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;"
        );
        assert_eq!(escaped("C/C++ ünïcode\u{1}"), "C/C++ ünïcode\u{fffd}");
    }

    #[test]
    fn tables_escape_head_and_cells() {
        let mut table = Table::new(1, ["<peer>", "MiB/s"]);
        table.row(["<script>".to_owned(), "12".to_owned()]);
        let html = table.folded("<values>");
        assert!(
            !html.contains("<script>") && !html.contains("<peer>") && !html.contains("<values>")
        );
        assert!(
            html.contains("<td class=\"name\">&lt;script&gt;</td><td>12</td>"),
            "{html}"
        );
    }
}
