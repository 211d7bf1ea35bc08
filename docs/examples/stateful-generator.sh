#!/bin/sh
# Prints DOWNPOUR_RECORDS rows of a random walk through the items: each item is near the one before.
# The rows depend only on the seed and the epoch.
awk -v records="$DOWNPOUR_RECORDS" -v seed="$DOWNPOUR_SEED" -v epoch="$DOWNPOUR_EPOCH" '
  function draw(below) { state = (state * 16807) % 2147483647; return int(state / 2147483647 * below) }
  BEGIN {
    state = (seed * 1000003 + epoch * 7919) % 2147483646 + 1
    for (i = 0; i < records; ++i) {
      item = (item + draw(7) + 197) % 200
      user = draw(500)
      print "u" user ",i" item "," ((user + item) % 3 == 0)
    }
  }'
