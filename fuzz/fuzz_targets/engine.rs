//! The engine against a `BTreeMap`: the bytes are a list of operations, power cuts included.
#![no_main]

#[path = "../../engine/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, ops)) = data.split_first() else {
        return;
    };
    let setups = model::setups();
    let setup = &setups[usize::from(first) % setups.len()];
    model::run(setup, &model::decode(ops));
});
