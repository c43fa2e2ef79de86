//! Which lines of the screen are whose.
//!
//! 1. Everything has the lines of its text before anything has more.
//! 2. What is left goes to the curves and histograms of the commands: they show more with each line.
//! 3. If lines lack, this is given up, one after the other, until all text has room: lines of panels
//!    that go on in a second one, the bottoms and sides of boxes, what is wrapped below the title, the
//!    axis of the histograms. Then the last lines of the last panels are missing.

use super::commands;
use ratatui::widgets::Borders;

/// What there is to show, in lines.
pub struct Wanted<'a> {
    /// Of the screen.
    pub height: u16,
    /// Of the title, and what is below it.
    pub head: u16,
    /// Of the message and the keys.
    pub foot: u16,
    /// Of each panel, where long lines go on in a second one.
    pub wrapped: &'a [u16],
    /// The same where each line is one line.
    pub single: &'a [u16],
}

/// Who gets how many lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Shares {
    pub head: u16,
    pub commands: u16,
    pub panels: Vec<u16>,
    pub foot: u16,
    /// Whether long lines of panels go on in a second one.
    pub wraps: bool,
    pub borders: Borders,
}

impl Wanted<'_> {
    /// Shares the lines out.
    pub fn shares(&self) -> Shares {
        let low = self.head.min(2);
        let all = [
            (self.head, true, Borders::ALL, commands::LINES),
            (self.head, false, Borders::ALL, commands::LINES),
            (self.head, false, Borders::TOP, commands::LINES),
            (low, false, Borders::TOP, commands::LINES),
            (low, false, Borders::TOP, commands::LINES - 1),
        ];
        let need = |(head, wraps, borders, least): (u16, bool, Borders, u16)| {
            let frame = frame(borders);
            let panels = if wraps { self.wrapped } else { self.single };
            let panels = panels.iter().map(|lines| lines.saturating_add(frame));
            [head, self.foot, least + frame].into_iter().chain(panels).fold(0, u16::saturating_add)
        };
        let tight = all[all.len() - 1];
        let chosen = all.into_iter().find(|one| need(*one) <= self.height).unwrap_or(tight);
        let (head, wraps, borders, least) = chosen;
        let more = self.height.saturating_sub(need(chosen));
        let mut left = self.height;
        let mut take = |lines: u16| {
            let lines = lines.min(left);
            left -= lines;
            lines
        };
        let (foot, head) = (take(self.foot), take(head));
        let commands = take(least + frame(borders) + more);
        let panels = if wraps { self.wrapped } else { self.single };
        let panels = panels.iter().map(|n| take(n.saturating_add(frame(borders)))).collect();
        Shares { head, commands, panels, foot, wraps, borders }
    }
}

/// The lines of a box that are no content.
fn frame(borders: Borders) -> u16 {
    if borders == Borders::ALL { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted<'_> =
        Wanted { height: 0, head: 3, foot: 1, wrapped: &[5, 6], single: &[5, 4] };

    fn shares(height: u16) -> Shares {
        Wanted { height, ..WANTED }.shares()
    }

    #[test]
    fn what_is_left_goes_to_the_commands() {
        let roomy = shares(40);
        assert_eq!((roomy.commands, &roomy.panels[..], roomy.wraps), (21, &[7, 8][..], true));
        for height in 19..100 {
            let s = shares(height);
            let all = s.head + s.commands + s.foot + s.panels.iter().sum::<u16>();
            assert_eq!(all, height, "{s:?}");
        }
    }

    /// Least important first, and no line of a panel is given up before that.
    #[test]
    fn what_is_given_up_comes_in_order() {
        let seen = |height| {
            let s = shares(height);
            (s.wraps, s.borders == Borders::ALL, s.head, s.commands, s.panels)
        };
        assert_eq!(seen(26), (true, true, 3, 7, vec![7, 8]));
        assert_eq!(seen(25), (false, true, 3, 8, vec![7, 6]));
        assert_eq!(seen(24), (false, true, 3, 7, vec![7, 6]));
        assert_eq!(seen(23), (false, false, 3, 8, vec![6, 5]));
        assert_eq!(seen(21), (false, false, 3, 6, vec![6, 5]));
        assert_eq!(seen(20), (false, false, 2, 6, vec![6, 5]));
        assert_eq!(seen(19), (false, false, 2, 5, vec![6, 5]));
        assert_eq!(seen(18), (false, false, 2, 5, vec![6, 4]));
        assert_eq!(seen(2), (false, false, 1, 0, vec![0, 0]));
    }
}
