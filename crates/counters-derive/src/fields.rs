//! Field types that are known to be no counters, told apart by name: the compiler would say it once for every place where
//! the derive's code names the type.

use syn::{Error, GenericArgument, PathArguments, Type};

/// Of the standard library, and as good as never names of something else.
const PLAIN: [&str; 29] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "bool",
    "char",
    "str",
    "String",
    "AtomicU8",
    "AtomicU16",
    "AtomicU32",
    "AtomicU64",
    "AtomicUsize",
    "AtomicI8",
    "AtomicI16",
    "AtomicI32",
    "AtomicI64",
    "AtomicIsize",
    "AtomicBool",
];

/// The same where they are of another type.
const AROUND: [&str; 11] = [
    "Vec", "Option", "Box", "Arc", "Rc", "Cell", "RefCell", "Mutex", "RwLock", "HashMap",
    "BTreeMap",
];

/// Refuses what cannot be a cell or a block of cells.
pub(crate) fn check(ty: &Type) -> syn::Result<()> {
    let is_known = match ty {
        Type::Array(array) => return check(&array.elem),
        Type::Group(group) => return check(&group.elem),
        Type::Paren(inner) => return check(&inner.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let is = |names: &[&str]| names.iter().any(|name| last.ident == name);
            match &last.arguments {
                PathArguments::None => is(&PLAIN),
                PathArguments::AngleBracketed(arguments) => {
                    let mut all = arguments.args.iter();
                    is(&AROUND) && all.any(|one| matches!(one, GenericArgument::Type(_)))
                }
                PathArguments::Parenthesized(_) => true,
            }
        }),
        Type::Macro(_) | Type::Infer(_) | Type::Verbatim(_) => false,
        _ => true,
    };
    if !is_known {
        return Ok(());
    }
    Err(Error::new_spanned(
        ty,
        "this is no counter: fields are cells of hitm-counters (`Counter`, `SignedCounter`, `Gauge`, `Latest`, `Max`, \
         `Min`, `Histogram`), arrays of them, or structs with this derive",
    ))
}
