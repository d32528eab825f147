//! Random runs of a store against its model, each under one of the odd setups.
//!
//! `PPC_SIM_SEEDS` sets how many, `PPC_SIM_OPS` how long each; a failure prints the command that
//! repeats it (background threads may need it repeated more than once). In every third run no call
//! fails but for want of room, which is excused least.

use crate::model::Op;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// More bytes than any operation takes on average.
const BYTES_PER_OP: usize = 24;

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn fill_instead(op: &mut Op) {
    if let Op::Fault { plan } = op {
        let room_bytes = plan.nth * 300;
        *op = Op::Fill { room_bytes };
    }
}

#[test]
fn random_runs_agree_with_the_model() {
    let ops_max = from_env("PPC_SIM_OPS").map_or(200, |ops| ops as usize);
    let seeds = match from_env("PPC_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_env("PPC_SIM_SEEDS").unwrap_or(24),
    };
    let setups = crate::model::setups();
    for seed in seeds {
        let setup = &setups[seed as usize % setups.len()];
        let mut bytes = vec![0; ops_max * BYTES_PER_OP];
        StdRng::seed_from_u64(seed).fill(bytes.as_mut_slice());
        let mut ops = crate::model::decode(&bytes);
        ops.truncate(ops_max);
        if seed % 3 == 1 {
            ops.iter_mut().for_each(fill_instead);
        }
        let run = std::panic::AssertUnwindSafe(|| crate::model::run(setup, &ops));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("with the setup {:?}; again with:", setup.name);
            eprintln!(
                "PPC_SIM_SEED={seed} PPC_SIM_OPS={ops_max} \
                 cargo test -p ppc-engine --test scenarios random_runs"
            );
            std::panic::resume_unwind(panic);
        }
    }
}
