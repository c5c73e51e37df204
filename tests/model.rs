//! A bounded, exhaustive check of the whole updater: every sequence of operations up to a length, with a fault at every
//! call, on the simulated kernel in both dialects, against a model of plain maps.
//!
//! States that are alike (in the kernel, in the updater and in the model) go on alike, so each is looked at once: a
//! search by breadth through the states covers all sequences, and how many there are is counted along the
//! edges. One of the steps may be disturbed: each restore and each save that it makes fails in each way, once or from
//! then on. `IPTABLES_UPDATER_MODEL_DEPTH=5` makes the sequences longer than the default.

mod common;
#[path = "model/expected.rs"]
mod expected;
#[path = "model/plane.rs"]
mod plane;
#[path = "model/world.rs"]
mod world;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use expected::{Interference, Model, Operation};
use iptables_updater::{Backend, IpVersion, MemoryExecutor, Table};
use plane::Plane;
use world::{Injection, Step, Way, World, snapshot};

/// What makes two states alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kernel: String,
    memory: String,
    /// What the index says of the chains that somebody else has deleted.
    index: String,
    model: Model,
    disturbed: bool,
}

/// A state, and how often each other state comes next.
struct State {
    way: Way,
    model: Model,
    disturbed: bool,
    depth: usize,
    next: HashMap<usize, u128>,
    /// Steps after which the sequence ends, because no updater is left.
    ends: u128,
}

#[derive(Default)]
struct Search {
    states: Vec<State>,
    known: HashMap<Key, usize>,
    steps: u64,
    faults: u64,
    refusals: u64,
    settled: u64,
}

/// All operations over so many chains.
fn operations(chains: usize) -> Vec<Operation> {
    let mut all = vec![Operation::Cleanup, Operation::Refresh, Operation::Restart];
    for chain in 0..chains {
        for jumps in 0..(1_u8 << chains) {
            let named = 0;
            all.push(Operation::Rewrite {
                chain,
                jumps,
                named,
            });
        }
        // By name alone: of three chains, the next one.
        all.push(Operation::Rewrite {
            chain,
            jumps: 0,
            named: 1 << ((chain + 1) % chains),
        });
        all.push(Operation::Delete(chain));
        all.push(Operation::Override(chain));
        all.push(Operation::ForeignFlush(chain));
        all.push(Operation::ForeignDelete(chain));
    }
    all
}

/// Only others' chains; chains that a previous run left; those, and others that refer to them, within reach of packets.
const STARTS: [&str; 3] = [
    "",
    ":web-a - [0:0]\n:web-b - [0:0]\n-A web-a -j web-b\n-A web-b -j RETURN\n",
    ":web-a - [0:0]\n:web-b - [0:0]\n-A web-b -j web-a\n-A web-a -j RETURN\n-A INPUT -j web-a\n-A other -j web-b\n",
];

impl Search {
    fn run(backend: Backend, chains: usize, depth: usize) -> Self {
        let mut search = Self::default();
        for start in STARTS {
            let kernel = MemoryExecutor::new(IpVersion::V4, backend);
            let input = format!(
                "*filter\n:other - [0:0]\n-A other -p tcp -j ACCEPT\n-A INPUT -j other\n{start}COMMIT\n"
            );
            let outcome = kernel.with_other_program(|other| other.restore(&input));
            assert!(outcome.exit.is_success(), "{outcome:?}");
            let way = Way {
                backend,
                base: snapshot(&kernel),
                since: Vec::new(),
            };
            let world = World::at(&way);
            let model = Model::at_start(&world.plane());
            search.add(&world, way, model, false, 0);
        }
        let operations = operations(chains);
        let mut at = 0;
        while at < search.states.len() {
            if search.states[at].depth < depth {
                for operation in &operations {
                    search.try_all(at, *operation);
                }
            }
            at += 1;
        }
        search
    }

    /// One operation from a state: undisturbed, and disturbed in every way.
    fn try_all(&mut self, at: usize, operation: Operation) {
        let (restores, saves) = self.step(at, (operation, None));
        if self.states[at].disturbed {
            return;
        }
        for injection in Injection::all(restores, saves) {
            self.faults += 1;
            self.step(at, (operation, Some(injection)));
        }
    }

    /// One step from a state; how many restores and saves it took.
    fn step(&mut self, at: usize, step: Step) -> (usize, usize) {
        self.steps += 1;
        let State {
            way, model, depth, ..
        } = &self.states[at];
        let (depth, mut way) = (*depth, way.clone());
        let mut world = World::at(&way);
        world.calls();
        let checked = catch_unwind(AssertUnwindSafe(|| checked_step(&mut world, model, step)));
        let (model, refused) = checked.unwrap_or_else(|panic| {
            let base = World::kernel(&way).save_text(Table::Filter);
            eprintln!(
                "{}, opened on\n{base}then {:?}\n{:?}\nat last {step:?}",
                way.backend, way.since, self.states[at].model
            );
            resume_unwind(panic)
        });
        let calls = world.calls();
        self.refusals += u64::from(refused);
        let Some(model) = model else {
            self.states[at].ends += 1;
            return calls;
        };
        self.settled += u64::from(model.is_settled());
        let (operation, injection) = step;
        if operation == Operation::Restart {
            way.base = snapshot(&world.kernel);
            way.since.clear();
        } else {
            way.since.push(step);
        }
        let disturbed = self.states[at].disturbed || injection.is_some();
        let next = self.add(&world, way, model, disturbed, depth + 1);
        *self.states[at].next.entry(next).or_default() += 1;
        calls
    }

    fn add(
        &mut self,
        world: &World,
        way: Way,
        model: Model,
        disturbed: bool,
        depth: usize,
    ) -> usize {
        let states = plane::NAMES.map(|name| world.updater.index().state(name));
        let key = Key {
            kernel: world.kernel.save_text(Table::Filter),
            memory: world.memory(),
            index: format!("{states:?}"),
            model: model.clone(),
            disturbed,
        };
        *self.known.entry(key).or_insert_with(|| {
            self.states.push(State {
                way,
                model,
                disturbed,
                depth,
                next: HashMap::new(),
                ends: 0,
            });
            self.states.len() - 1
        })
    }

    /// How many sequences of just that length this has covered.
    fn sequences(&self, length: usize) -> u128 {
        let mut count = vec![0_u128; self.states.len()];
        for start in count.iter_mut().take(STARTS.len()) {
            *start = 1;
        }
        let mut ended = 0;
        for _ in 0..length {
            let mut next = vec![0_u128; count.len()];
            ended = 0;
            for (state, count) in self.states.iter().zip(&count) {
                ended += count * state.ends;
                for (to, times) in &state.next {
                    next[*to] += count * times;
                }
            }
            count = next;
        }
        ended + count.into_iter().sum::<u128>()
    }
}

/// Does a step and checks all that has to hold after it: the model then, if there is still an updater, and whether
/// the step was refused.
fn checked_step(world: &mut World, model: &Model, step: Step) -> (Option<Model>, bool) {
    let (operation, injection) = step;
    let before = world.plane();
    // A commit that was killed before it did anything is in doubt for the updater, not for the model.
    let settled = model.is_settled() && world.memory().ends_with("/ ");
    let outcome = world.run(operation, injection);
    let after = world.plane();
    assert_eq!(before.foreign(), after.foreign(), "others' chains");
    if operation == Operation::Refresh && injection.is_none() && settled {
        let journal = world.kernel.journal();
        let restores = journal.iter().filter(|entry| entry.input().is_some());
        assert_eq!(restores.count(), 0, "nothing has drifted");
    }
    let interference = injection.map_or(Interference::None, Injection::interference);
    let new = match operation {
        Operation::Restart => {
            assert_eq!(before, after);
            if outcome.is_err() {
                assert!(injection.is_some(), "{outcome:?}");
                return (None, true);
            }
            Model::at_start(&after)
        }
        Operation::ForeignFlush(_) | Operation::ForeignDelete(_) => {
            model.clone().after_foreign(operation, &before, &after)
        }
        _ => model.after_own(
            operation,
            &outcome,
            interference,
            (&before, &after),
            world.updater.index(),
        ),
    };
    new.check(&after, world.updater.index());
    (Some(new), outcome.is_err())
}

fn depth(default: usize) -> usize {
    let wanted = std::env::var("IPTABLES_UPDATER_MODEL_DEPTH").ok();
    wanted.map_or(default, |depth| depth.parse().expect("a number"))
}

fn search(chains: usize, depth: usize) {
    for backend in [Backend::NfTables, Backend::Legacy] {
        let started = Instant::now();
        let search = Search::run(backend, chains, depth);
        let sequences: u128 = (1..=depth).map(|length| search.sequences(length)).sum();
        println!(
            "{backend}, {chains} chains, up to {depth} operations: {sequences} sequences through {} states, {} steps \
             of them {} with a fault, {} refused or failed, {} settled, {:?}",
            search.states.len(),
            search.steps,
            search.faults,
            search.refusals,
            search.settled,
            started.elapsed()
        );
        assert!(search.refusals > 0 && search.settled > 0);
    }
}

#[test]
fn every_sequence_of_operations_over_two_chains_does_what_the_model_says() {
    search(2, depth(3));
}

#[test]
fn every_sequence_of_operations_over_three_chains_does_what_the_model_says() {
    search(3, depth(3) - 1);
}

#[test]
fn a_plane_is_read_as_it_is_printed() {
    let saved = "*filter\n:INPUT ACCEPT [0:0]\n:web-a - [0:0]\n-A INPUT -j web-a\n-A web-a -j web-b\nCOMMIT\n";
    let plane = Plane::of(saved);
    assert_eq!(plane.dangling(), [("web-a", "web-b")]);
    assert!(plane.is_referred_to(0) && !plane.has_reachable_circle());
    let circle = saved.replace("COMMIT", "-A web-a -j web-a\nCOMMIT");
    assert!(Plane::of(&circle).has_reachable_circle());
}
