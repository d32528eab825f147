//! Random runs of a store against its model. `PPC_MODEL_RUNS` sets how many; a failure names the
//! setup and the seed, which `PPC_MODEL_SEED` runs alone.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_runs_agree_with_the_model() {
    let seeds = match from_env("PPC_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_env("PPC_MODEL_RUNS").unwrap_or(12),
    };
    for seed in seeds {
        let mut bytes = vec![0; 3000];
        StdRng::seed_from_u64(seed).fill(bytes.as_mut_slice());
        let ops = crate::model::decode(&bytes);
        for setup in crate::model::setups() {
            let run = std::panic::AssertUnwindSafe(|| crate::model::run(&setup, &ops));
            if let Err(panic) = std::panic::catch_unwind(run) {
                eprintln!("setup {:?}, PPC_MODEL_SEED={seed}", setup.name);
                std::panic::resume_unwind(panic);
            }
        }
    }
}
