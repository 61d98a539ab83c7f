//! What a user can get wrong.

/// Why a word on the command line is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not one of the gates.
    #[error(
        "`{word}` is not a gate: use `false-sharing`, `any` or `never`, the first two with a least share if need be, \
         as in `--fail-on any:5%`"
    )]
    UnknownGate {
        /// What was given.
        word: String,
    },
    /// Not a share.
    #[error("`{word}` is not a share from 0 to 100 %: give it as in `--fail-on {gate}:5%`")]
    BadShare {
        /// The gate it was given for.
        gate: String,
        /// What was given.
        word: String,
    },
    /// A share where none is meant.
    #[error("`never` takes no share: `--fail-on never`")]
    ShareOfNever,
}
