//! What a run does, without doing it: machines take events and return commands. No clock, files or threads here.
