# Builds.
eval "make"
echo built
eval "make docs"
