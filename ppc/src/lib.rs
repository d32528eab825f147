//! The PPC store.
