//! The simulated kernel against the real one: the same restore inputs, the same answers, the same
//! tables afterwards.
//!
//! `IPTABLES_UPDATER_DIFFERENTIAL_CASES` sets the number of random cases for IPv4 on each back end (500
//! if unset; IPv6 runs a fifth of it), `IPTABLES_UPDATER_DIFFERENTIAL_SEED` where they start.

#[path = "memory/cases.rs"]
mod cases;
mod common;
#[path = "memory/generator.rs"]
mod generator;
#[path = "memory/texts.rs"]
mod texts;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use common::{KERNELS, Kernel, each_kernel, in_namespace, some_kernels};
use generator::{Generator, Random};
use iptables_updater::{Executor, Exit, IpVersion, MemoryExecutor, Outcome, Table};

/// How many cases share a network namespace.
const SHARED: u64 = 100;

/// Why a case ends before its end.
enum Difference {
    /// They differ: how.
    Found(String),
    /// The real tool crashed, as it is known to.
    Crash,
}

impl Difference {
    fn told(self, story: &str) -> Self {
        match self {
            Self::Found(report) => Self::Found(format!("{story}{report}")),
            Self::Crash => Self::Crash,
        }
    }
}

/// Both kernels side by side.
struct Pair {
    real: Kernel,
    simulated: MemoryExecutor,
    tables: &'static [Table],
    /// Steps, and how many of them the real kernel took.
    steps: [u64; 2],
}

impl Pair {
    /// Both empty; to be called in a fresh namespace.
    fn new(real: Kernel) -> Self {
        let simulated = MemoryExecutor::new(real.version, real.backend);
        let family = match real.version {
            IpVersion::V4 => "inet",
            IpVersion::V6 => "inet6",
        };
        let made = Command::new("ipset")
            .args(["create", "okset", "hash:ip", "family", family])
            .status()
            .is_ok_and(|status| status.success());
        // Without ipset, no set is there on either side.
        let required =
            std::env::var_os("IPTABLES_UPDATER_REQUIRE_KERNEL").is_some_and(|v| v == "1");
        assert!(made || !required, "ipset can't make a set");
        if made {
            simulated.define_set("okset");
        }
        Self {
            real,
            simulated,
            tables: &[Table::Filter, Table::Nat, Table::Mangle, Table::Raw],
            steps: [0, 0],
        }
    }

    /// Gives both the input; what differs, if anything does.
    fn step(&mut self, input: &str) -> Result<(), Difference> {
        let real = self.real.restore(input);
        self.steps[0] += 1;
        self.steps[1] += u64::from(real.status.success());
        let real_exit = real.status.code().map_or(Exit::TimedOut, Exit::Code);
        let Outcome { exit, stderr, .. } = self.simulated.restore(input).expect("simulated");
        let mut report = String::new();
        // Replacing a rule of the same block makes iptables-nft use freed memory. What it says if it
        // survives is what the simulation says.
        if real.status.code().is_none() && input.contains("-R ") {
            return Err(Difference::Crash);
        }
        if (exit, &stderr) != (real_exit, &real.stderr) {
            let _ = write!(
                report,
                "real: {real_exit}, {:?}\nsimulated: {exit}, {:?}\n",
                String::from_utf8_lossy(&real.stderr),
                String::from_utf8_lossy(&stderr)
            );
        }
        for table in self.tables {
            if !input.contains(table.name()) {
                continue;
            }
            let (real, simulated) = (self.real.save(*table), self.simulated.save_text(*table));
            let (real, simulated) = (without_notes(&real), without_notes(&simulated));
            if real != simulated {
                let _ = write!(
                    report,
                    "real {}\nsimulated {}\n",
                    real.join("\n"),
                    simulated.join("\n")
                );
            }
        }
        if report.is_empty() {
            Ok(())
        } else {
            Err(Difference::Found(report))
        }
    }

    /// Empties both again, by means that both have to understand.
    fn reset(&mut self) -> Result<(), Difference> {
        for table in self.tables {
            let empty = MemoryExecutor::new(self.real.version, self.real.backend);
            if self.simulated.save_text(*table) == empty.save_text(*table) {
                continue;
            }
            let mut policies = format!("*{table}\n-F\n");
            for chain in table.kernel_chains() {
                let _ = writeln!(policies, ":{chain} ACCEPT [0:0]");
            }
            self.step(&format!("{policies}COMMIT\n"))?;
            self.step(&format!("*{table}\n-F\n-X\nCOMMIT\n"))?;
        }
        Ok(())
    }
}

/// A saved table without its comments.
fn without_notes(saved: &str) -> Vec<&str> {
    saved
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect(name))
}

/// One case: a few inputs, each made with an eye on what the one before it left.
fn case(pair: &mut Pair, seed: u64) -> Result<(), Difference> {
    let mut random = Random::new(seed);
    for step in 0..2 + random.below(5) {
        let mut generator = Generator {
            random: Random::new(seed ^ ((step as u64 + 1) << 40)),
            version: pair.real.version,
            now: &pair.simulated,
        };
        let input = generator.input();
        let before: String = Table::ALL[..3]
            .iter()
            .map(|table| pair.simulated.save_text(*table))
            .filter(|text| {
                input
                    .lines()
                    .any(|line| line.starts_with('*') && text.contains(&format!("\n{line}\n")))
            })
            .collect();
        let before = without_notes(&before).join("\n");
        let mut shown = String::new();
        for line in input.lines() {
            let _ = writeln!(shown, "{line:.200}");
        }
        pair.step(&input).map_err(|difference| {
            difference.told(&format!(
                "before:\n{before}\n--- step {step} of seed {seed}\n{shown}"
            ))
        })?;
    }
    pair.reset()
        .map_err(|difference| difference.told(&format!("--- reset after seed {seed}\n")))
}

fn random_inputs(test: &str, kernel: Kernel, cases: u64) {
    let first = from_environment("IPTABLES_UPDATER_DIFFERENTIAL_SEED", 1) * 1_000_000;
    let show =
        usize::try_from(from_environment("IPTABLES_UPDATER_DIFFERENTIAL_SHOW", 3)).expect("small");
    some_kernels(test, &[kernel], |kernel| {
        let mut next = first;
        let mut differences = Vec::new();
        let mut steps = [0, 0];
        let mut crashes = 0;
        // A difference spoils the namespace: the next case gets a fresh one.
        while next < first + cases && differences.len() < show {
            let until = (next + SHARED).min(first + cases);
            let (found, counted) = in_namespace(|| {
                let mut pair = Pair::new(kernel);
                let mut found = None;
                while next < until && found.is_none() {
                    next += 1;
                    found = case(&mut pair, next).err();
                }
                (found, pair.steps)
            });
            match found {
                Some(Difference::Found(report)) => differences.push(report),
                Some(Difference::Crash) => crashes += 1,
                None => {}
            }
            steps = [steps[0] + counted[0], steps[1] + counted[1]];
        }
        let _ = writeln!(
            std::io::stderr(),
            "{kernel:?}: {} cases, {} restores, {} of them accepted, {crashes} crashes of the real tool",
            next - first,
            steps[0],
            steps[1]
        );
        assert!(
            differences.is_empty(),
            "{kernel:?}: {} of {} cases differ\n{}",
            differences.len(),
            next - first,
            differences.join("\n==========\n")
        );
    });
}

#[test]
fn inputs_that_once_differed_have_the_same_effect() {
    each_kernel("inputs_that_once_differed_have_the_same_effect", |kernel| {
        let mut pair = Pair::new(kernel);
        let mut differences = Vec::new();
        for (name, inputs) in cases::CASES {
            for input in *inputs {
                if let Err(Difference::Found(report)) = pair.step(input) {
                    differences.push(format!("{name}:\n{input}{report}"));
                    break;
                }
            }
            if let Err(Difference::Found(report)) = pair.reset() {
                differences.push(format!("{name}: reset: {report}"));
            }
        }
        assert!(
            differences.is_empty(),
            "{kernel:?}:\n{}",
            differences.join("\n==========\n")
        );
    });
}

fn number_of_cases() -> u64 {
    from_environment("IPTABLES_UPDATER_DIFFERENTIAL_CASES", 500)
}

#[test]
fn random_inputs_have_the_same_effect_on_nf_tables() {
    random_inputs(
        "random_inputs_have_the_same_effect_on_nf_tables",
        KERNELS[0],
        number_of_cases(),
    );
}

#[test]
fn random_inputs_have_the_same_effect_on_legacy() {
    random_inputs(
        "random_inputs_have_the_same_effect_on_legacy",
        KERNELS[1],
        number_of_cases(),
    );
}

#[test]
fn random_inputs_have_the_same_effect_on_nf_tables_with_ipv6() {
    random_inputs(
        "random_inputs_have_the_same_effect_on_nf_tables_with_ipv6",
        KERNELS[2],
        number_of_cases() / 5,
    );
}

#[test]
fn random_inputs_have_the_same_effect_on_legacy_with_ipv6() {
    random_inputs(
        "random_inputs_have_the_same_effect_on_legacy_with_ipv6",
        KERNELS[3],
        number_of_cases() / 5,
    );
}
