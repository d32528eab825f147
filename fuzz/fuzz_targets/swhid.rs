//! SWHIDs, core and qualified: what is accepted must come back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_store::{QualifiedSwhid, Swhid};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Ok(swhid) = text.parse::<Swhid>() {
        assert_eq!(swhid.to_string(), text);
    }
    if let Ok(swhid) = text.parse::<QualifiedSwhid>() {
        assert_eq!(swhid.to_string().parse::<QualifiedSwhid>().ok(), Some(swhid));
    }
});
