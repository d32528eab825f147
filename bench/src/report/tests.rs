//! The report as a whole.

use super::page;
use crate::results::testing::{Builder, record};
use crate::results::{EnergyClass, Experiment, Keys, Record, Temperature, group};

/// A run with every kind of cell.
fn records() -> Vec<Record> {
    let stores: Vec<Builder> = vec![
        record().layout("balanced"),
        record().layout("dense").codec("zstd-6"),
        record().rocksdb("zstd-6", 4),
        record().rocksdb("zstd-9", 128),
        record().peer("raw-zstd").layout("blocks").codec("zstd-6"),
    ];
    let mut records = Vec::new();
    for (index, store) in stores.into_iter().enumerate() {
        let store = store.stored_bytes((100 + index as u64) << 20);
        records.push(store.clone().builds().build());
        records.push(
            store
                .clone()
                .experiment(Experiment::Scan)
                .keys(Keys::None)
                .build(),
        );
        records.push(
            store
                .clone()
                .experiment(Experiment::Miss)
                .value_mib(0)
                .build(),
        );
        for threads in [1, 2] {
            let energy = store
                .clone()
                .energy(EnergyClass::Modelled, &[("model", 0, 3.0)]);
            records.push(energy.threads(threads).build());
        }
        let cold = store.with(|record| record.cell.temperature = Temperature::Cold);
        records.push(cold.build());
    }
    records
}

#[test]
fn every_cell_is_in_the_report() {
    let runs = group(records());
    let cells = runs[0].measurements().count();
    let html = page::html(&runs, &[], &[]);
    let table = html.split("Every cell</h2>").nth(1).unwrap();
    assert!(table.contains(&format!("python: {cells} cells")));
    assert_eq!(table.matches("<tr>").count(), cells + 1);
    for name in [
        "single gets, uniform, 2 threads, warm",
        "misses, uniform, 1 thread, warm",
        "scan, 1 thread",
    ] {
        assert!(table.contains(name), "{name}");
    }
    for section in [
        "Size against speed",
        "Over ratio",
        "Over threads",
        "Beside the paper",
    ] {
        assert!(html.contains(&format!("{section}</h2>")), "{section}");
    }
    assert!(
        !html.contains("As a corpus grows"),
        "there is one size only"
    );
}

#[test]
fn an_energy_never_stands_without_its_class() {
    let html = page::html(&group(records()), &[], &[]);
    assert!(html.contains("MB/J (modelled, model)"));
    assert!(html.contains("<td>modelled, model</td>") && html.contains("<td>unavailable</td>"));
    assert!(html.contains("unavailable. no meter: a virtual machine"));
}

#[test]
fn the_report_needs_nothing_from_elsewhere() {
    let html = page::html(&group(records()), &[], &[]);
    for foreign in [
        "<script", "<link", "<img", "src=", "url(", "@import", "https://",
    ] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    // The only addresses are the names of namespaces.
    assert_eq!(
        html.matches("http://").count(),
        html.matches("http://www.w3.org/2000/svg").count()
    );
}

#[test]
fn names_from_results_cannot_break_the_page() {
    let evil = "</table><script>alert(1)</script>&'\"";
    let records = records().into_iter().map(|mut record| {
        record.corpus.name = evil.to_owned();
        record.machine.cpu = evil.to_owned();
        record.machine.commit = evil.to_owned();
        record.cell.codec = evil.to_owned();
        record.options.insert(evil.to_owned(), evil.to_owned());
        record.costs.energy.source = evil.to_owned();
        record
    });
    let html = page::html(&group(records), &[evil.to_owned()], &[]);
    assert!(!html.contains("<script"));
    assert_eq!(
        html.matches("<table>").count(),
        html.matches("</table>").count()
    );
    assert!(html.contains("&lt;/table&gt;&lt;script&gt;"));
}

#[test]
fn notes_on_the_files_are_told() {
    let html = page::html(
        &group(records()),
        &["runs.jsonl, line 7: cut short".to_owned()],
        &[],
    );
    assert!(html.contains("runs.jsonl, line 7: cut short"));
    assert!(html.contains("Not measured in this run: fjall, zip, files, memcpy."));
}
