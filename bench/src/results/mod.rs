//! Results as they are kept: one JSON line for each measured run.
//!
//! Every line stands alone: it names the machine, the commit, the corpus and every option that bears
//! on its figures, so that files of results can be concatenated, cut and compared.

mod record;

pub use record::{
    Cell, CorpusId, Costs, Energy, EnergyClass, EnergyDomain, Experiment, IdleWatts, Keys, Load,
    Machine, Record, Space, Temperature,
};
