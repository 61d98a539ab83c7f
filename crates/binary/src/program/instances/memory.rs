//! What is known of the words of memory at one point of a run.

use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::program::value::{Lineage, Origin, Value, Values};

/// So many words of one space are known at once.
const MOST_CELLS: usize = 2048;
/// So many elements of an array are looked at for one whose number is not known.
const MOST_ELEMENTS: i64 = 16;

/// What an offset is counted from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Space {
    /// The file.
    File,
    /// A block that is there only while the program runs.
    Block(u32),
}

impl Space {
    pub(super) fn of(value: Value) -> Option<Self> {
        match value.origin {
            Origin::File => Some(Self::File),
            Origin::Block(number) => Some(Self::Block(number)),
            _ => None,
        }
    }
}

/// Where a cell is; with a distance it stands for one of all elements.
type Place = (i64, u32);

#[derive(Clone, PartialEq, Debug)]
struct Cell {
    size: u8,
    values: Values,
}

type Cells = BTreeMap<Place, Cell>;

/// The words that are known. Copies share what they have in common.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory {
    spaces: Rc<FxHashMap<Space, Rc<Cells>>>,
}

impl Memory {
    /// What `size` bytes at an address are, if that is known.
    pub(super) fn load(&self, space: Space, at: Value, size: usize) -> Option<Values> {
        let cells = self.spaces.get(&space)?;
        if at.stride == 0 {
            return read(cells.get(&(at.offset, 0))?, size);
        }
        // One of the elements: those that stand for all, and those that are known each.
        let mut found = cells
            .get(&(at.offset, at.stride))
            .and_then(|cell| read(cell, size));
        for number in 0..MOST_ELEMENTS {
            let offset = at
                .offset
                .wrapping_add(number.wrapping_mul(i64::from(at.stride)));
            let one = cells.get(&(offset, 0)).and_then(|cell| read(cell, size));
            match (one, &mut found) {
                (Some(one), Some(found)) => *found = found.join(&one),
                (Some(one), none @ None) => *none = Some(one),
                // A list ends where nothing more is known.
                (None, _) => break,
            }
        }
        found
    }

    fn cells(&mut self, space: Space) -> &mut Cells {
        let spaces = Rc::make_mut(&mut self.spaces);
        Rc::make_mut(spaces.entry(space).or_default())
    }

    /// A new block: nothing is known of what is in it.
    pub(super) fn begin(&mut self, space: Space) {
        self.cells(space).clear();
    }

    /// Stores `size` bytes; if it is not sure that it is there, what was there before may be there still.
    pub(super) fn store(
        &mut self,
        space: Space,
        at: Value,
        size: usize,
        values: Option<Values>,
        sure: bool,
    ) {
        let cells = self.cells(space);
        let place = (at.offset, at.stride);
        let whole = u8::try_from(size).ok().filter(|size| *size <= 8);
        let values = values.filter(|_| whole.is_some());
        let old = cells.get(&place).cloned();
        if at.stride == 0 {
            clear(cells, at.offset, size);
        }
        let (Some(values), Some(size)) = (values, whole) else {
            cells.remove(&place);
            return;
        };
        let values = match old.filter(|old| old.size == size) {
            Some(old) if !sure || at.stride != 0 => old.values.join(&values),
            None if !sure => return,
            _ => values,
        };
        if cells.len() < MOST_CELLS {
            cells.insert(place, Cell { size, values });
        }
    }

    /// Forgets a part of a space.
    pub(super) fn forget(&mut self, space: Space, from: i64, to: i64) {
        let Some(cells) = self.spaces.get(&space) else {
            return;
        };
        if cells.keys().any(|(at, _)| (from..to).contains(at)) {
            self.cells(space)
                .retain(|(at, _), _| !(from..to).contains(at));
        }
    }

    /// Copies what is known of `size` bytes.
    pub(super) fn copy(&mut self, from: (Space, i64), to: (Space, i64), size: i64) {
        if size <= 0 {
            return;
        }
        let mut copied: Vec<(Place, Cell)> = Vec::new();
        if let Some(cells) = self.spaces.get(&from.0) {
            let end = from.1.saturating_add(size);
            let inside = cells.range((from.1, 0)..(end, 0));
            copied.extend(
                inside
                    .filter(|((_, stride), _)| *stride == 0)
                    .map(|((at, _), cell)| ((at.wrapping_sub(from.1), 0), cell.clone())),
            );
        }
        let cells = self.cells(to.0);
        clear(cells, to.1, usize::try_from(size).unwrap_or(0));
        for ((at, stride), cell) in copied {
            if cells.len() < MOST_CELLS {
                cells.insert((at.wrapping_add(to.1), stride), cell);
            }
        }
    }

    /// The blocks that words of a block point to.
    pub(super) fn pointed_to(&self, space: Space) -> Vec<Space> {
        let cells = self.spaces.get(&space);
        let values = cells
            .into_iter()
            .flat_map(|cells| cells.values())
            .flat_map(|cell| cell.values.all());
        let mut spaces: Vec<Space> = values
            .filter_map(|value| Space::of(*value))
            .filter(|space| *space != Space::File)
            .collect();
        spaces.sort_unstable_by_key(|space| match space {
            Space::File => 0,
            Space::Block(number) => *number,
        });
        spaces.dedup();
        spaces
    }

    /// What is known where two ways of control meet; whether that is less than before.
    pub(super) fn meet(&mut self, other: &Self, with: impl Fn(&Values, &Values) -> Values) -> bool {
        if Rc::ptr_eq(&self.spaces, &other.spaces) {
            return false;
        }
        let mut changed = false;
        let spaces = Rc::make_mut(&mut self.spaces);
        for (space, theirs) in other.spaces.iter() {
            match spaces.get_mut(space) {
                None => {
                    // There on one way only: who uses it has come that way.
                    if *space != Space::File {
                        spaces.insert(*space, Rc::clone(theirs));
                        changed = true;
                    }
                }
                Some(mine) if Rc::ptr_eq(mine, theirs) || mine == theirs => {}
                Some(mine) => {
                    let mine = Rc::make_mut(mine);
                    changed |= meet_cells(mine, theirs, &with);
                }
            }
        }
        if !other.spaces.contains_key(&Space::File) {
            changed |= spaces.remove(&Space::File).is_some();
        }
        changed
    }

    /// Changes all values.
    pub(super) fn map(&mut self, change: impl Fn(Value) -> Value) {
        for cells in Rc::make_mut(&mut self.spaces).values_mut() {
            for cell in Rc::make_mut(cells).values_mut() {
                cell.values = cell.values.map(&change);
            }
        }
    }
}

fn read(cell: &Cell, size: usize) -> Option<Values> {
    if usize::from(cell.size) == size {
        return Some(cell.values.clone());
    }
    let [value] = cell.values.all() else {
        return None;
    };
    let number = value.as_number()?;
    let mask = match size {
        1 => 0xff,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => return None,
    };
    (size < usize::from(cell.size)).then(|| Value::number(number & mask).into())
}

/// Forgets what overlaps.
fn clear(cells: &mut Cells, from: i64, size: usize) {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let end = from.saturating_add(size);
    let met: Vec<Place> = cells
        .range((from.saturating_sub(8), 0)..(end, 0))
        .filter(|((at, stride), cell)| {
            *stride == 0 && at.saturating_add(i64::from(cell.size)) > from
        })
        .map(|(place, _)| *place)
        .collect();
    for place in met {
        cells.remove(&place);
    }
}

fn meet_cells(
    mine: &mut Cells,
    theirs: &Cells,
    with: &impl Fn(&Values, &Values) -> Values,
) -> bool {
    let mut changed = false;
    mine.retain(|place, cell| {
        let kept = match theirs.get(place) {
            Some(other) if other.size == cell.size => {
                if cell.values != other.values {
                    let met = with(&cell.values, &other.values);
                    changed |= met != cell.values;
                    cell.values = met;
                }
                true
            }
            // What stands for all elements counts once any of them was stored.
            None => place.1 != 0,
            Some(_) => false,
        };
        changed |= !kept;
        kept
    });
    for (place, cell) in theirs.iter().filter(|(place, _)| place.1 != 0) {
        if !mine.contains_key(place) {
            mine.insert(*place, cell.clone());
            changed = true;
        }
    }
    changed
}

/// What rounds of a loop differ in is what threads that are started in it differ in.
pub(super) fn by_thread(value: Value) -> Value {
    let turned = |lineage: Lineage| match lineage.meets(Lineage::ROUND) {
        true => lineage.without(Lineage::ROUND).with(Lineage::THREAD),
        false => lineage,
    };
    Value {
        lineage: turned(value.lineage),
        index: turned(value.index),
        ..value
    }
}
