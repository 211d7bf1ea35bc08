#!/bin/sh
# Prints DOWNPOUR_RECORDS lines `user,item,genre`: what each user has taken. There are 500 users, 200
# items of 20 genres, and 10 tastes. Nine of ten times, a user takes an item of the own taste. The
# argument is the seed.
awk -v records="$DOWNPOUR_RECORDS" -v seed="$1" '
  function draw(below) { state = (state * 16807) % 2147483647; return int(state / 2147483647 * below) }
  BEGIN {
    state = seed * 1000003 + 1
    for (i = 0; i < records; ++i) {
      user = draw(500)
      item = draw(10) < 9 ? draw(20) * 10 + user % 10 : draw(200)
      print "u" user ",i" item ",g" int(item / 10)
    }
  }'
