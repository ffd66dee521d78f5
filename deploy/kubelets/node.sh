#!/bin/sh
# The first process of a node, in namespaces of its own for network, mounts and processes: when it
# ends, so do all others of the node, and its mounts and addresses are gone. What systemd does on a
# real node it does here: start container runtime, kubelet and device plugin, and start them again.
set -eu
folder=$1 address=$2 gateway=$3 # and $4, the address of the API server for pods

mount --bind "$folder/kubelet" /var/lib/kubelet # where device plugins register, whatever --root-dir says
mount --bind "$folder/containerd" /var/lib/containerd # an overlay takes no colon in a path, and folders of tests have one
mount --bind "$folder/cni" /var/lib/cni
mount --bind "$folder/log" /var/log
mount -t tmpfs -o mode=755 tmpfs /run
mount --make-rshared /
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
ip address add "$4/32" dev lo
until ip link set eth0 up 2>/dev/null; do sleep 0.05; done
ip address add "$address/24" dev eth0
ip route add default via "$gateway"
while read -r pods via; do ip route add "$pods" via "$via"; done <"$folder/routes"

keep() {
	name=$1
	shift
	while :; do
		"$@" >>"$folder/log/$name.log" 2>&1 || :
		sleep 0.2
	done
}

keep containerd containerd --config "$folder/containerd.toml" &
until ctr --namespace k8s.io images import "$folder/images.tar" >>"$folder/log/images.log" 2>&1; do sleep 0.1; done
# shellcheck disable=SC2046 # one argument a line
keep kubelet kubelet $(cat "$folder/kubelet.arguments") &
while read -r daemon; do
	# shellcheck disable=SC2086 # words of a command
	keep daemon $daemon &
done <"$folder/daemons"
wait
