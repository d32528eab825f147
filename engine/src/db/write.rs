//! The write path: group commit.
//!
//! A writer queues its batch. The one at the head of the queue leads: it takes the batches behind it
//! along, appends them to the log, syncs once if any of them asks for it, inserts them into the
//! memtables, and publishes their sequence numbers. The others sleep until their leader is done or
//! their turn to lead has come. A leader that panics latches a failure and still wakes them.
//!
//! **A log that failed is abandoned.** After a failed append or sync nothing may be assumed of the
//! file's tail, so it is never written again, and no later write may be acknowledged on the strength
//! of a log that follows it with a hole between. Instead, the next writer seals the memtables and
//! waits until they are in tables, which makes every acknowledged write durable without the failed
//! file; then it begins a new log, and the failed one is removed. While the disk is full that flush
//! fails, and writes fail with its error; reads go on, and writes as soon as there is room.
//!
//! The failed log is cut back at once to what was acknowledged: on a full disk the torn batch is the
//! first thing that can go, and whole ones, of a group or of a failed sync, must not be found by the
//! next process after their writers were told that they failed. That is best effort: it is left out
//! while others have the store open for reading, since they may be reading the log, and whoever
//! crashes before it is done can find one. The same goes for a log found when the store is opened, unless it is known
//! to be on the disk as far as it can be read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::batch::Encoded;
use super::inner::DbInner;
use super::pipeline::{Generation, Stage};
use super::space::Space;
use crate::dir::{FileKind, file_path};
use crate::error::{Error, ErrorKind, Result};
use crate::iter::RangeTombstone;
use crate::manifest::{ClosedLog, Edit};
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::stats::Counter;
use crate::types::{EntryKind, FileNumber, KeyspaceId, SeqNo};
use crate::wal::{Predecessor, WalOp, WalWriter, decode_batch};

/// A leader takes no more batches along once they sum up to this.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// A value in the memtable is a slice of its batch, unless that would let a small value keep alive
/// a batch more than this many times as long.
const BATCH_SHARE_MIN: usize = 8;

/// One batch on its way.
struct Request {
    batch: Encoded,
    durability: Durability,
    turn: Condvar,
    /// Set by the leader, under the queue's lock.
    outcome: Mutex<Option<Result<()>>>,
}

/// The active memtables and the log behind them. A leader holds it.
pub(super) struct WriteState {
    wal: Option<WalWriter>,
    /// Logs that hold entries of the active memtables.
    pub(super) logs: Vec<FileNumber>,
    /// The logs so far may be on the disk in part only: seal and flush before a new one is begun.
    log_is_doubtful: bool,
    /// The newest sequence number given out.
    pub(super) last_seq: SeqNo,
    pub(super) active: HashMap<KeyspaceId, (Arc<Space>, Arc<Memtable>)>,
}

impl WriteState {
    /// Approximate heap bytes of the active memtables.
    pub(super) fn memory_bytes(&self) -> usize {
        let active = self.active.values();
        active.map(|(_, memtable)| memtable.memory_bytes()).sum()
    }

    /// Lets no new log follow those there are before tables hold what they hold.
    pub(super) fn distrust_log(&mut self) {
        self.log_is_doubtful = true;
    }

    /// Starts taking writes to a keyspace.
    pub(super) fn add_space(&mut self, space: &Arc<Space>) {
        let memtable = Arc::clone(&space.view().memtable);
        self.active.insert(space.id, (Arc::clone(space), memtable));
    }
}

/// See the module's head.
pub(crate) struct WritePath {
    queue: Mutex<VecDeque<Arc<Request>>>,
    pub(super) state: Mutex<WriteState>,
    /// Earlier logs whose entries are not all in tables yet: what a new log names as its
    /// predecessors.
    pub(super) history: Mutex<Vec<Predecessor>>,
}

impl WritePath {
    pub(super) fn new(last_seq: SeqNo) -> Self {
        Self {
            queue: Mutex::default(),
            state: Mutex::new(WriteState {
                wal: None,
                logs: Vec::new(),
                log_is_doubtful: false,
                last_seq,
                active: HashMap::new(),
            }),
            history: Mutex::default(),
        }
    }

    /// Entries of these logs are in tables; a log that replaying does not need is not named.
    pub(super) fn forget_logs(&self, logs: &[FileNumber]) {
        let mut history = self.history.lock();
        history.retain(|predecessor| !logs.contains(&predecessor.number()));
    }
}

impl DbInner {
    /// Applies a batch; on return it is as durable as asked, and visible.
    pub(super) fn write_batch(&self, batch: Encoded, durability: Durability) -> Result<()> {
        self.check_writable()?;
        let request = Arc::new(Request {
            batch,
            durability,
            turn: Condvar::new(),
            outcome: Mutex::new(None),
        });
        let mut queue = self.write.queue.lock();
        queue.push_back(Arc::clone(&request));
        loop {
            if let Some(outcome) = request.outcome.lock().take() {
                return outcome;
            }
            let leads = queue
                .front()
                .is_some_and(|front| Arc::ptr_eq(front, &request));
            if leads {
                break;
            }
            request.turn.wait(&mut queue);
        }
        let mut leader = Leader {
            db: self,
            group: gather(&queue),
            outcome: None,
        };
        drop(queue);
        leader.outcome = Some(self.commit_group(&leader.group));
        drop(leader);
        let own = request.outcome.lock().take();
        own.unwrap_or_else(|| unreachable!("a leader leaves an outcome for each of its group"))
    }

    fn commit_group(&self, group: &[Arc<Request>]) -> Result<()> {
        let mut state = self.write.state.lock();
        self.check_writable()?;
        self.make_room(&mut state)?;
        let valid: Vec<&Arc<Request>> = group
            .iter()
            .filter(|request| match find_dropped(&state, &request.batch) {
                None => true,
                Some(error) => {
                    *request.outcome.lock() = Some(Err(error));
                    false
                }
            })
            .collect();
        let first_seq = SeqNo(state.last_seq.0 + 1);
        let count: u64 = valid
            .iter()
            .map(|request| u64::from(request.batch.count))
            .sum();
        if first_seq.0 + count > SeqNo::MAX.0 {
            return Err(Error::limit("the store's sequence numbers are used up").at_path(&self.dir));
        }
        // Numbers are never used again, even if the log fails: a batch that was reported as failed
        // may still be in it.
        state.last_seq.0 += count;
        self.log_group(&mut state, first_seq, &valid)?;
        let mut seq = first_seq;
        for request in &valid {
            insert_batch(&state, &request.batch, seq)?;
            seq.0 += u64::from(request.batch.count);
        }
        self.visible.store(state.last_seq.0, Ordering::Release);
        let raw_bytes = valid.iter().map(|request| request.batch.raw_bytes).sum();
        self.stats.add(Counter::UserBytesWritten, raw_bytes);
        Ok(())
    }

    /// Appends the batches to the log, as durable as the most demanding of them asks.
    fn log_group(
        &self,
        state: &mut WriteState,
        first_seq: SeqNo,
        group: &[&Arc<Request>],
    ) -> Result<()> {
        let durability = group.iter().map(|request| request.durability).max();
        let Some(durability) = durability else {
            return Ok(());
        };
        let mut wal = match state.wal.take() {
            Some(wal) => wal,
            None => self.begin_log(state)?,
        };
        // Until it is put back: a panic would lose it, and what it has not handed over.
        state.log_is_doubtful = true;
        let len_before = wal.len();
        let appended = append_group(&mut wal, first_seq, group, durability);
        self.stats
            .add(Counter::WalBytesWritten, wal.len() - len_before);
        match appended {
            Ok(()) => {
                if durability == Durability::Sync {
                    self.stats.add(Counter::WalSyncs, 1);
                }
                state.wal = Some(wal);
                state.log_is_doubtful = false;
                Ok(())
            }
            Err(error) => {
                self.abandon_log(state, wal, len_before, &error);
                Err(error)
            }
        }
    }

    /// Makes a new log the current one. What a failure leaves of it goes as soon as nobody reads the
    /// store.
    fn begin_log(&self, state: &mut WriteState) -> Result<WalWriter> {
        let number = self.new_file_number();
        let path = file_path(&self.dir, FileKind::Wal, number);
        let history = self.write.history.lock().clone();
        let created = WalWriter::create(&**self.vfs(), &path, number, &history);
        match &created {
            Ok(_) => state.logs.push(number),
            Err(_) => {
                // A reader that has listed it may be about to open it.
                self.obsolete.lock().add_logs(&[number]);
                self.purge_obsolete();
            }
        }
        created
    }

    /// Gives up a log that failed, whose first `len` bytes hold nothing but acknowledged writes. They
    /// are made as durable as they let themselves be, and the rest is cut off; from the next write
    /// on, tables hold them.
    fn abandon_log(&self, state: &mut WriteState, mut wal: WalWriter, len: u64, error: &Error) {
        tracing::warn!(%error, "the write-ahead log failed and is abandoned");
        state.distrust_log();
        self.cut_log(&mut wal, len);
        // After a failed append this saves what was appended before. After a failed sync it does
        // nothing: such a file is not to be trusted again.
        if let Ok(predecessor) = wal.finish() {
            self.write.history.lock().push(predecessor);
        }
    }

    /// Cuts a log that failed back to `len`, if nobody may be reading it.
    fn cut_log(&self, wal: &mut WalWriter, len: u64) {
        // Or a thread of this process that removes files would pass for a reader.
        let _removers = self.obsolete.lock();
        let Ok(Some(_alone)) = self.lock_out_readers() else {
            return;
        };
        if let Err(error) = wal.cut_back(len) {
            tracing::warn!(%error, "what a failed write left of the log stays for now");
        }
    }

    /// Makes acknowledged writes independent of doubtful logs, before a new one is begun.
    fn replace_doubtful_logs(&self, state: &mut WriteState) -> Result<()> {
        if !state.log_is_doubtful {
            return Ok(());
        }
        self.seal(state);
        self.wait_for_flushes()?;
        // A batch that was reported as failed may stand in that log: never replay it.
        let seq = state.last_seq;
        let keyspaces = state.active.keys();
        let edits = keyspaces.map(|&keyspace| Edit::FlushedUpTo { keyspace, seq });
        self.commit(edits.collect())?;
        // Logs without entries of any memtable have no generation to go with.
        let logs = std::mem::take(&mut state.logs);
        self.write.forget_logs(&logs);
        self.obsolete.lock().add_logs(&logs);
        self.purge_obsolete();
        state.log_is_doubtful = false;
        Ok(())
    }

    /// Seals the active memtables if they are full, and waits for room to do so.
    fn make_room(&self, state: &mut WriteState) -> Result<()> {
        if state.memory_bytes() >= self.options.memtable_bytes {
            self.wait_for_room()?;
            self.seal(state);
        }
        self.replace_doubtful_logs(state)
    }

    /// Waits until every sealed memtable is in tables.
    pub(super) fn wait_for_flushes(&self) -> Result<()> {
        let wait = self.pipeline.begin_wait(&[Stage::Flush]);
        self.work.wake();
        self.pipeline.wait_until(&wait, |sealed| sealed == 0)
    }

    /// Waits until one more generation, and the L0 tables it will become, are welcome.
    fn wait_for_room(&self) -> Result<()> {
        let has_room = |sealed: usize| {
            sealed < self.options.sealed_memtables_max
                && (!self.options.auto_compaction
                    || self.l0_tables_max() + sealed < self.options.l0_stall_trigger)
        };
        if has_room(self.pipeline.len()) {
            return Ok(());
        }
        let wait = self.pipeline.begin_wait(&[Stage::Flush, Stage::Compaction]);
        self.scheduler.retry_now();
        let begun = Instant::now();
        let sealed = self.pipeline.len();
        tracing::info!(
            sealed,
            l0_tables = self.l0_tables_max(),
            "writers wait for room"
        );
        let waited = self.pipeline.wait_until(&wait, has_room);
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.stats.add(Counter::WriteStalls, 1);
        self.stats.add(Counter::WriteStallMicros, micros);
        tracing::info!(micros, "writers go on");
        waited
    }

    /// The most L0 tables that flushes left in one keyspace. Adopted tables do not count: a bulk
    /// load must not stop writers.
    pub(crate) fn l0_tables_max(&self) -> usize {
        let count = |space: &Arc<Space>| {
            let view = space.view();
            let tables = view.version.level(0).iter();
            tables.filter(|table| table.seq_base == SeqNo::ZERO).count()
        };
        self.spaces.read().values().map(count).max().unwrap_or(0)
    }

    /// Seals the active memtables into a generation that the background flushes; false if they
    /// are all empty.
    pub(super) fn seal(&self, state: &mut WriteState) -> bool {
        if state
            .active
            .values()
            .all(|(_, memtable)| memtable.is_empty())
        {
            return false;
        }
        if let Some(mut wal) = state.wal.take() {
            // A log is only followed by another if all of it is on disk, so that a torn tail in
            // the middle of the history is never mistaken for one at its end.
            match wal.finish() {
                Ok(predecessor) => self.write.history.lock().push(predecessor),
                Err(error) => {
                    let len = wal.len();
                    self.abandon_log(state, wal, len, &error);
                }
            }
        }
        let mut memtables = Vec::new();
        for (space, memtable) in state.active.values_mut() {
            if memtable.is_empty() {
                continue;
            }
            memtables.push((Arc::clone(space), space.seal()));
            *memtable = Arc::clone(&space.view().memtable);
        }
        let logs = std::mem::take(&mut state.logs);
        self.pipeline.push(Generation { memtables, logs });
        self.work.wake();
        true
    }

    /// Makes every acknowledged write survive a power cut.
    pub(super) fn sync_log(&self) -> Result<()> {
        let mut state = self.write.state.lock();
        self.check_writable()?;
        self.sync_log_locked(&mut state)
    }

    pub(super) fn sync_log_locked(&self, state: &mut WriteState) -> Result<()> {
        self.replace_doubtful_logs(state)?;
        let Some(mut wal) = state.wal.take() else {
            return Ok(());
        };
        self.stats.add(Counter::WalSyncs, 1);
        if let Err(error) = wal.sync() {
            let len = wal.len();
            self.abandon_log(state, wal, len, &error);
            return Err(error);
        }
        state.wal = Some(wal);
        Ok(())
    }

    /// Writes to tables what was acknowledged, where the log that should hold it is doubtful and no
    /// write came since. Before the store is closed: closing the log cannot save it.
    pub(super) fn save_from_doubtful_logs(&self) -> Result<()> {
        let mut state = self.write.state.lock();
        if !state.log_is_doubtful {
            return Ok(());
        }
        self.check_writable()?;
        self.replace_doubtful_logs(&mut state)
    }

    /// Ends the log for good, when the store is closed. Returns what the next opening needs of it.
    pub(super) fn close_log(&self) -> Result<Vec<ClosedLog>> {
        let mut state = self.write.state.lock();
        let mut history = self.write.history.lock();
        if let Some(wal) = state.wal.take() {
            history.push(wal.close()?);
        }
        // An opening removes the logs of a store whose tables hold everything.
        let is_in_tables = state.memory_bytes() == 0 && self.pipeline.len() == 0;
        if is_in_tables || state.log_is_doubtful {
            return Ok(Vec::new());
        }
        let mut needed = self.pipeline.logs();
        needed.extend(&state.logs);
        let closed = history.iter().map(|log| log.closed());
        Ok(closed.filter(|log| needed.contains(&log.number)).collect())
    }
}

/// Whoever is committing a group. However that ends, the group leaves the queue, each of it is told
/// how, and the next in the queue leads.
struct Leader<'a> {
    db: &'a DbInner,
    /// Its own request comes first.
    group: Vec<Arc<Request>>,
    /// None as long as the commit goes on; still none when it panics.
    outcome: Option<Result<()>>,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            // How far it got is unknown: log, memtables and sequence numbers may not agree.
            let error = Error::new(ErrorKind::Failed, "a write panicked").at_path(&self.db.dir);
            self.db.latch_failure(&error);
            Err(error.with_remedy("open the store again"))
        });
        let mut queue = self.db.write.queue.lock();
        queue.drain(..self.group.len());
        if let Some(next) = queue.front() {
            next.turn.notify_one();
        }
        for request in &self.group {
            let shared = match &outcome {
                Ok(()) => Ok(()),
                Err(error) => Err(error.duplicate()),
            };
            // One that failed on its own account has its outcome already.
            request.outcome.lock().get_or_insert(shared);
            request.turn.notify_one();
        }
    }
}

/// The batches that the leader, first in the queue, takes along.
fn gather(queue: &VecDeque<Arc<Request>>) -> Vec<Arc<Request>> {
    let mut group: Vec<Arc<Request>> = Vec::new();
    let mut bytes = 0;
    for request in queue {
        bytes += request.batch.payload.len();
        if !group.is_empty() && bytes > GROUP_BYTES_MAX {
            break;
        }
        group.push(Arc::clone(request));
    }
    group
}

fn find_dropped(state: &WriteState, batch: &Encoded) -> Option<Error> {
    let is_known = |space: &Arc<Space>| {
        let active = state.active.get(&space.id);
        active.is_some_and(|(active, _)| Arc::ptr_eq(active, space))
    };
    let dropped = batch.spaces.iter().find(|space| !is_known(space))?;
    Some(dropped.dropped_error())
}

fn append_group(
    wal: &mut WalWriter,
    first_seq: SeqNo,
    group: &[&Arc<Request>],
    durability: Durability,
) -> Result<()> {
    let mut seq = first_seq;
    for request in group {
        wal.push(seq, request.batch.count, &[&request.batch.payload])?;
        seq.0 += u64::from(request.batch.count);
    }
    match durability {
        Durability::None => Ok(()),
        Durability::Buffered => wal.hand_over(),
        Durability::Sync => wal.sync(),
    }
}

/// Inserts a batch's entries into the active memtables.
fn insert_batch(state: &WriteState, batch: &Encoded, first_seq: SeqNo) -> Result<()> {
    let mut seq = first_seq;
    let mut last: Option<(KeyspaceId, &Arc<Memtable>)> = None;
    for op in decode_batch(&batch.payload) {
        let op = op?;
        let id = keyspace_of(&op);
        let memtable = match last {
            Some((last_id, memtable)) if last_id == id => memtable,
            _ => match state.active.get(&id) {
                Some((_, memtable)) => memtable,
                None => return Err(Error::corruption("a batch lost its keyspace")),
            },
        };
        last = Some((id, memtable));
        insert_op(memtable, &op, seq, &batch.payload);
        seq.0 += 1;
    }
    Ok(())
}

pub(crate) fn keyspace_of(op: &WalOp<'_>) -> KeyspaceId {
    match *op {
        WalOp::Put { keyspace, .. }
        | WalOp::Delete { keyspace, .. }
        | WalOp::DeleteRange { keyspace, .. } => keyspace,
    }
}

/// Inserts one operation whose bytes are slices of `payload`.
pub(crate) fn insert_op(memtable: &Memtable, op: &WalOp<'_>, seq: SeqNo, payload: &Bytes) {
    match *op {
        WalOp::Put { key, value, .. } => {
            let value = if value.len().saturating_mul(BATCH_SHARE_MIN) >= payload.len() {
                payload.slice_ref(value)
            } else {
                Bytes::copy_from_slice(value)
            };
            memtable.insert(key, seq, EntryKind::Put, value);
        }
        WalOp::Delete { key, .. } => memtable.insert(key, seq, EntryKind::Delete, Bytes::new()),
        WalOp::DeleteRange { start, end, .. } => {
            memtable.insert_range_tombstone(RangeTombstone {
                start: start.to_vec(),
                end: end.map(<[u8]>::to_vec),
                seq,
            });
        }
    }
}
