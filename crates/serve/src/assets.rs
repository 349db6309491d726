//! The files that pages load. They are in the program: nothing is read from a disk, and no name becomes a path.

use threadline_inspect::graph::DRAWING_STYLE;

use crate::answer::ContentKind;

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) kind: ContentKind,
    pub(crate) content: &'static [u8],
}

/// Every file. One that is new has a line here.
pub(crate) const ASSETS: &[Asset] = &[
    Asset { name: "style.css", kind: ContentKind::Css, content: include_bytes!("../assets/style.css") },
    Asset { name: "drawing.css", kind: ContentKind::Css, content: DRAWING_STYLE.as_bytes() },
    Asset { name: "run.js", kind: ContentKind::Script, content: include_bytes!("../assets/run.js") },
    Asset { name: "start.js", kind: ContentKind::Script, content: include_bytes!("../assets/start.js") },
    Asset { name: "runs.js", kind: ContentKind::Script, content: include_bytes!("../assets/runs.js") },
];

/// The file with a name.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}
