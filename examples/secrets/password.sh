#!/bin/sh
# A real one would ask a password manager.
echo opened-by-nobody
