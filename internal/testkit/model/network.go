package model

import "iter"

// A network is an array of messages in a state. The messages are under way: each may arrive at any time,
// or never. The zero message is an empty place. The array is sorted, with empty places at the end, so
// that two networks with the same messages are equal.

// Put adds a message to a network. It returns false if there is no room.
func Put[M comparable](net []M, m M, order func(a, b M) int) bool {
	var none M
	i := len(net) - 1
	if net[i] != none {
		return false
	}
	for ; i > 0 && (net[i-1] == none || order(m, net[i-1]) < 0); i-- {
		net[i] = net[i-1]
	}
	net[i] = m
	return true
}

// Take removes message i.
func Take[M any](net []M, i int) {
	var none M
	copy(net[i:], net[i+1:])
	net[len(net)-1] = none
}

// Under returns the messages that are under way.
func Under[M comparable](net []M) []M {
	var none M
	for i, m := range net {
		if m == none {
			return net[:i]
		}
	}
	return net
}

// Different yields the messages without repetitions, each with its index. It does not matter which of
// several equal messages a step is about.
func Different[M comparable](net []M) iter.Seq2[int, M] {
	return func(yield func(int, M) bool) {
		for i, m := range Under(net) {
			if (i == 0 || m != net[i-1]) && !yield(i, m) {
				return
			}
		}
	}
}

// Change replaces each message, or removes it if change returns false.
func Change[M comparable](net []M, order func(a, b M) int, change func(M) (changed M, stays bool)) {
	var none M
	n := 0
	for _, m := range Under(net) {
		m, stays := change(m)
		if !stays {
			continue
		}
		i := n
		for ; i > 0 && order(m, net[i-1]) < 0; i-- {
			net[i] = net[i-1]
		}
		net[i] = m
		n++
	}
	for ; n < len(net); n++ {
		net[n] = none
	}
}

// Count returns the number of messages for which so is true.
func Count[M comparable](net []M, so func(M) bool) (n int) {
	for _, m := range Under(net) {
		if so(m) {
			n++
		}
	}
	return n
}

// Bit is 1 for true, to sort by a bool.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
