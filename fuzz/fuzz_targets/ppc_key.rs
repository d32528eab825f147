//! PPC keys, in both forms: what is accepted must come back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_store::PpcKey;

fuzz_target!(|data: &[u8]| {
    if let Ok(key) = PpcKey::decode(data) {
        assert_eq!(key.encode(), data);
        assert_eq!(key.to_string().parse::<PpcKey>().ok(), Some(key));
    }
    if let Ok(key) = String::from_utf8_lossy(data).parse::<PpcKey>() {
        assert_eq!(PpcKey::decode(&key.encode()).ok(), Some(key));
    }
});
