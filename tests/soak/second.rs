//! The second program: it has chains of its own, and damages ours. And the table as it is read in the end.

use std::collections::BTreeMap;
use std::fmt;

use iptables_updater::Table;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::common::Kernel;

/// Chains and their rules, `INPUT` among them, whose rules have no order here.
pub type Contents = BTreeMap<String, Vec<String>>;

/// A rule of theirs in a chain that both programs use.
const THEIR_HOOK: &str = "-p tcp -m tcp --dport 9 -j their-0";

pub struct Second {
    rng: StdRng,
    own: Contents,
    acts: u64,
    damages: u64,
}

impl Second {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(!seed),
            own: Contents::new(),
            acts: 0,
            damages: 0,
        }
    }

    pub fn act(&mut self, kernel: Kernel) {
        self.acts += 1;
        if self.own.is_empty() || self.rng.random_bool(0.4) {
            self.write_own(kernel);
            return;
        }
        let saved = kernel.save(Table::Filter);
        let rules = saved.lines().filter(|line| {
            line.starts_with("-A web-") || line.starts_with("-A INPUT") && line.contains("web-")
        });
        let rules: Vec<_> = rules.collect();
        let headers = saved.lines().filter(|line| line.starts_with(":web-"));
        let chains: Vec<_> = headers
            .filter_map(|line| line[1..].split(' ').next())
            .collect();
        if rules.is_empty() || chains.is_empty() {
            return;
        }
        let rule = rules[self.rng.random_range(0..rules.len())];
        let chain = chains[self.rng.random_range(0..chains.len())];
        let lines = match self.rng.random_range(0..7) {
            0 => rule.replacen("-A", "-D", 1),
            1 => rule.to_owned(),
            2 => format!("-F {chain}"),
            3 => format!("-I {chain} -p udp -m udp --dport 9 -j ACCEPT"),
            // It is refused where something refers to the chain.
            4 => format!("-F {chain}\n-X {chain}"),
            5 => format!(":web-orphan-{} - [0:0]", self.rng.random_range(0..5)),
            // All that is ours in one stroke.
            _ => chains.iter().map(|chain| format!("-F {chain}\n")).collect(),
        };
        let output = kernel.restore(&format!("*filter\n{}\nCOMMIT\n", lines.trim_end()));
        self.damages += u64::from(output.status.success());
    }

    fn write_own(&mut self, kernel: Kernel) {
        let hooked = !self.own.is_empty();
        let name = format!(
            "their-{}",
            if hooked {
                self.rng.random_range(0..4)
            } else {
                0
            }
        );
        let rules: Vec<_> = (0..self.rng.random_range(0..5))
            .map(|_| {
                let port = self.rng.random_range(1..9_999);
                format!("-p udp -m udp --dport {port} -j DROP")
            })
            .collect();
        let lines = rules.iter().map(|rule| format!("-A {name} {rule}\n"));
        let mut lines: String = lines.collect();
        if !hooked {
            lines.push_str(&format!("-A INPUT {THEIR_HOOK}\n"));
        }
        kernel.must_restore(&format!("*filter\n:{name} - [0:0]\n{lines}COMMIT\n"));
        self.own.insert(name, rules);
    }

    /// What should stand of it.
    pub fn wanted(&self) -> Contents {
        let mut wanted = self.own.clone();
        wanted.insert("INPUT".to_owned(), vec![THEIR_HOOK.to_owned()]);
        wanted
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "second program: {} acts, {} damages",
            self.acts, self.damages
        )
    }
}

/// What stands in the filter table: ours, and everything else.
pub fn found(kernel: Kernel) -> (Contents, Contents) {
    let input = || Contents::from([("INPUT".to_owned(), Vec::new())]);
    let (mut ours, mut theirs) = (input(), input());
    for line in kernel.save(Table::Filter).lines() {
        if let Some(header) = line.strip_prefix(':') {
            let name = header.split(' ').next().expect("a name").to_owned();
            if name.starts_with("web-") {
                ours.insert(name, Vec::new());
            } else if !["INPUT", "FORWARD", "OUTPUT"].contains(&&*name) {
                theirs.insert(name, Vec::new());
            }
        } else if let Some((chain, rule)) = line.strip_prefix("-A ").and_then(|l| l.split_once(' '))
        {
            let is_ours = chain.starts_with("web-") || chain == "INPUT" && rule.contains("web-");
            let side = if is_ours { &mut ours } else { &mut theirs };
            side.entry(chain.to_owned())
                .or_default()
                .push(rule.to_owned());
        }
    }
    ours.get_mut("INPUT").expect("INPUT").sort();
    (ours, theirs)
}
