#!/bin/sh
# kill_after_save.sh CHECKPOINT COMMAND...: runs the command, and kills it after it has saved a checkpoint.
checkpoint=$1
shift
"$@" &
command=$!
until [ -e "$checkpoint" ]; do
  kill -0 "$command" || exit 1
  sleep 0.05
done
kill -KILL "$command"
wait "$command"
[ $? -eq 137 ]
