#!/bin/sh
# user,item,cents,discount,label -> user,item,price,label: one line for each line, in order; an empty one drops it.
exec awk -F, -v OFS=, '$2 == "" { print ""; next } { print $1, $2, $3 / 100 * (1 - $4), $5 }'
