//! Reports as pages: one self-contained HTML file each.
//!
//! # Invariants
//!
//! 1. A page loads nothing: it contains its style and plots, has no script, and its content
//!    security policy allows none.
//! 2. The same report gives the same bytes.
//! 3. A value that was not measured is shown as a dash.
//! 4. No meaning depends on colour alone: bars have numbers, lines have marks and dashes, results
//!    have words.

mod axis;
mod colours;
mod comparison;
mod drives;
mod experiment;
mod lines;
mod picture;
mod plot;
mod published;
mod search;
mod sections;
mod text;

pub use comparison::comparison;
pub use experiment::{Command, experiment};
pub use picture::{Picture, UnknownPicture};
pub use search::{search, search_picture};

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A whole page.
fn page(title: &str, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="generator" content="tantalum";
                title { (title) }
                style { (PreEscaped(colours::page_style())) }
            }
            body { main { (body) } }
        }
    };
    let mut text = whole.into_string();
    text.push('\n');
    text
}

/// Tables with more rows than this scroll vertically.
const TALL: usize = 30;

/// A table in a box of its own, in which it scrolls if the page is narrow, and also vertically if
/// it has many rows.
fn scrolling(label: &str, rows: usize, table: &Markup) -> Markup {
    html! {
        div.scroll.tall[rows > TALL] role="region" aria-label=(label) tabindex="0" { (table) }
    }
}

/// A plot with its caption.
fn figure(caption: &str, plot: &impl maud::Render) -> Markup {
    html! { figure { figcaption { (caption) } (plot) } }
}
