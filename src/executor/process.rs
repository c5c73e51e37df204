//! Runs one child process: separate pipes, a time limit, nothing left behind.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use log::warn;

use crate::{Exit, Outcome, deadline};

/// How much of standard error is kept: a line for each of 200,000 refused rules. What follows is read and dropped: what
/// is wrong stands at the beginning.
const STDERR_LIMIT: u64 = 16 << 20;

/// How long to wait for the pipes of a killed group to close, before their readers are abandoned: a process
/// that has left the group may hold them open.
const GRACE: Duration = Duration::from_millis(500);

/// How often to look whether a child that keeps its pipes open has ended.
const STEP: Duration = Duration::from_millis(100);

/// The longest pause between two looks whether a child that has closed its pipes has ended.
const LONGEST_LOOK: Duration = Duration::from_millis(5);

/// What a reader of a pipe has to say.
type Pipe = Receiver<Vec<u8>>;

/// How far a run may go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Duration,
    /// The most bytes on standard output.
    pub(super) stdout: u64,
}

/// Runs the command with this input until it ends or a limit is reached; then its whole process group is killed. What
/// it prints on standard output is handed on as it comes, and isn't in the outcome.
///
/// # Errors
/// The command couldn't be started.
pub(super) fn run(
    mut command: Command,
    input: &str,
    limits: Limits,
    take_stdout: &mut dyn FnMut(&[u8]),
) -> io::Result<Outcome> {
    let deadline = deadline::from_now(limits.time);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    // Both ends are served at once: iptables may print more than a pipe holds before it reads on.
    let mut stderr = Vec::new();
    let mut take_stderr = |piece: &[u8]| stderr.extend_from_slice(piece);
    let takers: [Taker<'_>; 2] = [take_stdout, &mut take_stderr];
    let mut outputs = match serve(&mut child, input, limits, takers) {
        Ok(outputs) => outputs,
        Err(error) => {
            kill_group(&mut child)?;
            return Err(error);
        }
    };
    let exit = match wait(&mut child, &mut outputs, deadline) {
        Ok(Ended::Alone(status)) => exit(status),
        Ok(Ended::PipesOpen) => {
            // It is reaped only now, so that nobody else can have its number before its group is killed.
            let status = kill_group(&mut child)?;
            if !drain(&mut outputs) {
                warn!("process {} has ended, but left its pipes open", child.id());
            }
            exit(status)
        }
        Ok(Ended::Not(exit)) => {
            kill_group(&mut child)?;
            drain(&mut outputs);
            exit
        }
        Err(error) => {
            kill_group(&mut child)?;
            return Err(error);
        }
    };
    let flooded = outputs[0].is_over();
    Ok(Outcome {
        // It may have been killed by the pipe that nobody reads any more, before anything else.
        exit: if flooded { Exit::Flooded } else { exit },
        stdout: Vec::new(),
        stderr,
    })
}

/// Starts the threads that serve the pipes; standard output and error are returned.
fn serve<'t>(
    child: &mut Child,
    input: &str,
    limits: Limits,
    [take_stdout, take_stderr]: [Taker<'t>; 2],
) -> io::Result<[Output<'t>; 2]> {
    // The readers first: without one of them the input isn't begun.
    let stdout = child.stdout.take();
    let stdout = stdout.map(|pipe| read_all(pipe, limits.stdout, Beyond::Closed));
    let stderr = child.stderr.take();
    let stderr = stderr.map(|pipe| read_all(pipe, STDERR_LIMIT, Beyond::Dropped));
    let outputs = [
        Output::new(stdout.transpose()?, limits.stdout, take_stdout),
        Output::new(stderr.transpose()?, STDERR_LIMIT, take_stderr),
    ];
    if let Some(stdin) = child.stdin.take() {
        write_all(stdin, input.to_owned())?;
    }
    Ok(outputs)
}

/// Writes and closes a pipe from a thread of its own, with a copy: the thread may outlive the call.
fn write_all(mut pipe: impl Write + Send + 'static, input: String) -> io::Result<()> {
    let write = move || {
        // A tool that finds an error stops reading: its exit code says more than a broken pipe.
        let _ = pipe.write_all(input.as_bytes());
    };
    thread::Builder::new().spawn(write).map(drop)
}

/// What becomes of what is printed beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// It isn't read: the pipe is closed one byte after the limit.
    Closed,
    /// It is read, and dropped.
    Dropped,
}

/// Reads a pipe to its end on a thread of its own, and hands on what is within the limit.
fn read_all(mut pipe: impl Read + Send + 'static, limit: u64, beyond: Beyond) -> io::Result<Pipe> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let one_more = u64::from(beyond == Beyond::Closed);
        let mut kept = pipe.by_ref().take(limit.saturating_add(one_more));
        if pass_on(&mut kept, |chunk| sender.send(chunk.to_vec()).is_ok())
            && beyond == Beyond::Dropped
        {
            pass_on(&mut pipe, |_| true);
        }
    };
    thread::Builder::new().spawn(read)?;
    Ok(receiver)
}

/// Reads to the end and hands on each piece while it is wanted; whether all of it was.
fn pass_on(pipe: &mut impl Read, mut to: impl FnMut(&[u8]) -> bool) -> bool {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match pipe.read(&mut chunk) {
            Ok(0) => return true,
            Ok(count) if to(&chunk[..count]) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return false,
        }
    }
}

/// Whoever wants what comes out of a pipe.
type Taker<'t> = &'t mut dyn FnMut(&[u8]);

/// What comes out of a pipe.
struct Output<'t> {
    /// `None` once its end was reached.
    pipe: Option<Pipe>,
    take: Taker<'t>,
    /// How many bytes have come.
    length: u64,
    limit: u64,
}

impl<'t> Output<'t> {
    fn new(pipe: Option<Pipe>, limit: u64, take: Taker<'t>) -> Self {
        Self {
            pipe,
            take,
            length: 0,
            limit,
        }
    }

    /// Hands on what comes until the pipe is closed; whether that was before the deadline.
    fn wait_until(&mut self, deadline: Instant) -> bool {
        while let Some(pipe) = &self.pipe {
            match pipe.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => {
                    self.length += chunk.len() as u64;
                    (self.take)(&chunk);
                }
                Err(RecvTimeoutError::Disconnected) => self.pipe = None,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        true
    }

    /// Whether more was printed than is kept.
    fn is_over(&self) -> bool {
        self.length > self.limit
    }
}

/// Takes what is left in the pipes of a killed group; whether they were closed.
fn drain(outputs: &mut [Output<'_>; 2]) -> bool {
    let grace = Instant::now() + GRACE;
    let [stdout, stderr] = outputs.each_mut().map(|output| output.wait_until(grace));
    stdout && stderr
}

/// How a wait for a child came to an end.
enum Ended {
    /// It ended, and so did whatever had its pipes.
    Alone(ExitStatus),
    /// It ended and isn't reaped yet, and something that it started holds a pipe open.
    PipesOpen,
    /// It goes on: it has to be killed, and that is the outcome.
    Not(Exit),
}

/// Waits for the end of both pipes and of the child.
///
/// The end of the pipes wakes this up at once. A child that has ended while something that it started
/// still holds a pipe open isn't waited for any longer than [`GRACE`].
fn wait(child: &mut Child, outputs: &mut [Output<'_>; 2], deadline: Instant) -> io::Result<Ended> {
    let mut ended: Option<Instant> = None;
    while !outputs
        .iter_mut()
        .all(|output| output.wait_until(deadline.min(Instant::now() + STEP)))
    {
        if outputs[0].is_over() {
            return Ok(Ended::Not(Exit::Flooded));
        }
        if has_ended(child) {
            let since = *ended.get_or_insert_with(Instant::now);
            if since.elapsed() >= GRACE {
                return Ok(Ended::PipesOpen);
            }
        }
        if Instant::now() >= deadline {
            return Ok(Ended::Not(Exit::TimedOut));
        }
    }
    if outputs[0].is_over() {
        return Ok(Ended::Not(Exit::Flooded));
    }
    let status = reap(child, deadline)?;
    Ok(status.map_or(Ended::Not(Exit::TimedOut), Ended::Alone))
}

/// Whether the child has ended. It stays a zombie, so that its number, which is its group's, isn't given to another.
fn has_ended(child: &mut Child) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", child.id())) {
        // The program's name stands in brackets, and may hold some itself.
        Ok(stat) => stat
            .rsplit_once(") ")
            .is_some_and(|(_, fields)| fields.starts_with('Z')),
        // Without /proc only reaping tells.
        Err(_) => child.try_wait().is_ok_and(|status| status.is_some()),
    }
}

/// Reaps a child whose pipes are closed: it ends now, or it hangs. `None` at the deadline.
fn reap(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut look = Duration::from_micros(50);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(look.min(left));
        look = (look * 2).min(LONGEST_LOOK);
    }
}

/// Kills the child with all that it has started, and reaps it.
///
/// The standard library can't signal a process group and this crate has no unsafe code, so the program `kill`
/// does it; where there is none, a shell; without either, at least the child itself is killed. It joins the group and
/// kills that it is in: the way to name another group differs between procps and busybox.
fn kill_group(child: &mut Child) -> io::Result<ExitStatus> {
    let mut programs = [Command::new("kill"), Command::new("/bin/sh")];
    programs[0].args(["-s", "KILL", "0"]);
    programs[1].args(["-c", "kill -s KILL 0"]);
    let group = i32::try_from(child.id());
    let killed = programs.iter_mut().any(|program| {
        let Ok(group) = group else { return false };
        let status = program
            .env("PATH", super::binaries::search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(group)
            .status();
        // It is in the group itself.
        status.is_ok_and(|status| status.signal().is_some())
    });
    if !killed {
        warn!(
            "process group {} couldn't be killed, only its first process",
            child.id()
        );
    }
    let _ = child.kill();
    child.wait()
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}
