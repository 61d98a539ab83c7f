//! The derive macro of hitm-counters; documented there, as `hitm_counters::Counters`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod attributes;
mod fields;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Fields, FieldsNamed, Ident, parse_macro_input};

use attributes::{FieldOptions, StructOptions, first_paragraph};

/// Makes a struct of cells one thread's block. See `hitm_counters::Counters`.
#[proc_macro_derive(Counters, attributes(counters))]
pub fn derive_counters(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let block = named_fields(input)?;
    let options = StructOptions::of(&input.attrs)?;
    let (name, vis) = (&input.ident, &input.vis);
    let derives = options.derives;
    let values = options
        .values
        .unwrap_or_else(|| format_ident!("{name}Values"));
    let mut describe = Vec::new();
    let mut declare = Vec::new();
    let mut read = Vec::new();
    let mut blocks = Vec::new();
    for field in &block.named {
        let Some(ident) = &field.ident else { continue };
        let (ty, field_vis) = (&field.ty, &field.vis);
        // What the compiler says of a field's type stands at the type.
        let span = ty.span();
        let block = quote_spanned!(span=> <#ty as ::hitm_counters::Counters>);
        let options = FieldOptions::of(&field.attrs)?;
        fields::check(ty)?;
        let shown = options.name.unwrap_or_else(|| plain_name(ident));
        let label = options.label.unwrap_or_else(|| "index".to_owned());
        let help = first_paragraph(&field.attrs);
        describe.push(quote_spanned! {span=>
            describe.field::<#ty>(#shown, #help, #label, ::core::mem::offset_of!(Self, #ident));
        });
        let doc = format!("Of [`{name}`]'s field of this name.");
        declare.push(quote! {
            #[doc = #doc]
            #field_vis #ident: #block::Values
        });
        read.push(quote! {
            #ident: {
                let first = ::core::mem::offset_of!(Self, #ident) / WORD;
                let own = words.get(first..first + #block::WORDS);
                #block::values(own.unwrap_or(&[]))
            }
        });
        blocks.push(block);
    }
    let doc = format!("The values of [`{name}`].");
    Ok(quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, PartialEq #(, #derives)*)]
        #vis struct #values {
            #(#declare),*
        }

        #[automatically_derived]
        // SAFETY: every field is a block of cells, described at its offset. That there is no padding, and nothing else,
        // is asserted on the sizes when the block type is used.
        unsafe impl ::hitm_counters::Counters for #name {
            type Values = #values;
            const WORDS: usize = 0 #(+ #blocks::WORDS)*;
            const PER_CPU: bool = true #(&& #blocks::PER_CPU)*;

            fn describe(describe: &mut ::hitm_counters::Describe<'_>) {
                #(#describe)*
            }

            fn values(words: &[u64]) -> #values {
                const WORD: usize = ::hitm_counters::__private::WORD_BYTES;
                #values { #(#read),* }
            }
        }
    })
}

/// A field's name without the mark of a raw identifier.
fn plain_name(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

fn named_fields(input: &DeriveInput) -> syn::Result<&FieldsNamed> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(
            parameter,
            "a block of counters has no parameters: its layout is fixed, so name the types of its fields",
        ));
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if !fields.named.is_empty() => Ok(fields),
            Fields::Named(_) => Err(Error::new_spanned(
                &input.ident,
                "a block of counters has at least one: give it a field, such as `reads: Counter`",
            )),
            Fields::Unnamed(_) | Fields::Unit => Err(Error::new_spanned(
                &input.ident,
                "a block of counters needs named fields, such as `reads: Counter`: their names are those of the \
                 counters",
            )),
        },
        Data::Enum(_) | Data::Union(_) => Err(Error::new_spanned(
            &input.ident,
            "a block of counters is a struct: it has all of its counters at once",
        )),
    }
}
