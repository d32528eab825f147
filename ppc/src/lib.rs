//! The PPC store: source code in a sixth of its bytes.
//!
//! Contents live under [`PpcKey`]s, which put files of one extension and one name side by side, so
//! that the engine's tables compress them together; they are found by [`Swhid`] as well.

pub mod archive;
#[cfg(feature = "transfer")]
mod budget;
#[cfg(feature = "transfer")]
pub mod export;
pub mod hash;
#[cfg(feature = "transfer")]
pub mod import;
pub mod key;
pub mod progress;
pub mod salvage;
#[cfg(feature = "transfer")]
pub mod sink;
#[cfg(feature = "transfer")]
pub mod source;
pub mod swhid;
#[cfg(test)]
mod testing;
mod text;
#[cfg(feature = "transfer")]
pub mod tune;

pub use hash::{ContentHash, HashKind, HashKinds, Hashes, Sha1Git};
pub use key::PpcKey;
pub use ppc_engine::{Error, ErrorKind, Result};
pub use swhid::{QualifiedSwhid, Swhid};

/// Keeps the README's example compiling.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadmeExample;
