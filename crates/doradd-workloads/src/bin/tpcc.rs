//! The command `tpcc`: generates logs of TPC-C's New-Order and Payment, and executes them.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use doradd_workloads::front::{self, Exit, RunOptions, Table, Workload};
use doradd_workloads::memory::{self, Bytes};
use doradd_workloads::tpcc::{Generator, PaymentRatio, Profile, Tpcc, Transaction, Warehouses};

/// Executes a log of TPC-C's New-Order and Payment transactions, in parallel, with the result of executing it one by one.
///
/// Exit code: 0 done, 1 the result is not that of the serial oracle or is inconsistent (--verify), 2 wrong usage or a wrong
/// log, 3 the machine refused (memory, threads, processors).
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

    /// Warehouses, of some 60 MB each [default: 8, or as many as fit into half of the free memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    warehouses: Option<u16>,
}

#[derive(Args, Debug)]
struct GenArgs {
    /// Transactions
    #[arg(long, value_name = "N")]
    txns: u32,

    /// Warehouses [default: as for executing]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    warehouses: Option<u16>,

    /// What random numbers start from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The part of the transactions that are payments, from 0 to 1; the others are New-Orders
    #[arg(long, value_name = "R", default_value = "0.5", value_parser = payments)]
    payments: PaymentRatio,

    /// The log; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

fn payments(text: &str) -> Result<PaymentRatio> {
    Ok(PaymentRatio::new(text.parse()?)?)
}

/// What is used where nothing is asked for.
const WAREHOUSES: u16 = 8;

/// As many as were asked for, or as fit.
fn warehouses(asked: Option<u16>) -> Warehouses {
    let fits = |n: &u16| {
        let free = memory::available(Path::new("/"));
        let bytes = Tpcc::<(), ()>::bytes(Warehouses(*n));
        free.is_none_or(|free| bytes <= free.bytes.0 / 2)
    };
    Warehouses(asked.unwrap_or_else(|| (1..=WAREHOUSES).rev().find(fits).unwrap_or(1)))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Gen(args)) => generate(&args),
        None => run(&cli.run),
    };
    front::end("tpcc", result)
}

fn generate(args: &GenArgs) -> Result<Exit> {
    let generator = Generator::new(&Profile {
        warehouses: warehouses(args.warehouses),
        seed: args.seed,
        payments: args.payments,
    });
    let records = generator.map(|transaction| transaction.encode());
    front::generate::write(&args.output, args.txns, records)?;
    Ok(Exit::Done)
}

fn run(args: &RunArgs) -> Result<Exit> {
    let warehouses = warehouses(args.warehouses);
    let workload = Workload::<Transaction> {
        program: "tpcc",
        bounds: warehouses,
        bytes: Bytes(Tpcc::<(), ()>::bytes(warehouses)),
        what: format!("{} warehouses", warehouses.0),
        remedy: "give fewer with --warehouses",
        table: Table::Warehouses {
            warehouses: warehouses.0.into(),
        },
    };
    front::run(&args.options, workload, |meter| {
        Tpcc::new(warehouses, meter)
    })
}
