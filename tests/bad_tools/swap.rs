//! An updater on programs that can be replaced between two calls.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::LIMIT;
use super::common::bed::NoWaiting;
use super::common::{KERNELS, Kernel};
use iptables_updater::{
    Backend, CommandExecutor, CommandExecutorBuilder, Executor, ExecutorError, IpVersion,
    IptablesUpdater, MemoryExecutor, Outcome, RetryPolicy, Table,
};

pub const NFT: &str = "iptables-restore v1.8.9 (nf_tables)";

/// What is put in a program's place.
#[derive(Debug, Clone, Copy)]
pub enum Tool<'t> {
    /// A shell script.
    Script(&'t str),
    /// An executable file.
    File(&'t str),
    NotExecutable,
    Folder,
    Missing,
}

/// The folder in which the programs are.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for name in ["restore", "save"] {
            folder.put(name, Tool::Script(&format!("echo '{NFT}'")));
        }
        folder
    }

    /// What the environment of each process has that a program of this folder has started.
    pub fn mark(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces a program, as a package manager does: by renaming.
    pub fn put(&self, name: &str, tool: Tool<'_>) {
        let (path, new) = (self.path(name), self.path("new"));
        remove(&path);
        let (text, mode) = match tool {
            Tool::Script(script) => (format!("#!/bin/sh\n{script}\n"), 0o755),
            Tool::File(text) => (text.to_owned(), 0o755),
            Tool::NotExecutable => ("#!/bin/sh\n".to_owned(), 0o644),
            Tool::Folder => return fs::create_dir(path).unwrap(),
            Tool::Missing => return,
        };
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub fn builder(&self) -> CommandExecutorBuilder {
        CommandExecutor::builder(IpVersion::V4)
            .programs(self.path("restore"), self.path("save"))
            .env("MARK", self.mark())
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .lock_wait(std::time::Duration::ZERO)
            .time_limit(LIMIT)
            .save_limit(1_000_000)
    }
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir(path).unwrap();
    } else if path.exists() {
        fs::remove_file(path).unwrap();
    }
}

/// What good programs work on.
#[derive(Clone)]
pub enum Ground {
    Simulation(MemoryExecutor),
    Kernel(Kernel),
}

/// Runs the programs of a folder, or the simulation in their place where that is what is good.
pub struct Switch {
    programs: CommandExecutor,
    restore: Option<MemoryExecutor>,
    save: Option<MemoryExecutor>,
}

impl Executor for Switch {
    fn ip_version(&self) -> IpVersion {
        self.programs.ip_version()
    }

    fn backend(&self) -> Backend {
        self.programs.backend()
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        match &mut self.restore {
            Some(simulation) => simulation.restore(input),
            None => self.programs.restore(input),
        }
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        match &mut self.save {
            Some(simulation) => simulation.save(table),
            None => self.programs.save(table),
        }
    }
}

pub type Updater = IptablesUpdater<Switch>;

pub struct Bench {
    pub updater: Updater,
    pub folder: Folder,
    ground: Ground,
}

pub fn open(ground: Ground) -> Bench {
    let folder = Folder::new();
    let kernel = match ground {
        Ground::Simulation(_) => KERNELS[0],
        Ground::Kernel(kernel) => kernel,
    };
    if kernel.backend == Backend::Legacy {
        let answer = NFT.replace("nf_tables", "legacy");
        folder.put("restore", Tool::Script(&format!("echo '{answer}'")));
    }
    put_kernel(&folder, kernel, "save");
    let switch = Switch {
        programs: folder.builder().build().unwrap(),
        restore: simulation(&ground),
        save: simulation(&ground),
    };
    put_kernel(&folder, kernel, "restore");
    let builder = IptablesUpdater::builder(Table::Filter).chain_prefix("web-");
    let builder = builder.clock(NoWaiting).retry(RetryPolicy::never());
    let updater = builder.open(switch).unwrap();
    Bench {
        updater,
        folder,
        ground,
    }
}

fn simulation(ground: &Ground) -> Option<MemoryExecutor> {
    match ground {
        Ground::Simulation(simulation) => Some(simulation.clone()),
        Ground::Kernel(_) => None,
    }
}

fn put_kernel(folder: &Folder, kernel: Kernel, name: &str) {
    let script = format!("exec {} \"$@\"", kernel.program(name));
    folder.put(name, Tool::Script(&script));
}

impl Bench {
    pub fn put_restore(&mut self, tool: Tool<'_>) {
        self.folder.put("restore", tool);
        self.updater.executor_mut().restore = None;
    }

    pub fn put_save(&mut self, tool: Tool<'_>) {
        self.folder.put("save", tool);
        self.updater.executor_mut().save = None;
    }

    /// Good programs again.
    pub fn put_good(&mut self) {
        if let Ground::Kernel(kernel) = self.ground {
            self.kernel(kernel);
        }
        let executor = self.updater.executor_mut();
        executor.restore = simulation(&self.ground);
        executor.save = simulation(&self.ground);
    }

    /// Programs of that kernel from now on.
    pub fn kernel(&mut self, kernel: Kernel) {
        self.ground = Ground::Kernel(kernel);
        for name in ["restore", "save"] {
            put_kernel(&self.folder, kernel, name);
        }
    }

    pub fn rules(&self, chain: &str) -> Option<Vec<String>> {
        match &self.ground {
            Ground::Simulation(simulation) => simulation.rules(Table::Filter, chain),
            Ground::Kernel(kernel) => kernel.rules(Table::Filter, chain),
        }
    }

    /// The updater's chains.
    pub fn chains(&self) -> Vec<String> {
        match &self.ground {
            Ground::Simulation(simulation) => {
                let mut chains = simulation.chains(Table::Filter);
                chains.retain(|name| name.starts_with("web-"));
                chains.sort();
                chains
            }
            Ground::Kernel(kernel) => kernel.chains(Table::Filter, "web-"),
        }
    }
}
