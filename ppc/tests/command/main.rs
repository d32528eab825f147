//! The command as a user meets it: run as a process, judged by what it prints, how it exits, and
//! what it leaves on the disk.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail tests by panicking"
)]

mod answers;
mod clusters;
mod damage;
mod disk;
mod killed;
mod lost_manifest_end;
mod resume;
mod round_trip;
mod sources;
mod support;
mod tune;
mod wrong_input;
