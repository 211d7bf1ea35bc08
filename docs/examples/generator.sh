#!/bin/sh
# Rows DOWNPOUR_SHARD_BEGIN to before DOWNPOUR_SHARD_END. Row i is the same whoever asks for it, and in whatever range; another epoch has others.
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
