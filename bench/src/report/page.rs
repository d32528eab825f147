//! The page: its sections, and how they look.

use super::chart::css;
use super::figure::html_of;
use super::markup::escaped;
use super::sample::{Scope, scopes};
use super::{beside_paper, frontier, over_ratio, over_steps, tables};
use crate::corpus::Features;
use crate::results::{Run, bytes, date, largest_of_each};

const RULES: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--muted:#59616b;--rule:#d9dde2;--band:#f5f6f8;--link:#0072b2}
@media(prefers-color-scheme:dark){:root{--ground:#14181d;--ink:#e8ebee;--muted:#a3acb7;--rule:#323a43;--band:#1b2127;--link:#56b4e9}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1.25rem 4rem;max-width:84rem;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.35rem;margin:3rem 0 .5rem;padding-top:.6rem;border-top:1px solid var(--rule)}
h3{font-size:1.1rem;margin:1.8rem 0 .4rem}h4{font-size:1rem;margin:1.2rem 0 .3rem}
p,ul{max-width:46rem}a{color:var(--link)}
.muted,small{color:var(--muted)}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:1rem 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,34rem),1fr));gap:1.5rem 2rem}
figure{margin:0;min-width:0}figcaption{font-weight:600}figcaption small{display:block;font-weight:400}
.chart,.wide{overflow-x:auto}.chart svg{display:block;width:100%;min-width:26rem;max-width:46rem;height:auto}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;margin:.5rem 0}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{font-weight:600;vertical-align:bottom;white-space:normal;min-width:4rem}
th.name,td.name{text-align:left}tbody tr:nth-child(even){background:var(--band)}
summary{cursor:pointer;color:var(--link);padding:.3rem 0}
.scope>summary{font-size:1.1rem;font-weight:600;color:inherit;margin:.8rem 0 .4rem}
@media print{details>*{display:block}nav{display:none}}
";

/// The whole report.
pub(crate) fn html(runs: &[Run], notes: &[String], features: &[Features]) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>ppc-bench: results</title>\n<style>\n{RULES}{}</style></head><body>\n\
         <h1>Source code stores, measured: size, speed and energy</h1>\n",
        css()
    );
    if runs.len() > 1 {
        html.push_str(&format!(
            "<p>The results are of {} runs, each of one machine at one commit. They stand one after the \
             other; no figure of one is set against a figure of another.</p>\n",
            runs.len()
        ));
    }
    for (index, run) in runs.iter().enumerate() {
        html.push_str(&run_html(run, notes, features, index));
    }
    html.push_str("</body></html>\n");
    html
}

fn run_html(run: &Run, notes: &[String], features: &[Features], index: usize) -> String {
    let machine = &run.machine;
    let (first, last) = run.period();
    let days = if date(first) == date(last) {
        date(first)
    } else {
        format!("{} to {}", date(first), date(last))
    };
    let all_scopes = scopes(run);
    // Smaller corpora of a name are parts of the largest, measured for their size alone.
    let largest = largest_of_each(run);
    let main = |scope: &&Scope<'_>| match scope.corpora.as_slice() {
        [one] => largest.iter().any(|results| results.corpus == one.corpus),
        _ => true,
    };
    let scopes: Vec<&Scope<'_>> = all_scopes.iter().filter(main).collect();
    let mut sections: Vec<(&str, String)> = vec![
        (
            "Size against speed",
            of_each(&scopes, |scope| html_of(&frontier::figures(scope))),
        ),
        (
            "Goals",
            format!(
                "<p>Where the clustered layout stands beside RocksDB loaded by puts, as in the paper, in \
             this run. The ratio to RocksDB loaded by sorted SST files stands at the right.</p>\n{}",
                tables::goals(run)
            ),
        ),
        (
            "Over ratio",
            of_each(&scopes, |scope| html_of(&over_ratio::figures(scope))),
        ),
        (
            "Over threads",
            of_each(&scopes, |scope| html_of(&over_steps::over_threads(scope))),
        ),
        (
            "As a corpus grows",
            html_of(&over_steps::over_size(&all_scopes)),
        ),
        ("Beside the paper", {
            let mut tables = String::new();
            for scope in &scopes {
                let content = beside_paper::html(scope);
                tables.push_str(&folding(&escaped(&scope.name), &content, tables.is_empty()));
            }
            format!("{}{tables}", beside_paper::introduction())
        }),
        ("Corpora", tables::corpora(run, features)),
        ("Machine", tables::machine(run)),
        ("What could not be measured", tables::missing(run, notes)),
        ("Every cell", tables::every_cell(run)),
    ];
    // A headline over nothing tells nothing.
    sections.retain(|(_, content)| {
        content.contains("<figure") || !content.contains("class=\"figures\"")
    });

    let mut html = format!(
        "<p class=\"muted\">{} · {} · {} processors, {} of memory · Linux {} · commit {}</p>\n<nav>",
        escaped(&days),
        escaped(&machine.cpu),
        machine.cpus,
        bytes(machine.memory_bytes),
        escaped(&machine.kernel),
        escaped(&machine.commit)
    );
    for (number, (title, _)) in sections.iter().enumerate() {
        html.push_str(&format!("<a href=\"#s{index}-{number}\">{title}</a>"));
    }
    html.push_str("</nav>\n");
    for (number, (title, content)) in sections.iter().enumerate() {
        html.push_str(&format!(
            "<section><h2 id=\"s{index}-{number}\">{title}</h2>\n{content}</section>\n"
        ));
    }
    html
}

/// The same section for each scope that has something to show, under its name. The first is open to
/// the eye, the others fold.
fn of_each(scopes: &[&Scope<'_>], content: impl Fn(&Scope<'_>) -> String) -> String {
    let mut html = String::new();
    for scope in scopes {
        let content = content(scope);
        if !content.contains("<figure") {
            continue;
        }
        let summary = format!(
            "{} <small>{}</small>",
            escaped(&scope.name),
            escaped(&scope.extent)
        );
        html.push_str(&folding(&summary, &content, html.is_empty()));
    }
    if html.is_empty() {
        "<div class=\"figures\"></div>".to_owned()
    } else {
        html
    }
}

/// Content that folds under its headline.
pub(crate) fn folding(summary: &str, content: &str, open: bool) -> String {
    let open = if open { " open" } else { "" };
    format!("<details class=\"scope\"{open}><summary>{summary}</summary>\n{content}</details>\n")
}
