//! Runs one child process: separate pipes, a time limit, nothing left behind.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use log::warn;

use crate::{Exit, Outcome, deadline};

/// How long to wait for the pipes of a killed group to close, before their readers are abandoned: a process
/// that has left the group may hold them open.
const GRACE: Duration = Duration::from_millis(500);

/// How often to look whether a child that keeps its pipes open has ended.
const STEP: Duration = Duration::from_millis(100);

/// The longest pause between two looks whether a child that has closed its pipes has ended.
const LONGEST_LOOK: Duration = Duration::from_millis(5);

/// What a reader of a pipe has to say.
type Pipe = Receiver<Vec<u8>>;

/// Runs the command with this input until it ends or the limit is over; then its whole process group is killed.
///
/// # Errors
/// The command couldn't be started.
pub(super) fn run(mut command: Command, input: &str, limit: Duration) -> io::Result<Outcome> {
    let deadline = deadline::from_now(limit);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    // Both ends are served at once: iptables may print more than a pipe holds before it reads on.
    let [stdout, stderr] = match serve(&mut child, input) {
        Ok(pipes) => pipes,
        Err(error) => {
            kill_group(&mut child);
            return Err(error);
        }
    };

    let mut outputs = [stdout, stderr].map(|pipe| Output {
        pipe,
        bytes: Vec::new(),
    });
    let exit = if let Some(status) = wait(&mut child, &mut outputs, deadline)? {
        exit(status)
    } else {
        kill_group(&mut child);
        let grace = Instant::now() + GRACE;
        for output in &mut outputs {
            output.wait_until(grace);
        }
        Exit::TimedOut
    };
    let [stdout, stderr] = outputs.map(|output| output.bytes);
    Ok(Outcome {
        exit,
        stdout,
        stderr,
    })
}

/// Starts the threads that serve the pipes; standard output and error are returned.
fn serve(child: &mut Child, input: &str) -> io::Result<[Option<Pipe>; 2]> {
    // The readers first: without one of them the input isn't begun.
    let stdout = child.stdout.take().map(read_all).transpose()?;
    let stderr = child.stderr.take().map(read_all).transpose()?;
    if let Some(stdin) = child.stdin.take() {
        write_all(stdin, input.to_owned())?;
    }
    Ok([stdout, stderr])
}

/// Writes and closes a pipe from a thread of its own, with a copy: the thread may outlive the call.
fn write_all(mut pipe: impl Write + Send + 'static, input: String) -> io::Result<()> {
    let write = move || {
        // A tool that finds an error stops reading: its exit code says more than a broken pipe.
        let _ = pipe.write_all(input.as_bytes());
    };
    thread::Builder::new().spawn(write).map(drop)
}

/// Reads a pipe to its end on a thread of its own.
fn read_all(mut pipe: impl Read + Send + 'static) -> io::Result<Pipe> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    if sender.send(chunk[..count].to_vec()).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    };
    thread::Builder::new().spawn(read)?;
    Ok(receiver)
}

/// What has come out of a pipe so far.
struct Output {
    /// `None` once its end was reached.
    pipe: Option<Pipe>,
    bytes: Vec<u8>,
}

impl Output {
    /// Collects until the pipe is closed; whether that was before the deadline.
    fn wait_until(&mut self, deadline: Instant) -> bool {
        while let Some(pipe) = &self.pipe {
            match pipe.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.bytes.extend_from_slice(&chunk),
                Err(RecvTimeoutError::Disconnected) => self.pipe = None,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        true
    }
}

/// Waits for the end of both pipes and of the child; `None` at the deadline.
///
/// The end of the pipes wakes this up at once. A child that has ended while something that it started
/// still holds a pipe open isn't waited for any longer than [`GRACE`].
fn wait(
    child: &mut Child,
    outputs: &mut [Output; 2],
    deadline: Instant,
) -> io::Result<Option<ExitStatus>> {
    let mut ended: Option<Instant> = None;
    while !outputs
        .iter_mut()
        .all(|output| output.wait_until(deadline.min(Instant::now() + STEP)))
    {
        match child.try_wait()? {
            Some(status) => {
                let since = *ended.get_or_insert_with(Instant::now);
                if since.elapsed() >= GRACE {
                    warn!("process {} has ended, but left its pipes open", child.id());
                    return Ok(Some(status));
                }
            }
            None if Instant::now() >= deadline => return Ok(None),
            None => {}
        }
    }
    reap(child, deadline)
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
fn kill_group(child: &mut Child) {
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
    let _ = child.wait();
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}
