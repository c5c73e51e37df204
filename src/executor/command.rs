//! The executor that runs the real programs.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{debug, trace};

use super::binaries::{self, Binaries};
use super::process::{self, Limits};
use super::version::ToolVersion;
use super::{Executor, lock};
use crate::error::ExecutorError;
use crate::{Backend, IpVersion, Outcome, Table, excerpt};

/// Runs `iptables-restore` and `iptables-save` as child processes.
///
/// ```no_run
/// use std::time::Duration;
/// use iptables_updater::{Backend, CommandExecutor, IpVersion};
///
/// // The system's default iptables, whichever back end that is:
/// let executor = CommandExecutor::new(IpVersion::V4)?;
/// println!("{executor}");   // iptables-restore v1.8.9 (nf_tables, IPv4)
///
/// // The legacy one, in the network namespace `blue`, patient with a busy xtables lock:
/// let executor = CommandExecutor::builder(IpVersion::V4)
///     .backend(Backend::Legacy)
///     .prefix(["ip", "netns", "exec", "blue"])
///     .lock_wait(Duration::from_secs(30))
///     .build()?;
/// # Ok::<(), iptables_updater::ExecutorError>(())
/// ```
///
/// # How they are run
///
/// - **Never through a shell.** Programs are looked for in `PATH`, then in `/usr/sbin`, `/sbin`, `/usr/bin` and
///   `/bin`, once, when the executor is built; [`programs`](CommandExecutorBuilder::programs) takes paths instead.
///   Behind a [`prefix`](CommandExecutorBuilder::prefix) only its first word is looked for: the rest may be in
///   another root.
/// - **In the caller's network namespace**: that of the thread that calls.
/// - **With `-w SECONDS`** where the version has it (1.6.2): without it legacy waits for the xtables lock for ever.
///   For versions before that, which don't take the lock at all, this executor takes it for the length of a restore.
///   `nf_tables` takes no lock and ignores it.
/// - **Within a time limit**, after which the whole process group is killed: a program that hangs must not
///   stop its caller.
/// - **Within a limit of what they print**, over which the group is killed as well ([`Exit::Flooded`](crate::Exit::Flooded)):
///   1 GiB for iptables-save ([`save_limit`](CommandExecutorBuilder::save_limit)), 1 MiB for iptables-restore,
///   which prints next to nothing. Of standard error the first 16 MiB are kept.
/// - **With separate pipes** for standard input, output and error, each served by a thread of its own: a warning
///   on standard error, merged, can cut a line of the output in two.
/// - **In the caller's environment**, but with `LC_ALL=C`, and without `XTABLES_LOCKFILE`, which would silently
///   move the lock, unless [`env`](CommandExecutorBuilder::env) sets it.
#[derive(Debug, Clone)]
pub struct CommandExecutor {
    ip_version: IpVersion,
    backend: Backend,
    version: ToolVersion,
    binaries: Binaries,
    settings: Settings,
    lock_wait: Duration,
}

/// What holds for each run.
#[derive(Debug, Clone)]
struct Settings {
    prefix: Vec<OsString>,
    lock_wait: Duration,
    time_limit: Duration,
    save_limit: u64,
    environment: Vec<(OsString, OsString)>,
}

/// What iptables-save may print: five million rules of 200 bytes.
const SAVE_LIMIT: u64 = 1 << 30;

/// What iptables-restore, or an answer to `--version`, may print on standard output.
const RESTORE_LIMIT: u64 = 1 << 20;

impl CommandExecutor {
    /// The system's default iptables for that IP version, with default settings.
    ///
    /// # Errors
    /// It isn't there, can't be run, or doesn't answer as iptables does.
    pub fn new(version: IpVersion) -> Result<Self, ExecutorError> {
        Self::builder(version).build()
    }

    /// Begins an executor with other settings.
    pub fn builder(version: IpVersion) -> CommandExecutorBuilder {
        CommandExecutorBuilder {
            ip_version: version,
            backend: None,
            programs: None,
            settings: Settings {
                prefix: Vec::new(),
                lock_wait: Duration::from_secs(10),
                time_limit: Duration::from_secs(60),
                save_limit: SAVE_LIMIT,
                environment: Vec::new(),
            },
        }
    }

    /// The version that `iptables-restore` has told.
    pub fn version(&self) -> ToolVersion {
        self.version
    }

    /// The `iptables-restore` that is run.
    pub fn restore_program(&self) -> &Path {
        &self.binaries.restore
    }

    /// The xtables lock, on the back end that has one; behind a prefix it may be any file.
    fn lock_path(&self) -> Option<PathBuf> {
        if self.backend != Backend::Legacy || !self.settings.prefix.is_empty() {
            return None;
        }
        let mut environment = self.settings.environment.iter().rev();
        let set = environment.find(|(name, _)| name == "XTABLES_LOCKFILE");
        Some(set.map_or_else(|| lock::DEFAULT_PATH.into(), |(_, path)| path.into()))
    }

    /// The `iptables-save` that is run.
    pub fn save_program(&self) -> &Path {
        &self.binaries.save
    }
}

/// Shown as `iptables-restore v1.8.9 (nf_tables, IPv4)`.
impl fmt::Display for CommandExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.binaries.restore.file_name().unwrap_or_default();
        write!(
            f,
            "{} v{} ({}, {})",
            program.display(),
            self.version,
            self.backend,
            self.ip_version
        )
    }
}

impl Executor for CommandExecutor {
    fn confuses_rules(&self) -> bool {
        let legacy = self.backend == Backend::Legacy && self.ip_version == IpVersion::V6;
        legacy && self.version.confuses_rules_of_ipv6()
    }

    fn ip_version(&self) -> IpVersion {
        self.ip_version
    }

    fn backend(&self) -> Backend {
        self.backend
    }

    fn restore(&mut self, input: &str) -> Result<Outcome, ExecutorError> {
        let mut arguments = vec![OsString::from("--noflush")];
        if self.version.restore_waits() {
            // Two words: `-w10` is refused by iptables-restore.
            let seconds = whole_seconds(self.settings.lock_wait).to_string();
            arguments.extend(["-w".into(), seconds.into()]);
        }
        let Some(path) = self.lock_path() else {
            return self
                .settings
                .restore(&self.binaries.restore, &arguments, input);
        };
        let started = Instant::now();
        if self.version.restore_waits() {
            // The program waits by itself, in a fair queue; only that it did can be seen from here.
            let contended = lock::is_held(&path);
            let outcome = self
                .settings
                .restore(&self.binaries.restore, &arguments, input);
            if contended {
                self.lock_wait += started.elapsed();
            }
            return outcome;
        }
        let lock = lock::take(&path, self.settings.lock_wait);
        self.lock_wait += started.elapsed();
        match lock {
            Ok(_held) => self
                .settings
                .restore(&self.binaries.restore, &arguments, input),
            Err(outcome) => Ok(outcome),
        }
    }

    /// On legacy: the time in which iptables-restore found the lock held, its own work included; for versions
    /// without `-w` the time in which this executor waited. Unknown behind a prefix.
    fn lock_wait(&self) -> Duration {
        self.lock_wait
    }

    fn save(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        let arguments = ["-t".into(), table.name().into()];
        self.settings.save(&self.binaries.save, &arguments)
    }

    fn save_in_pieces(
        &mut self,
        table: Table,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, ExecutorError> {
        let arguments = ["-t".into(), table.name().into()];
        let limit = self.settings.save_limit;
        self.settings
            .run(&self.binaries.save, &arguments, "", limit, take)
    }

    fn save_with_counters(&mut self, table: Table) -> Result<Outcome, ExecutorError> {
        let arguments = ["-c".into(), "-t".into(), table.name().into()];
        self.settings.save(&self.binaries.save, &arguments)
    }
}

/// A wait that iptables understands: whole seconds, at least one, for 0 would mean for ever.
fn whole_seconds(wait: Duration) -> u64 {
    let part = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(part).max(1)
}

impl Settings {
    fn restore(
        &self,
        program: &Path,
        arguments: &[OsString],
        input: &str,
    ) -> Result<Outcome, ExecutorError> {
        self.run_whole(program, arguments, input, RESTORE_LIMIT)
    }

    fn save(&self, program: &Path, arguments: &[OsString]) -> Result<Outcome, ExecutorError> {
        self.run_whole(program, arguments, "", self.save_limit)
    }

    /// Runs a program, and keeps all that it prints.
    fn run_whole(
        &self,
        program: &Path,
        arguments: &[OsString],
        input: &str,
        limit: u64,
    ) -> Result<Outcome, ExecutorError> {
        let mut stdout = Vec::new();
        let mut take = |piece: &[u8]| stdout.extend_from_slice(piece);
        let outcome = self.run(program, arguments, input, limit, &mut take)?;
        Ok(Outcome { stdout, ..outcome })
    }

    fn run(
        &self,
        program: &Path,
        arguments: &[OsString],
        input: &str,
        limit: u64,
        take_stdout: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome, ExecutorError> {
        let words = self.prefix.iter().map(OsString::as_os_str);
        let mut words = words
            .chain([program.as_os_str()])
            .chain(arguments.iter().map(OsString::as_os_str));
        let first = words.next().unwrap_or_else(|| OsStr::new(""));
        let mut command = Command::new(first);
        command
            .args(words)
            .env_remove("XTABLES_LOCKFILE")
            .env("LC_ALL", "C")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        debug!("running {command:?}");
        let limits = Limits {
            time: self.time_limit,
            stdout: limit,
        };
        let outcome = process::run(command, input, limits, take_stdout);
        let outcome = outcome.map_err(|source| ExecutorError::Io {
            program: first.into(),
            source: Arc::new(source),
        })?;
        trace!("{outcome:?}");
        Ok(outcome)
    }

    /// Asks a program for its version.
    fn probe(&self, program: &Path) -> Result<(ToolVersion, Backend), ExecutorError> {
        let outcome = self.restore(program, &["--version".into()], "")?;
        let answer = String::from_utf8_lossy(&outcome.stdout);
        let version = outcome
            .exit
            .is_success()
            .then(|| ToolVersion::parse(&answer));
        version.flatten().ok_or_else(|| ExecutorError::Version {
            program: program.to_owned(),
            exit: outcome.exit,
            output: excerpt::of_bytes(&[outcome.stdout, outcome.stderr].concat()),
        })
    }
}

/// The settings of a [`CommandExecutor`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct CommandExecutorBuilder {
    ip_version: IpVersion,
    backend: Option<Backend>,
    programs: Option<(PathBuf, PathBuf)>,
    settings: Settings,
}

impl CommandExecutorBuilder {
    /// The programs of this back end (`iptables-nft-restore`, `iptables-legacy-restore`) in place of the
    /// system's default.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// These programs in place of those found by name. The back end is what they say it is.
    pub fn programs(mut self, restore: impl Into<PathBuf>, save: impl Into<PathBuf>) -> Self {
        self.programs = Some((restore.into(), save.into()));
        self
    }

    /// A command that runs the programs: `ip netns exec blue`, `nsenter --net=…`, `chroot /host`. It is given
    /// the program and its arguments as further words.
    pub fn prefix<I>(mut self, words: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        self.settings.prefix = words.into_iter().map(Into::into).collect();
        self
    }

    /// How long one restore waits for the xtables lock (legacy): rounded up to whole seconds, at least one.
    /// The default is 10 s.
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.settings.lock_wait = wait;
        self
    }

    /// How long a run may take before it is killed. The default is 60 s; a limit that isn't longer than the
    /// [`lock_wait`](Self::lock_wait) is taken as beginning after it.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.settings.time_limit = limit;
        self
    }

    /// How many bytes iptables-save may print before it is killed. The default is 1 GiB, which is enough for five
    /// million rules of 200 bytes; a table is held in memory while it is read.
    pub fn save_limit(mut self, bytes: u64) -> Self {
        self.settings.save_limit = bytes;
        self
    }

    /// Sets a variable in the programs' environment; give it as often as needed.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.settings.environment.push((name.into(), value.into()));
        self
    }

    /// Finds the programs and asks iptables-restore for its version, once.
    ///
    /// # Errors
    /// A program isn't there, can't be run, or doesn't answer as iptables does.
    pub fn build(self) -> Result<CommandExecutor, ExecutorError> {
        let Self {
            ip_version,
            backend,
            programs,
            mut settings,
        } = self;
        let binaries = match programs {
            Some((restore, save)) => Binaries { restore, save },
            None => Binaries::named(ip_version, backend),
        };
        let binaries = match settings.prefix.first_mut() {
            Some(first) => {
                *first = binaries::find(Path::new(first))?.into();
                binaries
            }
            None => binaries.found()?,
        };
        let lock_wait = Duration::from_secs(whole_seconds(settings.lock_wait));
        if settings.time_limit <= lock_wait {
            settings.time_limit = settings.time_limit.saturating_add(lock_wait);
        }
        let (version, backend) = settings.probe(&binaries.restore)?;
        debug!(
            "{} is version {version}, {backend}",
            binaries.restore.display()
        );
        Ok(CommandExecutor {
            ip_version,
            backend,
            version,
            binaries,
            settings,
            lock_wait: Duration::ZERO,
        })
    }
}
