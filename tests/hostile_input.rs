//! The bodies of the fuzz targets on random bytes and on seeds changed at random, a moment each. The same numbers every
//! time: `IPTABLES_UPDATER_SEED` begins elsewhere, `IPTABLES_UPDATER_FUZZ_SECONDS` goes on for longer.

#[path = "hostile_input/bodies/mod.rs"]
mod bodies;
#[path = "rules_property/mutate.rs"]
#[allow(dead_code)]
mod mutate;

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use bodies::{BODIES, Body};
use mutate::Random;

/// Bytes that mean something to one of the readers.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\0",
    b"\"",
    b"\\",
    b" ",
    b"\t",
    b"\r",
    b"\xff",
    b"COMMIT\n",
    b"*filter\n",
    b"*nat\n",
    b":web-x - [0:0]\n",
    b":INPUT ACCEPT [0:0]\n",
    b"-A web-x -j web-y\n",
    b"-A INPUT ",
    b"-j ",
    b"-g ",
    b"# Table `filter' is ",
    b"[1:2] ",
    b"--comment \"",
    b"-t nat",
    b"-6",
    b"--help",
    b"!",
    b"line 2 failed",
    b"iptables-restore: ",
    b"Error occurred at line: ",
    b"\x1b[31m",
    b"Another app is currently holding the xtables lock. ",
    b"Chain 'web-x' does not exist",
    b"\xc2\x9b",
    b"\xe2\x80\xa8",
];

fn run(target: &str) {
    let body = BODIES.iter().find(|(name, _)| *name == target).unwrap().1;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let mut random = Random(number("IPTABLES_UPDATER_SEED").unwrap_or(1));
    let seconds = Duration::from_secs(number("IPTABLES_UPDATER_FUZZ_SECONDS").unwrap_or(2));
    let seeds = seeds(target);
    assert!(!seeds.is_empty());
    for seed in &seeds {
        watched(body, seed);
    }
    let start = Instant::now();
    let mut inputs = 0;
    while start.elapsed() < seconds {
        let input = match random.below(4) {
            0 => (0..random.below(200)).map(|_| byte(&mut random)).collect(),
            _ => changed(&mut random, &seeds),
        };
        watched(body, &input);
        inputs += 1;
    }
    assert!(inputs > 20, "{inputs} inputs");
}

/// Names the input that did it: a seed for the target's folder.
fn watched(body: Body, input: &[u8]) {
    if let Err(panic) = catch_unwind(|| body(input)) {
        eprintln!("the input: b\"{}\"", input.escape_ascii());
        std::panic::resume_unwind(panic);
    }
}

fn byte(random: &mut Random) -> u8 {
    random.next().to_le_bytes()[0]
}

/// A seed with pieces put in, taken out, doubled and changed.
fn changed(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(20)).min(input.len());
        match random.below(6) {
            0 => drop(input.drain(at..end)),
            1 => drop(input.splice(at..end, PIECES[random.below(PIECES.len())].iter().copied())),
            2 => input.insert(at, byte(random)),
            3 => {
                let piece = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                drop(input.splice(to..to, piece));
            }
            4 if at < input.len() => input[at] ^= 1 << random.below(8),
            _ => drop(input.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
        }
    }
    input
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut folders = vec![tests.join("hostile_input/seeds").join(target)];
    if target == "save" {
        folders.push(tests.join("data/saves"));
    }
    let mut files: Vec<_> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn any_text_as_a_rule_or_a_name() {
    run("rule");
}

#[test]
fn any_bytes_as_a_save() {
    run("save");
}

#[test]
fn any_exit_and_any_words() {
    run("classifier");
}

#[test]
fn any_requests() {
    run("requests");
}
