//! Reads a restore input line by line, and commits each block where it ends.

use std::collections::BTreeSet;

use super::command::{self, Context, parameter};
use super::dialect::{Dialect, Stop};
use super::kernel::Kernel;
use super::{legacy, nft};
use crate::{Outcome, Table, excerpt, words};

/// The most bytes that iptables reads as one line; the rest is taken for the next one.
const LINE: usize = 10_239;

/// What a block is made of until it is committed. The two back ends do their work at different times:
/// nf_tables collects a block's commands and does them at its `COMMIT`, legacy does each at once on a
/// copy of the table and hands that to the kernel.
#[derive(Debug)]
enum Block {
    Nft(nft::Block),
    Legacy(legacy::Block),
}

/// Runs a restore input. What blocks before a failing one did, stays.
pub(super) fn restore(kernel: &mut Kernel, input: &str) -> Outcome {
    let mut reader = Reader {
        kernel,
        block: None,
        line: 0,
        warnings: String::new(),
        declared: BTreeSet::new(),
        memory: nft::Memory::default(),
    };
    let stop = reader.read(input).err();
    let (line, mut warnings) = (reader.line, reader.warnings);
    let mut outcome = match stop {
        Some(stop) => kernel.dialect.word(&stop, line),
        None => Outcome::success(""),
    };
    warnings.push_str(&String::from_utf8_lossy(&outcome.stderr));
    outcome.stderr = warnings.into_bytes();
    outcome
}

struct Reader<'a> {
    kernel: &'a mut Kernel,
    block: Option<(Table, Block)>,
    line: usize,
    warnings: String,
    declared: BTreeSet<String>,
    memory: nft::Memory,
}

impl Reader<'_> {
    fn read(&mut self, input: &str) -> Result<(), Stop> {
        for line in input.split_inclusive('\n').flat_map(pieces) {
            self.line += 1;
            // A NUL ends the text for a program in C.
            let line = line.split('\0').next().unwrap_or(line);
            self.line(line)?;
        }
        match self.block {
            Some(_) => Err(Stop::NoCommit),
            None => Ok(()),
        }
    }

    fn line(&mut self, line: &str) -> Result<(), Stop> {
        let dialect = self.kernel.dialect;
        if line.starts_with(['\n', '#']) {
            return Ok(());
        }
        let Some((table, block)) = &mut self.block else {
            let Some(rest) = line.strip_prefix('*') else {
                return Err(Stop::Bare);
            };
            return self.open(rest);
        };
        if line == "COMMIT\n" || (line == "COMMIT" && !dialect.is_legacy()) {
            return self.commit();
        }
        if let Some(rest) = line.strip_prefix(':') {
            let (name, policy) = declaration(dialect, rest, self.line)?;
            self.declared.insert(name.to_owned());
            return match block {
                Block::Nft(block) => block.declare(self.line, name, policy, *table, dialect),
                Block::Legacy(block) => block.declare(self.line, name, policy),
            };
        }
        let context = Context {
            dialect,
            table: *table,
            sets: &self.kernel.sets,
            declared: &self.declared,
        };
        let Some(command) = command::parse(context, split(line, self.line)?, &mut self.warnings)?
        else {
            return Ok(());
        };
        match block {
            Block::Nft(block) => block.push(self.line, command),
            Block::Legacy(block) => {
                let warning = block.run(self.line, command)?;
                self.warnings.push_str(&warning);
            }
        }
        Ok(())
    }

    fn open(&mut self, rest: &str) -> Result<(), Stop> {
        let dialect = self.kernel.dialect;
        let program = dialect.restore_program();
        let line = self.line;
        let name = tokens(rest)
            .next()
            .ok_or_else(|| parameter(format!("{program}: line {line} table name invalid")))?;
        let table: Table = name.parse().map_err(|_| {
            parameter(if dialect.is_legacy() {
                format!("{program}: unable to initialize table '{name}'")
            } else {
                format!("{program}: line {line} table name '{name}' invalid")
            })
        })?;
        let block = if dialect.is_legacy() {
            Block::Legacy(legacy::Block::new(self.kernel.table(table), table, dialect))
        } else {
            Block::Nft(nft::Block::new())
        };
        self.block = Some((table, block));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Stop> {
        let Some((table, block)) = self.block.take() else {
            return Err(Stop::Bare);
        };
        let after = match block {
            Block::Nft(block) => {
                let chains = self.kernel.table(table);
                block.commit(chains, table, self.kernel.dialect, &mut self.memory)?
            }
            Block::Legacy(block) => block.commit()?,
        };
        self.kernel.set_table(table, after);
        Ok(())
    }
}

/// The line, or the pieces that iptables takes for lines of their own.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let piece = excerpt::beginning(rest, LINE);
        rest = &rest[piece.len()..];
        Some(piece)
    })
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', '\n'])
        .filter(|token| !token.is_empty())
}

/// `:chain policy [counters]`, the colon taken off; how the name is judged depends on the back end,
/// and it is judged before a missing policy is.
fn declaration(dialect: Dialect, rest: &str, line: usize) -> Result<(&str, Option<&str>), Stop> {
    let program = dialect.restore_program();
    let mut tokens = tokens(rest);
    let name = tokens
        .next()
        .ok_or_else(|| parameter(format!("{program}: line {line} chain name invalid")))?;
    Ok((name, tokens.next()))
}

pub(super) fn no_policy(dialect: Dialect, line: usize) -> Stop {
    let program = dialect.restore_program();
    parameter(format!("{program}: line {line} policy invalid"))
}

/// Splits a line into words, its counters taken off.
fn split(line: &str, number: usize) -> Result<Vec<String>, Stop> {
    let rest = match line.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((_, rest)) => rest,
            None => return Err(parameter(format!("Bad line {number}: need ]"))),
        },
        None => line,
    };
    // A quote that isn't closed takes the rest of the line, its end included.
    let words = words::split(rest)
        .or_else(|_| words::split(&format!("{rest}\"")))
        .or_else(|_| words::split(&format!("{rest}\\\"")));
    let words = words.unwrap_or_default();
    Ok(words.into_iter().map(|word| word.text).collect())
}
