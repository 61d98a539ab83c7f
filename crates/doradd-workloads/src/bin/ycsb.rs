//! The command `ycsb`: generates logs of transactions over ten rows, and executes them.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use doradd_workloads::front::{self, Exit, RunOptions, Table, Workload};
use doradd_workloads::log::{Rows, Transaction};
use doradd_workloads::memory::Bytes;
use doradd_workloads::ycsb::{Contention, Generator, Profile, Theta, WriteRatio, Ycsb};

/// Executes a log of transactions over ten rows each, in parallel, with the result of executing it one by one.
///
/// Exit code: 0 done, 1 the result is not that of the serial oracle (--verify), 2 wrong usage or a wrong log, 3 the machine
/// refused (memory, threads, processors).
#[derive(Parser, Debug)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Writes a log of random transactions, the same for the same options, to the byte
    Gen(GenArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    options: RunOptions,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: u64,

    /// Bytes of a row: 64, 256, 1024 or 4096
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = row_bytes)]
    row_bytes: u64,
}

#[derive(Args, Debug)]
struct GenArgs {
    /// Transactions
    #[arg(long, value_name = "N")]
    txns: u32,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: u64,

    /// What random numbers start from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// How many of the ten keys are of a hot set of 77 rows: none, 3 (mod) or 7 (high)
    #[arg(long, value_enum, default_value = "no")]
    contention: ContentionChoice,

    /// The other keys by Zipf's law with this exponent, between 0 and 1, instead of uniformly
    #[arg(long, value_name = "THETA", value_parser = theta)]
    zipf: Option<Theta>,

    /// The part of the keys that is written, from 0 to 1
    #[arg(long, value_name = "R", default_value = "0.5", value_parser = write_ratio)]
    write_ratio: WriteRatio,

    /// The log; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum ContentionChoice {
    No,
    Mod,
    High,
}

impl From<ContentionChoice> for Contention {
    fn from(choice: ContentionChoice) -> Self {
        match choice {
            ContentionChoice::No => Self::No,
            ContentionChoice::Mod => Self::Moderate,
            ContentionChoice::High => Self::High,
        }
    }
}

fn theta(text: &str) -> Result<Theta> {
    Ok(Theta::new(text.parse()?)?)
}

fn write_ratio(text: &str) -> Result<WriteRatio> {
    Ok(WriteRatio::new(text.parse()?)?)
}

/// The sizes that the program is compiled for.
const ROW_BYTES: [u64; 4] = [64, 256, 1024, 4096];

fn row_bytes(text: &str) -> Result<u64> {
    let bytes = text.parse()?;
    anyhow::ensure!(ROW_BYTES.contains(&bytes), "rows have {ROW_BYTES:?} bytes");
    Ok(bytes)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    front::end("ycsb", dispatch(cli))
}

fn dispatch(cli: Cli) -> Result<Exit> {
    match cli.command {
        Some(Command::Gen(args)) => generate(&args),
        None => run(&cli.run),
    }
}

fn generate(args: &GenArgs) -> Result<Exit> {
    let generator = Generator::new(&Profile {
        rows: Rows(args.rows),
        seed: args.seed,
        contention: args.contention.into(),
        zipf: args.zipf,
        write_ratio: args.write_ratio,
    })?;
    let records = generator.map(|transaction| transaction.encode());
    front::generate::write(&args.output, args.txns, records)?;
    Ok(Exit::Done)
}

fn run(args: &RunArgs) -> Result<Exit> {
    match args.row_bytes {
        64 => run_with::<8>(args),
        256 => run_with::<32>(args),
        4096 => run_with::<512>(args),
        _ => run_with::<128>(args),
    }
}

fn run_with<const WORDS: usize>(args: &RunArgs) -> Result<Exit> {
    let RunArgs {
        options,
        rows,
        row_bytes,
    } = args;
    let workload = Workload::<Transaction> {
        program: "ycsb",
        bounds: Rows(*rows),
        bytes: Bytes(Ycsb::<(), (), WORDS>::bytes(Rows(*rows))),
        what: format!("{rows} rows of {row_bytes} bytes"),
        remedy: "give fewer with --rows, or smaller ones with --row-bytes",
        table: Table::Rows {
            rows: *rows,
            row_bytes: *row_bytes,
        },
    };
    front::run(options, workload, |meter| {
        Ycsb::<_, _, WORDS>::new(Rows(*rows), meter)
    })
}
