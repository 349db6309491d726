//! The journal: ordered events of runs, and the values in them, in one SQLite file. It never decides anything.
