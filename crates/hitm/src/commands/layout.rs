//! `hitm layout`: the lines and types of a binary.

use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;

use anyhow::bail;
use hitm_analysis::layout::{Found, MapOptions, find, line_map, lines_around, type_view};
use hitm_binary::debug::{Catalog, CatalogEntry, DebugInfo};
use hitm_binary::image::Image;
use hitm_model::{LayoutReport, LineSize, TypeView};
use hitm_report::{LayoutTableOptions, layout_json, layout_table, type_summary};

use super::found::{self, To};
use super::static_binary::{StaticBinary, jobs, line_size};
use crate::cli::{JsonArg, LayoutArgs};
use crate::exit_codes::Exit;
use crate::output;

/// Shows what was asked for.
pub(crate) fn layout(args: &LayoutArgs) -> anyhow::Result<Exit> {
    let binary = StaticBinary::open(&args.binary)?;
    let catalog = binary.catalog()?;
    let line_size = line_size(args.line_size);
    let request = Request {
        args,
        image: binary.image(),
        catalog: catalog.as_ref(),
        line_size,
        jobs: jobs(),
    };
    if args.all_types && !args.json.is_given() {
        request.list_types()?;
        return Ok(Exit::Done);
    }
    let mut report = LayoutReport {
        binary: args.binary.display().to_string(),
        machine: binary.image().machine().to_string(),
        line_size,
        maps: Vec::new(),
        types: Vec::new(),
        caveats: Vec::new(),
    };
    request.answer(&mut report)?;
    report.caveats = binary.caveats(catalog.as_ref());
    show(&report, args)?;
    Ok(Exit::Done)
}

struct Request<'a, 'i> {
    args: &'a LayoutArgs,
    image: &'i Image<'i>,
    catalog: Option<&'a Catalog<'i>>,
    line_size: LineSize,
    jobs: NonZeroUsize,
}

impl<'i> Request<'_, 'i> {
    fn answer(&self, report: &mut LayoutReport) -> anyhow::Result<()> {
        if self.args.all_types {
            self.each_type(&mut |view| {
                report.types.push(view);
                Ok(())
            })?;
            return Ok(());
        }
        let map = MapOptions {
            line_size: self.line_size,
            read_only: self.args.all,
        };
        let debug = self.catalog.map(Catalog::debug);
        let Some(name) = &self.args.name else {
            report.maps.push(line_map(self.image, debug.as_ref(), &map));
            return Ok(());
        };
        let found = find(
            self.image,
            self.catalog,
            debug.as_ref(),
            name,
            self.args.only_types,
            self.line_size,
            self.jobs,
        );
        match found {
            Ok(Found::Places(places)) => {
                for focus in places {
                    let lines = lines_around(self.image, debug.as_ref(), focus, &map);
                    report.maps.push(lines);
                }
            }
            Ok(Found::Types(entries, path)) => {
                if let Some(debug) = &debug {
                    report.types = self.types(debug, &entries, &path)?;
                }
            }
            Err(error) => {
                let hint = match self.catalog {
                    None => {
                        "; without debug information there are no types and fields: build with -g"
                    }
                    Some(_) => " (`hitm layout BINARY --all-types` lists the types)",
                };
                bail!("{}: {error}{hint}", self.args.binary.display());
            }
        }
        Ok(())
    }

    /// The types of a name; those that lie alike are shown once.
    fn types(
        &self,
        debug: &DebugInfo<'i>,
        entries: &[CatalogEntry],
        path: &str,
    ) -> anyhow::Result<Vec<TypeView>> {
        /// A name of many types, as that of a generic one, is asked for again with its arguments.
        const MOST: usize = 20;
        let mut views: Vec<TypeView> = Vec::new();
        let mut missing = false;
        for entry in entries {
            let Some(layout) = debug.layout_of(entry) else {
                continue;
            };
            let mut view = type_view(&layout, &self.line_sizes());
            if !path.is_empty() {
                match debug.place_of(entry.ty, path) {
                    Some(place) => {
                        let name = path.trim_start_matches('.').to_owned();
                        view.focus = Some((name, place.offset, place.size));
                    }
                    None => {
                        missing = true;
                        continue;
                    }
                }
            }
            if !views.contains(&view) {
                views.push(view);
            }
        }
        if views.is_empty() {
            let shown = self.args.binary.display();
            match missing {
                true => bail!(
                    "{shown}: the type has no field `{}`; show it with its fields: hitm layout {shown} {}",
                    path.trim_start_matches('.'),
                    entries.first().map_or("TYPE", |entry| entry.path.as_str())
                ),
                false => bail!("{shown}: the type is only declared there, without a size"),
            }
        }
        if views.len() > MOST && !self.args.all {
            let more = views.len() - MOST;
            output::say(&format!(
                "hitm: {more} more types have this name: give its arguments too, or --all"
            ));
            views.truncate(MOST);
        }
        Ok(views)
    }

    fn line_sizes(&self) -> Vec<LineSize> {
        let mut sizes = vec![self.line_size];
        for bytes in [64, 128] {
            sizes.extend(
                LineSize::new(bytes)
                    .ok()
                    .filter(|&size| size != self.line_size),
            );
        }
        sizes.sort();
        sizes
    }

    fn each_type(&self, see: &mut dyn FnMut(TypeView) -> io::Result<()>) -> anyhow::Result<()> {
        let Some(catalog) = self.catalog else {
            bail!(
                "{} has no debug information, so no types: build with -g (it changes no code)",
                self.args.binary.display()
            );
        };
        let entries = catalog.all(self.jobs);
        let sizes = match self.args.json.is_given() {
            true => self.line_sizes(),
            false => Vec::new(),
        };
        let mut failed = Ok(());
        catalog.lay_out(&entries, self.jobs, &mut |_, layout| {
            if failed.is_ok() {
                failed = see(type_view(&layout, &sizes));
            }
        });
        Ok(failed?)
    }

    /// All types as they are read: nothing of them is kept.
    fn list_types(&self) -> anyhow::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        self.each_type(&mut |view| type_summary(&view, self.line_size, &mut out))?;
        Ok(out.flush()?)
    }
}

fn show(report: &LayoutReport, args: &LayoutArgs) -> anyhow::Result<()> {
    let options = LayoutTableOptions {
        color: true,
        width: output::width(&io::stdout()),
        top: (!args.all).then_some(args.top),
    };
    found::show(
        To::of(args.json.json.as_ref()),
        |out| layout_json(report, out),
        |text| layout_table(report, &options, text),
    )
}

impl JsonArg {
    /// Whether JSON was asked for.
    fn is_given(&self) -> bool {
        self.json.is_some()
    }
}
