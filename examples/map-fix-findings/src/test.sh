# Tests.
eval "make test"
