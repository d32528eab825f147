//! PPC keys, in both forms: what is accepted must come back as it was, also as an id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ppc_store::PpcKey;
use ppc_store::archive::Id;

fuzz_target!(|data: &[u8]| {
    if let Ok(key) = PpcKey::decode(data) {
        assert_eq!(key.encode(), data);
        let text = key.to_string();
        assert_eq!(text.parse::<PpcKey>().ok(), Some(key.clone()));
        assert_eq!(text.parse::<Id>().ok(), Some(Id::Key(key)));
    }
    if let Ok(key) = String::from_utf8_lossy(data).parse::<PpcKey>() {
        assert_eq!(PpcKey::decode(&key.encode()).ok(), Some(key));
    }
});
