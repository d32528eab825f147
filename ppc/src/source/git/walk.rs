//! Which blobs a repository has, and under which names.

use std::collections::HashMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::hashtable::{HashMap as IdMap, HashSet as IdSet};
use gix::objs::tree::EntryKind;
use gix::objs::{CommitRefIter, Kind, TagRefIter, TreeRefIter};

use super::{ObjectProblem, ProblemKind, one_line};
use crate::key::split_name;

/// What a walk found.
pub(super) struct Found {
    /// The blobs, ordered by the extension, stem and id of their keys.
    pub(super) blobs: Vec<NamedBlob>,
    pub(super) problems: Vec<ObjectProblem>,
}

/// A blob and the name it is imported under.
pub(super) struct NamedBlob {
    pub(super) name: Arc<[u8]>,
    pub(super) id: ObjectId,
}

/// The leading candidate for a blob's name: a vote in which each distinct tree has one voice for
/// each entry. A name that more than half of them give always wins, with two words of state.
#[derive(Clone, Copy)]
struct Candidate {
    name: u32,
    lead: u32,
}

/// A walk in progress. Its stack and sets are on the heap, so neither the depth of a tree nor the
/// length of a history matters, and what was seen is never visited again.
pub(super) struct Walk<'a> {
    repository: &'a gix::Repository,
    hash_kind: gix::hash::Kind,
    is_shallow: bool,
    /// Commits, tags and trees that were pushed on the stack at some time.
    seen: IdSet<ObjectId>,
    stack: Vec<ObjectId>,
    blobs: IdMap<ObjectId, Candidate>,
    links: IdSet<ObjectId>,
    names: Vec<Arc<[u8]>>,
    name_numbers: HashMap<Arc<[u8]>, u32>,
    problems: Vec<ObjectProblem>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(repository: &'a gix::Repository) -> Self {
        let unnamed: Arc<[u8]> = Arc::from([]);
        Self {
            repository,
            hash_kind: repository.object_hash(),
            is_shallow: repository.is_shallow().unwrap_or(false),
            seen: IdSet::default(),
            stack: Vec::new(),
            blobs: IdMap::default(),
            links: IdSet::default(),
            names: vec![unnamed.clone()],
            name_numbers: HashMap::from([(unnamed, 0)]),
            problems: Vec::new(),
        }
    }

    /// Walks everything that a ref, or a detached head, reaches.
    pub(super) fn reachable(&mut self) -> gix::Result<()> {
        let mut targets = Vec::new();
        for reference in self.repository.references()?.all()? {
            // A symbolic ref points to another one, which comes by itself.
            targets.extend(reference?.try_id().map(gix::Id::detach));
        }
        // An unborn head has no id, and a broken one reaches nothing.
        targets.extend(self.repository.head_id().map(gix::Id::detach).ok());
        targets.sort_unstable();
        for target in targets {
            self.push(target);
        }
        while let Some(id) = self.stack.pop() {
            self.visit(id);
        }
        Ok(())
    }

    /// Takes every blob in the object database; trees, reachable or not, name them.
    pub(super) fn all_objects(&mut self) -> gix::Result<()> {
        let mut ids = Vec::new();
        for id in self.repository.objects.iter()? {
            ids.push(id.map_err(gix::Error::from_error)?);
        }
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            match self.repository.find_header(id) {
                Ok(header) if header.kind() == Kind::Tree => {
                    self.visit(id);
                    // Its subtrees come by themselves.
                    self.stack.clear();
                }
                Ok(header) if header.kind() == Kind::Blob => self.take_unnamed(id),
                Ok(_) => {}
                Err(error) => self.report(id, ProblemKind::Unreadable, one_line(&error)),
            }
        }
        Ok(())
    }

    /// The blobs with their names, and the problems, both in a fixed order.
    pub(super) fn finish(mut self) -> Found {
        let mut links: Vec<ObjectId> = self.links.drain().collect();
        links.retain(|id| !self.blobs.contains_key(id));
        links.sort_unstable();
        for id in links {
            let message = "the target of a symbolic link".to_owned();
            self.report(id, ProblemKind::NotAFile, message);
        }
        let names = self.names;
        let named = self.blobs.into_iter().filter_map(|(id, candidate)| {
            let name = names.get(candidate.name as usize)?.clone();
            Some(NamedBlob { name, id })
        });
        let mut blobs: Vec<NamedBlob> = named.collect();
        blobs.sort_unstable_by(|a, b| {
            split_name(&a.name)
                .cmp(&split_name(&b.name))
                .then_with(|| a.id.cmp(&b.id))
        });
        Found {
            blobs,
            problems: self.problems,
        }
    }

    fn push(&mut self, id: ObjectId) {
        if self.seen.insert(id) {
            self.stack.push(id);
        }
    }

    fn report(&mut self, id: ObjectId, kind: ProblemKind, message: String) {
        self.problems.push(ObjectProblem { id, kind, message });
    }

    fn visit(&mut self, id: ObjectId) {
        let object = match self.repository.try_find_object(id) {
            Ok(Some(object)) => object,
            // The commits that a shallow clone leaves out are missing by design.
            Ok(None) if self.is_shallow => return,
            Ok(None) => {
                let message = "the object is missing; is this a partial clone?".to_owned();
                return self.report(id, ProblemKind::Unreadable, message);
            }
            Err(error) => return self.report(id, ProblemKind::Unreadable, one_line(&error)),
        };
        let visited = match object.kind {
            Kind::Blob => {
                self.take_unnamed(id);
                Ok(())
            }
            Kind::Tree => self.visit_tree(&object.data),
            Kind::Commit => self.visit_commit(&object.data),
            Kind::Tag => TagRefIter::from_bytes(&object.data, self.hash_kind)
                .target_id()
                .map(|target| self.push(target))
                .map_err(|error| error.to_string()),
        };
        if let Err(message) = visited {
            let message = format!("malformed {}: {message}", object.kind);
            let message = message.replace(char::is_control, " ");
            self.report(id, ProblemKind::Unreadable, message);
        }
    }

    fn visit_commit(&mut self, data: &[u8]) -> Result<(), String> {
        let mut commit = CommitRefIter::from_bytes(data, self.hash_kind);
        let tree = commit.tree_id().map_err(|error| error.to_string())?;
        for parent in commit.parent_ids() {
            self.push(parent);
        }
        // On top of the stack, so that trees are done before the history goes on.
        self.push(tree);
        Ok(())
    }

    fn visit_tree(&mut self, data: &[u8]) -> Result<(), String> {
        for entry in TreeRefIter::from_bytes(data, self.hash_kind) {
            let entry = entry.map_err(|error| error.to_string())?;
            let id = entry.oid.to_owned();
            match entry.mode.kind() {
                EntryKind::Tree => self.push(id),
                EntryKind::Blob | EntryKind::BlobExecutable => self.vote(id, entry.filename),
                EntryKind::Link => {
                    self.links.insert(id);
                }
                // A submodule's commit lies in another repository.
                EntryKind::Commit => {}
            }
        }
        Ok(())
    }

    fn take_unnamed(&mut self, id: ObjectId) {
        let unnamed = Candidate { name: 0, lead: 0 };
        if !self.links.contains(&id) {
            self.blobs.entry(id).or_insert(unnamed);
        }
    }

    fn vote(&mut self, id: ObjectId, name: &[u8]) {
        let number = self.name_number(name);
        let first = Candidate {
            name: number,
            lead: 0,
        };
        let candidate = self.blobs.entry(id).or_insert(first);
        if candidate.name == number {
            candidate.lead = candidate.lead.saturating_add(1);
        } else if candidate.lead == 0 {
            *candidate = Candidate {
                name: number,
                lead: 1,
            };
        } else {
            candidate.lead -= 1;
        }
    }

    fn name_number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.name_numbers.get(name) {
            return *number;
        }
        let Ok(number) = u32::try_from(self.names.len()) else {
            // Four thousand million distinct names: the rest go unnamed.
            return 0;
        };
        let name: Arc<[u8]> = Arc::from(name);
        self.names.push(name.clone());
        self.name_numbers.insert(name, number);
        number
    }
}
