//! One keyspace of an open store, and the view of it that readers load.
//!
//! A [`View`] is everything a read needs: the memtable that takes the writes, the sealed ones that
//! wait for their flush, and the tables. It is immutable (the active memtable grows, which a
//! reader's sequence number hides) and replaced as a whole: by the write path when memtables are
//! sealed, by a commit when tables change. Readers load it without a lock.
//!
//! A reader must load the view **before** it reads the store's visible sequence number. The other
//! way round, a compaction in between could have dropped the very version that the number asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::error::{Error, ErrorKind};
use crate::manifest::Version;
use crate::memtable::Memtable;
use crate::options::KeyspaceOptions;
use crate::types::KeyspaceId;

/// See the module's head.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    pub(crate) memtable: Arc<Memtable>,
    /// Newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl View {
    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.sealed)
    }
}

/// A keyspace of an open store.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    view: ArcSwap<View>,
    options: ArcSwap<KeyspaceOptions>,
    dropped: AtomicBool,
}

impl Space {
    pub(crate) fn new(
        id: KeyspaceId,
        name: String,
        options: KeyspaceOptions,
        version: Arc<Version>,
    ) -> Self {
        let view = View {
            memtable: Arc::new(Memtable::new()),
            sealed: Vec::new(),
            version,
        };
        Self {
            id,
            name,
            view: ArcSwap::from_pointee(view),
            options: ArcSwap::from_pointee(options),
            dropped: AtomicBool::new(false),
        }
    }

    /// The view at this moment, for a read that is over soon.
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The view at this moment, to keep.
    pub(crate) fn view_owned(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn options(&self) -> Arc<KeyspaceOptions> {
        self.options.load_full()
    }

    pub(crate) fn set_options(&self, options: KeyspaceOptions) {
        self.options.store(Arc::new(options));
    }

    /// Makes the active memtable the newest sealed one. The write path calls it, between writes.
    pub(crate) fn seal(&self) -> Arc<Memtable> {
        let previous = self.view.rcu(|view| {
            let mut sealed = Vec::with_capacity(view.sealed.len() + 1);
            sealed.push(Arc::clone(&view.memtable));
            sealed.extend(view.sealed.iter().cloned());
            View {
                memtable: Arc::new(Memtable::new()),
                sealed,
                version: Arc::clone(&view.version),
            }
        });
        Arc::clone(&previous.memtable)
    }

    /// Installs a version, without the memtable whose entries it now holds. The commit path calls
    /// it, one commit at a time.
    pub(crate) fn install(&self, version: &Arc<Version>, flushed: Option<&Arc<Memtable>>) {
        self.view.rcu(|view| View {
            memtable: Arc::clone(&view.memtable),
            sealed: view
                .sealed
                .iter()
                .filter(|memtable| flushed.is_none_or(|flushed| !Arc::ptr_eq(memtable, flushed)))
                .cloned()
                .collect(),
            version: Arc::clone(version),
        });
    }

    /// Whether the keyspace was dropped; handles to it outlive it.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The error of every use of a keyspace that was dropped.
    pub(crate) fn dropped_error(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            "the keyspace was dropped, or is another store's",
        )
        .in_keyspace(&self.name)
        .with_remedy("get a handle from the store that is open now")
    }

    /// Marks the keyspace dropped and lets go of what it held.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
        self.view.store(Arc::default());
    }
}
