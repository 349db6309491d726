rm -rf out
