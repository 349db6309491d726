//! What somebody does who has just found the project: install it, and follow the README and the page "Getting
//! started" to the letter. A script follows them; this says where, and with which binary.

use crate::arguments::Effort;
use crate::failure::Failure;
use crate::project::{Project, output, run, works};

/// The pages that are followed without a bare root.
const PAGES: [&str; 2] = ["README.md", "spec/getting-started.md"];

/// With the binary of the tests, in a temporary folder. In full, with the packages, in a bare root.
pub(crate) fn check(project: &Project, effort: Effort) -> Result<(), Failure> {
    let hint = "what the page says is above, and what happened instead; mend what is wrong of the two";
    if effort == Effort::Short {
        let binary = project.target.join("debug/threadline");
        if !binary.exists() {
            return Err(Failure::new(format!("there is no {}", binary.display()), "run `cargo build` first"));
        }
        let mut follow = project.program("python3", &["packaging/follow.py", "--program"]);
        return run(follow.arg(binary).args(PAGES), hint);
    }
    needs(project)?;
    let mut build = project.program("packaging/build", &[]);
    run(build.env("CARGO_TARGET_DIR", &project.target), "see `cargo build --release --package threadline`")?;
    let mut attempt = project.program("packaging/try", &[]);
    run(attempt.env("CARGO_TARGET_DIR", &project.target), hint)
}

/// What a bare root needs, before the packages are built.
fn needs(project: &Project) -> Result<(), Failure> {
    let user = output(&mut project.program("id", &["-u"]), "see whether `id` is in your PATH")?;
    if user.trim() != "0" {
        return Err(Failure::new(
            "the packages are tried in a bare root, which only root can make",
            "start the long test as root; the short one follows the pages without a bare root",
        ));
    }
    if !works(&mut project.program("debootstrap", &["--version"])) {
        return Err(Failure::new("debootstrap is not installed", "run `apt-get install debootstrap`"));
    }
    Ok(())
}
