#!/bin/sh
# Stands for a program that takes its token from the environment.
echo "token $TOKEN, authorization $AUTHORIZATION" >&2
echo "uploaded to $1"
