//! Results as they are kept, one JSON line for each measured run; and what is made of them.
//!
//! Every line stands alone: it names the machine, the commit, the corpus and every option that bears
//! on its figures, so that files of results can be concatenated, cut and compared. Figures are only
//! ever set against each other within one [`Run`]: same machine, same commit.

mod group;
mod metrics;
mod names;
mod read;
mod record;
mod statistics;
#[cfg(test)]
pub(crate) mod testing;
mod together;

pub use group::{CorpusResults, Measurement, Run, group};
pub use metrics::{EnergyReading, class_name};
pub(crate) use metrics::{
    decoded_per_returned, instructions_per_byte, mib_per_cpu_second, mib_per_second,
    operations_per_second,
};
pub use names::{Configuration, Workload, bytes, date, load_name, number, peer_name, percent};
pub use read::Results;
pub use record::{
    Cell, CorpusId, Costs, Energy, EnergyClass, EnergyDomain, Experiment, IdleWatts, Keys, Load,
    Machine, Record, Space, Temperature,
};
pub use statistics::{Summary, believable, welch_p_value};
pub use together::{largest_of_each, rate_over_all, stored_over_all};
