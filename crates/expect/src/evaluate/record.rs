//! Who writes down what was evaluated: nobody, or a tree.

use crate::tree::Tree;

/// Takes lines as they are evaluated. A line is made only when it is kept.
pub(super) trait TreeRecorder {
    /// Whether somebody reads it: then keys side by side are all looked at.
    const READ: bool;

    /// A line begins; those that come until it is closed are below it.
    fn open(&mut self);

    /// The line that was opened, given those below it.
    fn close(&mut self, line: impl FnOnce(&[Tree]) -> Tree);

    /// A line with nothing below it.
    fn line(&mut self, line: impl FnOnce() -> Tree) {
        self.open();
        self.close(|_| line());
    }
}

/// Only the answer counts.
pub(super) struct NoTree;

impl TreeRecorder for NoTree {
    const READ: bool = false;

    #[inline]
    fn open(&mut self) {}

    #[inline]
    fn close(&mut self, _: impl FnOnce(&[Tree]) -> Tree) {}
}

#[derive(Default)]
pub(super) struct TreeLines {
    /// The lines of all open ones, the outermost first.
    lines: Vec<Tree>,
    open: Vec<usize>,
}

impl TreeLines {
    /// The tree. What stands side by side at the top is put below one line.
    pub(super) fn finish(mut self) -> Tree {
        if self.lines.len() == 1
            && let Some(tree) = self.lines.pop()
        {
            return tree;
        }
        super::sentence::top(self.lines)
    }
}

impl TreeRecorder for TreeLines {
    const READ: bool = true;

    fn open(&mut self) {
        self.open.push(self.lines.len());
    }

    fn close(&mut self, line: impl FnOnce(&[Tree]) -> Tree) {
        let first = self.open.pop().unwrap_or_default();
        let children = self.lines.split_off(first);
        let line = line(&children);
        self.lines.push(Tree { children, ..line });
    }
}
