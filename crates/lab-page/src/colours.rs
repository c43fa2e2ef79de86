//! The colours of pages and pictures, in light and dark mode.
//!
//! 1. A page names its colours as CSS variables.
//! 2. A picture that stands alone has no variables: some viewers of SVG draw them black. Its rules
//!    have the light colours, and stand again with the dark ones behind a media query, which viewers
//!    that know none pass over.

/// Rules of plots, with variables.
const PLOT: &str = include_str!("plot.css");

/// Rules of pages, with variables.
const PAGE: &str = include_str!("style.css");

/// Name, light colour, dark colour.
const COLOURS: [(&str, [&str; 2]); 12] = [
    ("back", ["#ffffff", "#0f1319"]),
    ("box", ["#f6f8fa", "#181e26"]),
    ("text", ["#1b1f24", "#e4e9ef"]),
    ("soft", ["#57606a", "#a3adb8"]),
    ("line", ["#d0d7de", "#343c46"]),
    ("bar", ["#0a5cc2", "#63aeff"]),
    ("bad", ["#a8202a", "#ff8d85"]),
    ("good", ["#14662b", "#5dcb78"]),
    ("s0", ["#0a5cc2", "#63aeff"]),
    ("s1", ["#b04a00", "#f2975a"]),
    ("s2", ["#14762f", "#5dcb78"]),
    ("s3", ["#8038c8", "#c79bff"]),
];

const LIGHT: usize = 0;
const DARK: usize = 1;

/// The style of a page with its plots.
pub(crate) fn page_style() -> String {
    let variables = |mode: usize| -> String {
        COLOURS.iter().map(|(name, colour)| format!(" --{name}: {};", colour[mode])).collect()
    };
    let (light, dark) = (variables(LIGHT), variables(DARK));
    format!(
        ":root {{ color-scheme: light dark;{light} }}\n\
         @media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n{PLOT}{PAGE}"
    )
}

/// The style of a picture that stands alone.
pub(crate) fn picture_style() -> String {
    let rules = |mode: usize| {
        COLOURS.iter().fold(PLOT.to_string(), |rules, (name, colour)| {
            rules.replace(&format!("var(--{name})"), colour[mode])
        })
    };
    format!("{}@media (prefers-color-scheme: dark) {{\n{}}}\n", rules(LIGHT), rules(DARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_no_variables_and_every_variable_of_a_page_has_a_colour() {
        let picture = picture_style();
        assert!(picture.contains("#0a5cc2") && picture.contains("#63aeff"));
        assert!(!picture.contains("var("), "{picture}");
        let mut page = page_style();
        for (name, _) in COLOURS {
            page = page.replace(&format!("var(--{name})"), "");
        }
        assert!(!page.contains("var("), "{page}");
    }
}
