//! The decoders of compressed contents: whatever a peer sends is refused, or is as many bytes as the page has; and what
//! is encoded is decoded.
//!
//! Input: a codec, the bytes of the contents, and their code.
#![cfg_attr(fuzzing, no_main)]

use std::cell::RefCell;

use multigrain_fuzz::{Input, fuzz_target};
use multigrain_runtime::fuzzing::Codecs;
use multigrain_types::Compression;

thread_local! {
    static CODECS: RefCell<Codecs> = RefCell::new(Codecs::new());
}

/// Contents that can be encoded are what comes back.
fn check(codecs: &mut Codecs, contents: &[u8]) {
    for codec in Compression::ALL {
        let Some(packed) = codecs.encode(codec, contents).map(<[u8]>::to_vec) else { continue };
        assert!(packed.len() <= contents.len() * 3 / 4, "{codec:?}: {} bytes", packed.len());
        let decoded = codecs.decode(codec, &packed, contents.len());
        assert_eq!(decoded, Some(contents), "{codec:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let codec = Compression::ALL[usize::from(input.byte()) % Compression::ALL.len()];
    let bytes = usize::from(input.short());
    CODECS.with_borrow_mut(|codecs| {
        if let Some(contents) = codecs.decode(codec, input.0, bytes).map(<[u8]>::to_vec) {
            assert_eq!(contents.len(), bytes);
            check(codecs, &contents);
        }
        check(codecs, input.0);
    });
});
