#!/bin/bash
# healthy PORT PATH: whether this container's own HTTP server answers 200. The shell costs a
# twentieth of a Python that is started for each check.
exec 3<>"/dev/tcp/127.0.0.1/$1" &&
	printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 &&
	read -r -t 4 _ status _ <&3 &&
	[ "$status" = 200 ]
