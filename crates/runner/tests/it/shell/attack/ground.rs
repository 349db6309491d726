//! The folder in which an attack is run, and the run itself. Whatever is run leaves the file `hit` there.

use std::path::Path;

use super::super::shells::{Folder, Shell, write_program};

/// The files that values of `values.txt` name.
const FILES: [(&str, &str); 12] = [
    ("a.txt", "alpha\nbeta\n"),
    ("pwn.py", "open('hit', 'w')\n"),
    ("pwn.js", "require('fs').writeFileSync('hit', '')\n"),
    ("pwn.mk", "$(shell >hit)\n"),
    ("ok.mk", "all:\n\t@true\n"),
    ("use.mk", "all:\n\t@echo $(V)\n"),
    ("home/.gitconfig", "[core]\n\tfsmonitor = \">hit;\"\n"),
    ("home/.zshenv", ">hit\n"),
    ("home/xdg/git/config", "[core]\n\tfsmonitor = \">hit;\"\n"),
    ("lib/sitecustomize.py", "open('hit', 'w')\n"),
    ("lib/pwn.pm", "open(F, '>hit'); 1;\n"),
    ("evil.git/config", "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \">hit;\"\n"),
];

pub(crate) struct Ground(Folder);

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        for folders in ["home/xdg/git", "lib", "bin", "evil.git/objects", "evil.git/refs"] {
            std::fs::create_dir_all(folder.0.join(folders)).unwrap();
        }
        std::fs::write(folder.0.join("evil.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        for (name, text) in FILES {
            std::fs::write(folder.0.join(name), text).unwrap();
        }
        for program in ["pwn", "bin/tool"] {
            write_program(&folder.0.join(program), "#!/bin/sh\n>hit\n");
        }
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.0
    }

    pub(crate) fn run(&self, shell: Shell, text: &str, environment: &[(String, String)]) {
        shell.run_silently(text, environment, self.path());
    }

    /// Whether a value was run.
    pub(crate) fn is_hit(&self) -> bool {
        self.path().join("hit").exists()
    }
}
