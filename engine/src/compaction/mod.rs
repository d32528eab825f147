//! Keeps the tree in shape: which tables to merge, merging them, and the threads that do it.
//!
//! ```text
//! picker     version, options, what is busy  ->  a plan   (pure)
//! targets    how many bytes each level may hold           (pure)
//! plan       a plan; what running jobs hold
//! span       the stretch of keys a table reaches over
//! ```
#![cfg_attr(
    not(test),
    expect(dead_code, reason = "the scheduler is not wired to it yet")
)]

mod picker;
mod plan;
mod span;
mod targets;
