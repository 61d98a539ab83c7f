//! What `#[counters(…)]` and doc comments say.

use syn::{Attribute, Expr, ExprLit, Ident, Lit, LitStr, Meta, Path};

/// Of the struct.
#[derive(Default)]
pub(crate) struct StructOptions {
    /// The name of the struct of values.
    pub(crate) values: Option<Ident>,
    /// What else the struct of values derives.
    pub(crate) derives: Vec<Path>,
}

/// Of a field.
#[derive(Default)]
pub(crate) struct FieldOptions {
    /// Its name in exports.
    pub(crate) name: Option<String>,
    /// The label that tells the elements of an array apart.
    pub(crate) label: Option<String>,
}

impl StructOptions {
    pub(crate) fn of(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        for attribute in ours(attributes) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("values") {
                    options.values = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("derive") {
                    meta.parse_nested_meta(|derive| {
                        options.derives.push(derive.path);
                        Ok(())
                    })?;
                } else {
                    return Err(meta
                        .error("a struct of counters knows `values = Name` and `derive(…)` only"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

impl FieldOptions {
    pub(crate) fn of(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        for attribute in ours(attributes) {
            attribute.parse_nested_meta(|meta| {
                let option = if meta.path.is_ident("name") {
                    &mut options.name
                } else if meta.path.is_ident("label") {
                    &mut options.label
                } else {
                    return Err(meta.error("a field knows `name = \"…\"` and `label = \"…\"` only"));
                };
                *option = Some(meta.value()?.parse::<LitStr>()?.value());
                Ok(())
            })?;
        }
        Ok(options)
    }
}

fn ours(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("counters"))
}

/// The first paragraph of the documentation, on one line.
pub(crate) fn first_paragraph(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) = &meta.value
        else {
            return None;
        };
        meta.path.is_ident("doc").then(|| text.value())
    });
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    let paragraph: Vec<&str> = (lines.iter().map(String::as_str))
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty())
        .collect();
    paragraph.join(" ")
}
