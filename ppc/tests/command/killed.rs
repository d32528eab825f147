//! Puts, deletes and compactions that are killed with signal 9 at any moment: what was
//! acknowledged is so, and nothing is so by half.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ppc_store::{Sha1Git, Swhid};

use crate::support::{
    Dice, Scene, args, kill_rounds, noise, run, run_and_kill, source_text, succeed, succeed_json,
};

/// A file that is put and deleted again and again.
struct Piece {
    path: PathBuf,
    swhid: String,
    is_stored: bool,
}

/// Files of all sizes, none of them stored yet.
fn pieces(scene: &Scene, count: u64) -> Vec<Piece> {
    let content = |number: u64| match number % 40 {
        7 => noise(number, 400_000),
        _ => source_text(number, number as usize % 90),
    };
    (0..count)
        .map(|number| {
            let (name, content) = (format!("{number}/f{}.py", number % 9), content(number));
            let folder = scene.folder("pieces", [(name.as_bytes(), &content[..])]);
            Piece {
                path: folder.join(name),
                swhid: Swhid::content(Sha1Git::of(&content)).to_string(),
                is_stored: false,
            }
        })
        .collect()
}

/// What is done to the store, and how long it may take: the reach grows while kills come before
/// the end, and shrinks while they come after it, so that they come at any moment.
struct Operation {
    name: &'static str,
    reach: Duration,
}

impl Operation {
    fn new(name: &'static str) -> Self {
        let reach = Duration::from_millis(30);
        Self { name, reach }
    }

    fn delay(&mut self, dice: &mut Dice) -> Duration {
        Duration::from_micros(dice.below(self.reach.as_micros() as u64))
    }

    fn learn(&mut self, was_killed: bool) {
        if was_killed {
            self.reach += self.reach / 8;
        } else {
            self.reach -= self.reach / 4;
        }
    }
}

/// Checks the store from outside: every byte, and which of the pieces it holds.
fn check(scene: &Scene, pieces: &[Piece], hashes: u64) -> BTreeSet<String> {
    let verified = succeed_json(args([&"verify", &scene.store()]));
    let listed = succeed(args([&"ls", &scene.store(), &"--swhid"]));
    let listed = String::from_utf8(listed).unwrap();
    let found: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    assert_eq!(found.len(), listed.lines().count(), "{listed}");
    assert_eq!(verified["damages"], 0);
    assert_eq!(verified["files"], found.len());
    assert_eq!(verified["index_entries"], hashes * found.len() as u64);
    assert!(
        found
            .iter()
            .all(|swhid| pieces.iter().any(|it| it.swhid == *swhid))
    );
    found
}

#[test]
fn a_killed_write_or_compaction_loses_nothing_and_leaves_nothing_by_half() {
    let rounds = kill_rounds(16);
    let scene = Scene::new();
    let mut dice = Dice::new(rounds);
    let mut pieces = pieces(&scene, 240);
    let empty = scene.folder("empty", []);
    let index = "sha256";
    succeed(args([
        &"import",
        &scene.store(),
        &empty,
        &"--index",
        &index,
    ]));

    let mut operations = [
        Operation::new("put"),
        Operation::new("rm"),
        Operation::new("compact"),
    ];
    let (mut killed, mut done) = (0, 0);
    for round in 0..rounds {
        // Every third round compacts, and the first ones put.
        let at = match round % 3 {
            2 => 2,
            _ => usize::from(round > 3 && dice.below(2) == 0),
        };
        let operation = &mut operations[at];
        let mut line = args([&operation.name, &scene.store()]).to_vec();
        let mut touched = BTreeSet::new();
        if operation.name == "compact" {
            line.extend((dice.below(2) == 0).then(|| OsString::from("--rewrite")));
        } else {
            for _ in 0..=dice.below(40) {
                touched.insert(dice.below(pieces.len() as u64) as usize);
            }
            line.extend(touched.iter().map(|&at| match operation.name {
                "put" => pieces[at].path.clone().into(),
                _ => OsString::from(&pieces[at].swhid),
            }));
        }

        let output = run_and_kill(&line, operation.delay(&mut dice));
        let errors = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code();
        // 3: some of what was to be deleted was not there.
        assert!(
            matches!(code, None | Some(0 | 3)),
            "round {round}: {code:?}: {errors}"
        );
        operation.learn(code.is_none());
        *(if code.is_none() {
            &mut killed
        } else {
            &mut done
        }) += 1;

        let said = String::from_utf8(output.stdout).unwrap();
        let found = check(&scene, &pieces, 2);
        for (at, piece) in pieces.iter_mut().enumerate() {
            let is_found = found.contains(&piece.swhid);
            let becomes = match operation.name {
                _ if !touched.contains(&at) => piece.is_stored,
                "put" => true,
                _ => false,
            };
            // A delete is acknowledged line by line, a put by the command's end.
            let is_acknowledged = code.is_some()
                || !touched.contains(&at)
                || said.contains(&format!("{} deleted", piece.swhid));
            assert!(
                is_found == becomes || (!is_acknowledged && is_found == piece.is_stored),
                "round {round}, killed: {}, {}: {} was stored: {}, is: {is_found}",
                code.is_none(),
                operation.name,
                piece.swhid,
                piece.is_stored
            );
            piece.is_stored = is_found;
        }
    }
    println!("{killed} killed, {done} ended by themselves");
    assert!(killed > 0, "no command was killed");
}

#[test]
fn a_put_killed_while_it_makes_the_store_can_be_run_again() {
    let mut operation = Operation::new("put");
    let mut dice = Dice::new(7);
    for round in 0..kill_rounds(8) {
        let scene = Scene::new();
        let pieces = pieces(&scene, 3);
        let mut line = args([&"put", &scene.store()]).to_vec();
        line.extend(pieces.iter().map(|piece| piece.path.clone().into()));
        let output = run_and_kill(&line, operation.delay(&mut dice));
        operation.learn(output.status.code().is_none());
        let again = run(&line);
        let errors = String::from_utf8(again.stderr).unwrap();
        assert!(again.status.success(), "round {round}: {errors}");
        assert_eq!(check(&scene, &pieces, 1).len(), pieces.len());
    }
}
