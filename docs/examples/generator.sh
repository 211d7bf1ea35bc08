#!/bin/sh
# Prints the rows DOWNPOUR_SHARD_BEGIN to DOWNPOUR_SHARD_END - 1. Row i depends only on the seed,
# the epoch and i, so every worker gets the same row in every range.
awk -v begin="$DOWNPOUR_SHARD_BEGIN" -v end="$DOWNPOUR_SHARD_END" -v seed="$DOWNPOUR_SEED" -v epoch="$DOWNPOUR_EPOCH" '
  function draw(below) { state = (state * 16807) % 2147483647; return int(state / 2147483647 * below) }
  BEGIN {
    for (i = begin + 0; i < end + 0; ++i) {
      state = (seed * 1000003 + epoch * 7919 + i * 104729) % 2147483646 + 1
      draw(2); draw(2)
      user = draw(500); item = draw(200)
      print "u" user ",i" item "," ((user + item) % 3 == 0)
    }
  }'
