#!/bin/sh
# user,item,cents,discount,label -> user,item,price,label. Prints one line for each line, in the
# same order. An empty line drops the record.
exec awk -F, -v OFS=, '$2 == "" { print ""; next } { print $1, $2, $3 / 100 * (1 - $4), $5 }'
