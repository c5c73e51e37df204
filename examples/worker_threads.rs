//! Several threads share one worker: what they ask for at the same time becomes one commit, each has a ticket for its
//! own answer, and a bad request hurts only its own caller.
//!
//! `cargo run --example worker_threads [-- nf_tables|legacy|simulated]`

mod common;

use std::error::Error;
use std::thread;
use std::time::Duration;

use iptables_updater::worker::{self, WorkerConfig};
use iptables_updater::{Chain, IpVersion, IptablesUpdater, Table};

fn main() -> Result<(), Box<dyn Error>> {
    // The network namespace is this thread's: threads that are started later have it too.
    let updater = IptablesUpdater::builder(Table::Filter)
        .chain_prefix("web-")
        .open(common::executor(IpVersion::V4)?)?;
    let config = WorkerConfig::default().with_batch_spacing(Duration::from_millis(100));
    let handle = worker::spawn(updater, config);

    println!(
        "\nFour threads ask for three chains each; thread 2 asks for a match that doesn't exist."
    );
    let threads = (1..=4).map(|number| {
        let handle = handle.clone();
        thread::spawn(move || -> Result<Vec<String>, iptables_updater::Error> {
            let mut tickets = Vec::new();
            for part in ["a", "b", "c"] {
                let name = format!("web-{number}{part}");
                let rule = match (number, part) {
                    (2, "b") => "-m nosuchmatch -j ACCEPT",
                    _ => "-s 192.0.2.0/24 -j ACCEPT",
                };
                let chain = Chain::new(&name, [rule, "-j RETURN"])?;
                // Nobody waits yet: the thread goes on while the worker gathers.
                tickets.push((name, handle.rewrite_chains_later([chain])));
            }
            let answers = tickets
                .into_iter()
                .map(|(name, ticket)| match ticket.wait() {
                    Ok(()) => format!("thread {number}: {name} is programmed"),
                    Err(error) => format!("thread {number}: {name} was refused: {error}"),
                });
            Ok(answers.collect())
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        let answers = thread.join().map_err(|_| "a thread has panicked")??;
        for answer in answers {
            println!("  {answer}");
        }
    }

    println!("\nA circle is refused before anything is run, and a bad name at the call:");
    let circle = [
        Chain::new("web-x", ["-j web-y"])?,
        Chain::new("web-y", ["-j web-x"])?,
    ];
    for answer in [handle.rewrite_chains(circle), handle.delete_chains(["-x"])] {
        println!("  {}", answer.err().ok_or("it wasn't refused")?);
    }

    println!("\nA callback, where nobody wants to wait:");
    handle
        .delete_chains_later(["web-4c"])
        .on_done(|answer| println!("  web-4c is deleted: {}", answer.is_ok()));

    // Does what is queued first, the callback included.
    let updater = handle.shutdown()?;
    let names: Vec<_> = updater.programmed_chains();
    println!("\nProgrammed at the end: {names:?}");
    println!("{}", updater.stats());
    assert_eq!(names.len(), 10, "12 asked for, one refused, one deleted");
    Ok(())
}
