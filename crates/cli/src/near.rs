//! Names of rows in messages: a file may have hundreds of rows.

use crate::counted::counted;
use tantalum_drive::nearest_name;

/// As many rows are named.
const MOST: usize = 5;

/// Why no row has this text in its name: the rows whose names are nearest, and how many there are.
pub fn no_row(text: &str, names: &[&str]) -> String {
    let mut left = names.to_vec();
    let mut near = Vec::new();
    // Names with some of its words come first, and then names that look like it.
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
    let has = |name: &str| parts.iter().filter(|part| name.contains(**part)).count();
    let most = left.iter().map(|name| has(name)).max().filter(|most| *most > 0);
    if let Some(most) = most {
        near.extend(left.iter().copied().filter(|name| has(name) == most).take(MOST));
        left.retain(|name| !near.contains(name));
    }
    // A name has parts, of which a user gives some.
    let looks_like = |name: &&str| parts.iter().any(|p| nearest_name(p, name.split('/')).is_some());
    near.extend(left.iter().copied().filter(looks_like).take(MOST - near.len()));
    left.retain(|name| !near.contains(name));
    while near.len() < MOST {
        let Some(next) = nearest_name(text, left.iter().copied()) else { break };
        near.push(next);
        left.retain(|name| *name != next);
    }
    let told = match near.as_slice() {
        near if near.is_empty() || names.len() <= MOST => some(names),
        near => format!("of {} the nearest are: {}; {LISTS}", rows(names), near.join(", ")),
    };
    format!("no row's name contains \"{text}\"; {told}")
}

/// The names of rows from which one is to be chosen: all, or the first of many.
pub fn some(names: &[&str]) -> String {
    match names {
        few if few.len() <= MOST => format!("rows are: {}", few.join(", ")),
        many => {
            format!("of {} the first are: {}; {LISTS}", rows(many), many[..MOST].join(", "))
        }
    }
}

/// How to see all of them.
const LISTS: &str = "--list prints all";

fn rows(names: &[&str]) -> String {
    counted(names.len() as u64, "row", "rows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_are_named_of_many() {
        let names: Vec<String> = ["linkbench", "ycsb-a"]
            .iter()
            .flat_map(|w| (0..50).map(move |n| format!("{w}/durassd/wal/clients={n}")))
            .chain(["tpcc/volatile".to_string()])
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let told = no_row("tpcc/durassd", &names);
        assert!(told.contains("of 101 rows") && told.contains("durassd"), "{told}");
        assert!(told.len() < 300 && told.contains("--list"), "{told}");
        let told = no_row("tpc/volatle", &names);
        assert!(told.contains("tpcc/volatile"), "{told}");
        let told = no_row("linkbnch", &names);
        assert!(told.contains("the nearest are: linkbench/durassd/wal/clients=0, "), "{told}");
        let told = no_row("%%%", &names);
        assert!(told.contains("the first are: linkbench"), "{told}");
        assert!(no_row("x", &names[..2]).contains("rows are: linkbench/durassd/wal/clients=0, "));
    }
}
